//! Line 9: datagrams that overtook others are put in order before quinn-proto sees them.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use warprate::conn::{Law, core::Setup};
use warprate::units::{Bytes, Rate};

use crate::common::pair::{Fate, Pair, ms, setup};
use crate::{fixed, settled, unordered};

const RATE: Rate = Rate::mbps(100);

/// A download's path of 20 ms each way, on which each large datagram is late by up to `jitter`.
fn jittery(seed: u64, loss: f64, jitter: Duration) -> Fate {
    let mut rng = StdRng::seed_from_u64(seed);
    Box::new(move |departure| {
        let is_bulk = !departure.from_client && departure.data.len() > 1_000;
        let is_lost = is_bulk && rng.random_bool(loss);
        let extra = if is_bulk { jitter.mul_f64(rng.random_range(0.0..1.0)) } else { Duration::ZERO };
        (!is_lost).then_some((ms(20) + extra, departure.ecn))
    })
}

/// A client that has downloaded so many bytes over a path that was quiet before.
fn downloaded(client: Setup, fate: Fate, bytes: u64) -> Pair {
    let mut pair = settled(ms(20), client, setup(Law::fixed(RATE, Bytes::mb(64))));
    pair.fate = fate;
    pair.download(bytes);
    assert!(pair.run_until(ms(10_000), |pair| pair.client.is_finished));
    pair
}

/// Bytes repaired in vain, and dropped by the receiver, of a download of 10 MB in which packets are overtaken by
/// up to 170 others.
fn in_vain(seed: u64, client: Setup) -> Bytes {
    let mut pair = downloaded(client, jittery(seed, 0.0, ms(20)), 10_000_000);
    pair.run(ms(1_000));
    pair.server.core().stats().path.lost
}

#[test]
fn what_only_overtook_others_is_repaired_until_the_receiver_knows() {
    for seed in 0..3 {
        // The time threshold is 45 ms: of what is late by up to 20 ms a good part counts as lost.
        let without = in_vain(seed, unordered(fixed(RATE)));
        assert!(without > Bytes::mb(2), "seed {seed}: {without}");
        // All that was under way, at most, when the first late packets came.
        let with = in_vain(seed, fixed(RATE));
        assert!(with < RATE * ms(60), "seed {seed}: {with}");
    }
}

#[test]
fn a_loss_among_late_packets_is_told_after_the_wait() {
    let mut pair = downloaded(fixed(RATE), jittery(1, 0.02, ms(20)), 10_000_000);
    let order = pair.client.core().stats().order;
    // In 20 ms come 165 packets, and most of them overtake one.
    assert!(order.held > 5_000 && order.late > 7_000 / 165, "{order:?}");
    // Late by 20 ms at most, and a margin of an eighth.
    assert!(order.patience > ms(15) && order.patience <= ms(20) * 9 / 8, "{order:?}");
}

#[test]
fn what_waits_at_the_end_is_handed_on_without_further_datagrams() {
    let mut pair = downloaded(fixed(RATE), jittery(1, 0.0, ms(20)), 3_000_000);
    let before = pair.client.core().stats();
    // The first of ten datagrams is lost, the others wait for it; nothing else comes from the server.
    let mut count = 0;
    pair.fate = Box::new(move |departure| {
        count += u64::from(!departure.from_client);
        (departure.from_client || (2..=10).contains(&count)).then_some((ms(20), departure.ecn))
    });
    pair.download(13_000);
    pair.run(ms(20) + before.order.patience + ms(5));
    let after = pair.client.core().stats();
    assert!(after.order.held > before.order.held);
    assert!(after.proto.frame_rx.stream > before.proto.frame_rx.stream + 8);
}

#[test]
fn acknowledgements_alone_do_not_wait() {
    let mut rng = StdRng::seed_from_u64(1);
    let fate: Fate = Box::new(move |departure| {
        let extra = if departure.from_client { rng.random_range(0..20) } else { 0 };
        Some((ms(20 + extra), departure.ecn))
    });
    let mut pair = downloaded(fixed(RATE), fate, 10_000_000);
    let order = pair.server.core().stats().order;
    assert!(order.late > 100, "{order:?}");
    // The first few after the full datagram with which the client looked for its MTU.
    assert!(order.held <= 8, "{order:?}");
}

#[test]
fn a_path_that_keeps_order_holds_nothing_back() {
    // The end of a flight leaves twice, and the second copy of a lost packet comes late: nothing of it is lost.
    let (mut lossy, mut count) = (jittery(1, 0.05, Duration::ZERO), 0);
    let fate: Fate = Box::new(move |departure| {
        count += u64::from(!departure.from_client);
        if count < 6_000 { lossy(departure) } else { Some((ms(20), departure.ecn)) }
    });
    let mut pair = downloaded(fixed(RATE), fate, 10_000_000);
    let order = pair.client.core().stats().order;
    assert_eq!((order.late, order.held), (0, 0));
}

#[test]
fn bulk_both_ways_is_put_in_order_too() {
    let server = setup(Law::fixed(RATE, Bytes::mb(64)));
    let mut pair = settled(ms(20), server.clone(), server);
    let mut rng = StdRng::seed_from_u64(1);
    pair.fate = Box::new(move |departure| Some((ms(20 + rng.random_range(0..20)), departure.ecn)));
    pair.upload(10_000_000);
    pair.download(10_000_000);
    assert!(pair.run_until(ms(20_000), |pair| pair.client.is_finished && pair.server.is_finished));
    for end in [&pair.client, &pair.server] {
        let path = end.core.as_ref().expect("connected").stats().path;
        assert!(path.lost < RATE * ms(60), "{}", path.lost);
    }
}

#[test]
fn any_loss_and_lateness_let_a_transfer_end() {
    let mut rng = StdRng::seed_from_u64(7);
    for seed in 0..20 {
        let (loss, jitter) = (rng.random_range(0.0..0.2), ms(rng.random_range(0..150)));
        let mut pair = Pair::connected(ms(20), fixed(RATE), setup(Law::fixed(RATE, Bytes::mb(64))));
        pair.fate = jittery(seed, loss, jitter);
        pair.download(1_000_000);
        let ends = pair.run_until(ms(60_000), |pair| pair.client.is_finished);
        assert!(ends, "seed {seed}: loss {loss:.3}, jitter {jitter:?}");
    }
}
