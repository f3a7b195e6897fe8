//! UDP cross traffic: rates are exact.

mod common;

use std::any::Any;
use std::time::Duration;

use common::{Forever, ms};
use warplink::{Profile, Time};
use warpsim::host::udp::{Pattern, Sink, UdpOptions, UdpSender};
use warpsim::packet::HostId;
use warpsim::port::Port;
use warpsim::queue::{Fifo, Limit};
use warpsim::scenario::{self, Options};
use warpsim::topology::Topology;
use warpsim::world::World;
use warpunits::{Bytes, Rate};

/// Sends for `time` over a link without delay; packets that arrived, wire bytes, and the last arrival.
fn run(rate: Rate, packet: u64, pattern: Pattern, time: Duration) -> (u64, Bytes, Option<Time>) {
    let mut world = World::new();
    let profile = Profile::new(Rate::MAX, Duration::ZERO, Bytes::MAX).expect("a link");
    let port = world.add_port(Port::new(profile, Box::new(Fifo::new(Limit::Bytes(Bytes::MAX))), 1));
    let route = world.add_route(vec![port], HostId(0));
    let sink = world.add_host(Box::new(Sink::new()));
    let options = UdpOptions {
        rate,
        packet: Bytes::new(packet),
        pattern,
        start: Time::START,
        stop: Time::from(time),
        route,
    };
    world.add_host(Box::new(UdpSender::new(options)));
    world.add_host(Box::new(Forever));
    world.run_until(Time::from(time * 2));
    let progress = world.host(sink).progress().expect("a sink counts");
    let any: &mut dyn Any = world.host(sink);
    let packets = any.downcast_mut::<Sink>().expect("a sink").packets();
    (packets, progress.received, progress.last_received)
}

#[test]
fn a_constant_rate_is_exact() {
    let second = Duration::from_secs(1);
    let (packets, bytes, last) = run(Rate::mbps(10), 1250, Pattern::Constant, second);
    assert_eq!((packets, bytes), (1000, Bytes::new(1_250_000)));
    assert_eq!(last, Some(Time::from(ms(999))));
    // 1518 bytes at 7 Mbit/s do not divide evenly: the n-th packet leaves after n · 1518 / 875000 s.
    let (packets, _, last) = run(Rate::mbps(7), 1518, Pattern::Constant, second * 100);
    assert_eq!(packets, 57_642);
    let picos = (57_641u128 * 1518 * 1_000_000_000_000).div_ceil(875_000);
    assert_eq!(last.map(|last| u128::from(last.as_picos())), Some(picos));
}

#[test]
fn on_and_off_alternate_exactly() {
    let pattern = Pattern::OnOff(ms(100).into(), ms(300).into());
    let (packets, _, last) = run(Rate::mbps(10), 1250, pattern, Duration::from_secs(2));
    assert_eq!(packets, 5 * 100);
    assert_eq!(last, Some(Time::from(ms(4 * 400 + 99))));
}

#[test]
fn random_bursts_follow_their_seed_and_mean() {
    let pattern = |seed| Pattern::RandomOnOff(ms(50).into(), ms(150).into(), seed);
    let run = |seed| run(Rate::mbps(10), 1250, pattern(seed), Duration::from_secs(200));
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
    // A quarter of 200000 packets, give or take three times 2 %.
    for seed in 0..5 {
        let packets = run(seed).0;
        assert!((45_000..55_000).contains(&packets), "{packets}");
    }
}

#[test]
fn samples_of_a_link_tell_what_left_and_what_waits() {
    // Twice what the link carries: 1.25 MB/s leave and as much stays behind, until 100 kB wait. The flow
    // beside it keeps the run going, for cross traffic does not.
    let text = r#"{
        "name": "overload", "duration": "1 s",
        "links": {
            "down": { "rate": "10 Mbit/s", "delay": "1 ms", "buffer": "100 kB" },
            "there": { "rate": "1 Mbit/s", "delay": "1 ms" },
            "back": { "rate": "1 Mbit/s", "delay": "1 ms" }
        },
        "flows": [
            { "host": "udp", "rate": "20 Mbit/s", "forward": ["down"] },
            { "host": "bare", "law": "fixed", "forward": ["there"], "reverse": ["back"] }
        ]
    }"#;
    let topology = Topology::read("overload", text).expect("a topology");
    let sampled = Options { sample_every: Some(ms(40)), ..Options::default() };
    let link = &scenario::run(&topology, &sampled).expect("it runs").links[0];
    assert_eq!((link.sent_series.len(), link.queued_series.len()), (24, 24), "none at the end of the run");
    for (n, (sent, queued)) in (1..).zip(link.sent_series.iter().zip(&link.queued_series)) {
        let full_packets = |expected: u64| expected.saturating_sub(2 * 1518)..=expected + 1518;
        assert!(full_packets(50_000 * n).contains(sent), "{sent} after {n} samples");
        assert!(full_packets((50_000 * n).min(100_000)).contains(queued), "{queued} after {n} samples");
    }
    let link = &scenario::run(&topology, &Options::default()).expect("it runs").links[0];
    assert!(link.sent_series.is_empty() && link.queued_series.is_empty());
}
