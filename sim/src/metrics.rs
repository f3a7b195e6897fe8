//! How well a run went: the figures of a [`Report`].
//!
//! *What it decides:* the arithmetic of the figures, nothing of the run; so floats are allowed here.
//! Names carry their units, since reports are files. The definitions:
//!
//! - *goodput*: stream bytes over the time from the departure of the first datagram with stream data
//!   to the moment when the last byte is readable (or the run ends);
//! - *exchange*: time from a flow's start, handshake included, to the last byte of the answer to its
//!   request; all other figures of such a flow are the answer's alone;
//! - *queue*: waiting wire bytes averaged over time, as the time that they take to leave;
//! - *overflow drops* by full queues, *random losses* on wires; *self-inflicted loss*: overflow drops
//!   per packet sent; *early drops*: bytes dropped within 10 base RTT of the flow's start;
//! - *retransmitted*: bytes that the sender declared lost and so sent again; *spurious*: those among them
//!   that nothing had dropped;
//! - *steady state*: the last two thirds of the run;
//! - *convergence*: from the last flow's start until every flow's rate stays within ±25 % of the fair
//!   share for 5 s;
//! - *harm* (Ware et al. 2019): what a newcomer takes away, see [`harm`];
//! - *oracle*: goodput of [`warplink::oracle()`] with the same draws.

use serde::{Deserialize, Serialize};
use warplink::{Span, Time, Transfer, oracle};
use warpunits::{Bytes, Rate};

use crate::host::{bare, tcp};
use crate::scenario::{self, Run};
use crate::topology::HostKind;

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The topology's name.
    pub topology: String,
    /// The run's seed.
    pub seed: u64,
    /// Simulated time.
    pub ended_ns: u64,
    /// Jain's index of the flows' goodputs, 1 for equal shares.
    pub jain: f64,
    /// See the module's head; needs samples and at least two flows.
    pub convergence_ns: Option<u64>,
    /// The flows in the topology's order.
    pub flows: Vec<FlowReport>,
    /// The links in the topology's order.
    pub links: Vec<LinkReport>,
}

/// What came of a flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// The kind of its hosts.
    pub host: String,
    /// Its law.
    pub law: String,
    /// Whether all bytes arrived.
    pub is_finished: bool,
    /// Whether the connection ended with an error.
    pub has_failed: bool,
    /// From the flow's start to the end of the handshake at the receiver.
    pub connect_ns: Option<u64>,
    /// Of an exchange: from the flow's start, handshake included, to the last byte of the answer.
    pub exchange_ns: Option<u64>,
    /// From the flow's start, handshake included, to the last byte.
    pub done_ns: Option<u64>,
    /// The time that goodput counts.
    pub transfer_ns: u64,
    /// Stream bytes received.
    pub received_bytes: u64,
    /// Stream bits per second.
    pub goodput_bps: u64,
    /// Goodput of the reactive oracle; for finite flows alone on their path.
    pub oracle_bps: Option<u64>,
    /// Goodput in steady state; needs samples.
    pub steady_bps: Option<u64>,
    /// Data packets sent, retransmissions and probes included.
    pub sent_packets: u64,
    /// Wire bytes sent.
    pub sent_bytes: u64,
    /// Stream bytes sent again; UDP payload declared lost where the transport does not tell.
    pub retransmitted_bytes: u64,
    /// UDP payload declared lost that was not lost.
    pub spurious_bytes: u64,
    /// Times that the sender had to probe or start again; `None` where the transport does not tell.
    pub timeouts: Option<u64>,
    /// Packets dropped by full queues.
    pub overflow_drops: u64,
    /// Packets lost on wires.
    pub random_losses: u64,
    /// Overflow drops per packet sent.
    pub self_inflicted_loss: f64,
    /// Wire bytes dropped early.
    pub early_drops_bytes: u64,
    /// Round-trip times.
    pub rtt: Option<RttReport>,
    /// Received stream bytes at each sample; empty without samples.
    pub received_series: Vec<u64>,
}

/// Round-trip times of a flow, ACK delay included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RttReport {
    /// Least.
    pub min_ns: u64,
    /// Mean.
    pub mean_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

