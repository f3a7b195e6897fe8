//! The QUIC host over simple worlds.
#![allow(clippy::disallowed_methods, reason = "virtual time needs an origin")]

use std::time::{Duration, Instant};

use warplink::{PathProfile, Time, link_seed};
use warprate::conn::core::Setup;
use warprate::conn::{Law, TransportConfig};
use warpsim::host::quic::{Protection, QuicHost, QuicOptions, Role, Side};
use warpsim::packet::HostId;
use warpsim::port::Port;
use warpsim::queue::{Fifo, Limit};
use warpsim::world::World;
use warpunits::{Bytes, Rate};

fn download(
    path: &PathProfile,
    law: Law,
    bytes: Bytes,
    protection: Protection,
    seed: u64,
) -> (World, HostId, HostId) {
    let mut world = World::new();
    let ports = [path.forward.clone(), path.reverse.clone()];
    let mut index = 0;
    let ports = ports.map(|profile| {
        index += 1;
        let queue = Box::new(Fifo::new(Limit::Bytes(profile.buffer())));
        world.add_port(Port::new(profile, queue, link_seed(seed, index - 1)))
    });
    let to_client = world.add_route(vec![ports[0]], HostId(0));
    let to_server = world.add_route(vec![ports[1]], HostId(1));
    let mut transport = TransportConfig::default();
    transport.initial_mtu(1452);
    let setup = Setup { law, anchor: Rate::gbps(10), transport };
    let options = |route, seed| QuicOptions {
        setup: setup.clone(),
        protection,
        seed,
        route,
        origin: Instant::now(),
        start: Time::START,
    };
    let client = world.add_host(Box::new(QuicHost::new(Role::Receive, Side::Client, options(to_server, 1))));
    let server =
        world.add_host(Box::new(QuicHost::new(Role::Send(Some(bytes)), Side::Server, options(to_client, 2))));
    world.run_until(Time::from(Duration::from_secs(100)));
    (world, client, server)
}

#[test]
fn a_fixed_rate_download_runs_at_its_rate() {
    let path = PathProfile::symmetric(Rate::gbps(1), Duration::from_millis(2)).unwrap();
    let rate = Rate::bytes_per_sec(125_000_000 * 97 / 100 * 1452 / 1518);
    for protection in [Protection::Null, Protection::Tls] {
        let bytes = Bytes::mb(100);
        let t = Instant::now();
        let (mut world, client, server) =
            download(&path, Law::fixed(rate, Bytes::mb(1)), bytes, protection, 1);
        let wall = t.elapsed();
        let progress = world.host(client).progress().unwrap();
        let sent = world.host(server).progress().unwrap();
        println!("{:?}", world.host(server).stats());
        let any: &mut dyn std::any::Any = world.host(server);
        let server = any.downcast_mut::<QuicHost>().unwrap();
        let took = progress.finished.unwrap().since_start() - sent.first_sent.unwrap().since_start();
        println!(
            "{protection:?} {} Mbit/s, wall {wall:?}, {:?}",
            800.0 / took.as_secs_f64(),
            server.connection_stats().unwrap().path
        );
        println!("{:?}", server.connection_stats().unwrap().proto.path);
    }
}

/// `quinn-proto` counts what was written in one piece against the send window until the last byte of it is
/// acknowledged: a megabyte in one piece would leave this path idle for a round trip after each.
#[test]
fn large_writes_leave_no_slow_path_idle() {
    let rtt = Duration::from_millis(600);
    let path = PathProfile::symmetric(Rate::mbps(1), rtt).unwrap();
    let rate = Rate::bytes_per_sec(125_000 * 97 / 100 * 1452 / 1518);
    let bytes = Bytes::mb(5);
    let (mut world, client, _) =
        download(&path, Law::fixed(rate, Bytes::kb(200)), bytes, Protection::Null, 1);
    let progress = world.host(client).progress().unwrap();
    let took = Duration::from(progress.finished.unwrap() - progress.connected.unwrap());
    // The server hears of the connection half a round trip later, and its last byte takes another half. Headers,
    // tags and frames are 2.4 % of a datagram. Four idle round trips would be another 5 %.
    let least = bytes / rate + rtt;
    assert!(took >= least && took < least.mul_f64(1.03), "{took:?} of {least:?}");
}
