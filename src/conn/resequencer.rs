//! Datagrams that overtook others, put in order again before `quinn-proto` sees them.
//!
//! `quinn-proto` drops what comes more than 128 packets behind the newest, which is 1.5 ms at 1 Gbit/s, and it
//! acknowledges every gap at once, so that the sender repairs what is only late. Where packets come late, a
//! datagram of bulk data that is ahead of its turn therefore waits for those before it, about as long as the
//! latest of late have kept others waiting.
//!
//! *What it decides:* whose turn it is, and when to wait no longer. *In:* packet numbers, and when they came.
//! *Out:* what has waited, in order. Nothing is changed, and nothing is dropped.
//!
//! Where nothing comes late nothing waits: the numbers of packets that were opened tell of that, and no other
//! work is done. A gap that nothing fills is a loss; where losses are more frequent than late packets, waiting
//! would delay the news of them for nothing, and there is none.
//!
//! A number that was not authenticated decides nothing but a wait: forged packets are handed on after one, and
//! change neither the turn nor the time that others wait. What waits beside one may be handed on with it, too early.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::signal::PacketNumber;

/// In which order datagrams have come, on all paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrivalOrder {
    /// Packets of which later ones had come before.
    pub late: u64,
    /// Datagrams that came ahead of their turn and were held back, or are.
    pub held: u64,
    /// How long one is held back at present.
    pub patience: Duration,
}

/// What waits is of type `T`.
#[derive(Debug)]
pub(super) struct Resequencer<T> {
    /// Nothing waits longer.
    longest: Duration,
    /// Whose turn it is: one more than the greatest number opened.
    next: u64,
    /// What is ahead of its turn.
    waiting: BTreeMap<Place, Waiting<T>>,
    /// Places of what waits in the order in which it came; some are gone.
    arrivals: VecDeque<(Instant, Place)>,
    /// What came ahead of its turn and waited so far, and what came late.
    held: u64,
    late: u64,
    /// When the latest came of those that were handed on in order, and whether it is known to have been late.
    newest: Option<Instant>,
    is_counted: bool,
    /// Numbers that were passed over and may come late, in order.
    holes: VecDeque<Hole>,
    /// How long those that came late have kept others waiting: the longest of late, and a margin.
    lateness: Duration,
    /// Packets that came late less gaps that nothing filled, of late.
    balance: i32,
}

/// By number, and for a number that came twice, one of which may be forged, by arrival.
type Place = (u64, u64);

#[derive(Debug)]
struct Waiting<T> {
    arrived: Instant,
    item: T,
}

/// Numbers from `first` to before `end`, missed since `exposed`.
#[derive(Debug, Clone, Copy)]
struct Hole {
    first: u64,
    end: u64,
    exposed: Instant,
}

impl<T> Resequencer<T> {
    /// Lets nothing wait longer than `longest`.
    pub fn new(longest: Duration) -> Self {
        Self {
            longest,
            next: 0,
            waiting: BTreeMap::new(),
            arrivals: VecDeque::new(),
            held: 0,
            late: 0,
            newest: None,
            is_counted: false,
            holes: VecDeque::new(),
            lateness: Duration::ZERO,
            balance: 0,
        }
    }

    /// How long a packet that is ahead of its turn waits at present.
    pub fn patience(&self) -> Duration {
        if self.balance > 0 { self.lateness } else { Duration::ZERO }
    }

    /// What it has done so far.
    pub fn order(&self) -> ArrivalOrder {
        ArrivalOrder { late: self.late, held: self.held, patience: self.patience() }
    }

    /// Whose turn it is.
    pub fn next(&self) -> PacketNumber {
        PacketNumber(self.next)
    }

    /// Keeps what came at `now` under `number`, ahead of its turn.
    pub fn keep(&mut self, now: Instant, number: PacketNumber, item: T) {
        self.held += 1;
        let place = (number.0, self.held);
        self.waiting.insert(place, Waiting { arrived: now, item });
        self.arrivals.push_back((now, place));
    }

