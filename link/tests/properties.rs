//! What holds for every link and every sequence of packets.

use std::time::Duration;

use proptest::prelude::*;
use warplink::{Fate, Jitter, Link, Loss, Order, Probability, Profile, Span, Time};
use warpunits::{Bytes, Rate};

/// A link with the lists that its schedules were made from.
#[derive(Clone, Debug)]
struct Scheduled {
    profile: Profile,
    rates: Vec<(Duration, Rate)>,
    outages: Vec<(Duration, Duration)>,
}

impl Scheduled {
    /// The rate at a moment, by looking through the lists.
    fn rate_at(&self, picos: u128) -> u64 {
        let is_out =
            |&(at, length): &(Duration, Duration)| (picos_of(at)..picos_of(at + length)).contains(&picos);
        if self.outages.iter().any(is_out) {
            return 0;
        }
        let begun = self.rates.iter().rfind(|(at, _)| picos_of(*at) <= picos);
        begun.map_or(self.profile.rate(), |(_, rate)| *rate).as_bytes_per_sec()
    }

    /// What the transmitter can send between two moments, in bytes·ps/s.
    fn sent(&self, from: Time, until: Time) -> u128 {
        let (from, until): (u128, u128) = (from.as_picos().into(), until.as_picos().into());
        let mut cuts: Vec<u128> = self.rates.iter().map(|(at, _)| picos_of(*at)).collect();
        cuts.extend(self.outages.iter().flat_map(|(at, length)| [picos_of(*at), picos_of(*at + *length)]));
        cuts.retain(|cut| (from..until).contains(cut));
        cuts.extend([from, until]);
        cuts.sort_unstable();
        let stretch = |two: &[u128]| u128::from(self.rate_at(two[0])).saturating_mul(two[1] - two[0]);
        cuts.windows(2).map(stretch).fold(0, u128::saturating_add)
    }
}

fn picos_of(duration: Duration) -> u128 {
    duration.as_nanos() * 1_000
}

fn needs(size: Bytes) -> u128 {
    u128::from(size.get()) * 1_000_000_000_000
}

fn any_rate() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 1u64..1_000, 6 => 1_000u64..2_000_000_000, 1 => Just(u64::MAX)]
}

/// Lengths of time from none to seconds.
fn any_gap() -> impl Strategy<Value = Duration> {
    prop_oneof![0u64..1_000, 0u64..10_000_000, 0u64..5_000_000_000].prop_map(Duration::from_nanos)
}

fn any_constant_profile() -> impl Strategy<Value = Profile> {
    let order = prop_oneof![Just(Order::Fifo), Just(Order::Reorder)];
    let millis = 0u64..300;
    (any_rate(), millis.clone(), 0u64..100_000, 0u32..=1_000_000_000, millis, order).prop_map(
        |(rate, delay, buffer, loss, sigma, order)| {
            Profile::new(Rate::bytes_per_sec(rate), Duration::from_millis(delay), Bytes::new(buffer))
                .expect("valid")
                .with_loss(Probability::parts_per_billion(loss).expect("valid"))
                .with_jitter(Jitter::new(Duration::from_millis(sigma), order).expect("valid"))
        },
    )
}

fn any_scheduled() -> impl Strategy<Value = Scheduled> {
    let rate = prop_oneof![1 => Just(0u64), 4 => any_rate()];
    let rates = prop::collection::vec((any_gap(), rate), 0..6);
    let outages = prop::collection::vec((any_gap(), any_gap()), 0..4);
    let delays = prop::collection::vec((any_gap(), 0u64..300), 0..4);
    let slots = prop_oneof![Just(Duration::ZERO), any_gap()];
    (any_constant_profile(), rates, any_rate(), outages, delays, slots).prop_map(
        |(profile, mut rates, last_rate, outages, delays, slots)| {
            if let Some(last) = rates.last_mut() {
                last.1 = last_rate;
            }
            let rates = rates.into_iter().map(|(gap, rate)| (gap, Rate::bytes_per_sec(rate)));
            let rates = increasing(rates);
            let delays = delays.into_iter().map(|(gap, delay)| (gap, Duration::from_millis(delay)));
            let mut end = Duration::ZERO;
            let mut outage = |(gap, length)| {
                let at = end + gap;
                end = at + length;
                (at, length)
            };
            let outages: Vec<_> = outages.into_iter().map(&mut outage).collect();
            let profile = profile.with_rate_steps(rates.clone()).expect("valid");
            let profile = profile.with_outages(outages.clone()).expect("valid");
            let profile = profile.with_delay_steps(increasing(delays)).expect("valid");
            Scheduled { profile: profile.with_slots(slots).expect("valid"), rates, outages }
        },
    )
}

