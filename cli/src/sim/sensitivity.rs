//! `warp sim sensitivity`: how flat is the place that WarpRATE's numbers stand at?
//!
//! Each number of the table is turned to 0.7 and to 1.3 of its value, counts away from it, and the floors' rows
//! are run again. A figure moves by what it gets worse, in percent
//!
//! - of the figure by the law's own numbers where more is better: goodput, utilisation, Jain, shares;
//! - of the floor where less is better: queues, drops, repeats, times. Such a figure may be next to nothing, and
//!   many times nothing is no harm; what the floor allows is the measure of harm.
//!
//! Figures without a floor are not looked at. Before all, the law's own numbers meet other seeds: what chance
//! moves by itself.

use std::path::PathBuf;

use anyhow::{Context, bail};
use comfy_table::Table;
use serde::Serialize;
use warprate::cc::warprate::{Number, Tuning};
use warpunits::{Bytes, Gain};

use super::floors::bound::Bound;
use super::floors::rows::{Line, Row, chosen};
use super::{median, workers};

/// What to turn, and what to look at.
#[derive(clap::Args)]
pub struct Args {
    /// Only rows whose names contain one of these.
    #[arg(long, value_delimiter = ',', value_name = "PATTERN,...")]
    only: Vec<String>,
    /// Runs of each row, with the seeds 1 to N.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Only these numbers of the table.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    constants: Vec<String>,
    /// Write every figure to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One number turned one way.
struct Variant {
    constant: &'static str,
    from: String,
    to: String,
    tuning: Tuning,
    first_seed: u64,
}

struct Job {
    variant: usize,
    row: usize,
    seed: u64,
}

/// What became of a variant.
#[derive(Serialize)]
struct Shown {
    constant: &'static str,
    from: String,
    to: String,
    figures: Vec<Moved>,
}

/// A figure by the law's own numbers, and by others.
#[derive(Serialize)]
struct Moved {
    row: String,
    what: &'static str,
    own: f64,
    turned: f64,
    /// In percent; negative where it is better.
    worse: f64,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let mut rows = chosen(&self.only)?;
        rows.iter_mut().for_each(|row| row.lines.retain(|line| !line.floors.is_empty()));
        rows.retain(|row| !row.lines.is_empty());
        let variants = self.variants()?;
        let jobs: Vec<_> = (0..variants.len())
            .flat_map(|variant| (0..rows.len()).map(move |row| (variant, row)))
            .flat_map(|(variant, row)| (0..self.seeds).map(move |seed| Job { variant, row, seed }))
            .collect();
        // By variant, row, line and seed.
        let mut figures: Vec<Vec<Vec<Vec<f64>>>> = variants
            .iter()
            .map(|_| rows.iter().map(|row| vec![Vec::new(); row.lines.len()]).collect())
            .collect();
        workers::run(
            &jobs,
            |job| run_job(&rows[job.row], &variants[job.variant], job.seed),
            |place, values| {
                let job = &jobs[place];
                let lines = figures[job.variant][job.row].iter_mut();
                lines.zip(values?).for_each(|(line, value)| line.push(value));
                Ok(())
            },
        )?;
        let medians: Vec<Vec<Vec<f64>>> = figures
            .into_iter()
            .map(|rows| rows.into_iter().map(|lines| lines.into_iter().map(median).collect()).collect())
            .collect();
        let shown: Vec<_> = variants
            .into_iter()
            .zip(&medians)
            .skip(1)
            .map(|(variant, turned)| variant.shown(&rows, &medians[0], turned))
            .collect();
        print(&shown, self.seeds);
        if let Some(file) = &self.json {
            super::write(file, &(serde_json::to_string_pretty(&shown)? + "\n"))?;
        }
        let moving = shown.iter().filter(|shown| shown.constant != OTHER_SEEDS && shown.moved() > 0).count();
        if moving > 0 {
            bail!("{moving} of {} turns move a figure by more than {MOST} %", shown.len() - 1);
        }
        Ok(())
    }

    /// The law itself twice, with other seeds the second time, and then with each number turned.
    fn variants(&self) -> anyhow::Result<Vec<Variant>> {
        let mut default = Tuning::default();
        let names: Vec<_> = default.numbers().into_iter().map(|(name, _)| name).collect();
        if let Some(unknown) = self.constants.iter().find(|asked| !names.contains(&asked.as_str())) {
            bail!("no number is called `{unknown}`; there are: {}", names.join(", "));
        }
        let own = |constant, first_seed| Variant {
            constant,
            from: String::new(),
            to: String::new(),
            tuning: Tuning::default(),
            first_seed,
        };
        let mut variants = vec![own("", 1), own(OTHER_SEEDS, 1 + self.seeds)];
        let is_asked =
            |name: &str| self.constants.is_empty() || self.constants.iter().any(|asked| asked == name);
        for (place, constant) in names.into_iter().enumerate().filter(|(_, name)| is_asked(name)) {
            for turn in [Turn::Down, Turn::Up] {
                let mut tuning = Tuning::default();
                let (_, number) = tuning.numbers().swap_remove(place);
                let (from, to) = turn.apply(number);
                variants.push(Variant { constant, from, to, tuning, first_seed: 1 });
            }
        }
        Ok(variants)
    }
}

