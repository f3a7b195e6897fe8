//! Startup (§5.3.1): the rate doubles every round, until bandwidth or losses say that the path is full.

use super::constants::{FULL_BW_GROWTH, FULL_BW_ROUNDS, STARTUP_FULL_LOSS_CNT};
use super::loss::UndoState;
use super::{Bbr3, Sample, State};
use crate::units::Rate;

/// The estimator of a full pipe (§5.3.1.2), used in Startup and in UP.
#[derive(Debug, Clone, Default)]
pub(super) struct FullPipe {
    /// The baseline that has to be exceeded.
    pub full_bw: Rate,
    /// Rounds without growth.
    pub full_bw_count: u32,
    /// Full since the estimator was last reset.
    pub full_bw_now: bool,
    /// Full at least once.
    pub full_bw_reached: bool,
}

impl FullPipe {
    /// ResetFullBW, from the baseline `full_bw` on.
    pub fn reset(&mut self, full_bw: Rate) {
        self.full_bw = full_bw;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    /// DRAFT: §5.3.1.3 sets `full_bw_reached` only; its own test 2 expects `full_bw_now` too.
    fn set_full(&mut self) {
        self.full_bw_now = true;
        self.full_bw_reached = true;
    }
}

impl Bbr3 {
    /// §5.3.1.2 CheckFullBWReached.
    pub(super) fn check_full_bw_reached(&mut self, sample: &Sample) {
        let pipe = &mut self.full_pipe;
        // DRAFT: an ACK without a sample is no round without growth.
        let has_evidence = self.rounds.is_start && !sample.is_app_limited && !sample.delivery_rate.is_zero();
        if pipe.full_bw_now || !has_evidence {
            return;
        }
        if sample.delivery_rate >= pipe.full_bw * FULL_BW_GROWTH {
            pipe.reset(sample.delivery_rate);
            return;
        }
        pipe.full_bw_count += 1;
        if pipe.full_bw_count >= FULL_BW_ROUNDS {
            pipe.set_full();
        }
    }

    /// §5.3.1 CheckStartupDone.
    pub(super) fn check_startup_done(&mut self, sample: &Sample) {
        self.check_startup_high_loss(sample);
        if self.state == State::Startup && self.full_pipe.full_bw_reached {
            self.enter_drain();
        }
    }

    /// DRAFT: §5.3.1.3 has CheckStartupHighLoss in prose only. As Linux does, it is checked where a
    /// round that began with a loss ends, so that a full round of recovery is judged.
    fn check_startup_high_loss(&mut self, sample: &Sample) {
        let has_recovered_a_round = self.recovery.has_lasted_a_round(sample.sent);
        if !self.loss_round.is_start || self.recovery.is_active() && !has_recovered_a_round {
            return;
        }
        let lost_ranges = std::mem::take(&mut self.loss_round.lost_ranges);
        let is_marked = std::mem::take(&mut self.loss_round.is_marked);
        if self.state != State::Startup || self.full_pipe.full_bw_reached {
            return;
        }
        let is_lossy =
            has_recovered_a_round && lost_ranges >= STARTUP_FULL_LOSS_CNT && sample.is_inflight_too_high();
        if is_lossy {
            self.recovery.set_undo_state(UndoState::Startup);
        }
        if is_lossy || is_marked {
            self.leave_startup_at_latest_inflight();
        }
    }

    /// The path is full of what the last round delivered.
    pub(super) fn leave_startup_at_latest_inflight(&mut self) {
        self.full_pipe.set_full();
        self.bounds.inflight_longterm = self.bdp(self.bw).max(self.loss_round.inflight_latest);
    }

    /// Back to Startup: from ProbeRTT before the pipe was full, or after losses that were none.
    pub(super) fn enter_startup(&mut self) {
        self.state = State::Startup;
    }
}
