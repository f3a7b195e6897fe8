//! Why figures of others are missed: each column takes one cause away.
//!
//! ```sh
//! cargo run --release -p warpsim --example causes -- yardsticks   # picoquic's limits
//! cargo run --release -p warpsim --example causes -- published    # kernel TCP's figures
//! cargo run --release -p warpsim --example causes -- requests     # its loss of acknowledgements
//! ```
#![allow(missing_docs, reason = "a program, not an interface")]

mod changed;

use changed::{Removed, without};
use warprate::units::{Bytes, Rate};
use warpsim::published::{WRITTEN, cells};
use warpsim::scenario::{self, Options};
use warpsim::topology::{HostKind, LawSpec, Topology, Yardstick};
use warpsim::yardstick::{measure, measure_law};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("yardsticks") => yardsticks(),
        Some("published") => published(),
        Some("requests") => requests(),
        _ => eprintln!("expected `yardsticks`, `published` or `requests`"),
    }
}

/// What picoquic does and RFC 9002, RFC 9438 and draft-ietf-ccwg-bbr-06 do not.
fn yardsticks() {
    let nothing = Removed::default();
    let causes = [
        ("as it is", nothing),
        ("sparse ACKs", Removed { dense_acks: true, ..nothing }),
        ("long start", Removed { short_start: true, ..nothing }),
        ("known rate", Removed { unknown_rate: true, ..nothing }),
        ("deaf", Removed { losses: true, ..nothing }),
        ("no PROBE_RTT", Removed { probe_rtt: true, ..nothing }),
        (
            "all",
            Removed {
                dense_acks: true,
                short_start: true,
                unknown_rate: true,
                losses: true,
                probe_rtt: true,
                ..nothing
            },
        ),
    ];
    heading("limits missed, in seconds", "limit", &causes);
    for (name, text) in WRITTEN {
        let topology = Topology::read(name, text).expect("presets are topologies");
        for yardstick in &topology.yardsticks {
            let reading = measure(&topology, yardstick, SEED).expect("presets run");
            if !reading.is_met() {
                let ours = causes.map(|(_, removed)| seconds(&topology, yardstick, removed));
                row(name, yardstick.law.name(), &reading.limit.to_string(), &ours);
            }
        }
    }
}

fn seconds(topology: &Topology, yardstick: &Yardstick, removed: Removed) -> f64 {
    let law = without(removed, rate(topology), scenario::law(topology, 0, &yardstick.law, SEED));
    measure_law(topology, yardstick, SEED, law).expect("presets run").ours
}

/// What may differ between our laws on the host `tcp` and the authors' kernels.
fn published() {
    let nothing = Removed::default();
    let four =
        Removed { paced_start: true, small_bursts: true, lone_samples: true, short_rtts: true, ..nothing };
    let causes = [
        ("as it is", nothing),
        ("unpaced start", Removed { paced_start: true, ..nothing }),
        ("bursts", Removed { small_bursts: true, ..nothing }),
        ("all samples", Removed { lone_samples: true, ..nothing }),
        ("mean RTT", Removed { short_rtts: true, ..nothing }),
        ("these four", four),
        ("conserving", Removed { free_recovery: true, ..nothing }),
        ("and samples", Removed { free_recovery: true, lone_samples: true, ..nothing }),
        ("conserving on", Removed { free_recovery: true, late_growth: true, ..nothing }),
        ("no HyStart", Removed { rises: true, ..nothing }),
        ("deaf", Removed { losses: true, ..nothing }),
    ];
    heading("Mbit/s, mean of 25 seeds, host tcp", "published", &causes);
    for (law, cell) in CELLS.iter().flat_map(|(law, cells)| cells.iter().map(move |cell| (*law, *cell))) {
        let spec = LawSpec::named(law).expect("a law");
        let cell = cells().into_iter().find(|known| known.id == cell).expect("a cell");
        let figure = cell.published(&spec).map_or("-".to_owned(), |figure| figure.text);
        let mut topology = cell.topology();
        topology.flows[0].host = HostKind::Tcp;
        row(&cell.id, law, &figure, &causes.map(|(_, removed)| goodput(&topology, &spec, removed)));
    }
}

