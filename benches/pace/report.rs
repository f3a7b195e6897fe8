//! What was measured, as a table.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use warprate::units::{Bytes, Rate};

use super::capture::Arrival;
use super::senders::WARM_UP;

#[derive(serde::Serialize)]
pub struct Row {
    sender: &'static str,
    mbps: f64,
    /// Deviation of the mean rate, in per cent.
    rate_off_percent: f64,
    gap_error_p50_us: f64,
    gap_error_p99_us: f64,
    gap_error_p999_us: f64,
    /// Of one processor.
    cpu_percent: f64,
    datagrams: usize,
}

impl Row {
    /// Of the arrivals those after the warm-up count, for `time`.
    pub fn new(
        sender: &'static str,
        rate: Rate,
        time: Duration,
        cpu: Duration,
        arrivals: &[Arrival],
    ) -> Self {
        let start = arrivals.first().map(|first| first.at).unwrap_or_default() + WARM_UP;
        let is_counted = |arrival: &&Arrival| (start..start + time).contains(&arrival.at);
        let measured: Vec<_> = arrivals.iter().filter(is_counted).collect();
        let gap_error = |pair: &[&Arrival]| {
            let (gap, expected) = (pair[1].at.saturating_sub(pair[0].at), pair[0].size / rate);
            gap.abs_diff(expected).as_secs_f64() * 1e6
        };
        let mut errors: Vec<f64> = measured.windows(2).map(gap_error).collect();
        errors.sort_by(f64::total_cmp);
        let at = |permille: usize| errors.get(errors.len() * permille / 1000).copied().unwrap_or(f64::NAN);
        let bytes: Bytes = measured.iter().map(|arrival| arrival.size).sum();
        let mbps = bytes.get() as f64 * 8e-6 / time.as_secs_f64();
        Self {
            sender,
            mbps,
            rate_off_percent: (mbps / rate.as_mbps_f64() - 1.0) * 100.0,
            gap_error_p50_us: at(500),
            gap_error_p99_us: at(990),
            gap_error_p999_us: at(999),
            cpu_percent: cpu.as_secs_f64() / time.as_secs_f64() * 100.0,
            datagrams: measured.len(),
        }
    }
}

pub fn print(rows: &[Row]) {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "sender",
        "rate\nMbit/s",
        "off\n%",
        "gap error\np50 us",
        "\np99 us",
        "\np99.9 us",
        "CPU\n%",
        "datagrams",
    ]);
    for row in rows {
        table.add_row([
            row.sender.into(),
            format!("{:.2}", row.mbps),
            format!("{:+.2}", row.rate_off_percent),
            format!("{:.1}", row.gap_error_p50_us),
            format!("{:.1}", row.gap_error_p99_us),
            format!("{:.1}", row.gap_error_p999_us),
            format!("{:.1}", row.cpu_percent),
            row.datagrams.to_string(),
        ]);
    }
    for column in 1..8 {
        table.column_mut(column).expect("eight columns").set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}
