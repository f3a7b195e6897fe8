//! BBRv3: a model of the path, not its losses, sets the pace. draft-ietf-ccwg-bbr-06.
//!
//! *What it decides:* pacing rate, burst and window. *In:* every event of a path. *Out:* the plan.
//! *Spec:* draft-ietf-ccwg-bbr-06 with the editors' names as of August 2026; `DRAFT:` marks a slip or a
//! gap of its text and how it is read here, `DEVIATES` what is done otherwise. *May import:* `units`,
//! `signal`.
//!
//! ```text
//! bw           = min(max_bw, bw_shortterm)             max_bw: best sample of two probe cycles
//! bdp          = bw · min_rtt                          min_rtt: least of 10 s
//! pacing_rate  = pacing_gain · bw · 0.99
//! max_inflight = max(cwnd_gain · bdp + extra_acked, send_quantum, 4 datagrams)
//! cwnd        <= min(max_inflight, inflight_longterm, inflight_shortterm)
//!
//! loss above 2 % while probing:   inflight_longterm  = max(in flight at that loss, 0.7 · bdp)
//! loss in a round otherwise:      bw_shortterm       = max(bw of the round, 0.7 · bw_shortterm)
//!                                 inflight_shortterm = likewise; both forgotten at the next probe
//!
//!               gains      leaves when
//! Startup       2.77  2    three rounds without 25 % growth, or a round of losses
//!   v
//! Drain         0.5   2    in flight <= bdp, or after three rounds
//!   v
//! DOWN          0.9   2    in flight <= bdp and below 0.85 · inflight_longterm        <---+
//!   v                                                                                     |
//! CRUISE        1.0   2    2 to 3 s, or as many rounds as the bdp has datagrams (62, 63)  |
//!   v                                                                                     |
//! REFILL        1.0   2    one round                                                      |
//!   v                                                                                     |
//! UP            1.25  2.25 no growth for three rounds, losses, or the last ceiling  ------+
//!
//! any -> ProbeRTT 1.0 0.5  5 s without a low RTT; after 200 ms and a round -> CRUISE or Startup
//! ```
//! One file per state (`startup`, `drain`, `probe_bw`, `probe_rtt`) and per part of the model (`model`,
//! `loss`, `ecn`, `control`); functions and fields bear the draft's names.

mod control;
mod drain;
mod ecn;
mod loss;
mod model;
mod probe_bw;
mod probe_rtt;

mod startup;

#[cfg(test)]
mod appendix;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use self::control::Output;
use self::ecn::Ecn;
use self::loss::{Bounds, LossRound, Recovery};
use self::model::{ExtraAcked, MaxBw, Rounds, SelfLimit};
use self::probe_bw::Cycle;
use self::probe_rtt::{Hold, MinRtt};
use self::startup::FullPipe;
use super::random::Random;
use super::{PathStart, RateLaw};
use crate::signal::{Ack, Loss, Plan, Sent, Undo, Verdict, VerdictKind};
use crate::units::{Bytes, Gain, Rate};

/// BBR version 3.
#[derive(Debug, Clone)]
pub struct Bbr3 {
    state: State,
    /// `C.SMSS`.
    datagram: Bytes,
    /// `C.inflight`.
    in_flight: Bytes,
    /// `C.delivered`.
    delivered: Bytes,
    rounds: Rounds,
    max_bw: MaxBw,
    /// `max_bw` as far as the short-term model permits it.
    bw: Rate,
    min_rtt: MinRtt,
    extra_acked: ExtraAcked,
    full_pipe: FullPipe,
    cycle: Cycle,
    bounds: Bounds,
    loss_round: LossRound,
    recovery: Recovery,
    ecn: Ecn,
    self_limit: SelfLimit,
    /// Sending resumed after a silence, and nothing of it is acknowledged yet.
    is_idle_restart: bool,
    output: Output,
    random: Random,
}

/// The state machine's states (§5.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Startup,
    Drain { start_round: u64 },
    ProbeBw(Phase),
    ProbeRtt { hold: Option<Hold> },
}

/// The phases of ProbeBW.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Down,
    Cruise,
    Refill,
    Up,
}

/// `RS`: what one ACK says about the path.
#[derive(Debug, Clone, Copy)]
struct Sample {
    now: Instant,
    /// Departure of the newest packet acknowledged.
    sent: Instant,
    /// Zero if the ACK gave no sample.
    delivery_rate: Rate,
    delivered: Bytes,
    prior_delivered: Bytes,
    newly_acked: Bytes,
    /// In flight before it.
    prior_in_flight: Bytes,
    lost: Bytes,
    tx_in_flight: Bytes,
    is_app_limited: bool,
    rtt: Duration,
}

