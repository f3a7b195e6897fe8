//! Links that change while they run, by values worked out by hand.

use std::time::Duration;

use warplink::{Fate, Jitter, Link, Loss, Order, Probability, Profile, Span, Time, Wire};
use warpunits::{Bytes, Rate};

/// 1000 bytes take 1 ms.
const MB_PER_SEC: Rate = Rate::bytes_per_sec(1_000_000);
const KB: Bytes = Bytes::kb(1);

fn profile() -> Profile {
    Profile::new(MB_PER_SEC, Duration::ZERO, Bytes::kb(3)).expect("valid")
}

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn at(n: u64) -> Time {
    Time::from(us(n))
}

fn with_rates(steps: &[(u64, u64)]) -> Profile {
    let steps = steps.iter().map(|&(at, rate)| (us(at), Rate::bytes_per_sec(rate))).collect();
    profile().with_rate_steps(steps).expect("valid")
}

fn with_outages(outages: &[(u64, u64)]) -> Profile {
    let outages = outages.iter().map(|&(at, length)| (us(at), us(length))).collect();
    profile().with_outages(outages).expect("valid")
}

fn with_delays(steps: &[(u64, u64)], order: Order) -> Profile {
    let steps = steps.iter().map(|&(at, delay)| (us(at), us(delay))).collect();
    let jitter = Jitter::new(Duration::ZERO, order).expect("valid");
    profile().with_delay_steps(steps).expect("valid").with_jitter(jitter)
}

/// Arrival and departure in microseconds.
fn delivered(fate: Fate) -> (Time, Time) {
    match fate {
        Fate::Delivered { at, departed } => (at, departed),
        Fate::Lost(why) => panic!("lost by {why:?}"),
    }
}

#[test]
fn a_packet_under_a_rate_step_takes_its_parts_at_both_rates() {
    // 400 bytes in 400 us, then 600 bytes at 3 MB/s.
    let faster = with_rates(&[(400, 3_000_000)]);
    assert_eq!(faster.finish(at(0), KB), at(600));
    // 100 bytes in 100 us, then 900 bytes at 7 bytes/us: 128.571428 5... us, rounded up.
    let odd = with_rates(&[(400, 7_000_000)]);
    assert_eq!(odd.finish(at(300), KB), Time::from_picos(400_000_000 + 128_571_429));
    // 100 bytes, 50 bytes at 0.5 MB/s, 850 bytes at 2 MB/s.
    let two = with_rates(&[(400, 500_000), (500, 2_000_000)]);
    assert_eq!(two.finish(at(300), KB), at(925));
}

#[test]
fn a_packet_that_ends_with_a_step_does_not_feel_it() {
    let slower = with_rates(&[(1_000, 1)]);
    assert_eq!(slower.finish(at(0), KB), at(1_000));
    assert_eq!(slower.finish(at(0), KB + Bytes::new(1)), at(1_001_000));
    // One that begins with the step has the new rate altogether.
    assert_eq!(slower.finish(at(1_000), Bytes::new(2)), at(2_001_000));
}

#[test]
fn a_step_at_the_start_replaces_the_first_rate() {
    let profile = with_rates(&[(0, 2_000_000)]);
    assert_eq!(profile.finish(at(0), KB), at(500));
    assert_eq!((profile.rate(), profile.rate_at(at(0))), (MB_PER_SEC, Rate::bytes_per_sec(2_000_000)));
}

#[test]
fn the_queue_drains_at_the_rate_of_the_moment() {
    let mut link = Link::new(with_rates(&[(1_500, 4_000_000)]), 1);
    let departures = [0; 4].map(|now| delivered(link.offer(at(now), KB)).1);
    // The second sends 500 bytes before the step and 500 after it.
    assert_eq!(departures, [at(1_000), at(1_625), at(1_875), at(2_125)]);
    assert_eq!(link.queue(at(1_700)).sojourn, Span::from(us(425)));
    assert_eq!(link.queue(at(1_700)).bytes, KB);
}

