//! `warp sim published`: every cell of the reference grid for each law at hand.

use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use comfy_table::Table;
use serde::Serialize;
use warpsim::laws;
use warpsim::published::{Cell, cells};
use warpsim::scenario::{self, Options};
use warpsim::topology::{HostKind, LawSpec, Topology};

use warpunits::Bytes;

use super::state::{Outcome, State};
use super::{mbps, median, workers};

/// Which cells to run, and how.
#[derive(clap::Args)]
pub struct Args {
    /// Only these cells; an asterisk at the end stands for any end.
    #[arg(long, value_delimiter = ',')]
    cells: Vec<String>,
    /// Only these laws.
    #[arg(long, value_delimiter = ',')]
    laws: Vec<String>,
    /// Only these kinds of hosts.
    #[arg(long, value_delimiter = ',', default_value = "quic")]
    hosts: Vec<String>,
    /// Runs per cell and law, with the seeds 1 to N.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// One seed, and no transfer above 100 MB.
    #[arg(long)]
    quick: bool,
    /// Write the results to this file; finished runs are kept beside it.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Do all runs again.
    #[arg(long)]
    fresh: bool,
    /// Instead of the cells themselves, N paths around each: rate, RTT, loss and jitter between half
    /// and twice as much.
    #[arg(long, value_name = "N")]
    around: Option<u64>,
    /// Seeds the paths around the cells.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A cell under a law, with all its runs.
struct Row {
    cell: Cell,
    law: LawSpec,
    host: HostKind,
    jobs: Vec<usize>,
}

/// A run.
struct Job {
    text: String,
    law: LawSpec,
    host: HostKind,
    seed: u64,
    key: String,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let cells = self.chosen_cells()?;
        let laws = self.chosen_laws()?;
        let hosts = self.chosen_hosts()?;
        let mut state = State::open(self.json.as_deref(), self.fresh)?;
        let (rows, jobs) = self.plan(&cells, &laws, &hosts, &state);
        let outcomes = run_all(&jobs, &mut state)?;
        let json = if self.around.is_some() {
            around_table(&rows, &jobs, &outcomes)?
        } else {
            table(&rows, &outcomes)?
        };
        if let Some(file) = &self.json {
            super::write(file, &json)?;
        }
        Ok(())
    }

    fn chosen_cells(&self) -> anyhow::Result<Vec<Cell>> {
        let all = cells();
        let matches = |cell: &Cell, name: &str| match name.strip_suffix('*') {
            Some(start) => cell.id.starts_with(start),
            None => cell.id == name,
        };
        if let Some(unknown) = self.cells.iter().find(|name| !all.iter().any(|cell| matches(cell, name))) {
            bail!("no cell is called `{unknown}`; `warp sim list` names them");
        }
        let is_asked =
            |cell: &Cell| self.cells.is_empty() || self.cells.iter().any(|name| matches(cell, name));
        let is_short = |cell: &Cell| !self.quick || cell.bytes <= QUICK_BYTES;
        Ok(all.into_iter().filter(|cell| is_asked(cell) && is_short(cell)).collect())
    }

    fn chosen_laws(&self) -> anyhow::Result<Vec<LawSpec>> {
        let all = || laws::ALL.iter().map(|law| law.name.to_owned()).collect();
        let names: Vec<String> = if self.laws.is_empty() { all() } else { self.laws.clone() };
        names.iter().map(|name| super::law(name)).collect()
    }

    fn chosen_hosts(&self) -> anyhow::Result<Vec<HostKind>> {
        let kinds = [HostKind::Quic, HostKind::Bare, HostKind::Tcp];
        let find = |name: &String| kinds.into_iter().find(|kind| kind.name() == name);
        let unknown = |name| anyhow!("no host that runs laws is called `{name}`; there are: quic, bare, tcp");
        self.hosts.iter().map(|name| find(name).ok_or_else(|| unknown(name))).collect()
    }

