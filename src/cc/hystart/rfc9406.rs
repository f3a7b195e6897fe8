//! HyStart++'s rounds, as RFC 9406 §4.2 has them.

use super::*;
use crate::signal::{Rtt, Snapshot};
use crate::test_clock::{ms, t0};

const PACKET: Bytes = Bytes::new(1000);

fn ack(rtt: Duration, round_start: bool) -> Ack {
    let newest = Snapshot {
        sent: t0(),
        bytes: PACKET,
        tx_in_flight: PACKET,
        delivered: Bytes::ZERO,
        delivered_at: t0(),
        first_sent: t0(),
        lost: Bytes::ZERO,
        app_limited: false,
        round: 0,
    };
    Ack {
        now: t0() + rtt,
        bytes: PACKET,
        packets: 1,
        in_flight: PACKET,
        newest,
        rtt: Rtt { latest: rtt, min: rtt, smoothed: rtt, deviation: Duration::ZERO },
        delay: crate::signal::Delay::default(),
        sample: None,
        delivered: Bytes::ZERO,
        lost: Bytes::ZERO,
        round: 0,
        round_start,
    }
}

/// A round of `n` ACKs with this RTT; what the last of them meant.
fn round(hystart: &mut HyStart, rtt: Duration, n: u32) -> Growth {
    let mut growth = Growth::Done;
    for i in 0..n {
        growth = hystart.on_ack(&ack(rtt, i == 0));
    }
    growth
}

fn quarter() -> Growth {
    Growth::By(Bytes::new(250))
}

fn full() -> Growth {
    Growth::By(PACKET)
}

#[test]
fn slow_start_grows_by_what_is_acknowledged() {
    let mut hystart = HyStart::new();
    for _ in 0..10 {
        assert_eq!(round(&mut hystart, ms(40), 8), full());
    }
}

#[test]
fn a_rise_of_an_eighth_begins_the_conservative_phase_at_the_eighth_sample() {
    let mut hystart = HyStart::new();
    round(&mut hystart, ms(80), 8);
    assert_eq!(round(&mut hystart, ms(90), 7), full());
    assert_eq!(hystart.on_ack(&ack(ms(90), false)), quarter());
}

#[test]
fn the_threshold_lies_between_4_and_16_ms() {
    // An eighth of 8 ms is 1 ms, but 4 ms are asked for; of 800 ms 100 ms, but 16 ms suffice.
    for (base, below, above) in [(8, 11, 12), (800, 815, 816)] {
        let after = |rise| {
            let mut hystart = HyStart::new();
            round(&mut hystart, ms(base), 8);
            round(&mut hystart, ms(rise), 8)
        };
        assert_eq!((after(below), after(above)), (full(), quarter()), "{base} ms");
    }
}

#[test]
fn seven_samples_are_too_few() {
    let mut hystart = HyStart::new();
    round(&mut hystart, ms(80), 8);
    assert_eq!(round(&mut hystart, ms(200), 7), full());
}

#[test]
fn the_conservative_phase_lasts_five_rounds_the_partial_one_included() {
    let mut hystart = HyStart::new();
    round(&mut hystart, ms(80), 8);
    assert_eq!(round(&mut hystart, ms(100), 8), quarter());
    for _ in 0..4 {
        assert_eq!(round(&mut hystart, ms(100), 8), quarter());
    }
    assert_eq!(hystart.on_ack(&ack(ms(100), true)), Growth::Done);
}

#[test]
fn an_rtt_that_falls_again_was_a_false_alarm() {
    let mut hystart = HyStart::new();
    round(&mut hystart, ms(80), 8);
    assert_eq!(round(&mut hystart, ms(100), 8), quarter());
    assert_eq!(round(&mut hystart, ms(85), 8), full());
    // And a later rise is judged anew, against the round before it.
    assert_eq!(round(&mut hystart, ms(96), 8), quarter());
}
