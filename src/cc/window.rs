//! What window-based laws share: their first and least window, their pace, and answering once per
//! round trip.

use std::time::Instant;

use crate::signal::{Plan, Rtt};
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

const PACING_GAIN: Gain = Gain::ratio(5, 4);
