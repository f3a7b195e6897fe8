//! Flows that share one bottleneck.
//!
//! ```text
//! sender 0 ─┐                       ┌─ receiver 0 ── return0 ──▶ sender 0
//!           ├─ bottleneck (FIFO) ───┤
//! sender 1 ─┘                       └─ receiver 1 ── return1 ──▶ sender 1
//! ```
//! *What it decides:* which topology stands for a bottleneck and its flows, and how they shared it over the
//! last part of the run. *In:* a [`Dumbbell`] and a seed. *Out:* [`Shares`], by the definitions of
//! [`metrics`](crate::metrics), but over the measured part only.
//!
//! The bottleneck has half of the least round trip as its delay, each flow's own return link the rest of
//! its round trip and the bottleneck's rate, so that acknowledgements never wait for those of others. A
//! BDP is that of the longest round trip, as in every topology.

use std::time::Duration;

use warplink::{Span, Time};
use warpunits::{Bytes, Rate};

use crate::histogram::Histogram;
use crate::laws::Made;
use crate::metrics::{jain, ratio};
use crate::port::{PortStats, RouteStats};
use crate::scenario::{Options, Run, ScenarioError};
use crate::topology::text::{Buffer, decimal};
use crate::topology::{HostKind, Topology, TopologyError};

/// A bottleneck and the flows over it, which have no end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dumbbell {
    /// What it is called.
    pub name: String,
    /// The bottleneck's rate, in wire bytes.
    pub rate: Rate,
    /// What may wait there.
    pub buffer: Buffer,
    /// When the run ends.
    pub duration: Duration,
    /// From when on it is measured.
    pub measured_from: Duration,
    /// Who shares it.
    pub flows: Vec<Flow>,
}

/// A flow over the bottleneck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Its sender's law, by its name in the registry.
    pub law: &'static str,
    /// What kind of hosts its ends are.
    pub host: HostKind,
    /// Base two-way delay.
    pub rtt: Duration,
    /// When it begins.
    pub start: Duration,
    /// Its receiver acknowledges every so many packets (`bare` and `tcp`); otherwise as its kind does.
    pub ack_every: Option<u32>,
    /// Standard deviation of the delay of its acknowledgements, which stay in order. Zero is none; the time
    /// of a packet on the bottleneck breaks the phase effects of full FIFO queues (Floyd and Jacobson 1992).
    pub ack_jitter: Duration,
}

/// How the bottleneck was shared.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    /// The flows, in their order.
    pub flows: Vec<Share>,
    /// Jain's index of the flows' goodputs.
    pub jain: f64,
    /// Wire bytes that left the bottleneck, over what it could have carried.
    pub utilisation: f64,
    /// Time-averaged queue.
    pub queue_mean: Duration,
    /// Median waiting time of packets.
    pub queue_p50: Duration,
    /// 95th percentile.
    pub queue_p95: Duration,
    /// Overflow drops per packet sent, of all flows together.
    pub self_inflicted_loss: f64,
}

/// What a flow had of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Stream bytes received per second.
    pub goodput: Rate,
    /// Its part of all flows' goodput.
    pub of_all: f64,
    /// Data packets sent.
    pub sent_packets: u64,
    /// Those of them that the full queue dropped.
    pub overflow_drops: u64,
    /// Overflow drops per packet sent.
    pub self_inflicted_loss: f64,
}

/// A dumbbell that cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumbbellError {
    /// It makes no topology.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// Its topology cannot be run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Nothing is left to measure.
    #[error("{name}: measured from {from:?} on, expected less than the duration, {duration:?}")]
    Window {
        /// The dumbbell's name.
        name: String,
        /// From when on it was to be measured.
        from: Duration,
        /// When the run ends.
        duration: Duration,
    },
}

impl Dumbbell {
    /// Runs it to its end.
    ///
    /// # Errors
    /// When it makes no topology that can be run, or ends before it is measured.
    pub fn run(&self, seed: u64) -> Result<Shares, DumbbellError> {
        self.run_with(seed, |_, made| made)
    }