/// What came of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Its name.
    pub name: String,
    /// Wire bytes that left, over what the first rate could have carried in the run's time.
    pub utilisation: f64,
    /// Time-averaged queue.
    pub queue_mean_ns: u64,
    /// Median waiting time of packets.
    pub queue_p50_ns: u64,
    /// 95th percentile.
    pub queue_p95_ns: u64,
    /// 99th percentile.
    pub queue_p99_ns: u64,
    /// The longest queue.
    pub queue_most_bytes: u64,
    /// Packets dropped by the full queue.
    pub overflow_drops: u64,
    /// Packets lost on the wire.
    pub random_losses: u64,
    /// J_S: jitter σ over the time that a full packet takes to send.
    pub jitter_per_packet: f64,
    /// Wire bytes that waited at each sample; empty without samples.
    pub queued_series: Vec<u64>,
    /// Wire bytes that had left by each sample; empty without samples.
    pub sent_series: Vec<u64>,
}

/// What was looked at during a run.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// When.
    pub moments: Vec<Time>,
    /// Stream bytes received, by flow and moment.
    pub received: Vec<Vec<Bytes>>,
    /// Wire bytes that waited, by link and moment.
    pub queued: Vec<Vec<Bytes>>,
    /// Wire bytes that had left, by link and moment.
    pub sent: Vec<Vec<Bytes>>,
    /// Bytes dropped early, by flow; `None` where the run ended before.
    pub early_drops: Vec<Option<Bytes>>,
}

impl Samples {
    pub fn new(flows: usize, links: usize) -> Self {
        Self {
            moments: Vec::new(),
            received: vec![Vec::new(); flows],
            queued: vec![Vec::new(); links],
            sent: vec![Vec::new(); links],
            early_drops: vec![None; flows],
        }
    }
}

pub(crate) fn report(run: &mut Run<'_>, samples: &Samples, end: Time) -> Report {
    let flows: Vec<_> = (0..run.flows.len()).map(|flow| flow_report(run, samples, flow, end)).collect();
    let links = (0..run.ports.len()).map(|place| link_report(run, samples, place, end)).collect();
    let goodputs: Vec<_> = flows.iter().map(|flow| to_f64(flow.goodput_bps)).collect();
    let last_start = run.topology.flows.iter().map(|flow| flow.start).max().unwrap_or_default();
    Report {
        topology: run.topology.name.clone(),
        seed: run.options.seed,
        ended_ns: nanos(end - Time::START),
        jain: jain(&goodputs),
        convergence_ns: convergence(samples, Time::from(last_start)).map(nanos),
        flows,
        links,
    }
}

fn flow_report(run: &mut Run<'_>, samples: &Samples, index: usize, end: Time) -> FlowReport {
    let flow = &run.topology.flows[index];
    let (receiver, sender) = run.progress(index);
    let stats = run.sender_stats(index);
    let started = sender.first_sent.unwrap_or(end);
    let transfer = receiver.finished.unwrap_or(end) - started;
    let data = run.flows[index].data;
    let (mut sent, mut dropped) = ((0, Bytes::ZERO), Drops::default());
    for (place, port) in run.ports.iter().enumerate() {
        let stats = run.world.port(*port).route_stats(end, data);
        let is_first = run.topology.links.place(&flow.forward[0]).is_some_and(|(first, _)| first == place);
        if is_first {
            sent = (stats.offered, stats.offered_bytes);
        }
        dropped.overflow += stats.overflow_drops;
        dropped.random += stats.random_losses;
        dropped.bytes += stats.overflow_bytes + stats.lost_bytes;
    }
    let dropped_payload = dropped.bytes - HEADERS.times(dropped.overflow + dropped.random);
    let early = samples.early_drops[index].unwrap_or_else(|| run.overflow_bytes(index));
    let is_udp = flow.host == HostKind::Udp;
    let since_start = |at| nanos(at - Time::from(flow.start));
    FlowReport {
        name: flow.name.clone(),
        host: flow.host.name().to_owned(),
        law: if is_udp { "-".to_owned() } else { run.flows[index].law.to_string() },
        is_finished: receiver.finished.is_some(),
        has_failed: receiver.has_failed || sender.has_failed,
        connect_ns: receiver.connected.map(since_start),
        exchange_ns: flow.request.and(receiver.finished).map(since_start),
        done_ns: receiver.finished.map(since_start),
        transfer_ns: nanos(transfer),
        received_bytes: receiver.received.get(),
        goodput_bps: bits_per_sec(receiver.received, transfer),
        oracle_bps: oracle_bps(run, index),
        steady_bps: steady_bps(samples, index, end),
        sent_packets: sent.0,
        sent_bytes: sent.1.get(),
        retransmitted_bytes: stats.retransmitted.unwrap_or(stats.bytes_lost).get(),
        spurious_bytes: (stats.bytes_lost - dropped_payload).get(),
        timeouts: stats.timeouts,
        overflow_drops: dropped.overflow,
        random_losses: dropped.random,
        self_inflicted_loss: ratio(dropped.overflow, sent.0),
        early_drops_bytes: early.get(),
        rtt: stats.rtt.map(|rtt| RttReport {
            min_ns: nanos(rtt.min.into()),
            mean_ns: nanos(rtt.mean.into()),
            p95_ns: nanos(rtt.p95.into()),
            max_ns: nanos(rtt.max.into()),
        }),
        received_series: samples.received[index].iter().map(|bytes| bytes.get()).collect(),
    }
}

