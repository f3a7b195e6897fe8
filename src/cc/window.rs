//! What window-based laws share: their first and least window, their pace, and answering once per
//! round trip.

use std::time::Instant;

use crate::signal::{Ack, Plan, Rtt, Sent, Snapshot};
use crate::units::{Bytes, Gain, Rate};

/// RFC 9002 §7.2: ten datagrams, but no more than 14,720 bytes or two datagrams.
pub(super) fn initial_window(datagram: Bytes) -> Bytes {
    datagram.times(10).min(Bytes::new(14_720).max(datagram.times(2)))
}

/// RFC 9002 §7.2: two datagrams.
pub(super) fn least_window(datagram: Bytes) -> Bytes {
    datagram.times(2)
}

/// RFC 9002 §7.7: pace at N · window / srtt, N = 1.25. Before the first round trip is measured the
/// initial window may leave as fast as the interface takes it.
pub(super) fn paced(window: Bytes, rtt: Option<Rtt>) -> Plan {
    let rate = match rtt {
        Some(rtt) => (window / rtt.smoothed) * PACING_GAIN,
        None => Rate::MAX,
    };
    Plan::new(rate, window)
}

/// Whether the window is used: one that is not may not grow (RFC 9002 §7.8).
///
/// An application that pauses and then sends a whole window is not limiting the sender any more, though
/// packets of that flight are still marked so. What counts is the most that was in flight during this
/// round trip and the last: more than half the window in slow start, since the flight doubles within the
/// round, and in congestion avoidance so much that no further datagram has room.
#[derive(Debug, Clone, Default)]
pub(super) struct WindowUse {
    this_round: Bytes,
    last_round: Bytes,
}

impl WindowUse {
    pub fn on_sent(&mut self, sent: &Sent) {
        self.this_round = self.this_round.max(sent.in_flight);
    }

    /// Takes in an ACK; whether the window may grow by it.
    pub fn on_ack(&mut self, ack: &Ack, window: Bytes, is_slow_start: bool, datagram: Bytes) -> bool {
        if ack.round_start {
            self.last_round = std::mem::replace(&mut self.this_round, ack.in_flight);
        }
        let used = self.this_round.max(self.last_round);
        let is_used = if is_slow_start { used.times(2) > window } else { used + datagram > window };
        is_used || !ack.newest.app_limited
    }
}

/// A period of recovery: one answer is due for everything that was sent before the last answer
/// (RFC 9002 §7.3.2).
#[derive(Debug, Clone, Default)]
pub(super) struct Recovery {
    since: Option<Instant>,
}

impl Recovery {
    /// Whether a loss or a mark, whose newest packet left at `newest`, calls for an answer; if so, a new
    /// period begins.
    pub fn begins(&mut self, now: Instant, newest: Instant) -> bool {
        if self.covers(newest) {
            return false;
        }
        self.since = Some(now);
        true
    }

    /// Whether a packet left before the last answer, so that its acknowledgement says nothing about the
    /// present window.
    pub fn covers(&self, sent: Instant) -> bool {
        self.since.is_some_and(|since| sent <= since)
    }

    /// Persistent congestion ends the period (RFC 9002 §7.6.2).
    pub fn end(&mut self) {
        self.since = None;
    }
}

/// A reduction that may yet prove spurious: the state before it, and the losses behind it.
#[derive(Debug, Clone)]
pub(super) struct Reduction<S> {
    pub before: S,
    /// Departure of the oldest packet whose loss led to it.
    oldest: Instant,
    /// How many such packets have not turned up since.
    missing: usize,
}

impl<S> Reduction<S> {
    /// An answer to the loss of these packets; `None` for a mark, which cannot prove spurious.
    pub fn new(lost: &[Snapshot], before: S) -> Option<Self> {
        lost.first().map(|oldest| Self { before, oldest: oldest.sent, missing: lost.len() })
    }

    /// More packets of the same round trip were lost.
    pub fn on_loss(&mut self, packets: usize) {
        self.missing += packets;
    }

    /// A lost packet has turned up; whether it was the last of those behind this reduction.
    pub fn on_undo(&mut self, packet: &Snapshot) -> bool {
        if packet.sent < self.oldest {
            return false;
        }
        self.missing = self.missing.saturating_sub(1);
        self.missing == 0
    }
}

const PACING_GAIN: Gain = Gain::ratio(5, 4);
