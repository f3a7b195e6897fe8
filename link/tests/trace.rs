//! The same seed gives the same fates, on every machine and in every build: a trace is pinned by
//! its hash. If a change moves the hash, every published figure moves with it.

use std::time::Duration;

use sha2::{Digest, Sha256};
use warplink::{Fate, Jitter, Link, Loss, Order, Probability, Profile, Time};
use warpunits::{Bytes, Rate};

/// SHA-256 of [`trace`]; `tools/trace.py` computes it independently.
const PINNED: &str = "89a796858f033a9809f8e21edd4cda8f32bee0cadc15af1f41217a9c118f40dc";

/// Three links that use every feature, at 1.2 times their rate in trains of four.
fn links() -> [Link; 3] {
    let profile = Profile::new(Rate::mbps(100), Duration::from_millis(20), Bytes::kb(50)).expect("valid");
    let lossy = profile.with_loss(Probability::percent(5));
    let jitter = |order| Jitter::new(Duration::from_millis(3), order).expect("valid");
    [
        Link::new(lossy, 0),
        Link::new(lossy.with_jitter(jitter(Order::Fifo)), 42),
        Link::new(lossy.with_jitter(jitter(Order::Reorder)), u64::MAX),
    ]
}

/// 10,002 fates, 17 bytes each: the kind, then arrival and departure in little-endian picoseconds.
fn trace() -> Vec<u8> {
    let mut bytes = Vec::new();
    for mut link in links() {
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

#[test]
fn the_trace_is_the_pinned_one() {
    let hash: String = Sha256::digest(trace()).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, PINNED);
}

#[test]
fn the_trace_holds_every_kind_of_fate() {
    let trace = trace();
    for kind in 0..3 {
        assert!(trace.chunks(17).filter(|fate| fate[0] == kind).count() > 100, "kind {kind} is rare");
    }
}
