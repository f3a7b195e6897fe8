//! What holds for every link and every sequence of packets.

use std::time::Duration;

use proptest::prelude::*;
use warplink::{Fate, Jitter, Link, Loss, Order, Probability, Profile, Time, serialisation};
use warpunits::{Bytes, Rate};

fn any_profile() -> impl Strategy<Value = Profile> {
    let rate = prop_oneof![1u64..1_000, 1_000u64..2_000_000_000, Just(u64::MAX)];
    let order = prop_oneof![Just(Order::Fifo), Just(Order::Reorder)];
    let millis = 0u64..300;
    (rate, millis.clone(), 0u64..100_000, 0u32..=1_000_000_000, millis, order).prop_map(
        |(rate, delay, buffer, loss, sigma, order)| {
            Profile::new(Rate::bytes_per_sec(rate), Duration::from_millis(delay), Bytes::new(buffer))
                .expect("valid")
                .with_loss(Probability::parts_per_billion(loss).expect("valid"))
                .with_jitter(Jitter::new(Duration::from_millis(sigma), order).expect("valid"))
        },
    )
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
            let mut link = Link::new(profile, seed);
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
        let mut link = Link::new(profile, seed);
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
                idle_at = start + serialisation(size, profile.rate());
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
        let fifo = profile.with_jitter(Jitter::new(profile.jitter().sigma(), Order::Fifo).expect("valid"));
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
        profile in any_profile(),
        packets in any_packets(),
        seed: u64,
    ) {
        // Over any stretch of departures, bytes <= rate * time, in exact arithmetic.
        let mut link = Link::new(profile, seed);
        let mut departures: Vec<(u128, u128)> = Vec::new();
        for (now, size) in packets {
            if let Fate::Delivered { departed, .. } = link.offer(now, size) {
                departures.push((departed.as_picos().into(), size.get().into()));
            }
        }
        let rate = u128::from(profile.rate().as_bytes_per_sec());
        for first in 0..departures.len() {
            let mut bytes = 0;
            for (departed, size) in &departures[first + 1..] {
                bytes += size;
                let elapsed = departed - departures[first].0;
                prop_assert!(rate == u64::MAX.into() || bytes * 1_000_000_000_000 <= rate * elapsed);
            }
        }
    }

    #[test]
    fn no_packet_is_counted_twice_or_forgotten(
        profile in any_profile(),
        packets in any_packets(),
        seed: u64,
    ) {
        let mut link = Link::new(profile, seed);
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
