//! The recovery clock: when to ask the path for a sign of life.
//!
//! `quinn-proto` waits a probe timeout of `srtt + 4·var + 25 ms` before it suspects that the last
//! packets of a flight were lost: a dozen round trips on a short path. A `PING` that follows the
//! flight by a quarter round trip comes back when the lost packets are past their time threshold of
//! 9/8 round trips, so the tail is repaired after 1.25 round trips instead.
//!
//! ```text
//! tail    (nothing left to send):   RTT/4, RTT/2, RTT, then every 5/4 RTT after the last departure
//! blocked (the window is full):     every 5/4 RTT of silence, that is neither departure nor ACK
//! ```
//! The first twelve pings of one silence keep that spacing, each later one doubles it until an ACK ends
//! the silence: a dead path gets a logarithmic number of them. How long a path may stay silent before the
//! connection ends is another clock's business, the idle timeout.

use std::time::{Duration, Instant};

use crate::signal::Rtt;

/// Why nothing is being sent though packets are in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// There is nothing left to send.
    Tail,
    /// The window is full.
    Blocked,
}

/// Early pings on the path's own clock.
#[derive(Debug, Clone)]
pub struct RecoveryClock {
    /// Departure of the newest datagram, a ping or not.
    last_sent: Instant,
    /// Departure of the newest datagram that was no ping.
    last_data: Instant,
    last_acked: Instant,
    /// Sent since the last departure of data; in a long silence, since the last sign of life.
    pings: u32,
}

impl RecoveryClock {
    /// A clock that starts at `now`.
    pub fn new(now: Instant) -> Self {
        Self { last_sent: now, last_data: now, last_acked: now, pings: 0 }
    }

    /// A datagram left that was no ping of ours. In a long silence it does not start the pings anew,
    /// since it may be one of the transport's own probes.
    pub fn on_sent(&mut self, now: Instant) {
        self.last_sent = now;
        self.last_data = now;
        if self.pings < STEADY_PINGS {
            self.pings = 0;
        }
    }

    /// A ping left.
    pub fn on_ping(&mut self, now: Instant) {
        self.last_sent = now;
        self.pings += 1;
    }

    /// An ACK frame acknowledged something new.
    pub fn on_ack(&mut self, now: Instant) {
        self.last_acked = now;
        if self.pings >= STEADY_PINGS {
            self.pings = 0;
        }
    }

    /// Whether more than pings is in flight, if this is the departure of the oldest datagram in flight.
    pub fn awaits_data(&self, oldest: Instant) -> bool {
        oldest <= self.last_data
    }

    /// When the next ping is due.
    pub fn deadline(&self, rtt: &Rtt, waiting: Waiting) -> Instant {
        let since = match waiting {
            Waiting::Tail => self.last_sent,
            Waiting::Blocked => self.last_sent.max(self.last_acked),
        };
        let spacing = match (waiting, self.pings) {
            (Waiting::Tail, 0) => rtt.smoothed / 4,
            (Waiting::Tail, 1) => rtt.smoothed / 2,
            (Waiting::Tail, 2) => rtt.smoothed,
            _ => rtt.smoothed * 5 / 4,
        };
        let doublings = self.pings.saturating_sub(STEADY_PINGS).min(MOST_DOUBLINGS);
        since + spacing.max(CLOCK_GRAIN) * (1 << doublings)
    }
}

/// Pings of one silence that keep their spacing: they span an outage of about 15 round trips.
const STEADY_PINGS: u32 = 12;

/// Keeps the spacing representable; by then the idle timeout has long ended the connection.
const MOST_DOUBLINGS: u32 = 16;

/// What a timer can place; a shorter spacing would send all pings of a silence at once.
const CLOCK_GRAIN: Duration = Duration::from_micros(250);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::{ms, t0};

    const RTT: Rtt = Rtt { latest: ms(40), min: ms(40), smoothed: ms(40), deviation: ms(1) };

    #[test]
    fn the_tail_is_asked_after_a_quarter_round_trip_and_then_more_slowly() {
        let mut clock = RecoveryClock::new(t0());
        let mut now = t0();
        let mut waits = Vec::new();
        for _ in 0..5 {
            let due = clock.deadline(&RTT, Waiting::Tail);
            waits.push(due - now);
            now = due;
            clock.on_ping(now);
        }
        assert_eq!(waits, [ms(10), ms(20), ms(40), ms(50), ms(50)]);
    }

    #[test]
    fn new_data_starts_the_tail_anew() {
        let mut clock = RecoveryClock::new(t0());
        clock.on_ping(t0() + ms(10));
        clock.on_sent(t0() + ms(15));
        assert_eq!(clock.deadline(&RTT, Waiting::Tail), t0() + ms(25));
    }

    #[test]
    fn pings_are_not_asked_after() {
        let mut clock = RecoveryClock::new(t0());
        clock.on_sent(t0() + ms(1));
        clock.on_ping(t0() + ms(11));
        assert!(clock.awaits_data(t0()) && clock.awaits_data(t0() + ms(1)));
        assert!(!clock.awaits_data(t0() + ms(11)));
    }

    #[test]
    fn a_blocked_sender_waits_for_silence() {
        let mut clock = RecoveryClock::new(t0());
        clock.on_ack(t0() + ms(30));
        assert_eq!(clock.deadline(&RTT, Waiting::Blocked), t0() + ms(80));
    }

    #[test]
    fn a_dead_path_gets_few_pings() {
        let mut clock = RecoveryClock::new(t0());
        let mut pings = 0;
        while clock.deadline(&RTT, Waiting::Blocked) < t0() + Duration::from_secs(30) {
            clock.on_ping(clock.deadline(&RTT, Waiting::Blocked));
            pings += 1;
        }
        assert!(pings <= 24, "{pings} pings in 30 s");
    }

    #[test]
    fn a_long_silence_ends_with_an_ack_and_not_with_a_probe() {
        let mut clock = RecoveryClock::new(t0());
        for _ in 0..15 {
            clock.on_ping(t0());
        }
        clock.on_sent(t0() + ms(1000));
        assert_eq!(clock.deadline(&RTT, Waiting::Tail), t0() + ms(1000 + 50 * 8));
        clock.on_ack(t0() + ms(1200));
        assert_eq!(clock.deadline(&RTT, Waiting::Tail), t0() + ms(1000 + 10));
    }
}
