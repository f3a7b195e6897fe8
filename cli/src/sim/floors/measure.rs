//! What is read from a run.

use std::time::Duration;

use warpsim::dumbbell::{Share, Shares};
use warpsim::metrics::{Report, stream_rate};
use warpsim::topology::{Link, Topology};
use warpunits::Rate;

use super::super::mbps;
use super::response::{until_drained, until_regained};
use super::steady::Steady;

/// A run that is over.
pub enum Finished {
    /// Of one flow, whose first link is the bottleneck.
    Alone(Topology, Report),
    /// Of several.
    Shared(&'static Steady, Shares),
}

/// A figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Of a transfer.
    Goodput,
    /// Wire bytes dropped by full queues within 10 RTT of the start.
    EarlyDrops,
    /// Stream bytes sent again, of those received.
    Resent,
    /// Time after the first change of capacity until the queue is and stays short.
    Drained,
    /// Time after the second change of capacity until the link is used again.
    Regained,
    /// Goodput of all flows, of what the bottleneck can carry.
    Utilisation,
    /// Mean queue of the bottleneck.
    Queue,
    /// Jain's index of the flows' goodputs.
    Jain,
    /// Goodput of the law under test, of what the bottleneck can carry.
    OurShare,
    /// Goodput of the other law, of what the bottleneck can carry.
    TheirShare,
    /// Overflow drops per packet sent.
    Loss,
}

impl Finished {
    /// Goodput of the oracle in Mbit/s, where there is one.
    pub fn oracle(&self) -> Option<f64> {
        match self {
            Self::Alone(_, report) => report.flows[0].oracle_bps.map(mbps),
            Self::Shared(..) => None,
        }
    }

    /// Whether the transfer came to its end, where it has one.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Alone(topology, report) => topology.flows[0].bytes.is_none() || report.flows[0].is_finished,
            Self::Shared(..) => true,
        }
    }
}

impl Measure {
    /// What the table calls it, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Goodput => "Mbit/s",
            Self::EarlyDrops => "early drops kB",
            Self::Resent => "resent %",
            Self::Drained => "queue < 10 ms after ms",
            Self::Regained => "90 % again after ms",
            Self::Utilisation => "utilisation",
            Self::Queue => "mean queue ms",
            Self::Jain => "Jain",
            Self::OurShare => "our share",
            Self::TheirShare => "their share",
            Self::Loss => "overflow %",
        }
    }

    /// The figure; not a number where such runs do not tell it.
    pub fn of(self, run: &Finished) -> f64 {
        match run {
            Finished::Alone(topology, report) => self.of_one(topology, report),
            Finished::Shared(steady, shares) => self.of_several(steady, shares),
        }
    }

    fn of_one(self, topology: &Topology, report: &Report) -> f64 {
        let (flow, bottleneck) = (&report.flows[0], &report.links[0]);
        let (_, link) = topology.links.iter().next().expect("a topology has links");
        let response = |until: fn(_, _, _) -> Option<Duration>, step: usize| {
            let (at, rate) = step_of(link, step)?;
            until(bottleneck, at, rate)
        };
        match self {
            Self::Goodput => mbps(flow.goodput_bps),
            Self::EarlyDrops => flow.early_drops_bytes as f64 / 1e3,
            Self::Resent => 100.0 * flow.retransmitted_bytes as f64 / flow.received_bytes.max(1) as f64,
            Self::Drained => response(until_drained, 0).map_or(f64::INFINITY, millis),
            Self::Regained => response(until_regained, 1).map_or(f64::INFINITY, millis),
            Self::Utilisation => flow.goodput_bps as f64 / capacity(link.rate),
            Self::Queue => bottleneck.queue_mean_ns as f64 / 1e6,
            Self::Loss => 100.0 * flow.self_inflicted_loss,
            Self::Jain | Self::OurShare | Self::TheirShare => f64::NAN,
        }
    }

    fn of_several(self, steady: &Steady, shares: &Shares) -> f64 {
        let of_capacity = |is_counted: fn(bool) -> bool| {
            let flows = steady.flows.iter().zip(&shares.flows);
            let counted = flows.filter(|(sender, _)| is_counted(sender.law.is_none()));
            let goodput = |share: &Share| share.goodput.as_bits_per_sec() as f64;
            counted.map(|(_, share)| goodput(share)).sum::<f64>() / capacity(steady.rate())
        };
        match self {
            Self::Utilisation => of_capacity(|_| true),
            Self::OurShare => of_capacity(|is_ours| is_ours),
            Self::TheirShare => of_capacity(|is_ours| !is_ours),
            Self::Queue => millis(shares.queue_mean),
            Self::Jain => shares.jain,
            Self::Loss => 100.0 * shares.self_inflicted_loss,
            Self::Goodput | Self::EarlyDrops | Self::Resent | Self::Drained | Self::Regained => f64::NAN,
        }
    }
}

