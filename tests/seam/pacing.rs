//! Lines 1, 2, 14 and 15: the gate is the only pacer and the only window.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quinn_proto::VarInt;
use warprate::conn::{Law, core::Setup};
use warprate::units::{Bytes, Rate};

use crate::common::diary::Diary;
use crate::common::fate::{losing, rough};
use crate::common::pair::{Pair, ms, setup, us};
use crate::{FULL, fixed, settled};

/// Bytes that left the server, by instant.
fn bursts(pair: &Pair) -> BTreeMap<Instant, u64> {
    let mut bursts = BTreeMap::new();
    for departure in pair.departures.iter().filter(|departure| !departure.from_client) {
        *bursts.entry(departure.at).or_default() += departure.data.len() as u64;
    }
    bursts
}

/// The most that was ever ahead of `rate` since the first departure.
fn most_ahead(bursts: &BTreeMap<Instant, u64>, rate: Rate) -> u64 {
    let start = *bursts.keys().next().expect("something left");
    let mut sent = 0;
    let mut most = 0;
    for (at, bytes) in bursts {
        sent += bytes;
        let ahead = sent.saturating_sub((rate * (*at - start)).get());
        most = most.max(ahead);
    }
    most
}

/// The most that left in any interval beyond what `rate` allows for its length.
fn most_ahead_of_any_interval(bursts: &BTreeMap<Instant, u64>, rate: Rate) -> u64 {
    let starts: Vec<Instant> = bursts.keys().copied().collect();
    let from = |start: &Instant| {
        let later: BTreeMap<Instant, u64> = bursts.range(*start..).map(|(at, bytes)| (*at, *bytes)).collect();
        most_ahead(&later, rate)
    };
    starts.iter().map(from).max().expect("something left")
}

/// What the pacer may send back to back: 250 us of the rate, a datagram at least.
fn quantum(rate: Rate) -> u64 {
    (rate * us(250)).get().clamp(FULL, 65_507)
}

fn gate(pair: &mut Pair) -> [u64; 2] {
    [&mut pair.client, &mut pair.server].map(|end| end.core().stats().proto.path.cwnd)
}

/// A setup whose peer never has to extend flow control, so that only ACKs come back.
fn wide(mut setup: Setup) -> Setup {
    setup.transport.stream_receive_window(Bytes::MAX).receive_window(Bytes::MAX);
    setup
}

#[test]
fn quinns_own_pacer_never_arms_its_timer() {
    let mut pair = settled(ms(20), wide(fixed(Rate::mbps(10))), wide(fixed(Rate::mbps(100))));
    // quinn-proto updates its keys somewhere in the first thousand packets; that has a timer too.
    pair.download(3_000_000);
    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
    pair.download(20_000_000);
    pair.run(ms(500));
    for _ in 0..1_000 {
        pair.run(ms(1));
        let now = pair.now;
        let timer = pair.server.core().inner().poll_timeout();
        // Its pacer would wake within 2 ms or so. Without loss, and with nothing to acknowledge, the
        // next timer is the probe timeout: srtt + 4 var + 25 ms after the last departure.
        assert!(timer.is_none_or(|at| at >= now + ms(40)), "{:?}", timer.map(|at| at - now));
    }
    assert!(!pair.client.is_finished, "the server was sending all the time");
}

#[test]
fn departures_follow_our_pacer_within_a_percent_and_no_burst_exceeds_the_quantum() {
    for rate in [Rate::kbps(500), Rate::mbps(1), Rate::mbps(10), Rate::mbps(100), Rate::gbps(1)] {
        let mut pair = settled(ms(20), fixed(Rate::mbps(10)), fixed(rate));
        pair.download(200_000_000);
        pair.run(ms(1_000));
        let bursts = bursts(&pair);
        let sent: u64 = bursts.values().sum();
        let expected = (rate * ms(1_000)).get();
        // A second ends within a burst, so one burst is allowed for.
        let allowed = expected / 100 + quantum(rate);
        assert!(sent.abs_diff(expected) <= allowed, "{rate}: {sent} of {expected}");
        assert!(bursts.values().all(|burst| *burst <= quantum(rate)), "{rate}: {:?}", bursts.values().max());
        assert!(most_ahead(&bursts, rate) <= quantum(rate), "{rate}: {} ahead", most_ahead(&bursts, rate));
    }
}

#[test]
fn the_gate_is_open_or_shut_and_never_between() {
    let mut pair = Pair::new(ms(20), fixed(Rate::mbps(20)), fixed(Rate::mbps(20)));
    pair.fate = rough(3, ms(20), 0.02, ms(5));
    assert!(pair.run_until(ms(10_000), |pair| pair.client.has_connected() && pair.server.has_connected()));
    pair.download(2_000_000);
    pair.upload(2_000_000);
    let mut seen = [0; 2];
    while !(pair.client.is_finished && pair.server.is_finished) {
        pair.run(ms(1));
        for window in gate(&mut pair) {
            match window {
                1 => seen[0] += 1,
                0x1_0000_0000 => seen[1] += 1,
                other => panic!("a window of {other} wakes quinn-proto's pacer"),
            }
        }
        assert!(pair.elapsed() < ms(60_000), "stalled");
    }
    assert!(seen[0] > 0 && seen[1] > 0, "shut and open were both seen: {seen:?}");
}

