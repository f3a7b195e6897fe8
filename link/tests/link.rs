//! What a link does with packets, number by number.

use std::num::NonZeroU32;
use std::time::Duration;

use warplink::{
    Fate, Jitter, Link, Loss, Losses, Order, Probability, Profile, Queue, Span, Time, Wire, link_seed,
    serialisation, wire_bytes,
};
use warpunits::{Bytes, Rate};

/// A full datagram on the wire.
const FULL: Bytes = Bytes::new(1518);
const NO_DELAY: Duration = Duration::ZERO;

fn profile(rate: Rate, delay: Duration, buffer: Bytes) -> Profile {
    Profile::new(rate, delay, buffer).expect("valid")
}

fn jitter(sigma: Duration, order: Order) -> Jitter {
    Jitter::new(sigma, order).expect("valid")
}

fn micros(n: u64) -> Time {
    Time::from(Duration::from_micros(n))
}

fn at(fate: Fate) -> Time {
    match fate {
        Fate::Delivered { at, .. } => at,
        Fate::Lost(why) => panic!("lost by {why:?}"),
    }
}

/// The fates of `n` full packets, each offered when the transmitter has become idle.
fn fates(profile: Profile, seed: u64, n: usize) -> Vec<Fate> {
    let mut link = Link::new(profile, seed);
    (0..n).map(|_| link.offer(link.idle_at(), FULL)).collect()
}

fn is_random_loss(fate: &Fate) -> bool {
    *fate == Fate::Lost(Loss::Random)
}

#[test]
fn a_packet_takes_its_serialisation_and_the_delay() {
    let mut link = Link::new(profile(Rate::mbps(100), Duration::from_millis(20), Bytes::ZERO), 1);
    // 1518 bytes at 12.5 MB/s are 121.44 us.
    let departed = Time::from_picos(121_440_000);
    let at = Time::from_picos(20_121_440_000);
    assert_eq!(link.offer(Time::START, FULL), Fate::Delivered { at, departed });
}

#[test]
fn serialisation_rounds_up_to_a_picosecond() {
    assert_eq!(serialisation(Bytes::new(1), Rate::bytes_per_sec(3)), Span::from_picos(333_333_333_334));
    assert_eq!(serialisation(Bytes::new(3), Rate::bytes_per_sec(3)), Span::from_picos(1_000_000_000_000));
    assert_eq!(serialisation(Bytes::MAX, Rate::bytes_per_sec(1)), Span::MAX);
    assert_eq!(serialisation(Bytes::new(1), Rate::ZERO), Span::MAX);
    assert_eq!(serialisation(FULL, Rate::MAX), Span::ZERO);
}

#[test]
fn rounding_drifts_by_at_most_a_picosecond_per_packet() {
    // 1518 bytes at 7,000,001 bytes/s take no whole number of picoseconds.
    let rate = Rate::bytes_per_sec(7_000_001);
    let mut link = Link::new(profile(rate, NO_DELAY, Bytes::MAX), 1);
    let n = 1_000_000u32;
    for _ in 0..n {
        link.offer(Time::START, FULL);
    }
    let exact = 1518 * 1_000_000_000_000 * u128::from(n) / 7_000_001;
    let drift = u128::from(link.idle_at().as_picos()) - exact;
    assert!(drift <= u128::from(n), "{drift} ps after {n} packets");
}

#[test]
fn packets_queue_behind_each_other_and_the_link_idles_between() {
    // 1 MB/s: 1000 bytes take 1 ms.
    let mut link = Link::new(profile(Rate::bytes_per_sec(1_000_000), NO_DELAY, Bytes::MAX), 1);
    let kb = Bytes::kb(1);
    assert_eq!(at(link.offer(micros(0), kb)), micros(1_000));
    assert_eq!(at(link.offer(micros(400), kb)), micros(2_000));
    assert_eq!(at(link.offer(micros(2_000), kb)), micros(3_000));
    assert_eq!(at(link.offer(micros(7_000), kb)), micros(8_000));
}

