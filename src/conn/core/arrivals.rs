//! Datagrams that have come, in the order in which the state machine is to see them.

use std::time::Instant;

use quinn_proto::ConnectionEvent;

use super::Core;
use crate::conn::head::Head;
use crate::signal::PacketNumber;

impl Core {
    /// Takes in a datagram, in its turn: `head` is its beginning, and `event` what the endpoint made of it.
    pub fn handle_datagram(&mut self, now: Instant, head: &Head, event: ConnectionEvent) {
        self.since_full = if head.is_full() { 0 } else { self.since_full.saturating_add(1) };
        let next = self.resequencer.next();
        match self.number_ahead(head).filter(|number| *number > next) {
            Some(number) => self.resequencer.keep(now, number, event),
            None => self.open(now, now, event),
        }
        self.hand_on(now);
    }

    /// Hands on what has waited for its turn, and what waits no longer.
    pub(super) fn hand_on(&mut self, now: Instant) {
        while let Some((arrived, event)) = self.resequencer.take(now) {
            self.open(now, arrived, event);
        }
    }

    fn open(&mut self, now: Instant, arrived: Instant, event: ConnectionEvent) {
        self.handle_event(now, event);
        if let Some(number) = self.tap.take_opened() {
            self.resequencer.on_opened(arrived, number);
        }
    }

    /// The number of a datagram that may have to wait. The acknowledgements of a peer that sends nothing else do
    /// not: the newest says more than those before it.
    fn number_ahead(&self, head: &Head) -> Option<PacketNumber> {
        if self.resequencer.patience().is_zero() || self.since_full > MOST_SMALL || !head.may_wait() {
            return None;
        }
        head.number(self.tap.header_key()?, self.resequencer.next())
    }
}

/// A peer that sends bulk data sends no more small datagrams in a row, such as acknowledgements and ends of streams.
const MOST_SMALL: u32 = 8;
