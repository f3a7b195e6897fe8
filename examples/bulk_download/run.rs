//! From the command line to the exit status.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

use crate::hq;
use crate::options::{Options, Task};
use crate::pattern::Pattern;
use crate::plan;
use crate::progress::Progress;
use crate::report::{self, JsonFile, Report};
use crate::row::{Job, Outcome};
use crate::tls::Tls;

pub fn main() -> ExitCode {
    let done = match Task::from_command_line() {
        Task::Compare(options) => run(&options),
        Task::Files(command) => hq::run(command).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all rows and reports; whether every row succeeded.
fn run(options: &Options) -> anyhow::Result<bool> {
    let json = options.json.as_deref().map(JsonFile::open).transpose()?;
    let path = options.path()?;
    let oracle = plan::oracle_speed(options.bytes, &path, options.seed);
    print(&format!("{}\n", report::header(options, oracle)))?;

    let jobs = jobs(options)?;
    let mut progress = Progress::new(&options.law, options.bytes.get());
    let mut results: Vec<Option<anyhow::Result<Outcome>>> = jobs.iter().map(|_| None).collect();
    for group in plan::groups(&options.law, &path) {
        let rows = group.into_iter().map(|row| (row, jobs[row].clone())).collect();
        for (row, result) in run_group(rows, &mut progress)? {
            results[row] = Some(result);
        }
    }
    let reports: Vec<_> = options
        .law
        .iter()
        .zip(results)
        .map(|(law, result)| Report { law: *law, result: result.expect("every row is in a group") })
        .collect();
    print(&format!("{}\n{}", report::table(&reports, oracle), report::bars(&reports, oracle)))?;
    if let Some(json) = json {
        json.write(&reports, oracle)?;
    }
    Ok(reports.iter().all(|report| report.result.is_ok()))
}

fn jobs(options: &Options) -> anyhow::Result<Vec<Job>> {
    let path = options.path()?;
    let (tls, pattern) = (Tls::new()?, Pattern::new());
    let deadline = plan::deadline(options.bytes, &path);
    let job = |law| Job {
        law,
        bytes: options.bytes.get(),
        path: path.clone(),
        seed: options.seed,
        tls: tls.clone(),
        pattern: pattern.clone(),
        deadline,
        received: Arc::new(AtomicU64::new(0)),
    };
    Ok(options.law.iter().copied().map(job).collect())
}

/// A row that runs.
struct Running {
    row: usize,
    received: Arc<AtomicU64>,
    /// When it must have ended by itself.
    overdue: Instant,
    thread: JoinHandle<anyhow::Result<Outcome>>,
}

/// Runs rows side by side, each on a thread of its own.
fn run_group(
    jobs: Vec<(usize, Job)>,
    progress: &mut Progress,
) -> anyhow::Result<Vec<(usize, anyhow::Result<Outcome>)>> {
    let mut running = Vec::new();
    for (row, job) in jobs {
        progress.begin(row);
        running.push(start(row, job)?);
    }
    let mut results = Vec::new();
    while !running.is_empty() {
        std::thread::sleep(BETWEEN_LOOKS);
        for ended in running.extract_if(.., |running| running.is_over()) {
            let row = ended.row;
            progress.show(row, ended.received.load(Ordering::Relaxed));
            let result = ended.result();
            progress.end(row, &summary(&result));
            results.push((row, result));
        }
        for Running { row, received, .. } in &running {
            progress.show(*row, received.load(Ordering::Relaxed));
        }
    }
    Ok(results)
}

fn start(row: usize, job: Job) -> anyhow::Result<Running> {
    let received = job.received.clone();
    let overdue = Instant::now() + job.deadline.min(A_YEAR) + LAST_PATIENCE;
    let thread = std::thread::Builder::new()
        .name(job.law.to_string())
        .spawn(move || job.run())
        .context("cannot start a row's thread")?;
    Ok(Running { row, received, overdue, thread })
}

impl Running {
    fn is_over(&self) -> bool {
        self.thread.is_finished() || Instant::now() > self.overdue
    }

    /// A thread that does not end is left to the end of the process.
    fn result(self) -> anyhow::Result<Outcome> {
        if !self.thread.is_finished() {
            return Err(anyhow!("its thread hangs"));
        }
        self.thread.join().unwrap_or_else(|_| Err(anyhow!("its thread panicked")))
    }
}

fn summary(result: &anyhow::Result<Outcome>) -> String {
    match result {
        Ok(outcome) => format!("{:.2} Mbit/s in {:.2?}", outcome.goodput.as_mbps_f64(), outcome.time),
        Err(error) => format!("failed: {error:#}"),
    }
}

/// Unlike `println!`, no panic when the reader has gone away.
fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("cannot write to stdout")
}

/// Rows are looked at this often; it costs next to nothing.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Between a row's own deadline and giving up its thread.
const LAST_PATIENCE: Duration = Duration::from_secs(10);

/// Far enough for a deadline, and near enough for `Instant` to hold it.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
