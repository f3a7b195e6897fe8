//! The tail of a flight, kept for a second departure.
//!
//! A packet that is lost in the middle of a flight is missed when later ones arrive; the last ones are
//! missed a round trip later at best. So when there is nothing left to send, the datagrams that are still
//! unacknowledged leave once more, unchanged, the latest first. The receiver drops the second of two
//! (RFC 9000 §12.3), so a copy costs capacity that nobody uses, and repairs a loss without a round trip.
//!
//! *What it decides:* which datagrams leave twice. Whether any may is [`Control`](crate::control::Control)'s to
//! say, and copies are paced like all that leaves. *Bounds:* a twentieth of the bytes sent, and nothing
//! that the receiver would not look at: 190 KB are kept at most, and none on a path that loses nothing.

use std::collections::VecDeque;
use std::time::Instant;

use quinn_proto::Transmit;

use crate::signal::PacketNumber;
use crate::units::{Bytes, Gain};

/// What left twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Copies {
    /// Datagrams.
    pub datagrams: u64,
    /// Bytes, UDP payload.
    pub bytes: Bytes,
}

/// A datagram's identity, as the ledger and as the peer know it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name {
    pub sent: Instant,
    pub number: PacketNumber,
}

/// The last datagrams that left, as far as their fate is open and they have not left twice.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// In order of departure; emptied where the fate is known.
    kept: VecDeque<Kept>,
    /// Buffers for the next ones.
    spare: Vec<Vec<u8>>,
    sent: Bytes,
    copies: Copies,
    /// Nothing but copies has left since the flight ended.
    is_copying: bool,
}

#[derive(Debug)]
struct Kept {
    name: Name,
    transmit: Transmit,
    datagram: Vec<u8>,
}

impl Tail {
    /// A datagram with data has left: the flight goes on.
    pub fn on_sent(&mut self, bytes: Bytes) {
        self.sent += bytes;
        self.is_copying = false;
    }

    /// Keeps `datagram`, and leaves another buffer in its place.
    pub fn keep(&mut self, name: Name, transmit: Transmit, datagram: &mut Vec<u8>) {
        while self.kept.front().is_some_and(|oldest| oldest.name.number.0 + REACH < name.number.0) {
            let oldest = self.kept.pop_front();
            self.spare.extend(oldest.map(|oldest| oldest.datagram));
        }
        let other = self.spare.pop().unwrap_or_default();
        self.kept.push_back(Kept { name, transmit, datagram: std::mem::replace(datagram, other) });
    }

    /// The datagram of this departure has arrived.
    pub fn on_acked(&mut self, sent: Instant) {
        if self.kept.front().is_none_or(|oldest| sent < oldest.name.sent) {
            return;
        }
        if let Ok(index) = self.kept.binary_search_by_key(&sent, |kept| kept.name.sent) {
            self.spare.extend(self.kept.remove(index).map(|kept| kept.datagram));
        }
    }

    /// What left up to `newest` and has not arrived is lost: its data leaves anew.
    pub fn on_lost(&mut self, newest: Instant) {
        while self.kept.front().is_some_and(|oldest| oldest.name.sent <= newest) {
            self.spare.extend(self.kept.pop_front().map(|oldest| oldest.datagram));
        }
    }

    /// The connection has left the path.
    pub fn clear(&mut self) {
        self.spare.extend(self.kept.drain(..).map(|kept| kept.datagram));
        self.is_copying = false;
    }

    /// The datagram that is to leave once more, in `datagram`, and when it left first.
    ///
    /// Copies begin when all that is `missing`, the bytes in flight, fits the budget. Before that the rest
    /// would cost the round trip that copies of a part spare, and repairs of the rest would find none left.
    pub fn take(&mut self, missing: Bytes, datagram: &mut Vec<u8>) -> Option<(Instant, Transmit)> {
        let bytes = Bytes::of_len(self.kept.back()?.datagram.len());
        let budget = self.sent * BUDGET - self.copies.bytes;
        if bytes > budget || (missing > budget && !self.is_copying) {
            return None;
        }
        let kept = self.kept.pop_back()?;
        self.spare.push(std::mem::replace(datagram, kept.datagram));
        self.copies.datagrams += 1;
        self.copies.bytes += bytes;
        self.is_copying = true;
        Some((kept.name.sent, kept.transmit))
    }