    /// Takes out what may be handed on at `now`, and when it came.
    pub fn take(&mut self, now: Instant) -> Option<(Instant, T)> {
        let ((number, _), _) = self.waiting.first_key_value()?;
        let is_due = *number <= self.next;
        if !is_due && self.arrivals.len() <= MOST_WAITING && self.deadline().is_none_or(|due| due > now) {
            return None;
        }
        let (_, Waiting { arrived, item }) = self.waiting.pop_first()?;
        while self.arrivals.front().is_some_and(|(_, place)| !self.waiting.contains_key(place)) {
            self.arrivals.pop_front();
        }
        Some((arrived, item))
    }

    /// Lets go of all that waits.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.arrivals.clear();
    }

    /// When to [`take`](Self::take) at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        self.arrivals.front().map(|(arrived, _)| *arrived + self.patience())
    }

    /// Packet `number`, which came at `arrived`, was authentic.
    pub fn on_opened(&mut self, arrived: Instant, PacketNumber(number): PacketNumber) {
        if number < self.next {
            return self.fill(arrived, number);
        }
        if number > self.next {
            self.open_hole(Hole { first: self.next, end: number, exposed: arrived });
        }
        self.next = number + 1;
        match self.newest {
            Some(newest) if arrived < newest => {
                let is_new = !std::mem::replace(&mut self.is_counted, true);
                self.on_late(newest - arrived, is_new);
            }
            _ => (self.newest, self.is_counted) = (Some(arrived), false),
        }
    }

    fn open_hole(&mut self, hole: Hole) {
        self.forget(hole.exposed);
        self.holes.push_back(hole);
        self.bound_holes();
    }

    fn bound_holes(&mut self) {
        while self.holes.len() > MOST_HOLES {
            self.give_up_oldest();
        }
    }

    /// The oldest gap is a loss.
    fn give_up_oldest(&mut self) {
        self.holes.pop_front();
        self.balance = (self.balance - 1).max(-MOST_BALANCE);
    }

    /// Gives up the gaps that nothing has filled for longer than anything waits.
    fn forget(&mut self, now: Instant) {
        let longest = self.longest;
        let is_over = |hole: &Hole| now.saturating_duration_since(hole.exposed) > longest;
        while self.holes.front().is_some_and(is_over) {
            self.give_up_oldest();
        }
    }

    /// A number that was passed over has come.
    fn fill(&mut self, now: Instant, number: u64) {
        self.forget(now);
        let after = self.holes.partition_point(|hole| hole.first <= number);
        let Some(index) = after.checked_sub(1) else { return };
        let hole = self.holes[index];
        if number >= hole.end {
            return;
        }
        self.holes.remove(index);
        for (first, end) in [(number + 1, hole.end), (hole.first, number)] {
            if first < end {
                self.holes.insert(index, Hole { first, end, ..hole });
            }
        }
        self.bound_holes();
        self.on_late(now.saturating_duration_since(hole.exposed), true);
    }

    /// A packet came so much later than one of those behind it; whether that is the first of these.
    fn on_late(&mut self, by: Duration, is_new: bool) {
        if is_new {
            self.late += 1;
            self.balance = (self.balance + 1).min(MOST_BALANCE);
            self.lateness = self.lateness / 256 * 255;
        }
        self.lateness = (by + by / 8).max(self.lateness).min(self.longest);
    }
}