/// What the network took from a flow.
#[derive(Default)]
struct Drops {
    overflow: u64,
    random: u64,
    bytes: Bytes,
}

fn link_report(run: &mut Run<'_>, samples: &Samples, place: usize, end: Time) -> LinkReport {
    let (name, link) = run.topology.links.iter().nth(place).expect("a port per link");
    let port = run.world.port(run.ports[place]);
    let stats = port.stats(end);
    let carried = u128::from(link.rate.as_bytes_per_sec()) * u128::from((end - Time::START).as_picos());
    let mean_bytes = stats.queue_integral / u128::from((end - Time::START).as_picos().max(1));
    let mean = Bytes::new(u64::try_from(mean_bytes).unwrap_or(u64::MAX)) / link.rate;
    let sojourns = port.sojourns();
    let sigma = link.jitter.map_or(Span::ZERO, |jitter| jitter.sigma.into());
    let packet = Span::from(FULL_PACKET / link.rate);
    LinkReport {
        name: name.to_owned(),
        utilisation: float(u128::from(stats.sent.get()) * PICOS_PER_SEC) / float(carried.max(1)),
        queue_mean_ns: nanos(mean.into()),
        queue_p50_ns: nanos(sojourns.percentile(50)),
        queue_p95_ns: nanos(sojourns.percentile(95)),
        queue_p99_ns: nanos(sojourns.percentile(99)),
        queue_most_bytes: stats.most_queued.get(),
        overflow_drops: stats.overflow_drops,
        random_losses: stats.random_losses,
        jitter_per_packet: ratio(sigma.as_picos(), packet.as_picos()),
        queued_series: samples.queued[place].iter().map(|bytes| bytes.get()).collect(),
        sent_series: samples.sent[place].iter().map(|bytes| bytes.get()).collect(),
    }
}

/// Stream bytes per second that a link carries in full datagrams of the QUIC host.
pub fn stream_rate(wire: Rate, datagram: u16) -> Rate {
    let datagram = Bytes::new(datagram.into());
    let (stream, packet) = ((datagram - STREAM_OVERHEAD).get(), (datagram + HEADERS).get());
    let bytes = u128::from(wire.as_bytes_per_sec()) * u128::from(stream) / u128::from(packet);
    Rate::bytes_per_sec(u64::try_from(bytes).expect("less than the wire's"))
}

fn oracle_bps(run: &Run<'_>, index: usize) -> Option<u64> {
    let flow = &run.topology.flows[index];
    let bytes = flow.bytes?;
    let path = scenario::path(run.topology, flow).ok()?;
    let (datagram, stream_per_datagram) = match flow.host {
        HostKind::Bare => (bare::DATAGRAM, bare::STREAM_PER_DATAGRAM),
        // A segment has 52 bytes of headers where a datagram has 28.
        HostKind::Tcp => (tcp::MSS + Bytes::new(52 - 28), tcp::MSS),
        HostKind::Quic | HostKind::Udp => {
            let datagram = Bytes::new(flow.mtu.into());
            (datagram, datagram - STREAM_OVERHEAD)
        }
    };
    let transfer = Transfer { bytes, datagram, stream_per_datagram };
    // The oracle numbers its forward link 0; a bottleneck elsewhere has other draws of the same law.
    let took = oracle(&path, &transfer, run.options.seed);
    Some(bits_per_sec(bytes, took.into()))
}

fn steady_bps(samples: &Samples, flow: usize, end: Time) -> Option<u64> {
    let from = samples.moments.iter().position(|at| at.as_picos() >= end.as_picos() / 3)?;
    let to = samples.moments.len() - 1;
    if from >= to {
        return None;
    }
    let received = samples.received[flow][to] - samples.received[flow][from];
    Some(bits_per_sec(received, samples.moments[to] - samples.moments[from]))
}

