//! Why quinn's BBR is slow in virtual time: as it is, with one cause after another removed, on a path as
//! late as a busy machine, and under stock quinn's own pacer.
//!
//! ```text
//! cargo run --release -p warpsim --example quinn_bbr
//! ```
#![allow(missing_docs, reason = "a program, not an interface")]

mod stock;

use warpsim::laws::Made;
use warpsim::quinn_bbr::{Change, law};
use warpsim::scenario::{self, Options};
use warpsim::topology::Topology;

/// Rate, one-way delay, loss, buffer.
const PATHS: [[&str; 4]; 6] = [
    ["50 Mbit/s", "20 ms", "0 %", "1 BDP"],
    ["100 Mbit/s", "20 ms", "0 %", "1 BDP"],
    ["100 Mbit/s", "20 ms", "1 %", "1 BDP"],
    ["1 Gbit/s", "1 ms", "0 %", "4 BDP"],
    ["1 Gbit/s", "1 ms", "1 %", "4 BDP"],
    ["1 Gbit/s", "100 ms", "0 %", "4 BDP"],
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("quinn-bbr, 10 MB, Mbit/s, median of {SEEDS} runs; rate, one-way delay, loss:");
    print!("{:<15}", "");
    for [rate, delay, loss, _] in PATHS {
        print!("{:>22}", format!("{} {} {}", rate.replace("bit/s", ""), delay, loss));
    }
    println!();
    for (name, change) in Change::ALL {
        print!("{name:<15}");
        for path in PATHS {
            print!("{:>22.1}", median(path, change)?);
        }
        println!();
    }
    print!("{:<15}", "stock's pacer");
    for path in PATHS {
        let topology = topology(path)?;
        let path = scenario::path(&topology, &topology.flows[0])?;
        let runs = (1..=SEEDS).map(|seed| stock::goodput(&path, 10_000_000, seed).unwrap_or_default());
        print!("{:>22.1}", middle(runs.collect()));
    }
    println!();
    println!(
        "\nas it is, 100 M 20 ms 0 %, both ways as late as a busy machine: Mbit/s (drops by the full queue)"
    );
    for sigma in ["0 ms", "0.5 ms", "1 ms", "2 ms"] {
        let runs = (1..=SEEDS).map(|seed| noisy(sigma, seed)).collect::<Result<Vec<_>, _>>()?;
        println!("{:<15}{}", format!("sigma {sigma}"), runs.join(" "));
    }
    Ok(())
}

/// Packets that the jitter lets arrive together are read one after another, microseconds apart.
fn noisy(sigma: &str, seed: u64) -> Result<String, Box<dyn std::error::Error>> {
    let jitter = format!(r#""jitter": {{ "sigma": "{sigma}", "order": "fifo" }}"#);
    let text = format!(
        r#"{{
            "name": "noisy",
            "links": {{
                "bottleneck": {{ "rate": "100 Mbit/s", "delay": "20 ms", "buffer": "1 BDP", {jitter} }},
                "return": {{ "rate": "100 Mbit/s", "delay": "20 ms", "buffer": "1 BDP", {jitter} }},
                "client reads": {{ "rate": "1 Gbit/s", "delay": "0 ms", "buffer": "10 MB" }},
                "server reads": {{ "rate": "100 Mbit/s", "delay": "0 ms", "buffer": "10 MB" }}
            }},
            "flows": [{{
                "law": "quinn-bbr", "bytes": "10 MB",
                "forward": ["bottleneck", "client reads"], "reverse": ["return", "server reads"]
            }}]
        }}"#
    );
    let report = scenario::run(&Topology::read("noisy", &text)?, &Options { seed, ..Options::default() })?;
    let flow = &report.flows[0];
    Ok(format!("{:.0} ({})", flow.goodput_bps as f64 / 1e6, flow.overflow_drops))
}

fn median(path: [&str; 4], change: Change) -> Result<f64, Box<dyn std::error::Error>> {
    let topology = topology(path)?;
    let mut goodputs = Vec::new();
    for seed in 1..=SEEDS {
        let options = Options { seed, ..Options::default() };
        let report = scenario::run_law(&topology, &options, "quinn-bbr", &Made::Foreign(law(change)))?;
        goodputs.push(report.flows[0].goodput_bps as f64 / 1e6);
    }
    Ok(middle(goodputs))
}

fn topology([rate, delay, loss, buffer]: [&str; 4]) -> Result<Topology, Box<dyn std::error::Error>> {
    let text = format!(
        r#"{{
            "name": "path",
            "links": {{
                "bottleneck": {{ "rate": "{rate}", "delay": "{delay}", "loss": "{loss}", "buffer": "{buffer}" }},
                "return": {{ "rate": "{rate}", "delay": "{delay}", "buffer": "{buffer}" }}
            }},
            "flows": [{{ "bytes": "10 MB", "forward": ["bottleneck"], "reverse": ["return"] }}]
        }}"#
    );
    Ok(Topology::read("path", &text)?)
}

fn middle(mut goodputs: Vec<f64>) -> f64 {
    goodputs.sort_by(f64::total_cmp);
    goodputs[goodputs.len() / 2]
}

/// Runs with quinn's BBR differ: it seeds itself.
const SEEDS: u64 = 9;
