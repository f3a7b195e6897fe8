//! Line 16: the client's address changes in the middle of a transfer.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use quinn_proto::ConnectionError;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use warprate::conn::Law;
use warprate::units::{Bytes, Rate};

use crate::common::diary::{Diary, Told};
use crate::common::fate::losing;
use crate::common::pair::{Pair, ms, setup};
use crate::{FULL, fixed, settled};

const DELAY: Duration = Duration::from_millis(20);

/// The client's first address and port behind `Pair`, a rebound port, and two other hosts.
fn home() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 1).into()
}

fn rebound() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 77).into()
}

fn away(host: u8) -> SocketAddr {
    (Ipv4Addr::new(192, 0, 2, host), 1).into()
}

/// A download of 5 MB at 20 Mbit/s that has run for half a second, and the server's diary.
fn downloading(window: Bytes) -> (Pair, Diary) {
    let diary = Diary::new(Rate::mbps(20), window);
    let mut pair = settled(DELAY, fixed(Rate::mbps(10)), setup(diary.law()));
    pair.download(5_000_000);
    pair.run(ms(500));
    (pair, diary)
}

/// The network no longer carries anything from or to addresses other than `address`.
fn only(pair: &mut Pair, address: SocketAddr) {
    pair.fate =
        losing(DELAY, move |departure| departure.source != address && departure.destination != address);
}

/// Lets one datagram of the client reach the server from `address`, and nothing else through.
fn spoof(pair: &mut Pair, address: SocketAddr) {
    let home = pair.client.address;
    pair.move_client(address);
    // A client that only receives might have nothing to say just now.
    pair.client.core().inner().ping();
    let mut is_through = false;
    pair.fate = losing(DELAY, move |departure| {
        let is_the_one = departure.from_client && !is_through;
        is_through |= is_the_one;
        !is_the_one
    });
    assert!(
        pair.run_until(ms(200), |pair| pair.departures.iter().any(|departure| departure.source == address))
    );
    pair.move_client(home);
    pair.fate = losing(DELAY, |_| true);
    pair.run(DELAY + ms(1));
    let seen = pair.server.core().inner().remote_address();
    assert_eq!(seen, address, "the server took the bait");
}

fn finish(pair: &mut Pair) {
    let start = pair.now;
    let is_done = pair.run_until(ms(30_000), |pair| pair.client.is_finished);
    assert!(is_done, "{} bytes; {:?}", pair.client.received, pair.server.core().stats().path);
    assert!(pair.now - start < ms(10_000), "{:?}", pair.now - start);
    assert_eq!(pair.client.received, 5_000_000);
}

#[test]
fn a_rebinding_keeps_the_law_and_what_was_counted() {
    let (mut pair, diary) = downloading(Bytes::mb(64));
    let delivered = pair.server.core().stats().path.delivered;
    let acks = diary.acks().len() as u64;
    diary.clear();
    pair.move_client(rebound());
    only(&mut pair, rebound());
    pair.run(ms(30));
    assert!(pair.server.core().stats().path.delivered >= delivered, "the ledger goes on");
    finish(&mut pair);
    pair.run(ms(1_000));
    assert_eq!(diary.laws(), 1, "no other law was told anything");
    // The clone knows what the law had been told, and goes on with it.
    let first = diary.pages().into_iter().find(|page| matches!(page.told, Told::Ack(_))).expect("ACKs");
    assert!(first.acks_before >= acks);
    let stats = pair.server.core().stats();
    assert_eq!((stats.path.in_flight, stats.path.audit.inexact_losses), (Bytes::ZERO, 0), "{:?}", stats.path);
}

#[test]
fn another_address_gets_a_fresh_law() {
    let (mut pair, diary) = downloading(Bytes::mb(64));
    pair.move_client(away(1));
    only(&mut pair, away(1));
    finish(&mut pair);
    pair.run(ms(1_000));
    assert_eq!(diary.laws(), 2);
    let pages = diary.pages();
    let of_new: Vec<_> = pages.iter().filter(|page| page.law == 1).collect();
    assert!(of_new.iter().any(|page| matches!(page.told, Told::Ack(_))));
    let last_of_old = pages.iter().rposition(|page| page.law == 0).expect("the old law was told things");
    let first_of_new = pages.iter().position(|page| page.law == 1).expect("and the new one");
    assert!(last_of_old < first_of_new, "the old law hears nothing more");
    let stats = pair.server.core().stats();
    assert_eq!(stats.path.in_flight, Bytes::ZERO);
    // Losses of the former path may pass for a black hole of the new one: docs/seam.md.
    let has_grown = stats.path.datagram == Bytes::new(FULL);
    assert!(has_grown || stats.proto.path.black_holes_detected > 0, "MTU discovery ran anew");
}