#[test]
fn the_buffer_excludes_the_packet_in_transmission() {
    let mut link = Link::new(profile(Rate::bytes_per_sec(1_000_000), NO_DELAY, Bytes::kb(2)), 1);
    let kb = Bytes::kb(1);
    assert_eq!(at(link.offer(Time::START, kb)), micros(1_000), "goes to the transmitter");
    assert_eq!(at(link.offer(Time::START, kb)), micros(2_000), "waits");
    assert_eq!(at(link.offer(Time::START, kb)), micros(3_000), "fills the buffer to the byte");
    assert_eq!(link.offer(Time::START, Bytes::new(1)), Fate::Lost(Loss::Overflow));
    // One picosecond before the second packet's transmission begins there is no room, then there is.
    let almost = Time::from_picos(micros(1_000).as_picos() - 1);
    assert_eq!(link.offer(almost, Bytes::new(1)), Fate::Lost(Loss::Overflow));
    assert_eq!(at(link.offer(micros(1_000), kb)), micros(4_000));
    assert_eq!(link.offer(micros(1_000), Bytes::new(1)), Fate::Lost(Loss::Overflow));
}

#[test]
fn without_a_buffer_a_busy_transmitter_refuses() {
    let mut link = Link::new(profile(Rate::bytes_per_sec(1_000_000), NO_DELAY, Bytes::ZERO), 1);
    assert_eq!(at(link.offer(micros(0), Bytes::kb(1))), micros(1_000));
    assert_eq!(link.offer(micros(999), Bytes::kb(1)), Fate::Lost(Loss::Overflow));
    assert_eq!(at(link.offer(micros(1_000), Bytes::kb(1))), micros(2_000));
}

#[test]
fn the_queue_tells_what_waits_and_for_how_long() {
    let mut link = Link::new(profile(Rate::bytes_per_sec(1_000_000), NO_DELAY, Bytes::MAX), 1);
    for _ in 0..3 {
        link.offer(Time::START, Bytes::kb(1));
    }
    let queue =
        |kb, micros| Queue { bytes: Bytes::kb(kb), sojourn: Span::from(Duration::from_micros(micros)) };
    assert_eq!(link.queue(micros(0)), queue(2, 3_000));
    assert_eq!(link.queue(micros(999)), queue(2, 2_001));
    assert_eq!(link.queue(micros(1_000)), queue(1, 2_000));
    assert_eq!(link.queue(micros(2_500)), queue(0, 500));
    assert_eq!(link.queue(micros(9_000)), queue(0, 0));
}

#[test]
fn unlimited_rate_means_no_serialisation_and_no_queue() {
    let mut link = Link::new(profile(Rate::MAX, Duration::from_millis(5), Bytes::ZERO), 1);
    for _ in 0..1000 {
        assert_eq!(at(link.offer(micros(3), FULL)), micros(5_003));
    }
}

#[test]
fn time_does_not_run_backwards() {
    let mut link = Link::new(profile(Rate::MAX, NO_DELAY, Bytes::ZERO), 1);
    link.offer(micros(10), FULL);
    assert_eq!(at(link.offer(micros(3), FULL)), micros(10));
}

#[test]
fn wire_bytes_add_headers_and_framing() {
    assert_eq!(wire_bytes(Bytes::new(1452), false), Bytes::new(1518));
    assert_eq!(wire_bytes(Bytes::new(1452), true), Bytes::new(1538));
}

#[test]
fn a_packet_lost_at_random_has_used_the_transmitter() {
    let lossy = profile(Rate::bytes_per_sec(1_000_000), NO_DELAY, Bytes::MAX).with_loss(Probability::ONE);
    let mut link = Link::new(lossy, 1);
    assert_eq!(link.offer(Time::START, Bytes::kb(1)), Fate::Lost(Loss::Random));
    assert_eq!(link.idle_at(), micros(1_000));
}

#[test]
fn losses_have_their_rate_and_do_not_cluster() {
    let n = 1_000_000;
    for (ppb, seed) in [(100_000, 1), (10_000_000, 2), (50_000_000, 3), (500_000_000, 4)] {
        let p = Probability::parts_per_billion(ppb).expect("valid");
        let fates = fates(profile(Rate::MAX, NO_DELAY, Bytes::ZERO).with_loss(p), seed, n);
        let lost = fates.iter().filter(|fate| is_random_loss(fate)).count();
        assert_near(lost, p.as_f64(), n, "losses");
        let after_loss = fates.windows(2).filter(|two| is_random_loss(&two[0]) && is_random_loss(&two[1]));
        assert_near(after_loss.count(), p.as_f64(), lost, "losses right after a loss");
    }
}

