//! A law of your own beside those of the registry, on paths of your choice.
//!
//! ```text
//! cargo run --release -p warpsim --example compare_laws
//! cargo run --release -p warpsim --example compare_laws -- loss-data-1pct my-path.json
//! ```
//! The law is [`Mine`]: change it, run again. Paths are topology files or names of presets.
#![allow(missing_docs, reason = "a program, not an interface")]

use std::error::Error;
use std::time::Instant;

use warprate::cc::{PathStart, RateLaw};
use warprate::signal::{Ack, Loss, Plan};
use warpsim::laws::Made;
use warpsim::metrics::Report;
use warpsim::published::preset;
use warpsim::scenario::{self, Options};
use warpsim::topology::{LawSpec, Topology};
use warpunits::{Bytes, Gain, Rate};

/// ```text
/// rate   += STEP    once per round trip
///        *= 7/10    on a loss, at most once per round trip
/// window  = 2 · rate · smoothed RTT
/// ```
#[derive(Debug, Clone)]
struct Mine {
    rate: Rate,
    window: Bytes,
    /// Losses of packets sent before this have been answered.
    answered: Instant,
}

impl Mine {
    fn new(start: PathStart) -> Self {
        Self { rate: FIRST_RATE, window: start.datagram.times(10), answered: start.now }
    }
}

impl RateLaw for Mine {
    fn on_ack(&mut self, ack: &Ack) {
        if ack.round_start {
            self.rate = self.rate + STEP;
        }
        self.window = (self.rate * ack.rtt.smoothed).times(2).max(LEAST_WINDOW);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        if loss.packets.iter().any(|packet| packet.sent >= self.answered) {
            self.rate = (self.rate * DECREASE).max(FIRST_RATE);
            self.answered = loss.now;
        }
    }

    fn plan(&self, _now: Instant) -> Plan {
        Plan::new(self.rate, self.window)
    }

    fn state(&self) -> &'static str {
        "mine"
    }
}

const FIRST_RATE: Rate = Rate::mbps(2);
const STEP: Rate = Rate::mbps(1);
const DECREASE: Gain = Gain::ratio(7, 10);
const LEAST_WINDOW: Bytes = Bytes::kb(32);

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths: Vec<_> = std::env::args().skip(1).collect();
    if paths.is_empty() {
        paths = PATHS.map(str::to_owned).into();
    }
    println!("medians of {SEEDS} seeds, first flow\n");
    println!(
        "{:<18}{:<10}{:>8}{:>8}{:>10}{:>10}",
        "path", "law", "Mbit/s", "oracle", "queue ms", "resent kB"
    );
    for path in paths {
        let text = preset(&path).map_or_else(|| std::fs::read_to_string(&path), Ok)?;
        let topology = Topology::read(&path, &text)?;
        show(&topology, "mine", |topology, options| {
            scenario::run_law(topology, options, "mine", &Made::own(Mine::new))
        })?;
        for rival in RIVALS {
            show(&topology, rival, |topology, options| {
                scenario::run(topology, &Options { law: LawSpec::named(rival), ..options.clone() })
            })?;
        }
    }
    Ok(())
}

fn show<E: Error + 'static>(
    topology: &Topology,
    law: &str,
    run: impl Fn(&Topology, &Options) -> Result<Report, E>,
) -> Result<(), Box<dyn Error>> {
    let runs = (1..=SEEDS).map(|seed| run(topology, &Options { seed, ..Options::default() }));
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    let median = |figure: fn(&Report) -> f64| {
        let mut figures: Vec<_> = runs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    println!(
        "{:<18}{law:<10}{:>8.2}{:>8.2}{:>10.2}{:>10.0}",
        topology.name,
        median(|run| run.flows[0].goodput_bps as f64 / 1e6),
        median(|run| run.flows[0].oracle_bps.unwrap_or_default() as f64 / 1e6),
        median(|run| run.links[0].queue_mean_ns as f64 / 1e6),
        median(|run| run.flows[0].retransmitted_bytes as f64 / 1e3),
    );
    Ok(())
}

const PATHS: [&str; 3] =
    ["docs/topologies/fibre.json", "docs/topologies/radio.json", "docs/topologies/shared.json"];
const RIVALS: [&str; 3] = ["cubic", "newreno", "bbr3"];
const SEEDS: u64 = 5;
