//! Traces are the same bytes on every machine and in every build.

use std::io::Write;
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};
use warpsim::published;
use warpsim::scenario::Options;
use warpsim::topology::Topology;
use warpsim::trace;

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn trace(topology: &Topology, seed: u64) -> Vec<u8> {
    let memory = Memory::default();
    let options = Options { seed, ..Options::default() };
    trace::run(topology, &options, Box::new(memory.clone())).unwrap();
    std::mem::take(&mut *memory.0.lock().unwrap())
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn preset(name: &str) -> Topology {
    Topology::read(name, &published::preset(name).unwrap()).unwrap()
}

/// Pinned: a change of any of these says that packets or decisions have moved, and the change must say why.
const PINNED: &[(&str, &str)] = &[
    ("loss-data-5pct", "df4c78dcbf0a54fc5e630947338eb743e91146913ab95011b1119e22b79baeb1"),
    ("jitter-1ms-reorder", "a60661c147922d1abfdcd3ed12913b685d29ca43ad9f9a7e028d2e5cb159db9c"),
    ("jitter-10ms-fifo", "20093e7592ab8b739c5d8a8cb2e1a6b8acae89aab5d8334785c89e6bb3cd80b6"),
    ("wireless-wifi-txop-30ms", "c5b10d0f362d6b29083350138dfa1bd364f5cf1063702f2e893f253c9bc864db"),
];

#[test]
fn traces_of_quic_hosts_are_pinned() {
    let found: Vec<_> = PINNED.iter().map(|(name, _)| (*name, hash(&trace(&preset(name), 1)))).collect();
    let pinned: Vec<_> = PINNED.iter().map(|(name, hash)| (*name, (*hash).to_owned())).collect();
    assert_eq!(found, pinned);
}

const EVERYTHING: &str = "dfb5f71287bf5bd5c7db48e228b9b589bf2608b465585767f7a4ab29f91b2b13";

#[test]
fn the_trace_of_all_kinds_of_hosts_is_pinned() {
    let topology = Topology::read("everything", include_str!("data/everything.json")).unwrap();
    assert_eq!(hash(&trace(&topology, 1)), EVERYTHING);
}

#[test]
fn the_seed_moves_the_trace() {
    let topology = preset("loss-data-5pct");
    let first = trace(&topology, 1);
    assert!(first == trace(&topology, 1));
    assert!(first != trace(&topology, 2));
}

#[test]
fn protection_does_not_move_the_trace() {
    let mut topology = preset("loss-data-1pct");
    let null = trace(&topology, 1);
    topology.flows[0].cipher = warpsim::topology::Cipher::Tls;
    assert!(null == trace(&topology, 1));
}

#[test]
fn every_line_is_json_without_a_fraction() {
    let topology = Topology::read("everything", include_str!("data/everything.json")).unwrap();
    let text = String::from_utf8(trace(&topology, 3)).unwrap();
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect(line);
        let numbers = value.as_object().unwrap().values().filter(|value| value.is_number());
        assert!(numbers.into_iter().all(|number| !number.is_f64()), "{line}");
    }
    for event in ["sent", "ack", "loss", "plan", "offer", "lose", "depart"] {
        assert!(text.contains(&format!("\"event\":\"{event}\"")), "{event}");
    }
}

#[test]
fn watching_a_run_does_not_change_it() {
    let topology = preset("loss-data-1pct");
    let options = Options { seed: 1, ..Options::default() };
    let watched = trace::run(&topology, &options, Box::new(std::io::sink())).unwrap();
    assert_eq!(watched, warpsim::scenario::run(&topology, &options).unwrap());
}
