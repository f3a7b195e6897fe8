//! Line 12: the last datagrams of a flight leave twice, and the receiver takes one of the two.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use bytes::Bytes as Data;
use proptest::prelude::*;
use quinn_proto::{EcnCodepoint, VarInt};
use warprate::conn::Law;
use warprate::units::{Bytes, Rate};

use crate::common::diary::{Diary, Told};
use crate::common::fate::{losing, rough};
use crate::common::pair::{Departure, Fate, Pair, ms, setup, us};
use crate::{fixed, settled};

/// Whether it is a datagram with stream data of the server's download.
fn is_data(departure: &Departure) -> bool {
    !departure.from_client && departure.data.len() > 100
}

/// Loses the data packets of these numbers, counted from now and copies included.
fn losing_numbers(delay: Duration, numbers: impl Fn(u64) -> bool + 'static) -> Fate {
    let mut count = 0;
    losing(delay, move |departure| {
        count += u64::from(is_data(departure));
        is_data(departure) && numbers(count)
    })
}

/// A settled pair whose server has sent 8 MB at `rate`, of which every fiftieth packet was lost: it may send
/// 400 KB twice, less some 130 datagrams that have left so already.
fn lossy(delay: Duration, rate: Rate) -> Pair {
    lossy_under(delay, Law::fixed(rate, Bytes::mb(64)))
}

fn lossy_under(delay: Duration, law: Law) -> Pair {
    let mut pair = settled(delay, fixed(Rate::mbps(10)), setup(law));
    pair.fate = losing_numbers(delay, |number| number % 50 == 0);
    pair.download(8_000_000);
    assert!(pair.run_until(ms(60_000), |pair| pair.client.is_finished));
    pair.run(ms(1_000));
    pair.fate = losing(delay, |_| false);
    pair.departures.clear();
    pair
}

/// The second departures of datagrams: when each left, and how long after the first.
fn copies(pair: &Pair) -> Vec<(Instant, Duration)> {
    let mut seen = std::collections::BTreeMap::new();
    let mut copies = Vec::new();
    for departure in pair.departures.iter().filter(|departure| !departure.from_client) {
        match seen.get(&departure.data) {
            Some(first) => copies.push((departure.at, departure.at - *first)),
            None => _ = seen.insert(departure.data.clone(), departure.at),
        }
    }
    copies
}

fn counted(pair: &mut Pair) -> (u64, Bytes) {
    let copies = pair.server.core().stats().copies;
    (copies.datagrams, copies.bytes)
}

#[test]
fn a_lost_last_datagram_is_repaired_by_its_copy_half_a_round_trip_later() {
    for delay in [ms(1), ms(20), ms(100)] {
        let mut pair = lossy(delay, Rate::mbps(100));
        pair.download(60 * 1_400);
        assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
        let flight = pair.departures.iter().filter(|departure| is_data(departure)).count() as u64;
        let flight = flight - copies(&pair).len() as u64;
        pair.run(ms(1_000));
        pair.departures.clear();
        pair.fate = losing_numbers(delay, move |number| number == flight);
        pair.download(60 * 1_400);
        assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
        let index = usize::try_from(flight).expect("few");
        let data: Vec<_> = pair.departures.iter().filter(|departure| is_data(departure)).collect();
        let (last, copy) = (data[index - 1], data[index]);
        assert!(last.data == copy.data, "{delay:?}: the copy is the datagram itself");
        // The burst before it, 250 us or two datagrams, is paid first.
        assert!(copy.at - last.at <= us(300), "{delay:?}: {:?}", copy.at - last.at);
        assert_eq!(pair.now, copy.at + delay, "{delay:?}");
    }
}

#[test]
fn the_latest_leave_first_and_each_leaves_twice_at_most() {
    let mut pair = lossy(ms(20), Rate::mbps(100));
    let before = counted(&mut pair).0;
    pair.download(60 * 1_400);
    pair.run(ms(1_000));
    let copies = copies(&pair);
    assert!(copies.len() > 50, "{}", copies.len());
    assert!(copies.is_sorted_by_key(|(_, after)| *after), "the newest first");
    assert_eq!(counted(&mut pair).0 - before, copies.len() as u64);
}

