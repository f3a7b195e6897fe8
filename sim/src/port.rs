//! A port: a queue, a transmitter and a wire.
//!
//! *What it decides:* when a packet that is offered arrives at the other end, or that it does not.
//! The wire and the rate are warplink's, so the same packets meet the same fates here, in the pure
//! link model and in the UDP relay.

use std::collections::BTreeMap;

use warplink::{Loss, Profile, Span, Time, Wire};
use warpunits::Bytes;

use crate::histogram::Histogram;
use crate::packet::{Packet, RouteId};
use crate::queue::{Queue, Queued};

/// One direction of a link.
#[derive(Debug)]
pub struct Port {
    profile: Profile,
    queue: Box<dyn Queue>,
    wire: Wire,
    /// The packet in transmission, and when its last bit leaves.
    transmitting: Option<(Time, Queued)>,
    /// Packets on the wire, by arrival and order of departure.
    on_wire: BTreeMap<(Time, u64), Packet>,
    offered: u64,
    stats: PortStats,
    by_route: Vec<RouteStats>,
    sojourns: Histogram,
    last_change: Time,
    dropped: Vec<Queued>,
    watcher: Option<Box<dyn Watcher>>,
}

/// Who is told what happens at a port, for traces.
pub trait Watcher: std::fmt::Debug + Send {
    /// It has happened; `queued` wire bytes wait after it.
    fn on_event(&mut self, now: Time, event: PortEvent, packet: PacketFacts, queued: Bytes);
}

/// What a watcher learns of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketFacts {
    /// Where it goes.
    pub route: RouteId,
    /// Size on the wire.
    pub wire: Bytes,
}

impl From<&Packet> for PacketFacts {
    fn from(packet: &Packet) -> Self {
        Self { route: packet.route, wire: packet.wire }
    }
}

/// What happens to packets at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortEvent {
    /// It is taken in, to wait or to be transmitted at once.
    Offer,
    /// A full queue drops it.
    Drop,
    /// It has left and will be lost on the wire.
    Lose,
    /// It has left.
    Depart,
}

/// What a port did with the packets of one route.
#[derive(Debug, Clone, Copy, Default)]
pub struct RouteStats {
    /// Packets offered.
    pub offered: u64,
    /// Wire bytes offered.
    pub offered_bytes: Bytes,
    /// Packets dropped by a full queue.
    pub overflow_drops: u64,
    /// Wire bytes dropped by a full queue.
    pub overflow_bytes: Bytes,
    /// Packets lost on the wire.
    pub random_losses: u64,
    /// Wire bytes lost on the wire.
    pub lost_bytes: Bytes,
}

/// What a port did.
#[derive(Debug, Clone, Copy, Default)]
pub struct PortStats {
    /// Packets offered.
    pub offered: u64,
    /// Wire bytes that left the transmitter.
    pub sent: Bytes,
    /// Packets dropped by a full queue.
    pub overflow_drops: u64,
    /// Wire bytes dropped by a full queue.
    pub overflow_bytes: Bytes,
    /// Packets lost on the wire.
    pub random_losses: u64,
    /// Integral of the queue over time, in byte-picoseconds.
    pub queue_integral: u128,
    /// Sum over packets of the time that each waited, and their number.
    pub sojourn: Span,
    /// Packets that left the queue.
    pub departed: u64,
    /// The longest queue.
    pub most_queued: Bytes,
}

impl Port {
    /// An idle port.
    pub fn new(profile: Profile, queue: Box<dyn Queue>, seed: u64) -> Self {
        let wire = Wire::new(&profile, seed);
        Self {
            profile,
            queue,
            wire,
            transmitting: None,
            on_wire: BTreeMap::new(),
            offered: 0,
            stats: PortStats::default(),
            by_route: Vec::new(),
            sojourns: Histogram::new(),
            last_change: Time::START,
            dropped: Vec::new(),
            watcher: None,
        }
    }

    /// Tells `watcher` from now on what happens.
    pub fn watch(&mut self, watcher: Box<dyn Watcher>) {
        self.watcher = Some(watcher);
    }

