//! Datagrams that are asked for at a time: one series is what was measured, a row the medians of those that count.

use std::fmt;
use std::time::Duration;

use tokio::runtime::Runtime;
use warprate::conn::{Departure, SendClock, measure_departures};

use super::control::{median, median_count};

/// 300 datagrams, as they cross the console.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Series {
    pub qdisc: String,
    /// What was used.
    clock: String,
    pub gap_us: f64,
    sent: usize,
    left: usize,
    /// Median distance from the planned departure.
    error_us: f64,
    /// Median distance of departures.
    median_gap_us: f64,
}

/// Asks for departures `gap` apart.
pub fn measure(runtime: &Runtime, qdisc: &str, clock: SendClock, gap: Duration) -> Series {
    let remote = "10.7.1.2:9".parse().unwrap();
    let (clock, departures) = runtime.block_on(measure_departures(remote, clock, gap, 300)).unwrap();
    let left: Vec<_> =
        departures.iter().filter_map(|departure| Some((departure.planned, departure.left?))).collect();
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let error = left.iter().map(|&(planned, left)| us(left.max(planned) - left.min(planned)));
    let next = |pair: &[Departure]| pair[1].left?.checked_duration_since(pair[0].left?);
    Series {
        qdisc: qdisc.into(),
        clock: format!("{clock:?}"),
        gap_us: us(gap),
        sent: departures.len(),
        left: left.len(),
        error_us: median(error),
        median_gap_us: median(departures.windows(2).filter_map(next).map(us)),
    }
}

/// The medians of several series.
#[derive(Debug)]
pub struct Row {
    of: Series,
    counted: usize,
    measured: usize,
}

impl Row {
    /// Of those that count; `None` if none does.
    pub fn new(counted: &[&Series], measured: usize) -> Option<Self> {
        let of = |figure: fn(&Series) -> f64| median(counted.iter().map(|series| figure(series)));
        let typical = Series {
            left: median_count(counted.iter().map(|series| series.left)),
            error_us: of(|series| series.error_us),
            median_gap_us: of(|series| series.median_gap_us),
            ..Series::clone(counted.first()?)
        };
        Some(Self { of: typical, counted: counted.len(), measured })
    }

    /// What a queue must do with datagrams that are asked for at a time.
    pub fn check(&self) -> Result<(), String> {
        let Series { qdisc, clock, gap_us, sent, left, error_us, median_gap_us, .. } = &self.of;
        let demand =
            |is_met: bool, what: &str| if is_met { Ok(()) } else { Err(format!("{what}: {self:?}")) };
        let expected = match qdisc.as_str() {
            "fq" => "Fq",
            "etf" | "mqprio" => "Etf",
            _ => "Timer",
        };
        demand(clock == expected, "release times are used where they are kept, and only there")?;
        if clock == "Timer" {
            return demand(left == sent, "without release times nothing is dropped");
        }
        demand(left * 10 >= sent * 9, "nine of ten leave")?;
        demand(*error_us < 120.0, "the median error is below 120 us")?;
        demand((median_gap_us / gap_us - 1.0).abs() < 0.02, "the median gap is within 2 %")
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Series { qdisc, clock, gap_us, sent, left, error_us, median_gap_us, .. } = &self.of;
        write!(
            f,
            "{qdisc:<11} {gap_us:>5} us apart: {left} of {sent} left, error p50 {error_us:>6.1} us, \
             gap p50 {median_gap_us:>6.1} us ({clock}; {} of {} series)",
            self.counted, self.measured
        )
    }
}
