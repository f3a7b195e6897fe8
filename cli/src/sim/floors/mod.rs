//! `warp sim floors`: what a law must reach, and whether it does.
//!
//! Transfers are held against the oracle and against the figures published for WarpRATE, steady states
//! against numbers of their own; `rows` lists them. Every figure is the median over the seeds, on the `quic`
//! host, with the law's defaults.

pub(super) mod bound;
pub(super) mod measure;
mod response;
pub(super) mod rows;
mod steady;
mod table;

use std::cmp::Reverse;
use std::path::PathBuf;

use anyhow::Context;
use warpsim::topology::LawSpec;

use super::workers;
use rows::{RIVALS, Row};
use table::{Outcome, Runs};

/// Which rows to run, and how.
#[derive(clap::Args)]
pub struct Args {
    /// The law under test.
    #[arg(long, default_value = "warprate")]
    law: String,
    /// Only rows whose names contain one of these.
    #[arg(long, value_delimiter = ',', value_name = "PATTERN,...")]
    only: Vec<String>,
    /// Runs of each row, with the seeds 1 to N.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Beside each transfer, N paths drawn around it, of which the worst counts: rate, RTT, size, loss and
    /// jitter each between half and twice as much; path n has the seed n + 1.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "50",
          value_parser = clap::value_parser!(u64).range(1..))]
    drawn: Option<u64>,
    /// Write the topology of each row, and of the worst drawn path, into this folder.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Write the lines to this file, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A run to do.
struct Job {
    row: usize,
    path: rows::Path,
    law: LawSpec,
    kind: Kind,
    seed: u64,
}

/// What a run is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Own,
    Rival(usize),
    Drawn,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let law = super::law(&self.law)?;
        let rows = rows::chosen(&self.only)?;
        let mut jobs = self.jobs(&rows, &law)?;
        // The longest first, so that no core waits for one at the end.
        jobs.sort_by_cached_key(|job| Reverse(job.path.volume(&job.law)));
        let mut runs: Vec<_> = rows.iter().map(|_| Runs::default()).collect();
        workers::run(
            &jobs,
            |job| run_job(job, &rows[job.row]),
            |place, outcome| {
                let (job, outcome) = (&jobs[place], outcome?);
                match job.kind {
                    Kind::Own => runs[job.row].own.push(outcome),
                    Kind::Rival(n) => runs[job.row].rivals[n].push(outcome),
                    Kind::Drawn => runs[job.row].drawn.push(outcome),
                }
                Ok(())
            },
        )?;
        if let Some(dir) = &self.save {
            for (row, runs) in rows.iter().zip(&runs) {
                save(dir, &row.path, &law)?;
                if let Some(worst) = runs.worst().and_then(|worst| row.path.around(worst.seed - 1)) {
                    save(dir, &rows::Path::Cell(worst), &law)?;
                }
            }
        }
        let json = table::print(&law, &rows, &runs)?;
        self.json.as_ref().map_or(Ok(()), |file| super::write(file, &json))
    }

    fn jobs(&self, rows: &[Row], law: &LawSpec) -> anyhow::Result<Vec<Job>> {
        let rivals: Vec<_> = RIVALS.iter().map(|name| super::law(name)).collect::<Result<_, _>>()?;
        let mut jobs = Vec::new();
        for (row, asked) in rows.iter().enumerate() {
            let mut add = |path: &rows::Path, law: &LawSpec, kind, seed| {
                jobs.push(Job { row, path: path.clone(), law: law.clone(), kind, seed });
            };
            for seed in 1..=self.seeds {
                add(&asked.path, law, Kind::Own, seed);
                let others = rivals.iter().enumerate().filter(|(_, rival)| *rival != law);
                for (n, rival) in others.filter(|_| asked.needs_rivals()) {
                    add(&asked.path, rival, Kind::Rival(n), seed);
                }
            }
            let drawn = 0..self.drawn.filter(|_| asked.has_neighbours).unwrap_or(0);
            for (n, cell) in drawn.filter_map(|n| Some((n, asked.path.around(n)?))) {
                add(&rows::Path::Cell(cell), law, Kind::Drawn, n + 1);
            }
        }
        Ok(jobs)
    }
}

/// Writes a path's topology into a folder.
fn save(dir: &std::path::Path, path: &rows::Path, law: &LawSpec) -> anyhow::Result<()> {
    super::write(&dir.join(format!("{}.json", path.name())), &path.text(law))
}

fn run_job(job: &Job, row: &Row) -> anyhow::Result<Outcome> {
    let run = job.path.run(&job.law, job.seed).with_context(|| format!("row {}", row.name))?;
    Ok(Outcome {
        seed: job.seed,
        values: row.lines.iter().map(|line| line.what.of(&run)).collect(),
        oracle: run.oracle(),
        is_complete: run.is_complete(),
    })
}
