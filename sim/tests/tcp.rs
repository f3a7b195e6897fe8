//! The tcp-like host: the request staircase, its timeout and its ceiling.

mod common;

use std::time::{Duration, Instant};

use common::{Pair, ms};
use proptest::prelude::*;
use warplink::{Jitter, Order, PathProfile, Probability};
use warprate::cc::{Fixed, NewReno, PathStart, RateLaw};
use warprate::loss::Audit;
use warprate::signal::{Ack, Loss, Plan};
use warpsim::host::{Traffic, tcp};
use warpsim::published::preset;
use warpsim::scenario;
use warpsim::topology::Topology;
use warpunits::{Bytes, Rate};

/// Slow start and nothing else, not paced: the window begins at ten segments and grows by what is
/// acknowledged. A timeout begins anew with one segment.
#[derive(Debug, Clone)]
struct SlowStart {
    window: Bytes,
}

impl SlowStart {
    fn new(_: PathStart) -> Self {
        Self { window: tcp::MSS.times(10) }
    }
}

impl RateLaw for SlowStart {
    fn on_ack(&mut self, ack: &Ack) {
        self.window += ack.bytes;
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        if loss.persistent {
            self.window = tcp::MSS;
        }
    }

    fn plan(&self, _now: Instant) -> Plan {
        Plan::new(Rate::MAX, self.window)
    }

    fn state(&self) -> &'static str {
        "slow start"
    }
}

fn exchange(path: &PathProfile, request: Bytes, response: Bytes, seed: u64) -> Pair {
    Pair::new(path, seed, |way| {
        let client = tcp::options(SlowStart::new, way.to_server, way.origin);
        let server = tcp::options(SlowStart::new, way.to_client, way.origin);
        (
            tcp::host(Traffic::Request(request), client).into_host(),
            tcp::host(Traffic::Respond(response), server).into_host(),
        )
    })
}

/// Time from the first SYN to the last byte of the answer, on a path without a bottleneck.
fn cost(request: u64, response: u64) -> Duration {
    let path = PathProfile::symmetric(Rate::MAX, ms(100)).expect("a path").with_buffer(Bytes::MAX);
    let mut pair = exchange(&path, Bytes::new(request), Bytes::new(response), 1);
    pair.run(Duration::from_secs(10));
    pair.progress(pair.client).finished.expect("the answer arrives").since_start()
}

#[test]
fn requests_cost_a_staircase_of_round_trips() {
    // published-results.json, `request_staircase`.
    let close_to = |found: Duration, expected: Duration| found >= expected && found < expected + ms(1);
    let costs = [(1, 1), (14_480, 1), (14_481, 1), (30_000, 30_000)].map(|(up, down)| cost(up, down));
    println!("{costs:?}");
    for (found, expected) in costs.into_iter().zip([ms(200), ms(200), ms(300), ms(400)]) {
        assert!(close_to(found, expected), "{found:?} instead of {expected:?}");
    }
    // The staircase goes on: 10 + 20 segments in two flights, the next one in a third.
    assert!(close_to(cost(43_440, 1), ms(300)) && close_to(cost(43_441, 1), ms(400)));
}

#[test]
fn the_staircase_stands_as_two_scenarios() {
    // RFC 9002 §7.2: ten datagrams of 1448 bytes, which is less than 14,720.
    #[expect(clippy::disallowed_methods, reason = "virtual time needs an origin")]
    let now = Instant::now();
    let window = NewReno::new(PathStart::new(now, tcp::MSS)).plan(now).window;
    assert_eq!(window, Bytes::new(14_480));
    // Twelve segments at most and the handshake, at 10 Gbit/s: less than 20 µs on the wire.
    let slack = Duration::from_micros(20);
    for (name, expected) in [("request-staircase-14480", ms(200)), ("request-staircase-14481", ms(300))] {
        let text = preset(name).expect("a preset");
        let topology = Topology::read(name, &text).expect("a topology");
        let report = scenario::run(&topology, &scenario::Options::default()).expect("it runs");
        let flow = &report.flows[0];
        let took = Duration::from_nanos(flow.exchange_ns.expect("the answer arrives"));
        assert!(took >= expected && took < expected + slack, "{name}: {took:?}");
        assert_eq!((flow.timeouts, flow.received_bytes), (Some(0), 1));
    }
}

fn download(path: &PathProfile, window: Bytes, bytes: Bytes, seed: u64) -> Pair {
    Pair::new(path, seed, |way| {
        let law = move |_: PathStart| Fixed::new(Rate::MAX, window);
        let client = tcp::options(law, way.to_server, way.origin);
        let server = tcp::options(law, way.to_client, way.origin);
        (
            tcp::host(Traffic::Receive, client).into_host(),
            tcp::host(Traffic::Send(Some(bytes)), server).into_host(),
        )
    })
}