impl Bbr3 {
    /// The law in Startup. `seed` spreads the instants of its bandwidth probes: flows that share a
    /// bottleneck need different ones.
    pub fn new(start: PathStart, seed: u64) -> Self {
        Self {
            state: State::Startup,
            datagram: start.datagram,
            in_flight: Bytes::ZERO,
            delivered: Bytes::ZERO,
            rounds: Rounds::default(),
            max_bw: MaxBw::default(),
            bw: Rate::ZERO,
            min_rtt: MinRtt::new(start.now),
            extra_acked: ExtraAcked::new(start.now),
            full_pipe: FullPipe::default(),
            cycle: Cycle::new(start.now),
            bounds: Bounds::UNBOUNDED,
            loss_round: LossRound::default(),
            recovery: Recovery::default(),
            ecn: Ecn::default(),
            self_limit: SelfLimit::default(),
            is_idle_restart: false,
            output: Output::new(start.datagram),
            random: Random::new(seed),
        }
    }

    /// The same law with Linux v3's answer to ECN marks, which is **beyond the draft**: marks on paths
    /// of at most 5 ms are a sign of a shallow threshold, and the answer is in proportion to them. Off
    /// unless asked for; a mark otherwise counts as a loss does.
    #[must_use]
    pub fn with_linux_ecn(mut self) -> Self {
        self.ecn = Ecn::linux_v3();
        self
    }

    fn sample(&self, ack: &Ack) -> Sample {
        let newest = &ack.newest;
        Sample {
            now: ack.now,
            sent: newest.sent,
            delivery_rate: ack.sample.map_or(Rate::ZERO, |sample| sample.rate),
            delivered: ack.delivered - newest.delivered,
            prior_delivered: newest.delivered,
            newly_acked: ack.bytes,
            prior_in_flight: self.in_flight,
            // DRAFT: §5.2.3 leaves open where these two come from on an ACK: the newest packet of it.
            lost: ack.lost - newest.lost,
            tx_in_flight: newest.tx_in_flight,
            is_app_limited: newest.app_limited || self.self_limit.covers(newest.sent),
            // §5.5.7.1: of the packet sent last among those acknowledged.
            rtt: ack.now.saturating_duration_since(newest.sent),
        }
    }

    /// §5.2.3 UpdateModelAndState.
    fn update_model_and_state(&mut self, sample: &Sample) {
        self.update_latest_delivery_signals(sample);
        self.update_congestion_signals(sample);
        self.update_ack_aggregation(sample);
        self.check_full_bw_reached(sample);
        self.check_startup_done(sample);
        self.check_drain_done(sample.now);
        self.update_probe_bw_cycle_phase(sample);
        self.update_min_rtt(sample);
        self.check_probe_rtt(sample);
        self.advance_latest_delivery_signals(sample);
        self.bound_bw_for_model();
        self.check_recovery_done(sample);
    }

    /// §5.4.1 HandleRestartFromIdle; the packet that ends the silence has just left.
    fn handle_restart_from_idle(&mut self, now: Instant) {
        self.is_idle_restart = true;
        self.extra_acked.restart(now);
        match self.state {
            State::ProbeBw(_) => self.set_pacing_rate_with_gain(Gain::ONE),
            State::ProbeRtt { hold } => self.check_probe_rtt_done(now, hold),
            State::Startup | State::Drain { .. } => {}
        }
    }

    fn is_in_a_probe_bw_state(&self) -> bool {
        matches!(self.state, State::ProbeBw(_))
    }

    fn is_in_probe_rtt(&self) -> bool {
        matches!(self.state, State::ProbeRtt { .. })
    }

    /// §5.3.3.9 IsProbingBW: whether losses are what the state asked for.
    fn is_probing_bw(&self) -> bool {
        matches!(self.state, State::Startup | State::ProbeBw(Phase::Refill | Phase::Up))
    }
}

impl RateLaw for Bbr3 {
    fn on_sent(&mut self, sent: &Sent) {
        let is_first = sent.in_flight <= sent.bytes;
        if is_first && (sent.app_limited || self.self_limit.is_active()) {
            self.handle_restart_from_idle(sent.now);
        }
        self.in_flight = sent.in_flight;
        self.output.note_window_use(sent.in_flight, self.datagram);
    }

    fn on_ack(&mut self, ack: &Ack) {
        let sample = self.sample(ack);
        self.in_flight = ack.in_flight;
        self.delivered = ack.delivered;
        self.self_limit.on_delivered(ack.now, ack.delivered);
        self.update_model_and_state(&sample);
        self.ecn.on_ack(&sample);
        self.update_control_parameters(&sample);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.in_flight = loss.in_flight;
        self.handle_loss(loss);
    }

    fn on_verdict(&mut self, verdict: &Verdict) {
        if verdict.kind == VerdictKind::Mark {
            self.handle_mark(verdict.now, verdict.packets);
        }
    }

    fn on_undo(&mut self, undo: &Undo) {
        self.handle_late_arrival(undo);
    }

    fn on_mtu(&mut self, datagram: Bytes) {
        self.datagram = datagram;
        self.output.cwnd = self.output.cwnd.max(self.min_pipe_cwnd());
        self.set_send_quantum();
    }

    fn plan(&self, _now: Instant) -> Plan {
        Plan {
            rate: self.output.pacing_rate,
            window: self.output.cwnd,
            quantum: self.output.send_quantum,
            copies: false,
            until: None,
        }
    }

