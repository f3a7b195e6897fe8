//! The handshake: it runs through the open gate, and quinn-proto's limits hold under our pacing.

use warprate::units::Rate;

use crate::common::fate::{losing, rough};
use crate::common::pair::{Pair, ms};
use crate::{fixed, settled};

#[test]
fn a_handshake_under_heavy_loss_completes_or_says_why_not() {
    let mut connected = 0;
    for seed in 0..40 {
        let mut pair = Pair::new(ms(20), fixed(Rate::mbps(10)), fixed(Rate::mbps(10)));
        pair.fate = rough(seed, ms(20), 0.3, ms(5));
        let is_decided = pair.run_until(ms(60_000), |pair| {
            pair.client.has_connected() && pair.server.has_connected() || pair.client.lost().is_some()
        });
        assert!(is_decided, "seed {seed}");
        connected += u32::from(pair.client.lost().is_none());
    }
    // With 30 % loss both ways nearly every handshake gets through in 30 s of patience.
    assert!(connected >= 38, "{connected} of 40");
}

#[test]
fn a_dead_path_ends_the_attempt_with_a_timeout() {
    let mut pair = Pair::new(ms(20), fixed(Rate::mbps(10)), fixed(Rate::mbps(10)));
    pair.fate = losing(ms(20), |_| true);
    assert!(pair.run_until(ms(60_000), |pair| pair.client.lost().is_some()));
    assert_eq!(pair.client.lost(), Some(&quinn_proto::ConnectionError::TimedOut));
    // RFC 9002 §6.2.1: probes back off exponentially from 1 s: 0, 1, 3, 7, 15 s, two datagrams each.
    assert!(pair.departures.len() <= 12, "{}", pair.departures.len());
}

#[test]
fn an_unvalidated_client_gets_at_most_three_times_what_it_sent() {
    for rate in [Rate::kbps(100), Rate::mbps(1), Rate::gbps(1)] {
        let mut pair = Pair::new(ms(20), fixed(Rate::mbps(10)), fixed(rate));
        // The client falls silent after its first flight, so the server never validates its address.
        let start = pair.now;
        pair.fate = losing(ms(20), move |departure| departure.from_client && departure.at > start);
        pair.run(ms(10_000));
        let sum = |from_client: bool| -> usize {
            let first = pair.departures.iter().filter(|departure| {
                departure.from_client == from_client && (!from_client || departure.at == start)
            });
            first.map(|departure| departure.data.len()).sum()
        };
        let (received, sent) = (sum(true), sum(false));
        assert!(sent > 0 && sent <= 3 * received, "{rate}: {sent} for {received}");
    }
}

#[test]
fn an_empty_stream_arrives() {
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), fixed(Rate::mbps(10)));
    pair.download(0);
    pair.upload(0);
    let start = pair.now;
    assert!(pair.run_until(ms(1_000), |pair| pair.client.is_finished && pair.server.is_finished));
    assert_eq!((pair.client.received, pair.server.received), (0, 0));
    assert_eq!(pair.now - start, ms(20));
}

#[test]
fn a_handshake_takes_one_round_trip_at_any_rate() {
    for rate in [Rate::kbps(100), Rate::mbps(100)] {
        let mut pair = Pair::new(ms(20), fixed(rate), fixed(rate));
        let start = pair.now;
        assert!(pair.run_until(ms(5_000), |pair| pair.client.has_connected()));
        assert!(pair.now - start <= ms(81), "{rate}: {:?}", pair.now - start);
    }
}
