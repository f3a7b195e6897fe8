//! How a topology and a seed become a run.
//!
//! *What it decides:* which hosts, ports and routes stand for the flows and links, and which seeds
//! they draw from. *In:* a [`Topology`] and [`Options`]. *Out:* a [`Report`].

mod hosts;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warplink::{PathProfile, Probability, Profile, ProfileError, Time, link_seed};
use warprate::conn::{Qlog, TransportConfig};
use warpunits::{Bytes, Rate};

use crate::host::{FlowStats, Progress};
use crate::laws;
use crate::metrics::{self, Report, Samples};
use crate::packet::{HostId, PortId, RouteId};
use crate::port::Port;
use crate::queue::{Fifo, Limit, Queue};
use crate::topology::{Buffer, Discipline, Flow, HostKind, LawSpec, Link, Topology};
use crate::world::World;

/// How a topology is to be run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Seeds every draw.
    pub seed: u64,
    /// The law of every flow, in the place of the topology's.
    pub law: Option<LawSpec>,
    /// Time between two samples of what the flows have received; without it, nothing that needs a
    /// time series is measured.
    pub sample_every: Option<Duration>,
    /// Where the qlogs of the QUIC hosts go; without it, there are none.
    pub qlog: Option<QlogFiles>,
    /// Transport parameters of the QUIC hosts; how large their datagrams are the topology tells.
    pub transport: TransportConfig,
}

/// Opens the file of a host's qlog, named after flow and role as in `flow0-server`.
#[derive(Clone)]
pub struct QlogFiles(Arc<OpenQlog>);

type OpenQlog = dyn Fn(&str) -> std::io::Result<Box<dyn Write + Send + Sync>> + Send + Sync;

impl QlogFiles {
    /// Files that `open` opens.
    pub fn new(
        open: impl Fn(&str) -> std::io::Result<Box<dyn Write + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(open))
    }

    fn log(&self, name: &str, origin: Instant) -> std::io::Result<Option<Qlog>> {
        Ok(Qlog::new((self.0)(name)?, name.to_owned(), origin))
    }
}

impl std::fmt::Debug for QlogFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QlogFiles")
    }
}

/// A topology that cannot be run so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// A link that makes no sense.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A law that only QUIC hosts can run, on another.
    #[error("flow `{flow}`: hosts of the kind `{host}` cannot run `{law}`")]
    Law {
        /// The flow.
        flow: String,
        /// Its kind of hosts.
        host: &'static str,
        /// The law.
        law: &'static str,
    },
    /// A trace that cannot be written.
    #[error("cannot write the trace or the qlog")]
    Trace(#[from] std::io::Error),
}

/// Runs a topology to its end.
///
/// # Errors
/// When a link or the law of the options makes no sense here.
pub fn run(topology: &Topology, options: &Options) -> Result<Report, ScenarioError> {
    let mut run = Run::new(topology, options)?;
    run.finish(World::run_until);
    Ok(run.report())
}

/// Runs a topology to its end with a law that is not in the registry, under every flow that has one. It is
/// called `name` in the report.
///
/// # Errors
/// As [`run`]; on hosts other than `quic` when the law is a foreign one.
pub fn run_law(
    topology: &Topology,
    options: &Options,
    name: &'static str,
    law: &laws::Made,
) -> Result<Report, ScenarioError> {
    let mut run = Run::with_laws(topology, options, |_, _, _| law.clone())?;
    for ends in &mut run.flows {
        ends.law = LawSpec::Named(name);
    }
    run.finish(World::run_until);
    Ok(run.report())
}

/// The law of a flow, as a run with this seed makes it.
pub fn law(topology: &Topology, index: usize, spec: &LawSpec, seed: u64) -> laws::Made {
    let flow = &topology.flows[index];
    let (_, bottleneck) = topology.bottleneck(flow);
    let bdp = warplink::bdp(bottleneck.rate, topology.rtt(flow));
    laws::make(spec, payload_rate(bottleneck.rate, flow.mtu), bdp, law_seed(seed, index))
}

/// What the law of a flow draws from in a run with this seed.
pub fn law_seed(seed: u64, flow: usize) -> u64 {
    link_seed(seed, LAW_SEEDS + flow as u64)
}

