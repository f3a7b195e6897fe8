//! Whether loss follows our rate: the check on the credit that scatter gets.
//!
//! A buffer too small to show a queue drops what exceeds the bottleneck, and that looks like scatter.
//! Random loss does not care how fast we send; such drops end when we slow down. So, while losses are
//! credited, one slower spell every few seconds asks them.

use std::time::{Duration, Instant};

use super::evidence::{Point, Span};
use super::tuning::Tuning;
use crate::cc::random::Random;
use crate::units::{Bytes, Gain, Rate};

/// Losses of a spell, of a slower one, and the verdict.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    sent: Bytes,
    lost: Bytes,
    test: Option<Test>,
    next_test: Instant,
    /// Tests in a row that found chance: each makes the next one rarer.
    acquittals: u32,
    elastic: Option<Elastic>,
}

/// Loss was found to follow our rate.
#[derive(Debug, Clone, Copy)]
struct Elastic {
    /// It counts as ours so long.
    until: Instant,
    /// What to go back to if that was wrong.
    rate: Rate,
    /// Pace of the slower spell, in which little was lost.
    pace: Rate,
}

#[derive(Debug, Clone, Copy)]
struct Test {
    since: Instant,
    until: Instant,
    lost: Bytes,
    /// First and last packet of the spell that were acknowledged.
    ends: Option<(Point, Point)>,
}

impl Guard {
    pub fn new(now: Instant, tuning: &Tuning) -> Self {
        let next_test = now + tuning.interval;
        Self { sent: Bytes::ZERO, lost: Bytes::ZERO, test: None, next_test, acquittals: 0, elastic: None }
    }

    /// A loss that is to be credited; `newest` is its departure.
    pub fn on_loss(&mut self, newest: Instant, bytes: Bytes, is_cruising: bool) {
        match &mut self.test {
            Some(test) if test.since <= newest && newest < test.until => test.lost += bytes,
            Some(_) => {}
            None if is_cruising => self.lost += bytes,
            None => {}
        }
    }

    /// An epoch of cruising has sent this much. How long a slower spell is due now, if any.
    pub fn on_epoch(
        &mut self,
        now: Instant,
        sent: Bytes,
        epoch: Duration,
        datagram: Bytes,
        tuning: &Tuning,
        random: &mut Random,
    ) -> Option<Duration> {
        self.sent += sent;
        if now < self.next_test || self.test.is_some() {
            return None;
        }
        self.next_test = now + random.around(tuning.interval) * (1 << self.acquittals.min(3));
        let tested = u64::from(tuning.tested_losses);
        let is_worth = self.lost > self.sent * tuning.least_loss && self.lost > datagram.times(tested);
        if !is_worth {
            (self.sent, self.lost) = (Bytes::ZERO, Bytes::ZERO);
            return None;
        }
        // As long as it takes to lose so many at the slower rate, but no longer than until the next test.
        let needed =
            (datagram.times(tested) * (Gain::ONE + tuning.step)).get() * self.sent.get() / self.lost.get();
        let epochs = u32::try_from(needed.div_ceil(sent.get().max(1))).unwrap_or(u32::MAX);
        let length = epoch.saturating_mul(epochs).min(tuning.interval);
        self.test = Some(Test { since: now, until: now + length, lost: Bytes::ZERO, ends: None });
        Some(length)
    }

    /// Takes in an ACK frame; the packets sent up to `resolved` have met their fate. Whether loss follows
    /// our rate, once the slower spell tells; `rate` is kept for [`Guard::acquit`] alone.
    pub fn judge(
        &mut self,
        now: Instant,
        point: Point,
        resolved: Instant,
        rate: Rate,
        tuning: &Tuning,
    ) -> bool {
        let Some(test) = &mut self.test else { return false };
        if point.sent_at >= test.since && point.sent_at < test.until {
            let first = test.ends.map_or(point, |(first, _)| first);
            test.ends = Some((first, point));
        }
        if resolved < test.until {
            return false;
        }
        let Some((first, last)) = test.ends else {
            return self.end_test(None);
        };
        let span = Span::between(&first, &last);
        // lost' / sent' < lost / sent / 2: chance does so once in 200 tests of 64 losses.
        let slower = u128::from(test.lost.get()) * u128::from(self.sent.get()) * 2;
        let usual = u128::from(self.lost.get()) * u128::from(span.sent.get());
        let elastic = Elastic { until: now + tuning.interval * 2, rate, pace: span.pace() };
        self.end_test((slower < usual).then_some(elastic))
    }

    fn end_test(&mut self, found: Option<Elastic>) -> bool {
        self.test = None;
        (self.sent, self.lost) = (Bytes::ZERO, Bytes::ZERO);
        if found.is_some() {
            self.elastic = found;
            self.acquittals = 0;
        } else {
            self.acquittals += 1;
        }
        found.is_some()
    }

    /// A loss while loss counts as ours. One that goes on though far less arrives than in the slower spell is
    /// not: the verdict was wrong, and the rate from before it is due.
    pub fn acquit(&mut self, arrival: Rate, tuning: &Tuning) -> Option<Rate> {
        let elastic = self.elastic.filter(|elastic| arrival < elastic.pace * (Gain::ONE - tuning.cut))?;
        self.elastic = None;
        self.acquittals += 1;
        Some(elastic.rate)
    }

    /// Whether loss was found to follow our rate, not long ago.
    pub fn is_elastic(&self, now: Instant) -> bool {
        self.elastic.is_some_and(|elastic| now < elastic.until)
    }
}