/// Asserts that `count` successes among `n` trials are within 4.5 standard deviations of `p`.
fn assert_near(count: usize, p: f64, n: usize, what: &str) {
    let (mean, sigma) = (p * n as f64, (p * (1.0 - p) * n as f64).sqrt());
    let off = (count as f64 - mean).abs();
    assert!(off <= 4.5 * sigma + 1.0, "{count} {what} of {n}, expected {mean} with sigma {sigma}");
}

#[test]
fn seeds_and_links_lose_independently() {
    let n = 100_000;
    let p = Probability::percent(10);
    let lossy = profile(Rate::MAX, NO_DELAY, Bytes::ZERO).with_loss(p);
    let runs = [1, 2, link_seed(1, 0), link_seed(1, 1)].map(|seed| fates(lossy.clone(), seed, n));
    for (i, a) in runs.iter().enumerate() {
        for b in &runs[..i] {
            let both = a.iter().zip(b).filter(|(a, b)| is_random_loss(a) && is_random_loss(b)).count();
            assert_near(both, 0.01, n, "losses at the same place");
        }
    }
}

#[test]
fn periodic_loss_takes_every_nth_packet() {
    let every = Losses::Every(NonZeroU32::new(4).expect("not zero"));
    let fates = fates(profile(Rate::MAX, NO_DELAY, Bytes::ZERO).with_loss(every), 1, 12);
    let lost: Vec<_> = (1..).zip(&fates).filter(|(_, fate)| is_random_loss(fate)).map(|(n, _)| n).collect();
    assert_eq!(lost, [4, 8, 12]);
}

#[test]
fn a_black_hole_loses_what_departs_in_it() {
    // 1000 bytes take 1 ms; from 2 ms on everything is lost, from 4 ms on nothing.
    let steps = [(2, Probability::ONE), (4, Probability::ZERO)]
        .map(|(at, loss)| (Duration::from_millis(at), Losses::Random(loss)));
    let holed = profile(Rate::bytes_per_sec(1_000_000), NO_DELAY, Bytes::MAX);
    let mut link = Link::new(holed.with_loss_steps(steps.to_vec()).expect("valid"), 1);
    let lost = [(); 5].map(|()| is_random_loss(&link.offer(Time::START, Bytes::new(1000))));
    // They depart at 1, 2, 3, 4 and 5 ms.
    assert_eq!(lost, [false, true, true, false, false]);
}

