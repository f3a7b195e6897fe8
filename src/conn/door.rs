//! Who may come in: how many handshakes may be under way, and when clients must first prove their address.
//!
//! *What it decides:* the answer to a client that knocks. *In:* whether its address is validated, and how many
//! came before it whose handshake is not over. *Out:* an [`Answer`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use quinn_proto::ConnectionHandle;

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

/// Counts the handshakes that are under way, and knows which of those that were accepted began first.
#[derive(Debug, Default)]
pub(super) struct Door {
    counts: Arc<Counts>,
    accepted: VecDeque<(ConnectionHandle, Weak<Place>)>,
}

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
    /// The same, and the handshake of this connection is to be given up for it.
    Replace(ConnectionHandle, UnderWay),
    /// It is to come back with a token that proves its address.
    Retry,
    /// It hears nothing, and knocks again in a while.
    Ignore,
}

/// A handshake that is under way; no longer so when it is dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Place>);

#[derive(Debug)]
struct Place {
    counts: Arc<Counts>,
    is_validated: bool,
}

impl Door {
    /// A client knocks.
    pub fn knock(&mut self, limits: DoorLimits, is_validated: bool) -> Answer {
        if !is_validated && self.counts.unvalidated.load(Ordering::Relaxed) >= limits.unvalidated {
            return Answer::Retry;
        }
        if self.counts.handshakes.load(Ordering::Relaxed) < limits.handshakes {
            return Answer::Admit(UnderWay::new(&self.counts, is_validated));
        }
        match self.take_first() {
            Some(first) => Answer::Replace(first, UnderWay::new(&self.counts, is_validated)),
            None => Answer::Ignore,
        }
    }

    /// A client is accepted as this connection.
    pub fn on_accepted(&mut self, handle: ConnectionHandle, under_way: &UnderWay) {
        while self.accepted.front().is_some_and(|(_, place)| place.strong_count() == 0) {
            self.accepted.pop_front();
        }
        self.accepted.push_back((handle, Arc::downgrade(&under_way.0)));
    }

    /// The connection whose handshake has been under way for longest: an honest one would be over.
    fn take_first(&mut self) -> Option<ConnectionHandle> {
        std::iter::from_fn(|| self.accepted.pop_front())
            .find_map(|(handle, place)| (place.strong_count() > 0).then_some(handle))
    }
}

impl UnderWay {
    fn new(counts: &Arc<Counts>, is_validated: bool) -> Self {
        counts.handshakes.fetch_add(1, Ordering::Relaxed);
        counts.unvalidated.fetch_add(usize::from(!is_validated), Ordering::Relaxed);
        Self(Arc::new(Place { counts: counts.clone(), is_validated }))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.counts.handshakes.fetch_sub(1, Ordering::Relaxed);
        self.counts.unvalidated.fetch_sub(usize::from(!self.is_validated), Ordering::Relaxed);
    }
}

/// A core completes a few thousand handshakes a second, and an honest one takes a round trip or two, 100 ms on
/// the whole: more than this under way is no honest load.
const UNVALIDATED_HANDSHAKES: usize = 1000;

/// Ten times as many, which only clients can be that really are where they claim to be. Those who do not go on lose
/// their place to others, and ten thousand do not come within an honest handshake's time.
const HANDSHAKES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: DoorLimits = DoorLimits { handshakes: 3, unvalidated: 2 };

    fn admit(door: &mut Door, is_validated: bool) -> UnderWay {
        match door.knock(LIMITS, is_validated) {
            Answer::Admit(under_way) => under_way,
            answer => panic!("{answer:?}"),
        }
    }

    #[test]
    fn strangers_prove_their_address_when_many_are_under_way_and_nobody_comes_in_when_all_places_are_taken() {
        let mut door = Door::default();
        let first = admit(&mut door, false);
        let _second = admit(&mut door, false);
        assert!(matches!(door.knock(LIMITS, false), Answer::Retry));
        let third = admit(&mut door, true);
        assert!(matches!(door.knock(LIMITS, true), Answer::Ignore), "none is accepted");
        // A place is free, but for none whose address is not proved.
        drop(third);
        assert!(matches!(door.knock(LIMITS, false), Answer::Retry));
        drop(first);
        let _fourth = admit(&mut door, false);
    }

    #[test]
    fn whoever_was_accepted_first_and_is_not_connected_makes_room() {
        let mut door = Door::default();
        let places: Vec<_> = (0..3).map(|_| admit(&mut door, true)).collect();
        for (handle, place) in places.iter().enumerate() {
            door.on_accepted(ConnectionHandle(handle), place);
        }
        let mut places = places.into_iter();
        // The first is connected, and then there is a place.
        drop(places.next());
        let _another = admit(&mut door, true);
        let Answer::Replace(handle, _place) = door.knock(LIMITS, true) else {
            panic!("all places are taken")
        };
        assert_eq!(handle, ConnectionHandle(1));
    }

    #[test]
    fn a_limit_of_zero_asks_everyone() {
        let limits = DoorLimits { handshakes: 3, unvalidated: 0 };
        assert!(matches!(Door::default().knock(limits, false), Answer::Retry));
        assert!(matches!(Door::default().knock(limits, true), Answer::Admit(_)));
    }
}