#[test]
fn nothing_leaves_twice_on_a_path_without_loss() {
    for law in [Law::fixed(Rate::mbps(50), Bytes::mb(64)), Law::warprate(1)] {
        let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(law));
        for _ in 0..10 {
            pair.download(100_000);
            pair.run(ms(500));
        }
        assert_eq!(counted(&mut pair), (0, Bytes::ZERO));
        assert!(copies(&pair).is_empty());
    }
}

#[test]
fn laws_of_a_standard_send_nothing_twice() {
    let laws = [Law::cubic(), Law::new_reno(), Law::bbr3(1), Law::quinn_cubic()];
    for law in laws {
        let told = format!("{law:?}");
        let mut pair = lossy_under(ms(5), law);
        pair.download(100_000);
        pair.run(ms(1_000));
        assert_eq!(counted(&mut pair), (0, Bytes::ZERO), "{told}");
    }
}

#[test]
fn nothing_leaves_twice_while_a_queue_stands() {
    let mut pair = lossy(ms(20), Rate::mbps(100));
    // A quarter of the floor more, since before the flight: an eighth is a queue.
    pair.fate = Box::new(|departure| Some((ms(30), departure.ecn)));
    pair.download(1_000_000);
    pair.run(ms(1_000));
    assert!(copies(&pair).is_empty());
}

#[test]
fn nothing_leaves_twice_after_a_mark() {
    let mut pair = lossy(ms(20), Rate::mbps(100));
    let mut count = 0;
    pair.fate = Box::new(move |departure| {
        count += u64::from(is_data(departure));
        let is_marked = is_data(departure) && count == 200;
        Some((ms(20), if is_marked { Some(EcnCodepoint::Ce) } else { departure.ecn }))
    });
    pair.download(1_000_000);
    pair.run(ms(300));
    assert!(copies(&pair).is_empty());
    // Eight round trips later the path is as good as before.
    pair.run(ms(320));
    pair.download(100_000);
    pair.run(ms(300));
    assert!(!copies(&pair).is_empty());
}

#[test]
fn new_data_goes_before_copies() {
    // A datagram takes 1.16 ms.
    let mut pair = lossy(ms(100), Rate::mbps(10));
    pair.download(40 * 1_400);
    assert!(pair.run_until(ms(500), |pair| copies(pair).len() == 3));
    let written = pair.now;
    pair.download(40 * 1_400);
    pair.run(ms(1_000));
    let mut seen = BTreeSet::new();
    let late: Vec<_> = pair.departures.iter().filter(|departure| is_data(departure)).collect();
    let news: Vec<bool> = late
        .iter()
        .map(|departure| (departure.at, seen.insert(&departure.data)))
        .filter(|(at, _)| *at > written)
        .map(|(_, is_new)| is_new)
        .collect();
    let first_copy = news.iter().position(|is_new| !is_new).expect("copies follow");
    assert!(first_copy >= 38, "{first_copy}");
    assert!(news[first_copy..].iter().all(|is_new| !is_new));
}

#[test]
fn a_ping_does_not_wait_for_copies() {
    // 40 copies take 46 ms; the first ping is due 10 ms after the flight.
    let mut pair = lossy(ms(20), Rate::mbps(10));
    let pings = |pair: &mut Pair| pair.server.core().stats().proto.frame_tx.ping;
    let before = pings(&mut pair);
    pair.download(40 * 1_400);
    assert!(pair.run_until(ms(500), |pair| copies(pair).len() == 1));
    pair.run(ms(12));
    assert_eq!(pings(&mut pair), before + 1);
}

