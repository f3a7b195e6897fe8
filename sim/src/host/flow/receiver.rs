//! The receiving half of bare and tcp-like hosts: what has arrived, and when to say so.

use std::time::Duration;

use quinn_proto::EcnCodepoint;
use warplink::{Span, Time};
use warpunits::Bytes;

use super::Dialect;
use super::ranges::Ranges;
use crate::packet::{AckFrame, Range, Segment};

/// When a receiver acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckPolicy {
    /// After so many packets that want an acknowledgement; 0 counts as 1.
    pub every: u32,
    /// At the latest so long after the first of them. What arrives out of order is acknowledged at once.
    pub delay: Duration,
    /// Arrivals are handed over only at multiples of this, as by receive offload or interrupt
    /// moderation, and all that are handed over together are acknowledged together.
    pub batch: Option<Duration>,
}

impl AckPolicy {
    /// RFC 9000 §13.2: every second packet, or after 25 ms.
    pub const QUIC: Self = Self { every: 2, delay: Duration::from_millis(25), batch: None };
    /// RFC 5681 §4.2 with Linux' shortest delay: every second segment, or after 40 ms.
    pub const TCP: Self = Self { every: 2, delay: Duration::from_millis(40), batch: None };

    /// The same policy for every n-th packet.
    #[must_use]
    pub const fn with_every(self, every: u32) -> Self {
        Self { every, ..self }
    }

    /// The same policy with arrivals handed over at multiples of `batch` only.
    #[must_use]
    pub const fn with_batch(self, batch: Duration) -> Self {
        Self { batch: Some(batch), ..self }
    }
}

/// One stream's receiver.
#[derive(Debug)]
pub(super) struct Receiver {
    dialect: Dialect,
    policy: AckPolicy,
    /// Transmissions that have arrived (bare); number 0 is never used, so they never join the floor.
    numbers: Ranges,
    /// Pieces of the stream that have arrived.
    chunks: Ranges,
    /// The ranges of chunks that changed last, each by one member, latest first (tcp-like).
    recent: Vec<u64>,
    /// The stream has so many pieces, once known.
    end: Option<u64>,
    received: Bytes,
    marks: u32,
    unacknowledged: u32,
    is_urgent: bool,
    due: Time,
}

impl Receiver {
    pub fn new(dialect: Dialect, policy: AckPolicy) -> Self {
        Self {
            dialect,
            policy,
            numbers: Ranges::default(),
            chunks: Ranges::default(),
            recent: Vec::new(),
            end: None,
            received: Bytes::ZERO,
            marks: 0,
            unacknowledged: 0,
            is_urgent: false,
            due: Time::NEVER,
        }
    }

    /// Takes in a packet; the stream bytes that are new.
    pub fn on_segment(&mut self, now: Time, segment: &Segment, ecn: Option<EcnCodepoint>) -> Bytes {
        self.marks += u32::from(ecn == Some(EcnCodepoint::Ce));
        if self.unacknowledged == 0 {
            self.due = now + Span::from(self.policy.delay);
        }
        self.unacknowledged += 1;
        let had_gaps = self.chunks.has_gaps();
        let is_new = segment.chunk.is_some_and(|chunk| self.chunks.insert(chunk));
        match self.dialect {
            Dialect::Bare => self.note_number(segment),
            Dialect::Tcp => {
                // RFC 5681 §4.2: at once when out of order, and when a gap is filled.
                self.is_urgent |= !is_new || had_gaps || self.chunks.has_gaps();
                self.note_recent(segment);
            }
        }
        if let Some(chunk) = segment.chunk.filter(|_| segment.is_last) {
            self.end = Some(chunk + 1);
        }
        let new = if is_new { Bytes::new(segment.bytes.into()) } else { Bytes::ZERO };
        self.received += new;
        new
    }

    /// The acknowledgement that is due, with the number of its ranges.
    pub fn poll_ack(&mut self, now: Time) -> Option<(AckFrame, u64)> {
        let is_due = self.unacknowledged >= self.policy.every.max(1) || self.is_urgent || self.due <= now;
        if self.unacknowledged == 0 || !is_due {
            return None;
        }
        self.unacknowledged = 0;
        self.is_urgent = false;
        self.due = Time::NEVER;
        let frame = match self.dialect {
            Dialect::Bare => {
                let mut ranges = self.numbers.descending();
                let first = ranges.next();
                AckFrame { below: 0, first, more: ranges.collect(), marks: self.marks }
            }
            Dialect::Tcp => self.sack(),
        };
        let ranges = u64::from(frame.first.is_some()) + frame.more.len() as u64;
        Some((frame, ranges))
    }

    /// When an acknowledgement is due though nothing else arrives.
    pub fn next_ack(&self) -> Time {
        self.due
    }

    /// Whether the whole stream has arrived.
    pub fn is_complete(&self) -> bool {
        self.end.is_some_and(|end| self.chunks.floor() >= end)
    }

    /// Stream bytes so far, each counted once.
    pub fn received(&self) -> Bytes {
        self.received
    }

    /// RFC 9000 §13.2.1: at once for a packet that leaves a gap or comes from before the newest.
    fn note_number(&mut self, segment: &Segment) {
        let expected = self.numbers.end();
        self.is_urgent |= segment.number != expected && expected != 0;
        self.numbers.insert(segment.number);
        self.numbers.forget(segment.settled, MOST_RANGES);
    }

    /// RFC 2018 §4: the range that changed last comes first, then those that changed before it.
    fn note_recent(&mut self, segment: &Segment) {
        let chunks = &self.chunks;
        let current = segment.chunk.and_then(|chunk| chunks.around(chunk));
        if current.is_none() && self.recent.is_empty() {
            return;
        }
        self.recent.retain(|&member| chunks.around(member).is_some_and(|range| Some(range) != current));
        if let (Some(_), Some(chunk)) = (current, segment.chunk) {
            self.recent.insert(0, chunk);
        }
        self.recent.truncate(MOST_BLOCKS);
    }

    fn sack(&self) -> AckFrame {
        let mut blocks = self.recent.iter().filter_map(|&member| self.chunks.around(member));
        let first: Option<Range> = blocks.next();
        AckFrame { below: self.chunks.floor(), first, more: blocks.collect(), marks: self.marks }
    }
}

/// Ranges that a bare receiver keeps and reports, as `quinn-proto` does.
const MOST_RANGES: usize = 64;

/// SACK blocks that fit beside timestamps (RFC 2018 §3).
const MOST_BLOCKS: usize = 3;
