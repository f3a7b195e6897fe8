//! Paths whose delay is known, sample by sample.
#![cfg(test)]

use proptest::prelude::*;

use super::*;
use crate::test_clock::{ms, t0, us};

/// The estimates after one sample per millisecond.
fn after(rtts: impl IntoIterator<Item = Duration>) -> Delay {
    let mut filter = DelayFilter::default();
    let mut delay = filter.get();
    for (n, rtt) in (0..).zip(rtts) {
        delay = filter.on_sample(t0() + ms(n), rtt);
    }
    delay
}

/// So many periods of ten packets: the first is held back by `most` of 1 to 9 ms, and those sent meanwhile
/// arrive together with it.
fn sawtooth(periods: u64, base: Duration, most: u64) -> impl Iterator<Item = Duration> {
    (0..periods * 10).map(move |n| base + ms(most.saturating_sub(n % 10)))
}

#[test]
fn nothing_is_known_before_the_first_sample() {
    assert_eq!(DelayFilter::default().get(), Delay::default());
}

#[test]
fn a_constant_delay_is_the_floor_and_nothing_else() {
    let delay = after(vec![ms(40); 1000]);
    assert_eq!((delay.floor, delay.noise, delay.queue), (ms(40), Duration::ZERO, Duration::ZERO));
}

#[test]
fn the_floor_is_forgotten_after_thirty_seconds() {
    let mut filter = DelayFilter::default();
    filter.on_sample(t0(), ms(10));
    for n in 1..=300 {
        assert_eq!(filter.on_sample(t0() + ms(100 * n), ms(20)).floor, ms(10), "after {n} · 100 ms");
    }
    assert_eq!(filter.on_sample(t0() + ms(30_100), ms(20)).floor, ms(20));
}

#[test]
fn a_lower_delay_is_the_floor_at_once() {
    assert_eq!(after([ms(40), ms(40), ms(39)]).floor, ms(39));
}

#[test]
fn a_queue_that_rises_is_queue() {
    // By 0.1 ms per packet to 20 ms: the least of the last 8 samples is 19.3 ms above the floor.
    let delay = after((0..=200).map(|n| ms(40) + us(100 * n)));
    assert_eq!((delay.floor, delay.noise, delay.queue), (ms(40), Duration::ZERO, us(19_300)));
}

#[test]
fn a_queue_that_drains_is_not_noise() {
    // At 0.4 ms per millisecond: arrivals at 6/10 of the link's rate.
    let fall = (0..=100).map(|n| ms(80) - us(400 * n));
    let delay = after(std::iter::once(ms(40)).chain(fall));
    assert_eq!((delay.floor, delay.noise, delay.queue), (ms(40), Duration::ZERO, Duration::ZERO));
}

#[test]
fn jitter_that_keeps_the_order_is_noise() {
    // Each tooth falls by 8 ms; the rise after it forgets 1/256.
    let delay = after(sawtooth(60, ms(40), 8));
    assert_eq!(delay.floor, ms(40));
    assert!(delay.noise > us(7_600) && delay.noise <= ms(8), "{delay:?}");
    assert_eq!(delay.queue, Duration::ZERO);
}

#[test]
fn a_queue_below_jitter_is_still_seen() {
    // 20 ms more, of which the noise may hide its own 4 ms, but no more.
    let delay = after(sawtooth(60, ms(40), 4).chain(sawtooth(60, ms(60), 4)));
    assert!(delay.queue >= ms(16) && delay.queue <= ms(20), "{delay:?}");
}

proptest! {
    #[test]
    fn the_floor_is_the_least_and_the_queue_lies_below_the_newest(
        rtts in prop::collection::vec(1u64..500_000, 1..300),
    ) {
        let mut filter = DelayFilter::default();
        let mut least = Duration::MAX;
        for (n, &rtt) in (0..).zip(&rtts) {
            let rtt = us(rtt);
            let delay = filter.on_sample(t0() + ms(n), rtt);
            least = least.min(rtt);
            prop_assert_eq!(delay.floor, least);
            prop_assert!(delay.queue <= rtt - least, "{delay:?} after {rtt:?}");
        }
    }

    #[test]
    fn a_longer_path_has_a_higher_floor_and_the_same_noise(
        rtts in prop::collection::vec(1u64..50_000, 1..300),
        more in 0u64..300_000,
    ) {
        let near = after(rtts.iter().map(|&rtt| us(rtt)));
        let far = after(rtts.iter().map(|&rtt| us(rtt + more)));
        prop_assert_eq!(far.floor, near.floor + us(more));
        prop_assert_eq!(far.noise, near.noise);
    }

    #[test]
    fn a_delay_that_never_falls_has_no_noise(mut rtts in prop::collection::vec(1u64..500_000, 1..300)) {
        rtts.sort_unstable();
        prop_assert_eq!(after(rtts.into_iter().map(us)).noise, Duration::ZERO);
    }
}
