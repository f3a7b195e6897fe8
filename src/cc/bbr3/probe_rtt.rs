//! ProbeRTT (§5.3.4): empty the queue for 200 ms to see the path's own delay; and `min_rtt` (§5.5.7).

use std::time::{Duration, Instant};

use super::constants::{
    MIN_RTT_FILTER_LEN, PROBE_RTT_CWND_GAIN, PROBE_RTT_DURATION, PROBE_RTT_INTERVAL,
    STARTUP_ROUNDS_PER_PROBE_RTT,
};
use super::probe_bw::AckPhase;
use super::{Bbr3, Sample, State};
use crate::units::Bytes;

/// Two filters: `probe_rtt_min_delay` of 5 s decides when to drain, `min_rtt` of 10 s feeds the model.
#[derive(Debug, Clone)]
pub(super) struct MinRtt {
    pub min_rtt: Option<Duration>,
    min_rtt_stamp: Instant,
    pub probe_rtt_min_delay: Option<Duration>,
    probe_rtt_min_stamp: Instant,
    probe_rtt_min_round: u64,
    pub is_probe_rtt_expired: bool,
    /// The window that ProbeRTT aims at.
    pub probe_rtt_cwnd: Bytes,
}

/// The time at ProbeRTT's low level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    since: Instant,
    is_round_done: bool,
}

impl MinRtt {
    /// DRAFT: OnInit forgets `probe_rtt_min_delay` and its stamp: unknown, and now.
    pub fn new(now: Instant) -> Self {
        Self {
            min_rtt: None,
            min_rtt_stamp: now,
            probe_rtt_min_delay: None,
            probe_rtt_min_stamp: now,
            probe_rtt_min_round: 0,
            is_probe_rtt_expired: false,
            probe_rtt_cwnd: Bytes::MAX,
        }
    }

    fn update(&mut self, now: Instant, rtt: Duration, may_expire: bool) {
        self.is_probe_rtt_expired =
            may_expire && now.saturating_duration_since(self.probe_rtt_min_stamp) > PROBE_RTT_INTERVAL;
        if self.is_probe_rtt_expired || self.probe_rtt_min_delay.is_none_or(|min| rtt < min) {
            self.probe_rtt_min_delay = Some(rtt);
            self.probe_rtt_min_stamp = now;
        }
        let is_expired = now.saturating_duration_since(self.min_rtt_stamp) > MIN_RTT_FILTER_LEN;
        if is_expired || self.min_rtt.is_none() || self.probe_rtt_min_delay < self.min_rtt {
            self.min_rtt = self.probe_rtt_min_delay;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }
}

impl Bbr3 {
    /// §5.3.4.3 UpdateMinRTT.
    pub(super) fn update_min_rtt(&mut self, sample: &Sample) {
        // DRAFT: -06 sizes ProbeRTT's window by a min_rtt that this very sample, taken over a full queue,
        // may have replaced; the editors' copy after -06 takes it from before, and keeps it. So here.
        let target = (self.bdp(self.bw) * PROBE_RTT_CWND_GAIN).max(self.min_pipe_cwnd());
        // DEVIATES: at 64 kbit/s and 1 s a full round takes two seconds and more, and ProbeRTT every 5 s with
        // the limited samples after it would leave Startup no three rounds to see a plateau in, ever. In
        // Startup it waits for a number of rounds, too.
        let startup_rounds = self.rounds.count.saturating_sub(self.min_rtt.probe_rtt_min_round);
        let may_expire = self.full_pipe.full_bw_reached || startup_rounds > STARTUP_ROUNDS_PER_PROBE_RTT;
        let stamp = self.min_rtt.probe_rtt_min_stamp;
        self.min_rtt.update(sample.now, sample.rtt, may_expire);
        if self.min_rtt.probe_rtt_min_stamp != stamp {
            self.min_rtt.probe_rtt_min_round = self.rounds.count;
        }
        if self.min_rtt.is_probe_rtt_expired && !self.is_in_probe_rtt() {
            self.min_rtt.probe_rtt_cwnd = target;
        }
    }

    /// §5.3.4.3 CheckProbeRTT. A restart from idle has drained the queue already.
    pub(super) fn check_probe_rtt(&mut self, sample: &Sample) {
        if !self.is_in_probe_rtt() && self.min_rtt.is_probe_rtt_expired && !self.is_idle_restart {
            // DRAFT: the text saves after the state has changed, so that a stale, larger window would win.
            self.save_cwnd();
            self.state = State::ProbeRtt { hold: None };
            self.cycle.ack_phase = AckPhase::ProbeStopping;
            self.rounds.start(self.delivered);
        }
        self.handle_probe_rtt(sample.now);
        if !sample.delivered.is_zero() {
            self.is_idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, now: Instant) {
        let State::ProbeRtt { hold } = self.state else { return };
        self.self_limit.mark(now, self.delivered + self.in_flight);
        match hold {
            None if self.in_flight <= self.min_rtt.probe_rtt_cwnd => {
                self.state = State::ProbeRtt { hold: Some(Hold { since: now, is_round_done: false }) };
                self.rounds.start(self.delivered);
            }
            None => {}
            Some(hold) => {
                let hold = Hold { is_round_done: hold.is_round_done || self.rounds.is_start, ..hold };
                self.state = State::ProbeRtt { hold: Some(hold) };
                if hold.is_round_done {
                    self.check_probe_rtt_done(now, Some(hold));
                }
            }
        }
    }

    /// §5.3.4.3 CheckProbeRTTDone.
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant, hold: Option<Hold>) {
        let is_over = |hold: Hold| now.saturating_duration_since(hold.since) > PROBE_RTT_DURATION;
        if hold.is_some_and(is_over) {
            self.min_rtt.probe_rtt_min_stamp = now;
            self.min_rtt.probe_rtt_min_round = self.rounds.count;
            self.restore_cwnd();
            self.exit_probe_rtt(now);
        }
    }

    /// §5.3.4.4 ExitProbeRTT.
    fn exit_probe_rtt(&mut self, now: Instant) {
        self.bounds.reset_short_term();
        if self.full_pipe.full_bw_reached {
            self.start_probe_bw_down(now);
            self.start_probe_bw_cruise();
        } else {
            self.enter_startup();
        }
    }
}