#[test]
fn jitter_does_not_change_which_packets_are_lost() {
    let plain =
        profile(Rate::mbps(100), Duration::from_millis(5), Bytes::ZERO).with_loss(Probability::percent(7));
    let expected: Vec<bool> = fates(plain.clone(), 9, 10_000).iter().map(is_random_loss).collect();
    for order in [Order::Fifo, Order::Reorder] {
        let varied = plain.clone().with_jitter(jitter(Duration::from_millis(3), order));
        assert_eq!(fates(varied, 9, 10_000).iter().map(is_random_loss).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn loss_does_not_change_when_the_others_arrive() {
    let jitter = jitter(Duration::from_millis(3), Order::Reorder);
    let plain = profile(Rate::mbps(100), Duration::from_millis(20), Bytes::ZERO).with_jitter(jitter);
    let lossy = fates(plain.clone().with_loss(Probability::percent(30)), 9, 10_000);
    for (with_loss, without) in lossy.iter().zip(fates(plain, 9, 10_000)) {
        assert!(is_random_loss(with_loss) || *with_loss == without);
    }
}

#[test]
fn an_overflow_does_not_shift_the_draws_of_later_packets() {
    let lossy = profile(Rate::mbps(100), NO_DELAY, Bytes::MAX).with_loss(Probability::percent(50));
    let (mut roomy, mut tight) = (Link::new(lossy.clone(), 3), Link::new(lossy.with_buffer(Bytes::ZERO), 3));
    for n in 0..10_000 {
        let (a, b) = (roomy.offer(micros(50 * n), FULL), tight.offer(micros(50 * n), FULL));
        assert!(b == Fate::Lost(Loss::Overflow) || is_random_loss(&a) == is_random_loss(&b));
    }
}

#[test]
fn jitter_has_the_mean_and_deviation_asked_for_whatever_is_lost() {
    let (delay, sigma) = (Duration::from_millis(50), Duration::from_millis(5));
    let varied = profile(Rate::MAX, delay, Bytes::ZERO)
        .with_jitter(jitter(sigma, Order::Reorder))
        .with_loss(Probability::percent(30));
    let survivors = fates(varied, 5, 300_000).into_iter().filter(|fate| !is_random_loss(fate));
    let millis: Vec<f64> = survivors.map(|fate| at(fate).as_picos() as f64 / 1e9).collect();
    let mean = millis.iter().sum::<f64>() / millis.len() as f64;
    let sigma = (millis.iter().map(|ms| (ms - mean).powi(2)).sum::<f64>() / millis.len() as f64).sqrt();
    assert!((mean - 50.0).abs() < 0.05, "mean {mean} ms");
    assert!((sigma - 5.0).abs() < 0.05, "sigma {sigma} ms");
}

#[test]
fn fifo_keeps_order_where_reorder_does_not() {
    let base = profile(Rate::mbps(100), Duration::from_millis(20), Bytes::ZERO);
    let arrivals = |order| -> Vec<Time> {
        fates(base.clone().with_jitter(jitter(Duration::from_millis(5), order)), 5, 10_000)
            .into_iter()
            .map(at)
            .collect()
    };
    let (fifo, reorder) = (arrivals(Order::Fifo), arrivals(Order::Reorder));
    assert!(fifo.is_sorted());
    assert!(!reorder.is_sorted());
    // Fifo is the running maximum of the same draws.
    let mut latest = Time::START;
    for (fifo, reorder) in fifo.into_iter().zip(reorder) {
        latest = latest.max(reorder);
        assert_eq!(fifo, latest);
    }
}

#[test]
fn a_packet_cannot_arrive_before_it_has_departed() {
    // Sigma is ten times the delay, so nearly half of all draws are clipped.
    let jitter = jitter(Duration::from_millis(10), Order::Reorder);
    let fates =
        fates(profile(Rate::mbps(100), Duration::from_millis(1), Bytes::ZERO).with_jitter(jitter), 5, 10_000);
    let clipped = fates.iter().filter(|fate| match fate {
        Fate::Delivered { at, departed } => {
            assert!(at >= departed);
            at == departed
        }
        Fate::Lost(why) => panic!("lost by {why:?}"),
    });
    // P(N(1, 10) < 0) = 0.4602.
    assert_near(clipped.count(), 0.4602, 10_000, "arrivals without delay");
}

#[test]
fn lost_packets_hold_nobody_up() {
    let fifo = profile(Rate::MAX, Duration::from_millis(20), Bytes::ZERO)
        .with_jitter(jitter(Duration::from_millis(5), Order::Fifo))
        .with_loss(Probability::percent(50));
    let reorder = fifo.clone().with_jitter(jitter(Duration::from_millis(5), Order::Reorder));
    let mut latest = Time::START;
    for (fifo, reorder) in fates(fifo, 6, 1_000).into_iter().zip(fates(reorder, 6, 1_000)) {
        if !is_random_loss(&fifo) {
            latest = latest.max(at(reorder));
            assert_eq!(at(fifo), latest);
        }
    }
}

#[test]
fn a_link_is_a_queue_and_a_wire() {
    let varied = profile(Rate::mbps(100), Duration::from_millis(5), Bytes::kb(20))
        .with_loss(Probability::percent(20))
        .with_jitter(jitter(Duration::from_millis(3), Order::Fifo));
    let (mut link, mut wire) = (Link::new(varied.clone(), 8), Wire::new(&varied, 8));
    let mut overflows = 0;
    for n in 0..10_000 {
        // The packet's number counts those that overflow, too.
        let fate = link.offer(micros(100 * n), FULL);
        if fate == Fate::Lost(Loss::Overflow) {
            overflows += 1;
            continue;
        }
        let carried = wire.carry(n, link.idle_at());
        assert_eq!(carried.is_none(), is_random_loss(&fate));
        assert!(carried.is_none_or(|arrives| arrives == at(fate)));
    }
    assert!(overflows > 1_000, "{overflows} overflows");
}

#[test]
fn a_packet_finishes_one_serialisation_after_it_starts() {
    let profile = profile(Rate::bytes_per_sec(3), NO_DELAY, Bytes::MAX);
    assert_eq!(profile.finish(Time::from_picos(5), Bytes::new(1)), Time::from_picos(333_333_333_339));
    assert_eq!(profile.finish(micros(5), Bytes::ZERO), micros(5));
    assert_eq!(profile.finish(micros(5), Bytes::MAX), Time::NEVER);
}
