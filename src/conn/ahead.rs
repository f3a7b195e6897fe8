//! What waits in the kernel for its release time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::units::Bytes;

/// Bytes that were handed over ahead of their time, and how many may be.
#[derive(Debug)]
pub(super) struct Ahead {
    waiting: BinaryHeap<Reverse<(Instant, Bytes)>>,
    bytes: Bytes,
    most: Bytes,
}

impl Ahead {
    /// Nothing waits, and at most `most` shall.
    pub fn new(most: Bytes) -> Self {
        Self { waiting: BinaryHeap::new(), bytes: Bytes::ZERO, most }
    }

    /// At most this much shall wait from now on.
    pub fn set_most(&mut self, most: Bytes) {
        self.most = most;
    }

    /// Books a batch that leaves at `release`.
    pub fn on_sent(&mut self, release: Instant, bytes: Bytes) {
        self.waiting.push(Reverse((release, bytes)));
        self.bytes += bytes;
    }

    /// Whether one more batch may be handed over ahead of its time.
    pub fn has_room(&mut self, now: Instant) -> bool {
        while let Some(&Reverse((release, bytes))) = self.waiting.peek() {
            if release > now {
                break;
            }
            self.waiting.pop();
            self.bytes -= bytes;
        }
        self.bytes < self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::{ms, t0};

    #[test]
    fn there_is_room_again_once_enough_has_left() {
        let mut ahead = Ahead::new(Bytes::new(3000));
        assert!(ahead.has_room(t0()));
        ahead.on_sent(t0() + ms(2), Bytes::new(2000));
        assert!(ahead.has_room(t0()));
        ahead.on_sent(t0() + ms(1), Bytes::new(1000));
        assert!(!ahead.has_room(t0()));
        assert!(ahead.has_room(t0() + ms(1)));
        assert!(!Ahead::new(Bytes::ZERO).has_room(t0()));
    }
}
