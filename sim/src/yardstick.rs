//! What laws reach beside the limits that others set for them.
//!
//! *What it decides:* whether a run stays within a [`Yardstick`]. *In:* a topology with yardsticks.
//! *Out:* a [`Reading`] for each.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warprate::cc::{LawFactory, PathStart, RateLaw};
use warprate::signal::{Ack, Loss, Plan, Sent, Undo, Verdict};
use warpunits::{Bytes, Gain, Rate};

use crate::laws::Made;
use crate::scenario::{self, Options, ScenarioError, payload_rate};
use crate::topology::{Topology, Yardstick};

/// A figure of ours beside its limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// What was found; in the limit's unit. Infinite where nothing was.
    pub ours: f64,
    /// The most that is allowed.
    pub limit: f64,
    /// `s`, or `%` for the error of a bandwidth.
    pub unit: &'static str,
}

impl Reading {
    /// Whether ours is within the limit.
    pub fn is_met(&self) -> bool {
        self.ours <= self.limit
    }
}

/// Runs the topology under the yardstick's law.
///
/// # Errors
/// As [`scenario::run`].
pub fn measure(topology: &Topology, yardstick: &Yardstick, seed: u64) -> Result<Reading, ScenarioError> {
    measure_law(topology, yardstick, seed, scenario::law(topology, 0, &yardstick.law, seed))
}

/// Runs the topology under another law, which stands for the yardstick's.
///
/// # Errors
/// As [`scenario::run_law`].
pub fn measure_law(
    topology: &Topology,
    yardstick: &Yardstick,
    seed: u64,
    law: Made,
) -> Result<Reading, ScenarioError> {
    let watch = Watch::default();
    let law = match law {
        Made::Own { factory: inner, is_paced } => {
            Made::Own { factory: Arc::new(WatchedFactory { inner, watch: watch.clone() }), is_paced }
        }
        foreign => foreign,
    };
    let options = Options { seed, ..Options::default() };
    let report = scenario::run_law(topology, &options, yardstick.law.name(), &law)?;
    let seen = watch.sender();
    if let Some(limit) = yardstick.done {
        let took = report.flows[0].done_ns.map(Duration::from_nanos);
        let ours = took.map(|took| took.saturating_sub(yardstick.since));
        return Ok(Reading::time(ours, limit));
    }
    if let Some(limit) = yardstick.rtt {
        return Ok(Reading::time(seen.rtt, limit));
    }
    let (_, bottleneck) = topology.bottleneck(&topology.flows[0]);
    let carries = payload_rate(bottleneck.rate, topology.flows[0].mtu);
    let limit = yardstick.startup.unwrap_or_default().as_f64() * 100.0;
    Ok(Reading { ours: seen.startup_error(carries) * 100.0, limit, unit: "%" })
}

impl Reading {
    fn time(ours: Option<Duration>, limit: Duration) -> Self {
        let ours = ours.map_or(f64::INFINITY, |ours| ours.as_secs_f64());
        Self { ours, limit: limit.as_secs_f64(), unit: "s" }
    }
}

/// What a law met until now.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// The last smoothed round-trip time.
    rtt: Option<Duration>,
    delivered: Bytes,
    /// In startup: the largest delivery rate.
    bandwidth: Rate,
    /// The delivery rate that rounds of startup are compared with.
    last_growth: Rate,
    /// Rounds since then.
    flat_rounds: u32,
    /// How startup ended.
    startup: Option<(u32, Bytes)>,
}

impl Seen {
    fn on_ack(&mut self, ack: &Ack) {
        self.rtt = Some(ack.rtt.smoothed);
        self.delivered = ack.delivered;
        let Some(sample) = ack.sample.filter(|_| self.startup.is_none()) else { return };
        self.bandwidth = self.bandwidth.max(sample.rate);
        if ack.round_start && !sample.app_limited {
            if sample.rate >= self.last_growth * GROWTH {
                (self.last_growth, self.flat_rounds) = (sample.rate, 0);
            } else {
                self.flat_rounds += 1;
            }
        }
    }

    /// How far the bandwidth that startup found lies from what the path `carries`, as a part of it;
    /// infinite where startup did not end after three flat rounds without a loss.
    fn startup_error(&self, carries: Rate) -> f64 {
        let in_bytes = |rate: Rate| rate.as_bytes_per_sec() as f64;
        match self.startup {
            Some((FLAT_ROUNDS, Bytes::ZERO)) => {
                (in_bytes(self.bandwidth) - in_bytes(carries)).abs() / in_bytes(carries)
            }
            _ => f64::INFINITY,
        }
    }
}

/// What laws and observer share: an entry for each instance of the law, since both ends may have one.
#[derive(Debug, Clone, Default)]
struct Watch(Arc<Mutex<Vec<Seen>>>);

impl Watch {
    fn all(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the law met that delivered most.
    fn sender(&self) -> Seen {
        self.all().iter().copied().max_by_key(|seen| seen.delivered).unwrap_or_default()
    }
}

struct WatchedFactory {
    inner: Arc<dyn LawFactory>,
    watch: Watch,
}

impl LawFactory for WatchedFactory {
    fn build(&self, start: PathStart) -> Box<dyn RateLaw> {
        let mut all = self.watch.all();
        all.push(Seen::default());
        Box::new(Watched { inner: self.inner.build(start), watch: self.watch.clone(), place: all.len() - 1 })
    }
}

/// A law under observation.
#[derive(Clone)]
struct Watched {
    inner: Box<dyn RateLaw>,
    watch: Watch,
    /// Of its entry.
    place: usize,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl RateLaw for Watched {
    fn on_sent(&mut self, sent: &Sent) {
        self.inner.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.inner.on_ack(ack);
        let seen = &mut self.watch.all()[self.place];
        seen.on_ack(ack);
        if seen.startup.is_none() && self.inner.state() != "startup" {
            seen.startup = Some((seen.flat_rounds, ack.lost));
        }
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.inner.on_loss(loss);
    }

    fn on_verdict(&mut self, verdict: &Verdict) {
        self.inner.on_verdict(verdict);
    }

    fn on_undo(&mut self, undo: &Undo) {
        self.inner.on_undo(undo);
    }

    fn on_deadline(&mut self, now: Instant) {
        self.inner.on_deadline(now);
    }

    fn on_mtu(&mut self, datagram: Bytes) {
        self.inner.on_mtu(datagram);
    }

    fn plan(&self, now: Instant) -> Plan {
        self.inner.plan(now)
    }

    fn state(&self) -> &'static str {
        self.inner.state()
    }
}

/// A round grows the bandwidth by at least a quarter, or is flat; startup ends after so many flat ones
/// (draft-ietf-ccwg-bbr-06 §5.3.1.2).
const GROWTH: Gain = Gain::percent(125);
const FLAT_ROUNDS: u32 = 3;