    fn plan(
        &self,
        cells: &[Cell],
        laws: &[LawSpec],
        hosts: &[HostKind],
        state: &State,
    ) -> (Vec<Row>, Vec<Job>) {
        let (mut rows, mut jobs) = (Vec::new(), Vec::new());
        let seeds = if self.quick { 1 } else { self.seeds };
        let runs_on = |law: &LawSpec, host: HostKind| {
            host == HostKind::Quic || !laws::find(law.name()).is_some_and(laws::Entry::is_foreign)
        };
        for cell in cells {
            let variants = laws.iter().flat_map(|law| hosts.iter().map(move |host| (law, *host)));
            for (law, host) in variants.filter(|(law, host)| runs_on(law, *host)) {
                let runs: Vec<(String, u64)> = match self.around {
                    Some(paths) => (0..paths).map(|n| (cell.around(self.seed, n).to_json(), n + 1)).collect(),
                    None => (1..=seeds).map(|seed| (cell.to_json(), seed)).collect(),
                };
                let first = jobs.len();
                jobs.extend(runs.into_iter().map(|(text, seed)| {
                    let key = state.key(&text, &format!("{law} on {}", host.name()), seed);
                    Job { text, law: law.clone(), host, seed, key }
                }));
                let jobs = (first..jobs.len()).collect();
                rows.push(Row { cell: cell.clone(), law: law.clone(), host, jobs });
            }
        }
        (rows, jobs)
    }
}

/// Does the jobs that were not done before.
fn run_all(jobs: &[Job], state: &mut State) -> anyhow::Result<Vec<Outcome>> {
    let mut outcomes: Vec<_> = jobs.iter().map(|job| state.get(&job.key).cloned()).collect();
    let mut missing: Vec<usize> = (0..jobs.len()).filter(|place| outcomes[*place].is_none()).collect();
    if missing.len() < jobs.len() {
        eprintln!("{} of {} runs were done before", jobs.len() - missing.len(), jobs.len());
    }
    // The longest first, so that no core waits for one at the end.
    missing.sort_by_key(|place| std::cmp::Reverse(transfer_bytes(&jobs[*place])));
    workers::run(
        &missing,
        |place| run_job(&jobs[*place]),
        |index, outcome| {
            let (place, outcome) = (missing[index], outcome?);
            state.put(jobs[place].key.clone(), outcome.clone())?;
            outcomes[place] = Some(outcome);
            Ok(())
        },
    )?;
    outcomes.into_iter().collect::<Option<_>>().context("a run is missing: a worker died")
}

fn transfer_bytes(job: &Job) -> u64 {
    let topology = Topology::read("cell", &job.text);
    topology.ok().and_then(|topology| topology.flows[0].bytes).map_or(0, Bytes::get)
}

fn run_job(job: &Job) -> anyhow::Result<Outcome> {
    let mut topology = Topology::read("cell", &job.text)?;
    topology.flows[0].host = job.host;
    let options = Options { seed: job.seed, law: Some(job.law.clone()), ..Options::default() };
    let report = scenario::run(&topology, &options)?;
    let (flow, link) = (&report.flows[0], &report.links[0]);
    Ok(Outcome {
        goodput_bps: flow.goodput_bps,
        oracle_bps: flow.oracle_bps.unwrap_or_default(),
        is_finished: flow.is_finished,
        queue_mean_ns: link.queue_mean_ns,
        retransmitted_bytes: flow.retransmitted_bytes,
        early_drops_bytes: flow.early_drops_bytes,
        jitter_per_packet: link.jitter_per_packet,
    })
}

/// A row of the results file.
#[derive(Serialize)]
struct JsonRow {
    cell: String,
    law: &'static str,
    host: &'static str,
    goodput_mbps_median: f64,
    goodput_mbps_min: f64,
    oracle_mbps: f64,
    published_mbps: Option<f64>,
    /// As published, where it is a bound or a range.
    published: Option<String>,
    ratio_to_oracle: f64,
    seeds: usize,
    unfinished: usize,
    queue_ms_mean: f64,
    retransmitted_bytes: u64,
    early_drops_bytes: u64,
    jitter_per_packet: f64,
    flags: Vec<String>,
}

