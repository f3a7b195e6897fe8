//! Queues: what waits before a transmitter.
//!
//! One trait for every discipline. Those that drop or mark when a packet leaves (CoDel, PIE) do it in
//! [`pop`](Queue::pop), those that do it on arrival in [`push`](Queue::push).

use std::collections::VecDeque;

use warplink::Time;
use warpunits::Bytes;

use crate::packet::Packet;

/// A packet in a queue.
#[derive(Debug)]
pub struct Queued {
    /// The packet.
    pub packet: Packet,
    /// Its number among the packets offered to the port: it names its random draws on the wire.
    pub draw: u64,
    /// When it came.
    pub since: Time,
}

/// A queue discipline. The packet in transmission is not in the queue.
pub trait Queue: std::fmt::Debug {
    /// Takes a packet in, or returns one that is dropped for it: the newcomer or another.
    fn push(&mut self, now: Time, queued: Queued) -> Option<Queued>;

    /// The next packet to transmit; what is dropped on the way goes to `dropped`.
    fn pop(&mut self, now: Time, dropped: &mut Vec<Queued>) -> Option<Queued>;

    /// Bytes that wait.
    fn bytes(&self) -> Bytes;
}

/// How much a [`Fifo`] holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// So many wire bytes.
    Bytes(Bytes),
    /// So many packets.
    Packets(usize),
}

/// First in, first out; what does not fit is dropped on arrival.
#[derive(Debug)]
pub struct Fifo {
    limit: Limit,
    waiting: VecDeque<Queued>,
    bytes: Bytes,
}

impl Fifo {
    /// An empty queue.
    pub fn new(limit: Limit) -> Self {
        Self { limit, waiting: VecDeque::new(), bytes: Bytes::ZERO }
    }
}

impl Queue for Fifo {
    fn push(&mut self, _now: Time, queued: Queued) -> Option<Queued> {
        let has_room = match self.limit {
            Limit::Bytes(limit) => self.bytes + queued.packet.wire <= limit,
            Limit::Packets(limit) => self.waiting.len() < limit,
        };
        if !has_room {
            return Some(queued);
        }
        self.bytes += queued.packet.wire;
        self.waiting.push_back(queued);
        None
    }

    fn pop(&mut self, _now: Time, _dropped: &mut Vec<Queued>) -> Option<Queued> {
        let queued = self.waiting.pop_front()?;
        self.bytes -= queued.packet.wire;
        Some(queued)
    }

    fn bytes(&self) -> Bytes {
        self.bytes
    }
}
