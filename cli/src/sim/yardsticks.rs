//! `warp sim yardsticks`: our laws beside the limits that others set for theirs.

use std::path::PathBuf;

use comfy_table::Table;
use serde::Serialize;
use warpsim::published::WRITTEN;
use warpsim::topology::{Topology, Yardstick};
use warpsim::yardstick::{Reading, measure};

use super::workers;

/// Which yardsticks, and how.
#[derive(clap::Args)]
pub struct Args {
    /// Only these presets; an asterisk at the end stands for any end.
    #[arg(value_name = "PRESET")]
    presets: Vec<String>,
    /// Runs of each, with the seeds 1 to N; the worst counts.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// Write the readings to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A yardstick under one seed.
struct Job<'a> {
    topology: &'a Topology,
    yardstick: &'a Yardstick,
    seed: u64,
}

/// A yardstick with its worst reading.
#[derive(Serialize)]
struct Row {
    scenario: String,
    law: &'static str,
    what: &'static str,
    unit: &'static str,
    limit: f64,
    ours: f64,
    is_met: bool,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let topologies = self.chosen()?;
        let jobs: Vec<Job<'_>> = topologies
            .iter()
            .flat_map(|topology| topology.yardsticks.iter().map(move |yardstick| (topology, yardstick)))
            .flat_map(|(topology, yardstick)| {
                (1..=self.seeds.max(1)).map(move |seed| Job { topology, yardstick, seed })
            })
            .collect();
        let mut readings: Vec<Option<Reading>> = vec![None; jobs.len()];
        workers::run(
            &jobs,
            |job| measure(job.topology, job.yardstick, job.seed),
            |place, reading| {
                readings[place] = Some(reading?);
                Ok(())
            },
        )?;
        let rows: Vec<Row> = jobs
            .iter()
            .zip(readings.into_iter().flatten())
            .collect::<Vec<_>>()
            .chunks(usize::try_from(self.seeds.max(1))?)
            .map(worst)
            .collect();
        print(&rows);
        if let Some(file) = &self.json {
            super::write(file, &(serde_json::to_string_pretty(&rows)? + "\n"))?;
        }
        Ok(())
    }

    fn chosen(&self) -> anyhow::Result<Vec<Topology>> {
        let is_asked = |name: &str| {
            self.presets.is_empty()
                || self.presets.iter().any(|asked| match asked.strip_suffix('*') {
                    Some(start) => name.starts_with(start),
                    None => name == asked,
                })
        };
        let chosen = WRITTEN.iter().filter(|(name, _)| is_asked(name));
        let topologies: Vec<Topology> =
            chosen.map(|(name, text)| Topology::read(name, text)).collect::<Result<_, _>>()?;
        anyhow::ensure!(
            topologies.iter().any(|topology| !topology.yardsticks.is_empty()),
            "no preset of this name has yardsticks; `warp sim list` names the presets"
        );
        Ok(topologies)
    }
}

/// The worst of the readings of one yardstick.
fn worst(runs: &[(&Job<'_>, Reading)]) -> Row {
    let (job, first) = &runs[0];
    let ours = runs.iter().map(|(_, reading)| reading.ours).fold(f64::NEG_INFINITY, f64::max);
    let reading = Reading { ours, ..*first };
    let what = match job.yardstick {
        Yardstick { rtt: Some(_), .. } => "smoothed RTT",
        Yardstick { startup: Some(_), .. } => "error of startup's bandwidth",
        Yardstick { since, .. } if since.is_zero() => "done",
        _ => "done after the change",
    };
    Row {
        scenario: job.topology.name.clone(),
        law: job.yardstick.law.name(),
        what,
        unit: reading.unit,
        limit: reading.limit,
        ours,
        is_met: reading.is_met(),
    }
}

fn print(rows: &[Row]) {
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::NOTHING)
        .set_header(["scenario", "law", "what", "limit", "ours", "of limit", ""]);
    for row in rows {
        table.add_row([
            row.scenario.clone(),
            row.law.to_owned(),
            row.what.to_owned(),
            format!("{} {}", row.limit, row.unit),
            format!("{:.3} {}", row.ours, row.unit),
            format!("{:.3}", row.ours / row.limit),
            (if row.is_met { "met" } else { "MISSED" }).to_owned(),
        ]);
    }
    let met = rows.iter().filter(|row| row.is_met).count();
    println!("{table}");
    println!("{met} of {} limits met, {:.0} %", rows.len(), 100.0 * met as f64 / rows.len() as f64);
}
