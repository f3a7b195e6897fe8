//! No file makes the reader panic, and what it takes for a topology makes sense to the link model.
//!
//! CONTRIBUTING.md tells how to run it. The presets are the seeds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpsim::scenario;
use warpsim::topology::Topology;

fuzz_target!(|text: &str| {
    let Ok(topology) = Topology::read("fuzz", text) else { return };
    for (name, link) in topology.links.iter() {
        scenario::profile(&topology, name, link).expect("what is read makes sense");
    }
    for flow in topology.flows.iter().filter(|flow| !flow.reverse.is_empty()) {
        scenario::path(&topology, flow).expect("what is read makes sense");
    }
});