#[test]
fn loss_jitter_mtu_discovery_and_sparse_acks_at_200_ms_neither_panic_nor_stall() {
    const BYTES: u64 = 1_000_000;
    for seed in 0..8 {
        let mut pair = Pair::new(ms(100), fixed(Rate::mbps(20)), fixed(Rate::mbps(20)));
        pair.fate = rough(seed, ms(90), 0.02, ms(20));
        assert!(
            pair.run_until(ms(20_000), |pair| pair.client.has_connected() && pair.server.has_connected())
        );
        pair.download(BYTES);
        pair.upload(BYTES);
        let is_done = pair.run_until(ms(60_000), |pair| pair.client.is_finished && pair.server.is_finished);
        assert!(is_done, "seed {seed}: {} and {} bytes", pair.client.received, pair.server.received);
        assert_eq!((pair.client.received, pair.server.received), (BYTES, BYTES), "seed {seed}");
        assert!(pair.server.core().stats().proto.path.sent_plpmtud_probes > 0, "seed {seed}");
    }
}

#[test]
fn a_loss_probe_leaves_through_the_shut_gate_and_is_paid_for_later() {
    // A datagram every 1.5 s: the pacer would hold the probe back far beyond the probe timeout.
    let rate = Rate::kbps(8);
    let mut pair = Pair::connected(ms(20), fixed(Rate::mbps(10)), fixed(rate));
    pair.run(ms(20_000));
    pair.departures.clear();
    let mut lost = false;
    pair.fate = losing(ms(20), move |departure| {
        !departure.from_client && departure.data.len() > 1_000 && !std::mem::replace(&mut lost, true)
    });
    let start = pair.now;
    pair.download(12_000);
    assert!(pair.run_until(ms(30_000), |pair| pair.client.is_finished));
    let bursts = bursts(&pair);
    let second = bursts.keys().nth(1).expect("more than one datagram");
    // srtt + 4 var + 25 ms of delay; the variance of a quiet path is small.
    assert!(*second - start < ms(200), "the probe left after {:?}", *second - start);
    // RFC 9002 §6.2.4: one or two probes; they are ahead of the plan and everything after pays.
    let ahead = most_ahead(&bursts, rate);
    assert!(ahead <= 3 * FULL, "{ahead} ahead");
}

#[test]
fn pure_acks_leave_through_the_shut_gate() {
    // The server may send 1 kB/s and owes the pacer seconds; it has nothing to send but ACKs.
    let mut pair = Pair::connected(ms(20), fixed(Rate::mbps(100)), fixed(Rate::kbps(8)));
    pair.run(ms(100));
    let start = pair.now;
    pair.upload(2_000_000);
    assert!(pair.run_until(ms(5_000), |pair| pair.server.is_finished));
    let took = pair.now - start;
    // 160 ms at 100 Mbit/s, 40 ms of round trip, and the client's MTU is settled.
    assert!(took < ms(260), "{took:?}");
    let client = pair.client.core().stats();
    assert!(client.path.rtt.expect("measured").smoothed < ms(60), "{:?}", client.path.rtt);
}

#[test]
fn what_is_in_flight_never_exceeds_the_window() {
    // 30 kB under 1 Gbit/s at 40 ms: always blocked by the window, 6 Mbit/s.
    let window = Bytes::kb(30);
    let diary = Diary::new(Rate::gbps(1), window);
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
    diary.clear();
    let start = pair.now;
    pair.download(600_000);
    assert!(pair.run_until(ms(10_000), |pair| pair.client.is_finished));
    let most = diary.sent().iter().map(|sent| sent.in_flight).max().expect("something left");
    assert!(most <= window, "{most:?}");
    // 20 datagrams per round trip of 40 to 65 ms: sparse ACKs may wait for 25 ms.
    let took = pair.now - start;
    assert!((ms(800)..ms(1_500)).contains(&took), "{took:?}");
}

#[test]
fn time_without_room_in_the_window_earns_nothing() {
    // Blocked for most of each round trip; when ACKs make room, the rate holds again at once.
    let (rate, window) = (Rate::mbps(100), Bytes::kb(60));
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(Law::fixed(rate, window)));
    pair.download(1_000_000);
    assert!(pair.run_until(ms(10_000), |pair| pair.client.is_finished));
    let ahead = most_ahead_of_any_interval(&bursts(&pair), rate);
    assert!(ahead <= quantum(rate), "{ahead}");
}

#[test]
fn a_silent_path_lets_a_blocked_sender_exceed_its_window_by_few_datagrams() {
    let window = Bytes::kb(30);
    let diary = Diary::new(Rate::mbps(100), window);
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
    diary.clear();
    pair.download(10_000_000);
    pair.fate = losing(ms(20), |departure| !departure.from_client);
    pair.run(ms(1_000));
    // Each ping on our clock (5/4 RTT apart, twelve and then doubling) and each of quinn-proto's two
    // probes per doubling timeout may carry new data.
    let most = diary.sent().iter().map(|sent| sent.in_flight).max().expect("something left");
    assert!(most <= window + Bytes::new(FULL).times(14 + 2 * 5), "{most:?}");
}