/// A run: the world and what stands for what in it.
pub(crate) struct Run<'a> {
    pub topology: &'a Topology,
    pub options: &'a Options,
    pub world: World,
    pub ports: Vec<PortId>,
    pub flows: Vec<Ends>,
    /// The instant that stands for time zero.
    pub origin: Instant,
    samples: Samples,
}

/// The two ends of a flow, and the ways between them.
pub(crate) struct Ends {
    pub law: LawSpec,
    pub sender: HostId,
    pub receiver: HostId,
    pub data: RouteId,
}

impl<'a> Run<'a> {
    pub fn new(topology: &'a Topology, options: &'a Options) -> Result<Self, ScenarioError> {
        Self::with_laws(topology, options, |_, _, made| made)
    }

    /// A run in which `decorate` may put something between a flow's number, the origin of time, and its law.
    pub fn with_laws(
        topology: &'a Topology,
        options: &'a Options,
        decorate: impl Fn(usize, Instant, laws::Made) -> laws::Made,
    ) -> Result<Self, ScenarioError> {
        let mut world = World::new();
        let mut ports = Vec::new();
        for (place, (name, link)) in topology.links.iter().enumerate() {
            let queue = queue(link, topology.bdp(name));
            let seed = link_seed(options.seed, place as u64);
            ports.push(world.add_port(Port::new(profile(topology, name, link)?, queue, seed)));
        }
        let origin = origin();
        let mut run = Self {
            topology,
            options,
            world,
            ports,
            flows: Vec::new(),
            origin,
            samples: Samples::new(topology.flows.len(), topology.links.iter().len()),
        };
        for (index, flow) in topology.flows.iter().enumerate() {
            let spec = options.law.clone().or_else(|| flow.law.clone()).unwrap_or_default();
            let made = decorate(index, origin, law(topology, index, &spec, options.seed));
            if made.is_foreign() && matches!(flow.host, HostKind::Bare | HostKind::Tcp) {
                let (host, law) = (flow.host.name(), spec.name());
                return Err(ScenarioError::Law { flow: flow.name.clone(), host, law });
            }
            run.add_flow(index, flow, spec, made)?;
        }
        Ok(run)
    }

    fn add_flow(
        &mut self,
        index: usize,
        flow: &Flow,
        law: LawSpec,
        made: laws::Made,
    ) -> Result<(), ScenarioError> {
        let receiver = self.world.next_host();
        let sender = HostId(receiver.0 + 1);
        let ports = |route: &[String]| {
            let places = route.iter().filter_map(|name| self.topology.links.place(name));
            places.map(|(place, _)| self.ports[place]).collect::<Vec<_>>()
        };
        let (forward, reverse) = (ports(&flow.forward), ports(&flow.reverse));
        let data = self.world.add_route(forward, receiver);
        let acks = self.world.add_route(reverse, sender);
        let seeds = [0, 1].map(|end| link_seed(self.options.seed, FIRST_HOST + 2 * index as u64 + end));
        let qlog = |role: &str| match (&self.options.qlog, flow.host) {
            (Some(files), HostKind::Quic) => files.log(&format!("{}-{role}", flow.name), self.origin),
            _ => Ok(None),
        };
        let qlogs = [qlog("client")?, qlog("server")?];
        let setting = hosts::Setting { origin: self.origin, transport: &self.options.transport };
        let (at_receiver, at_sender) = hosts::ends(flow, made, [acks, data], seeds, qlogs, setting);
        self.world.add_host(at_receiver);
        self.world.add_host(at_sender);
        self.flows.push(Ends { law, sender, receiver, data });
        Ok(())
    }

    /// Runs to the end by `advance`, and takes the samples on the way.
    pub fn finish(&mut self, mut advance: impl FnMut(&mut World, Time)) {
        let end = self.end();
        for (moment, what) in self.moments() {
            advance(&mut self.world, moment);
            if self.world.is_finished() {
                break;
            }
            self.sample(moment, what);
        }
        advance(&mut self.world, end);
    }

    /// What came of it.
    pub fn report(mut self) -> Report {
        let end = if self.world.is_finished() { self.world.now() } else { self.end() };
        let samples = std::mem::take(&mut self.samples);
        metrics::report(&mut self, &samples, end)
    }