    /// The same where `change` may put another law into the place of a flow's, which it is told by number.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with(&self, seed: u64, change: impl Fn(usize, Made) -> Made) -> Result<Shares, DumbbellError> {
        if self.measured_from >= self.duration {
            let (name, from, duration) = (self.name.clone(), self.measured_from, self.duration);
            return Err(DumbbellError::Window { name, from, duration });
        }
        let mut parts = self.run_parts(seed, &[self.measured_from, self.duration], change)?;
        Ok(parts.remove(0))
    }

    /// How it was shared between each of these moments, which ascend, and the next; it ends at the last.
    ///
    /// # Errors
    /// When it makes no topology that can be run.
    pub fn run_parts(
        &self,
        seed: u64,
        moments: &[Duration],
        change: impl Fn(usize, Made) -> Made,
    ) -> Result<Vec<Shares>, DumbbellError> {
        let topology = Topology::read(&self.name, &self.to_json())?;
        let options = Options { seed, ..Options::default() };
        let mut run = Run::with_laws(&topology, &options, |index, _, made| change(index, made))?;
        let mut count = |moment: Duration| {
            run.world.run_until(Time::from(moment));
            Counters::new(&mut run, Time::from(moment))
        };
        let counters: Vec<_> = moments.iter().map(|moment| count(*moment)).collect();
        let parts = counters.windows(2).zip(moments.windows(2));
        Ok(parts.map(|(counters, ends)| self.shares(counters, ends[1] - ends[0])).collect())
    }

    /// It as the text of a topology file.
    pub fn to_json(&self) -> String {
        let rate = decimal(self.rate.as_bits_per_sec(), 1_000_000);
        let least = self.flows.iter().map(|flow| flow.rtt).min().unwrap_or_default();
        let mut links = vec![format!(
            "\"bottleneck\": {{ \"rate\": \"{rate} Mbit/s\", \"delay\": \"{} ns\", \"buffer\": \"{}\" }}",
            (least / 2).as_nanos(),
            self.buffer
        )];
        let mut flows = Vec::new();
        for (index, flow) in self.flows.iter().enumerate() {
            let jitter = if flow.ack_jitter.is_zero() {
                String::new()
            } else {
                let sigma = flow.ack_jitter.as_nanos();
                format!(", \"jitter\": {{ \"sigma\": \"{sigma} ns\", \"order\": \"fifo\" }}")
            };
            links.push(format!(
                "\"return{index}\": {{ \"rate\": \"{rate} Mbit/s\", \"delay\": \"{} ns\"{jitter} }}",
                (flow.rtt - least / 2).as_nanos()
            ));
            let receiver =
                flow.ack_every.map_or(String::new(), |n| format!("\"receiver\": {{ \"ack_every\": {n} }}, "));
            flows.push(format!(
                "{{ \"host\": {:?}, \"law\": {:?}, \"start\": \"{} ns\", {receiver}\"forward\": \
                 [\"bottleneck\"], \"reverse\": [\"return{index}\"] }}",
                flow.host.name(),
                flow.law,
                flow.start.as_nanos()
            ));
        }
        format!(
            "{{\n  \"name\": {:?},\n  \"duration\": \"{} ns\",\n  \"links\": {{\n    {}\n  }},\n  \
             \"flows\": [\n    {}\n  ]\n}}\n",
            self.name,
            self.duration.as_nanos(),
            links.join(",\n    "),
            flows.join(",\n    ")
        )
    }

    fn shares(&self, counters: &[Counters], time: Duration) -> Shares {
        let (before, after) = (&counters[0], &counters[1]);
        let received: Vec<_> =
            after.received.iter().zip(&before.received).map(|(after, before)| *after - *before).collect();
        let all: Bytes = received.iter().copied().sum();
        let flows: Vec<_> = received
            .iter()
            .zip(after.routes.iter().zip(&before.routes))
            .map(|(received, (after, before))| {
                let sent_packets = after.offered - before.offered;
                let overflow_drops = after.overflow_drops - before.overflow_drops;
                Share {
                    goodput: *received / time,
                    of_all: ratio(received.get(), all.get()),
                    sent_packets,
                    overflow_drops,
                    self_inflicted_loss: ratio(overflow_drops, sent_packets),
                }
            })
            .collect();
        let capacity = self.rate * time;
        let queued = (after.port.queue_integral - before.port.queue_integral)
            / u128::from(Span::from(time).as_picos());
        let queued = Bytes::new(u64::try_from(queued).unwrap_or(u64::MAX));
        let sojourns = after.sojourns.since(&before.sojourns);
        Shares {
            jain: jain(&flows.iter().map(|flow| flow.of_all).collect::<Vec<_>>()),
            utilisation: ratio((after.port.sent - before.port.sent).get(), capacity.get()),
            queue_mean: queued / self.rate,
            queue_p50: sojourns.percentile(50).into(),
            queue_p95: sojourns.percentile(95).into(),
            self_inflicted_loss: ratio(
                flows.iter().map(|flow| flow.overflow_drops).sum(),
                flows.iter().map(|flow| flow.sent_packets).sum(),
            ),
            flows,
        }
    }
}

/// What had been counted by some moment.
struct Counters {
    port: PortStats,
    sojourns: Histogram,
    routes: Vec<RouteStats>,
    received: Vec<Bytes>,
}

impl Counters {
    fn new(run: &mut Run<'_>, now: Time) -> Self {
        let bottleneck = run.ports[0];
        let flows = 0..run.flows.len();
        let received = flows.map(|flow| run.progress(flow).0.received).collect();
        let data: Vec<_> = run.flows.iter().map(|ends| ends.data).collect();
        let port = run.world.port(bottleneck);
        Self {
            port: port.stats(now),
            sojourns: port.sojourns().clone(),
            routes: data.into_iter().map(|route| port.route_stats(now, route)).collect(),
            received,
        }
    }
}
