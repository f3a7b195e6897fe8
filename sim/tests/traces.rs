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
    ("loss-data-5pct", "750522f4b8cfe8a0b6b66391e7221dc510dcc4081a214355858d35c255f7fbfe"),
    ("jitter-1ms-reorder", "c88922bb71b2e53758bb27330c5d40eff028ad939402067c202d1e47dc2510e9"),
    ("jitter-10ms-fifo", "a00cc50968d9de21fc9ebcdacc4efdea3b15c90b92b4ff5632613abc91ca19d6"),
    ("wireless-wifi-txop-30ms", "31bb8c5761d17171d6665cfbd6e2a197cf025bf5d8c1723eddfe59f737a1e29f"),
];

#[test]
fn traces_of_quic_hosts_are_pinned() {
    let found: Vec<_> = PINNED.iter().map(|(name, _)| (*name, hash(&trace(&preset(name), 1)))).collect();
    let pinned: Vec<_> = PINNED.iter().map(|(name, hash)| (*name, (*hash).to_owned())).collect();
    assert_eq!(found, pinned);
}

const EVERYTHING: &str = "2a8dad82beef9e0fd9e9d5b53e65cde5aaf64f087aedd0d6211e71b86340fa4c";

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
    // Under reordering packets that were declared lost arrive after all, which the tap on TLS tells.
    for (name, is_reordered) in [("loss-data-1pct", false), ("jitter-1ms-reorder", true)] {
        let mut topology = preset(name);
        let null = trace(&topology, 1);
        topology.flows[0].cipher = warpsim::topology::Cipher::Tls;
        assert!(null == trace(&topology, 1), "{name}");
        let text = String::from_utf8(null).unwrap();
        assert_eq!(text.contains("\"event\":\"undo\""), is_reordered, "{name}");
    }
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
    // Both ends of the exchange run its law.
    for end in ["", ",\"end\":\"request\""] {
        assert!(text.contains(&format!("\"flow\":3{end},\"event\":\"sent\"")), "{end}");
    }
}

#[test]
fn watching_a_run_does_not_change_it() {
    let topology = preset("loss-data-1pct");
    let options = Options { seed: 1, ..Options::default() };
    let watched = trace::run(&topology, &options, Box::new(std::io::sink())).unwrap();
    assert_eq!(watched, warpsim::scenario::run(&topology, &options).unwrap());
}

/// What was written under each name.
type Logs = Arc<Mutex<std::collections::BTreeMap<String, Memory>>>;

#[test]
fn qlogs_tell_of_window_and_rate_and_move_nothing() {
    let topology = preset("loss-data-1pct");
    let logs = Logs::default();
    let files = warpsim::scenario::QlogFiles::new({
        let logs = logs.clone();
        move |name: &str| {
            let memory = Memory::default();
            logs.lock().unwrap().insert(name.to_owned(), memory.clone());
            Ok(Box::new(memory) as _)
        }
    });
    let law = warpsim::topology::LawSpec::named("cubic");
    let options = Options { seed: 1, law: law.clone(), ..Options::default() };
    let with = warpsim::scenario::run(&topology, &Options { qlog: Some(files), ..options.clone() }).unwrap();
    let without = warpsim::scenario::run(&topology, &options).unwrap();
    assert_eq!(with.ended_ns, without.ended_ns);

    let logs = logs.lock().unwrap();
    assert_eq!(logs.keys().collect::<Vec<_>>(), ["flow0-client", "flow0-server"]);
    let server = String::from_utf8(logs["flow0-server"].0.lock().unwrap().clone()).unwrap();
    // RFC 7464: each record is JSON between a record separator and a line feed.
    let records: Vec<serde_json::Value> =
        server.split('\u{1e}').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect();
    assert_eq!(records[0]["qlog_version"], "0.3");
    let metrics = records.iter().filter(|record| record["name"] == "recovery:metrics_updated");
    let windows: Vec<u64> =
        metrics.filter_map(|record| record["data"]["congestion_window"].as_u64()).collect();
    // The first packet is read before there is a law; from then on the window is the law's.
    assert!(windows.len() > 10);
    assert!(windows[1..].iter().all(|&window| (2 * 1452..1 << 30).contains(&window)));
}
