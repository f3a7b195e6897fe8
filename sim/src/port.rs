//! A port: a queue, a transmitter and a wire.
//!
//! *What it decides:* when a packet that is offered arrives at the other end, or that it does not.
//! The wire and the rate are warplink's, so the same packets meet the same fates here, in the pure
//! link model and in the UDP relay.
//!
//! The end of a transmission is no event of its own: nothing outside can notice it before the packet
//! could arrive. The port catches up with its transmitter whenever it is asked for anything, so that a
//! packet costs one event instead of two.

use std::collections::{BTreeMap, VecDeque};

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
    /// Nothing that is not on the wire yet arrives earlier.
    earliest_arrival: Time,
    /// No packet takes less from its departure to its arrival.
    least_transit: Span,
    on_wire: OnWire,
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
            least_transit: least_transit(&profile),
            profile,
            queue,
            wire,
            transmitting: None,
            earliest_arrival: Time::NEVER,
            on_wire: OnWire::default(),
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
        self.catch_up(now);
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

    /// When something happens next without our doing; it may turn out that nothing does.
    pub fn next_event(&self) -> Time {
        // Whoever watches is told of departures when they happen.
        let departure = match (&self.watcher, &self.transmitting) {
            (Some(_), Some((at, _))) => *at,
            _ => Time::NEVER,
        };
        departure.min(self.earliest_arrival).min(self.on_wire.next_arrival())
    }

    /// Lets happen what is due at `now`, and hands over what arrives.
    pub fn advance(&mut self, now: Time, arrived: &mut Vec<Packet>) {
        self.catch_up(now);
        while let Some(packet) = self.on_wire.pop(now) {
            arrived.push(packet);
        }
    }

    /// Wire bytes that wait at `now`.
    pub fn queued(&mut self, now: Time) -> Bytes {
        self.catch_up(now);
        self.queue.bytes()
    }

    /// What the port did until `now`.
    pub fn stats(&mut self, now: Time) -> PortStats {
        self.catch_up(now);
        self.account(now);
        self.stats
    }

    /// What the port did with the packets of one route until `now`.
    pub fn route_stats(&mut self, now: Time, RouteId(route): RouteId) -> RouteStats {
        self.catch_up(now);
        self.by_route.get(route).copied().unwrap_or_default()
    }

    /// How long packets waited that have left the queue.
    pub fn sojourns(&self) -> &Histogram {
        &self.sojourns
    }

    /// What the link is like.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Ends the transmissions that are over by `now`.
    fn catch_up(&mut self, now: Time) {
        while let Some((at, queued)) = self.transmitting.take_if(|(at, _)| *at <= now) {
            self.earliest_arrival = Time::NEVER;
            self.account(at);
            self.launch(at, queued);
            if let Some(next) = self.queue.pop(at, &mut self.dropped) {
                self.transmit(at, next);
            }
            while let Some(dropped) = self.dropped.pop() {
                self.on_overflow(at, &dropped);
            }
        }
    }

    fn transmit(&mut self, now: Time, queued: Queued) {
        let waited = now - queued.since;
        self.sojourns.add(waited);
        self.stats.sojourn = self.stats.sojourn + waited;
        self.stats.departed += 1;
        let done = self.profile.finish(now, queued.packet.wire);
        self.earliest_arrival = done + self.least_transit;
        self.transmitting = Some((done, queued));
    }

    fn launch(&mut self, now: Time, queued: Queued) {
        self.stats.sent += queued.packet.wire;
        match self.wire.carry(queued.draw, now) {
            Some(at) => {
                self.tell(now, PortEvent::Depart, (&queued.packet).into());
                self.on_wire.push(at, queued.packet);
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

/// Packets on the wire, in the order of their arrival and, where that is the same, of their departure.
#[derive(Debug, Default)]
struct OnWire {
    /// Those that arrive no earlier than any that departed before them.
    in_order: VecDeque<(Time, Packet)>,
    /// Those that overtake, by arrival and number.
    overtaking: BTreeMap<(Time, u64), Packet>,
    overtakers: u64,
}

impl OnWire {
    fn push(&mut self, at: Time, packet: Packet) {
        if self.in_order.back().is_none_or(|(last, _)| *last <= at) {
            self.in_order.push_back((at, packet));
        } else {
            self.overtakers += 1;
            self.overtaking.insert((at, self.overtakers), packet);
        }
    }

    fn next_arrival(&self) -> Time {
        let in_order = self.in_order.front().map_or(Time::NEVER, |(at, _)| *at);
        self.overtaking.first_key_value().map_or(in_order, |((at, _), _)| in_order.min(*at))
    }

    /// The next packet that has arrived by `now`. Of two that arrive together, the one in order departed
    /// before the one that overtakes: when the latter departed, a packet with a later arrival was last.
    fn pop(&mut self, now: Time) -> Option<Packet> {
        let at = self.next_arrival();
        if at > now || at == Time::NEVER {
            return None;
        }
        match self.in_order.front() {
            Some((first, _)) if *first == at => self.in_order.pop_front().map(|(_, packet)| packet),
            _ => self.overtaking.pop_first().map(|(_, packet)| packet),
        }
    }
}

/// The least delay, less the most by which jitter can shorten it.
fn least_transit(profile: &Profile) -> Span {
    let delay = Span::from(profile.least_delay()).as_picos();
    let sigma = Span::from(profile.jitter().sigma()).as_picos();
    Span::from_picos(delay.saturating_sub(sigma.saturating_mul(MOST_SIGMAS)))
}

/// `warplink`'s normal deviates end at 6.3 standard deviations.
const MOST_SIGMAS: u64 = 7;
