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
}

const NONE: Change = Change { blind: None, is_unordered: false, time_threshold: None };
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

fn main() {
    print_table("Mbit/s, median of 5 seeds, host quic", BLIND, MISSED);
    print_table("without the order of arrivals", ORDER, REORDERED);
}

fn print_table(title: &str, changes: &[(&str, Change)], rows: &[(&str, Option<&str>)]) {
    let names: Vec<_> = changes.iter().map(|(name, _)| format!(" {name:>13}")).collect();
    println!("{title:40} {:>6}{}", "floor", names.concat());
    for (id, floor) in rows {
        let cell = cells().into_iter().find(|cell| cell.id == *id).expect("a cell");
        let published = cell.published(&LawSpec::default()).map_or("-".to_owned(), |figure| figure.text);
        let floor = floor.map_or(published, str::to_owned);
        let ours: Vec<_> =
            changes.iter().map(|(_, change)| format!(" {:13.1}", goodput(&cell, *change))).collect();
        println!("{id:40} {floor:>6}{}", ours.concat());
    }
    println!();
}

fn goodput(cell: &Cell, change: Change) -> f64 {
    let topology = cell.topology();
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
    let run = |seed| {
        let law = Made::warprate(tuning, scenario::law_seed(seed, 0));
        let options = Options { seed, transport: transport.clone(), ..Options::default() };
        let report = scenario::run_law(&topology, &options, "warprate", &law).expect("cells run");
        report.flows[0].goodput_bps as f64 / 1e6
    };
    let mut runs: Vec<f64> = (1..=5).map(run).collect();
    runs.sort_by(f64::total_cmp);
    runs[2]
}