    /// What the applications at a flow's receiver and sender saw.
    pub fn progress(&mut self, flow: usize) -> (Progress, Progress) {
        let Ends { receiver, sender, .. } = self.flows[flow];
        let mut seen = |host| self.world.host(host).progress().unwrap_or_default();
        (seen(receiver), seen(sender))
    }

    /// What a flow's sender went through.
    pub fn sender_stats(&mut self, flow: usize) -> FlowStats {
        let sender = self.flows[flow].sender;
        self.world.host(sender).stats().unwrap_or_default()
    }

    fn end(&self) -> Time {
        Time::from(self.topology.duration)
    }

    /// When to look at what, in order.
    fn moments(&self) -> Vec<(Time, Look)> {
        let mut moments: Vec<_> = self
            .topology
            .flows
            .iter()
            .enumerate()
            .map(|(index, flow)| {
                (Time::from(flow.start + EARLY_ROUNDS * self.topology.rtt(flow)), Look::EarlyDrops(index))
            })
            .collect();
        if let Some(every) = self.options.sample_every.filter(|every| !every.is_zero()) {
            let count = self.topology.duration.as_nanos() / every.as_nanos();
            let count = u32::try_from(count).unwrap_or(u32::MAX).min(MOST_SAMPLES);
            moments.extend((1..=count).map(|n| (Time::from(every * n), Look::Received)));
        }
        moments.retain(|(moment, _)| *moment < self.end());
        moments.sort();
        moments
    }

    fn sample(&mut self, moment: Time, what: Look) {
        match what {
            Look::EarlyDrops(flow) => self.samples.early_drops[flow] = Some(self.overflow_bytes(flow)),
            Look::Received => {
                self.samples.moments.push(moment);
                for flow in 0..self.flows.len() {
                    let received = self.progress(flow).0.received;
                    self.samples.received[flow].push(received);
                }
                for (place, port) in self.ports.iter().enumerate() {
                    let port = self.world.port(*port);
                    self.samples.queued[place].push(port.queued(moment));
                    self.samples.sent[place].push(port.stats(moment).sent);
                }
            }
        }
    }

    /// Wire bytes of a flow's data that full queues have dropped.
    pub fn overflow_bytes(&mut self, flow: usize) -> Bytes {
        let data = self.flows[flow].data;
        let now = self.world.now();
        self.ports.iter().map(|port| self.world.port(*port).route_stats(now, data).overflow_bytes).sum()
    }
}

/// What to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Look {
    EarlyDrops(usize),
    Received,
}

/// UDP payload per second that a link carries in full datagrams.
pub fn payload_rate(wire: Rate, datagram: u16) -> Rate {
    let datagram = u128::from(datagram);
    let bytes = u128::from(wire.as_bytes_per_sec()) * datagram / (datagram + HEADERS);
    Rate::bytes_per_sec(u64::try_from(bytes).expect("less than the wire's"))
}

/// A link in warplink's terms.
pub fn profile(topology: &Topology, name: &str, link: &Link) -> Result<Profile, ProfileError> {
    let buffer = match link.buffer {
        Buffer::Bdp(multiple) => multiple.of_bytes(topology.bdp(name)),
        Buffer::Bytes(bytes) => bytes,
        // What bytes such a queue holds depends on the packets; the oracle never fills it.
        Buffer::Packets(_) => Bytes::MAX,
    };
    let mut profile = Profile::new(link.rate, link.delay, buffer)?.with_loss(link.loss);
    if let Some(jitter) = link.jitter {
        profile = profile.with_jitter(warplink::Jitter::new(jitter.sigma, jitter.order)?);
    }
    let rates = link.steps.iter().filter_map(|step| Some((step.at, step.rate?)));
    let delays = link.steps.iter().filter_map(|step| Some((step.at, step.delay?)));
    let losses = link.steps.iter().filter_map(|step| Some((step.at, step.loss?)));
    let outages = link.outages.iter().map(|outage| (outage.at, outage.length));
    profile
        .with_rate_steps(rates.collect())?
        .with_delay_steps(delays.collect())?
        .with_loss_steps(losses.collect())?
        .with_outages(outages.collect())?
        .with_slots(link.slots.unwrap_or_default())
}

