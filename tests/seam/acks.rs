//! Lines 10 and 13: acknowledgements behind the shut gate, and how many we ask for.

use std::time::{Duration, Instant};

use warprate::conn::{Law, core::Setup};
use warprate::units::{Bytes, Rate};

use crate::common::diary::Diary;
use crate::common::pair::{Pair, ms, setup, us};
use crate::{FULL, fixed, settled};

/// What bulk in both directions at once looks like while the server is held back.
struct Both {
    /// The longest time between two ACKs that the client got while it was sending.
    longest_silence: Duration,
    /// The most that the server was ever ahead of its rate, in bytes.
    most_ahead: u64,
    /// The most that the server had in flight.
    most_in_flight: Bytes,
    server_sent: u64,
}

/// Runs bulk both ways for 4 s; the server has this rate and window, the client 20 Mbit/s.
fn both_ways(delay: Duration, rate: Rate, window: Bytes) -> Both {
    let (client, server) = (Diary::new(Rate::mbps(20), Bytes::mb(64)), Diary::new(rate, window));
    let mut pair = settled(delay, setup(client.law()), setup(server.law()));
    client.clear();
    server.clear();
    pair.departures.clear();
    let start = pair.now;
    pair.download(100_000_000);
    pair.upload(100_000_000);
    pair.run(ms(4_000));
    assert_eq!(client.lost().len() + server.lost().len(), 0, "nothing was lost, nothing declared so");
    let mut arrivals: Vec<Instant> = client.acks().iter().map(|ack| ack.now).collect();
    arrivals.insert(0, start + delay * 2);
    arrivals.push(pair.now);
    let longest_silence = arrivals.windows(2).map(|two| two[1] - two[0]).max().expect("two instants");
    let (mut sent, mut most_ahead) = (0, 0);
    for departure in pair.departures.iter().filter(|departure| !departure.from_client) {
        sent += departure.data.len() as u64;
        most_ahead = most_ahead.max(sent.saturating_sub((rate * (departure.at - start)).get()));
    }
    let most_in_flight = server.sent().iter().map(|sent| sent.in_flight).max().expect("something left");
    Both { longest_silence, most_ahead, most_in_flight, server_sent: sent }
}

#[test]
fn a_slow_sender_acknowledges_bulk_in_time_and_keeps_its_rate() {
    for kbps in [50, 100, 200, 400, 1_000, 3_000] {
        let rate = Rate::kbps(kbps);
        let both = both_ways(ms(20), rate, Bytes::mb(64));
        let spacing = Bytes::new(FULL) / rate;
        // An acknowledgement rides on the next datagram at the latest, or comes after the ACK delay.
        assert!(both.longest_silence <= spacing.max(ms(25)) + ms(1), "{rate}: {:?}", both.longest_silence);
        // The pacer lets one datagram be ahead, and the leak may owe it three at most.
        assert!(both.most_ahead <= 3 * FULL, "{rate}: {} ahead", both.most_ahead);
        let plan = (rate * ms(4_000)).get();
        assert!(both.server_sent + FULL >= plan, "{rate}: {} of {plan}", both.server_sent);
    }
}

#[test]
fn a_sender_with_a_full_window_acknowledges_bulk_within_half_a_round_trip() {
    let window = Bytes::new(4 * FULL);
    for delay in [ms(20), ms(100)] {
        let both = both_ways(delay, Rate::mbps(20), window);
        assert!(both.most_in_flight <= window + Bytes::new(4 * FULL), "{:?}", both.most_in_flight);
        // The leaks fall between two openings of the window; without them the peer would wait for a
        // round trip and the ACK delay.
        assert!(both.longest_silence <= delay + ms(7), "{:?}", both.longest_silence);
    }
}

#[test]
fn a_slow_sender_does_not_keep_the_first_packets_waiting_for_its_pacer() {
    // A datagram per 232 ms. The client's first packets find the gate shut for most of that.
    let client = Diary::new(Rate::mbps(20), Bytes::mb(64));
    let mut pair = settled(ms(20), setup(client.law()), fixed(Rate::kbps(50)));
    pair.download(100_000_000);
    pair.run(ms(1_000));
    let left = |pair: &Pair| pair.departures.iter().filter(|departure| !departure.from_client).count();
    let before = left(&pair);
    assert!(pair.run_until(ms(300), |pair| left(pair) > before));
    client.clear();
    let start = pair.now;
    pair.upload(30_000);
    pair.run(ms(200));
    // A round trip, 12 ms of sending, and a quarter of the ACK delay.
    let first = client.acks().first().expect("an ACK came").now - start;
    assert!(first <= ms(40) + ms(7) + ms(5), "{first:?}");
}

#[test]
fn bulk_both_ways_stalls_nobody() {
    let slow = setup(Law::fixed(Rate::mbps(1), Bytes::new(8 * FULL)));
    let mut pair = settled(ms(20), fixed(Rate::mbps(20)), slow);
    pair.download(250_000);
    pair.upload(5_000_000);
    let start = pair.now;
    assert!(pair.run_until(ms(10_000), |pair| pair.client.is_finished && pair.server.is_finished));
    // Two seconds at either's own rate.
    assert!(pair.now - start < ms(2_400), "{:?}", pair.now - start);
}

#[test]
fn a_fast_sender_never_leaks_for_acknowledgements() {
    // The gate opens every 250 us, so that a leak would only exceed the plan.
    let both = both_ways(ms(20), Rate::mbps(20), Bytes::mb(64));
    assert!(both.most_ahead <= FULL, "{} ahead", both.most_ahead);
    assert!(both.longest_silence <= ms(25), "{:?}", both.longest_silence);
}

/// Data packets of a download per ACK that the client sent, when they come one by one.
fn packets_per_ack(mut server: Setup) -> f64 {
    server.anchor = Rate::mbps(40);
    let mut pair = settled(ms(20), fixed(Rate::mbps(50)), server);
    let acks = |pair: &mut Pair| pair.client.core().stats().proto.frame_tx.acks;
    let before = acks(&mut pair);
    pair.departures.clear();
    pair.download(5_000_000);
    assert!(pair.run_until(ms(20_000), |pair| pair.client.is_finished));
    let packets = pair.departures.iter().filter(|departure| !departure.from_client).count();
    packets as f64 / (acks(&mut pair) - before) as f64
}

#[test]
fn paced_laws_get_an_ack_per_ten_packets() {
    let ratio = packets_per_ack(fixed(Rate::mbps(50)));
    assert!(ratio > 9.5 && ratio <= 10.2, "{ratio}");
}

#[test]
fn foreign_controllers_get_an_ack_per_two_packets() {
    for law in [Law::quinn_cubic(), Law::quinn_new_reno()] {
        let name = format!("{law:?}");
        let ratio = packets_per_ack(setup(law));
        assert!(ratio > 1.9 && ratio <= 2.1, "{name}: {ratio}");
    }
}

#[test]
fn sparse_acks_wait_25_ms_at_most() {
    // A packet per 12 ms: ten of them take 116 ms, so the delay decides.
    let diary = Diary::new(Rate::mbps(1), Bytes::mb(64));
    let mut pair = settled(ms(20), fixed(Rate::mbps(50)), setup(diary.law()));
    diary.clear();
    pair.download(200_000);
    pair.run(ms(1_000));
    let acks = diary.acks();
    assert!(acks.iter().all(|ack| ack.packets <= 3 && ack.rtt.latest <= ms(65) + us(1)));
    assert!(acks.len() > 20);
}