/// From `start` until every flow's rate, averaged over a second, stays within ±25 % of the fair share
/// for 5 s.
fn convergence(samples: &Samples, start: Time) -> Option<Span> {
    let flows = samples.received.len();
    if flows < 2 {
        return None;
    }
    let mut since = None;
    let mut back = 0;
    for (now, at) in samples.moments.iter().enumerate() {
        while samples.moments[back] + SECOND < *at {
            back += 1;
        }
        if samples.moments[back] < start || back == now {
            continue;
        }
        let rates: Vec<_> =
            samples.received.iter().map(|series| (series[now] - series[back]).get()).collect();
        let fair = rates.iter().sum::<u64>() / flows as u64;
        let is_fair = rates.iter().all(|rate| (fair - fair / 4..=fair + fair / 4).contains(rate));
        if !is_fair {
            since = None;
            continue;
        }
        let begun = *since.get_or_insert(*at);
        if *at - begun >= SECOND.times(5) {
            return Some(begun - start);
        }
    }
    None
}

/// Jain's index of fairness: 1 when all are equal, 1/n when one has everything.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// The part of its goodput that the flow called `name` lost to the others of `with`, compared with
/// `solo`, in which it was alone; negative where it gained.
pub fn harm(solo: &Report, with: &Report, name: &str) -> Option<f64> {
    let goodput = |report: &Report| {
        report.flows.iter().find(|flow| flow.name == name).map(|flow| to_f64(flow.goodput_bps))
    };
    let alone = goodput(solo)?;
    (alone > 0.0).then_some((alone - goodput(with)?) / alone)
}

fn bits_per_sec(bytes: Bytes, time: Span) -> u64 {
    let bits = u128::from(bytes.get()) * 8 * PICOS_PER_SEC;
    u64::try_from(bits / u128::from(time.as_picos().max(1))).unwrap_or(u64::MAX)
}

fn nanos(time: Span) -> u64 {
    time.as_picos().div_ceil(1_000)
}

pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { to_f64(part) / to_f64(whole) }
}

fn to_f64(n: u64) -> f64 {
    float(n.into())
}

fn float(n: u128) -> f64 {
    n as f64
}

/// What a datagram carries beside stream bytes: the short header with its connection id and packet
/// number, the stream frame's header, and the tag; as the QUIC host has it on average.
const STREAM_OVERHEAD: Bytes = Bytes::new(32);

/// IPv4, UDP and Ethernet framing.
const HEADERS: Bytes = Bytes::new(28 + 38);

/// An Ethernet frame of the usual size, with its framing.
const FULL_PACKET: Bytes = Bytes::new(1452 + 28 + 38);

const SECOND: Span = Span::from_picos(1_000_000_000_000);
const PICOS_PER_SEC: u128 = 1_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equal_shares_and_one_nth_for_a_monopoly() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), 1.0);
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[0.0, 0.0]), 1.0);
    }

    /// Two flows sampled every 100 ms, whose rates are equal from `fair_from` on.
    fn samples(fair_from: u64, until: u64) -> Samples {
        let mut samples = Samples::new(2, 0);
        let mut received = [Bytes::ZERO; 2];
        for n in 1..=until {
            let shares = if n < fair_from { [9, 1] } else { [5, 5] };
            samples.moments.push(Time::from_picos(n * 100_000_000_000));
            for flow in 0..2 {
                received[flow] += Bytes::kb(shares[flow]);
                samples.received[flow].push(received[flow]);
            }
        }
        samples
    }

    #[test]
    fn convergence_is_when_fair_rates_begin_to_stay() {
        // Rates are averages over a second: fair within 25 % when 7 of 10 samples are.
        let found = convergence(&samples(21, 200), Time::START).expect("it converges");
        assert!((2_500..=3_000).contains(&(found.as_picos() / 1_000_000_000)), "{found:?}");
        assert_eq!(convergence(&samples(21, 60), Time::START), None, "not for 5 s");
    }

    #[test]
    fn stream_bytes_are_what_headers_leave_of_the_wire() {
        // 1420 of each 1518 bytes of 12.5 MB/s.
        assert_eq!(stream_rate(Rate::mbps(100), 1452), Rate::bytes_per_sec(11_693_017));
    }

    #[test]
    fn steady_state_is_the_last_two_thirds() {
        let samples = samples(21, 60);
        // 4 s at 5 kB per 100 ms.
        assert_eq!(steady_bps(&samples, 0, Time::from_picos(6_000_000_000_000)), Some(400_000));
    }
}
