//! The bare host: what `fixed` reaches, that runs repeat, that nothing vanishes.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{Pair, ms};
use proptest::prelude::*;
use warplink::{Jitter, Order, PathProfile, Probability, Time, Transfer, oracle};
use warprate::cc::{Fixed, PathStart, RateLaw};
use warprate::loss::Audit;
use warprate::signal::{Plan, Verdict};
use warpsim::host::{AckPolicy, Batched, FlowHost, FlowOptions, Traffic, bare};
use warpsim::packet::HostId;
use warpsim::port::Port;
use warpsim::queue::{Fifo, Limit, Queue, Queued};
use warpsim::world::World;
use warpunits::{Bytes, Gain, Rate};

const LINK: Rate = Rate::gbps(1);
const RTT: Duration = ms(40);

fn path() -> PathProfile {
    PathProfile::symmetric(LINK, RTT).expect("a path").with_buffer(Bytes::mb(20))
}

/// 0.97 of what the link carries, as UDP payload.
fn plan() -> Rate {
    LINK * Gain::ratio(97, 100) * Gain::ratio(1452, 1518)
}

/// A download under `fixed`; `tune` changes the options of client and server.
fn download(
    path: &PathProfile,
    (rate, window): (Rate, Bytes),
    bytes: Bytes,
    seed: u64,
    tune: impl Fn(&mut FlowOptions),
) -> Pair {
    Pair::new(path, seed, |way| {
        let law = move |_: PathStart| Fixed::new(rate, window);
        let mut client = bare::options(law, way.to_server, way.origin);
        let mut server = bare::options(law, way.to_client, way.origin);
        tune(&mut client);
        tune(&mut server);
        let client = bare::host(Traffic::Receive, client);
        (client.into_host(), bare::host(Traffic::Send(Some(bytes)), server).into_host())
    })
}

fn fixed() -> (Rate, Bytes) {
    (plan(), plan() * (RTT * 4))
}

#[test]
fn a_clean_link_carries_97_percent_of_the_plan() {
    let bytes = Bytes::mb(100);
    let mut pair = download(&path(), fixed(), bytes, 1, |_| {});
    pair.run(Duration::from_secs(60));
    let goodput = bytes / pair.download_time();
    let planned = plan() * Gain::ratio(1420, 1452);
    println!("{goodput} of {planned}");
    assert!(goodput >= planned * Gain::percent(97), "{goodput} of {planned}");
    assert_eq!(pair.stats(pair.server).packets_lost, 0);
    assert_eq!(pair.port(pair.forward).overflow_drops, 0);
}

/// What share of the oracle's rate a download reaches, in percent.
fn share_of_oracle(path: &PathProfile, law: (Rate, Bytes), bytes: Bytes, seed: u64) -> u128 {
    let transfer =
        Transfer { bytes, datagram: bare::DATAGRAM, stream_per_datagram: bare::STREAM_PER_DATAGRAM };
    let mut pair = download(path, law, bytes, seed, |_| {});
    pair.run(Duration::from_secs(60));
    oracle(path, &transfer, seed).as_nanos() * 100 / pair.download_time().as_nanos()
}

const FLOORS: [(u32, u128); 3] = [(1, 93), (5, 90), (10, 87)];

#[test]
fn losses_cost_little_more_than_the_oracle_pays() {
    for (percent, floor) in FLOORS {
        let path = path().with_data_loss(Probability::percent(percent));
        let share = share_of_oracle(&path, fixed(), Bytes::mb(200), 3);
        println!("200 MB, 40 ms, {percent} % loss: {share} %");
        assert!(share >= floor, "{percent} % loss: {share} % of the oracle");
    }
}

