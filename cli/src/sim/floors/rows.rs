//! The rows of the table: which paths, what is measured on them, and what it must reach.

use anyhow::bail;
use warprate::cc::warprate::Tuning;
use warpsim::laws::Made;
use warpsim::published::{Cell, cells, preset};
use warpsim::scenario::{self, Options};
use warpsim::topology::{LawSpec, Topology};
use warpunits::Bytes;

use super::bound::Bound::{self, AtLeast, AtMost, OfBestRival, OfOracle};
use super::measure::{Finished, Measure};
use super::response::SAMPLE_EVERY;
use super::steady::{Lines, STEADY, Steady};

/// A path, and what is asked of a run over it.
pub struct Row {
    /// Its name, which is also its topology's.
    pub name: String,
    /// The path.
    pub path: Path,
    /// What is measured.
    pub lines: Vec<Line>,
    /// Whether paths around it are asked for, too.
    pub has_neighbours: bool,
}

/// A figure, and what it must reach.
pub struct Line {
    pub what: Measure,
    /// All of them must be met; none where the figure is only reported.
    pub floors: Vec<Bound>,
    pub goal: Option<Bound>,
}

/// Where a row's topology comes from.
#[derive(Clone)]
pub enum Path {
    /// A transfer over a cell of the reference grid.
    Cell(Cell),
    /// One flow over a preset.
    Preset(&'static str),
    /// Several flows, or one, over one bottleneck.
    Steady(&'static Steady),
}

impl Path {
    /// The topology's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Cell(cell) => &cell.id,
            Self::Preset(name) => name,
            Self::Steady(steady) => steady.name,
        }
    }

    /// The topology's text. The law under test is in it only where others are, too.
    pub fn text(&self, law: &LawSpec) -> String {
        match self {
            Self::Cell(cell) => cell.to_json(),
            Self::Preset(name) => preset(name).expect("rows name presets"),
            Self::Steady(steady) => steady.dumbbell(law).to_json(),
        }
    }

    /// The `n`-th of the paths around it, if it is a cell.
    pub fn around(&self, n: u64) -> Option<Cell> {
        match self {
            Self::Cell(cell) => Some(cell.around(AROUND_SEED, n)),
            Self::Preset(_) | Self::Steady(_) => None,
        }
    }

    /// Runs it.
    pub fn run(&self, law: &LawSpec, seed: u64) -> anyhow::Result<Finished> {
        if let Self::Steady(steady) = self {
            return Ok(Finished::Shared(steady, steady.dumbbell(law).run(seed)?));
        }
        let topology = self.topology(law);
        let report = scenario::run(&topology, &self.options(law, seed))?;
        Ok(Finished::Alone(topology, report))
    }

    /// Runs it with WarpRATE by these numbers.
    pub fn run_tuned(&self, tuning: Tuning, seed: u64) -> anyhow::Result<Finished> {
        let law = LawSpec::Named("warprate");
        let made = |flow| Made::warprate(tuning, scenario::law_seed(seed, flow));
        if let Self::Steady(steady) = self {
            let is_ours = |flow: usize| steady.flows[flow].law.is_none();
            let change = |flow, other| if is_ours(flow) { made(flow) } else { other };
            return Ok(Finished::Shared(steady, steady.dumbbell(&law).run_with(seed, change)?));
        }
        let topology = self.topology(&law);
        let report = scenario::run_law(&topology, &self.options(&law, seed), law.name(), &made(0))?;
        Ok(Finished::Alone(topology, report))
    }

    /// How much is sent, about: what a run costs.
    pub fn volume(&self, law: &LawSpec) -> Bytes {
        let topology = self.topology(law);
        let flow = &topology.flows[0];
        flow.bytes.unwrap_or_else(|| topology.bottleneck(flow).1.rate * topology.duration)
    }

    fn options(&self, law: &LawSpec, seed: u64) -> Options {
        let sample_every = matches!(self, Self::Preset(_)).then_some(SAMPLE_EVERY);
        Options { seed, law: Some(law.clone()), sample_every, ..Options::default() }
    }

    fn topology(&self, law: &LawSpec) -> Topology {
        Topology::read(self.name(), &self.text(law)).expect("rows make topologies")
    }
}

impl Row {
    /// Whether a floor or goal refers to rivals.
    pub fn needs_rivals(&self) -> bool {
        self.lines.iter().flat_map(|line| &line.floors).any(|floor| matches!(floor, OfBestRival(_)))
    }
}

