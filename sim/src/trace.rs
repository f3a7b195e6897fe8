//! What happened during a run, on demand: JSON Lines, byte-identical on every machine for our laws.
//!
//! *What it decides:* nothing; it watches. *In:* a run. *Out:* a header and then a line per event, in
//! the order in which things happened. All numbers are integers: times in nanoseconds since the start
//! (`t`, rounded up), sizes in bytes, rates in bit/s. Laws count UDP payload, links wire bytes.
//!
//! ```text
//! {"trace":"warpsim 1","topology":…,"seed":…,"flows":[{name, host, law}…],"links":[{name, rate, j_s_milli}…]}
//! {"t":…,"flow":0,"event":"sent" | "ack" | "loss" | "verdict" | "undo" | "deadline" | "mtu", …}  what the law consumed
//! {"t":…,"flow":0,"event":"plan","rate":…,"window":…,"quantum":…,"state":…[,"copies":true]}       what it decided, on change
//! {"t":…,"flow":0,"event":"stats", …}                             foreign laws: the path's statistics, on change
//! {"t":…,"link":"bottleneck","event":"offer" | "drop" | "lose" | "depart","flow":0,"way":"data","bytes":…,"queue":…}
//! ```
//! In an exchange both ends run the law, and what concerns the requesting one has `"end":"request"`, too.
//! `j_s_milli` is J_S, the jitter's σ over the time that a full packet takes to send, in thousandths. A
//! `sent` may lie a few nanoseconds ahead of the lines around it: datagrams of a burst are planned one
//! nanosecond apart.
//!
//! Without a trace a law is not wrapped and a port has nobody to tell.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use warplink::{Span, Time, serialisation};
use warprate::cc::{LawFactory, PathStart, RateLaw};
use warprate::signal::{Ack, Loss, Plan, Sent, Undo, Verdict};
use warpunits::{Bytes, Rate};

use crate::host::quic::QuicHost;
use crate::laws::Made;
use crate::metrics::Report;
use crate::packet::{HostId, RouteId};
use crate::port::{PacketFacts, PortEvent, Watcher};
use crate::scenario::{Options, Run, ScenarioError};
use crate::topology::{HostKind, Topology};
use crate::world::World;

/// Runs a topology to its end and writes what happens to `out`.
///
/// # Errors
/// As [`scenario::run`](crate::scenario::run), or when `out` cannot be written.
pub fn run(
    topology: &Topology,
    options: &Options,
    out: Box<dyn Write + Send>,
) -> Result<Report, ScenarioError> {
    let flows = topology.flows.len();
    let sink = Sink(Arc::new(Mutex::new(Lines { out, error: None, plans: vec![[None; 2]; flows] })));
    let mut run = Run::with_laws(topology, options, |flow, origin, made| match made {
        Made::Own { factory: inner, is_paced } => {
            let awaits_requester = AtomicBool::new(topology.flows[flow].request.is_some());
            let factory = RecordedFactory { inner, flow, awaits_requester, origin, sink: sink.clone() };
            Made::Own { factory: Arc::new(factory), is_paced }
        }
        foreign => foreign,
    })?;
    sink.lines().header(&run);
    for (port, (name, _)) in run.ports.iter().zip(topology.links.iter()) {
        run.world.port(*port).watch(Box::new(Recorder { name: name.to_owned(), sink: sink.clone() }));
    }
    let mut foreign = foreign_flows(&run);
    run.finish(|world, end| {
        while world.step(end) {
            for flow in &mut foreign {
                flow.look(world, &sink);
            }
        }
    });
    let report = run.report();
    sink.lines().finish()?;
    Ok(report)
}

/// Where the lines go.
#[derive(Clone)]
struct Sink(Arc<Mutex<Lines>>);