/// The path of a flow for the oracle: exact for one link each way; on longer ways the bottleneck
/// with all delays and losses together.
pub fn path(topology: &Topology, flow: &Flow) -> Result<PathProfile, ProfileError> {
    let way = |names: &[String]| {
        let links: Vec<_> = names.iter().filter_map(|name| Some((name, topology.links.get(name)?))).collect();
        let (name, slowest) = links.iter().min_by_key(|(_, link)| link.rate).expect("a way has a link");
        if links.len() == 1 {
            return profile(topology, name, slowest);
        }
        let survives = links.iter().fold(BILLION, |survives, (_, link)| {
            survives * (BILLION - u64::from(link.loss.share().as_parts_per_billion())) / BILLION
        });
        let loss = u32::try_from(BILLION - survives).expect("at most a billion");
        let all = Link {
            delay: links.iter().map(|(_, link)| link.delay).sum(),
            loss: Probability::parts_per_billion(loss)?.into(),
            ..(*slowest).clone()
        };
        profile(topology, name, &all)
    };
    Ok(PathProfile { forward: way(&flow.forward)?, reverse: way(&flow.reverse)? })
}

fn queue(link: &Link, bdp: Bytes) -> Box<dyn Queue> {
    let limit = match link.buffer {
        Buffer::Bdp(multiple) => Limit::Bytes(multiple.of_bytes(bdp)),
        Buffer::Bytes(bytes) => Limit::Bytes(bytes),
        Buffer::Packets(packets) => Limit::Packets(packets),
    };
    match link.queue {
        Discipline::Fifo => Box::new(Fifo::new(limit)),
    }
}

#[expect(clippy::disallowed_methods, reason = "virtual time needs an origin; nothing depends on which")]
fn origin() -> Instant {
    Instant::now()
}

/// IPv4, UDP and Ethernet framing.
const HEADERS: u128 = 28 + 38;

/// Host seeds begin behind those of the links, so that a link more does not shift them.
const FIRST_HOST: u64 = 1 << 32;

/// And those of the laws behind the hosts'.
const LAW_SEEDS: u64 = 1 << 40;

/// Drops in the first 10 RTT are early.
const EARLY_ROUNDS: u32 = 10;

/// A day at 100 ms.
const MOST_SAMPLES: u32 = 1_000_000;

const BILLION: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use warplink::{Fate, Span};

    use super::*;
    use crate::packet::{Body, Packet};

    /// The relay makes its links by [`PathProfile::links`]; `warp sim reality` stands on this.
    #[test]
    fn links_listed_as_the_relay_numbers_them_meet_the_relays_fates() {
        let text = r#"{
            "name": "both ways lossy",
            "links": {
                "return": { "rate": "10 Mbit/s", "delay": "20 ms", "loss": "20 %" },
                "bottleneck": { "rate": "10 Mbit/s", "delay": "20 ms", "loss": "30 %", "buffer": "5 kB" }
            },
            "flows": [{ "bytes": "1 MB", "forward": ["bottleneck"], "reverse": ["return"] }]
        }"#;
        let topology = Topology::read("test", text).expect("a topology");
        let options = Options { seed: 7, ..Options::default() };
        let mut run = Run::new(&topology, &options).expect("a run");
        let path = path(&topology, &topology.flows[0]).expect("a path");
        // The relay's `forward` is what clients send: in a download the acknowledgements.
        let links = PathProfile { forward: path.reverse, reverse: path.forward }.links(7);
        for (mut link, port) in [links.0, links.1].into_iter().zip(run.ports) {
            let (mut expected, mut found) = (Vec::new(), Vec::new());
            let port = run.world.port(port);
            for number in 0..500 {
                let now = Time::START + Span::from(Duration::from_micros(1_100)).times(number);
                if let Fate::Delivered { at, .. } = link.offer(now, Bytes::new(1_518)) {
                    expected.push(at);
                }
                let (route, hop, wire) = (RouteId(0), 0, Bytes::new(1_518));
                port.offer(now, Packet { route, hop, wire, ecn: None, body: Body::Filler });
            }
            while port.next_event() != Time::NEVER {
                let (now, mut arrived) = (port.next_event(), Vec::new());
                port.advance(now, &mut arrived);
                found.extend(arrived.iter().map(|_| now));
            }
            assert_eq!(found, expected);
            assert!((250..450).contains(&found.len()), "{} of 500 arrive", found.len());
        }
    }
}
