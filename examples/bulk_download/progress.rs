//! What is shown while rows run: bars on a terminal, a rare line elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use warprate::units::Bytes;

use crate::options::LawName;

/// The display of all rows.
pub enum Progress {
    Bars(Vec<ProgressBar>),
    /// `received` is `None` for rows that do not run.
    Lines {
        laws: Vec<LawName>,
        total: u64,
        received: Vec<Option<u64>>,
        started: Instant,
        next: Instant,
    },
}

impl Progress {
    /// A display on stderr of a download of `total` bytes under each of `laws`.
    pub fn new(laws: &[LawName], total: u64) -> Self {
        if std::io::stderr().is_terminal() {
            Self::Bars(bars(laws, total))
        } else {
            let now = Instant::now();
            let received = vec![None; laws.len()];
            Self::Lines { laws: laws.to_vec(), total, received, started: now, next: now + BETWEEN_LINES }
        }
    }

    /// Row `row` begins.
    pub fn begin(&mut self, row: usize) {
        match self {
            Self::Bars(bars) => {
                bars[row].reset_elapsed();
                bars[row].set_message("");
            }
            Self::Lines { received, .. } => received[row] = Some(0),
        }
    }

    /// So many bytes have arrived in row `row`.
    pub fn show(&mut self, row: usize, bytes: u64) {
        match self {
            Self::Bars(bars) => bars[row].set_position(bytes),
            Self::Lines { received, .. } => received[row] = Some(bytes),
        }
        self.print_line();
    }

    /// Row `row` has ended.
    pub fn end(&mut self, row: usize, message: &str) {
        match self {
            Self::Bars(bars) => bars[row].abandon_with_message(message.to_owned()),
            Self::Lines { laws, received, .. } => {
                received[row] = None;
                say(&format!("{}: {message}", laws[row]));
            }
        }
    }

    fn print_line(&mut self) {
        let Self::Lines { laws, total, received, started, next } = self else { return };
        let now = Instant::now();
        if now < *next {
            return;
        }
        *next = now + BETWEEN_LINES;
        let running = laws.iter().zip(received).filter_map(|(law, bytes)| Some((law, (*bytes)?)));
        let state: Vec<_> = running.map(|(law, bytes)| format!("{law} {}%", bytes * 100 / *total)).collect();
        let state = state.join(", ");
        say(&format!("after {:.0?}: {state}", now - *started));
    }
}

/// A reader that has gone away is no reason to stop.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn bars(laws: &[LawName], total: u64) -> Vec<ProgressBar> {
    let style =
        ProgressStyle::with_template(TEMPLATE).expect("the template is valid").progress_chars("█▉▊▋▌▍▎▏·");
    let all = MultiProgress::new();
    let add = |law: &LawName| {
        let bar = all.add(ProgressBar::new(total)).with_style(style.clone());
        bar.set_prefix(law.to_string());
        bar.set_message(format!("waits to download {}", Bytes::new(total)));
        bar.tick();
        bar
    };
    laws.iter().map(add).collect()
}

const TEMPLATE: &str = "{prefix:<8} {bar:30} {percent:>3}% {elapsed:>4} {msg}";

const BETWEEN_LINES: Duration = Duration::from_secs(5);
