//! `warp sim ack-ratio`: CUBIC acknowledged on every packet beside CUBIC acknowledged on every n-th.

use std::path::PathBuf;

use comfy_table::Table;
use serde::Serialize;
use warprate::cc::cubic::Increase;
use warpsim::ack_ratio::{Setting, mean_and_deviation, settings};
use warpsim::topology::text::Buffer;

use super::workers;

/// How often to run it.
#[derive(clap::Args)]
pub struct Args {
    /// Runs per row, with the seeds 1 to N, each with the two starts either way.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// No jitter of acknowledgements: phase effects of the full queue included.
    #[arg(long)]
    no_jitter: bool,
    /// Write the shares to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A row of the results file.
#[derive(Serialize)]
struct Row {
    buffer: String,
    every: u32,
    increase: &'static str,
    has_jitter: bool,
    share_mean: f64,
    share_deviation: f64,
    /// By seed.
    shares: Vec<f64>,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let settings: Vec<_> = settings()
            .into_iter()
            .map(|setting| Setting { has_jitter: !self.no_jitter, ..setting })
            .collect();
        let jobs: Vec<_> =
            settings.iter().flat_map(|setting| (1..=self.seeds).map(move |seed| (*setting, seed))).collect();
        let mut shares = vec![0.0; jobs.len()];
        workers::run(
            &jobs,
            |(setting, seed)| setting.run(*seed),
            |place, share| {
                shares[place] = share?;
                Ok(())
            },
        )?;
        let per_row = shares.chunks(shares.len() / settings.len());
        let rows: Vec<_> =
            settings.iter().zip(per_row).map(|(setting, shares)| row(setting, shares)).collect();
        print(&rows, self.seeds);
        if let Some(file) = &self.json {
            super::write(file, &(serde_json::to_string_pretty(&rows)? + "\n"))?;
        }
        Ok(())
    }
}

fn row(setting: &Setting, shares: &[f64]) -> Row {
    let (share_mean, share_deviation) = mean_and_deviation(shares);
    Row {
        buffer: Buffer::Bdp(setting.buffer).to_string(),
        every: setting.every,
        increase: match setting.increase {
            Increase::PerByte => "per byte",
            Increase::Literal => "literal",
        },
        has_jitter: setting.has_jitter,
        share_mean,
        share_deviation,
        shares: shares.to_vec(),
    }
}

fn print(rows: &[Row], seeds: u64) {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header([
        "increase",
        "buffer",
        "ACK every",
        "share %",
        "± of a seed",
        "± of the mean",
    ]);
    for row in rows {
        table.add_row([
            row.increase.to_owned(),
            row.buffer.clone(),
            row.every.to_string(),
            format!("{:.1}", row.share_mean * 100.0),
            format!("{:.1}", row.share_deviation * 100.0),
            format!("{:.1}", row.share_deviation * 100.0 / (seeds as f64).sqrt()),
        ]);
    }
    println!("share of the flow that is acknowledged on every n-th packet; {seeds} seeds\n{table}");
}
