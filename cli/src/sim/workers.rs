//! Runs on all cores, with progress.

use std::io::IsTerminal;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};

/// Does every job on some core and hands the results over as they come, with the jobs' places.
///
/// # Errors
/// The first error of `on_result`; no further job is begun after it.
pub fn run<J: Sync, R: Send>(
    jobs: &[J],
    work: impl Fn(&J) -> R + Sync,
    mut on_result: impl FnMut(usize, R) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let progress = Progress::new(jobs.len());
    thread::scope(|scope| {
        for _ in 0..cores.min(jobs.len()) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while let Some((place, job)) = take(jobs, next) {
                    if sender.send((place, work(job))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (done, (place, result)) in results.iter().enumerate() {
            if let Err(error) = on_result(place, result) {
                next.store(jobs.len(), Ordering::Relaxed);
                return Err(error);
            }
            progress.on_done(done + 1);
        }
        Ok(())
    })
}

fn take<'a, J>(jobs: &'a [J], next: &AtomicUsize) -> Option<(usize, &'a J)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(place).map(|job| (place, job))
}

/// A bar on a terminal, a line now and then elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    all: usize,
}

impl Progress {
    fn new(all: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} runs, {eta} left");
            ProgressBar::new(all as u64).with_style(style.expect("the template is valid"))
        });
        Self { bar, all }
    }

    fn on_done(&self, done: usize) {
        match &self.bar {
            Some(bar) => bar.set_position(done as u64),
            None if done == self.all || done.is_multiple_of(self.all.div_ceil(LINES)) => {
                eprintln!("{done} of {} runs", self.all);
            }
            None => {}
        }
    }
}

/// Lines of progress where there is no terminal.
const LINES: usize = 10;