/// The mean, as the published figures are means.
fn goodput(topology: &Topology, spec: &LawSpec, removed: Removed) -> f64 {
    let run = |seed| {
        let law = without(removed, rate(topology), scenario::law(topology, 0, spec, seed));
        let options = Options { seed, ..Options::default() };
        let report = scenario::run_law(topology, &options, spec.name(), &law).expect("cells run");
        report.flows[0].goodput_bps as f64 / 1e6
    };
    mean(&(1..=SEEDS).map(run).collect::<Vec<_>>())
}

fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

/// Lost acknowledgements cost nothing once data flows; what goes the same way before it is the request.
fn requests() {
    println!("loss-ack-5pct behind a request of 1 kB, {REQUESTS} seeds, Mbit/s of the whole exchange");
    println!(
        "law      published  no timeout     one of 200 ms   one of 1 s      three without and two with 200 ms"
    );
    for law in ["cubic", "bbr3"] {
        let spec = LawSpec::named(law).expect("a law");
        let cell = cells().into_iter().find(|cell| cell.id == "loss-ack-5pct").expect("a cell");
        let mut topology = cell.topology();
        topology.flows[0].host = HostKind::Tcp;
        topology.flows[0].request = Some(Bytes::kb(1));
        topology.flows[0].law = Some(spec.clone());
        let exchange = |seed| {
            let report =
                scenario::run(&topology, &Options { seed, ..Options::default() }).expect("cells run");
            let nanos = report.flows[0].exchange_ns.expect("it ends");
            report.flows[0].received_bytes as f64 * 8e3 / nanos as f64
        };
        let runs: Vec<f64> = (1..=REQUESTS).map(exchange).collect();
        let of = |least: f64, most: f64| -> Vec<f64> {
            runs.iter().copied().filter(|run| (least..most).contains(run)).collect()
        };
        let kinds = [of(400.0, f64::INFINITY), of(150.0, 400.0), of(0.0, 150.0)];
        let figure = cell.published(&spec).map_or("-".to_owned(), |figure| figure.text);
        let kind = |runs: &Vec<f64>| format!("{:4.0} ({} runs)", mean(runs), runs.len());
        println!(
            "{law:6} {figure:>11}  {:15}{:16}{:16}{:.0}",
            kind(&kinds[0]),
            kind(&kinds[1]),
            kind(&kinds[2]),
            0.6 * mean(&kinds[0]) + 0.4 * mean(&kinds[1])
        );
    }
}

/// The payload that the bottleneck carries.
fn rate(topology: &Topology) -> Rate {
    let flow = &topology.flows[0];
    scenario::payload_rate(topology.bottleneck(flow).1.rate, flow.mtu)
}

fn heading(what: &str, theirs: &str, causes: &[(&str, Removed)]) {
    let names: Vec<_> = causes.iter().map(|(name, _)| format!(" {name:>13}")).collect();
    println!("{what:37} {:6} {theirs:>9}{}", "law", names.concat());
}

fn row(name: &str, law: &str, theirs: &str, ours: &[f64]) {
    let ours: Vec<_> = ours.iter().map(|ours| format!(" {ours:13.2}")).collect();
    println!("{name:37} {law:6} {theirs:>9}{}", ours.concat());
}

/// Cells outside a fifth of the published figure.
const CELLS: &[(&str, &[&str])] = &[
    (
        "cubic",
        &["jitter-1ms-fifo", "jitter-200ms-fifo", "loss-data-10pct", "loss-both-5pct", "loss-ack-5pct"],
    ),
    (
        "bbr3",
        &[
            "loss-ack-5pct",
            "loss-both-5pct",
            "loss-data-5pct",
            "rtt-200ms",
            "jitter-1ms-fifo",
            "jitter-5ms-fifo",
            "jitter-200ms-fifo",
            "rtt-2ms-loss-0.5pct-jitter-1ms",
            "rtt-200ms-loss-0.5pct-jitter-1ms",
            "jitter-data-10ms-loss-1pct-30ms-fifo",
            "jitter-ack-10ms-loss-1pct-30ms-fifo",
            "jitter-both-10ms-loss-1pct-30ms-fifo",
        ],
    ),
];

const SEED: u64 = 1;
const SEEDS: u64 = 25;
const REQUESTS: u64 = 200;
