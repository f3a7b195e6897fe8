//! Among flows that fill the queue whatever we do: be one of them.
//!
//! A queue that does not drain when we slow down is filled by others. Then delay says nothing about our
//! rate, and the share that CUBIC takes is the share that CUBIC grants: its window is the bound.
//!
//! Every few seconds, and when the queue falls by itself, one dip asks whether they are still there: a part of
//! the rate for two round trips. A queue that empties was ours. A queue falls by itself when another dips, so
//! that dips come together and flows of our kind do not hold a queue against each other.

use std::time::{Duration, Instant};

use super::evidence::Point;
use super::tuning::Tuning;
use crate::cc::random::Random;
use crate::cc::{Cubic, PathStart, RateLaw};
use crate::signal::{Ack, Sent, Verdict, VerdictKind};
use crate::units::{Bytes, Gain};

/// A shadow CUBIC and its dips.
#[derive(Debug, Clone)]
pub(super) struct Compete {
    cubic: Cubic,
    next_dip: Instant,
    dip: Option<Dip>,
    /// Highest queue since the last loss or dip.
    peak: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Dip {
    since: Instant,
    until: Instant,
    least: Duration,
}

impl Compete {
    /// Starts with this window.
    pub fn new(now: Instant, datagram: Bytes, window: Bytes, tuning: &Tuning, random: &mut Random) -> Self {
        let cubic = Cubic::resumed(PathStart::new(now, datagram), window);
        Self { cubic, next_dip: now + random.around(tuning.interval), dip: None, peak: Duration::ZERO }
    }

    pub fn on_sent(&mut self, sent: &Sent) {
        self.cubic.on_sent(sent);
    }

    /// Takes in an ACK; whether the others are gone.
    pub fn on_ack(
        &mut self,
        ack: &Ack,
        point: Point,
        target: Duration,
        tuning: &Tuning,
        random: &mut Random,
    ) -> bool {
        self.cubic.on_ack(ack);
        let above = point.rtt().saturating_sub(ack.delay.floor);
        if let Some(dip) = &mut self.dip {
            if point.sent_at < dip.since {
                return false;
            }
            dip.least = dip.least.min(above);
            if point.sent_at < dip.until {
                return false;
            }
            let is_empty = dip.least < target * (Gain::ONE + tuning.step);
            self.dip = None;
            self.next_dip = ack.now + random.around(tuning.interval);
            self.peak = above;
            return is_empty;
        }
        self.peak = self.peak.max(ack.delay.queue);
        if ack.now >= self.next_dip || ack.delay.queue < self.peak * (Gain::ONE - tuning.growth) {
            self.dip = Some(Dip { since: ack.now, until: ack.now + point.rtt() * 2, least: above });
        }
        false
    }

    /// A loss that a full queue explains.
    pub fn on_congestion(&mut self, verdict: &Verdict) {
        self.cubic.on_verdict(&Verdict { kind: VerdictKind::Mark, ..*verdict });
        self.peak = Duration::ZERO;
    }

    pub fn on_mtu(&mut self, datagram: Bytes) {
        self.cubic.on_mtu(datagram);
    }

    pub fn window(&self, now: Instant) -> Bytes {
        self.cubic.plan(now).window
    }

    pub fn gain(&self, now: Instant, tuning: &Tuning) -> Gain {
        if self.dip.is_some_and(|dip| now < dip.until) { tuning.drained } else { Gain::ONE }
    }
}