#[test]
fn an_outage_in_the_middle_of_a_packet_stretches_it() {
    let profile = with_outages(&[(400, 10_000)]);
    assert_eq!(profile.finish(at(0), KB), at(11_000));
    assert_eq!(profile.finish(at(0), Bytes::new(400)), at(400), "its last bit has just left");
    assert_eq!(profile.finish(at(400), KB), at(11_400));
    assert_eq!(profile.finish(at(5_000), KB), at(11_400));
    assert_eq!(profile.finish(at(5_000), Bytes::ZERO), at(10_400), "not even a packet of no size leaves");
    assert_eq!(profile.rate_at(at(400)), Rate::ZERO);
    assert_eq!(profile.rate_at(at(10_400)), MB_PER_SEC);
    // A rate of zero is the same.
    let stepped = with_rates(&[(400, 0), (10_400, 1_000_000)]);
    assert_eq!(stepped.finish(at(0), KB), at(11_000));
}

#[test]
fn several_outages_add_up() {
    let profile = with_outages(&[(100, 50), (200, 50), (250, 50), (400, 0)]);
    // 100 + 50 + 100 (from 300) bytes' worth of time, then 750 us more.
    assert_eq!(profile.finish(at(0), KB), at(1_150));
}

#[test]
fn a_rate_step_during_an_outage_shows_at_its_end() {
    let stepped = with_rates(&[(500, 2_000_000)]).with_outages(vec![(us(400), us(600))]).expect("valid");
    assert_eq!(stepped.finish(at(0), KB), at(1_300), "400 bytes, the outage, 600 bytes at 2 MB/s");
}

#[test]
fn the_queue_fills_during_an_outage_and_overflows() {
    let mut link = Link::new(with_outages(&[(0, 10_000)]), 1);
    // One sits in the transmitter, three fill the buffer.
    for n in 1..=4 {
        assert_eq!(delivered(link.offer(at(n), KB)).1, at(10_000 + 1_000 * n));
    }
    assert_eq!(link.offer(at(9_999), KB), Fate::Lost(Loss::Overflow));
    assert_eq!(link.queue(at(9_999)).bytes, Bytes::kb(3));
    assert_eq!(delivered(link.offer(at(11_000), KB)).1, at(15_000), "the second has left the buffer");
}

#[test]
fn an_unlimited_link_has_a_queue_during_an_outage() {
    let unlimited = Profile::new(Rate::MAX, Duration::ZERO, KB).expect("valid");
    let mut link = Link::new(unlimited.with_outages(vec![(us(10), us(90))]).expect("valid"), 1);
    assert_eq!(delivered(link.offer(at(5), KB)).1, at(5));
    assert_eq!(delivered(link.offer(at(20), KB)).1, at(100), "in the transmitter");
    assert_eq!(delivered(link.offer(at(30), KB)).1, at(100), "in the buffer");
    assert_eq!(link.offer(at(40), KB), Fate::Lost(Loss::Overflow));
}

#[test]
fn what_is_on_the_wire_is_unharmed_by_an_outage() {
    let outages = vec![(us(1_000), us(50_000))];
    let far = Profile::new(MB_PER_SEC, us(20_000), Bytes::MAX).expect("valid").with_outages(outages);
    let mut link = Link::new(far.expect("valid"), 1);
    assert_eq!(delivered(link.offer(at(0), KB)).0, at(21_000));
    assert_eq!(delivered(link.offer(at(0), KB)).0, at(72_000));
}

#[test]
fn a_delay_step_applies_to_what_departs_from_then_on() {
    let mut link = Link::new(with_delays(&[(2_000, 500), (3_000, 700)], Order::Fifo), 1);
    assert_eq!(delivered(link.offer(at(0), KB)).0, at(1_000));
    // It starts before the step and departs with it.
    assert_eq!(delivered(link.offer(at(0), KB)).0, at(2_500));
    assert_eq!(delivered(link.offer(at(0), KB)).0, at(3_700));
    let just_before = Time::from_picos(at(2_000).as_picos() - 1);
    let mut wire = Wire::new(link.profile(), 1);
    assert_eq!([just_before, at(2_000)].map(|t| wire.carry(0, t)), [Some(just_before), Some(at(2_500))]);
    assert_eq!(link.profile().delay(), Duration::ZERO);
    assert_eq!(link.profile().delay_at(at(2_999)), us(500));
}

