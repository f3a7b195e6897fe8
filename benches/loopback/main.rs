//! Loopback bulk: ours beside stock quinn, and beside ourselves without a pacer. Alternating pairs, median ratios of
//! wall time and CPU seconds.
//!
//! `cargo bench --bench loopback [-- --bytes 1000000000 --pairs 9 --json FILE]`
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod stacks;

use std::time::Duration;

use stacks::{Certificate, Cost, MTU, Stack, transfer};
use warprate::units::Bytes as Size;

/// Who is put beside whom.
const PAIRS: [(&str, Stack, &str, Stack); 4] = [
    ("warprate", Stack::Ours, "quinn", Stack::Quinn),
    ("warprate, fixed at 40 Gbit/s", Stack::Fixed, "quinn", Stack::Quinn),
    ("warprate", Stack::Ours, "no pacer", Stack::Unpaced),
    ("warprate, fixed at 40 Gbit/s", Stack::Fixed, "no pacer", Stack::Unpaced),
];

fn main() {
    let options = Options::parse();
    let certificate = Certificate::new();
    println!(
        "loopback, {} in one stream, {} alternating pairs, {MTU}-byte datagrams",
        Size::new(options.bytes),
        options.pairs
    );
    let mut rows = Vec::new();
    for (name, ours, other_name, other) in PAIRS {
        let pairs: Vec<(Cost, Cost)> = (0..options.pairs)
            .map(|i| {
                // Who goes first alternates too.
                let order = if i % 2 == 0 { [ours, other] } else { [other, ours] };
                let costs = order.map(|stack| transfer(stack, options.bytes, &certificate));
                let pair = if i % 2 == 0 { (costs[0], costs[1]) } else { (costs[1], costs[0]) };
                eprintln!("  {name} beside {other_name}, pair {}: {}", i + 1, describe(pair));
                pair
            })
            .collect();
        rows.push(Row::new(name, other_name, &pairs, options.bytes));
    }
    println!(
        "{:<30} {:<9} {:>10} {:>10} {:>12} {:>13}",
        "", "beside", "wall ratio", "CPU ratio", "ours Gbit/s", "theirs Gbit/s"
    );
    for row in &rows {
        println!(
            "{:<30} {:<9} {:>10.3} {:>10.3} {:>12.2} {:>13.2}",
            row.name, row.other, row.wall_ratio, row.cpu_ratio, row.ours_gbps, row.theirs_gbps
        );
    }
    if let Some(path) = options.json {
        let json = serde_json::to_string_pretty(&rows).expect("plain data");
        std::fs::write(&path, json).unwrap_or_else(|error| panic!("cannot write --json {path}: {error}"));
    }
}

struct Options {
    bytes: u64,
    pairs: usize,
    json: Option<String>,
}

impl Options {
    fn parse() -> Self {
        let mut options = Self { bytes: 1_000_000_000, pairs: 9, json: None };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
            match arg.as_str() {
                "--bytes" => options.bytes = value().parse().expect("--bytes takes a whole number"),
                "--pairs" => options.pairs = value().parse().expect("--pairs takes a whole number"),
                "--json" => options.json = Some(value()),
                // Cargo's own.
                "--bench" => {}
                other => panic!("unknown option {other}; known are --bytes, --pairs and --json"),
            }
        }
        options
    }
}

#[derive(serde::Serialize)]
struct Row {
    name: &'static str,
    other: &'static str,
    wall_ratio: f64,
    cpu_ratio: f64,
    ours_gbps: f64,
    theirs_gbps: f64,
}

impl Row {
    fn new(name: &'static str, other: &'static str, pairs: &[(Cost, Cost)], bytes: u64) -> Self {
        let gbps = |wall: Duration| bytes as f64 * 8e-9 / wall.as_secs_f64();
        Self {
            name,
            other,
            wall_ratio: median(pairs, |(ours, theirs)| ours.wall.as_secs_f64() / theirs.wall.as_secs_f64()),
            cpu_ratio: median(pairs, |(ours, theirs)| ours.cpu.as_secs_f64() / theirs.cpu.as_secs_f64()),
            ours_gbps: median(pairs, |(ours, _)| gbps(ours.wall)),
            theirs_gbps: median(pairs, |(_, theirs)| gbps(theirs.wall)),
        }
    }
}

fn median(pairs: &[(Cost, Cost)], figure: impl Fn(&(Cost, Cost)) -> f64) -> f64 {
    let mut figures: Vec<f64> = pairs.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn describe((ours, theirs): (Cost, Cost)) -> String {
    format!(
        "ours {:.2} s ({:.2} s CPU), theirs {:.2} s ({:.2} s CPU)",
        ours.wall.as_secs_f64(),
        ours.cpu.as_secs_f64(),
        theirs.wall.as_secs_f64(),
        theirs.cpu.as_secs_f64()
    )
}
