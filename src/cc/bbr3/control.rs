//! From the model to the plan: pacing rate, send quantum and window (§5.6).

use super::constants::{
    DEFAULT_CWND_GAIN, DOWN_PACING_GAIN, DRAIN_PACING_GAIN, LEAST_SEND_QUANTUM_DATAGRAMS, LONGEST_GAP,
    MIN_PIPE_DATAGRAMS, MOST_SEND_QUANTUM, NOMINAL_RTT, PACING_MARGIN, PROBE_RTT_CWND_GAIN,
    SEND_QUANTUM_TIME, STARTUP_PACING_GAIN, UP_CWND_GAIN, UP_PACING_GAIN,
};
use super::{Bbr3, Phase, Sample, State};
use crate::units::{Bytes, Gain, Rate};

/// The control parameters.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub initial_cwnd: Bytes,
    pub cwnd: Bytes,
    pub prior_cwnd: Bytes,
    pub pacing_rate: Rate,
    pub send_quantum: Bytes,
    has_seen_rtt: bool,
    /// Whether the window was used up in this round, and in the round before.
    is_used_up: bool,
    was_used_up: bool,
}

impl Output {
    pub fn new(datagram: Bytes) -> Self {
        // RFC 9002 §7.2.
        let initial_cwnd = datagram.times(10).min(Bytes::new(14_720).max(datagram.times(2)));
        let mut output = Self {
            initial_cwnd,
            cwnd: initial_cwnd.max(datagram.times(MIN_PIPE_DATAGRAMS)),
            prior_cwnd: Bytes::ZERO,
            pacing_rate: (initial_cwnd / NOMINAL_RTT) * STARTUP_PACING_GAIN,
            send_quantum: Bytes::ZERO,
            has_seen_rtt: false,
            is_used_up: false,
            was_used_up: false,
        };
        output.set_send_quantum(datagram);
        output
    }

    /// DRAFT: C.is_cwnd_limited is the transport's; here: in this round or the one before, a departure
    /// left no room for another.
    pub fn is_cwnd_limited(&self) -> bool {
        self.is_used_up || self.was_used_up
    }

    pub fn note_window_use(&mut self, in_flight: Bytes, datagram: Bytes) {
        self.is_used_up |= in_flight + datagram > self.cwnd;
    }

    pub fn start_round(&mut self) {
        self.was_used_up = std::mem::take(&mut self.is_used_up);
    }

    /// §5.6.3 SetSendQuantum.
    fn set_send_quantum(&mut self, datagram: Bytes) {
        self.send_quantum = (self.pacing_rate * SEND_QUANTUM_TIME)
            .min(MOST_SEND_QUANTUM)
            .max(datagram.times(LEAST_SEND_QUANTUM_DATAGRAMS));
    }
}

/// §5.6.1, the table. DRAFT: the Start* functions do not assign gains; the state tells them.
const fn gains(state: &State) -> (Gain, Gain) {
    match state {
        State::Startup => (STARTUP_PACING_GAIN, DEFAULT_CWND_GAIN),
        State::Drain { .. } => (DRAIN_PACING_GAIN, DEFAULT_CWND_GAIN),
        State::ProbeBw(Phase::Down) => (DOWN_PACING_GAIN, DEFAULT_CWND_GAIN),
        State::ProbeBw(Phase::Cruise | Phase::Refill) => (Gain::ONE, DEFAULT_CWND_GAIN),
        State::ProbeBw(Phase::Up) => (UP_PACING_GAIN, UP_CWND_GAIN),
        State::ProbeRtt { .. } => (Gain::ONE, PROBE_RTT_CWND_GAIN),
    }
}

impl Bbr3 {
    /// §5.2.3 UpdateControlParameters.
    pub(super) fn update_control_parameters(&mut self, sample: &Sample) {
        self.init_pacing_rate_from_rtt(sample);
        self.set_pacing_rate();
        self.set_send_quantum();
        self.set_cwnd(sample);
    }

    /// DRAFT: losses are handled before the ACK that shows them; our transport reports them after it.
    /// What they changed takes effect here, not only with the next ACK.
    pub(super) fn apply_to_output(&mut self) {
        self.bound_bw_for_model();
        self.set_pacing_rate();
        self.set_send_quantum();
        self.bound_cwnd_for_model();
    }

    pub(super) fn pacing_gain(&self) -> Gain {
        gains(&self.state).0
    }

