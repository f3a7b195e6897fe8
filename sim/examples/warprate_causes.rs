//! Why WarpRATE misses floors of `warp sim floors`: each column takes one cause away.
//!
//! ```sh
//! cargo run --release -p warpsim --example warprate_causes
//! ```
#![allow(missing_docs, reason = "a program, not an interface")]

use std::sync::Arc;

use warprate::cc::warprate::Tuning;
use warprate::cc::{Fixed, PathStart};
use warprate::units::{Bytes, Gain, Rate};
use warpsim::laws::Made;
use warpsim::published::{Cell, cells};
use warpsim::scenario::{self, Options};
use warpsim::topology::LawSpec;

/// What is taken away.
#[derive(Clone, Copy, Default)]
struct Removed {
    /// The bound on what leaves before anything has arrived.
    blind_budget: bool,
    /// Packets: quinn-proto's receiver drops one that is more than 129 behind the newest, so what counts is
    /// how many are under way within the jitter.
    packets: bool,
    /// Losses of packets that are late: quinn-proto finds them 9/8 round trips after they left, at least a
    /// millisecond, and takes the round trip from the newest packets, the fastest of all where packets overtake
    /// each other.
    time_threshold: Option<Gain>,
    /// Looking for the rate: it is told, and leaves in a window without end.
    search: Option<Rate>,
}

const NONE: Removed = Removed { blind_budget: false, packets: false, time_threshold: None, search: None };

const TWICE: Removed = Removed { time_threshold: Some(Gain::percent(200)), ..NONE };
const LATE: Removed = Removed { time_threshold: Some(Gain::percent(1600)), ..NONE };

const CAUSES: &[(&str, Removed)] = &[
    ("as it is", NONE),
    ("blind 12 MB", Removed { blind_budget: true, ..NONE }),
    ("2 RTT", TWICE),
    ("16 RTT", LATE),
    ("9000 bytes", Removed { packets: true, ..NONE }),
    ("all of them", Removed { blind_budget: true, packets: true, ..LATE }),
];

/// The same where the rate is known.
const TOLD: &[(&str, Removed)] = &[
    ("200 Mbit/s", Removed { search: Some(Rate::mbps(200)), ..TWICE }),
    ("900 Mbit/s", Removed { search: Some(Rate::mbps(900)), ..TWICE }),
    ("200, 9000 B", Removed { search: Some(Rate::mbps(200)), packets: true, ..TWICE }),
    ("400, 9000 B", Removed { search: Some(Rate::mbps(400)), packets: true, ..TWICE }),
    ("900, 9000 B", Removed { search: Some(Rate::mbps(900)), packets: true, ..TWICE }),
];

/// Cells below their floors, and these in Mbit/s, if they are more than what is published.
const CELLS: &[(&str, Option<&str>)] = &[
    ("jitter-0.2ms-fifo", None),
    ("jitter-200ms-fifo", None),
    ("jitter-ack-10ms-loss-1pct-30ms-fifo", Some("400")),
    ("jitter-0.2ms-reorder", None),
    ("jitter-1ms-reorder", Some("544")),
    ("jitter-data-10ms-loss-1pct-30ms-reorder", None),
    ("jitter-both-10ms-loss-1pct-30ms-reorder", None),
];

/// What a higher time threshold costs: cells of losses by chance.
const PRICE: &[(&str, Option<&str>)] = &[
    ("loss-data-1pct", Some("835")),
    ("loss-data-10pct", Some("706")),
    ("jitter-ack-10ms-loss-1pct-30ms-reorder", None),
];

/// Cells that need to know it.
const SEARCHED: &[(&str, Option<&str>)] =
    &[("jitter-data-10ms-loss-1pct-30ms-reorder", None), ("jitter-both-10ms-loss-1pct-30ms-reorder", None)];

fn main() {
    print_table("Mbit/s, median of 5 seeds, host quic", CAUSES, CELLS);
    print_table("what has no need of it", CAUSES, PRICE);
    print_table("2 RTT, and told the rate", TOLD, SEARCHED);
}

fn print_table(title: &str, causes: &[(&str, Removed)], rows: &[(&str, Option<&str>)]) {
    let names: Vec<_> = causes.iter().map(|(name, _)| format!(" {name:>11}")).collect();
    println!("{title:40} {:>6}{}", "floor", names.concat());
    for (id, floor) in rows {
        let cell = cells().into_iter().find(|cell| cell.id == *id).expect("a cell");
        let published = cell.published(&LawSpec::default()).map_or("-".to_owned(), |figure| figure.text);
        let floor = floor.map_or(published, str::to_owned);
        let ours: Vec<_> =
            causes.iter().map(|(_, removed)| format!(" {:11.1}", goodput(&cell, *removed))).collect();
        println!("{id:40} {floor:>6}{}", ours.concat());
    }
    println!();
}

fn goodput(cell: &Cell, removed: Removed) -> f64 {
    let mut topology = cell.topology();
    if removed.packets {
        topology.flows[0].mtu = JUMBO;
    }
    let mut tuning = Tuning::default();
    if removed.blind_budget {
        (tuning.blind, tuning.blind_unspread) = (WHOLE, WHOLE);
    }
    let run = |seed| {
        let law = match removed.search {
            Some(rate) => {
                Made::Own { factory: Arc::new(move |_: PathStart| Fixed::new(rate, WHOLE)), is_paced: true }
            }
            None => Made::warprate(tuning, scenario::law_seed(seed, 0)),
        };
        let options = Options { seed, time_threshold: removed.time_threshold, ..Options::default() };
        let report = scenario::run_law(&topology, &options, "warprate", &law).expect("cells run");
        report.flows[0].goodput_bps as f64 / 1e6
    };
    let mut runs: Vec<f64> = (1..=5).map(run).collect();
    runs.sort_by(f64::total_cmp);
    runs[2]
}

/// More than a transfer of the grid.
const WHOLE: Bytes = Bytes::mb(12);
/// UDP payload in a frame of 9000 bytes.
const JUMBO: u16 = 8972;
