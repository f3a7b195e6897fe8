//! ProbeBW (§5.3.3): DOWN, CRUISE, REFILL, UP and round again.

use std::time::{Duration, Instant};

use super::constants::{
    HEADROOM, MOST_UP_ROUNDS, PROBE_WAIT_BASE, PROBE_WAIT_MOST_ROUNDS, PROBE_WAIT_SPREAD,
};
use super::{Bbr3, Phase, Sample, State};
use crate::units::{Bytes, Rate};

/// What a cycle of probing remembers.
#[derive(Debug, Clone)]
pub(super) struct Cycle {
    pub ack_phase: AckPhase,
    /// Start of DOWN.
    pub cycle_stamp: Instant,
    pub bw_probe_wait: Duration,
    pub rounds_since_probe_up: u64,
    /// Whether ACKs and losses still come from an accelerating phase.
    pub is_bw_probe_sample: bool,
    /// The last probe ended in losses: the next one stops at the ceiling that it found.
    pub prev_probe_too_high: bool,
    /// The last probe stopped at that ceiling: without losses, the next one follows at once.
    pub prev_probe_precautionary: bool,
    bw_probe_up_rounds: u32,
    bw_probe_up_acked: Bytes,
    pub probe_up_acked_per_inc: Bytes,
}

/// What ACKs are feedback of (§2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

impl Cycle {
    pub fn new(now: Instant) -> Self {
        Self {
            ack_phase: AckPhase::Init,
            cycle_stamp: now,
            bw_probe_wait: Duration::ZERO,
            rounds_since_probe_up: 0,
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            bw_probe_up_rounds: 0,
            bw_probe_up_acked: Bytes::ZERO,
            probe_up_acked_per_inc: Bytes::MAX,
        }
    }
}

impl Bbr3 {
    /// §5.3.3.9 EnterProbeBW.
    pub(super) fn enter_probe_bw(&mut self, now: Instant) {
        self.start_probe_bw_down(now);
    }

    pub(super) fn start_probe_bw_down(&mut self, now: Instant) {
        self.loss_round.reset_congestion_signals();
        self.cycle.probe_up_acked_per_inc = Bytes::MAX;
        self.pick_probe_wait();
        self.cycle.cycle_stamp = now;
        self.cycle.ack_phase = AckPhase::ProbeStopping;
        self.rounds.start(self.delivered);
        self.state = State::ProbeBw(Phase::Down);
    }

    pub(super) fn start_probe_bw_cruise(&mut self) {
        self.state = State::ProbeBw(Phase::Cruise);
    }

    pub(super) fn start_probe_bw_refill(&mut self) {
        self.bounds.reset_short_term();
        self.cycle.bw_probe_up_rounds = 0;
        self.cycle.bw_probe_up_acked = Bytes::ZERO;
        self.cycle.prev_probe_precautionary = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.rounds.start(self.delivered);
        self.state = State::ProbeBw(Phase::Refill);
    }

    fn start_probe_bw_up(&mut self, delivery_rate: Rate) {
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.rounds.start(self.delivered);
        self.full_pipe.reset(delivery_rate);
        self.state = State::ProbeBw(Phase::Up);
        self.raise_inflight_longterm_slope();
    }

    /// §5.3.3.9 UpdateProbeBWCyclePhase.
    pub(super) fn update_probe_bw_cycle_phase(&mut self, sample: &Sample) {
        if !self.full_pipe.full_bw_reached || self.adapt_long_term_model(sample) {
            return;
        }
        let State::ProbeBw(phase) = self.state else { return };
        match phase {
            Phase::Down | Phase::Cruise if self.is_time_to_probe_bw(sample.now) => {
                self.start_probe_bw_refill();
            }
            Phase::Down if self.is_time_to_cruise() => self.start_probe_bw_cruise(),
            Phase::Refill if self.rounds.is_start => {
                self.cycle.is_bw_probe_sample = true;
                self.start_probe_bw_up(sample.delivery_rate);
            }
            Phase::Up if self.is_time_to_go_down(sample) => {
                self.cycle.prev_probe_too_high = false;
                self.start_probe_bw_down(sample.now);
            }
            _ => {}
        }
    }

