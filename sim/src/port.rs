//! A port: a queue, a transmitter and a wire.
//!
//! *What it decides:* when a packet that is offered arrives at the other end, or that it does not.
//! The wire and the rate are warplink's, so the same packets meet the same fates here, in the pure
//! link model and in the UDP relay.

use std::collections::BTreeMap;

use warplink::{Loss, Profile, Span, Time, Wire};
use warpunits::Bytes;

use crate::packet::Packet;
use crate::queue::{Queue, Queued};

/// One direction of a link.
#[derive(Debug)]
pub struct Port {
    profile: Profile,
    queue: Box<dyn Queue>,
    wire: Wire,
    /// The packet in transmission, and when its last bit leaves.
    transmitting: Option<(Time, Queued)>,
    /// Packets on the wire, by arrival; those of one moment in the order in which they departed.
    on_wire: BTreeMap<(Time, u64), Packet>,
    offered: u64,
    stats: PortStats,
    last_change: Time,
    dropped: Vec<Queued>,
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
            last_change: Time::START,
            dropped: Vec::new(),
        }
    }

    /// Takes in a packet; why it was lost, if it was lost at once.
    pub fn offer(&mut self, now: Time, packet: Packet) -> Option<Loss> {
        self.account(now);
        let queued = Queued { packet, draw: self.offered, since: now };
        self.offered += 1;
        self.stats.offered += 1;
        if self.transmitting.is_none() {
            self.transmit(now, queued);
            return None;
        }
        let dropped = self.queue.push(now, queued)?;
        self.on_overflow(&dropped);
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
            for dropped in std::mem::take(&mut self.dropped) {
                self.on_overflow(&dropped);
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

    /// What the link is like.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    fn transmit(&mut self, now: Time, queued: Queued) {
        self.stats.sojourn = self.stats.sojourn + (now - queued.since);
        self.stats.departed += 1;
        let done = self.profile.finish(now, queued.packet.wire);
        self.transmitting = Some((done, queued));
    }

    fn launch(&mut self, now: Time, queued: Queued) {
        self.stats.sent += queued.packet.wire;
        match self.wire.carry(queued.draw, now) {
            Some(at) => {
                self.on_wire.insert((at, self.stats.departed), queued.packet);
            }
            None => self.stats.random_losses += 1,
        }
    }

    fn on_overflow(&mut self, dropped: &Queued) {
        self.stats.overflow_drops += 1;
        self.stats.overflow_bytes += dropped.packet.wire;
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