#[test]
fn losses_cost_little_on_the_published_path() {
    for (percent, floor) in FLOORS {
        let path = PathProfile::symmetric(LINK, ms(2)).expect("a path").with_buffer(Bytes::mb(1));
        let path = path.with_data_loss(Probability::percent(percent));
        let run = |seed| share_of_oracle(&path, (plan(), Bytes::mb(1)), Bytes::mb(10), seed);
        let mut shares: Vec<u128> = (0..11).map(run).collect();
        shares.sort_unstable();
        println!("10 MB, 2 ms, {percent} % loss: {shares:?}");
        // The median: a lost tail costs a probe timeout, for bare hosts send no early pings.
        assert!(shares[5] >= floor, "{percent} % loss: {shares:?} % of the oracle");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let path = path().with_data_loss(Probability::percent(2)).with_ack_loss(Probability::percent(1));
    let path = path.with_jitter(Jitter::new(ms(1), Order::Reorder).expect("jitter"));
    let outcome = |seed| {
        let mut pair = download(&path, fixed(), Bytes::mb(10), seed, |_| {});
        pair.run(Duration::from_secs(60));
        let (client, server) = (pair.client, pair.server);
        (pair.progress(client), pair.progress(server), pair.stats(server), pair.port(pair.forward).sent)
    };
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
}

#[test]
fn nothing_vanishes() {
    let path = path().with_data_loss(Probability::percent(3)).with_buffer(Bytes::kb(100));
    // Twice the link's rate: the queue drops, too.
    let bytes = Bytes::mb(20);
    let mut pair = download(&path, (plan() * Gain::ratio(2, 1), Bytes::mb(8)), bytes, 1, |_| {});
    pair.run(Duration::from_secs(60));
    // What is still under way arrives.
    pair.world.add_host(Box::new(common::Forever));
    pair.run(Duration::from_secs(120));
    let stats = pair.stats(pair.server);
    let port = pair.port(pair.forward);
    assert_eq!(pair.progress(pair.client).received, bytes);
    assert_eq!(port.offered, stats.datagrams_sent);
    assert_eq!(port.offered, port.departed + port.overflow_drops);
    assert!(port.overflow_drops > 0 && port.random_losses > 0);
    assert_eq!(stats.packets_lost, port.overflow_drops + port.random_losses);
    assert_eq!(stats.spurious_losses, Some(0));
    assert!(pair.flow(pair.server).is_idle());
    assert_eq!(pair.flow(pair.server).control().ledger().in_flight(), Bytes::ZERO);
}

#[test]
fn sparse_acknowledgements_are_sparse_and_cost_nothing() {
    let run = |policy| {
        let mut pair = download(&path(), fixed(), Bytes::mb(20), 1, |options| options.acks = policy);
        pair.run(Duration::from_secs(60));
        let packets = pair.stats(pair.server).datagrams_sent;
        (packets / pair.stats(pair.client).datagrams_sent, pair.download_time())
    };
    let (dense, sparse) = (run(AckPolicy::QUIC), run(AckPolicy::QUIC.with_every(10)));
    assert_eq!((dense.0, sparse.0), (2, 10));
    assert_eq!(dense.1, sparse.1);
}

#[test]
fn a_lonely_packet_is_acknowledged_after_the_delay() {
    let mut pair = download(&path(), fixed(), Bytes::kb(1), 1, |_| {});
    pair.world.add_host(Box::new(common::Forever));
    pair.run(Duration::from_secs(1));
    let rtt = pair.stats(pair.server).rtt.expect("acknowledged");
    assert_eq!(rtt.samples, 1);
    // 40 ms there and back, 25 ms of patience, and some microseconds of serialisation.
    assert!(rtt.min > ms(65) && rtt.min < ms(65) + Duration::from_micros(20), "{:?}", rtt.min);
}

#[test]
fn batches_are_acknowledged_together() {
    let batch = ms(4);
    let mut pair = Pair::new(&path(), 1, |way| {
        let law = |_: PathStart| Fixed::new(plan(), Bytes::mb(8));
        let mut client = bare::options(law, way.to_server, way.origin);
        client.acks = AckPolicy::QUIC.with_batch(batch);
        let server = bare::options(law, way.to_client, way.origin);
        let client = bare::host(Traffic::Receive, client).into_host();
        (client, bare::host(Traffic::Send(Some(Bytes::mb(10))), server).into_host())
    });
    pair.run(Duration::from_secs(60));
    let (packets, acks) = (pair.stats(pair.server).datagrams_sent, pair.stats(pair.client).datagrams_sent);
    // 4 ms at 0.97 Gbit/s are 319 packets.
    assert!(packets / acks >= 280 && packets / acks <= 320, "{packets} packets, {acks} acknowledgements");
    let finished = pair.progress(pair.client).finished.expect("it finishes").since_start();
    assert_eq!(finished.as_nanos() % batch.as_nanos(), 0);
    let any: &mut dyn std::any::Any = pair.world.host(pair.client);
    assert!(any.downcast_mut::<Batched<FlowHost>>().is_some_and(|host| host.inner().is_idle()));
}

#[test]
fn late_packets_show_that_their_loss_was_spurious() {
    let path = path().with_jitter(Jitter::new(ms(1), Order::Reorder).expect("jitter"));
    let mut pair = download(&path, fixed(), Bytes::mb(10), 1, |_| {});
    pair.run(Duration::from_secs(60));
    let stats = pair.stats(pair.server);
    let spurious = stats.spurious_losses.expect("bare hosts know");
    assert!(stats.packets_lost > 100 && spurious > stats.packets_lost * 9 / 10, "{stats:?}");
    assert_eq!(pair.progress(pair.client).received, Bytes::mb(10));
}

#[test]
fn a_stream_without_end_goes_on() {
    let mut pair = Pair::new(&path(), 1, |way| {
        let law = |_: PathStart| Fixed::new(plan(), Bytes::mb(8));
        let client = bare::host(Traffic::Receive, bare::options(law, way.to_server, way.origin));
        let server = bare::host(Traffic::Send(None), bare::options(law, way.to_client, way.origin));
        (client.into_host(), server.into_host())
    });
    pair.run(Duration::from_secs(1));
    let progress = pair.progress(pair.client);
    assert_eq!(progress.finished, None);
    // All but what the last 20 ms hold is there, to within a burst.
    let expected = (plan() * Gain::ratio(1420, 1452)) * ms(980);
    assert!(progress.received.get().abs_diff(expected.get()) < 60_000, "{}", progress.received);
}

/// Marks every hundredth packet.
#[derive(Debug)]
struct Marking(Fifo, u32);

impl Queue for Marking {
    fn push(&mut self, now: Time, mut queued: Queued) -> Option<Queued> {
        self.1 += 1;
        if self.1.is_multiple_of(100) && queued.packet.ecn.is_some() {
            queued.packet.ecn = Some(quinn_proto::EcnCodepoint::Ce);
        }
        self.0.push(now, queued)
    }

    fn pop(&mut self, now: Time, dropped: &mut Vec<Queued>) -> Option<Queued> {
        self.0.pop(now, dropped)
    }

    fn bytes(&self) -> Bytes {
        self.0.bytes()
    }
}

/// Counts verdicts.
#[derive(Debug, Clone)]
struct Counting(Arc<AtomicU32>);

impl RateLaw for Counting {
    fn on_verdict(&mut self, _verdict: &Verdict) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn plan(&self, _now: Instant) -> Plan {
        Plan::new(Rate::mbps(900), Bytes::mb(8))
    }

    fn state(&self) -> &'static str {
        "counting"
    }
}

