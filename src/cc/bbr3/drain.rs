//! Drain (§5.3.2): half the bandwidth, until what Startup queued is gone.

use std::time::Instant;

use super::constants::DRAIN_ROUNDS;
use super::{Bbr3, State};

impl Bbr3 {
    pub(super) fn enter_drain(&mut self) {
        self.state = State::Drain { start_round: self.rounds.count };
    }

    /// §5.3.2 CheckDrainDone. The bound in rounds is for a bandwidth that others helped to overrate.
    pub(super) fn check_drain_done(&mut self, now: Instant) {
        let State::Drain { start_round } = self.state else { return };
        let is_drained = self.in_flight <= self.inflight(self.bw);
        if is_drained || self.rounds.count > start_round + DRAIN_ROUNDS {
            self.enter_probe_bw(now);
        }
    }
}
