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
    ("loss-data-5pct", "8f92263db40f3b9431d9c9b3ac837e19c8dd2e534a0f47b15504791d4ae3bfc8"),
    ("jitter-1ms-reorder", "3e321992cdac13d2b227442194f4a7774b5f387d0722b9a0336c10b526574abb"),
    ("jitter-10ms-fifo", "8773e3adf710cf4b8fa0ad5e12bd04894cd020547fe8e4ebb2ad4d43477094b0"),
    ("wireless-wifi-txop-30ms", "a2609954ed782125d0e18989c3092276f6f090bc168f3980d669dedbab6c362b"),
];

#[test]
fn traces_of_quic_hosts_are_pinned() {
    let found: Vec<_> = PINNED.iter().map(|(name, _)| (*name, hash(&trace(&preset(name), 1)))).collect();
    let pinned: Vec<_> = PINNED.iter().map(|(name, hash)| (*name, (*hash).to_owned())).collect();
    assert_eq!(found, pinned);
}

const EVERYTHING: &str = "39ddd751a7c509f8f5d1aa915048e5f132021eaba05ee3687e9a245c019d4894";

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
