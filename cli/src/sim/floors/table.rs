//! From runs to the table and its file.

use comfy_table::Table;
use serde::Serialize;
use warpsim::topology::LawSpec;

use super::super::median;
use super::bound::Figure;
use super::measure::Measure;
use super::rows::{AROUND_FLOOR, AROUND_GOAL, Line, RIVALS, Row};

/// What one run came to.
pub struct Outcome {
    pub seed: u64,
    /// One for each line of the row.
    pub values: Vec<f64>,
    /// The oracle's goodput in Mbit/s.
    pub oracle: Option<f64>,
    /// Whether the transfer came to its end.
    pub is_complete: bool,
}

/// The runs of a row.
#[derive(Default)]
pub struct Runs {
    pub own: Vec<Outcome>,
    pub rivals: [Vec<Outcome>; RIVALS.len()],
    /// On paths around it.
    pub drawn: Vec<Outcome>,
}

/// A line of the table and its file.
#[derive(Serialize)]
struct Shown {
    row: String,
    what: &'static str,
    /// The median; `null` where it never happened.
    ours: f64,
    /// Of each run.
    runs: Vec<f64>,
    oracle: Option<f64>,
    ratio: Option<f64>,
    floor: String,
    goal: String,
    met: Met,
    /// Transfers that did not come to their end in time.
    incomplete: usize,
    /// The drawn path that the figure is from.
    path: Option<Drawn>,
}

/// Whether floor and goal are met.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Met {
    Goal,
    Floor,
    Neither,
    /// There is no floor.
    Open,
}

/// A path around a row's.
#[derive(Serialize)]
struct Drawn {
    name: String,
    about: String,
    seed: u64,
}

impl Outcome {
    /// Goodput over the oracle's, for transfers.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.values.first()? / self.oracle?)
    }
}

impl Runs {
    /// The worst of the drawn paths, by its ratio to the oracle.
    pub fn worst(&self) -> Option<&Outcome> {
        self.drawn.iter().min_by(|a, b| f64::total_cmp(&a.ratio().unwrap_or(0.0), &b.ratio().unwrap_or(0.0)))
    }

    /// The figure of the line at `place`.
    fn figure(&self, place: usize, line: &Line) -> Figure {
        let of = |runs: &[Outcome]| median(runs.iter().map(|run| run.values[place]).collect());
        let in_terms_of_oracle = |part: fn(&Outcome) -> Option<f64>| {
            let parts: Option<Vec<_>> = self.own.iter().map(part).collect();
            parts.filter(|_| line.what == Measure::Goodput).map(median)
        };
        let rivals = RIVALS.iter().zip(&self.rivals).filter(|(_, runs)| !runs.is_empty());
        Figure {
            ours: of(&self.own),
            oracle: in_terms_of_oracle(|run| run.oracle),
            ratio: in_terms_of_oracle(Outcome::ratio),
            best_rival: rivals
                .map(|(law, runs)| (*law, of(runs)))
                .max_by(|(_, a), (_, b)| f64::total_cmp(a, b)),
        }
    }
}

/// Prints the table; the file's text.
pub fn print(law: &LawSpec, rows: &[Row], runs: &[Runs]) -> anyhow::Result<String> {
    let mut shown = Vec::new();
    for (row, runs) in rows.iter().zip(runs) {
        for (place, line) in row.lines.iter().enumerate() {
            let figure = runs.figure(place, line);
            shown.push(shown_line(row, runs, place, line, &figure));
            shown.extend(
                runs.worst().filter(|_| place == 0).map(|worst| around(row, line, &figure, runs, worst)),
            );
        }
    }
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::NOTHING)
        .set_header(["row", "what", "ours", "oracle", "ratio", "floor", "goal", "met"]);
    for line in &shown {
        table.add_row(cells(line));
    }
    println!("{law}: medians of {} seeds\n{table}", runs.first().map_or(0, |runs| runs.own.len()));
    for path in shown.iter().filter_map(|line| line.path.as_ref()) {
        println!("{}, seed {}: {}", path.name, path.seed, path.about);
    }
    let count = |met| shown.iter().filter(|line| line.met == met).count();
    let (goal, floor, neither) = (count(Met::Goal), count(Met::Floor), count(Met::Neither));
    println!("{} floors: {goal} at their goals, {floor} met, {neither} missed", goal + floor + neither);
    Ok(serde_json::to_string_pretty(&shown)? + "\n")
}

