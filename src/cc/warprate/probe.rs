//! Probing: one epoch above the rate, judged by what became of its packets.
//!
//! ```text
//! cruise (5 to 9 epochs) -> probe (gain, one epoch) -> judge -> success: rate · gain, and the next probe
//!                                                            -> failure: one epoch at 2 - gain, cruise
//! gain = 1.25, 1.25, 1.5, 2, 2 … while it succeeds; 1.1 after two failures
//! ```
//! A probe succeeds if its packets arrived in little more time than they left in, less than a third of the
//! stretch that a full bottleneck would have given them. Where packets come evenly, they may leave no more than
//! the target queue behind, too.

use std::time::Instant;

use super::evidence::{Point, Span};
use super::tuning::Tuning;
use crate::units::Gain;

/// A probe under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    since: Instant,
    /// When it ended; none while it lasts.
    until: Option<Instant>,
    first: Option<Point>,
    pub gain: Gain,
    /// What was sent and delivered before it.
    before: Span,
}

impl Probe {
    pub fn new(now: Instant, gain: Gain, before: Span) -> Self {
        Self { since: now, until: None, first: None, gain, before }
    }

    /// Its epoch is over.
    pub fn end(&mut self, now: Instant) {
        self.until.get_or_insert(now);
    }

    /// Whether it still sends above the rate.
    pub fn is_sending(&self) -> bool {
        self.until.is_none()
    }

    /// Takes in an ACK frame; whether what the probe added has arrived, once its packets are acknowledged.
    pub fn on_ack(&mut self, point: Point, tuning: &Tuning) -> Option<bool> {
        if point.sent_at < self.since {
            return None;
        }
        let first = *self.first.get_or_insert(point);
        if self.until.is_none_or(|until| point.sent_at < until) {
            return None;
        }
        let span = Span::between(&first, &point);
        let rise = span.ack_time.saturating_sub(span.send_time);
        let added = self.gain - Gain::ONE;
        // Of what the gain adds, all but the doubt must arrive, by the measure of the epochs before.
        let asked = Gain::ONE + added * (Gain::ONE - tuning.doubt);
        let share = |span: &Span| u128::from(span.delivered.get());
        let lossless =
            share(&span) * u128::from(self.before.sent.get()) * u128::from(self.gain.thousandths());
        let needed = share(&self.before) * u128::from(span.sent.get()) * u128::from(asked.thousandths());
        Some(rise < span.send_time * added * tuning.doubt && lossless >= needed)
    }
}

/// How probing went so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Ladder {
    successes: u32,
    failures: u32,
}

impl Ladder {
    pub fn on_success(&mut self) {
        self.successes += 1;
        self.failures = 0;
    }

    pub fn on_failure(&mut self) {
        self.failures += 1;
        self.successes = 0;
    }

    /// Gain of the next probe: a step, which doubles while it succeeds. Among others, who yield to a probe,
    /// success proves little: large steps need an empty queue.
    pub fn gain(&self, is_empty: bool, tuning: &Tuning) -> Gain {
        let added = match (self.failures, self.successes, is_empty) {
            (2.., ..) => tuning.growth,
            (_, 2, true) => tuning.step + tuning.step,
            (_, 3.., true) => Gain::ONE,
            _ => tuning.step,
        };
        Gain::ONE + added
    }

    /// How many times longer to cruise before the next probe.
    pub fn patience(&self, tuning: &Tuning) -> u32 {
        self.failures.clamp(1, tuning.patience.max(1))
    }

    /// Whether the last probe succeeded, so that the next is due at once.
    pub fn is_climbing(&self) -> bool {
        self.successes > 0
    }
}