#[test]
fn a_new_path_is_measured_by_itself() {
    let (mut pair, diary) = downloading(Bytes::mb(64));
    pair.move_client(away(1));
    pair.fate = losing(ms(50), |departure| departure.source == home() || departure.destination == home());
    finish(&mut pair);
    let rtt = pair.server.core().stats().path.rtt.expect("measured");
    assert!(rtt.min > ms(99) && rtt.min <= ms(100), "{rtt:?}");
    assert_eq!(diary.laws(), 2);
}

#[test]
fn a_failed_validation_restores_the_old_path_and_its_law() {
    for (address, window) in [
        (away(1), Bytes::mb(64)),
        (away(1), Bytes::new(20 * FULL)),
        (rebound(), Bytes::mb(64)),
        (rebound(), Bytes::new(20 * FULL)),
    ] {
        let (mut pair, diary) = downloading(window);
        spoof(&mut pair, address);
        let acks = diary.acks().len() as u64;
        // Three probe timeouts without an answer: quinn-proto returns to the old path.
        let is_back =
            pair.run_until(ms(5_000), |pair| pair.departures.last().expect("some").destination == home());
        assert!(is_back, "{address} {window:?}: {:?}", pair.server.core().stats().path);
        diary.clear();
        only(&mut pair, home());
        finish(&mut pair);
        let told = diary.pages();
        assert!(told.iter().all(|page| page.law == 0), "{address}: only the first law is asked");
        let first = told.iter().find(|page| matches!(page.told, Told::Ack(_))).expect("ACKs");
        assert!(first.acks_before <= acks, "{address}: and it is the one before the move");
        pair.run(ms(1_000));
        let stats = pair.server.core().stats();
        assert_eq!(stats.path.in_flight, Bytes::ZERO, "{address}: {:?}", stats.path);
        // The loss of what went to the wrong address is reported together with the old path's.
        assert!(stats.path.audit.inexact_losses <= 1, "{address}: {:?}", stats.path);
    }
}

#[test]
fn two_moves_in_a_row_that_both_fail_restore_the_path_before_them() {
    // quinn-proto returns to the last validated path, which is not the one before the present one.
    let (mut pair, diary) = downloading(Bytes::new(200 * FULL));
    spoof(&mut pair, away(1));
    spoof(&mut pair, away(2));
    assert!(pair.run_until(ms(5_000), |pair| pair.departures.last().expect("some").destination == home()));
    diary.clear();
    only(&mut pair, home());
    finish(&mut pair);
    assert!(diary.pages().iter().all(|page| page.law == 0));
}

/// The anchors that each law was told.
fn anchors(diary: &Diary) -> Vec<(u32, Rate)> {
    let anchor = |page: &crate::common::diary::Page| match page.told {
        Told::Anchor(anchor) => Some((page.law, anchor)),
        _ => None,
    };
    diary.pages().iter().filter_map(anchor).collect()
}

#[test]
fn a_law_hears_of_the_anchor_of_the_path_that_it_is_on() {
    let (mut pair, diary) = downloading(Bytes::mb(64));
    let now = pair.now;
    pair.server.core().set_anchor(now, Rate::mbps(15));
    assert_eq!(anchors(&diary), [(0, Rate::mbps(15))]);
    assert_eq!(pair.server.core().stats().path.pacing_rate, Rate::mbps(15));
    // The peer moves, and another interface leads to it.
    pair.move_client(away(1));
    only(&mut pair, away(1));
    pair.run(ms(200));
    let now = pair.now;
    for _ in 0..2 {
        pair.server.core().set_anchor(now, Rate::mbps(5));
    }
    assert_eq!(anchors(&diary), [(0, Rate::mbps(15)), (1, Rate::mbps(5))], "once");
    assert_eq!(pair.server.core().stats().path.pacing_rate, Rate::mbps(5));
}

#[test]
fn the_anchor_of_a_path_that_proves_invalid_is_not_that_of_the_one_before() {
    let (mut pair, diary) = downloading(Bytes::mb(64));
    spoof(&mut pair, away(1));
    let now = pair.now;
    pair.server.core().set_anchor(now, Rate::mbps(1));
    assert!(pair.run_until(ms(5_000), |pair| pair.departures.last().expect("some").destination == home()));
    assert!(anchors(&diary).iter().all(|&(law, _)| law != 0), "{:?}", anchors(&diary));
    assert_eq!(pair.server.core().stats().path.pacing_rate, Rate::mbps(20));
    only(&mut pair, home());
    finish(&mut pair);
}

