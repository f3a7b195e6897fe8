//! Two hosts and the path between them.
#![allow(dead_code, reason = "each test crate uses its own part")]
#![allow(clippy::disallowed_methods, reason = "virtual time needs an origin")]

use std::any::Any;
use std::time::{Duration, Instant};

use warplink::{PathProfile, Time, link_seed};
use warpsim::host::{Context, FlowHost, FlowStats, Host, Progress};
use warpsim::packet::{HostId, Packet, PortId, RouteId};
use warpsim::port::{Port, PortStats};
use warpsim::queue::{Fifo, Limit};
use warpsim::world::World;

/// A client and a server; the server's packets take the path's forward direction.
pub struct Pair {
    pub world: World,
    pub client: HostId,
    pub server: HostId,
    pub forward: PortId,
    pub reverse: PortId,
}

/// Routes to the client and to the server, and the origin of time.
pub struct Way {
    pub to_client: RouteId,
    pub to_server: RouteId,
    pub origin: Instant,
}

impl Pair {
    /// Client and server as `make` makes them.
    pub fn new(
        path: &PathProfile,
        seed: u64,
        make: impl FnOnce(&Way) -> (Box<dyn Host>, Box<dyn Host>),
    ) -> Self {
        let mut world = World::new();
        let mut port = |profile: &warplink::Profile, index| {
            let queue = Box::new(Fifo::new(Limit::Bytes(profile.buffer())));
            world.add_port(Port::new(profile.clone(), queue, link_seed(seed, index)))
        };
        let (forward, reverse) = (port(&path.forward, 0), port(&path.reverse, 1));
        let way = Way {
            to_client: world.add_route(vec![forward], HostId(0)),
            to_server: world.add_route(vec![reverse], HostId(1)),
            origin: origin(),
        };
        let (client, server) = make(&way);
        Self { client: world.add_host(client), server: world.add_host(server), forward, reverse, world }
    }

    /// Runs until both have finished, for so long at most.
    pub fn run(&mut self, most: Duration) {
        self.world.run_until(Time::from(most));
    }

    pub fn progress(&mut self, host: HostId) -> Progress {
        self.world.host(host).progress().expect("it has an application")
    }

    pub fn stats(&mut self, host: HostId) -> FlowStats {
        self.world.host(host).stats().expect("it sends")
    }

    pub fn port(&mut self, port: PortId) -> PortStats {
        let now = self.world.now();
        self.world.port(port).stats(now)
    }

    pub fn flow(&mut self, host: HostId) -> &mut FlowHost {
        let any: &mut dyn Any = self.world.host(host);
        any.downcast_mut().expect("it is not batched")
    }

    /// From the server's first datagram with data to the client's last byte.
    pub fn download_time(&mut self) -> Duration {
        let first = self.progress(self.server).first_sent.expect("data left");
        let finished = self.progress(self.client).finished.expect("the download finishes");
        (finished - first).into()
    }
}

/// Keeps a run going.
pub struct Forever;

impl Host for Forever {
    fn wake(&mut self, _cx: &mut Context<'_>) {}

    fn receive(&mut self, _packet: Packet, _cx: &mut Context<'_>) {}

    fn next_wake(&mut self) -> Time {
        Time::NEVER
    }

    fn is_finished(&self) -> bool {
        false
    }
}

/// The instant that stands for time zero.
pub fn origin() -> Instant {
    Instant::now()
}

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
