//! The external yardsticks that run fast: picoquic's limits and google/quiche's.

use std::time::Duration;

use warpsim::published::preset;
use warpsim::topology::{Topology, Yardstick};
use warpsim::yardstick::measure;

fn topology(name: &str) -> Topology {
    Topology::read(name, &preset(name).expect("a preset")).expect("presets are topologies")
}

fn yardstick(name: &str, is_meant: impl Fn(&Yardstick) -> bool) -> (Topology, Yardstick) {
    let topology = topology(name);
    let yardstick = topology.yardsticks.iter().find(|yardstick| is_meant(yardstick)).cloned();
    (topology, yardstick.unwrap_or_else(|| panic!("{name} has no such yardstick")))
}

/// Preset, law, and the seconds from the handshake's start to the last byte that picoquic's tests allow.
const DONE: &[(&str, &str, f64)] = &[
    ("picoquic/performance-1g-4ms", "bbr3", 0.25),
    ("picoquic/wifi-suspended-once", "bbr3", 2.8),
    ("picoquic/wifi-suspended-once", "cubic", 2.87),
    ("picoquic/wifi-suspended-once", "newreno", 2.8),
    ("picoquic/wifi-suspended-6-times", "bbr3", 4.06),
    ("picoquic/wifi-suspended-6-times", "cubic", 4.7),
    ("picoquic/wifi-suspended-6-times", "newreno", 4.25),
    ("picoquic/drop-and-back", "cubic", 5.0),
];

#[test]
fn transfers_are_done_within_picoquics_limits() {
    for (name, law, limit) in DONE {
        let (topology, yardstick) = yardstick(name, |yardstick| yardstick.law.name() == *law);
        let reading = measure(&topology, &yardstick, 1).unwrap();
        assert_eq!((reading.limit, reading.unit), (*limit, "s"), "{name} {law}");
        assert!(reading.ours <= *limit, "{name} {law}: {} s", reading.ours);
        // Neither is it faster than the link.
        let bytes = topology.flows[0].bytes.expect("a finite flow");
        let least = bytes / topology.links.get("down").expect("a link").rate;
        assert!(reading.ours >= least.as_secs_f64(), "{name} {law}: {} s", reading.ours);
    }
}

#[test]
fn bbr3_meets_quiches_criteria_on_the_default_path() {
    // 12 MiB over 4 Mbit/s and 64 ms; Bbr2DefaultTopologyTest's NormalStartup and SimpleTransfer.
    let read = |is_meant: fn(&Yardstick) -> bool| {
        let (topology, yardstick) = yardstick("bbr2/simple", is_meant);
        measure(&topology, &yardstick, 1).unwrap()
    };
    assert!(read(|yardstick| yardstick.startup.is_some()).ours <= 1.0, "within 1 % of the bandwidth");
    assert!(read(|yardstick| yardstick.done.is_some()).ours <= 30.0);
    assert!(read(|yardstick| yardstick.rtt.is_some()).ours <= 2.0 * 0.064, "within 100 % of the base");
}

#[test]
fn a_startup_that_does_not_end_as_it_should_meets_no_limit() {
    // `fixed` has no startup: it is over with the first acknowledgement.
    let (topology, yardstick) = yardstick("bbr2/simple", |yardstick| yardstick.startup.is_some());
    let law = warpsim::topology::LawSpec::named("fixed").expect("a law");
    let reading = measure(&topology, &Yardstick { law, ..yardstick }, 1).unwrap();
    assert!(reading.ours.is_infinite() && !reading.is_met(), "{reading:?}");
}

#[test]
fn what_is_not_done_meets_no_limit() {
    let (mut topology, yardstick) = yardstick("picoquic/drop-and-back", |_| true);
    topology.duration = Duration::from_secs(1);
    let reading = measure(&topology, &yardstick, 1).unwrap();
    assert!(reading.ours.is_infinite() && !reading.is_met(), "{reading:?}");
}

#[test]
fn time_counts_from_the_change() {
    let (topology, yardstick) = yardstick("picoquic/performance-1g-4ms", |_| true);
    let whole = measure(&topology, &yardstick, 1).unwrap().ours;
    let since = Duration::from_millis(50);
    let part = measure(&topology, &Yardstick { since, ..yardstick }, 1).unwrap().ours;
    assert!((whole - part - 0.05).abs() < 1e-6, "{whole} {part}");
}
