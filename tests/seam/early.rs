//! 0-RTT: what an application sends before the handshake is complete is paced, and does not hold it up.

use std::time::Duration;

use warprate::units::{Bytes, Rate};

use crate::FULL;
use crate::common::fate::rough;
use crate::common::pair::{Pair, ms, setup};
use crate::fixed;
use warprate::conn::Law;

const DELAY: Duration = Duration::from_millis(50);

/// A client that uploads from its first datagram on.
fn hurried(rate: Rate, window: Bytes, bytes: u64) -> Pair {
    let client = setup(Law::fixed(rate, window));
    let mut pair = Pair::acquainted(DELAY, client, fixed(Rate::mbps(10)));
    assert!(pair.client.core().inner().has_0rtt(), "the server is remembered");
    pair.client.core().begin_early_data();
    pair.upload(bytes);
    pair
}

#[test]
fn early_data_keeps_to_the_plan() {
    let rate = Rate::mbps(20);
    let mut pair = hurried(rate, Bytes::mb(64), 2_000_000);
    // Until the server's first datagram can be here, and on.
    pair.run(ms(300));
    let start = pair.start;
    let mut sent = 0;
    for departure in pair.departures.iter().filter(|departure| departure.from_client) {
        sent += departure.data.len() as u64;
        let planned = (rate * (departure.at - start)).get();
        // A quantum, and a datagram for each one that came during the handshake: the server's flight.
        assert!(sent <= planned + 10 * FULL, "{sent} bytes after {:?}", departure.at - start);
    }
    assert!(sent >= 600_000, "{sent} bytes of 750,000 in 300 ms");
    assert!(pair.run_until(ms(2_000), |pair| pair.server.is_finished));
    assert_eq!(pair.server.received, 2_000_000);
    assert!(pair.client.core().inner().accepted_0rtt());
}

#[test]
fn a_window_full_of_early_data_does_not_hold_the_handshake_up() {
    // Ten datagrams fill the window at once; the round trip takes 100 ms.
    let mut pair = hurried(Rate::mbps(50), Bytes::new(10 * FULL), 200_000);
    let is_done =
        pair.run_until(ms(5_000), |pair| pair.client.has_connected() && pair.server.has_connected());
    assert!(is_done);
    // Two round trips, and what the acknowledgement delay may add.
    assert!(pair.elapsed() < ms(230), "{:?}", pair.elapsed());
    assert!(pair.run_until(ms(10_000), |pair| pair.server.is_finished));
}

#[test]
fn early_data_gets_through_a_rough_path() {
    for seed in 0..10 {
        let mut pair = hurried(Rate::mbps(20), Bytes::new(20 * FULL), 300_000);
        pair.fate = rough(seed, DELAY, 0.1, ms(5));
        let is_done = pair.run_until(ms(60_000), |pair| pair.server.is_finished);
        assert!(is_done, "seed {seed}: {} bytes", pair.server.received);
        pair.run(ms(3_000));
        assert_eq!(pair.client.core().stats().path.in_flight, Bytes::ZERO, "seed {seed}");
    }
}

#[test]
fn early_data_survives_a_retry() {
    for window in [Bytes::mb(64), Bytes::new(10 * FULL)] {
        let mut pair = hurried(Rate::mbps(20), window, 500_000);
        pair.server.retries = true;
        assert!(pair.run_until(ms(10_000), |pair| pair.server.is_finished), "{} bytes", pair.server.received);
        assert_eq!(pair.server.received, 500_000);
        pair.run(ms(1_000));
        let path = pair.client.core().stats().path;
        assert_eq!(
            path.in_flight,
            Bytes::ZERO,
            "what went with the first attempt is off the books: {path:?}"
        );
    }
}

#[test]
fn early_data_that_is_turned_down_leaves_nothing_on_the_books() {
    for window in [Bytes::mb(64), Bytes::new(10 * FULL)] {
        let mut pair =
            Pair::forgotten(DELAY, setup(Law::fixed(Rate::mbps(20), window)), fixed(Rate::mbps(10)));
        assert!(pair.client.core().inner().has_0rtt());
        pair.client.core().begin_early_data();
        pair.upload(500_000);
        assert!(pair.run_until(ms(5_000), |pair| pair.client.has_connected()));
        assert!(!pair.client.core().inner().accepted_0rtt());
        assert_eq!(pair.server.received, 0);
        pair.client.backlog = None;
        pair.run(ms(3_000));
        let path = pair.client.core().stats().path;
        assert_eq!(path.in_flight, Bytes::ZERO, "{path:?}");
        // It is silent then, and sends as ever afterwards.
        pair.departures.clear();
        pair.run(ms(3_000));
        assert!(pair.departures.is_empty(), "{} datagrams", pair.departures.len());
        pair.upload(500_000);
        assert!(pair.run_until(ms(5_000), |pair| pair.server.is_finished));
        assert_eq!(pair.server.received, 500_000);
    }
}
