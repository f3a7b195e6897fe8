//! Data packets simulated per wall second.
//!
//! `cargo bench -p warpsim --bench packets [-- bare|lossy|tcp|quic]`: each host moves a gigabyte over a
//! 10 Gbit/s link with a round trip of 10 ms under `fixed`, on one thread; `lossy` is the bare host with
//! 5 % loss. The best of three runs.
//!
//! On a two-core EPYC guest shared with other builds, per second of CPU time: bare 3.5 M packets, quic
//! 0.63 M; per wall second, as the load varied: bare 2.4 to 3.5 M, lossy 1.7 to 2.0 M, tcp 1.6 to 2.2 M,
//! quic 0.38 to 0.59 M. Targets: bare 2 M, quic 0.4 M.
//!
//! `ns3/run` runs the same dumbbell in Debian's ns-3 3.37 beside it. Per second of CPU time on that guest:
//! bare 3.4 M and ns-3's udp 0.14 to 0.23 M; tcp 2.1 M and ns-3's tcp 0.022 M.
#![allow(clippy::disallowed_methods, reason = "a bench measures wall time")]

use std::time::{Duration, Instant};

use warplink::{PathProfile, Probability, Time, link_seed};
use warprate::cc::{Fixed, PathStart};
use warprate::conn::core::Setup;
use warprate::conn::{Law, TransportConfig};
use warpsim::host::quic::{Protection, QuicHost, QuicOptions, Role, Side};
use warpsim::host::{Host, Traffic, bare, tcp};
use warpsim::packet::{HostId, RouteId};
use warpsim::port::Port;
use warpsim::queue::{Fifo, Limit};
use warpsim::world::World;
use warpunits::{Bytes, Gain, Rate};

const LINK: Rate = Rate::gbps(10);
const RTT: Duration = Duration::from_millis(10);
const TRANSFER: Bytes = Bytes::mb(1000);

/// Two hosts and the path between them.
struct Pair {
    world: World,
    receiver: HostId,
    sender: HostId,
}

fn pair(loss: Probability, make: impl FnOnce(RouteId, RouteId) -> (Box<dyn Host>, Box<dyn Host>)) -> Pair {
    let mut world = World::new();
    let path = PathProfile::symmetric(LINK, RTT).expect("a path").with_data_loss(loss);
    let ports = [path.forward, path.reverse].map(|profile| {
        let queue = Box::new(Fifo::new(Limit::Bytes(profile.buffer())));
        world.add_port(Port::new(profile, queue, link_seed(1, 0)))
    });
    let to_receiver = world.add_route(vec![ports[0]], HostId(0));
    let to_sender = world.add_route(vec![ports[1]], HostId(1));
    let (receiver, sender) = make(to_sender, to_receiver);
    Pair { receiver: world.add_host(receiver), sender: world.add_host(sender), world }
}

fn rate() -> Rate {
    LINK * Gain::percent(97) * Gain::ratio(1452, 1518)
}

fn window() -> Bytes {
    rate() * (RTT * 2)
}

fn law(_: PathStart) -> Fixed {
    Fixed::new(rate(), window())
}

fn bare_pair(origin: Instant) -> Pair {
    bare_pair_over(Probability::ZERO, origin)
}

fn lossy_pair(origin: Instant) -> Pair {
    bare_pair_over(Probability::percent(5), origin)
}

fn bare_pair_over(loss: Probability, origin: Instant) -> Pair {
    pair(loss, |to_sender, to_receiver| {
        let receiver = bare::host(Traffic::Receive, bare::options(law, to_sender, origin));
        let sender = bare::host(Traffic::Send(Some(TRANSFER)), bare::options(law, to_receiver, origin));
        (receiver.into_host(), sender.into_host())
    })
}

fn tcp_pair(origin: Instant) -> Pair {
    pair(Probability::ZERO, |to_sender, to_receiver| {
        let receiver = tcp::host(Traffic::Receive, tcp::options(law, to_sender, origin));
        let sender = tcp::host(Traffic::Send(Some(TRANSFER)), tcp::options(law, to_receiver, origin));
        (receiver.into_host(), sender.into_host())
    })
}

fn quic_pair(origin: Instant) -> Pair {
    pair(Probability::ZERO, |to_sender, to_receiver| {
        let mut transport = TransportConfig::default();
        transport.initial_mtu(1452);
        let setup = Setup { law: Law::fixed(rate(), window()), anchor: LINK, transport };
        let options = |route, seed| QuicOptions {
            setup: setup.clone(),
            protection: Protection::Null,
            seed,
            route,
            origin,
            start: Time::START,
        };
        let receiver = QuicHost::new(Role::Receive, Side::Client, options(to_sender, 1));
        let sender = QuicHost::new(Role::Send(Some(TRANSFER)), Side::Server, options(to_receiver, 2));
        (Box::new(receiver), Box::new(sender))
    })
}

/// Makes a pair of hosts; the instant stands for time zero.
type Make = fn(Instant) -> Pair;

fn run(name: &str, make: Make) {
    let mut best = Duration::MAX;
    let mut packets = 0;
    let mut took = Duration::ZERO;
    for _ in 0..3 {
        let mut pair = make(Instant::now());
        let begin = Instant::now();
        pair.world.run_until(Time::from(Duration::from_secs(60)));
        best = best.min(begin.elapsed());
        packets = pair.world.host(pair.sender).stats().expect("it sent").datagrams_sent;
        let finished = pair.world.host(pair.receiver).progress().and_then(|progress| progress.finished);
        took = finished.expect("it finishes").since_start();
    }
    let per_second = packets as f64 / best.as_secs_f64();
    println!(
        "{name:5} {packets} packets in {:.3} s wall, {:.3} s simulated: {:.0} packets/s",
        best.as_secs_f64(),
        took.as_secs_f64(),
        per_second
    );
}

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let hosts: [(&str, Make); 4] =
        [("bare", bare_pair), ("lossy", lossy_pair), ("tcp", tcp_pair), ("quic", quic_pair)];
    for (name, make) in hosts {
        if chosen.is_empty() || chosen.iter().any(|arg| arg == name) {
            run(name, make);
        }
    }
}