#[test]
fn the_send_buffer_caps_what_is_in_flight() {
    let path = PathProfile::symmetric(Rate::gbps(10), ms(100)).expect("a path").with_buffer(Bytes::mb(100));
    let mut pair = download(&path, Bytes::mb(500), Bytes::mb(100), 1);
    pair.run(Duration::from_secs(60));
    let took = pair.download_time();
    // Just under 24 windows of 4 MiB, one per round trip: 23 waits and half a trip for the last.
    assert!(took > ms(2300) && took < ms(2460), "{took:?}");
    assert_eq!(pair.stats(pair.server).packets_lost, 0);
}

#[test]
fn a_silent_path_costs_200_ms_each_time() {
    // Without a queue only the first segment of a burst passes; nothing tells that the others are lost.
    let path = PathProfile::symmetric(Rate::mbps(100), ms(10)).expect("a path").with_buffer(Bytes::ZERO);
    let mut pair = download(&path, tcp::MSS.times(10), tcp::MSS.times(4), 1);
    pair.run(Duration::from_secs(60));
    let stats = pair.stats(pair.server);
    assert_eq!((stats.timeouts, stats.packets_lost), (Some(3), 3 + 2 + 1));
    let took = pair.download_time();
    // Each lonely segment is acknowledged after 40 ms and a round trip, and then 200 ms of silence pass.
    assert!(took > ms(3 * 250) && took < ms(3 * 250 + 10), "{took:?}");
}

#[test]
fn backoff_doubles_until_the_path_is_back() {
    // Acknowledgements stand still from 220 ms to 3220 ms.
    let path = PathProfile::symmetric(Rate::mbps(100), ms(100)).expect("a path");
    let reverse = path.reverse.clone().with_outages(vec![(ms(220), ms(3000))]).expect("outages");
    let path = PathProfile { reverse, ..path };
    let mut pair = download(&path, tcp::MSS.times(2), tcp::MSS.times(20), 1);
    pair.run(Duration::from_secs(60));
    // The last acknowledgement came at 252 ms. The timeout is 300 ms by then (a handshake and two
    // samples of 100 ms), so it ends at 552, 1152 and 2352 ms, and next would at 4752 ms.
    let stats = pair.stats(pair.server);
    assert_eq!(stats.timeouts, Some(3), "{stats:?}");
    let first = stats.first_loss.expect("a timeout is a loss").since_start();
    assert!(first > ms(545) && first < ms(560), "{first:?}");
    assert_eq!(pair.progress(pair.client).received, tcp::MSS.times(20));
}

#[test]
fn single_losses_are_repaired_without_a_timeout() {
    let path = PathProfile::symmetric(Rate::mbps(100), ms(20)).expect("a path").with_buffer(Bytes::mb(5));
    let path = path.with_data_loss(Probability::percent(1));
    let bytes = Bytes::mb(20);
    let mut pair = download(&path, Bytes::kb(500), bytes, 5);
    pair.run(Duration::from_secs(60));
    let stats = pair.stats(pair.server);
    assert!(stats.packets_lost > 100 && stats.timeouts <= Some(1), "{stats:?}");
    let goodput = bytes / pair.download_time();
    assert!(goodput > Rate::mbps(85), "{goodput}: {stats:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the path does to requests and answers: both arrive whole, and the books are settled.
    #[test]
    fn requests_are_answered(
        request in 0u64..100_000,
        response in 0u64..300_000,
        losses in (0u32..30, 0u32..30),
        jitter_us in 0u64..8_000,
        buffer_kb in 0u64..100,
        rtt_ms in 0u64..150,
        seed in any::<u64>(),
    ) {
        let path = PathProfile::symmetric(Rate::mbps(50), ms(rtt_ms)).expect("a path")
            .with_buffer(Bytes::kb(buffer_kb + 2))
            .with_data_loss(Probability::percent(losses.0))
            .with_ack_loss(Probability::percent(losses.1))
            .with_jitter(Jitter::new(Duration::from_micros(jitter_us), Order::Reorder).expect("jitter"));
        let mut pair = exchange(&path, Bytes::new(request), Bytes::new(response), seed);
        pair.run(Duration::from_secs(36_000));
        prop_assert_eq!(pair.progress(pair.server).received, Bytes::new(request));
        prop_assert_eq!(pair.progress(pair.client).received, Bytes::new(response));
        prop_assert!(pair.progress(pair.client).finished.is_some());
        pair.world.add_host(Box::new(common::Forever));
        pair.run(Duration::from_secs(100_000));
        for id in [pair.client, pair.server] {
            let host = pair.flow(id);
            prop_assert!(host.is_idle());
            prop_assert_eq!(host.control().ledger().in_flight(), Bytes::ZERO);
            prop_assert_eq!(host.control().ledger().audit(), Audit::default());
        }
    }
}
