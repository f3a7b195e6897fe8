//! All lines together: random paths, laws and outages. Nothing panics, nobody stalls, books balance.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use warprate::conn::{Law, core::Setup};
use warprate::units::{Bytes, Rate};

use crate::FULL;
use crate::common::fate::rough;
use crate::common::pair::{Pair, ms, setup, us};

/// A law with a rate between 300 kbit/s and 300 Mbit/s and a window between two datagrams and plenty,
/// or one of quinn-proto's.
fn some_law(rng: &mut StdRng) -> Setup {
    let rate = Rate::kbps(300 * 10_u64.pow(rng.random_range(0..4)));
    let window = Bytes::new(2 * FULL * 8_u64.pow(rng.random_range(0..5)));
    setup(match rng.random_range(0..8) {
        0 => Law::quinn_cubic(),
        1 => Law::quinn_new_reno(),
        2 => Law::quinn_bbr(),
        _ => Law::fixed(rate, window),
    })
}

fn is_done(pair: &Pair) -> bool {
    pair.client.is_finished && pair.server.is_finished
}

fn run(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let (client, server) = (some_law(&mut rng), some_law(&mut rng));
    let delay = us(100 * 10_u64.pow(rng.random_range(0..4)));
    let told = format!("seed {seed}: {:?} and {:?} over {delay:?}", client.law, server.law);
    let mut pair = Pair::new(delay, client, server);
    pair.limits.segments = rng.random_range(1..64);
    pair.lead = us([0, 0, 50, 2_000][rng.random_range(0..4)]);
    let loss = [0.0, 0.001, 0.02, 0.1][rng.random_range(0..4)];
    let jitter = delay.mul_f64([0.0, 0.0, 0.05, 1.0][rng.random_range(0..4)]);
    pair.fate = rough(seed, delay, loss, jitter);
    let is_connected = |pair: &Pair| pair.client.has_connected() && pair.server.has_connected();
    assert!(pair.run_until(ms(29_000), is_connected), "{told}: no handshake");
    pair.run(ms(1_000));
    let before = [&mut pair.client, &mut pair.server].map(|end| end.core().stats().path.audit);
    let (down, up) = (rng.random_range(0..200_000), rng.random_range(0..200_000));
    pair.download(down);
    pair.run(ms(rng.random_range(0..100)));
    pair.upload(up);
    if rng.random_bool(0.3) {
        pair.run(ms(rng.random_range(0..500)));
        pair.fate = Box::new(|_| None);
        pair.run(ms(rng.random_range(0..2_000)));
        pair.fate = rough(seed + 1, delay, loss, jitter);
    }
    let is_complete = pair.run_until(ms(300_000), is_done);
    let paths = [&mut pair.client, &mut pair.server].map(|end| end.core().stats().path);
    assert!(
        is_complete,
        "{told}: {} of {down}, {} of {up}; {paths:#?}",
        pair.client.received, pair.server.received
    );
    assert_eq!((pair.client.received, pair.server.received), (down, up), "{told}");
    for (end, before) in [&mut pair.client, &mut pair.server].into_iter().zip(before) {
        let audit = end.core().stats().path.audit;
        // A handshake that is confirmed late drops its packets during the transfer.
        if audit.forgotten == before.forgotten {
            assert_eq!(audit, before, "{told}");
        }
    }
}

#[test]
fn whatever_the_path_and_the_laws_all_bytes_arrive_and_the_books_balance() {
    for seed in 0..150 {
        run(seed);
    }
}
