//! The start: at the anchor's rate, blind for a bounded volume, then by what the first train shows.
//!
//! ```text
//! rate   = anchor; from the train's second ACK frame on min(anchor, fastest delivery between two ACK frames)
//! window = blind; from the second ACK frame on blind + 3 · delivered, where
//!          what is delivered counts while the delay is at most twice the first train's
//! ```
//! The first reading that is conclusive ends it. A train that took longer to arrive than to leave was
//! spread by a bottleneck: its arrival is the rate. One that arrived as it had left proves no more than
//! twice that rate.
//!
//! ACK frames that were held up arrive as one lump, which is as fast as any and proves nothing. So the
//! fastest delivery is that since the longest silence; what came after that silence may be a reading of a
//! bottleneck by itself; and what arrived faster than it had left is no reading.
//!
//! No step depends on the round-trip time, and none waits for a loss.

use std::time::{Duration, Instant};

use super::evidence::{Epoch, Point, Span};
use super::tuning::Tuning;
use crate::signal::{Ack, Sent};
use crate::units::{Bytes, Gain, Rate};

/// The state of the start.
#[derive(Debug, Clone)]
pub(super) struct Start {
    tuning: Tuning,
    /// Departure of the first packet of the train.
    train: Instant,
    last_sent: Instant,
    bytes: Bytes,
    epoch: Option<Epoch>,
    /// Whether a good part of the train arrived as it had left.
    is_unspread: bool,
    /// What had been delivered before the train, and at the last ACK frame.
    delivered: Option<(Bytes, Bytes)>,
    /// ACK frames that told of the train.
    frames: u32,
    /// Highest delay above the floor among the first train's packets.
    level: Duration,
    /// What the window may grow by.
    credit: Bytes,
}

impl Start {
    pub fn new(now: Instant, tuning: Tuning) -> Self {
        Self {
            tuning,
            train: now,
            last_sent: now,
            bytes: Bytes::ZERO,
            epoch: None,
            is_unspread: false,
            delivered: None,
            frames: 0,
            level: Duration::ZERO,
            credit: Bytes::ZERO,
        }
    }

    /// Looks for the train: the handshake's packets and a lone request leave with gaps around them. The spacing
    /// of their answers is the peer's work as much as the path, and no reading.
    pub fn on_sent(&mut self, sent: &Sent, datagram: Bytes, anchor: Rate) {
        let gap = sent.now.saturating_duration_since(self.last_sent);
        if self.bytes < datagram.times(TRAIN) && gap > GRANULARITY + datagram.times(4) / anchor {
            self.train = sent.now;
            self.bytes = Bytes::ZERO;
            self.epoch = None;
            self.frames = 0;
        }
        self.bytes += sent.bytes;
        self.last_sent = sent.now;
    }

    /// Takes in an ACK frame; the rate, once it is read.
    pub fn on_ack(&mut self, point: Point, ack: &Ack, anchor: Rate) -> Option<Rate> {
        if point.sent_at < self.train {
            return None;
        }
        self.note_delivery(point, ack);
        self.frames = self.frames.saturating_add(1);
        let Some(epoch) = &mut self.epoch else {
            self.epoch = Some(Epoch::new(point));
            return None;
        };
        if epoch.last().sent_at >= point.sent_at {
            // What others have overtaken was delayed by more than a bottleneck.
            return None;
        }
        let is_limited = ack.newest.app_limited;
        epoch.add(point, is_limited);
        self.is_unspread |= epoch.unspread() >= self.tuning.blind * self.tuning.step;
        let span = epoch.span();
        if let Some(span) = epoch.since_silence(&self.tuning).filter(is_spread) {
            return Some(span.arrival(&self.tuning).min(anchor));
        }
        let is_spread = is_spread(&span);
        let is_compressed = span.ack_time * 10 < span.send_time * 9;
        // Nor does the application's pace prove anything; a round trip's train is ours.
        let is_idle = is_limited && span.ack_time > epoch.least_rtt() && !is_spread;
        let is_reading =
            if is_spread { epoch.is_even(&self.tuning) } else { epoch.is_conclusive(&self.tuning) };
        if is_compressed || is_idle || !is_reading {
            // Much of it never arrives, or nothing comes evenly.
            let is_drowned = ack.lost.times(2) > ack.delivered && ack.lost > self.tuning.blind;
            let is_long = span.ack_time > self.tuning.longest_start;
            if is_long && is_limited {
                self.epoch = None;
                self.frames = 0;
                return None;
            }
            return (is_drowned || is_long).then(|| span.arrival(&self.tuning).min(anchor));
        }
        let arrival = span.arrival(&self.tuning);
        Some(if is_spread {
            arrival.min(anchor)
        } else {
            // Right behind the longest silence the fastest delivery is slow.
            self.rate(anchor).max(arrival).min(arrival * Gain::percent(200)).min(anchor)
        })
    }

    /// A queue of ours grows with what we send, jitter does not: the window grows only while the delay is
    /// about that of the first train.
    fn note_delivery(&mut self, point: Point, ack: &Ack) {
        let (first, last) = self.delivered.unwrap_or((ack.delivered - ack.bytes, ack.delivered - ack.bytes));
        self.delivered = Some((first, ack.delivered));
        let above = point.rtt().saturating_sub(ack.delay.floor);
        if ack.delivered - first <= self.tuning.blind {
            self.level = self.level.max(above);
        }
        if above <= (self.level * 2).max(GRANULARITY) {
            self.credit += ack.delivered - last;
        }
    }

    pub fn rate(&self, anchor: Rate) -> Rate {
        match &self.epoch {
            Some(epoch) if !epoch.peak().is_zero() => epoch.peak().min(anchor),
            _ => anchor,
        }
    }

    pub fn window(&self) -> Bytes {
        if self.frames < 2 {
            return self.tuning.blind;
        }
        let blind = if self.is_unspread { self.tuning.blind_unspread } else { self.tuning.blind };
        blind + self.credit.times(self.tuning.start_growth.into())
    }
}

/// A tenth more than it took to leave.
fn is_spread(span: &Span) -> bool {
    span.ack_time * 9 > span.send_time * 10
}

/// Datagrams that make a train: an initial window (RFC 9002 §7.2), which is what others send at once.
const TRAIN: u64 = 10;
/// Timers tell no shorter times apart (RFC 9002 §6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);