/// All rows.
pub fn rows() -> Vec<Row> {
    let mut rows = transfers();
    rows.extend(early_drops());
    let row = |name: &str, path, lines: &[(Measure, Option<Bound>, Option<Bound>)]| {
        let lines = lines.iter().map(|(what, floor, goal)| Line {
            what: *what,
            floors: floor.iter().copied().collect(),
            goal: *goal,
        });
        Row { name: name.to_owned(), path, lines: lines.collect(), has_neighbours: false }
    };
    rows.extend(DISTURBED.iter().map(|(name, lines)| row(name, Path::Preset(name), lines)));
    rows.extend(STEADY.iter().map(|steady| row(steady.name, Path::Steady(steady), steady.lines)));
    rows
}

/// Those whose names contain one of these; all, if there are none.
pub fn chosen(only: &[String]) -> anyhow::Result<Vec<Row>> {
    let mut rows = rows();
    if let Some(unknown) = only.iter().find(|part| !rows.iter().any(|row| row.name.contains(*part))) {
        let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
        bail!("no row's name contains `{unknown}`; there are: {}", names.join(", "));
    }
    rows.retain(|row| only.is_empty() || only.iter().any(|part| row.name.contains(part)));
    Ok(rows)
}

/// Goodput of transfers: the cells that the table names, then those that only have a published figure.
fn transfers() -> Vec<Row> {
    let cells = cells();
    let goodput = |cell: &Cell, floor: Option<Bound>, goal| {
        let published = cell.published_as("warprate").and_then(|figure| figure.mbps).map(AtLeast);
        let is_implied = |published: &Bound| match (published, floor) {
            (AtLeast(published), Some(AtLeast(floor))) => *published <= floor,
            _ => false,
        };
        let floors = floor.into_iter().chain(published.filter(|published| !is_implied(published)));
        Line { what: Measure::Goodput, floors: floors.collect(), goal }
    };
    let mut rows: Vec<_> = TRANSFERS
        .iter()
        .map(|(id, floor, goal)| {
            let cell = find(&cells, id);
            let mut lines = vec![goodput(&cell, Some(*floor), Some(*goal))];
            if WITH_EARLY_DROPS.contains(id) {
                lines.push(Line { what: Measure::EarlyDrops, floors: Vec::new(), goal: None });
            }
            Row { name: cell.id.clone(), path: Path::Cell(cell), lines, has_neighbours: true }
        })
        .collect();
    let others = cells.iter().filter(|cell| !TRANSFERS.iter().any(|(id, ..)| *id == cell.id));
    rows.extend(others.filter_map(|cell| {
        let line = goodput(cell, None, None);
        (!line.floors.is_empty()).then(|| Row {
            name: cell.id.clone(),
            path: Path::Cell(cell.clone()),
            lines: vec![line],
            has_neighbours: false,
        })
    }));
    rows
}

/// What a start into a slow path loses, with a buffer of 1 BDP.
fn early_drops() -> impl Iterator<Item = Row> {
    let cells = cells();
    SLOW.iter().map(move |id| {
        let mut cell = find(&cells, id);
        cell.buffer_milli_bdp = 1000;
        cell.id = format!("{id}-1bdp");
        let line = Line { what: Measure::EarlyDrops, floors: vec![AtMost(100.0)], goal: Some(AtMost(30.0)) };
        Row { name: cell.id.clone(), path: Path::Cell(cell), lines: vec![line], has_neighbours: false }
    })
}

fn find(cells: &[Cell], id: &str) -> Cell {
    cells.iter().find(|cell| cell.id == id).expect("rows name cells of the grid").clone()
}

