//! What the kernel tells of interfaces, asked for in network namespaces that the tests make.
//!
//! They need root; elsewhere each says so and passes.
#![cfg(target_os = "linux")]

use std::net::SocketAddr;
use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use warprate::conn::{Anchor, AnchorSource, Interface, SendClock};
use warprate::units::Rate;

/// Runs `test` in a network namespace of its own.
fn in_namespace(test: fn()) {
    let is_run = thread::spawn(move || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("SKIPPED: no network namespace can be made: {error}; run as root");
            return;
        }
        test();
    });
    is_run.join().unwrap();
}

/// `ip` or `tc` in the thread's namespace.
fn run(line: &str) {
    let words: Vec<_> = line.split_whitespace().collect();
    let output =
        Command::new(words[0]).args(&words[1..]).output().unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

fn remote(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn the_route_chooses_the_interface() {
    in_namespace(|| {
        run("ip link set lo up");
        for (name, subnet) in [("va", "10.7.1"), ("vb", "10.7.2")] {
            run(&format!("ip link add {name} type veth peer name {name}-peer"));
            run(&format!("ip addr add {subnet}.1/24 dev {name}"));
            run(&format!("ip link set {name}-peer up"));
            run(&format!("ip link set {name} up"));
        }
        for (address, name) in
            [("10.7.1.9:1", "va"), ("10.7.2.9:1", "vb"), ("10.7.2.1:1", "lo"), ("[::ffff:10.7.1.9]:1", "va")]
        {
            let interface = Interface::towards(remote(address), None).unwrap();
            assert_eq!(interface.name, name, "{address}");
            assert_eq!(interface, Interface::named(name).unwrap());
        }
        // A policy for the source address decides where the destination does not.
        run("ip route add 10.9.0.0/24 dev va");
        run("ip route add 10.9.0.0/24 dev vb table 7");
        run("ip rule add from 10.7.2.1 table 7");
        let by_source = |local: &str| {
            Interface::towards(remote("10.9.0.1:1"), Some(local.parse().unwrap())).unwrap().name
        };
        assert_eq!((by_source("10.7.1.1"), by_source("10.7.2.1")), ("va".into(), "vb".into()));
        let error = Interface::towards(remote("10.8.0.1:1"), None).unwrap_err();
        assert!(error.to_string().starts_with("no interface leads to 10.8.0.1: "), "{error}");
    });
}

#[test]
fn a_veth_whose_other_end_leads_nowhere_has_the_fallback() {
    in_namespace(|| {
        run("ip link add va type veth peer name vb");
        // The kernel calls a veth 10 Gbit/s fast, and knows nothing.
        assert_eq!(Interface::named("va").unwrap().anchor, Anchor::FALLBACK);
    });
}

#[test]
fn a_tun_that_is_told_its_speed_is_a_tunnel_all_the_same() {
    in_namespace(|| {
        run("ip tuntap add dev t0 mode tun");
        let anchor = Interface::named("t0").unwrap().anchor;
        assert_eq!((anchor.rate, anchor.source), (Rate::gbps(10), AnchorSource::Fallback));
    });
}

#[test]
fn an_interface_that_has_gone_is_told() {
    in_namespace(|| {
        run("ip link add va type veth peer name vb");
        Interface::named("va").unwrap();
        run("ip link del va");
        let error = Interface::named("va").unwrap_err();
        assert!(error.to_string().contains("`va`"), "{error}");
    });
}

#[test]
fn a_queue_that_keeps_no_release_times_leaves_them_to_the_timer() {
    in_namespace(|| {
        run("ip link add va type veth peer name vb");
        run("ip link set va up");
        assert_eq!(Interface::named("va").unwrap().qdisc.kind, "noqueue");
        run("tc qdisc replace dev va root pfifo_fast");
        let qdisc = Interface::named("va").unwrap().qdisc;
        assert_eq!((qdisc.kind.as_str(), qdisc.send_clock()), ("pfifo_fast", SendClock::Timer));
    });
}
