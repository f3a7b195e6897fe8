//! Line 11: early pings repair a lost tail on the path's own clock.

use std::time::Duration;

use warprate::conn::Law;
use warprate::units::{Bytes, Rate};

use crate::common::fate::losing;
use crate::common::pair::{Departure, Pair, ms, setup, us};
use crate::{FULL, fixed, settled};

/// Whether it is a datagram with stream data: pings and acknowledgements are shorter.
fn is_data(departure: &Departure) -> bool {
    !departure.from_client && departure.data.len() > 100
}

/// Loses the last `k` datagrams of a flight of 60, once; the time from the departure of the first
/// lost one until the receiver had everything.
fn repair_time(delay: Duration, k: u64) -> Duration {
    let mut pair = settled(delay, fixed(Rate::mbps(10)), fixed(Rate::mbps(100)));
    pair.download(60 * 1_400);
    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
    let flight = pair.departures.iter().filter(|departure| is_data(departure)).count() as u64;
    pair.run(ms(1_000));
    pair.departures.clear();
    let mut count = 0;
    pair.fate = losing(delay, move |departure| {
        count += u64::from(is_data(departure));
        is_data(departure) && count > flight - k && count <= flight
    });
    pair.download(60 * 1_400);
    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
    let index = usize::try_from(flight - k).expect("few");
    let lost = pair.departures.iter().filter(|departure| is_data(departure)).nth(index).expect("it left");
    pair.now - lost.at
}

#[test]
fn a_lost_tail_is_repaired_within_two_and_a_quarter_round_trips() {
    for (delay, rtt) in [(ms(1), ms(2)), (ms(20), ms(40)), (ms(100), ms(200))] {
        for k in [1, 2, 3, 10_u32] {
            let took = repair_time(delay, k.into());
            // Pings leave 1/4 and 3/4 RTT after the tail. The first shows the receiver a gap of k, and a
            // gap of two makes it acknowledge at once; for a single packet it takes the second ping. The
            // ACK, after 5/4 or 7/4 RTT, is past the time threshold of 9/8; the repair takes half a round
            // trip more. Both flights are paced, at 232 us for two datagrams.
            let bound = if k == 1 { rtt * 9 / 4 } else { rtt * 15 / 8 };
            assert!(took >= rtt * 3 / 2, "{rtt:?} k={k}: {took:?} is faster than light");
            assert!(took <= bound + us(232) * k, "{rtt:?} k={k}: {took:?}");
        }
    }
}

/// A server in bulk transfer whose path goes dead; the times since then at which it sent.
fn departures_into_silence(delay: Duration, law: Law, bytes: u64) -> Vec<Duration> {
    let mut pair = settled(delay, fixed(Rate::mbps(10)), setup(law));
    pair.download(bytes);
    pair.run(delay * 4);
    pair.fate = losing(delay, |_| true);
    let death = pair.now;
    pair.departures.clear();
    assert!(pair.run_until(ms(60_000), |pair| pair.server.lost().is_some()), "the idle timeout ends it");
    let from_server = pair.departures.iter().filter(|departure| !departure.from_client);
    from_server.map(|departure| departure.at - death).collect()
}

#[test]
fn a_dead_path_gets_a_logarithmic_number_of_pings() {
    for delay in [ms(1), ms(20), ms(100)] {
        for (waiting, bytes) in [("tail", 50_000), ("blocked", 10_000_000)] {
            let law = Law::fixed(Rate::mbps(100), Bytes::kb(100));
            let departures = departures_into_silence(delay, law, bytes);
            // What the window still allowed has left after a few round trips.
            let probes: Vec<_> = departures.iter().filter(|at| **at > delay * 4 + ms(10)).collect();
            let late = probes.iter().filter(|at| ***at > ms(15_000)).count();
            // Twelve pings, then one per doubling of 5/4 RTT up to 30 s; and quinn-proto's two probes
            // per doubling of its timeout.
            let rtt_doublings = (30.0 / (2.5 * delay.as_secs_f64())).log2().ceil();
            let pto_doublings = (30.0_f64 / (0.025 + 2.0 * delay.as_secs_f64())).log2().ceil();
            let bound = 12.0 + rtt_doublings + 2.0 * pto_doublings + 4.0;
            assert!((probes.len() as f64) <= bound, "{delay:?} {waiting}: {} > {bound}", probes.len());
            assert!(late <= 4, "{delay:?} {waiting}: {late} in the last 15 s");
        }
    }
}

#[test]
fn an_idle_connection_sends_nothing() {
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), fixed(Rate::mbps(10)));
    pair.download(100_000);
    pair.run(ms(1_000));
    pair.departures.clear();
    pair.run(ms(20_000));
    assert_eq!(pair.departures.len(), 0);
    assert_eq!(pair.server.core().stats().path.in_flight, Bytes::ZERO);
}

#[test]
fn a_keep_alive_is_not_followed_by_pings() {
    for delay in [ms(1), ms(20), ms(100)] {
        let mut server = fixed(Rate::mbps(10));
        server.transport.keep_alive_interval(Some(ms(5_000)));
        let mut pair = settled(delay, fixed(Rate::mbps(10)), server);
        pair.run(ms(50_000));
        let sent = pair.departures.iter().filter(|departure| !departure.from_client).count();
        assert!(sent <= 10, "{delay:?}: {sent}");
    }
}

#[test]
fn a_healthy_tail_costs_few_pings() {
    // The receiver acknowledges every ten packets or after 25 ms, so a tail of one datagram waits for
    // that: on a path of 2 ms pings are sent meanwhile until they make up the ten.
    for (delay, most) in [(ms(1), 9), (ms(20), 2), (ms(100), 2)] {
        let mut pair = settled(delay, fixed(Rate::mbps(10)), fixed(Rate::mbps(10)));
        let pings = |pair: &mut Pair| pair.server.core().stats().proto.frame_tx.ping;
        let before = pings(&mut pair);
        pair.download(500);
        pair.run(ms(1_000));
        let sent = pings(&mut pair) - before;
        assert!(sent <= most, "{delay:?}: {sent}");
    }
}

#[test]
fn a_paced_sender_is_not_pinging() {
    // A datagram per 116 ms and a round trip of 2 ms: the pacer lets the next one go soon enough.
    let mut pair = settled(ms(1), fixed(Rate::mbps(10)), fixed(Rate::kbps(100)));
    let before = pair.server.core().stats().proto.frame_tx.ping;
    pair.download(1_000_000);
    pair.run(ms(3_000));
    assert_eq!(pair.server.core().stats().proto.frame_tx.ping, before);
}

#[test]
fn an_outage_is_over_within_three_round_trips_of_its_end() {
    // Everything vanishes for 10 RTT while the sender is blocked by its window.
    let delay = ms(20);
    let law = Law::fixed(Rate::mbps(20), Bytes::new(40 * FULL));
    let mut pair = settled(delay, fixed(Rate::mbps(10)), setup(law));
    pair.download(5_000_000);
    pair.run(ms(200));
    let end = pair.now + ms(400);
    pair.fate = losing(delay, move |departure| departure.at < end);
    pair.run(ms(400));
    let received = pair.client.received;
    // A ping within 5/4 RTT, its ACK after one more, and data half a round trip later.
    assert!(pair.run_until(ms(120), |pair| pair.client.received > received + 20_000));
}
