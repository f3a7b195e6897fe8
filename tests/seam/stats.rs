//! What `stats` tells of a path, against what the wire did.

use std::time::Duration;

use quinn_proto::EcnCodepoint;
use warprate::conn::{Law, Limit};
use warprate::units::{Bytes, Rate};

use crate::common::fate::{losing, rough};
use crate::common::pair::{Pair, ms, setup, us};
use crate::{FULL, fixed, settled};

const DELAY: Duration = Duration::from_millis(20);

fn downloading(rate: Rate, window: Bytes, bytes: u64) -> Pair {
    let mut pair = settled(DELAY, fixed(Rate::mbps(10)), setup(Law::fixed(rate, window)));
    pair.download(bytes);
    pair
}

#[test]
fn the_delivery_rate_is_the_pace_and_says_what_it_proves() {
    let rate = Rate::mbps(20);
    let mut pair = downloading(rate, Bytes::mb(64), 5_000_000);
    pair.run(ms(1_000));
    let path = pair.server.core().stats().path;
    let delivery = path.delivery.expect("measured");
    let ratio = delivery.rate.as_bits_per_sec() as f64 / rate.as_bits_per_sec() as f64;
    assert!((0.9..1.1).contains(&ratio) && !delivery.app_limited, "{delivery:?}");
    assert_eq!(path.pacing_rate, rate);
    assert_eq!(path.window, Bytes::mb(64));
    // 20 Mbit/s over 40 ms and some.
    assert!(path.in_flight > Bytes::kb(90) && path.in_flight < Bytes::kb(120), "{}", path.in_flight);
    // Departures of one burst are nanoseconds apart.
    assert!(path.delay.queue < us(1), "{:?}", path.delay);
    assert!(path.delay.floor > ms(39) && path.delay.floor < ms(42), "{:?}", path.delay);

    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
    // Two messages a little apart are limited by the application.
    for _ in 0..2 {
        pair.run(ms(200));
        pair.download(5_000);
        pair.run(ms(200));
    }
    let delivery = pair.server.core().stats().path.delivery.expect("measured");
    assert!(delivery.app_limited, "{delivery:?}");
}

#[test]
fn held_back_time_is_told_by_its_cause() {
    // By the pacer: ten datagrams' worth of burst aside, all the time.
    let mut pair = downloading(Rate::mbps(20), Bytes::mb(64), 5_000_000);
    let before = pair.server.core().stats().blocked;
    pair.run(ms(1_000));
    let blocked = pair.server.core().stats().blocked;
    assert!(blocked.pacing - before.pacing > ms(950), "{blocked:?}");
    assert_eq!(blocked.window, before.window);

    // By the window: ten datagrams a round trip of 40 ms leave at once at 1 Gbit/s.
    let mut pair = downloading(Rate::gbps(1), Bytes::new(10 * FULL), 5_000_000);
    let before = pair.server.core().stats().blocked;
    pair.run(ms(1_000));
    let blocked = pair.server.core().stats().blocked;
    assert!(blocked.window - before.window > ms(900), "{blocked:?}");

    // By the application.
    let mut pair = downloading(Rate::gbps(1), Bytes::mb(64), 10_000);
    pair.run(ms(1_000));
    pair.download(10_000);
    pair.run(ms(1_000));
    let stats = pair.server.core().stats();
    assert!(stats.blocked.application > ms(1_800), "{:?}", stats.blocked);
    assert_eq!(stats.path.limit, Limit::Application);
}

#[test]
fn writers_that_wait_while_nothing_may_be_sent_are_held_back_by_flow_control() {
    let mut pair = downloading(Rate::mbps(50), Bytes::mb(64), 10_000);
    // The tokio side says so while a write waits for room.
    pair.server.core().set_write_blocked(true);
    pair.run(ms(500));
    assert_eq!(pair.server.core().stats().path.limit, Limit::FlowControl);
    pair.server.core().set_write_blocked(false);
    pair.download(10_000);
    pair.run(ms(500));
    let stats = pair.server.core().stats();
    assert!(stats.blocked.flow_control > ms(400) && stats.blocked.flow_control < ms(600), "{stats:?}");
}

#[test]
fn losses_are_told_by_kind_and_add_up() {
    let mut pair = downloading(Rate::mbps(20), Bytes::mb(64), 5_000_000);
    pair.fate = rough(1, DELAY, 0.01, Duration::ZERO);
    assert!(pair.run_until(ms(10_000), |pair| pair.client.is_finished));
    pair.run(ms(1_000));
    let path = pair.server.core().stats().path;
    let kinds = [path.losses.scatter, path.losses.burst, path.losses.congestion, path.losses.persistent];
    let sum = kinds.iter().fold(Bytes::ZERO, |sum, kind| sum + kind.bytes);
    assert_eq!(sum, path.lost);
    let proto = pair.server.core().stats().proto.path;
    assert_eq!(kinds.iter().map(|kind| kind.packets).sum::<u64>(), proto.lost_packets);
    // Losses by chance on a path without a queue.
    assert!(path.losses.scatter.packets >= proto.lost_packets * 9 / 10, "{:?}", path.losses);
    assert_eq!(path.losses.congestion.packets, 0);
    assert_eq!(path.losses.marked, 0);
}

#[test]
fn marks_are_counted_packet_by_packet() {
    let mut pair = downloading(Rate::mbps(20), Bytes::mb(64), 1_000_000);
    let mut count = 0_u64;
    pair.fate = Box::new(move |departure| {
        count += u64::from(!departure.from_client);
        let is_marked = !departure.from_client && (101..=150).contains(&count);
        Some((DELAY, if is_marked { Some(EcnCodepoint::Ce) } else { departure.ecn }))
    });
    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
    pair.run(ms(1_000));
    assert_eq!(pair.server.core().stats().path.losses.marked, 50);
}

#[test]
fn a_lost_packet_that_arrives_is_told_as_spurious() {
    let mut pair = downloading(Rate::mbps(20), Bytes::mb(64), 1_000_000);
    let mut count = 0;
    pair.fate = Box::new(move |departure| {
        count += u32::from(!departure.from_client);
        let late = if !departure.from_client && count == 200 { ms(60) } else { Duration::ZERO };
        Some((DELAY + late, departure.ecn))
    });
    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
    pair.run(ms(1_000));
    let path = pair.server.core().stats().path;
    assert_eq!((path.lost, path.spurious), (Bytes::new(FULL), Bytes::new(FULL)));
}

#[test]
fn a_foreign_controllers_losses_are_told_by_kind_too() {
    let mut pair = settled(DELAY, fixed(Rate::mbps(10)), setup(Law::quinn_cubic()));
    pair.download(3_000_000);
    let mut count = 0;
    pair.fate = losing(DELAY, move |departure| {
        count += u32::from(!departure.from_client);
        !departure.from_client && count == 500
    });
    assert!(pair.run_until(ms(10_000), |pair| pair.client.is_finished));
    assert_eq!(pair.server.core().stats().path.losses.scatter.packets, 1);
}