fn run_job(row: &Row, variant: &Variant, seed: u64) -> anyhow::Result<Vec<f64>> {
    let run = row.path.run_tuned(variant.tuning, variant.first_seed + seed);
    let run = run.with_context(|| format!("row {}", row.name))?;
    Ok(row.lines.iter().map(|line| line.what.of(&run)).collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Down,
    Up,
}

impl Turn {
    /// Turns a number; its value before and after.
    fn apply(self, number: Number<'_>) -> (String, String) {
        let (tenths, away) = match self {
            Self::Down => (7, 0),
            Self::Up => (13, 9),
        };
        let scaled = |value: u64| (value * tenths + away) / 10;
        match number {
            Number::Bytes(bytes) => {
                let from = std::mem::replace(bytes, Bytes::new(scaled(bytes.get())));
                (from.to_string(), bytes.to_string())
            }
            Number::Time(time) => {
                let from = std::mem::replace(time, *time * u32::try_from(tenths).unwrap_or(10) / 10);
                (format!("{from:?}"), format!("{time:?}"))
            }
            Number::Gain(gain) => {
                let from = gain.thousandths();
                let to = u32::try_from(scaled(from)).unwrap_or(u32::MAX);
                *gain = Gain::ratio(to, 1000);
                (thousandths(from), thousandths(to.into()))
            }
            Number::Count(count) => {
                let to = u32::try_from(scaled((*count).into())).unwrap_or(u32::MAX);
                let from = std::mem::replace(count, to);
                (from.to_string(), to.to_string())
            }
        }
    }
}

fn thousandths(value: u64) -> String {
    format!("{}.{:03}", value / 1000, value % 1000)
}

impl Variant {
    fn shown(self, rows: &[Row], own: &[Vec<f64>], turned: &[Vec<f64>]) -> Shown {
        let places = rows.iter().enumerate();
        let places = places.flat_map(|(row, asked)| (0..asked.lines.len()).map(move |line| (row, line)));
        let figures = places.map(|(row, line)| {
            let (own, turned) = (own[row][line], turned[row][line]);
            let (asked, line) = (&rows[row], &rows[row].lines[line]);
            let worse = worse(line, own, turned);
            Moved { row: asked.name.clone(), what: line.what.name(), own, turned, worse }
        });
        Shown { constant: self.constant, from: self.from, to: self.to, figures: figures.collect() }
    }
}

/// By how many percent a figure is worse.
fn worse(line: &Line, own: f64, turned: f64) -> f64 {
    let most = line.floors.iter().find_map(|floor| match floor {
        Bound::AtMost(most) => Some(*most),
        _ => None,
    });
    let part = match most {
        // Neither ever came.
        _ if own == turned => 0.0,
        Some(most) => (turned - own) / most,
        None => (own - turned) / own,
    };
    100.0 * part
}

impl Shown {
    /// How many figures are worse by more than may be.
    fn moved(&self) -> usize {
        self.figures.iter().filter(|figure| figure.worse > MOST).count()
    }

    fn worst(&self) -> Option<&Moved> {
        self.figures.iter().max_by(|a, b| f64::total_cmp(&a.worse, &b.worse))
    }
}

fn print(shown: &[Shown], seeds: u64) {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header([
        "number",
        "is",
        "turned to",
        "worst row",
        "what",
        "own",
        "turned",
        "worse by %",
        "moved",
    ]);
    for line in shown {
        let Some(worst) = line.worst() else { continue };
        let moved = line.moved();
        table.add_row([
            line.constant.to_owned(),
            line.from.clone(),
            line.to.clone(),
            worst.row.clone(),
            worst.what.to_owned(),
            format!("{:.3}", worst.own),
            format!("{:.3}", worst.turned),
            format!("{:.1}", worst.worse),
            if moved > 0 { format!("{moved} of {}", line.figures.len()) } else { "-".to_owned() },
        ]);
    }
    println!("warprate: medians of {seeds} seeds\n{table}");
}

/// Percent that a figure may be worse by.
const MOST: f64 = 5.0;
const OTHER_SEEDS: &str = "(other seeds)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_turned_away_from_their_value() {
        for (count, down, up) in [(4, 2, 6), (1, 0, 2), (16, 11, 21), (10, 7, 13)] {
            for (turn, expected) in [(Turn::Down, down), (Turn::Up, up)] {
                let mut turned = count;
                turn.apply(Number::Count(&mut turned));
                assert_eq!(turned, expected, "{count}");
            }
        }
    }

    #[test]
    fn every_number_is_turned_by_itself() {
        let args = Args { only: Vec::new(), seeds: 1, constants: Vec::new(), json: None };
        let variants = args.variants().unwrap();
        assert_eq!(variants.len(), 2 + 2 * Tuning::default().numbers().len());
        for variant in &variants[2..] {
            let (mut own, mut turned) = (Tuning::default(), variant.tuning);
            let pairs = own.numbers().into_iter().zip(turned.numbers());
            let differ: Vec<_> =
                pairs.filter(|(own, turned)| format!("{own:?}") != format!("{turned:?}")).collect();
            assert_eq!(differ.len(), 1, "{}", variant.constant);
            assert_eq!(differ[0].0.0, variant.constant);
        }
    }

    #[test]
    fn what_should_be_small_is_measured_by_its_floor() {
        use crate::sim::floors::measure::Measure;
        let line = |what, floor| Line { what, floors: vec![floor], goal: None };
        let queue = line(Measure::Queue, Bound::AtMost(5.0));
        assert_eq!(worse(&queue, 0.0, 0.5), 10.0);
        assert_eq!(worse(&queue, 2.0, 1.0), -20.0);
        let goodput = line(Measure::Goodput, Bound::OfOracle(0.9));
        assert_eq!(worse(&goodput, 800.0, 600.0), 25.0);
        assert_eq!(worse(&line(Measure::Drained, Bound::AtMost(500.0)), f64::INFINITY, f64::INFINITY), 0.0);
    }
}
