//! The table, the bars and the JSON file.

use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;
use warprate::units::{Bytes, Rate};

use crate::options::{LawName, Options};
use crate::row::Outcome;
use crate::tls::DATAGRAM;

/// A row and what came of it.
pub struct Report {
    pub law: LawName,
    pub result: anyhow::Result<Outcome>,
}

/// What is downloaded over which path, and the options that were given.
pub fn header(options: &Options, oracle: Rate) -> String {
    let Options { bytes, rate, rtt, loss, ack_loss, jitter, seed, .. } = options;
    let buffer = options.path().map_or(Bytes::ZERO, |path| path.forward.buffer());
    let order = jitter.order();
    let jitter = match jitter.sigma() {
        Duration::ZERO => String::new(),
        sigma => format!(", jitter {sigma:?} {order:?}").to_lowercase(),
    };
    let ack_loss =
        if ack_loss.as_parts_per_billion() > 0 { format!(", ack loss {ack_loss}") } else { String::new() };
    let given = match options.given.join(" ") {
        given if given.is_empty() => "none".to_owned(),
        given => given,
    };
    format!(
        "{bytes} over {rate}, RTT {rtt:?}, loss {loss}{ack_loss}{jitter}, buffer {buffer}, seed {seed}; \
         datagrams of {DATAGRAM} bytes; oracle {oracle}\noptions given: {given}"
    )
}

/// One line per row, failures at the end of it.
pub fn table(reports: &[Report], oracle: Rate) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(COLUMNS);
    for report in reports {
        let cells = match &report.result {
            Ok(outcome) => figures(outcome, oracle),
            Err(_) => vec!["failed".to_owned(); 1],
        };
        let cells = cells.into_iter().map(|cell| Cell::new(cell).set_alignment(CellAlignment::Right));
        table.add_row(std::iter::once(Cell::new(report.law)).chain(cells));
    }
    table
}

fn figures(outcome: &Outcome, oracle: Rate) -> Vec<String> {
    let millis = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    vec![
        format!("{:.2}", outcome.goodput.as_mbps_f64()),
        format!("{:.3}", outcome.time.as_secs_f64()),
        millis(outcome.connect),
        format!("{:.3}", ratio(outcome.goodput, oracle)),
        outcome.lost.to_string(),
        outcome.sent.to_string(),
        millis(outcome.rtt.min),
        millis(outcome.rtt.mean),
        millis(outcome.rtt.p95),
        format!("{:.3}", outcome.cpu.as_secs_f64()),
    ]
}

/// A bar per row, as long as its share of the oracle's goodput; and what is to be said of it.
pub fn bars(reports: &[Report], oracle: Rate) -> String {
    let mut lines = String::new();
    let width = reports.iter().map(|report| report.law.to_string().len()).max().unwrap_or_default();
    for Report { law, result } in reports {
        let line = match result {
            Ok(outcome) => {
                let share = ratio(outcome.goodput, oracle);
                format!("{law:<width$} {} {:.2} Mbit/s", bar(share), outcome.goodput.as_mbps_f64())
            }
            Err(error) => format!("{law:<width$} failed: {error:#}"),
        };
        lines += &line;
        lines.push('\n');
    }
    for Report { law, result } in reports {
        if let Some(disturbance) = result.as_ref().ok().and_then(|outcome| outcome.disturbance.as_ref()) {
            lines += &format!("{law}: the machine disturbed this row: {disturbance}\n");
        }
    }
    lines
}

fn ratio(goodput: Rate, oracle: Rate) -> f64 {
    goodput.as_mbps_f64() / oracle.as_mbps_f64()
}

fn bar(share: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the bar's width")]
    let eighths = (share.clamp(0.0, 1.0) * (BAR_WIDTH * 8) as f64).round() as usize;
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    let filled = format!("{}{part}", "█".repeat(eighths / 8));
    format!("{filled:·<BAR_WIDTH$}")
}

/// The file that is to take the JSON, opened before anything runs and emptied only when it is written.
pub struct JsonFile {
    file: File,
    name: String,
}

impl JsonFile {
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        Ok(Self { file: file.with_context(|| format!("--json: cannot write to `{name}`"))?, name })
    }

    pub fn write(mut self, reports: &[Report], oracle: Rate) -> anyhow::Result<()> {
        let rows: Vec<_> = reports.iter().map(|report| JsonRow::new(report, oracle)).collect();
        let text = serde_json::to_string_pretty(&rows)? + "\n";
        self.file
            .set_len(0)
            .and_then(|()| self.file.rewind())
            .and_then(|()| self.file.write_all(text.as_bytes()))
            .with_context(|| format!("--json: cannot write to `{}`", self.name))
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum JsonRow {
    Done {
        law: String,
        goodput_mbps: f64,
        seconds: f64,
        connect_ms: f64,
        bytes: u64,
        oracle_ratio: f64,
        lost_packets: u64,
        sent_packets: u64,
        rtt_min_ms: f64,
        rtt_mean_ms: f64,
        rtt_p95_ms: f64,
        cpu_seconds: f64,
    },
    Failed {
        law: String,
        error: String,
    },
}

impl JsonRow {
    fn new(report: &Report, oracle: Rate) -> Self {
        let law = report.law.to_string();
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        match &report.result {
            Ok(outcome) => Self::Done {
                law,
                goodput_mbps: outcome.goodput.as_mbps_f64(),
                seconds: outcome.time.as_secs_f64(),
                connect_ms: millis(outcome.connect),
                bytes: outcome.bytes,
                oracle_ratio: ratio(outcome.goodput, oracle),
                lost_packets: outcome.lost,
                sent_packets: outcome.sent,
                rtt_min_ms: millis(outcome.rtt.min),
                rtt_mean_ms: millis(outcome.rtt.mean),
                rtt_p95_ms: millis(outcome.rtt.p95),
                cpu_seconds: outcome.cpu.as_secs_f64(),
            },
            Err(error) => Self::Failed { law, error: format!("{error:#}") },
        }
    }
}

const COLUMNS: [&str; 11] = [
    "law",
    "goodput\nMbit/s",
    "time\ns",
    "connect\nms",
    "of\noracle",
    "lost\npackets",
    "sent\npackets",
    "RTT min\nms",
    "mean\nms",
    "p95\nms",
    "CPU\ns",
];

const BAR_WIDTH: usize = 50;
