//! One direction of a path, as a pure function.
//!
//! *What it decides:* when a packet that is offered now arrives, or that it does not. *In:* the
//! moment, the packet's size in wire bytes, and what the link remembers of earlier packets. *Out:*
//! a [`Fate`]. It has no clock, no socket and no floating point: the same profile, seed and packets
//! give the same fates on every machine. *May import:* units, `time`, `profile`, `wire`.
//!
//! A link is a first-in-first-out queue and its transmitter, then a [`Wire`]. For packet n of size
//! S, offered at t:
//! ```text
//! starts   = max(t, departed of the packet before)   needs room in the buffer if later than t
//! departed = profile.finish(starts, S)
//! fate     = wire.carry(n, departed)                 after the queue: the transmitter's time is spent
//! ```

use std::collections::VecDeque;

use warpunits::Bytes;

use crate::profile::Profile;
use crate::time::{Span, Time};
use crate::wire::Wire;

/// A link with its state.
#[derive(Clone, Debug)]
pub struct Link {
    profile: Profile,
    wire: Wire,
    /// Packets offered so far; numbers the random draws.
    offered: u64,
    /// The latest moment seen, so that time never runs backwards.
    now: Time,
    /// When the transmitter will have sent all it holds.
    idle_at: Time,
    /// Packets whose transmission has not begun at `now`, in order.
    waiting: VecDeque<Waiting>,
    waiting_bytes: Bytes,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Delivered {
        /// When its last bit reaches the far end.
        at: Time,
        /// When its last bit leaves the transmitter.
        departed: Time,
    },
    /// It does not.
    Lost(Loss),
}

/// Why a packet does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The buffer had no room for it.
    Overflow,
    /// It left the transmitter and was lost on the way.
    Random,
}

/// What waits before the transmitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Wire bytes in the buffer, without the packet in transmission.
    pub bytes: Bytes,
    /// How long a packet offered now would wait before its first bit leaves: the time until
    /// everything before it is sent, the rest of the packet in transmission included.
    pub sojourn: Span,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    starts: Time,
    size: Bytes,
}

impl Link {
    /// An idle link. Links of one run need different seeds: see [`link_seed`](crate::link_seed).
    pub fn new(profile: Profile, seed: u64) -> Self {
        Self {
            wire: Wire::new(&profile, seed),
            profile,
            offered: 0,
            now: Time::START,
            idle_at: Time::START,
            waiting: VecDeque::new(),
            waiting_bytes: Bytes::ZERO,
        }
    }

    /// Offers a packet of `size` wire bytes.
    ///
    /// A `now` earlier than an earlier call's counts as that call's.
    pub fn offer(&mut self, now: Time, size: Bytes) -> Fate {
        let draw = self.offered;
        self.offered += 1;
        self.advance(now);
        let Some(departed) = self.transmit(size) else {
            return Fate::Lost(Loss::Overflow);
        };
        match self.wire.carry(draw, departed) {
            Some(at) => Fate::Delivered { at, departed },
            None => Fate::Lost(Loss::Random),
        }
    }

    /// What waits at `now`, which should not lie before the latest [`offer`](Self::offer).
    pub fn queue(&self, now: Time) -> Queue {
        let started: Bytes =
            self.waiting.iter().take_while(|packet| packet.starts <= now).map(|packet| packet.size).sum();
        Queue { bytes: self.waiting_bytes - started, sojourn: self.idle_at - now }
    }

    /// When the transmitter has sent all that it holds: a packet offered then, and no earlier,
    /// neither waits nor leaves a gap.
    pub fn idle_at(&self) -> Time {
        self.idle_at
    }

    /// What the link is like.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Lets the transmitter take from the queue what it has begun by `now`.
    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some(packet) = self.waiting.front().filter(|packet| packet.starts <= self.now) {
            self.waiting_bytes -= packet.size;
            self.waiting.pop_front();
        }
    }

    /// When the packet's last bit leaves the transmitter, or `None` if the buffer has no room.
    fn transmit(&mut self, size: Bytes) -> Option<Time> {
        let starts = self.idle_at.max(self.now);
        if starts > self.now {
            let filled = self.waiting_bytes + size;
            if filled > self.profile.buffer() {
                return None;
            }
            self.waiting_bytes = filled;
            self.waiting.push_back(Waiting { starts, size });
        }
        self.idle_at = self.profile.finish(starts, size);
        Some(self.idle_at)
    }
}

/// What a UDP payload weighs on an Ethernet wire: with UDP and IP headers (28 bytes, or 48 for IPv6)
/// and Ethernet's framing (38 bytes: preamble, header, checksum and gap).
pub fn wire_bytes(payload: Bytes, ipv6: bool) -> Bytes {
    payload + if ipv6 { UDP_IPV6_HEADERS } else { UDP_IPV4_HEADERS } + ETHERNET_FRAMING
}

const UDP_IPV4_HEADERS: Bytes = Bytes::new(8 + 20);
const UDP_IPV6_HEADERS: Bytes = Bytes::new(8 + 40);
/// Preamble 8, addresses and type 14, checksum 4, inter-packet gap 12.
const ETHERNET_FRAMING: Bytes = Bytes::new(38);