#[test]
fn nothing_leaves_twice_after_a_close() {
    let mut pair = lossy(ms(100), Rate::mbps(10));
    pair.download(40 * 1_400);
    assert!(pair.run_until(ms(500), |pair| copies(pair).len() == 3));
    let now = pair.now;
    pair.server.core().inner().close(now, VarInt::from_u32(0), Data::new());
    pair.run(ms(2_000));
    assert_eq!(copies(&pair).len(), 3);
}

#[test]
fn a_path_that_was_left_gets_no_copies_and_an_unproven_one_neither() {
    for moved in [(Ipv4Addr::LOCALHOST, 77), (Ipv4Addr::new(192, 0, 2, 1), 1)] {
        let mut pair = lossy(ms(100), Rate::mbps(10));
        pair.download(100 * 1_400);
        assert!(pair.run_until(ms(500), |pair| copies(pair).len() == 3));
        pair.move_client(moved.into());
        pair.client.core().inner().ping();
        let before = pair.server.core().inner().remote_address();
        assert!(pair.run_until(ms(500), |pair| {
            pair.departures.last().is_some_and(|last| !last.from_client && last.destination != before)
        }));
        let copied = copies(&pair).len();
        pair.download(10 * 1_400);
        pair.run(ms(150));
        assert_eq!(copies(&pair).len(), copied, "{moved:?}");
    }
}

#[test]
fn copies_move_no_round_trip_time_and_undo_no_loss() {
    let delay = ms(20);
    let diary = Diary::new(Rate::mbps(10), Bytes::mb(64));
    diary.set_copies();
    let mut pair = lossy_under(delay, diary.law());
    diary.clear();
    // The last forty are lost; copies of the first of them leave 46 ms later than they did.
    let flight = 100_u64;
    pair.fate = losing_numbers(delay, move |number| number > flight - 40 && number <= flight);
    let before = pair.server.core().stats().path;
    pair.download(flight * 1_400);
    pair.run(ms(2_000));
    assert!(pair.client.is_finished && !copies(&pair).is_empty());
    // The peer acknowledges ten packets at a time, 11.6 ms, or after 25 ms.
    let longest = diary.acks().iter().map(|ack| ack.rtt.latest).max().expect("told");
    assert!(longest <= delay * 2 + ms(26), "{longest:?}");
    assert!(diary.undone().is_empty());
    // A ping is not copied: with its ACK all is told.
    pair.server.core().inner().ping();
    pair.run(ms(200));
    let path = pair.server.core().stats().path;
    assert_eq!(path.audit, before.audit);
    assert_eq!(path.in_flight, Bytes::ZERO);
    let told: Bytes = diary.acks().iter().fold(Bytes::ZERO, |sum, ack| sum + ack.bytes);
    assert_eq!(told, path.delivered - before.delivered, "what a copy brought is told, too");
    assert!(diary.pages().iter().any(|page| matches!(page.told, Told::Loss { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever the path and the writes.
    #[test]
    fn a_twentieth_of_what_is_sent_leaves_twice_at_most(
        seed in any::<u64>(),
        delay in 1..60_u64,
        loss in 0.0..0.15_f64,
        jitter in 0..3_u64,
        writes in prop::collection::vec((1..200_000_u64, 0..200_u64), 1..8),
        is_warprate in any::<bool>(),
    ) {
        let law = if is_warprate { Law::warprate(seed) } else { Law::fixed(Rate::mbps(50), Bytes::mb(64)) };
        let mut pair = settled(ms(delay), fixed(Rate::mbps(10)), setup(law));
        pair.fate = rough(seed, ms(delay), loss, ms(jitter));
        for (bytes, pause) in writes {
            pair.download(bytes);
            prop_assert!(pair.run_until(ms(60_000), |pair| pair.client.is_finished));
            pair.run(ms(pause));
        }
        let (datagrams, bytes) = counted(&mut pair);
        let sent = pair.server.core().stats().proto.udp_tx.bytes;
        prop_assert!(bytes.get() * 20 <= sent, "{bytes} of {sent}");
        prop_assert_eq!(copies(&pair).len() as u64, datagrams);
    }
}