    /// Takes in a packet; why it was lost, if it was lost at once.
    pub fn offer(&mut self, now: Time, packet: Packet) -> Option<Loss> {
        self.account(now);
        let queued = Queued { packet, draw: self.offered, since: now };
        self.offered += 1;
        self.stats.offered += 1;
        let route = self.route(&queued.packet);
        route.offered += 1;
        route.offered_bytes += queued.packet.wire;
        let (draw, facts) = (queued.draw, PacketFacts::from(&queued.packet));
        if self.transmitting.is_none() {
            self.tell(now, PortEvent::Offer, facts);
            self.transmit(now, queued);
            return None;
        }
        let dropped = self.queue.push(now, queued);
        if dropped.as_ref().is_none_or(|dropped| dropped.draw != draw) {
            self.tell(now, PortEvent::Offer, facts);
        }
        let dropped = dropped?;
        self.on_overflow(now, &dropped);
        Some(Loss::Overflow)
    }

    /// When something happens next without our doing.
    pub fn next_event(&self) -> Time {
        let transmitted = self.transmitting.as_ref().map_or(Time::NEVER, |(at, _)| *at);
        let arriving = self.on_wire.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at);
        transmitted.min(arriving)
    }

    /// Lets happen what is due at `now`, and hands over what arrives.
    pub fn advance(&mut self, now: Time, arrived: &mut Vec<Packet>) {
        while let Some((at, _)) = self.transmitting.as_ref().filter(|(at, _)| *at <= now) {
            let at = *at;
            let (_, queued) = self.transmitting.take().expect("it was just looked at");
            self.account(at);
            self.launch(at, queued);
            if let Some(next) = self.queue.pop(at, &mut self.dropped) {
                self.transmit(at, next);
            }
            if !self.dropped.is_empty() {
                for dropped in std::mem::take(&mut self.dropped) {
                    self.on_overflow(at, &dropped);
                }
            }
        }
        while let Some(entry) = self.on_wire.first_entry().filter(|entry| entry.key().0 <= now) {
            arrived.push(entry.remove());
        }
    }

    /// Wire bytes that wait.
    pub fn queued(&self) -> Bytes {
        self.queue.bytes()
    }

    /// What the port did until `now`.
    pub fn stats(&mut self, now: Time) -> PortStats {
        self.account(now);
        self.stats
    }

    /// What the port did with the packets of one route.
    pub fn route_stats(&self, RouteId(route): RouteId) -> RouteStats {
        self.by_route.get(route).copied().unwrap_or_default()
    }

    /// How long packets waited.
    pub fn sojourns(&self) -> &Histogram {
        &self.sojourns
    }

    /// What the link is like.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    fn transmit(&mut self, now: Time, queued: Queued) {
        let waited = now - queued.since;
        self.sojourns.add(waited);
        self.stats.sojourn = self.stats.sojourn + waited;
        self.stats.departed += 1;
        let done = self.profile.finish(now, queued.packet.wire);
        self.transmitting = Some((done, queued));
    }

    fn launch(&mut self, now: Time, queued: Queued) {
        self.stats.sent += queued.packet.wire;
        match self.wire.carry(queued.draw, now) {
            Some(at) => {
                self.tell(now, PortEvent::Depart, (&queued.packet).into());
                self.on_wire.insert((at, queued.draw), queued.packet);
            }
            None => {
                self.tell(now, PortEvent::Lose, (&queued.packet).into());
                self.stats.random_losses += 1;
                let route = self.route(&queued.packet);
                route.random_losses += 1;
                route.lost_bytes += queued.packet.wire;
            }
        }
    }

    fn on_overflow(&mut self, now: Time, dropped: &Queued) {
        self.tell(now, PortEvent::Drop, (&dropped.packet).into());
        self.stats.overflow_drops += 1;
        self.stats.overflow_bytes += dropped.packet.wire;
        let route = self.route(&dropped.packet);
        route.overflow_drops += 1;
        route.overflow_bytes += dropped.packet.wire;
    }

    fn route(&mut self, packet: &Packet) -> &mut RouteStats {
        let RouteId(route) = packet.route;
        if self.by_route.len() <= route {
            self.by_route.resize(route + 1, RouteStats::default());
        }
        &mut self.by_route[route]
    }

    fn tell(&mut self, now: Time, event: PortEvent, packet: PacketFacts) {
        if let Some(watcher) = &mut self.watcher {
            watcher.on_event(now, event, packet, self.queue.bytes());
        }
    }

    /// Brings the queue's integral up to `now`.
    fn account(&mut self, now: Time) {
        let bytes = self.queue.bytes();
        self.stats.queue_integral +=
            u128::from(bytes.get()) * u128::from((now - self.last_change).as_picos());
        self.stats.most_queued = self.stats.most_queued.max(bytes);
        self.last_change = self.last_change.max(now);
    }
}