#[test]
fn a_client_that_wanders_keeps_its_transfer() {
    let (mut pair, _) = downloading(Bytes::mb(64));
    for address in [away(1), rebound(), away(2), home(), away(1)] {
        pair.move_client(address);
        only(&mut pair, address);
        pair.run(ms(150));
    }
    finish(&mut pair);
    pair.run(ms(1_000));
    assert_eq!(pair.server.core().stats().path.in_flight, Bytes::ZERO);
}

#[test]
fn moves_at_random_among_live_and_dead_addresses_never_stall() {
    for seed in 0..60 {
        let mut rng = StdRng::seed_from_u64(seed);
        let window = if rng.random_bool(0.5) { Bytes::mb(64) } else { Bytes::new(30 * FULL) };
        let mut pair = match rng.random_range(0..3) {
            0 => {
                let law = [Law::quinn_cubic(), Law::quinn_new_reno(), Law::quinn_bbr()]
                    [rng.random_range(0..3)]
                .clone();
                let mut pair = settled(DELAY, fixed(Rate::mbps(10)), setup(law));
                pair.download(5_000_000);
                pair.run(ms(200));
                pair
            }
            _ => downloading(window).0,
        };
        for _ in 0..rng.random_range(1..8) {
            pair.move_client([home(), rebound(), away(1), away(2)][rng.random_range(0..4)]);
            // Some addresses answer, some swallow everything but what comes from them, some all.
            let (from, to) = (rng.random_bool(0.8), rng.random_bool(0.6));
            pair.fate = losing(DELAY, move |departure| !if departure.from_client { from } else { to });
            pair.run(ms(rng.random_range(1..300)));
        }
        pair.move_client(home());
        only(&mut pair, home());
        // A client that only receives would not tell that it is back.
        pair.client.core().inner().ping();
        let is_done = pair.run_until(ms(20_000), |pair| pair.client.is_finished);
        let path = pair.server.core().stats().path;
        assert!(is_done, "seed {seed}: {} bytes; {path:?}", pair.client.received);
        pair.run(ms(2_000));
        let path = pair.server.core().stats().path;
        // A path that is still being validated may hold its challenge and an MTU probe.
        assert!(path.in_flight <= Bytes::new(1_200 + 1_326), "seed {seed}: {path:?}");
    }
}

#[test]
fn a_new_address_gets_at_most_three_times_what_came_from_it_until_it_is_validated() {
    let (mut pair, _) = downloading(Bytes::mb(64));
    pair.departures.clear();
    spoof(&mut pair, away(1));
    pair.run(ms(3_000));
    let sum = |from_client: bool| -> usize {
        let there = pair.departures.iter().filter(|departure| match from_client {
            true => departure.source == away(1),
            false => departure.destination == away(1),
        });
        there.map(|departure| departure.data.len()).sum()
    };
    let (received, sent) = (sum(true), sum(false));
    // DEVIATES RFC 9000 §9.3: quinn-proto lets a datagram begin while any allowance is left, and its
    // first MTU probe asks for none.
    assert!(sent <= 3 * received + 1_200 + 1_326, "{sent} for {received}");
}

/// A client that has uploaded for half a second, moves by itself, and is heard from its new address alone.
fn client_moves(address: SocketAddr, is_other_path: bool) -> (Pair, Diary) {
    let diary = Diary::new(Rate::mbps(20), Bytes::mb(64));
    let mut pair = settled(DELAY, setup(diary.law()), fixed(Rate::mbps(10)));
    pair.upload(5_000_000);
    pair.run(ms(500));
    diary.clear();
    pair.move_client(address);
    only(&mut pair, address);
    let now = pair.now;
    pair.client.core().on_rebound(now, is_other_path);
    assert!(pair.run_until(ms(30_000), |pair| pair.server.is_finished), "{} bytes", pair.server.received);
    assert_eq!(pair.server.received, 5_000_000);
    assert_eq!(pair.server.core().inner().remote_address(), address);
    pair.run(ms(1_000));
    assert_eq!(pair.client.core().stats().path.in_flight, Bytes::ZERO);
    (pair, diary)
}

#[test]
fn a_client_that_changes_its_port_keeps_law_and_ledger() {
    let (mut pair, diary) = client_moves(rebound(), false);
    assert_eq!(diary.laws(), 1);
    let path = pair.client.core().stats().path;
    assert!(path.delivered >= Bytes::mb(5) && path.audit.inexact_losses == 0, "{path:?}");
}