fn table(rows: &[Row], outcomes: &[Outcome]) -> anyhow::Result<String> {
    let rows: Vec<_> = rows.iter().map(|row| json_row(row, outcomes)).collect();
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header([
        "cell",
        "law",
        "host",
        "median",
        "min",
        "oracle",
        "ratio",
        "published",
        "queue ms",
        "early kB",
        "flags",
    ]);
    for row in &rows {
        let mut flags = row.flags.join(" ");
        if row.unfinished > 0 {
            flags += &format!(" unfinished {}/{}", row.unfinished, row.seeds);
        }
        table.add_row([
            row.cell.clone(),
            row.law.to_owned(),
            row.host.to_owned(),
            format!("{:.1}", row.goodput_mbps_median),
            format!("{:.1}", row.goodput_mbps_min),
            format!("{:.1}", row.oracle_mbps),
            format!("{:.3}", row.ratio_to_oracle),
            row.published.clone().unwrap_or_else(|| "-".into()),
            format!("{:.2}", row.queue_ms_mean),
            format!("{:.0}", row.early_drops_bytes as f64 / 1e3),
            flags,
        ]);
    }
    println!("Mbit/s of goodput; published beside quinn-bbr (BBRv1) is BBRv3's figure.\n{table}");
    Ok(serde_json::to_string_pretty(&rows)? + "\n")
}

fn json_row(row: &Row, outcomes: &[Outcome]) -> JsonRow {
    let runs: Vec<_> = row.jobs.iter().map(|place| &outcomes[*place]).collect();
    let goodputs: Vec<_> = runs.iter().map(|run| mbps(run.goodput_bps)).collect();
    let figure = row.cell.published(&row.law);
    JsonRow {
        cell: row.cell.id.clone(),
        law: row.law.name(),
        host: row.host.name(),
        goodput_mbps_median: median(goodputs.clone()),
        goodput_mbps_min: goodputs.iter().copied().fold(f64::INFINITY, f64::min),
        oracle_mbps: median(runs.iter().map(|run| mbps(run.oracle_bps)).collect()),
        published_mbps: figure.as_ref().and_then(|figure| figure.mbps),
        published: figure.map(|figure| figure.text),
        ratio_to_oracle: median(runs.iter().map(|run| run.ratio()).collect()),
        seeds: runs.len(),
        unfinished: runs.iter().filter(|run| !run.is_finished).count(),
        queue_ms_mean: median(runs.iter().map(|run| run.queue_mean_ns as f64 / 1e6).collect()),
        retransmitted_bytes: runs.iter().map(|run| run.retransmitted_bytes).max().unwrap_or_default(),
        early_drops_bytes: runs.iter().map(|run| run.early_drops_bytes).max().unwrap_or_default(),
        jitter_per_packet: runs.first().map_or(0.0, |run| run.jitter_per_packet),
        flags: row.cell.flags(),
    }
}

/// A row of the results around the cells.
#[derive(Serialize)]
struct AroundRow {
    cell: String,
    law: &'static str,
    host: &'static str,
    paths: usize,
    ratio_median: f64,
    ratio_worst: f64,
    /// The path of the worst ratio, as a topology.
    worst: serde_json::Value,
    worst_seed: u64,
}

fn around_table(rows: &[Row], jobs: &[Job], outcomes: &[Outcome]) -> anyhow::Result<String> {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header([
        "around",
        "law",
        "host",
        "paths",
        "median ratio",
        "worst ratio",
        "worst path",
    ]);
    let mut json = Vec::new();
    for row in rows {
        let by_ratio = |a: &&usize, b: &&usize| outcomes[**a].ratio().total_cmp(&outcomes[**b].ratio());
        let worst = *row.jobs.iter().min_by(by_ratio).context("--around 0 draws no path")?;
        let path: serde_json::Value = serde_json::from_str(&jobs[worst].text)?;
        let median = median(row.jobs.iter().map(|place| outcomes[*place].ratio()).collect());
        table.add_row([
            row.cell.id.clone(),
            row.law.to_string(),
            row.host.name().to_owned(),
            row.jobs.len().to_string(),
            format!("{median:.3}"),
            format!("{:.3}", outcomes[worst].ratio()),
            path["about"].as_str().unwrap_or_default().to_owned(),
        ]);
        json.push(AroundRow {
            cell: row.cell.id.clone(),
            law: row.law.name(),
            host: row.host.name(),
            paths: row.jobs.len(),
            ratio_median: median,
            ratio_worst: outcomes[worst].ratio(),
            worst: path,
            worst_seed: jobs[worst].seed,
        });
    }
    println!("goodput over the oracle's\n{table}");
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}

const QUICK_BYTES: Bytes = Bytes::mb(100);
