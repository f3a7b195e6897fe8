//! Who may come in: how many handshakes may be under way, and when clients must first prove their address.
//!
//! *What it decides:* the answer to a client that knocks. *In:* whether its address is validated, and how many
//! came before it whose handshake is not over. *Out:* an [`Answer`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many handshakes may be under way at a time: of clients that wait to be accepted, that the application
/// has in its hands, or that are accepted but not connected.
#[derive(Debug, Clone, Copy)]
pub(super) struct DoorLimits {
    pub handshakes: usize,
    /// Of those, the ones whose address was not validated when they knocked.
    pub unvalidated: usize,
}

impl Default for DoorLimits {
    fn default() -> Self {
        Self { handshakes: HANDSHAKES, unvalidated: UNVALIDATED_HANDSHAKES }
    }
}

/// Counts the handshakes that are under way.
#[derive(Debug, Default)]
pub(super) struct Door(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    handshakes: AtomicUsize,
    unvalidated: AtomicUsize,
}

/// What is to become of a client that knocks.
#[derive(Debug)]
pub(super) enum Answer {
    /// It may wait to be accepted; it is under way as long as the value lives.
    Admit(UnderWay),
    /// It is to come back with a token that proves its address.
    Retry,
    /// It hears nothing, and knocks again in a while.
    Ignore,
}

/// A handshake that is under way; no longer so when it is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    counts: Arc<Counts>,
    is_validated: bool,
}

impl Door {
    /// A client knocks.
    pub fn knock(&self, limits: DoorLimits, is_validated: bool) -> Answer {
        let counts = &self.0;
        if counts.handshakes.load(Ordering::Relaxed) >= limits.handshakes {
            return Answer::Ignore;
        }
        if !is_validated && counts.unvalidated.load(Ordering::Relaxed) >= limits.unvalidated {
            return Answer::Retry;
        }
        counts.handshakes.fetch_add(1, Ordering::Relaxed);
        counts.unvalidated.fetch_add(usize::from(!is_validated), Ordering::Relaxed);
        Answer::Admit(UnderWay { counts: counts.clone(), is_validated })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.counts.handshakes.fetch_sub(1, Ordering::Relaxed);
        self.counts.unvalidated.fetch_sub(usize::from(!self.is_validated), Ordering::Relaxed);
    }
}

/// A core completes a few thousand handshakes a second, and an honest one takes a round trip or two, 100 ms on
/// the whole: more than this under way is no honest load.
const UNVALIDATED_HANDSHAKES: usize = 1000;

/// Ten times as many, which only clients can be that really are where they claim to be.
const HANDSHAKES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: DoorLimits = DoorLimits { handshakes: 3, unvalidated: 2 };

    fn admit(door: &Door, is_validated: bool) -> UnderWay {
        match door.knock(LIMITS, is_validated) {
            Answer::Admit(under_way) => under_way,
            answer => panic!("{answer:?}"),
        }
    }

    #[test]
    fn strangers_prove_their_address_when_many_are_under_way_and_nobody_comes_in_when_all_places_are_taken() {
        let door = Door::default();
        let first = admit(&door, false);
        let _second = admit(&door, false);
        assert!(matches!(door.knock(LIMITS, false), Answer::Retry));
        let third = admit(&door, true);
        for is_validated in [false, true] {
            assert!(matches!(door.knock(LIMITS, is_validated), Answer::Ignore));
        }
        // A place is free, but for none whose address is not proved.
        drop(third);
        assert!(matches!(door.knock(LIMITS, false), Answer::Retry));
        drop(first);
        let _fourth = admit(&door, false);
    }

    #[test]
    fn a_limit_of_zero_asks_everyone() {
        let limits = DoorLimits { handshakes: 3, unvalidated: 0 };
        assert!(matches!(Door::default().knock(limits, false), Answer::Retry));
        assert!(matches!(Door::default().knock(limits, true), Answer::Admit(_)));
    }
}
