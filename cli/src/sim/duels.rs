//! `warp sim duels`: every pair of laws over one bottleneck.

use std::path::PathBuf;

use anyhow::Context;
use comfy_table::Table;
use warpsim::duels::{self, Duel, Figures, Snapshot};

use super::workers;

/// Which laws meet.
#[derive(clap::Args)]
pub struct Args {
    /// Only these laws.
    #[arg(long, value_delimiter = ',')]
    laws: Vec<String>,
    /// Write the figures to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let laws = if self.laws.is_empty() {
            duels::contenders()
        } else {
            self.laws.iter().map(|name| Ok(super::law(name)?.name())).collect::<anyhow::Result<_>>()?
        };
        let duels = duels::all(&laws);
        let mut figures = vec![None; duels.len()];
        workers::run(&duels, Duel::run, |place, found| {
            figures[place] = Some(found?);
            Ok(())
        })?;
        let figures = figures.into_iter().collect::<Option<Vec<_>>>().context("a worker died")?;
        print(&duels, &figures);
        if let Some(file) = &self.json {
            let by_name = duels.iter().map(Duel::name).zip(figures).collect::<Snapshot>();
            super::write(file, &(serde_json::to_string_pretty(&by_name)? + "\n"))?;
        }
        Ok(())
    }
}

fn print(duels: &[Duel], figures: &[Figures]) {
    let snapshot = duels::snapshot();
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header([
        "law",
        "against",
        "RTT ms",
        "buffer",
        "share",
        "band",
        "Jain",
        "used",
        "queue ms",
        "p95",
        "its loss %",
        "other's",
    ]);
    let mut departures = Vec::new();
    for (duel, found) in duels.iter().zip(figures) {
        let theory = duel.expected_share(found);
        let band = theory.map_or("snapshot".to_owned(), |(band, _)| {
            format!("{:.0} to {:.0}", band.start() * 100.0, band.end() * 100.0)
        });
        table.add_row([
            duel.laws[0].to_owned(),
            duel.laws[1].to_owned(),
            format!("{} / {}", duel.rtts[0].as_millis(), duel.rtts[1].as_millis()),
            warpsim::topology::text::Buffer::Bdp(duel.buffer).to_string(),
            format!("{:.1}", found.share * 100.0),
            band,
            format!("{:.3}", found.jain),
            format!("{:.1}", found.utilisation * 100.0),
            format!("{:.1}", found.queue_ms),
            format!("{:.1}", found.queue_p95_ms),
            format!("{:.2}", found.loss[0] * 100.0),
            format!("{:.2}", found.loss[1] * 100.0),
        ]);
        let of_this = duel.departures(found, &snapshot).into_iter();
        departures.extend(of_this.map(|what| format!("{}: {what}", duel.name())));
    }
    println!(
        "shares and utilisation in percent, of the first law; bands by theory where it says something\n{table}"
    );
    for departure in &departures {
        println!("not as expected: {departure}");
    }
}
