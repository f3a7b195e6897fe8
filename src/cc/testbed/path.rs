//! What lies between sender and receiver.
#![cfg(test)]

use std::time::{Duration, Instant};

use super::DATAGRAM;
use crate::units::{Bytes, Rate};

/// The path and the receiver at its end.
#[derive(Debug, Clone)]
pub struct Path {
    pub rate: Rate,
    /// Two-way propagation.
    pub delay: Duration,
    /// Room in front of the link, beyond the packet on it.
    pub buffer: Bytes,
    /// Every n-th packet is lost before the queue.
    pub lose_every: Option<u64>,
    /// So many packets in a thousand are lost at random before the queue.
    pub loss_permille: u32,
    pub policer: Option<Policer>,
    /// What leaves the link before this instant takes so much longer than the rest.
    pub detour: Option<(Instant, Duration)>,
    /// Packets per acknowledgement.
    pub ack_every: usize,
    /// ACKs reach the sender at multiples of this.
    pub ack_slot: Duration,
    /// ACKs take longer by a uniform draw from zero to this, a second at most.
    pub ack_jitter: Duration,
    /// Whether a late ACK holds up those sent after it, or they overtake it.
    pub keeps_acks_in_order: bool,
    /// The backlog above which the queue marks what enters it.
    pub mark_above: Bytes,
}

/// A token bucket that drops.
#[derive(Debug, Clone)]
pub struct Policer {
    pub rate: Rate,
    pub burst: Bytes,
    tokens: Bytes,
    at: Instant,
}

impl Policer {
    /// A full bucket.
    pub fn new(now: Instant, rate: Rate, burst: Bytes) -> Self {
        Self { rate, burst, tokens: burst, at: now }
    }

    pub(super) fn admits(&mut self, now: Instant, bytes: Bytes) -> bool {
        let earned = self.rate * (now - self.at);
        if !earned.is_zero() {
            self.tokens = (self.tokens + earned).min(self.burst);
            self.at = now;
        }
        let is_admitted = self.tokens >= bytes;
        if is_admitted {
            self.tokens -= bytes;
        }
        is_admitted
    }
}

impl Path {
    /// A clean path with a buffer of one bandwidth-delay product, but 10 datagrams at least.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self {
            rate,
            delay,
            buffer: (rate * delay).max(DATAGRAM.times(10)),
            lose_every: None,
            loss_permille: 0,
            policer: None,
            detour: None,
            ack_every: 2,
            ack_slot: Duration::ZERO,
            ack_jitter: Duration::ZERO,
            keeps_acks_in_order: true,
            mark_above: Bytes::MAX,
        }
    }

    /// Bandwidth-delay product.
    pub fn bdp(&self) -> Bytes {
        self.rate * self.delay
    }

    /// The same path with another buffer.
    pub fn with_buffer(self, buffer: Bytes) -> Self {
        Self { buffer, ..self }
    }
}