    /// §5.3.3.9 AdaptLongTermModel; whether it changed the state.
    fn adapt_long_term_model(&mut self, sample: &Sample) -> bool {
        let is_start = self.rounds.is_start;
        if self.cycle.ack_phase == AckPhase::ProbeStarting && is_start {
            self.cycle.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.cycle.ack_phase == AckPhase::ProbeStopping && is_start {
            self.cycle.is_bw_probe_sample = false;
            self.cycle.ack_phase = AckPhase::Init;
            if self.is_in_a_probe_bw_state() && !sample.is_app_limited {
                self.max_bw.advance();
            }
            // Precautionary acceleration: a round of feedback on the old ceiling was free of loss.
            let was_safe = self.cycle.prev_probe_precautionary && !self.cycle.prev_probe_too_high;
            if self.is_in_a_probe_bw_state() && was_safe {
                self.start_probe_bw_refill();
                return true;
            }
        }
        // DRAFT: losses seen on an ACK only withhold the raise; the cut is made per lost packet.
        if !sample.is_inflight_too_high() && self.bounds.has_longterm() {
            self.bounds.inflight_longterm = self.bounds.inflight_longterm.max(sample.tx_in_flight);
            if self.state == State::ProbeBw(Phase::Up) {
                self.probe_inflight_longterm_upward(sample);
            }
        }
        false
    }

    /// §5.3.3.8 IsTimeToProbeBW.
    fn is_time_to_probe_bw(&self, now: Instant) -> bool {
        let waited = now.saturating_duration_since(self.cycle.cycle_stamp);
        waited > self.cycle.bw_probe_wait || self.is_reno_coexistence_probe_time()
    }

    /// §5.3.3.8: probe no more often than Reno would grow by the same share.
    ///
    /// DRAFT: it compares rounds with bytes; Reno takes as many rounds as it has datagrams in flight.
    fn is_reno_coexistence_probe_time(&self) -> bool {
        let reno_rounds = self.target_inflight().get() / self.datagram.get().max(1);
        self.cycle.rounds_since_probe_up >= reno_rounds.min(PROBE_WAIT_MOST_ROUNDS)
    }

    fn pick_probe_wait(&mut self) {
        self.cycle.rounds_since_probe_up = self.random.bit();
        self.cycle.bw_probe_wait = PROBE_WAIT_BASE + self.random.below(PROBE_WAIT_SPREAD);
    }

    fn is_time_to_cruise(&self) -> bool {
        self.in_flight <= self.inflight_with_headroom() && self.in_flight <= self.inflight(self.max_bw.get())
    }

    /// §5.3.3.9 IsTimeToGoDown.
    fn is_time_to_go_down(&mut self, sample: &Sample) -> bool {
        let ceiling = self.bounds.inflight_longterm;
        // DRAFT: C.inflight has to be that before the ACK, as in Linux, and the ceiling is reached when no
        // datagram has room below it: the window ends there, so after an ACK, or exactly, it never is.
        let is_at_ceiling = self.bounds.has_longterm() && sample.prior_in_flight + self.datagram > ceiling;
        if self.cycle.prev_probe_too_high && is_at_ceiling {
            // Precautionary deceleration: the last probe had losses here.
            self.cycle.prev_probe_precautionary = true;
            return true;
        }
        if self.output.is_cwnd_limited() && self.output.cwnd >= ceiling {
            // The ceiling, not the path, may be what limits the bandwidth.
            self.full_pipe.reset(sample.delivery_rate);
            return false;
        }
        self.full_pipe.full_bw_now
    }

    /// What leaves room in the bottleneck's buffer for others.
    pub(super) fn inflight_with_headroom(&self) -> Bytes {
        let ceiling = self.bounds.inflight_longterm;
        if !self.bounds.has_longterm() {
            return ceiling;
        }
        (ceiling - (ceiling * HEADROOM).max(self.datagram)).max(self.min_pipe_cwnd())
    }

    /// The next round adds twice as many datagrams to `inflight_longterm` as this one.
    fn raise_inflight_longterm_slope(&mut self) {
        let growth_this_round = 1u64 << self.cycle.bw_probe_up_rounds;
        self.cycle.bw_probe_up_rounds = (self.cycle.bw_probe_up_rounds + 1).min(MOST_UP_ROUNDS);
        let per_inc = Bytes::new(self.output.cwnd.get() / growth_this_round);
        self.cycle.probe_up_acked_per_inc = per_inc.max(self.datagram).max(Bytes::new(1));
    }

    /// §5.3.3.9 ProbeInflightLongtermUpward.
    fn probe_inflight_longterm_upward(&mut self, sample: &Sample) {
        if !self.output.is_cwnd_limited() || self.output.cwnd < self.bounds.inflight_longterm {
            return;
        }
        let cycle = &mut self.cycle;
        cycle.bw_probe_up_acked += sample.newly_acked;
        let steps = cycle.bw_probe_up_acked.get() / cycle.probe_up_acked_per_inc.get().max(1);
        cycle.bw_probe_up_acked -= cycle.probe_up_acked_per_inc.times(steps);
        self.bounds.inflight_longterm += self.datagram.times(steps);
        if self.rounds.is_start {
            self.raise_inflight_longterm_slope();
        }
    }
}
