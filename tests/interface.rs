//! What the kernel tells of interfaces, asked for in network namespaces that the tests make.
//!
//! They need root; elsewhere each says so and passes.
#![cfg(target_os = "linux")]

mod common;

use std::net::SocketAddr;

use common::namespace::{in_namespace, run};
use warprate::conn::{Anchor, AnchorSource, Interface, SendClock};
use warprate::units::Rate;

fn remote(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn the_route_chooses_the_interface() {
    in_namespace(|| {
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
