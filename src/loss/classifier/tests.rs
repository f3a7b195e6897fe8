//! Losses whose reason is known.
#![cfg(test)]

use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::signal::{Rtt, Snapshot};
use crate::test_clock::{ms, t0};
use crate::units::Bytes;

const DATAGRAM: Bytes = Bytes::new(1452);

/// A path of 40 ms whose queue delays by so much.
fn queue(queue: Duration) -> Delay {
    Delay { floor: ms(40), noise: Duration::ZERO, queue }
}

fn packet(sent: Instant) -> Snapshot {
    Snapshot {
        sent,
        bytes: DATAGRAM,
        tx_in_flight: DATAGRAM,
        delivered: Bytes::ZERO,
        delivered_at: t0(),
        first_sent: t0(),
        lost: Bytes::ZERO,
        app_limited: false,
        round: 0,
    }
}

/// So many packets arrive while the path is so.
fn arrive(classifier: &mut Classifier, packets: u32, delay: Delay) {
    let rtt = delay.floor + delay.queue;
    classifier.on_ack(&Ack {
        now: t0(),
        bytes: DATAGRAM.times(packets.into()),
        packets,
        in_flight: Bytes::ZERO,
        newest: packet(t0()),
        rtt: Rtt { latest: rtt, min: delay.floor, smoothed: rtt, deviation: Duration::ZERO },
        delay,
        sample: None,
        delivered: Bytes::ZERO,
        lost: Bytes::ZERO,
        round: 0,
        round_start: false,
    });
}

/// So many packets are lost, the n-th sent at n ms.
fn lose(classifier: &mut Classifier, packets: u32, persistent: bool) -> Verdict {
    let snapshots: Vec<_> = (0..u64::from(packets)).map(|n| packet(t0() + ms(n))).collect();
    let bytes = DATAGRAM.times(packets.into());
    let loss = Loss {
        now: t0() + ms(60),
        packets: &snapshots,
        bytes,
        in_flight: Bytes::ZERO,
        lost: bytes,
        persistent,
    };
    classifier.on_loss(&loss).expect("something was lost")
}

/// SplitMix64, and whether it falls below so many in a thousand.
fn is_chance(state: &mut u64, permille: u64) -> bool {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % 1000 < permille
}

/// Verdicts on so many packets of which so many in a thousand are lost one by one, by chance.
fn verdicts(classifier: &mut Classifier, packets: u32, permille: u64, delay: Delay) -> Vec<VerdictKind> {
    let mut state = 7;
    let mut kinds = Vec::new();
    for _ in 0..packets {
        if is_chance(&mut state, permille) {
            kinds.push(lose(classifier, 1, false).kind);
        } else {
            arrive(classifier, 1, delay);
        }
    }
    kinds
}

fn share(kinds: &[VerdictKind], kind: VerdictKind) -> usize {
    kinds.iter().filter(|&&found| found == kind).count() * 100 / kinds.len()
}

#[test]
fn random_loss_is_never_congestion_without_a_queue() {
    for permille in [5, 10, 50, 100] {
        let kinds = verdicts(&mut Classifier::default(), 20_000, permille, queue(Duration::ZERO));
        assert!(!kinds.contains(&VerdictKind::Congestion), "{permille} in 1000 lost");
    }
}

/// Verdicts of one who has seen 5000 packets of the path without a queue. The threshold is crossed at around
/// 4 % of such losses, by the binomial distribution.
fn assert_chance_is_scatter(permille: u64, delay: Delay) {
    let mut classifier = Classifier::default();
    let _ = verdicts(&mut classifier, 5_000, permille, queue(Duration::ZERO));
    let kinds = verdicts(&mut classifier, 20_000, permille, delay);
    let scatter = share(&kinds, VerdictKind::Scatter);
    assert!(scatter >= 90, "{permille} in 1000 lost: {scatter} %");
}

#[test]
fn two_percent_at_random_is_scatter() {
    assert_chance_is_scatter(10, queue(Duration::ZERO));
    assert_chance_is_scatter(20, queue(Duration::ZERO));
}

#[test]
fn five_percent_at_random_is_scatter() {
    assert_chance_is_scatter(50, queue(Duration::ZERO));
    assert_chance_is_scatter(100, queue(Duration::ZERO));
}

/// Our own probes raise the queue now and then: what was learnt before still explains the losses.
#[test]
fn random_loss_stays_scatter_under_a_queue() {
    assert_chance_is_scatter(50, queue(ms(10)));
}

