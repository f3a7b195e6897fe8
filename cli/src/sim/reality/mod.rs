//! `warp sim reality`: the simulator beside the same code on real sockets.
//!
//! One topology per row, for both: its JSON is read once and stands for the simulated world and for the
//! links of warplink's relay, with the same seed for each packet's fate.
//!
//! `quinn-bbr*` is quinn's BBR without its first PROBE_RTT: the rows that show why those of quinn's BBR
//! differ (see `docs/validation.md`).

mod figures;
mod live;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use comfy_table::Table;
use serde::Serialize;
use warpsim::laws::Made;
use warpsim::quinn_bbr::{self, Change};
use warpsim::scenario::{self, Options};
use warpsim::topology::{LawSpec, Topology};
use warpunits::Rate;

use super::{mbps, workers};
use figures::Figures;
use live::Outcome;

/// Which paths to compare on.
#[derive(clap::Args)]
pub struct Args {
    /// Rates of the link.
    #[arg(long, value_delimiter = ',', default_value = "50 Mbit/s,100 Mbit/s", value_name = "RATE,...")]
    rates: Vec<Rate>,
    /// Laws that send; `quinn-bbr*` is quinn's BBR without its first PROBE_RTT.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "warprate,fixed,quinn-bbr,quinn-bbr*",
        value_name = "LAW,..."
    )]
    laws: Vec<String>,
    /// Runs of each row on either side, with the seeds 1 to N.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=100))]
    seeds: u64,
    /// Write the rows to this file, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A law on a path.
struct Case {
    /// `None` for the changed BBR.
    law: Option<LawSpec>,
    rate: Rate,
    loss: &'static str,
    topology: Topology,
}

/// What a simulated run came to.
#[derive(Clone, Copy)]
struct Simulated {
    goodput_mbps: f64,
    random_losses: u64,
    overflow_drops: u64,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let cases = self.cases()?;
        let simulated = self.simulate(&cases)?;
        let mut rows = Vec::new();
        for (case, simulated) in cases.iter().zip(simulated) {
            eprintln!("live: {} at {}, loss {}", case.name(), case.rate, case.loss);
            // One after another: side by side they would disturb each other.
            let live = (1..=self.seeds)
                .map(|seed| live::download(&case.topology, &case.make(seed).into_law(), seed));
            rows.push(Row::new(case, &simulated, &live.collect::<anyhow::Result<Vec<_>>>()?));
        }
        println!("{}{}", self.header(), table(&rows));
        if let Some(file) = &self.json {
            super::write(file, &(serde_json::to_string_pretty(&rows)? + "\n"))?;
        }
        Ok(())
    }

    fn cases(&self) -> anyhow::Result<Vec<Case>> {
        let mut cases = Vec::new();
        for rate in &self.rates {
            ensure!(
                (LEAST..=MOST).contains(rate),
                "the relay is trusted from {LEAST} to {MOST}, not at {rate}"
            );
            for loss in LOSSES {
                for law in &self.laws {
                    let law = if law == CHANGED { None } else { Some(super::law(law)?) };
                    let topology = Topology::read("reality", &topology_text(*rate, loss))?;
                    cases.push(Case { law, rate: *rate, loss, topology });
                }
            }
        }
        Ok(cases)
    }

    /// The simulated runs of each case.
    fn simulate(&self, cases: &[Case]) -> anyhow::Result<Vec<Vec<Simulated>>> {
        let jobs: Vec<_> =
            (0..cases.len()).flat_map(|case| (1..=self.seeds).map(move |seed| (case, seed))).collect();
        let mut runs = vec![Vec::new(); cases.len()];
        workers::run(
            &jobs,
            |(case, seed)| cases[*case].simulate(*seed),
            |place, run| {
                runs[jobs[place].0].push(run?);
                Ok(())
            },
        )?;
        Ok(runs)
    }

    fn header(&self) -> String {
        format!(
            "What the link carries in 0.8 s (10 MB at 100 Mbit/s) over {RTT}, buffer 1 BDP, datagrams of 1452 bytes;\n\
             seeds 1 to {} on either side; goodput in Mbit/s, median (least to largest).\n\
             Equal: links, buffers and the fate of the n-th packet in each direction; law, core, handshake and\n\
             certificate, windows, line rate; what goodput counts from and to.\n\
             Not equal, live only: the kernel's sockets and timers, the relay's lateness, the CPU's time, receive\n\
             offload; and quinn's laws seed themselves on either side. quinn-bbr*: without its first PROBE_RTT.\n",
            self.seeds
        )
    }
}

impl Case {
    fn name(&self) -> &'static str {
        self.law.as_ref().map_or(CHANGED, LawSpec::name)
    }

    /// The law, for either side.
    fn make(&self, seed: u64) -> Made {
        match &self.law {
            Some(law) => scenario::law(&self.topology, 0, law, seed),
            None => Made::Foreign(quinn_bbr::law(Change::NoFirstProbe)),
        }
    }

    fn simulate(&self, seed: u64) -> anyhow::Result<Simulated> {
        let options = Options { seed, ..Options::default() };
        let report = scenario::run_law(&self.topology, &options, self.name(), &self.make(seed))?;
        let flow = &report.flows[0];
        ensure!(flow.is_finished, "{} under {} did not end, seed {seed}", report.topology, flow.law);
        Ok(Simulated {
            goodput_mbps: mbps(flow.goodput_bps),
            random_losses: flow.random_losses,
            overflow_drops: flow.overflow_drops,
        })
    }
}