#[test]
fn marks_reach_the_law() {
    for ecn in [false, true] {
        let mut world = World::new();
        let port = |world: &mut World, seed| {
            let queue = Box::new(Marking(Fifo::new(Limit::Bytes(Bytes::mb(1))), 0));
            world.add_port(Port::new(path().forward, queue, seed))
        };
        let (there, back) = (port(&mut world, 1), port(&mut world, 2));
        let (to_client, to_server) =
            (world.add_route(vec![there], HostId(0)), world.add_route(vec![back], HostId(1)));
        let verdicts = Arc::new(AtomicU32::new(0));
        let (law, origin) = (Counting(verdicts.clone()), common::origin());
        let factory = move |_: PathStart| law.clone();
        let client = bare::host(Traffic::Receive, bare::options(factory.clone(), to_server, origin));
        let mut options = bare::options(factory, to_client, origin);
        options.ecn = ecn;
        world.add_host(client.into_host());
        let server = world.add_host(bare::host(Traffic::Send(Some(Bytes::mb(2))), options).into_host());
        world.add_host(Box::new(common::Forever));
        world.run_until(Time::from(Duration::from_secs(1)));
        let marks = verdicts.load(Ordering::Relaxed);
        let first = world.host(server).stats().and_then(|stats| stats.first_mark);
        // 1409 packets; the first of each burst is transmitted at once and meets no queue.
        assert_eq!((marks > 8, first.is_some()), (ecn, ecn), "{marks} marks");
        assert!(marks <= 14);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the path does: all bytes arrive, nothing is left on the books, and the sender's count
    /// of what is in flight is the ledger's.
    #[test]
    fn every_byte_arrives(
        kbytes in 0u64..400,
        mbps in 1u64..200,
        window_kb in 3u64..300,
        data_loss in 0u32..35,
        ack_loss in 0u32..35,
        jitter_us in 0u64..8_000,
        buffer_kb in 0u64..100,
        rtt_ms in 0u64..150,
        every in 0u32..12,
        seed in any::<u64>(),
    ) {
        let path = PathProfile::symmetric(Rate::mbps(50), ms(rtt_ms)).expect("a path")
            .with_buffer(Bytes::kb(buffer_kb + 2))
            .with_data_loss(Probability::percent(data_loss))
            .with_ack_loss(Probability::percent(ack_loss))
            .with_jitter(Jitter::new(Duration::from_micros(jitter_us), Order::Reorder).expect("jitter"));
        let bytes = Bytes::kb(kbytes);
        let law = (Rate::mbps(mbps), Bytes::kb(window_kb));
        let mut pair = download(&path, law, bytes, seed, |options| options.acks = AckPolicy::QUIC.with_every(every));
        pair.run(Duration::from_secs(3600));
        prop_assert_eq!(pair.progress(pair.client).received, bytes);
        prop_assert!(pair.progress(pair.client).finished.is_some());
        pair.world.add_host(Box::new(common::Forever));
        pair.run(Duration::from_secs(36_000));
        let port = pair.port(pair.forward);
        prop_assert_eq!(port.offered, pair.stats(pair.server).datagrams_sent);
        prop_assert_eq!(port.offered, port.departed + port.overflow_drops);
        let server = pair.flow(pair.server);
        prop_assert!(server.is_idle());
        prop_assert_eq!(server.control().ledger().in_flight(), Bytes::ZERO);
        prop_assert_eq!(server.control().ledger().audit(), Audit::default());
    }
}
