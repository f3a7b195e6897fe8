//! Why WarpRATE misses floors of `warp sim floors`, and what it would miss if datagrams were not put in order: each
//! column takes one cause away, or brings one back.
//!
//! ```sh
//! cargo run --release -p warpsim --example warprate_causes
//! ```
#![allow(missing_docs, reason = "a program, not an interface")]

use std::time::Duration;

use warprate::cc::warprate::Tuning;
use warprate::conn::TransportConfig;
use warprate::units::{Bytes, Gain};
use warpsim::laws::Made;
use warpsim::metrics::FlowReport;
use warpsim::published::{Cell, cells};
use warpsim::scenario::{self, Options};
use warpsim::topology::LawSpec;

/// What is changed.
#[derive(Clone, Copy, Default)]
struct Change {
    /// What may leave before anything has arrived, in the place of the law's bounds.
    blind: Option<Bytes>,
    /// Whether datagrams are handed on as they come.
    is_unordered: bool,
    /// Round trips after which a packet that is late counts as lost, in the place of 9/8. quinn-proto takes the round
    /// trip from the newest packets, the fastest of all where packets overtake each other.
    time_threshold: Option<Gain>,
    /// What the peer may have sent ahead of the application's reads, in the place of 96 MiB.
    receive_window: Option<Bytes>,
}

const NONE: Change = Change { blind: None, is_unordered: false, time_threshold: None, receive_window: None };
const UNORDERED: Change = Change { is_unordered: true, ..NONE };

const BLIND: &[(&str, Change)] = &[
    ("as it is", NONE),
    ("blind 150 kB", Change { blind: Some(Bytes::kb(150)), ..NONE }),
    ("blind 1.25 MB", Change { blind: Some(Bytes::kb(1250)), ..NONE }),
    ("blind 12 MB", Change { blind: Some(Bytes::mb(12)), ..NONE }),
];

const ORDER: &[(&str, Change)] = &[
    ("as it is", NONE),
    ("no order", UNORDERED),
    ("and 2 RTT", Change { time_threshold: Some(Gain::percent(200)), ..UNORDERED }),
    ("and 16 RTT", Change { time_threshold: Some(Gain::percent(1600)), ..UNORDERED }),
];

const WORST: &[(&str, Change)] = &[
    ("as it is", NONE),
    ("blind 20 MB", Change { blind: Some(Bytes::mb(20)), ..NONE }),
    ("windows 1 GiB", Change { receive_window: Some(Bytes::mib(1024)), ..NONE }),
];

/// Cells below their floors, and these in Mbit/s, if they are more than what is published.
const MISSED: &[(&str, Option<&str>)] = &[
    ("jitter-0.2ms-fifo", None),
    ("jitter-0.2ms-reorder", None),
    ("jitter-200ms-fifo", None),
    ("jitter-ack-10ms-loss-1pct-30ms-fifo", Some("400")),
];

/// Cells in which datagrams overtake each other.
const REORDERED: &[(&str, Option<&str>)] = &[
    ("jitter-0.2ms-reorder", None),
    ("jitter-1ms-reorder", Some("544")),
    ("jitter-5ms-reorder", Some("202")),
    ("jitter-10ms-reorder", Some("104")),
    ("jitter-data-10ms-loss-1pct-30ms-reorder", None),
    ("jitter-ack-10ms-loss-1pct-30ms-reorder", None),
    ("jitter-both-10ms-loss-1pct-30ms-reorder", None),
];

/// The worst of 50 paths drawn around cells, by their numbers, where it has less than 0.6 of the cell's own floor; that
/// as a part of the oracle.
const DRAWN: &[(&str, u64, f64)] = &[
    ("jitter-200ms-fifo", 38, 0.578),
    ("jitter-ack-10ms-loss-1pct-30ms-fifo", 32, 0.394),
    ("link-10g-25ms-1GB-loss-1pct", 3, 0.497),
];

fn main() {
    print_table("Mbit/s, median of 5 seeds, host quic", BLIND, MISSED);
    print_table("without the order of arrivals", ORDER, REORDERED);
    print_drawn();
}

fn print_drawn() {
    let names: Vec<_> = WORST.iter().map(|(name, _)| format!(" {name:>13}")).collect();
    println!("{:40} {:>6}{}", "of the oracle, worst drawn path", "floor", names.concat());
    for (id, n, floor) in DRAWN {
        let cell = cell(id).around(DRAWN_FROM, *n);
        let ratios = WORST.iter().map(|(_, change)| {
            let flow = run(&cell, *change, n + 1);
            format!(" {:13.3}", flow.goodput_bps as f64 / flow.oracle_bps.expect("it has one") as f64)
        });
        println!("{:40} {floor:>6}{}", cell.id, ratios.collect::<String>());
    }
}

fn cell(id: &str) -> Cell {
    cells().into_iter().find(|cell| cell.id == id).expect("a cell")
}

fn print_table(title: &str, changes: &[(&str, Change)], rows: &[(&str, Option<&str>)]) {
    let names: Vec<_> = changes.iter().map(|(name, _)| format!(" {name:>13}")).collect();
    println!("{title:40} {:>6}{}", "floor", names.concat());
    for (id, floor) in rows {
        let cell = cell(id);
        let published = cell.published(&LawSpec::default()).map_or("-".to_owned(), |figure| figure.text);
        let floor = floor.map_or(published, str::to_owned);
        let ours: Vec<_> =
            changes.iter().map(|(_, change)| format!(" {:13.1}", goodput(&cell, *change))).collect();
        println!("{id:40} {floor:>6}{}", ours.concat());
    }
    println!();
}

fn goodput(cell: &Cell, change: Change) -> f64 {
    let mut runs: Vec<f64> = (1..=5).map(|seed| run(cell, change, seed).goodput_bps as f64 / 1e6).collect();
    runs.sort_by(f64::total_cmp);
    runs[2]
}

fn run(cell: &Cell, change: Change, seed: u64) -> FlowReport {
    let mut tuning = Tuning::default();
    if let Some(blind) = change.blind {
        (tuning.blind, tuning.blind_unspread) = (blind, blind.max(tuning.blind_unspread));
    }
    let mut transport = TransportConfig::default();
    if change.is_unordered {
        transport.longest_hold(Duration::ZERO);
    }
    if let Some(round_trips) = change.time_threshold {
        transport.time_threshold(round_trips);
    }
    if let Some(window) = change.receive_window {
        transport.stream_receive_window(window).receive_window(window).send_window(window);
    }
    let law = Made::warprate(tuning, scenario::law_seed(seed, 0));
    let options = Options { seed, transport, ..Options::default() };
    let report = scenario::run_law(&cell.topology(), &options, "warprate", &law).expect("cells run");
    report.flows.into_iter().next().expect("cells have a flow")
}

/// What `warp sim floors --drawn` draws from.
const DRAWN_FROM: u64 = 1;