fn shown_line(row: &Row, runs: &Runs, place: usize, line: &Line, figure: &Figure) -> Shown {
    let texts: Vec<_> = line.floors.iter().map(|floor| floor.text(figure)).collect();
    let has_floor = line.floors.iter().all(|floor| floor.is_met(figure));
    let has_goal = line.goal.is_some_and(|goal| goal.is_met(figure));
    Shown {
        row: row.name.clone(),
        what: line.what.name(),
        ours: figure.ours,
        runs: runs.own.iter().map(|run| run.values[place]).collect(),
        oracle: figure.oracle,
        ratio: figure.ratio,
        floor: texts.join(", "),
        goal: line.goal.map_or(String::new(), |goal| goal.text(figure)),
        met: if line.floors.is_empty() { Met::Open } else { Met::new(has_floor, has_goal) },
        incomplete: runs.own.iter().filter(|run| !run.is_complete).count(),
        path: None,
    }
}

/// The worst of the paths around a row's.
fn around(row: &Row, line: &Line, figure: &Figure, runs: &Runs, worst: &Outcome) -> Shown {
    let ratio = worst.ratio().unwrap_or(0.0);
    let own = line.floors.iter().filter_map(|floor| floor.of_oracle(figure)).fold(0.0, f64::max);
    let (floor, goal) = (AROUND_FLOOR * own, AROUND_GOAL * own);
    Shown {
        row: row.name.clone(),
        what: "worst drawn",
        ours: worst.values[0],
        runs: runs.drawn.iter().map(|run| run.values[0]).collect(),
        oracle: worst.oracle,
        ratio: Some(ratio),
        floor: format!("{floor:.3} of oracle"),
        goal: format!("{goal:.3} of oracle"),
        met: Met::new(ratio >= floor, ratio >= goal),
        incomplete: runs.drawn.iter().filter(|run| !run.is_complete).count(),
        path: row.path.around(worst.seed - 1).map(|cell| Drawn {
            name: cell.id.clone(),
            about: cell.about(),
            seed: worst.seed,
        }),
    }
}

fn cells(line: &Shown) -> [String; 8] {
    let number = |value: f64, digits| {
        if value.is_finite() { format!("{value:.digits$}") } else { "never".to_owned() }
    };
    let digits = if line.ours.abs() < 10.0 { 3 } else { 1 };
    let mut met = line.met.text().to_owned();
    if line.ratio.is_some_and(|ratio| ratio > EXPLICABLE) {
        met += ", above the oracle";
    }
    if line.incomplete > 0 {
        met += &format!(", {} incomplete", line.incomplete);
    }
    [
        line.row.clone(),
        line.what.to_owned(),
        number(line.ours, digits),
        line.oracle.map_or("-".into(), |oracle| number(oracle, 1)),
        line.ratio.map_or("-".into(), |ratio| number(ratio, 3)),
        line.floor.clone(),
        line.goal.clone(),
        met,
    ]
}

impl Met {
    fn new(has_floor: bool, has_goal: bool) -> Self {
        match (has_floor, has_goal) {
            (false, _) => Self::Neither,
            (true, false) => Self::Floor,
            (true, true) => Self::Goal,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Goal => "goal",
            Self::Floor => "yes",
            Self::Neither => "NO",
            Self::Open => "-",
        }
    }
}

/// Redundancy can beat the oracle, which sends nothing twice in advance; more than this needs an explanation.
const EXPLICABLE: f64 = 1.02;