/// Goodput: cell, floor, goal; figures without a reference in Mbit/s. A published figure of WarpRATE is a
/// floor, too.
const TRANSFERS: &[(&str, Bound, Bound)] = &[
    ("clean-1g-2ms", OfOracle(0.97), OfOracle(0.99)),
    ("loss-ack-5pct", OfOracle(0.96), OfOracle(0.99)),
    ("loss-data-0.5pct", OfOracle(0.93), OfOracle(0.98)),
    ("loss-data-1pct", OfOracle(0.93), OfOracle(0.98)),
    ("loss-data-2pct", OfOracle(0.92), OfOracle(0.98)),
    ("loss-data-5pct", OfOracle(0.90), OfOracle(0.98)),
    ("loss-data-10pct", OfOracle(0.88), OfOracle(0.98)),
    ("loss-both-5pct", OfOracle(0.87), OfOracle(0.97)),
    ("jitter-0.2ms-fifo", OfOracle(0.95), OfOracle(0.97)),
    ("jitter-1ms-fifo", OfOracle(0.85), OfOracle(0.97)),
    ("jitter-200ms-fifo", AtLeast(91.0), OfOracle(0.97)),
    ("jitter-5ms-fifo", OfBestRival(1.2), OfOracle(0.9)),
    ("jitter-10ms-fifo", OfBestRival(1.2), OfOracle(0.9)),
    ("jitter-50ms-fifo", OfBestRival(1.2), OfOracle(0.9)),
    ("jitter-1ms-reorder", OfOracle(0.6), OfOracle(0.95)),
    ("jitter-5ms-reorder", OfOracle(0.25), OfOracle(0.95)),
    ("jitter-10ms-reorder", OfOracle(0.15), OfOracle(0.95)),
    ("jitter-data-10ms-loss-1pct-30ms-fifo", AtLeast(190.0), OfOracle(0.85)),
    ("jitter-ack-10ms-loss-1pct-30ms-fifo", AtLeast(400.0), OfOracle(0.95)),
    ("jitter-both-10ms-loss-1pct-30ms-fifo", AtLeast(200.0), OfOracle(0.85)),
    ("rtt-25ms", AtLeast(640.0), OfOracle(0.9)),
    ("rtt-50ms", AtLeast(450.0), OfOracle(0.85)),
    ("rtt-100ms", AtLeast(300.0), OfOracle(0.8)),
    ("rtt-200ms", AtLeast(180.0), OfOracle(0.8)),
    ("link-10g-25ms-1GB", AtLeast(7600.0), AtLeast(8800.0)),
    ("link-10g-25ms-1GB-loss-1pct", AtLeast(7200.0), AtLeast(8300.0)),
];

/// Starts whose speed must not be bought with drops: reported beside it.
const WITH_EARLY_DROPS: &[&str] = &["rtt-25ms", "rtt-50ms", "rtt-100ms", "rtt-200ms"];

/// Slow paths behind a fast interface.
const SLOW: &[&str] =
    &["slow-5m-40ms-nic-10g", "slow-5m-100ms-nic-10g", "slow-20m-40ms-nic-10g", "slow-20m-100ms-nic-10g"];

/// Presets with one flow.
const DISTURBED: &[(&str, Lines)] = &[
    (
        "capacity-100m-20m-100m",
        &[
            (Measure::Drained, Some(AtMost(500.0)), Some(AtMost(250.0))),
            (Measure::Regained, Some(AtMost(1000.0)), Some(AtMost(300.0))),
        ],
    ),
    ("outages-3x200ms", &[(Measure::Utilisation, Some(AtLeast(0.90)), Some(AtLeast(0.95)))]),
    ("clean-100m-40ms-240MB", &[(Measure::Resent, Some(AtMost(0.05)), Some(AtMost(0.01)))]),
];

/// Laws that the best rival is chosen among.
pub const RIVALS: &[&str] = &["cubic", "newreno", "bbr3", "quinn-cubic", "quinn-bbr"];

/// Seeds the paths around cells.
const AROUND_SEED: u64 = 1;
/// Of the floor on a cell itself, what the worst path around it must reach.
pub const AROUND_FLOOR: f64 = 0.6;
/// And what it should.
pub const AROUND_GOAL: f64 = 0.9;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_its_own_name_and_a_topology_of_that_name() {
        let rows = rows();
        let names: BTreeSet<_> = rows.iter().map(|row| &row.name).collect();
        assert_eq!(names.len(), rows.len());
        for row in &rows {
            let topology = Topology::read(&row.name, &row.path.text(&LawSpec::Named("bbr3"))).unwrap();
            assert_eq!(topology.name, row.name);
        }
    }

    #[test]
    fn the_numbers_of_the_law_itself_make_its_own_run() {
        let law = LawSpec::Named("warprate");
        for name in ["jitter-10ms-fifo", "outages-3x200ms", "cubic-first-0.5bdp"] {
            let row = rows().into_iter().find(|row| row.name == name).unwrap();
            let (own, tuned) =
                (row.path.run(&law, 2).unwrap(), row.path.run_tuned(Tuning::default(), 2).unwrap());
            for line in row.lines {
                assert_eq!(line.what.of(&own), line.what.of(&tuned), "{name}: {}", line.what.name());
            }
        }
    }

    #[test]
    fn a_published_figure_is_a_floor() {
        let rows = rows();
        let floors = |name: &str| rows.iter().find(|row| row.name == name).unwrap().lines[0].floors.clone();
        assert_eq!(floors("loss-data-5pct"), [OfOracle(0.9), AtLeast(618.0)]);
        assert_eq!(floors("jitter-200ms-fifo"), [AtLeast(91.0)]);
        assert_eq!(floors("buffer-1bdp"), [AtLeast(903.1)]);
    }
}