struct Lines {
    out: Box<dyn Write + Send>,
    /// The first error; nothing is written after it.
    error: Option<io::Error>,
    /// The last plan and state of each flow's sender, and of its requester.
    plans: Vec<[Option<(Plan, &'static str)>; 2]>,
}

impl Sink {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}

impl Lines {
    fn write(&mut self, line: fmt::Arguments<'_>) {
        if self.error.is_none() {
            self.error = writeln!(self.out, "{line}").err();
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn header(&mut self, run: &Run<'_>) {
        let flows = run.topology.flows.iter().zip(&run.flows).map(|(flow, ends)| {
            let law = if flow.host == HostKind::Udp { "none" } else { ends.law.name() };
            format!("{{\"name\":{},\"host\":\"{}\",\"law\":\"{law}\"}}", quoted(&flow.name), flow.host.name())
        });
        let links = run.topology.links.iter().map(|(name, link)| {
            let sigma = link.jitter.map_or(Span::ZERO, |jitter| jitter.sigma.into());
            let packet = serialisation(FULL_PACKET, link.rate).as_picos().max(1);
            let j_s = u128::from(sigma.as_picos()) * 1000 / u128::from(packet);
            let rate = link.rate.as_bits_per_sec();
            format!("{{\"name\":{},\"rate\":{rate},\"j_s_milli\":{j_s}}}", quoted(name))
        });
        let (flows, links): (Vec<_>, Vec<_>) = (flows.collect(), links.collect());
        self.write(format_args!(
            "{{\"trace\":\"warpsim 1\",\"topology\":{},\"seed\":{},\"flows\":[{}],\"links\":[{}]}}",
            quoted(&run.topology.name),
            run.options.seed,
            flows.join(","),
            links.join(",")
        ));
    }

    fn plan(&mut self, t: u128, flow: usize, end: End, plan: Plan, state: &'static str) {
        let last = &mut self.plans[flow][end as usize];
        if *last == Some((plan, state)) {
            return;
        }
        *last = Some((plan, state));
        let end = end.field();
        self.write(format_args!(
            "{{\"t\":{t},\"flow\":{flow}{end},\"event\":\"plan\",\"rate\":{},\"window\":{},\"quantum\":{},\"state\":\"{state}\"{}}}",
            bits(plan.rate),
            plan.window.get(),
            plan.quantum.get(),
            if plan.copies { ",\"copies\":true" } else { "" }
        ));
    }
}

/// Whose law it is.
#[derive(Debug, Clone, Copy)]
enum End {
    Sender,
    Requester,
}

impl End {
    fn field(self) -> &'static str {
        match self {
            Self::Sender => "",
            Self::Requester => ",\"end\":\"request\"",
        }
    }
}

/// Puts a recorder around each law that a factory makes.
struct RecordedFactory {
    inner: Arc<dyn LawFactory>,
    flow: usize,
    /// In an exchange the requester, which is the receiver, has its law made first.
    awaits_requester: AtomicBool,
    origin: Instant,
    sink: Sink,
}

impl LawFactory for RecordedFactory {
    fn build(&self, start: PathStart) -> Box<dyn RateLaw> {
        let inner = self.inner.build(start);
        let is_requester = self.awaits_requester.swap(false, Ordering::Relaxed);
        let end = if is_requester { End::Requester } else { End::Sender };
        Box::new(RecordedLaw { inner, flow: self.flow, end, origin: self.origin, sink: self.sink.clone() })
    }
}

/// A law whose inputs and decisions are written down.
#[derive(Debug, Clone)]
struct RecordedLaw {
    inner: Box<dyn RateLaw>,
    flow: usize,
    end: End,
    origin: Instant,
    sink: Sink,
}

impl RecordedLaw {
    fn at(&self, now: Instant) -> u128 {
        now.saturating_duration_since(self.origin).as_nanos()
    }

    fn write(&self, now: Instant, event: &str, rest: fmt::Arguments<'_>) {
        let (t, flow, end) = (self.at(now), self.flow, self.end.field());
        self.sink
            .lines()
            .write(format_args!("{{\"t\":{t},\"flow\":{flow}{end},\"event\":\"{event}\"{rest}}}"));
    }
}

impl RateLaw for RecordedLaw {
    fn on_sent(&mut self, sent: &Sent) {
        let (bytes, in_flight) = (sent.bytes.get(), sent.in_flight.get());
        self.write(sent.now, "sent", format_args!(",\"bytes\":{bytes},\"in_flight\":{in_flight}"));
        self.inner.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &Ack) {
        let sample = ack.sample.map_or(-1, |sample| i128::from(bits(sample.rate)));
        self.write(
            ack.now,
            "ack",
            format_args!(
                ",\"bytes\":{},\"packets\":{},\"in_flight\":{},\"rtt\":{},\"rtt_min\":{},\"rtt_smoothed\":{},\
                 \"rtt_deviation\":{},\"sample\":{sample},\"delivered\":{},\"lost\":{},\"round\":{},\"sent_at\":{}",
                ack.bytes.get(),
                ack.packets,
                ack.in_flight.get(),
                ack.rtt.latest.as_nanos(),
                ack.rtt.min.as_nanos(),
                ack.rtt.smoothed.as_nanos(),
                ack.rtt.deviation.as_nanos(),
                ack.delivered.get(),
                ack.lost.get(),
                ack.round,
                self.at(ack.newest.sent),
            ),
        );
        self.inner.on_ack(ack);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        let oldest = loss.packets.first().map_or(0, |packet| self.at(packet.sent));
        let newest = loss.packets.last().map_or(0, |packet| self.at(packet.sent));
        self.write(
            loss.now,
            "loss",
            format_args!(
                ",\"packets\":{},\"bytes\":{},\"in_flight\":{},\"lost\":{},\"persistent\":{},\"oldest\":{oldest},\
                 \"newest\":{newest}",
                loss.packets.len(),
                loss.bytes.get(),
                loss.in_flight.get(),
                loss.lost.get(),
                u8::from(loss.persistent)
            ),
        );
        self.inner.on_loss(loss);
    }

    fn on_verdict(&mut self, verdict: &Verdict) {
        let (kind, newest) = (verdict.kind, self.at(verdict.newest));
        let (packets, bytes) = (verdict.packets, verdict.bytes.get());
        self.write(
            verdict.now,
            "verdict",
            format_args!(
                ",\"kind\":\"{kind:?}\",\"packets\":{packets},\"bytes\":{bytes},\"newest\":{newest}"
            ),
        );
        self.inner.on_verdict(verdict);
    }

    fn on_undo(&mut self, undo: &Undo) {
        let (bytes, sent) = (undo.packet.bytes.get(), self.at(undo.packet.sent));
        self.write(undo.now, "undo", format_args!(",\"bytes\":{bytes},\"sent_at\":{sent}"));
        self.inner.on_undo(undo);
    }

    fn on_deadline(&mut self, now: Instant) {
        self.write(now, "deadline", format_args!(""));
        self.inner.on_deadline(now);
    }

    fn on_mtu(&mut self, datagram: Bytes) {
        let (flow, end) = (self.flow, self.end.field());
        self.sink
            .lines()
            .write(format_args!("{{\"flow\":{flow}{end},\"event\":\"mtu\",\"bytes\":{}}}", datagram.get()));
        self.inner.on_mtu(datagram);
    }

    fn plan(&self, now: Instant) -> Plan {
        let plan = self.inner.plan(now);
        self.sink.lines().plan(self.at(now), self.flow, self.end, plan, self.inner.state());
        plan
    }

    fn state(&self) -> &'static str {
        self.inner.state()
    }
}

/// Writes down what happens at a link.
#[derive(Debug)]
struct Recorder {
    name: String,
    sink: Sink,
}

impl Watcher for Recorder {
    fn on_event(&mut self, now: Time, event: PortEvent, packet: PacketFacts, queued: Bytes) {
        let event = match event {
            PortEvent::Offer => "offer",
            PortEvent::Drop => "drop",
            PortEvent::Lose => "lose",
            PortEvent::Depart => "depart",
        };
        // Each flow has two routes, for data and for acknowledgements, in this order.
        let RouteId(route) = packet.route;
        let way = if route.is_multiple_of(2) { "data" } else { "acks" };
        self.sink.lines().write(format_args!(
            "{{\"t\":{},\"link\":{},\"event\":\"{event}\",\"flow\":{},\"way\":\"{way}\",\"bytes\":{},\"queue\":{}}}",
            now.since_start().as_nanos(),
            quoted(&self.name),
            route / 2,
            packet.wire.get(),
            queued.get()
        ));
    }
}

/// A flow under a foreign law, which only its connection's statistics tell of.
struct ForeignFlow {
    flow: usize,
    sender: HostId,
    last: String,
}

fn foreign_flows(run: &Run<'_>) -> Vec<ForeignFlow> {
    let flows = run.topology.flows.iter().zip(&run.flows).enumerate();
    let foreign = flows.filter(|(_, (flow, ends))| {
        flow.host == HostKind::Quic
            && crate::laws::find(ends.law.name()).is_some_and(crate::laws::Entry::is_foreign)
    });
    foreign.map(|(flow, (_, ends))| ForeignFlow { flow, sender: ends.sender, last: String::new() }).collect()
}

impl ForeignFlow {
    fn look(&mut self, world: &mut World, sink: &Sink) {
        let now = world.now().since_start().as_nanos();
        let host: &mut dyn std::any::Any = world.host(self.sender);
        let stats = host.downcast_ref::<QuicHost>().and_then(QuicHost::connection_stats);
        let Some(path) = stats.map(|stats| stats.path) else { return };
        let rtt =
            path.rtt.map_or([0; 3], |rtt| [rtt.latest, rtt.min, rtt.smoothed].map(|rtt| rtt.as_nanos()));
        let line = format!(
            "\"rate\":{},\"window\":{},\"in_flight\":{},\"delivered\":{},\"lost\":{},\"rtt\":{},\"rtt_min\":{},\
             \"rtt_smoothed\":{},\"state\":\"{}\"",
            bits(path.pacing_rate),
            path.window.get(),
            path.in_flight.get(),
            path.delivered.get(),
            path.lost.get(),
            rtt[0],
            rtt[1],
            rtt[2],
            path.state
        );
        if line != self.last {
            let flow = self.flow;
            sink.lines().write(format_args!("{{\"t\":{now},\"flow\":{flow},\"event\":\"stats\",{line}}}"));
            self.last = line;
        }
    }
}

/// Bits per second; [`Rate::MAX`] saturates.
fn bits(rate: Rate) -> u64 {
    rate.as_bits_per_sec()
}

/// A JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// An Ethernet frame of the usual size, with its framing.
const FULL_PACKET: Bytes = Bytes::new(1452 + 28 + 38);
