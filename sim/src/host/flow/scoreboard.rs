//! What acknowledgements have told so far, so that each tells only what is new.
//!
//! A bare receiver names transmissions: numbers that are never used twice, so that it is always clear
//! which of two transmissions of a chunk has arrived. A tcp-like one names chunks, and its sender
//! knows of each chunk only the latest transmission.

use std::collections::VecDeque;

use super::Dialect;
use super::ranges::Ranges;
use crate::packet::{AckFrame, Range};

#[derive(Debug)]
pub(super) struct Scoreboard {
    /// Transmissions (bare) or chunks (tcp-like) that are acknowledged.
    acked: Ranges,
    /// Ranges of the acknowledgement at hand.
    told: Vec<Range>,
    /// The latest transmission of each chunk from the floor of `acked` on (tcp-like).
    latest: Option<Latest>,
}

#[derive(Debug)]
struct Latest {
    /// The chunk of the front.
    first: u64,
    chunks: VecDeque<LatestTransmission>,
}

/// The latest transmission of a chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct LatestTransmission {
    pub number: u64,
    /// Whether there were earlier ones.
    pub is_repeated: bool,
}

impl Scoreboard {
    pub fn new(dialect: Dialect) -> Self {
        let latest = match dialect {
            Dialect::Bare => None,
            Dialect::Tcp => Some(Latest { first: 0, chunks: VecDeque::new() }),
        };
        Self { acked: Ranges::default(), told: Vec::new(), latest }
    }

    /// Appends to `new` what this acknowledgement tells for the first time.
    pub fn read(&mut self, ack: &AckFrame, new: &mut Vec<u64>) {
        let prefix = ack.below.checked_sub(1).map(|last| (0, last));
        let mut told = std::mem::take(&mut self.told);
        // Most ranges were told before. They descend, as the known ones do, so that one walk finds out.
        let mut known = self.acked.descending().peekable();
        for range in prefix.into_iter().chain(ack.first).chain(ack.more.iter().copied()) {
            while known.next_if(|known| known.0 > range.1).is_some() {}
            if known.peek().is_none_or(|known| range.0 < known.0 || range.1 > known.1) {
                told.push(range);
            }
        }
        drop(known);
        for range in told.drain(..) {
            self.acked.insert_range(range, |(first, last)| new.extend(first..=last));
        }
        self.told = told;
    }

    /// A chunk has left.
    pub fn on_sent(&mut self, chunk: u64, number: u64) {
        let Some(latest) = &mut self.latest else { return };
        // Chunks leave in order the first time; what is acknowledged up to the floor leaves the books.
        while latest.first < self.acked.floor() && !latest.chunks.is_empty() {
            latest.first += 1;
            latest.chunks.pop_front();
        }
        let Some(index) = chunk.checked_sub(latest.first).and_then(|index| usize::try_from(index).ok())
        else {
            return;
        };
        match latest.chunks.get_mut(index) {
            Some(entry) => *entry = LatestTransmission { number, is_repeated: true },
            None => latest.chunks.push_back(LatestTransmission { number, is_repeated: false }),
        }
    }

    /// The latest transmission of a chunk; `None` where numbers are transmissions themselves.
    pub fn transmission(&self, chunk: u64) -> Option<LatestTransmission> {
        let latest = self.latest.as_ref()?;
        let index = usize::try_from(chunk.checked_sub(latest.first)?).ok()?;
        latest.chunks.get(index).copied()
    }

    /// Whether a chunk is known to have arrived. A bare sender does not keep track: it repeats what it
    /// lost, as `quinn-proto` does.
    pub fn has(&self, chunk: u64) -> bool {
        self.latest.is_some() && (chunk < self.acked.floor() || self.acked.around(chunk).is_some())
    }

    /// Everything below has arrived (tcp-like).
    pub fn below(&self) -> u64 {
        if self.latest.is_some() { self.acked.floor() } else { 0 }
    }

    /// Transmissions below are of no interest any more (bare).
    pub fn forget(&mut self, settled: u64) {
        if self.latest.is_none() {
            self.acked.raise_floor(settled);
        }
    }
}