    /// Whether what waits for the send clock, if anything does, is a copy.
    pub fn is_copying(&self) -> bool {
        self.is_copying
    }

    /// What left twice so far.
    pub fn copies(&self) -> Copies {
        self.copies
    }
}

/// What may leave twice, of all that is sent.
const BUDGET: Gain = Gain::percent(5);

/// quinn-proto drops what is more than 128 packets behind the newest.
const REACH: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::{ms, t0};

    const DATAGRAM: Bytes = Bytes::new(1000);

    /// A tail of a thousand datagrams that left one per millisecond; fifty of them may leave twice.
    fn tail() -> Tail {
        let mut tail = Tail::default();
        for number in 0..1000 {
            tail.on_sent(DATAGRAM);
            keep(&mut tail, number);
        }
        tail
    }

    fn keep(tail: &mut Tail, number: u64) {
        let name = Name { sent: t0() + ms(number), number: PacketNumber(number) };
        let transmit = Transmit {
            destination: ([127, 0, 0, 1], 1).into(),
            ecn: None,
            size: DATAGRAM.as_len(),
            segment_size: None,
            src_ip: None,
        };
        let mut datagram = vec![number.to_be_bytes()[7]; DATAGRAM.as_len()];
        tail.keep(name, transmit, &mut datagram);
    }

    /// The numbers of the next copies.
    fn take(tail: &mut Tail, most: usize) -> Vec<u64> {
        let mut numbers = Vec::new();
        let mut datagram = Vec::new();
        while numbers.len() < most
            && let Some((sent, transmit)) = tail.take(Bytes::ZERO, &mut datagram)
        {
            let number = u64::try_from((sent - t0()).as_millis()).expect("a thousand");
            assert_eq!(datagram, vec![number.to_be_bytes()[7]; transmit.size]);
            numbers.push(number);
        }
        numbers
    }

    #[test]
    fn the_latest_leave_first_and_a_twentieth_in_all() {
        let mut tail = tail();
        assert_eq!(take(&mut tail, 100), (950..1000).rev().collect::<Vec<_>>());
        assert_eq!(tail.copies(), Copies { datagrams: 50, bytes: DATAGRAM.times(50) });
        tail.on_sent(DATAGRAM.times(20));
        assert_eq!(take(&mut tail, 100), [949]);
    }

    #[test]
    fn what_has_met_its_fate_leaves_no_more() {
        let mut tail = tail();
        tail.on_acked(t0() + ms(999));
        tail.on_acked(t0() + ms(999));
        tail.on_acked(t0() + ms(3));
        tail.on_lost(t0() + ms(996));
        assert_eq!(take(&mut tail, 100), [998, 997]);
    }

    #[test]
    fn the_receiver_looks_at_no_more_than_128_behind_the_newest() {
        let mut tail = tail();
        tail.on_sent(DATAGRAM.times(9_000));
        let taken = take(&mut tail, 1000);
        assert_eq!((taken.len(), taken.last()), (129, Some(&871)));
    }

    #[test]
    fn copies_begin_when_all_that_is_missing_fits() {
        let mut tail = tail();
        let mut datagram = Vec::new();
        assert!(tail.take(DATAGRAM.times(51), &mut datagram).is_none());
        assert!(tail.take(DATAGRAM.times(50), &mut datagram).is_some());
        assert!(tail.take(DATAGRAM.times(50), &mut datagram).is_some(), "what was begun is ended");
        tail.on_sent(DATAGRAM);
        assert!(tail.take(DATAGRAM.times(50), &mut datagram).is_none());
    }

    #[test]
    fn copies_go_on_until_new_data_leaves() {
        let mut tail = tail();
        assert!(!tail.is_copying());
        take(&mut tail, 1);
        assert!(tail.is_copying());
        tail.on_sent(DATAGRAM);
        assert!(!tail.is_copying());
        take(&mut tail, 1);
        tail.clear();
        assert!(!tail.is_copying() && take(&mut tail, 1).is_empty());
    }

    #[test]
    fn buffers_are_used_again() {
        let tail = tail();
        assert_eq!(tail.kept.len() + tail.spare.len(), 129);
    }
}
