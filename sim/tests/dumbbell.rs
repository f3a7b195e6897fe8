//! Flows over one bottleneck: what is measured, and over which part of the run.

use std::time::Duration;

use warprate::cc::{Fixed, PathStart};
use warpsim::dumbbell::{Dumbbell, Flow};
use warpsim::laws::Made;
use warpsim::topology::HostKind;
use warpsim::topology::text::{Buffer, Multiple};
use warpunits::{Bytes, Rate};

const fn flow(rtt_ms: u64) -> Flow {
    Flow {
        law: "newreno",
        host: HostKind::Bare,
        rtt: Duration::from_millis(rtt_ms),
        start: Duration::ZERO,
        ack_every: None,
        ack_jitter: Duration::ZERO,
    }
}

/// 10 Mbit/s for 6 s, of which the last 4 count; 50 kB of buffer.
fn dumbbell(flows: Vec<Flow>) -> Dumbbell {
    Dumbbell {
        name: "test".into(),
        rate: Rate::mbps(10),
        buffer: Buffer::Bytes(Bytes::kb(50)),
        duration: Duration::from_secs(6),
        measured_from: Duration::from_secs(2),
        flows,
    }
}

/// A sender of so many percent of the bottleneck's 10 Mbit/s, in wire bytes.
fn percent(percent: u64) -> Made {
    // A datagram of 1452 bytes is 1518 on the wire.
    let payload = Rate::bits_per_sec(100_000 * percent * 1452 / 1518);
    Made::own(move |_: PathStart| Fixed::new(payload, Bytes::mb(10)))
}

#[test]
fn what_fits_is_shared_as_it_is_sent() {
    let shares = dumbbell(vec![flow(20), flow(200)])
        .run_with(1, |index, _| percent([60, 20][index]))
        .expect("it runs");
    // 60 and 20 of 80 percent; three to one has a Jain index of 16 / (2 · 10).
    assert!((shares.flows[0].of_all - 0.75).abs() < 0.002, "{shares:?}");
    assert!((shares.jain - 0.8).abs() < 0.003, "{shares:?}");
    assert!((shares.utilisation - 0.8).abs() < 0.002, "{shares:?}");
    // 1420 of 1518 bytes on the wire are the stream's.
    let goodput = shares.flows[0].goodput.as_mbps_f64();
    assert!((goodput - 6.0 * 1420.0 / 1518.0).abs() < 0.02, "{shares:?}");
    assert_eq!((shares.self_inflicted_loss, shares.flows[0].overflow_drops), (0.0, 0));
    // At most the other's packet is in the way, which takes 1.2 ms.
    assert!(shares.queue_p95 < Duration::from_millis(2), "{shares:?}");
}

#[test]
fn what_does_not_fit_waits_in_the_full_queue_and_is_dropped() {
    let shares = dumbbell(vec![flow(20)]).run_with(1, |_, _| percent(125)).expect("it runs");
    // 10 of 12.5 Mbit/s pass, and 50 kB take 40 ms.
    assert!((shares.self_inflicted_loss - 0.2).abs() < 0.005, "{shares:?}");
    assert!((shares.utilisation - 1.0).abs() < 0.002, "{shares:?}");
    for queue in [shares.queue_mean, shares.queue_p50, shares.queue_p95] {
        assert!((37.5..=40.1).contains(&(queue.as_secs_f64() * 1e3)), "{shares:?}");
    }
}

#[test]
fn only_the_measured_part_counts() {
    let mut late = dumbbell(vec![flow(20), flow(20)]);
    late.flows[1].start = Duration::from_secs(4);
    let run = |dumbbell: &Dumbbell| dumbbell.run_with(1, |_, _| percent(40)).expect("it runs");
    // The second flow has two of the four seconds.
    let shares = run(&late);
    assert!((shares.flows[1].of_all - 1.0 / 3.0).abs() < 0.005, "{shares:?}");
    late.measured_from = Duration::from_millis(4_500);
    let shares = run(&late);
    assert!((shares.flows[1].of_all - 0.5).abs() < 0.005, "{shares:?}");
}

#[test]
fn a_buffer_in_bdp_is_of_the_longest_round_trip() {
    let mut full = dumbbell(vec![flow(20), flow(200)]);
    full.buffer = Buffer::Bdp(Multiple::millionths(500_000));
    let shares = full.run_with(1, |_, _| percent(70)).expect("it runs");
    assert!((0.95..=1.001).contains(&(shares.queue_p95.as_secs_f64() / 0.1)), "{shares:?}");
}

#[test]
fn what_cannot_be_run_is_named() {
    let mut none = dumbbell(vec![flow(20)]);
    none.measured_from = none.duration;
    let error = none.run(1).expect_err("nothing to measure").to_string();
    assert_eq!(error, "test: measured from 6s on, expected less than the duration, 6s");
    let mut unknown = dumbbell(vec![flow(20)]);
    unknown.flows[0].law = "vegas";
    let error = unknown.run(1).expect_err("no such law").to_string();
    assert!(error.starts_with("test: flows[0].law: invalid value: string \"vegas\""), "{error}");
}