    pub(super) fn cwnd_gain(&self) -> Gain {
        gains(&self.state).1
    }

    /// DRAFT: InitPacingRate takes the first round trip, but is called before there is one. The guess of
    /// 1 ms would outlast Startup, since the rate may only rise before the pipe was full once.
    fn init_pacing_rate_from_rtt(&mut self, sample: &Sample) {
        if !self.output.has_seen_rtt && !sample.rtt.is_zero() {
            self.output.has_seen_rtt = true;
            self.output.pacing_rate = (self.output.initial_cwnd / sample.rtt) * STARTUP_PACING_GAIN;
        }
    }

    /// DRAFT: §5.6.2 writes C.pacing_gain; it is BBR's.
    fn set_pacing_rate(&mut self) {
        self.set_pacing_rate_with_gain(self.pacing_gain());
    }

    /// §5.6.2 SetPacingRateWithGain.
    pub(super) fn set_pacing_rate_with_gain(&mut self, gain: Gain) {
        let rate = (self.bw * gain) * PACING_MARGIN;
        let is_full = self.full_pipe.full_bw_reached && !self.bw.is_zero();
        if is_full || rate > self.output.pacing_rate {
            self.output.pacing_rate = rate;
        }
        // DEVIATES: a datagram per second at least, or what an outage did to bw would keep us from
        // noticing that it is over.
        self.output.pacing_rate = self.output.pacing_rate.max(self.datagram / LONGEST_GAP);
    }

    pub(super) fn set_send_quantum(&mut self) {
        self.output.set_send_quantum(self.datagram);
    }

    /// §5.6.4.3.
    pub(super) fn min_pipe_cwnd(&self) -> Bytes {
        self.datagram.times(MIN_PIPE_DATAGRAMS)
    }

    /// §5.6.4.2 UpdateMaxInflight.
    fn max_inflight(&self) -> Bytes {
        // DRAFT: without an RTT BDPMultiple is InitialCwnd whatever the gain.
        let bdp = self.bdp(self.bw);
        let base = if self.min_rtt.min_rtt.is_some() { bdp * self.cwnd_gain() } else { bdp };
        self.quantization_budget(base + self.extra_acked.value)
    }

    /// §5.6.4.6 SetCwnd.
    fn set_cwnd(&mut self, sample: &Sample) {
        let max_inflight = self.max_inflight();
        let grown = self.output.cwnd + sample.newly_acked;
        if self.full_pipe.full_bw_reached {
            self.output.cwnd = grown.min(max_inflight);
        } else if self.output.cwnd < max_inflight || self.delivered < self.output.initial_cwnd {
            self.output.cwnd = grown;
        }
        self.output.cwnd = self.output.cwnd.max(self.min_pipe_cwnd());
        if self.is_in_probe_rtt() {
            let target = self.min_rtt.probe_rtt_cwnd.max(self.min_pipe_cwnd());
            self.output.cwnd = self.output.cwnd.min(target);
        }
        self.bound_cwnd_for_model();
    }

    /// §5.6.4.7 BoundCwndForModel.
    ///
    /// DRAFT: the table of §5.6.1 bounds Drain by `inflight_longterm`; the pseudo-code, like Linux, does
    /// not. The pseudo-code is followed.
    fn bound_cwnd_for_model(&mut self) {
        let cap = match self.state {
            State::Startup | State::Drain { .. } => Bytes::MAX,
            State::ProbeBw(Phase::Cruise) | State::ProbeRtt { .. } => self.inflight_with_headroom(),
            State::ProbeBw(_) => self.bounds.inflight_longterm,
        };
        let cap = cap.min(self.bounds.inflight_shortterm).max(self.min_pipe_cwnd());
        self.output.cwnd = self.output.cwnd.min(cap);
    }

    /// §5.6.4.4 SaveCwnd: the last window that neither recovery nor ProbeRTT had touched.
    pub(super) fn save_cwnd(&mut self) {
        let output = &mut self.output;
        let is_touched = self.recovery.is_active() || matches!(self.state, State::ProbeRtt { .. });
        output.prior_cwnd = if is_touched { output.prior_cwnd.max(output.cwnd) } else { output.cwnd };
    }

    /// §5.6.4.4 RestoreCwnd.
    pub(super) fn restore_cwnd(&mut self) {
        self.output.cwnd = self.output.cwnd.max(self.output.prior_cwnd);
    }
}
