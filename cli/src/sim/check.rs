//! `warp sim check`: is a file a topology?

use std::path::PathBuf;

use anyhow::bail;

/// Files to check.
#[derive(clap::Args)]
pub struct Args {
    /// Topology files, or names of presets.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let mut refused = 0;
        for file in &self.files {
            match super::read(file) {
                Ok(topology) => {
                    println!(
                        "{}: {} links, {} flows",
                        file.display(),
                        topology.links.iter().len(),
                        topology.flows.len()
                    );
                }
                Err(error) => {
                    eprintln!("{error:#}");
                    refused += 1;
                }
            }
        }
        if refused > 0 {
            bail!("{refused} of {} files refused", self.files.len());
        }
        Ok(())
    }
}