/// A row of the table, and of the file.
#[derive(Serialize)]
struct Row {
    law: &'static str,
    rate: String,
    loss: &'static str,
    runs: usize,
    simulated_mbps_median: f64,
    simulated_mbps_min: f64,
    simulated_mbps_max: f64,
    live_mbps_median: f64,
    live_mbps_min: f64,
    live_mbps_max: f64,
    /// Half of the 95 % confidence interval of the live mean.
    live_mbps_half_width: f64,
    /// Simulated over live, medians.
    ratio: f64,
    /// How far the ratio may lie from 1.
    band: f64,
    verdict: &'static str,
    simulated_losses: u64,
    live_losses: u64,
    simulated_overflow_drops: u64,
    live_overflow_drops: u64,
    /// The worst run's.
    relay_late_ms_p99: f64,
    /// Live runs that the machine disturbed.
    disturbed: usize,
}

impl Row {
    fn new(case: &Case, simulated: &[Simulated], live: &[Outcome]) -> Self {
        let figures = |values: Vec<f64>| Figures::of(&values).expect("there is a run");
        let sim = figures(simulated.iter().map(|run| run.goodput_mbps).collect());
        let real = figures(live.iter().map(|run| run.goodput_bps / 1e6).collect());
        let late = live.iter().map(|run| run.late_p99).max().unwrap_or_default();
        Self {
            law: case.name(),
            rate: case.rate.to_string(),
            loss: case.loss,
            runs: live.len(),
            simulated_mbps_median: sim.median,
            simulated_mbps_min: sim.min,
            simulated_mbps_max: sim.max,
            live_mbps_median: real.median,
            live_mbps_min: real.min,
            live_mbps_max: real.max,
            live_mbps_half_width: real.half_width,
            ratio: sim.median / real.median,
            band: real.band(),
            verdict: real.verdict(&sim),
            simulated_losses: simulated.iter().map(|run| run.random_losses).sum(),
            live_losses: live.iter().map(|run| run.random_losses).sum(),
            simulated_overflow_drops: simulated.iter().map(|run| run.overflow_drops).sum(),
            live_overflow_drops: live.iter().map(|run| run.overflow_drops).sum(),
            relay_late_ms_p99: late.as_secs_f64() * 1e3,
            disturbed: live.iter().filter(|run| run.is_disturbed(RTT_TIME)).count(),
        }
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header([
        "law",
        "rate",
        "loss",
        "simulated",
        "live",
        "ratio",
        "allowed",
        "verdict",
        "lost sim/live",
        "overflow sim/live",
        "relay late p99",
        "disturbed",
    ]);
    let goodput = |median: f64, min: f64, max: f64| format!("{median:.2} ({min:.2} to {max:.2})");
    for row in rows {
        table.add_row([
            row.law.to_owned(),
            row.rate.clone(),
            row.loss.to_owned(),
            goodput(row.simulated_mbps_median, row.simulated_mbps_min, row.simulated_mbps_max),
            goodput(row.live_mbps_median, row.live_mbps_min, row.live_mbps_max),
            format!("{:.3}", row.ratio),
            format!("1 ± {:.3}", row.band),
            row.verdict.to_owned(),
            format!("{}/{}", row.simulated_losses, row.live_losses),
            format!("{}/{}", row.simulated_overflow_drops, row.live_overflow_drops),
            format!("{:.2} ms", row.relay_late_ms_p99),
            match row.disturbed {
                0 => "-".to_owned(),
                disturbed => format!("{disturbed} of {} runs", row.runs),
            },
        ]);
    }
    table
}

/// The links in the order in which the relay numbers them: first what clients send.
fn topology_text(rate: Rate, loss: &str) -> String {
    let bits = rate.as_bits_per_sec();
    let bytes = (rate * LENGTH).get();
    format!(
        r#"{{
    "name": "{rate}, loss {loss}",
    "links": {{
        "return": {{ "rate": "{bits} bit/s", "delay": "{ONE_WAY}", "buffer": "1 BDP" }},
        "bottleneck": {{ "rate": "{bits} bit/s", "delay": "{ONE_WAY}", "buffer": "1 BDP", "loss": "{loss}" }}
    }},
    "flows": [{{
        "bytes": "{bytes} B", "cipher": "tls", "forward": ["bottleneck"], "reverse": ["return"]
    }}]
}}"#
    )
}

/// What the link carries in this time is downloaded: 10 MB at 100 Mbit/s.
const LENGTH: Duration = Duration::from_millis(800);
const ONE_WAY: &str = "20 ms";
const RTT: &str = "RTT 40 ms";
const RTT_TIME: Duration = Duration::from_millis(40);
const CHANGED: &str = "quinn-bbr*";
const LOSSES: [&str; 2] = ["0 %", "1 %"];

/// Below it there is nothing but the start.
const LEAST: Rate = Rate::mbps(5);
/// Above it the relay's lateness says more than the path.
const MOST: Rate = Rate::mbps(200);
