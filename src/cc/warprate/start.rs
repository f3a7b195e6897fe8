//! The start: at the anchor's rate, blind for a bounded volume, then by what the first train shows.
//!
//! ```text
//! rate   = anchor; from the second ACK frame on min(anchor, fastest delivery between two ACK frames)
//! window = BLIND; from the second ACK frame on BLIND + 6 · delivered
//! ```
//! The first reading that is conclusive ends it. A train that took longer to arrive than to leave was
//! spread by a bottleneck: its arrival is the rate. Any other proves the rate that it had so far.
//!
//! ACK frames that were held up arrive as one lump, which is as fast as any and proves nothing: the fastest
//! delivery is that since the longest silence, and what came after that silence may be a reading of a
//! bottleneck by itself.
//!
//! No step depends on the round-trip time, and none waits for a loss.

use std::time::{Duration, Instant};

use super::constants::{BLIND, BLIND_UNSPREAD, START_GROWTH};
use super::evidence::{Epoch, Point, Span};
use crate::signal::{Ack, Sent};
use crate::units::{Bytes, Rate};

/// The state of the start.
#[derive(Debug, Clone)]
pub(super) struct Start {
    /// Departure of the first packet of the train.
    train: Instant,
    last_sent: Instant,
    bytes: Bytes,
    epoch: Option<Epoch>,
    /// Whether a good part of the train arrived as it had left.
    is_unspread: bool,
}

impl Start {
    pub fn new(now: Instant) -> Self {
        Self { train: now, last_sent: now, bytes: Bytes::ZERO, epoch: None, is_unspread: false }
    }

    /// Looks for the train: the handshake's packets and a lone request leave with gaps around them.
    pub fn on_sent(&mut self, sent: &Sent, datagram: Bytes, anchor: Rate) {
        let gap = sent.now.saturating_duration_since(self.last_sent);
        if self.bytes < datagram.times(TRAIN) && gap > LEAST_GAP + datagram.times(4) / anchor {
            self.train = sent.now;
            self.bytes = Bytes::ZERO;
        }
        self.bytes += sent.bytes;
        self.last_sent = sent.now;
    }

    /// Takes in an ACK frame; the rate, once it is read.
    pub fn on_ack(&mut self, point: Point, ack: &Ack, anchor: Rate) -> Option<Rate> {
        if point.sent_at < self.train {
            return None;
        }
        let epoch = match &mut self.epoch {
            Some(epoch) if epoch.first().sent_at >= self.train => epoch,
            _ => {
                self.epoch = Some(Epoch::new(point));
                return None;
            }
        };
        epoch.add(point);
        self.is_unspread |= epoch.unspread() >= UNSPREAD;
        let span = epoch.span();
        if let Some(span) = epoch.since_silence().filter(|span| is_spread(span)) {
            return Some(span.arrival().min(anchor));
        }
        if !epoch.is_conclusive() {
            // Most of it never arrives, or nothing comes evenly.
            let is_drowned = ack.lost > ack.delivered && ack.lost > BLIND;
            let is_over = is_drowned || span.ack_time > LONGEST_START;
            return is_over.then(|| span.arrival().min(anchor));
        }
        Some(if is_spread(&span) { span.arrival().min(anchor) } else { self.rate(anchor) })
    }

    pub fn rate(&self, anchor: Rate) -> Rate {
        match &self.epoch {
            Some(epoch) if !epoch.peak().is_zero() => epoch.peak().min(anchor),
            _ => anchor,
        }
    }

    pub fn window(&self, delivered: Bytes) -> Bytes {
        match &self.epoch {
            Some(epoch) if !epoch.peak().is_zero() => {
                let blind = if self.is_unspread { BLIND_UNSPREAD } else { BLIND };
                blind + delivered.times(START_GROWTH)
            }
            _ => BLIND,
        }
    }
}

/// A tenth more than it took to leave.
fn is_spread(span: &Span) -> bool {
    span.ack_time * 9 > span.send_time * 10
}

/// Jitter whose lumps are longer than a sixteenth of it is met with what arrives.
const LONGEST_START: Duration = Duration::from_secs(3);
/// Bytes whose delay does not grow: they were not spread.
const UNSPREAD: Bytes = Bytes::new(32_000);
/// Datagrams that make a train.
const TRAIN: u64 = 10;
const LEAST_GAP: Duration = Duration::from_millis(1);
