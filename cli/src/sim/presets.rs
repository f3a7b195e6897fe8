//! `warp sim presets`: the published cells as topology files. Other files of the folder stay as they are.

use std::path::PathBuf;

/// Where the presets go.
#[derive(clap::Args)]
pub struct Args {
    /// The folder.
    #[arg(long, default_value = "sim/scenarios")]
    dir: PathBuf,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let cells = warpsim::published::cells();
        for cell in &cells {
            super::write(&self.dir.join(format!("{}.json", cell.id)), &cell.to_json())?;
        }
        println!("wrote {} presets to {}", cells.len(), self.dir.display());
        Ok(())
    }
}
