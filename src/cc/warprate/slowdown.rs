//! Does the queue answer when we slow down?
//!
//! While packets leave more slowly than they arrive, our queue drains by the difference. A delay that
//! does not is not ours: it is the path's own, or others keep the queue full.

use std::time::{Duration, Instant};

use super::evidence::{Span, nanos};
use super::tuning::Tuning;
use crate::units::Rate;

/// One slow-down because of a queue, watched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slowdown {
    since: Instant,
    epochs: u32,
    /// Delay above the floor at its begin.
    from: Duration,
    /// Nanoseconds by which the delay should have fallen since.
    expected: i64,
    /// The rate at its begin.
    pub rate: Rate,
}

/// What a slow-down showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The queue drains, or it is too early to tell.
    Open,
    Ours,
    NotOurs,
}

impl Slowdown {
    pub fn new(now: Instant, above: Duration, rate: Rate) -> Self {
        Self { since: now, epochs: 0, from: above, expected: 0, rate }
    }

    /// One more epoch, during which packets arrived at `capacity`. `above` is the delay above the floor
    /// now, `queue` what of it is unexplained.
    pub fn on_epoch(
        &mut self,
        now: Instant,
        epoch: &Span,
        capacity: Rate,
        above: Duration,
        (queue, target): (Duration, Duration),
        tuning: &Tuning,
    ) -> Answer {
        self.epochs += 1;
        self.expected += nanos(epoch.send_time) - nanos(epoch.sent / capacity);
        let expected = Duration::from_nanos(u64::try_from(self.expected).unwrap_or(0));
        let is_long = self.epochs >= tuning.evidence_epochs && self.since + tuning.shortest_test <= now;
        // The longer nothing falls, the less must have been expected.
        if !is_long || expected <= target || expected * self.epochs <= queue * tuning.evidence_epochs {
            return Answer::Open;
        }
        let fallen = self.from.saturating_sub(above);
        if fallen < expected * tuning.step { Answer::NotOurs } else { Answer::Ours }
    }
}
