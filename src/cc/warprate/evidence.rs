//! What was delivered between two points of a path's history.

use std::time::{Duration, Instant};

use crate::signal::Ack;
use crate::units::{Bytes, Gain, Rate};

/// The state of the path as one ACK frame shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    /// Departure of the newest packet acknowledged.
    pub sent_at: Instant,
    /// Bytes that had left by then.
    pub sent: Bytes,
    /// Arrival of the ACK frame.
    pub acked_at: Instant,
    delivered: Bytes,
    /// Bytes lost that no queue dropped.
    scattered: Bytes,
}

impl Point {
    pub fn rtt(&self) -> Duration {
        self.acked_at.saturating_duration_since(self.sent_at)
    }

    pub fn of(ack: &Ack, scattered: Bytes) -> Self {
        let newest = &ack.newest;
        Self {
            sent_at: newest.sent,
            sent: newest.delivered + newest.lost + newest.tx_in_flight,
            acked_at: ack.now,
            delivered: ack.delivered,
            scattered,
        }
    }
}

/// The way from one point to a later one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub sent: Bytes,
    pub delivered: Bytes,
    pub scattered: Bytes,
    pub send_time: Duration,
    pub ack_time: Duration,
}

impl Span {
    pub fn between(from: &Point, to: &Point) -> Self {
        Self {
            sent: to.sent - from.sent,
            delivered: to.delivered - from.delivered,
            scattered: to.scattered - from.scattered,
            send_time: to.sent_at.saturating_duration_since(from.sent_at),
            ack_time: to.acked_at.saturating_duration_since(from.acked_at),
        }
    }

    /// The rate at which it left.
    pub fn pace(&self) -> Rate {
        self.sent / self.send_time
    }

    /// The rate at which it arrived, lost packets counted as arrived up to a share of what arrived:
    /// a scatter loss takes its place in the bottleneck like any packet.
    pub fn arrival(&self) -> Rate {
        (self.delivered + self.scattered).min(self.delivered * MOST_CREDIT) / self.ack_time
    }
}

/// 20 % of what was sent.
const MOST_CREDIT: Gain = Gain::ratio(5, 4);
