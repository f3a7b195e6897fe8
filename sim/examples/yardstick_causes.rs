//! Why limits of picoquic's are missed: each line takes one cause away, and the last all of them.
//!
//! ```sh
//! cargo run --release -p warpsim --example yardstick_causes
//! ```
//!
//! What picoquic does and RFC 9002, RFC 9438 and draft-ietf-ccwg-bbr-06 do not:
//! - *long start*: where the round trip exceeds 100 ms, its window starts as many times larger as the round
//!   trip is longer, and grows by as many times what is acknowledged;
//! - *deaf to losses*: it answers losses only above a smoothed rate that one packet in 64 does not reach;
//! - *no collapse*: silence does not bring the window down to two packets (RFC 9002 §7.6);
//! - *no PROBE_RTT*: its BBR keeps its window where the draft halves it every 5 s;
//! - *sparse ACKs*: its receiver acknowledges less often than every second packet.

#![allow(missing_docs, reason = "a program, not an interface")]

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warprate::cc::{LawFactory, PathStart, RateLaw};
use warprate::signal::{Ack, Loss, Plan, Sent, Undo, Verdict};
use warprate::units::{Bytes, Rate};
use warpsim::laws::Made;
use warpsim::published::WRITTEN;
use warpsim::scenario;
use warpsim::topology::{Topology, Yardstick};
use warpsim::yardstick::{measure, measure_law};

/// Which causes are taken away.
#[derive(Debug, Clone, Copy, Default)]
struct Removed {
    long_start: bool,
    losses: bool,
    collapse: bool,
    probe_rtt: bool,
    dense_acks: bool,
}

const NOTHING: Removed =
    Removed { long_start: false, losses: false, collapse: false, probe_rtt: false, dense_acks: false };

const CAUSES: &[(&str, Removed)] = &[
    ("as it is", NOTHING),
    ("sparse ACKs", Removed { dense_acks: true, ..NOTHING }),
    ("long start", Removed { long_start: true, ..NOTHING }),
    ("deaf to losses", Removed { losses: true, ..NOTHING }),
    ("no collapse", Removed { collapse: true, ..NOTHING }),
    ("no PROBE_RTT", Removed { probe_rtt: true, ..NOTHING }),
    ("all", Removed { long_start: true, losses: true, collapse: true, probe_rtt: true, dense_acks: true }),
];

fn main() {
    print!("{:32} {:8} {:>7}", "limits missed, in seconds", "law", "limit");
    CAUSES.iter().for_each(|(name, _)| print!(" {name:>14}"));
    println!();
    for (name, text) in WRITTEN {
        let topology = Topology::read(name, text).expect("presets are topologies");
        for yardstick in &topology.yardsticks {
            let reading = measure(&topology, yardstick, SEED).expect("presets run");
            if !reading.is_met() && name.contains("250") {
                print!("{name:32} {:8} {:7}", yardstick.law.name(), reading.limit);
                CAUSES
                    .iter()
                    .for_each(|(_, removed)| print!(" {:14.3}", ours(&topology, yardstick, *removed)));
                println!();
            }
        }
    }
}

fn ours(topology: &Topology, yardstick: &Yardstick, removed: Removed) -> f64 {
    let law = match scenario::law(topology, 0, &yardstick.law, SEED) {
        Made::Own { factory: inner, .. } => {
            Made::Own { factory: Arc::new(Factory { inner, removed }), sparse_acks: removed.dense_acks }
        }
        foreign => foreign,
    };
    measure_law(topology, yardstick, SEED, law).expect("presets run").ours
}

struct Factory {
    inner: Arc<dyn LawFactory>,
    removed: Removed,
}

impl LawFactory for Factory {
    fn build(&self, start: PathStart) -> Box<dyn RateLaw> {
        let inner = self.inner.build(start);
        let initial = inner.plan(start.now).window;
        Box::new(Changed {
            inner,
            removed: self.removed,
            initial,
            start: None,
            best: Rate::ZERO,
            has_started: false,
            kept: None,
        })
    }
}

/// One of our laws without what has been taken away.
#[derive(Clone)]
struct Changed {
    inner: Box<dyn RateLaw>,
    removed: Removed,
    initial: Bytes,
    /// The window of the long start, and the round trip that it is paced by.
    start: Option<(Bytes, Duration)>,
    /// The largest delivery rate at the start of a round.
    best: Rate,
    has_started: bool,
    /// The plan before PROBE_RTT.
    kept: Option<Plan>,
}

impl Changed {
    /// Whether the law still looks for the path's capacity.
    fn is_starting(&self) -> bool {
        matches!(self.inner.state(), "startup" | "slow start")
    }

    fn lengthen(&mut self, ack: &Ack) {
        let times = ack.rtt.min.as_secs_f64() / STANDARD_RTT.as_secs_f64();
        if let Some(sample) = ack.sample.filter(|_| ack.round_start) {
            // A round without growth: the path is full.
            self.has_started |= sample.rate.as_bytes_per_sec() < self.best.as_bytes_per_sec() / 4 * 5;
            self.best = self.best.max(sample.rate);
        }
        self.has_started |= !self.is_starting();
        if !self.removed.long_start || times <= 1.0 || self.has_started {
            self.start = None;
            return;
        }
        let window = self.start.map_or(scaled(self.initial, times), |(window, _)| window);
        self.start = Some((window + scaled(ack.bytes, times), ack.rtt.smoothed));
    }
}

impl RateLaw for Changed {
    fn on_sent(&mut self, sent: &Sent) {
        self.inner.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.inner.on_ack(ack);
        self.lengthen(ack);
        self.kept =
            if self.inner.state() == "probe_rtt" { self.kept } else { Some(self.inner.plan(ack.now)) };
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        let mut seen = *loss;
        seen.persistent &= !self.removed.collapse;
        if !self.removed.losses {
            self.inner.on_loss(&seen);
        }
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
        let plan = self.inner.plan(now);
        if let Some((window, rtt)) = self.start {
            let rate = (window + window) / rtt;
            return Plan { rate: plan.rate.max(rate), window: plan.window.max(window), ..plan };
        }
        match self.kept.filter(|_| self.removed.probe_rtt && self.inner.state() == "probe_rtt") {
            Some(kept) => Plan { until: plan.until, ..kept },
            None => plan,
        }
    }

    fn state(&self) -> &'static str {
        self.inner.state()
    }
}

impl fmt::Debug for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

fn scaled(bytes: Bytes, times: f64) -> Bytes {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and saturates")]
    Bytes::new((bytes.get() as f64 * times) as u64)
}

/// The round trip up to which picoquic starts as everyone does.
const STANDARD_RTT: Duration = Duration::from_millis(100);

const SEED: u64 = 1;
