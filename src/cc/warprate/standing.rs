//! The standing queue: delay that lasts a whole epoch, less what is known not to be a queue of ours.
//!
//! ```text
//! queue = least RTT of the epoch - floor - foreign - lump
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use super::evidence::Epoch;
use super::tuning::Tuning;
use crate::signal::Rtt;

/// What the round-trip times of the last epochs say.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing {
    pub rtt: Option<Rtt>,
    pub floor: Duration,
    /// Delay above the floor and all that is explained.
    pub queue: Duration,
    /// Least delay above the floor in each of the last epochs.
    above: VecDeque<Duration>,
    /// Delay that did not answer to our rate.
    pub foreign: Duration,
    /// Longest silence of the last epoch.
    pub lump: Duration,
}

impl Standing {
    /// An epoch is over; the least delay above the floor in it.
    pub fn on_epoch(&mut self, epoch: &Epoch, tuning: &Tuning) -> Duration {
        let above = epoch.least_rtt().saturating_sub(self.floor);
        self.above.push_back(above);
        if self.above.len() > tuning.evidence_epochs as usize {
            self.above.pop_front();
        }
        self.foreign = self.foreign.min(self.above.iter().max().copied().unwrap_or_default());
        self.lump = epoch.lump();
        self.queue = above.saturating_sub(self.foreign + self.lump);
        above
    }
}
