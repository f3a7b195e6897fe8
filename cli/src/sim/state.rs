//! Finished runs, kept so that an interrupted sweep goes on where it was.
//!
//! One JSON line per run in a file beside the results. A line's key is a hash of the topology, the law,
//! the seed and the program itself: after a change of any of them the run is done again.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What is kept of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Stream bits per second.
    pub goodput_bps: u64,
    /// The oracle's, with the same seed.
    pub oracle_bps: u64,
    /// Whether all bytes arrived.
    pub is_finished: bool,
    /// Time-averaged queue of the bottleneck.
    pub queue_mean_ns: u64,
    /// UDP payload declared lost.
    pub retransmitted_bytes: u64,
    /// Wire bytes dropped within the first 10 RTT.
    pub early_drops_bytes: u64,
    /// J_S of the bottleneck.
    pub jitter_per_packet: f64,
}

impl Outcome {
    /// Goodput over the oracle's.
    pub fn ratio(&self) -> f64 {
        self.goodput_bps as f64 / self.oracle_bps.max(1) as f64
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    outcome: Outcome,
}

/// The finished runs of a sweep.
pub struct State {
    finished: BTreeMap<String, Outcome>,
    file: Option<File>,
    program: String,
}

impl State {
    /// The runs finished before, from the file beside `results`; without results nothing is kept.
    pub fn open(results: Option<&Path>, is_fresh: bool) -> anyhow::Result<Self> {
        let program = program_hash()?;
        let Some(results) = results else {
            return Ok(Self { finished: BTreeMap::new(), file: None, program });
        };
        let path = PathBuf::from(format!("{}.state", results.display()));
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let mut finished = BTreeMap::new();
        if !is_fresh && let Ok(file) = File::open(&path) {
            // The last line may be cut off: the run was interrupted while writing it.
            let lines = BufReader::new(file).lines().map_while(Result::ok);
            let lines = lines.filter_map(|line| serde_json::from_str::<Line>(&line).ok());
            finished = lines.map(|line| (line.key, line.outcome)).collect();
        }
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        if is_fresh {
            file.set_len(0).with_context(|| format!("cannot empty {}", path.display()))?;
        }
        Ok(Self { finished, file: Some(file), program })
    }

    /// The key of a run.
    pub fn key(&self, topology: &str, law: &str, seed: u64) -> String {
        hex(&Sha256::digest(format!("{}\n{law}\n{seed}\n{topology}", self.program)))
    }

    /// The outcome of a run finished before.
    pub fn get(&self, key: &str) -> Option<&Outcome> {
        self.finished.get(key)
    }

    /// Keeps a finished run.
    pub fn put(&mut self, key: String, outcome: Outcome) -> anyhow::Result<()> {
        if let Some(file) = &mut self.file {
            let line = serde_json::to_string(&Line { key: key.clone(), outcome: outcome.clone() })?;
            file.write_all(format!("{line}\n").as_bytes()).context("cannot keep a finished run")?;
        }
        self.finished.insert(key, outcome);
        Ok(())
    }
}

/// Names this build.
fn program_hash() -> anyhow::Result<String> {
    let path = std::env::current_exe().context("cannot find this program's file")?;
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(hex(&Sha256::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
