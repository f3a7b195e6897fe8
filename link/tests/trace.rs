//! The same seed gives the same fates, on every machine and in every build: a trace is pinned by
//! its hash. If a change moves the hash, every published figure moves with it.

use std::time::Duration;

use sha2::{Digest, Sha256};
use warplink::{Fate, Jitter, Link, Loss, Order, Probability, Profile, Time};
use warpunits::{Bytes, Rate};

/// SHA-256 of each trace; `tools/trace.py` computes both independently.
const CONSTANT: &str = "89a796858f033a9809f8e21edd4cda8f32bee0cadc15af1f41217a9c118f40dc";
const SCHEDULED: &str = "4327feab535432de0d8470415b5dccc715e023cb6fbdfbdb6baf033bb8aa7d51";

fn profile() -> Profile {
    Profile::new(Rate::mbps(100), Duration::from_millis(20), Bytes::kb(50))
        .expect("valid")
        .with_loss(Probability::percent(5))
}

fn jitter(order: Order) -> Jitter {
    Jitter::new(Duration::from_millis(3), order).expect("valid")
}

/// Links that do not change.
fn constant_links() -> [Link; 3] {
    [
        Link::new(profile(), 0),
        Link::new(profile().with_jitter(jitter(Order::Fifo)), 42),
        Link::new(profile().with_jitter(jitter(Order::Reorder)), u64::MAX),
    ]
}

/// Links whose rate and delay change, with outages and slots: all that there is.
fn scheduled_links() -> [Link; 3] {
    let us = Duration::from_micros;
    let rates = vec![
        (us(50_000), Rate::mbps(40)),
        (us(80_001), Rate::bytes_per_sec(7_000_001)),
        (us(120_000), Rate::ZERO),
        (us(131_000), Rate::mbps(150)),
    ];
    let outages = vec![(us(20_000), us(5_000)), (us(118_000), us(4_000)), (us(200_003), us(10_000))];
    let delays = vec![(us(30_000), us(35_000)), (us(90_000), us(8_000)), (us(170_000), us(60_000))];
    let link = |order, slots, seed| {
        let profile = profile().with_jitter(jitter(order)).with_rate_steps(rates.clone());
        let profile = profile.and_then(|profile| profile.with_outages(outages.clone()));
        let profile = profile.and_then(|profile| profile.with_delay_steps(delays.clone()));
        let profile = profile.and_then(|profile| profile.with_slots(slots));
        Link::new(profile.expect("valid"), seed)
    };
    [
        link(Order::Fifo, us(500), 7),
        link(Order::Reorder, Duration::from_nanos(333_333), 8),
        link(Order::Reorder, Duration::ZERO, 9),
    ]
}

/// 10,002 fates of packets that come in trains of four at 1.2 times the first rate; 17 bytes each:
/// the kind, then arrival and departure in little-endian picoseconds.
fn trace(links: [Link; 3]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for mut link in links {
        for n in 0..3_334u64 {
            let now = Time::from(Duration::from_nanos(n / 4 * 4 * 80_000));
            let (kind, at, departed) = match link.offer(now, Bytes::new(1518 - n % 7 * 100)) {
                Fate::Delivered { at, departed } => (0, at, departed),
                Fate::Lost(Loss::Overflow) => (1, Time::START, Time::START),
                Fate::Lost(Loss::Random) => (2, Time::START, Time::START),
            };
            bytes.push(kind);
            bytes.extend_from_slice(&at.as_picos().to_le_bytes());
            bytes.extend_from_slice(&departed.as_picos().to_le_bytes());
        }
    }
    bytes
}

fn hash(links: [Link; 3]) -> String {
    Sha256::digest(trace(links)).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_trace_of_constant_links_is_the_pinned_one() {
    assert_eq!(hash(constant_links()), CONSTANT);
}

#[test]
fn the_trace_of_scheduled_links_is_the_pinned_one() {
    assert_eq!(hash(scheduled_links()), SCHEDULED);
}

#[test]
fn the_traces_hold_every_kind_of_fate() {
    for links in [constant_links(), scheduled_links()] {
        let trace = trace(links);
        for kind in 0..3 {
            assert!(trace.chunks(17).filter(|fate| fate[0] == kind).count() > 100, "kind {kind} is rare");
        }
    }
}
