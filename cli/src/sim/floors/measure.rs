//! What is read from a run.

use warpsim::metrics::Report;

use super::super::mbps;

/// A run that is over.
pub enum Finished {
    /// Of one flow.
    Alone(Report),
}

/// A figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Of a transfer.
    Goodput,
    /// Wire bytes dropped by full queues within 10 RTT of the start.
    EarlyDrops,
}

impl Finished {
    /// Goodput of the oracle in Mbit/s, where there is one.
    pub fn oracle(&self) -> Option<f64> {
        match self {
            Self::Alone(report) => report.flows[0].oracle_bps.map(mbps),
        }
    }

    /// Whether the transfer came to its end, where there is one.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Alone(report) => report.flows[0].oracle_bps.is_none() || report.flows[0].is_finished,
        }
    }
}

impl Measure {
    /// What the table calls it, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Goodput => "Mbit/s",
            Self::EarlyDrops => "early drops kB",
        }
    }

    /// The figure.
    pub fn of(self, run: &Finished) -> f64 {
        match (self, run) {
            (Self::Goodput, Finished::Alone(report)) => mbps(report.flows[0].goodput_bps),
            (Self::EarlyDrops, Finished::Alone(report)) => report.flows[0].early_drops_bytes as f64 / 1e3,
        }
    }
}
