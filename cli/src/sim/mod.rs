//! `warp sim`: the simulator's commands.

mod ack_ratio;
mod check;
mod duels;
mod floors;
mod list;
mod presets;
mod published;
#[cfg(unix)]
mod reality;
mod run;
mod sensitivity;
mod state;
mod workers;
mod yardsticks;

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Subcommand;
use warpsim::topology::{LawSpec, Topology};

/// The simulator's commands.
#[derive(Subcommand)]
pub enum Command {
    /// Run one topology with one seed.
    Run(run::Args),
    /// Check topology files without running them.
    Check(check::Args),
    /// List the presets and the laws.
    List,
    /// Run the published cells for each law, beside the published figures and the oracle.
    Published(published::Args),
    /// Hold a law against what it must reach: transfers and steady states, with a floor and a goal each.
    Floors(floors::Args),
    /// Turn each number of WarpRATE's table up and down, and see what the floors' figures make of it.
    Sensitivity(sensitivity::Args),
    /// Let two CUBIC flows share a bottleneck, one acknowledged on every packet, one on every n-th.
    AckRatio(ack_ratio::Args),
    /// Let every pair of laws share a bottleneck, and compare with theory and the snapshot.
    Duels(duels::Args),
    /// Compare the simulator with the same code on real sockets, over the same path.
    #[cfg(unix)]
    Reality(reality::Args),
    /// Run our laws beside the limits that others set for theirs.
    Yardsticks(yardsticks::Args),
    /// Write the presets again from the reference grid.
    Presets(presets::Args),
}

impl Command {
    /// Carries the command out.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Run(args) => args.run(),
            Self::Check(args) => args.run(),
            Self::List => list::run(),
            Self::Published(args) => args.run(),
            Self::Floors(args) => args.run(),
            Self::Sensitivity(args) => args.run(),
            Self::AckRatio(args) => args.run(),
            Self::Duels(args) => args.run(),
            #[cfg(unix)]
            Self::Reality(args) => args.run(),
            Self::Yardsticks(args) => args.run(),
            Self::Presets(args) => args.run(),
        }
    }
}

/// Reads a topology file. The name of a preset will do, too.
fn read(file: &Path) -> anyhow::Result<Topology> {
    let preset = file.to_str().and_then(warpsim::published::preset).filter(|_| !file.exists());
    let text = match preset {
        Some(text) => text,
        None => std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?,
    };
    Ok(Topology::read(&file.display().to_string(), &text)?)
}

/// A law named on the command line.
fn law(name: &str) -> anyhow::Result<LawSpec> {
    let known = || warpsim::laws::ALL.iter().map(|law| law.name).collect::<Vec<_>>().join(", ");
    LawSpec::named(name).ok_or_else(|| anyhow!("no law is called `{name}`; there are: {}", known()))
}

/// Writes a file, with its folder if need be.
fn write(file: &PathBuf, text: &str) -> anyhow::Result<()> {
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Megabits per second.
fn mbps(bits_per_sec: u64) -> f64 {
    bits_per_sec as f64 / 1e6
}

/// The middle value, the lower of two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}