#[test]
fn a_client_that_changes_its_network_starts_anew() {
    let (mut pair, diary) = client_moves(away(1), true);
    assert_eq!(diary.laws(), 2);
    let path = pair.client.core().stats().path;
    assert!(path.delivered < Bytes::mb(5), "the ledger begins anew: {path:?}");
}

#[test]
fn a_client_that_moves_uses_another_connection_id() {
    // RFC 9000 §9.5: nobody on the way is to recognise it.
    let (pair, _) = client_moves(away(1), true);
    let ids = |address: SocketAddr| -> std::collections::BTreeSet<Vec<u8>> {
        let mine = pair.departures.iter().filter(|departure| departure.source == address);
        mine.map(|departure| departure.data[1..9].to_vec()).collect()
    };
    let (before, after) = (ids(home()), ids(away(1)));
    assert!(!before.is_empty() && !after.is_empty() && before.is_disjoint(&after));
}

#[test]
fn a_client_that_moves_at_random_loses_nothing_in_either_direction() {
    for seed in 0..40 {
        let mut rng = StdRng::seed_from_u64(seed);
        let law = match rng.random_range(0..3) {
            0 => Law::quinn_cubic(),
            1 => Law::warprate(seed),
            _ => Law::fixed(Rate::mbps(20), Bytes::mb(1)),
        };
        let mut pair = settled(DELAY, setup(law.clone()), setup(law));
        pair.download(1_000_000);
        pair.upload(1_000_000);
        for _ in 0..rng.random_range(1..6) {
            pair.run(ms(rng.random_range(1..200)));
            let from = pair.client.address;
            let address = [home(), rebound(), away(1), away(2)][rng.random_range(0..4)];
            let now = pair.now;
            pair.move_client(address);
            pair.client.core().on_rebound(now, address.ip() != from.ip());
            // Addresses that it has left are heard no more.
            let loss = rng.random_range(0.0..0.05);
            let mut chance = StdRng::seed_from_u64(seed);
            pair.fate = losing(DELAY, move |departure| {
                let is_there = departure.source == address || departure.destination == address;
                !is_there || chance.random_bool(loss)
            });
        }
        let is_done = pair.run_until(ms(60_000), |pair| pair.client.is_finished && pair.server.is_finished);
        let received = (pair.client.received, pair.server.received);
        assert!(is_done && received == (1_000_000, 1_000_000), "seed {seed}: {received:?}");
        pair.run(ms(3_000));
        for end in [&mut pair.client, &mut pair.server] {
            let path = end.core().stats().path;
            assert_eq!(path.in_flight, Bytes::ZERO, "seed {seed}: {path:?}");
        }
    }
}

/// A client that only receives moves to another host during an outage, and its system does not tell. From then on
/// all gets through that knows of it, but for the client's first full datagram if `is_answer_lost`.
fn moved_unnoticed(keep_alive: Option<Duration>, is_answer_lost: bool) -> Pair {
    let mut client = fixed(Rate::mbps(10));
    client.transport.keep_alive_interval(keep_alive);
    let mut pair = settled(DELAY, client, fixed(Rate::mbps(20)));
    pair.download(5_000_000);
    pair.run(ms(500));
    pair.fate = losing(DELAY, |_| true);
    pair.run(ms(1_000));
    pair.move_client(away(1));
    let mut loses = is_answer_lost;
    pair.fate = losing(DELAY, move |departure| {
        let is_answer = departure.from_client && departure.data.len() >= 1200;
        let is_elsewhere = !departure.from_client && departure.destination != away(1);
        is_elsewhere || (is_answer && std::mem::take(&mut loses))
    });
    pair.run_until(ms(120_000), |pair| pair.client.is_finished || pair.client.lost().is_some());
    pair
}

/// Neither ever knows; the idle timeout ends it, unless a keep-alive tells (RFC 9000 §10.1.2).
#[test]
fn a_silent_client_that_moves_unnoticed_times_out_unless_it_is_kept_alive() {
    assert_eq!(moved_unnoticed(None, false).client.lost(), Some(&ConnectionError::TimedOut));
    assert_eq!(moved_unnoticed(Some(ms(10_000)), false).client.received, 5_000_000);
}

/// DEVIATES from RFC 9000 §8.2.1, which lets PATH_CHALLENGE be sent again: quinn-proto asks once. If the answer is
/// lost, the server may send three times what it receives for three probe timeouts; and a keep-alive whose ACK
/// is ten seconds old has just made those longer than anyone waits.
#[test]
fn an_answer_to_a_path_challenge_that_is_lost_is_not_asked_for_again() {
    let pair = moved_unnoticed(Some(ms(10_000)), true);
    assert_eq!(pair.client.lost(), Some(&ConnectionError::TimedOut));
}