    fn state(&self) -> &'static str {
        match self.state {
            State::Startup => "startup",
            State::Drain { .. } => "drain",
            State::ProbeBw(Phase::Down) => "probe_bw_down",
            State::ProbeBw(Phase::Cruise) => "probe_bw_cruise",
            State::ProbeBw(Phase::Refill) => "probe_bw_refill",
            State::ProbeBw(Phase::Up) => "probe_bw_up",
            State::ProbeRtt { .. } => "probe_rtt",
        }
    }
}

/// The draft's constants. Sections are those of draft-ietf-ccwg-bbr-06.
mod constants {
    use std::time::Duration;

    use crate::units::{Bytes, Gain};

    /// §5.3.1: 4 ln 2, the least that doubles the rate every round.
    pub const STARTUP_PACING_GAIN: Gain = Gain::ratio(277, 100);
    /// §5.3.2: drains what Startup queued within a round.
    pub const DRAIN_PACING_GAIN: Gain = Gain::ratio(1, 2);
    /// §5.3.3.1: the least that lets shares converge against the 1.25 of UP.
    pub const DOWN_PACING_GAIN: Gain = Gain::percent(90);
    /// §5.3.3.4: leaves an unexplored path a quarter to show.
    pub const UP_PACING_GAIN: Gain = Gain::percent(125);
    /// §5.6.1: one path, and one more for delayed and aggregated ACKs.
    pub const DEFAULT_CWND_GAIN: Gain = Gain::ratio(2, 1);
    /// §5.6.1: lets UP send faster even where the window held it.
    pub const UP_CWND_GAIN: Gain = Gain::ratio(9, 4);
    /// §5.3.4: half a path leaves no queue.
    pub const PROBE_RTT_CWND_GAIN: Gain = Gain::ratio(1, 2);
    /// §5.6.2: 1 % below the bandwidth, so that queues drain on average.
    pub const PACING_MARGIN: Gain = Gain::percent(99);
    /// §5.3.1.2: less growth than this in a round counts as none.
    pub const FULL_BW_GROWTH: Gain = Gain::percent(125);
    /// §5.3.1.2: rounds without growth; three let a receiver's window catch up.
    pub const FULL_BW_ROUNDS: u32 = 3;
    /// §5.3.1.3: separate holes in one round; fewer may be one burst.
    pub const STARTUP_FULL_LOSS_CNT: u32 = 6;
    /// §5.3.2: rounds after which Drain ends though the path is not empty.
    pub const DRAIN_ROUNDS: u64 = 3;
    /// §2: loss that a probe may cause.
    pub const LOSS_THRESH: Gain = Gain::percent(2);
    /// 1 / (1 − LossThresh), for the prefix of a lost packet that was still safe (§5.5.10.2).
    pub const PER_SAFE_BYTE: Gain = Gain::ratio(100, 98);
    /// §2: no deeper a cut than CUBIC's.
    pub const BETA: Gain = Gain::percent(70);
    /// §2 Headroom: 15 % of `inflight_longterm` stay free for others.
    pub const HEADROOM: Gain = Gain::percent(15);
    /// §5.6.4.3: two datagrams each way keep a path busy under delayed ACKs.
    pub const MIN_PIPE_DATAGRAMS: u64 = 4;
    /// §5.5.7.2.
    pub const MIN_RTT_FILTER_LEN: Duration = Duration::from_secs(10);
    /// §5.3.4: the same for all flows, so that they drain together.
    pub const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
    /// Ours: what Startup needs to find a small path full, twice.
    pub const STARTUP_ROUNDS_PER_PROBE_RTT: u64 = 8;
    /// §5.3.4: long enough for flows of different RTTs to overlap.
    pub const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
    /// §5.5.9: rounds that aggregation is remembered, and in Startup.
    pub const EXTRA_ACKED_FILTER_LEN: u64 = 10;
    pub const EXTRA_ACKED_FILTER_LEN_STARTUP: u64 = 1;
    /// §5.3.3.8: 2 s let Reno reach 25 Mbit/s at 30 ms between probes.
    pub const PROBE_WAIT_BASE: Duration = Duration::from_secs(2);
    /// §5.3.3.8: up to 1 s more at random.
    pub const PROBE_WAIT_SPREAD: Duration = Duration::from_secs(1);
    /// §5.3.3.8: as many rounds at most, or 1 % loss per round could not be made up.
    pub const PROBE_WAIT_MOST_ROUNDS: u64 = 63;
    /// §5.3.3.9: bound of the doubling of the slope of `inflight_longterm`.
    pub const MOST_UP_ROUNDS: u32 = 30;
    /// §5.6.3: bursts of 1 ms, within bounds.
    pub const SEND_QUANTUM_TIME: Duration = Duration::from_millis(1);
    pub const MOST_SEND_QUANTUM: Bytes = Bytes::kib(64);
    pub const LEAST_SEND_QUANTUM_DATAGRAMS: u64 = 2;
    /// §5.6.2: the round trip assumed before one was measured.
    pub const NOMINAL_RTT: Duration = Duration::from_millis(1);
    /// Ours: between two datagrams.
    pub const LONGEST_GAP: Duration = Duration::from_secs(1);
}
