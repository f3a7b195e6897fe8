//! Why WarpRATE misses floors of `warp sim floors`: each column takes one cause away.
//!
//! ```sh
//! cargo run --release -p warpsim --example warprate_causes
//! ```
#![allow(missing_docs, reason = "a program, not an interface")]

use warprate::cc::warprate::Tuning;
use warprate::units::Bytes;
use warpsim::laws::Made;
use warpsim::published::{Cell, cells};
use warpsim::scenario::{self, Options};
use warpsim::topology::LawSpec;

/// What is taken away.
#[derive(Clone, Copy)]
struct Removed {
    /// The bound on what leaves before anything has arrived.
    blind_budget: bool,
    /// Packets: quinn-proto's receiver drops one that is more than 129 behind the newest, so what counts is
    /// how many are under way within the jitter.
    packets: bool,
}

const CAUSES: &[(&str, Removed)] = &[
    ("as it is", Removed { blind_budget: false, packets: false }),
    ("blind 12 MB", Removed { blind_budget: true, packets: false }),
    ("9000 bytes", Removed { blind_budget: false, packets: true }),
    ("both", Removed { blind_budget: true, packets: true }),
];

/// Cells below their floors.
const CELLS: &[&str] = &[
    "jitter-200ms-fifo",
    "jitter-0.2ms-reorder",
    "jitter-1ms-reorder",
    "jitter-200ms-reorder",
    "jitter-data-10ms-loss-1pct-30ms-reorder",
    "jitter-both-10ms-loss-1pct-30ms-reorder",
];

fn main() {
    let names: Vec<_> = CAUSES.iter().map(|(name, _)| format!(" {name:>12}")).collect();
    println!("{:40} {:>9}{}", "Mbit/s, median of 5 seeds, host quic", "published", names.concat());
    for id in CELLS {
        let cell = cells().into_iter().find(|cell| cell.id == *id).expect("a cell");
        let published = cell.published(&LawSpec::default()).map_or("-".to_owned(), |figure| figure.text);
        let ours: Vec<_> =
            CAUSES.iter().map(|(_, removed)| format!(" {:12.2}", goodput(&cell, *removed))).collect();
        println!("{id:40} {published:>9}{}", ours.concat());
    }
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
        let law = Made::warprate(tuning, scenario::law_seed(seed, 0));
        let options = Options { seed, ..Options::default() };
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