/// Turns gaps into strictly increasing moments.
fn increasing<V>(gaps: impl Iterator<Item = (Duration, V)>) -> Vec<(Duration, V)> {
    let mut next = Duration::ZERO;
    let mut after = |(gap, value)| {
        let at = next + gap;
        next = at + Duration::from_nanos(1);
        (at, value)
    };
    gaps.map(&mut after).collect()
}

/// Half of the links have schedules.
fn any_profile() -> impl Strategy<Value = Profile> {
    prop_oneof![any_constant_profile(), any_scheduled().prop_map(|scheduled| scheduled.profile)]
}

/// Packets as (moment, size): gaps from none to seconds.
fn any_packets() -> impl Strategy<Value = Vec<(Time, Bytes)>> {
    let gap = prop_oneof![Just(0u64), 0u64..1_000_000, 0u64..2_000_000_000_000];
    prop::collection::vec((gap, 0u64..3_000), 0..200).prop_map(|packets| {
        let mut now = 0;
        let next = |(gap, size)| {
            now += gap;
            (Time::from_picos(now), Bytes::new(size))
        };
        packets.into_iter().map(next).collect()
    })
}

proptest! {
    #[test]
    fn the_same_seed_gives_the_same_fates(profile in any_profile(), packets in any_packets(), seed: u64) {
        let run = || -> Vec<Fate> {
            let mut link = Link::new(profile.clone(), seed);
            packets.iter().map(|&(now, size)| link.offer(now, size)).collect()
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn departures_follow_the_queue_to_the_picosecond(
        profile in any_profile(),
        packets in any_packets(),
        seed: u64,
    ) {
        // The plainest model: remember every packet's start, look at all of them for each packet.
        let mut link = Link::new(profile.clone(), seed);
        let mut started: Vec<(Time, Bytes)> = Vec::new();
        let mut idle_at = Time::START;
        for (now, size) in packets {
            let waiting: Bytes = started.iter().filter(|(start, _)| *start > now).map(|(_, size)| *size).sum();
            prop_assert_eq!(link.queue(now).bytes, waiting);
            prop_assert_eq!(link.queue(now).sojourn, idle_at - now);
            let fits = idle_at <= now || waiting + size <= profile.buffer();
            let fate = link.offer(now, size);
            prop_assert_eq!(fate == Fate::Lost(Loss::Overflow), !fits);
            if fits {
                let start = idle_at.max(now);
                started.push((start, size));
                idle_at = profile.finish(start, size);
            }
            prop_assert_eq!(link.idle_at(), idle_at);
            if let Fate::Delivered { at, departed } = fate {
                prop_assert_eq!(departed, idle_at);
                prop_assert!(at >= departed);
            }
        }
    }

    #[test]
    fn fifo_arrivals_never_overtake(profile in any_profile(), packets in any_packets(), seed: u64) {
        let jitter = Jitter::new(profile.jitter().sigma(), Order::Fifo).expect("valid");
        let fifo = profile.with_jitter(jitter);
        let mut link = Link::new(fifo, seed);
        let mut latest = Time::START;
        for (now, size) in packets {
            if let Fate::Delivered { at, .. } = link.offer(now, size) {
                prop_assert!(at >= latest);
                latest = at;
            }
        }
    }

    #[test]
    fn the_link_never_delivers_faster_than_its_rate(
        scheduled in any_scheduled(),
        packets in any_packets(),
        seed: u64,
    ) {
        // Over any stretch of departures, bytes <= rate * time, in exact arithmetic.
        let mut link = Link::new(scheduled.profile.clone(), seed);
        let mut departures: Vec<(Time, u128)> = Vec::new();
        for (now, size) in packets.into_iter().take(60) {
            if let Fate::Delivered { departed, .. } = link.offer(now, size) {
                departures.push((departed, needs(size)));
            }
        }
        let unlimited = scheduled.rates.iter().any(|(_, rate)| *rate == Rate::MAX);
        if !unlimited && scheduled.profile.rate() < Rate::MAX {
            for first in 0..departures.len() {
                let mut sent = 0;
                for (departed, needs) in &departures[first + 1..] {
                    sent += needs;
                    prop_assert!(sent <= scheduled.sent(departures[first].0, *departed));
                }
            }
        }
    }

    #[test]
    fn a_packet_finishes_at_the_first_picosecond_by_which_its_bits_have_left(
        scheduled in any_scheduled(),
        starts in any_gap(),
        size in 0u64..20_000,
    ) {
        let (starts, size) = (Time::from(starts), Bytes::new(size));
        let finish = scheduled.profile.finish(starts, size);
        prop_assert!(finish >= starts);
        let sent = scheduled.sent(starts, finish);
        prop_assert!(sent >= needs(size) || scheduled.profile.rate_at(finish) == Rate::MAX);
        if finish > starts {
            let before = Time::from_picos(finish.as_picos() - 1);
            let sent = scheduled.sent(starts, before);
            prop_assert!(sent < needs(size) || scheduled.rate_at(before.as_picos().into()) == 0);
        }
    }

    #[test]
    fn later_and_larger_packets_never_finish_earlier(
        scheduled in any_scheduled(),
        starts in any_gap(),
        later in 0u64..1_000_000_000_000,
        size in 0u64..20_000,
        more in 0u64..20_000,
    ) {
        let profile = scheduled.profile;
        let starts = Time::from(starts);
        let finish = profile.finish(starts, Bytes::new(size));
        prop_assert!(finish <= profile.finish(starts + Span::from_picos(later), Bytes::new(size)));
        prop_assert!(finish <= profile.finish(starts, Bytes::new(size + more)));
        // Two packets back to back take at least as long as one of both sizes.
        let both = profile.finish(starts, Bytes::new(size + more));
        prop_assert!(profile.finish(finish, Bytes::new(more)) >= both);
    }

    #[test]
    fn nothing_departs_during_an_outage(
        scheduled in any_scheduled(),
        packets in any_packets(),
        seed: u64,
    ) {
        let mut link = Link::new(scheduled.profile.with_loss(Probability::ZERO), seed);
        for (now, size) in packets {
            if let Fate::Delivered { departed, .. } = link.offer(now, size) {
                for &(at, length) in &scheduled.outages {
                    // What ends with an outage's first moment has left; its last moment is no part of it.
                    prop_assert!(departed <= Time::from(at) || departed >= Time::from(at + length));
                }
            }
        }
    }

    #[test]
    fn packets_arrive_at_the_first_slot_after_they_would_without_slots(
        scheduled in any_scheduled(),
        packets in any_packets(),
        period in 1u64..50_000_000,
        seed: u64,
    ) {
        let slots = |period| scheduled.profile.clone().with_slots(Duration::from_nanos(period)).expect("valid");
        let (mut slotted, mut free) = (Link::new(slots(period), seed), Link::new(slots(0), seed));
        for (now, size) in packets {
            match (slotted.offer(now, size), free.offer(now, size)) {
                (Fate::Delivered { at, departed }, Fate::Delivered { at: reaches, departed: same }) => {
                    prop_assert_eq!(departed, same);
                    prop_assert_eq!(at.as_picos() % (period * 1_000), 0);
                    prop_assert!(at >= reaches && at - reaches < Span::from_picos(period * 1_000));
                }
                (slotted, free) => prop_assert_eq!(slotted, free),
            }
        }
    }

    #[test]
    fn no_packet_is_counted_twice_or_forgotten(
        profile in any_profile(),
        packets in any_packets(),
        seed: u64,
    ) {
        let mut link = Link::new(profile.clone(), seed);
        let (mut delivered, mut overflow, mut random) = (0, 0, 0);
        for &(now, size) in &packets {
            match link.offer(now, size) {
                Fate::Delivered { .. } => delivered += 1,
                Fate::Lost(Loss::Overflow) => overflow += 1,
                Fate::Lost(Loss::Random) => random += 1,
            }
        }
        prop_assert_eq!(delivered + overflow + random, packets.len());
        prop_assert!(random == 0 || profile.loss() > Probability::ZERO);
        prop_assert!(delivered == 0 || profile.loss() < Probability::ONE);
        prop_assert_eq!(link.queue(Time::NEVER).bytes, Bytes::ZERO);
    }
}
