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
    /// now, `queue` what of it is unexplained; `is_known` whether others were there lately.
    pub fn on_epoch(
        &mut self,
        now: Instant,
        epoch: &Span,
        capacity: Rate,
        above: Duration,
        (queue, target): (Duration, Duration),
        is_known: bool,
        tuning: &Tuning,
    ) -> Answer {
        self.epochs += 1;
        self.expected += nanos(epoch.send_time) - nanos(epoch.sent / capacity);
        let expected = Duration::from_nanos(u64::try_from(self.expected).unwrap_or(0));
        let haste = if is_known { 2 } else { 1 };
        let is_long =
            self.epochs >= tuning.test_epochs / haste && self.since + tuning.shortest_test / haste <= now;
        // The longer nothing falls, the less must have been expected.
        if !is_long || expected <= target || expected * self.epochs <= queue * tuning.test_epochs {
            return Answer::Open;
        }
        let fallen = self.from.saturating_sub(above);
        if fallen < expected / 4 { Answer::NotOurs } else { Answer::Ours }
    }
}