#[test]
fn a_lone_loss_is_scatter_whatever_the_queue() {
    for delay in [queue(Duration::ZERO), queue(ms(30))] {
        let mut classifier = Classifier::default();
        arrive(&mut classifier, 64, delay);
        assert_eq!(lose(&mut classifier, 1, false).kind, VerdictKind::Scatter);
    }
}

#[test]
fn many_together_without_a_queue_are_a_burst() {
    let mut classifier = Classifier::default();
    arrive(&mut classifier, 64, queue(Duration::ZERO));
    assert_eq!(lose(&mut classifier, 10, false).kind, VerdictKind::Burst);
}

#[test]
fn many_together_under_a_queue_are_congestion() {
    let mut classifier = Classifier::default();
    arrive(&mut classifier, 64, queue(ms(6)));
    assert_eq!(lose(&mut classifier, 10, false).kind, VerdictKind::Congestion);
}

#[test]
fn a_queue_counts_from_an_eighth_of_the_floor() {
    let mut classifier = Classifier::default();
    arrive(&mut classifier, 64, queue(ms(5)));
    assert_eq!(lose(&mut classifier, 10, false).kind, VerdictKind::Burst);
}

#[test]
fn a_cluster_ends_after_64_packets() {
    let mut classifier = Classifier::default();
    arrive(&mut classifier, 64, queue(ms(10)));
    assert_eq!(lose(&mut classifier, 10, false).kind, VerdictKind::Congestion);
    arrive(&mut classifier, 64, queue(ms(10)));
    assert_eq!(lose(&mut classifier, 1, false).kind, VerdictKind::Scatter);
}

#[test]
fn persistent_congestion_is_the_transports_word() {
    let mut classifier = Classifier::default();
    arrive(&mut classifier, 64, queue(Duration::ZERO));
    assert_eq!(lose(&mut classifier, 1, true).kind, VerdictKind::Persistent);
}

#[test]
fn a_verdict_says_what_it_is_about() {
    let mut classifier = Classifier::default();
    arrive(&mut classifier, 64, queue(ms(6)));
    let verdict = lose(&mut classifier, 3, false);
    assert_eq!((verdict.now, verdict.newest), (t0() + ms(60), t0() + ms(2)));
    assert_eq!((verdict.packets, verdict.bytes), (3, DATAGRAM.times(3)));
    assert_eq!(verdict.queue, ms(6));
}

#[test]
fn no_packets_no_verdict() {
    let loss = Loss {
        now: t0(),
        packets: &[],
        bytes: Bytes::ZERO,
        in_flight: Bytes::ZERO,
        lost: Bytes::ZERO,
        persistent: true,
    };
    assert!(Classifier::default().on_loss(&loss).is_none());
}

proptest! {
    #[test]
    fn no_loss_is_congestion_without_a_queue(
        losses in prop::collection::vec((0u32..40, 1u32..40), 1..60),
        above in 0u64..=5,
    ) {
        let mut classifier = Classifier::default();
        for (arrived, lost) in losses {
            arrive(&mut classifier, arrived, queue(ms(above)));
            let verdict = lose(&mut classifier, lost, false);
            prop_assert!(matches!(verdict.kind, VerdictKind::Scatter | VerdictKind::Burst));
            prop_assert_eq!(verdict.packets, lost);
        }
    }
}

#[test]
fn chance_is_expected_where_it_was_met_and_no_queue_took_anything_lately() {
    let mut classifier = Classifier::default();
    arrive(&mut classifier, 100, queue(ms(0)));
    assert!(!classifier.expects_chance(t0()), "nothing was lost yet");
    lose(&mut classifier, 1, false);
    assert!(classifier.expects_chance(t0()));
    // An eighth of the floor, 5 ms, is no queue yet.
    arrive(&mut classifier, 1, queue(ms(6)));
    assert!(!classifier.expects_chance(t0() + ms(46)) && classifier.expects_chance(t0() + ms(47)));
    arrive(&mut classifier, 1, queue(ms(5)));
    assert!(classifier.expects_chance(t0()));
    // Eight round trips of 40 ms.
    classifier.on_mark(t0(), t0(), 1);
    assert!(!classifier.expects_chance(t0() + ms(320)) && classifier.expects_chance(t0() + ms(321)));
    lose(&mut classifier, 1, true);
    assert!(!classifier.expects_chance(t0() + ms(380)) && classifier.expects_chance(t0() + ms(381)));
}
