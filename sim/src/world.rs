//! The world: hosts, ports and routes under one event queue.
//!
//! Events have a total order: time, then the order in which they were scheduled. A port or a host is in
//! the queue once for its earliest moment; an entry that turns out to be early is put back, so that a
//! timer which moves with every packet costs no entry each time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use warplink::Time;

use crate::host::{Context, Host};
use crate::packet::{HostId, Packet, PortId, RouteId};
use crate::port::Port;

/// Everything there is.
pub struct World {
    now: Time,
    sequence: u64,
    events: BinaryHeap<Reverse<(Time, u64, Source)>>,
    hosts: Vec<HostSlot>,
    ports: Vec<PortSlot>,
    routes: Vec<Route>,
    outbox: Vec<Packet>,
    arrived: Vec<Packet>,
    /// Hosts that have not finished.
    unfinished: usize,
}

/// Where events come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Host(usize),
    Port(usize),
}

struct HostSlot {
    host: Box<dyn Host>,
    /// The moment of its entry in the event queue.
    scheduled: Time,
    is_finished: bool,
}

struct PortSlot {
    port: Port,
    scheduled: Time,
}

/// The ports that packets pass, and who gets them.
struct Route {
    ports: Vec<PortId>,
    to: HostId,
}

impl World {
    /// An empty world at time zero.
    pub fn new() -> Self {
        Self {
            now: Time::START,
            sequence: 0,
            events: BinaryHeap::new(),
            hosts: Vec::new(),
            ports: Vec::new(),
            routes: Vec::new(),
            outbox: Vec::new(),
            arrived: Vec::new(),
            unfinished: 0,
        }
    }

    /// Adds a port.
    pub fn add_port(&mut self, port: Port) -> PortId {
        self.ports.push(PortSlot { port, scheduled: Time::NEVER });
        PortId(self.ports.len() - 1)
    }

    /// Adds a route through `ports` to `to`, which may be added later.
    pub fn add_route(&mut self, ports: Vec<PortId>, to: HostId) -> RouteId {
        self.routes.push(Route { ports, to });
        RouteId(self.routes.len() - 1)
    }

    /// Adds a host, which acts first at its own `next_wake`.
    pub fn add_host(&mut self, host: Box<dyn Host>) -> HostId {
        self.hosts.push(HostSlot { host, scheduled: Time::NEVER, is_finished: false });
        self.unfinished += 1;
        let id = HostId(self.hosts.len() - 1);
        self.schedule_host(id.0);
        id
    }

    /// The id that the next host will get.
    pub fn next_host(&self) -> HostId {
        HostId(self.hosts.len())
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A host.
    pub fn host(&mut self, id: HostId) -> &mut dyn Host {
        self.hosts[id.0].host.as_mut()
    }

    /// A port.
    pub fn port(&mut self, id: PortId) -> &mut Port {
        &mut self.ports[id.0].port
    }

    /// Runs until `end`, or until nothing is left to happen, or until every host has finished.
    pub fn run_until(&mut self, end: Time) {
        // The caller may have changed hosts since.
        for id in 0..self.hosts.len() {
            self.schedule_host(id);
        }
        while self.step(end) {}
    }

    /// Lets the next event happen, unless it lies beyond `end` or every host has finished.
    pub fn step(&mut self, end: Time) -> bool {
        if self.is_finished() {
            return false;
        }
        let Some(next) = self.events.peek_mut().filter(|next| next.0.0 <= end) else { return false };
        let Reverse((at, _, source)) = PeekMut::pop(next);
        self.now = at;
        match source {
            Source::Host(host) => self.on_host_event(host),
            Source::Port(port) => self.on_port_event(port),
        }
        true
    }

    /// Whether every host has finished.
    pub fn is_finished(&self) -> bool {
        self.unfinished == 0
    }

    fn on_host_event(&mut self, id: usize) {
        let slot = &mut self.hosts[id];
        if slot.scheduled != self.now {
            // Replaced by an earlier entry since.
            return;
        }
        slot.scheduled = Time::NEVER;
        if slot.host.next_wake() <= self.now {
            slot.host.wake(&mut Context { now: self.now, outbox: &mut self.outbox });
            self.send_outbox();
        }
        self.schedule_host(id);
    }

    fn on_port_event(&mut self, id: usize) {
        let slot = &mut self.ports[id];
        if slot.scheduled != self.now {
            return;
        }
        slot.scheduled = Time::NEVER;
        let mut arrived = std::mem::take(&mut self.arrived);
        slot.port.advance(self.now, &mut arrived);
        self.schedule_port(id);
        for mut packet in arrived.drain(..) {
            packet.hop += 1;
            self.forward(packet);
        }
        self.arrived = arrived;
    }

    fn send_outbox(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        let mut outbox = std::mem::take(&mut self.outbox);
        for packet in outbox.drain(..) {
            self.forward(packet);
        }
        self.outbox = outbox;
    }

    /// Offers a packet to the next port of its route, or hands it to its host.
    fn forward(&mut self, packet: Packet) {
        let route = &self.routes[packet.route.0];
        match route.ports.get(packet.hop) {
            Some(&PortId(port)) => {
                self.ports[port].port.offer(self.now, packet);
                self.schedule_port(port);
            }
            None => {
                let HostId(host) = route.to;
                self.hosts[host]
                    .host
                    .receive(packet, &mut Context { now: self.now, outbox: &mut self.outbox });
                self.send_outbox();
                self.schedule_host(host);
            }
        }
    }

    fn schedule_host(&mut self, id: usize) {
        let slot = &mut self.hosts[id];
        let at = slot.host.next_wake().max(self.now);
        let is_finished = slot.host.is_finished();
        if is_finished != slot.is_finished {
            slot.is_finished = is_finished;
            self.unfinished = if is_finished { self.unfinished - 1 } else { self.unfinished + 1 };
        }
        if at < slot.scheduled {
            slot.scheduled = at;
            self.push(at, Source::Host(id));
        }
    }

    fn schedule_port(&mut self, id: usize) {
        let slot = &mut self.ports[id];
        let at = slot.port.next_event();
        if at < slot.scheduled {
            slot.scheduled = at;
            self.push(at, Source::Port(id));
        }
    }

    fn push(&mut self, at: Time, source: Source) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, source)));
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}