/// When a link's rate changes for the `n`-th time, and to what.
fn step_of(link: &Link, n: usize) -> Option<(Duration, Rate)> {
    link.steps.iter().filter_map(|step| Some((step.at, step.rate?))).nth(n)
}

/// Stream bits per second that a link can carry.
fn capacity(rate: Rate) -> f64 {
    stream_rate(rate, FULL_DATAGRAM).as_bits_per_sec() as f64
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Of the `quic` host.
const FULL_DATAGRAM: u16 = 1452;

#[cfg(test)]
mod tests {
    use warpsim::scenario::{self, Options};

    use super::super::rows::{Path, rows};
    use super::super::steady::STEADY;
    use super::*;

    /// Two flows, or as many as it takes, with these goodputs.
    fn shares(mbps: &[u64]) -> Shares {
        let share = |mbps: &u64| Share {
            goodput: Rate::mbps(*mbps),
            of_all: 0.0,
            sent_packets: 0,
            overflow_drops: 0,
            self_inflicted_loss: 0.0,
        };
        Shares {
            flows: mbps.iter().map(share).collect(),
            jain: 0.9,
            utilisation: 1.0,
            queue_mean: Duration::from_millis(3),
            queue_p50: Duration::ZERO,
            queue_p95: Duration::ZERO,
            self_inflicted_loss: 0.02,
        }
    }

    #[test]
    fn every_line_asks_for_what_its_runs_tell() {
        let text = r#"{
            "name": "short", "duration": "100 ms",
            "links": { "there": { "rate": "1 Mbit/s", "delay": "1 ms" }, "back": { "rate": "1 Mbit/s", "delay": "1 ms" } },
            "flows": [{ "law": "fixed", "bytes": "1 kB", "forward": ["there"], "reverse": ["back"] }]
        }"#;
        let topology = Topology::read("short", text).unwrap();
        let report = scenario::run(&topology, &Options::default()).unwrap();
        let alone = Finished::Alone(topology, report);
        for row in rows() {
            let run = match row.path {
                Path::Steady(steady) => &Finished::Shared(steady, shares(&vec![1; steady.flows.len()])),
                Path::Cell(_) | Path::Preset(_) => &alone,
            };
            for line in &row.lines {
                assert!(!line.what.of(run).is_nan(), "{}: {}", row.name, line.what.name());
            }
        }
    }

    #[test]
    fn shares_are_parts_of_the_capacity_whoever_began() {
        // 100 Mbit/s carry 93.544 Mbit/s of stream data: 1420 bytes in each 1518.
        let near = |found: f64, expected: f64| assert!((found - expected / 93.544).abs() < 1e-5, "{found}");
        for (name, rates) in [("cubic-second-1bdp", [60, 20]), ("cubic-first-1bdp", [20, 60])] {
            let steady = STEADY.iter().find(|steady| steady.name == name).unwrap();
            let run = Finished::Shared(steady, shares(&rates));
            near(Measure::OurShare.of(&run), 60.0);
            near(Measure::TheirShare.of(&run), 20.0);
            near(Measure::Utilisation.of(&run), 80.0);
            assert_eq!(Measure::Queue.of(&run), 3.0);
        }
    }
}