/// Packets that may wait: 40 ms at 1.2 Gbit/s.
const MOST_WAITING: usize = 4096;
/// Gaps that are remembered: every tenth packet of 100 ms at 1.2 Gbit/s.
const MOST_HOLES: usize = 1024;
/// After so many gaps that nothing fills, nothing waits any more, however much came late before.
const MOST_BALANCE: i32 = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_clock::{ms, t0};

    const LONGEST: Duration = Duration::from_millis(100);

    /// A receiver: what comes is handed on, or waits, as in a connection.
    struct Receiver {
        resequencer: Resequencer<u64>,
        /// Numbers in the order in which they were handed on, and when.
        handed_on: Vec<(u64, Duration)>,
    }

    impl Receiver {
        fn new() -> Self {
            Self { resequencer: Resequencer::new(LONGEST), handed_on: Vec::new() }
        }

        fn arrive(&mut self, at: Duration, number: u64) {
            self.expire(at);
            let now = t0() + at;
            let waits =
                !self.resequencer.patience().is_zero() && PacketNumber(number) > self.resequencer.next();
            if waits {
                self.resequencer.keep(now, PacketNumber(number), number);
            } else {
                self.hand_on(at, now, number);
            }
            self.take(at);
        }

        /// Lets the timers up to `at` fire.
        fn expire(&mut self, at: Duration) {
            while let Some(due) = self.resequencer.deadline().filter(|due| *due <= t0() + at) {
                self.take(due - t0());
            }
        }

        fn take(&mut self, at: Duration) {
            while let Some((arrived, number)) = self.resequencer.take(t0() + at) {
                self.hand_on(at, arrived, number);
            }
        }

        fn hand_on(&mut self, at: Duration, arrived: Instant, number: u64) {
            self.handed_on.push((number, at));
            self.resequencer.on_opened(arrived, PacketNumber(number));
        }

        fn numbers(&self) -> Vec<u64> {
            self.handed_on.iter().map(|(number, _)| *number).collect()
        }
    }

    /// Each packet after the one before by a millisecond; number 1 comes 8 ms after 2.
    fn late_by_eight() -> Receiver {
        let mut receiver = Receiver::new();
        for (at, number) in [(0, 0), (2, 2), (10, 1)] {
            receiver.arrive(ms(at), number);
        }
        receiver
    }

    #[test]
    fn where_nothing_was_late_nothing_waits() {
        let mut receiver = Receiver::new();
        for (at, number) in [(0, 0), (1, 1), (2, 4), (3, 5)] {
            receiver.arrive(ms(at), number);
        }
        assert_eq!(receiver.handed_on, [(0, ms(0)), (1, ms(1)), (4, ms(2)), (5, ms(3))]);
        assert_eq!(receiver.resequencer.deadline(), None);
    }

    #[test]
    fn a_late_packet_makes_the_next_gap_wait_as_long_and_an_eighth() {
        let mut receiver = late_by_eight();
        assert_eq!(receiver.resequencer.patience(), ms(9));
        // 3 is missing until 25; 4 and 5 wait for it.
        for (at, number) in [(20, 4), (21, 5), (25, 3)] {
            receiver.arrive(ms(at), number);
        }
        assert_eq!(receiver.handed_on[3..], [(3, ms(25)), (4, ms(25)), (5, ms(25))]);
    }

    #[test]
    fn a_gap_that_nothing_fills_is_given_up_when_its_time_is_over() {
        let mut receiver = late_by_eight();
        for (at, number) in [(20, 4), (23, 5), (24, 7), (40, 8)] {
            receiver.arrive(ms(at), number);
        }
        // 4 has waited for 3 until 29; 7 waits for 6, which was missed at 24, until 33.
        assert_eq!(receiver.handed_on[3..], [(4, ms(29)), (5, ms(29)), (7, ms(33)), (8, ms(40))]);
    }

    #[test]
    fn what_came_first_beyond_a_gap_frees_all_before_it() {
        let mut receiver = late_by_eight();
        // 6 shows at 20 that 3 and 5 are missing; 4 comes at 28.
        for (at, number) in [(20, 6), (28, 4)] {
            receiver.arrive(ms(at), number);
        }
        receiver.expire(ms(50));
        assert_eq!(receiver.handed_on[3..], [(4, ms(29)), (6, ms(29))]);
    }

    #[test]
    fn where_more_is_lost_than_late_nothing_waits() {
        let mut receiver = late_by_eight();
        // One late packet, and two gaps that nobody fills within 100 ms.
        for (at, number) in [(20, 4), (40, 6), (200, 8)] {
            receiver.arrive(ms(at), number);
        }
        receiver.expire(ms(250));
        assert_eq!(receiver.resequencer.patience(), ms(0));
        receiver.arrive(ms(400), 10);
        assert_eq!(receiver.handed_on.last(), Some(&(10, ms(400))));
    }

    #[test]
    fn what_comes_later_than_anything_waits_is_no_reason_to_wait() {
        let mut receiver = Receiver::new();
        for (at, number) in [(0, 0), (2, 2), (103, 1)] {
            receiver.arrive(ms(at), number);
        }
        assert_eq!(receiver.resequencer.patience(), ms(0));
    }

    #[test]
    fn a_forged_number_changes_neither_the_turn_nor_the_times() {
        let mut receiver = late_by_eight();
        let now = t0() + ms(20);
        receiver.resequencer.keep(now, PacketNumber(1 << 40), 0);
        receiver.arrive(ms(21), 3);
        receiver.arrive(ms(22), 4);
        let at = t0() + ms(29);
        // It is handed on, and not opened.
        assert_eq!(receiver.resequencer.take(at), Some((now, 0)));
        assert_eq!(receiver.resequencer.next(), PacketNumber(5));
        assert_eq!(receiver.numbers(), [0, 2, 1, 3, 4]);
    }

    #[test]
    fn a_number_that_comes_twice_is_handed_on_twice() {
        let mut receiver = late_by_eight();
        for (at, number) in [(20, 4), (21, 4), (22, 3)] {
            receiver.arrive(ms(at), number);
        }
        assert_eq!(receiver.numbers()[3..], [3, 4, 4]);
    }

    #[test]
    fn gaps_are_bounded_and_those_given_up_are_losses() {
        let mut receiver = Receiver::new();
        // One great gap, split by what comes late; then gaps of one.
        receiver.arrive(ms(0), 10_000);
        for number in 0..3_000 {
            receiver.resequencer.on_opened(t0(), PacketNumber(2 * number + 1));
        }
        assert!(receiver.resequencer.holes.len() <= MOST_HOLES);
        for number in 0..3_000 {
            receiver.resequencer.on_opened(t0(), PacketNumber(10_002 + 2 * number));
        }
        assert!(receiver.resequencer.holes.len() <= MOST_HOLES);
        assert_eq!(receiver.resequencer.patience(), ms(0));
    }

    #[test]
    fn a_wait_without_a_bound_is_as_long_as_packets_are_late() {
        let mut receiver = Receiver { resequencer: Resequencer::new(Duration::MAX), handed_on: Vec::new() };
        for (at, number) in [(0, 0), (2, 2), (4, 4), (10, 1)] {
            receiver.arrive(ms(at), number);
        }
        assert_eq!(receiver.resequencer.patience(), ms(9));
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut receiver = late_by_eight();
        for number in 0..6000 {
            receiver.arrive(ms(20), 4 + number);
        }
        assert!(receiver.resequencer.waiting.len() <= MOST_WAITING);
        assert_eq!(receiver.handed_on.len() - 3 + receiver.resequencer.waiting.len(), 6000);
    }

    proptest! {
        /// Any lateness and losses: all is handed on once for each time that it came, nothing waits for
        /// longer than the longest, and what waits is handed on when its time is over.
        #[test]
        fn nothing_is_lost_and_nothing_waits_too_long(
            late in prop::collection::vec(prop::option::weighted(0.95, 0..150_u64), 1..300),
        ) {
            let mut arrivals: Vec<_> = (0..).zip(&late)
                .filter_map(|(number, late)| Some((number + (*late)?, number)))
                .collect();
            arrivals.sort_unstable();
            let mut receiver = Receiver::new();
            for (at, number) in &arrivals {
                receiver.arrive(ms(*at), *number);
            }
            receiver.expire(ms(1000));
            prop_assert_eq!(receiver.handed_on.len(), arrivals.len());
            for (number, at) in &receiver.handed_on {
                let (came, _) = arrivals.iter().find(|(_, other)| other == number).expect("it came");
                prop_assert!(*at >= ms(*came) && *at <= ms(*came) + LONGEST);
            }
        }
    }
}