#[test]
fn a_shrinking_delay_overtakes_only_where_reordering_is_allowed() {
    let arrivals = |order| {
        let mut wire = Wire::new(&with_delays(&[(0, 9_000), (2_000, 1_000)], order), 1);
        [1_999, 2_000, 5_000, 11_000].map(|departed| wire.carry(0, at(departed)).expect("no loss"))
    };
    assert_eq!(arrivals(Order::Fifo), [at(10_999), at(10_999), at(10_999), at(12_000)]);
    assert_eq!(arrivals(Order::Reorder), [at(10_999), at(3_000), at(6_000), at(12_000)]);
}

#[test]
fn slots_release_what_has_come_in_together() {
    let mut link = Link::new(profile().with_slots(us(2_000)).expect("valid"), 1);
    let arrivals = [0, 0, 0, 7_000].map(|now| delivered(link.offer(at(now), KB)).0);
    // Departures at 1, 2, 3 and 8 ms; who comes at a slot's moment makes it.
    assert_eq!(arrivals, [at(2_000), at(2_000), at(4_000), at(8_000)]);
    let just_late = Wire::new(link.profile(), 1).carry(0, Time::from_picos(at(2_000).as_picos() + 1));
    assert_eq!(just_late, Some(at(4_000)));
}

#[test]
fn slots_come_after_delay_and_jitter() {
    let jitter = Jitter::new(us(300), Order::Reorder).expect("valid");
    let free = Profile::new(MB_PER_SEC, us(1_000), Bytes::MAX).expect("valid").with_jitter(jitter);
    let slotted = free.clone().with_slots(us(500)).expect("valid");
    let (mut free, mut slotted) = (Wire::new(&free, 3), Wire::new(&slotted, 3));
    let mut moved = 0;
    for n in 0..1_000 {
        let reaches = free.carry(n, at(100 * n)).expect("no loss").as_picos();
        let released = slotted.carry(n, at(100 * n)).expect("no loss").as_picos();
        assert_eq!(released, reaches.div_ceil(500_000_000) * 500_000_000);
        moved += u32::from(released != (at(100 * n + 1_000).as_picos()).div_ceil(500_000_000) * 500_000_000);
    }
    assert!(moved > 300, "jitter moves {moved} of 1000 packets to other slots");
}

#[test]
fn lost_packets_hold_no_slot_up() {
    let lossy = profile().with_slots(us(500)).expect("valid").with_loss(Probability::percent(50));
    let mut wire = Wire::new(&lossy, 4);
    let carried: Vec<_> = (0..1_000).map(|n| (n, wire.carry(n, at(100 * n + 1)))).collect();
    let arrived = carried.iter().filter_map(|&(n, arrives)| Some((n, arrives?)));
    assert!(arrived.clone().all(|(n, arrives)| arrives == at((100 * n + 1).div_ceil(500) * 500)));
    assert!(arrived.count().abs_diff(500) < 75);
}

#[test]
fn schedules_do_not_shift_random_draws() {
    let lossy = profile().with_loss(Probability::percent(30)).with_buffer(Bytes::MAX);
    let lost = |profile: Profile| -> Vec<bool> {
        let mut link = Link::new(profile, 6);
        (0..1_000).map(|_| matches!(link.offer(link.idle_at(), KB), Fate::Lost(Loss::Random))).collect()
    };
    let changing = lossy.clone().with_rate_steps(vec![(us(5), Rate::MAX), (us(90_000), MB_PER_SEC)]);
    let changing = changing.and_then(|link| link.with_outages(vec![(us(70), us(8_000))]));
    let changing = changing.and_then(|link| link.with_delay_steps(vec![(us(70), us(8_000))]));
    let changing = changing.and_then(|link| link.with_slots(us(125))).expect("valid");
    assert_eq!(lost(changing), lost(lossy));
}
