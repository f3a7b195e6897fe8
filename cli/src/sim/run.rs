//! `warp sim run`: one topology, one seed.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use comfy_table::Table;
use warpsim::metrics::{FlowReport, LinkReport, Report};
use warpsim::scenario::{self, Options, QlogFiles};
use warpsim::trace;

use super::mbps;

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    /// A topology file, or the name of a preset.
    file: PathBuf,
    /// Seeds every random draw.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Law of every flow, in the place of the file's.
    #[arg(long)]
    law: Option<String>,
    /// Write the trace to this file, as JSON Lines.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Write a qlog of each end of each QUIC flow into this folder, as qvis reads them.
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    /// Write the report to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let topology = super::read(&self.file)?;
        let law = self.law.as_deref().map(super::law).transpose()?;
        let qlog = self.qlog.clone().map(qlog_files).transpose()?;
        let sample_every = Some(SAMPLE_EVERY);
        let options = Options { seed: self.seed, law, sample_every, qlog, ..Options::default() };
        let report = match &self.trace {
            None => scenario::run(&topology, &options)?,
            Some(file) => {
                let out = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
                trace::run(&topology, &options, Box::new(BufWriter::new(out)))?
            }
        };
        print(&report);
        if let Some(file) = &self.json {
            super::write(file, &(serde_json::to_string_pretty(&report)? + "\n"))?;
        }
        Ok(())
    }
}

/// Files in `dir`, which is made if need be.
fn qlog_files(dir: PathBuf) -> anyhow::Result<QlogFiles> {
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make the folder {}", dir.display()))?;
    Ok(QlogFiles::new(move |name| {
        let file = File::create(dir.join(name).with_extension("sqlog"))?;
        Ok(Box::new(BufWriter::new(file)))
    }))
}

fn print(report: &Report) {
    println!(
        "{}, seed {}, {:.3} s simulated, Jain {:.3}",
        report.topology,
        report.seed,
        report.ended_ns as f64 / 1e9,
        report.jain
    );
    println!("{}\n\n{}", flow_table(&report.flows), link_table(&report.links));
}

fn flow_table(reports: &[FlowReport]) -> Table {
    let mut flows = Table::new();
    flows.load_style(comfy_table::presets::NOTHING).set_header([
        "flow",
        "law",
        "host",
        "Mbit/s",
        "oracle",
        "ratio",
        "connect ms",
        "exchange ms",
        "MB",
        "packets",
        "lost",
        "overflow",
        "spurious B",
        "state",
    ]);
    for flow in reports {
        let oracle = flow.oracle_bps;
        let ratio = oracle.map_or(0.0, |oracle| flow.goodput_bps as f64 / oracle as f64);
        flows.add_row([
            flow.name.clone(),
            flow.law.clone(),
            flow.host.clone(),
            format!("{:.1}", mbps(flow.goodput_bps)),
            oracle.map_or("-".into(), |oracle| format!("{:.1}", mbps(oracle))),
            oracle.map_or("-".into(), |_| format!("{ratio:.3}")),
            millis(flow.connect_ns),
            millis(flow.exchange_ns),
            format!("{:.2}", flow.received_bytes as f64 / 1e6),
            flow.sent_packets.to_string(),
            flow.random_losses.to_string(),
            flow.overflow_drops.to_string(),
            flow.spurious_bytes.to_string(),
            if flow.is_finished {
                "finished"
            } else if flow.has_failed {
                "failed"
            } else {
                "running"
            }
            .to_owned(),
        ]);
    }
    flows
}

/// Milliseconds, where there are any.
fn millis(nanos: Option<u64>) -> String {
    nanos.map_or("-".into(), |ns| format!("{:.2}", ns as f64 / 1e6))
}

fn link_table(reports: &[LinkReport]) -> Table {
    let mut links = Table::new();
    links
        .load_style(comfy_table::presets::NOTHING)
        .set_header(["link", "used", "queue ms", "p50", "p95", "p99", "most kB", "overflow", "lost", "J_S"]);
    let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
    for link in reports {
        links.add_row([
            link.name.clone(),
            format!("{:.1} %", link.utilisation * 100.0),
            ms(link.queue_mean_ns),
            ms(link.queue_p50_ns),
            ms(link.queue_p95_ns),
            ms(link.queue_p99_ns),
            format!("{:.1}", link.queue_most_bytes as f64 / 1e3),
            link.overflow_drops.to_string(),
            link.random_losses.to_string(),
            format!("{:.1}", link.jitter_per_packet),
        ]);
    }
    links
}

const SAMPLE_EVERY: Duration = Duration::from_millis(100);
