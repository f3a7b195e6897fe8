//! What was measured, as a table.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use warprate::units::Rate;

use super::senders::{DATAGRAM, WARM_UP};

#[derive(serde::Serialize)]
pub struct Row {
    sender: String,
    mbps: f64,
    /// Deviation of the mean rate, in per cent.
    rate_off_percent: f64,
    gap_error_p50_us: f64,
    gap_error_p99_us: f64,
    /// Of one processor.
    cpu_percent: f64,
    datagrams: usize,
}

impl Row {
    /// Of the arrivals on CLOCK_REALTIME, those after the warm-up count, for `time`.
    pub fn new(sender: String, rate: Rate, time: Duration, cpu: Duration, arrivals: &[Duration]) -> Self {
        let start = arrivals.first().copied().unwrap_or_default() + WARM_UP;
        let measured: Vec<_> =
            arrivals.iter().copied().filter(|at| (start..start + time).contains(at)).collect();
        let expected = (DATAGRAM / rate).as_secs_f64();
        let mut errors: Vec<f64> = measured
            .windows(2)
            .map(|pair| (pair[1].saturating_sub(pair[0]).as_secs_f64() - expected).abs())
            .collect();
        errors.sort_by(f64::total_cmp);
        let at =
            |percent: usize| errors.get(errors.len() * percent / 100).map_or(f64::NAN, |error| error * 1e6);
        let bits = (DATAGRAM.get() * 8 * measured.len() as u64) as f64;
        let mbps = bits / 1e6 / time.as_secs_f64();
        Self {
            sender,
            mbps,
            rate_off_percent: (mbps / rate.as_mbps_f64() - 1.0) * 100.0,
            gap_error_p50_us: at(50),
            gap_error_p99_us: at(99),
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
        "CPU\n%",
        "datagrams",
    ]);
    for row in rows {
        table.add_row([
            row.sender.clone(),
            format!("{:.2}", row.mbps),
            format!("{:+.2}", row.rate_off_percent),
            format!("{:.1}", row.gap_error_p50_us),
            format!("{:.1}", row.gap_error_p99_us),
            format!("{:.1}", row.cpu_percent),
            row.datagrams.to_string(),
        ]);
    }
    for column in 1..7 {
        table.column_mut(column).expect("seven columns").set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}