#[test]
fn the_gate_shows_in_protos_cwnd_and_the_truth_in_our_stats_and_in_metrics() {
    let (rate, window) = (Rate::mbps(7), Bytes::kb(123));
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(Law::fixed(rate, window)));
    pair.download(1_000_000);
    pair.run(ms(100));
    let stats = pair.server.core().stats();
    assert!([1, 1 << 32].contains(&stats.proto.path.cwnd));
    assert_eq!((stats.path.window, stats.path.pacing_rate, stats.path.state), (window, rate, "fixed"));
    let metrics = pair.server.core().inner().congestion_state().metrics();
    assert_eq!((metrics.congestion_window, metrics.pacing_rate), (123_000, Some(7_000_000)));
}

#[test]
fn the_anchor_bounds_a_plan_without_a_rate_of_its_own() {
    let mut server = fixed(Rate::MAX);
    server.anchor = Rate::mbps(50);
    let mut pair = settled(ms(5), fixed(Rate::mbps(10)), server);
    pair.download(100_000_000);
    pair.run(ms(500));
    let bursts = bursts(&pair);
    assert!(most_ahead(&bursts, Rate::mbps(50)) <= quantum(Rate::mbps(50)));
    let sent: u64 = bursts.values().sum();
    assert!(sent.abs_diff(3_125_000) < 35_000, "{sent}");
}

#[test]
fn a_rate_raised_from_almost_nothing_takes_effect_at_once() {
    // What left under the old rate must not hold the new one back: 1 kbit/s means 12 s per datagram.
    let diary = Diary::new(Rate::kbps(1), Bytes::mb(64));
    let mut pair = Pair::connected(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
    diary.set_plan(Rate::mbps(100), Bytes::mb(64));
    let start = pair.now;
    pair.upload(20_000);
    pair.run(ms(100));
    pair.download(100_000);
    assert!(pair.run_until(ms(60_000), |pair| pair.client.is_finished));
    let took = pair.now - start;
    assert!(took < ms(300), "{took:?}");
}

#[test]
fn a_rate_of_zero_means_never_until_it_is_raised() {
    let diary = Diary::new(Rate::ZERO, Bytes::mb(64));
    let mut pair = Pair::connected(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
    pair.run(ms(100));
    pair.departures.clear();
    diary.set_plan(Rate::mbps(100), Bytes::mb(64));
    pair.upload(20_000);
    pair.run(ms(100));
    pair.download(100_000);
    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
}

#[test]
fn a_close_leaves_through_a_full_window() {
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(Law::fixed(Rate::mbps(100), Bytes::kb(6))));
    pair.download(1_000_000);
    pair.run(ms(10));
    let now = pair.now;
    pair.server.core().inner().close(now, VarInt::from_u32(7), bytes::Bytes::from_static(b"enough"));
    // RFC 9002 §7: a CONNECTION_CLOSE is not subject to congestion control.
    pair.run(ms(25));
    let reason = pair.client.lost().expect("the client was told");
    assert!(reason.to_string().contains("enough"), "{reason}");
}

#[test]
fn a_close_does_not_wait_for_the_pacer() {
    let mut pair = Pair::connected(ms(20), fixed(Rate::mbps(10)), fixed(Rate::kbps(8)));
    pair.download(100_000);
    pair.run(ms(100));
    let now = pair.now;
    pair.server.core().inner().close(now, VarInt::from_u32(7), bytes::Bytes::new());
    pair.run(ms(25));
    assert!(pair.client.lost().is_some());
}

#[test]
fn an_application_that_writes_little_marks_its_samples_and_a_bulk_transfer_does_not() {
    let diary = Diary::new(Rate::mbps(20), Bytes::mb(64));
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
    diary.clear();
    for _ in 0..5 {
        pair.download(5_000);
        pair.run(ms(200));
    }
    let acks = diary.acks();
    assert!(!acks.is_empty() && acks.iter().all(|ack| ack.newest.app_limited));
    diary.clear();
    pair.download(5_000_000);
    let start = pair.now;
    assert!(pair.run_until(Duration::from_secs(10), |pair| pair.client.is_finished));
    let end = pair.now;
    let bulk: Vec<_> = diary
        .acks()
        .into_iter()
        .filter(|ack| ack.newest.sent > start + ms(100) && ack.newest.sent < end - ms(100))
        .collect();
    assert!(bulk.len() > 50 && bulk.iter().all(|ack| !ack.newest.app_limited));
    // And such samples are the plan's rate: the path is clean, and has no bottleneck.
    for ack in bulk {
        let rate = ack.sample.expect("longer than the least RTT").rate;
        assert!(rate.as_mbps_f64() > 19.0 && rate.as_mbps_f64() < 20.5, "{rate}");
    }
}
