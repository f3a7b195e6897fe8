//! Runs of the law over one bottleneck.
#![cfg(test)]

use std::time::Duration;

use super::WarpRate;
use crate::cc::testbed::{Bed, Path, is_within};
use crate::test_clock::ms;
use crate::units::{Bytes, Gain, Rate};

const LINK: Rate = Rate::mbps(100);

/// Behind an interface of 1 Gbit/s.
fn bed(path: Path, seed: u64) -> Bed<WarpRate> {
    Bed::new(path, |start| WarpRate::new(start.with_anchor(Rate::gbps(1)), seed))
}

fn path() -> Path {
    Path::new(LINK, ms(40))
}

/// Data delivered and the mean queue during the next `time`.
fn measure(bed: &mut Bed<WarpRate>, time: Duration) -> (Rate, Duration) {
    let before = bed.delivered();
    let samples = u32::try_from(time.as_millis()).expect("a short run");
    let mut queue = Duration::ZERO;
    for _ in 0..samples {
        bed.run_for(ms(1));
        queue += bed.queue() / bed.path.rate;
    }
    ((bed.delivered() - before) / time, queue / samples)
}

#[test]
fn one_flow_fills_the_link_with_a_short_queue() {
    for (quarters, seed) in [(1, 1), (2, 2), (4, 3), (16, 4)] {
        let buffer = path().bdp() * Gain::ratio(quarters, 4);
        let mut bed = bed(path().with_buffer(buffer), seed);
        bed.run_for(ms(5000));
        let (rate, queue) = measure(&mut bed, ms(10_000));
        assert!(is_within(rate, 3, LINK), "{quarters}/4 BDP: {rate}");
        assert!(queue < ms(5), "{quarters}/4 BDP: {queue:?}");
    }
}

#[test]
fn random_loss_costs_what_is_lost() {
    for permille in [5, 10, 20, 50, 100] {
        let mut bed = bed(Path { loss_permille: permille, ..path() }, 1);
        bed.run_for(ms(5000));
        let (rate, queue) = measure(&mut bed, ms(10_000));
        let whole = LINK * Gain::ratio(1000 - permille, 1000);
        assert!(rate >= whole * Gain::percent(95), "{permille} in 1000 lost: {rate} of {whole}");
        assert!(queue < ms(5), "{permille} in 1000 lost: {queue:?}");
    }
}

#[test]
fn an_outage_is_no_evidence() {
    for seed in 1..=3 {
        let mut bed = bed(path(), seed);
        bed.run_for(ms(5000));
        bed.path.lose_every = Some(1);
        bed.run_for(ms(200));
        bed.path.lose_every = None;
        // Three in 30 s shall leave 90 %.
        let data = LINK * ms(10_000) * Gain::percent(90);
        let after = bed.measure(ms(9800)) * ms(9800);
        assert!(after >= data, "seed {seed}: {after} of {data}");
    }
}

#[test]
fn a_drop_of_capacity_is_followed() {
    for seed in 1..=3 {
        let mut bed = bed(path(), seed);
        bed.run_for(ms(5000));
        bed.path.rate = Rate::mbps(20);
        bed.run_for(ms(500));
        let (rate, queue) = measure(&mut bed, ms(5000));
        assert!(queue < ms(10), "seed {seed}: {queue:?}");
        assert!(is_within(rate, 5, Rate::mbps(20)), "seed {seed}: {rate}");
    }
}

#[test]
fn capacity_that_returns_is_found() {
    for seed in 1..=3 {
        let mut bed = bed(Path { rate: Rate::mbps(20), ..path() }, seed);
        bed.run_for(ms(5000));
        bed.path.rate = LINK;
        bed.run_for(ms(1000));
        let (rate, _) = measure(&mut bed, ms(1000));
        assert!(rate >= LINK * Gain::percent(90), "seed {seed}: {rate}");
    }
}

#[test]
fn an_application_that_pauses_finds_the_rate_it_left() {
    let mut bed = bed(path(), 1);
    bed.run_for(ms(5000));
    bed.set_steady(Rate::mbps(5));
    bed.run_for(ms(5000));
    assert!(bed.law(|law| law.rate) >= LINK * Gain::percent(90), "{}", bed.law(|law| law.rate));
    bed.set_bulk();
    bed.run_for(ms(40));
    let rate = bed.measure(ms(1000));
    assert!(is_within(rate, 5, LINK), "{rate}");
}

#[test]
fn a_path_that_delivered_next_to_nothing_is_filled_again() {
    let mut bed = bed(path(), 1);
    bed.run_for(ms(3000));
    bed.path.loss_permille = 970;
    bed.run_for(ms(5000));
    bed.path.loss_permille = 0;
    bed.run_for(ms(20_000));
    let (rate, _) = measure(&mut bed, ms(2000));
    assert!(rate >= LINK * Gain::percent(90), "{rate}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut bed = bed(Path { loss_permille: 10, ..path() }, seed);
        bed.run_for(ms(5000));
        (bed.delivered(), bed.trace().into_iter().map(|(_, state)| state).collect::<Vec<_>>())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2), "the seed spreads the probes");
}

#[test]
fn a_start_into_a_slow_path_drops_little() {
    for mbps in [5, 20] {
        let mut bed = bed(Path::new(Rate::mbps(mbps), ms(40)), 1);
        bed.run_for(ms(1000));
        let dropped = crate::cc::testbed::DATAGRAM.times(bed.sent_and_dropped().1);
        assert!(dropped <= Bytes::kb(100), "{mbps} Mbit/s: {dropped}");
    }
}
