//! The model of the path: rounds, `max_bw`, `extra_acked`, and bandwidth-delay products.

use std::time::Instant;

use super::constants::{EXTRA_ACKED_FILTER_LEN, EXTRA_ACKED_FILTER_LEN_STARTUP};
use super::{Bbr3, Sample, State};
use crate::units::{Bytes, Rate};

/// Round trips counted in packets (§5.5.1). The law restarts rounds, so it counts its own.
#[derive(Debug, Clone, Default)]
pub(super) struct Rounds {
    pub next_round_delivered: Bytes,
    pub count: u64,
    pub is_start: bool,
}

impl Rounds {
    /// StartRound.
    pub fn start(&mut self, delivered: Bytes) {
        self.next_round_delivered = delivered;
    }

    fn update(&mut self, sample: &Sample, delivered: Bytes) {
        self.is_start = sample.prior_delivered >= self.next_round_delivered;
        if self.is_start {
            self.start(delivered);
            self.count += 1;
        }
    }
}

/// The maximum of two probe cycles: the present one and the one before (§5.5.3, §5.5.6).
#[derive(Debug, Clone, Default)]
pub(super) struct MaxBw {
    previous: Rate,
    current: Rate,
}

impl MaxBw {
    pub fn get(&self) -> Rate {
        self.previous.max(self.current)
    }

    pub fn insert(&mut self, rate: Rate) {
        self.current = self.current.max(rate);
    }

    /// AdvanceMaxBwFilter. A cycle without a sample says nothing and displaces nothing.
    pub fn advance(&mut self) {
        if !self.current.is_zero() {
            self.previous = std::mem::take(&mut self.current);
        }
    }
}

/// How much more than `bw` promises has been acknowledged at once (§5.5.9).
#[derive(Debug, Clone)]
pub(super) struct ExtraAcked {
    interval_start: Instant,
    delivered: Bytes,
    /// The maximum of each recent round, in the place `round % len`.
    by_round: [(u64, Bytes); EXTRA_ACKED_SLOTS],
    pub value: Bytes,
}

impl ExtraAcked {
    pub fn new(now: Instant) -> Self {
        Self { interval_start: now, delivered: Bytes::ZERO, by_round: Default::default(), value: Bytes::ZERO }
    }

    /// A silence is no slow delivery.
    pub fn restart(&mut self, now: Instant) {
        self.interval_start = now;
    }

    /// The excess that this ACK shows.
    pub fn excess(&mut self, now: Instant, bw: Rate, newly_acked: Bytes) -> Bytes {
        let mut expected = bw * now.saturating_duration_since(self.interval_start);
        if self.delivered <= expected {
            self.delivered = Bytes::ZERO;
            self.interval_start = now;
            expected = Bytes::ZERO;
        }
        self.delivered += newly_acked;
        self.delivered - expected
    }

    /// Windowed maximum over the last `len` full rounds and the present one.
    pub fn insert(&mut self, round: u64, excess: Bytes, len: u64) {
        let slots = self.by_round.len() as u64;
        let slot = &mut self.by_round[usize::try_from(round % slots).unwrap_or(0)];
        *slot = if slot.0 == round { (round, slot.1.max(excess)) } else { (round, excess) };
        let recent = self.by_round.iter().filter(|(at, _)| round.saturating_sub(*at) <= len);
        self.value = recent.map(|&(_, excess)| excess).max().unwrap_or(Bytes::ZERO);
    }
}

/// MarkConnectionAppLimited as far as the law itself causes it (ProbeRTT): which packets leave while
/// the law holds the sender back. The ledger marks those that the application holds back.
#[derive(Debug, Clone, Default)]
pub(super) struct SelfLimit {
    /// From when to when; open at the end while `delivered` has not passed `index`.
    span: Option<(Instant, Option<Instant>)>,
    index: Bytes,
}

impl SelfLimit {
    pub fn mark(&mut self, now: Instant, index: Bytes) {
        match &mut self.span {
            Some((_, end @ None)) => *end = None,
            span => *span = Some((now, None)),
        }
        self.index = index;
    }

    pub fn on_delivered(&mut self, now: Instant, delivered: Bytes) {
        if let Some((_, end @ None)) = &mut self.span
            && delivered > self.index
        {
            *end = Some(now);
        }
    }

    pub fn is_active(&self) -> bool {
        matches!(self.span, Some((_, None)))
    }

    pub fn covers(&self, sent: Instant) -> bool {
        self.span.is_some_and(|(from, end)| sent >= from && end.is_none_or(|end| sent <= end))
    }
}

/// The rounds of the longest filter, and the present one.
const EXTRA_ACKED_SLOTS: usize = 11;

impl Bbr3 {
    /// §5.5.5 UpdateMaxBw, with §5.5.1 UpdateRound at its head.
    pub(super) fn update_max_bw(&mut self, sample: &Sample) {
        self.rounds.update(sample, self.delivered);
        if self.rounds.is_start {
            self.cycle.rounds_since_probe_up += 1;
            self.output.start_round();
        }
        // A limited sample counts only if it shows that the estimate is too low.
        if sample.delivery_rate >= self.max_bw.get() || !sample.is_app_limited {
            self.max_bw.insert(sample.delivery_rate);
        }
    }

    /// §5.5.9 UpdateACKAggregation.
    pub(super) fn update_ack_aggregation(&mut self, sample: &Sample) {
        let excess = self.extra_acked.excess(sample.now, self.bw, sample.newly_acked);
        let len = match self.full_pipe.full_bw_reached {
            true => EXTRA_ACKED_FILTER_LEN,
            false => EXTRA_ACKED_FILTER_LEN_STARTUP,
        };
        self.extra_acked.insert(self.rounds.count, excess.min(self.output.cwnd), len);
    }

    /// §5.5.10.3 BoundBWForModel.
    pub(super) fn bound_bw_for_model(&mut self) {
        self.bw = self.max_bw.get().min(self.bounds.bw_shortterm);
    }

    /// BDPMultiple(1) at this bandwidth.
    ///
    /// DRAFT: `BBR.bdp` is only set as a side effect of BDPMultiple and may be stale or unset where it
    /// is read; here it is always computed. Calls with two arguments name the bandwidth.
    pub(super) fn bdp(&self, bw: Rate) -> Bytes {
        match self.min_rtt.min_rtt {
            Some(min_rtt) => bw * min_rtt,
            None => self.output.initial_cwnd,
        }
    }

    /// §5.6.4.2 Inflight(1.0) at this bandwidth.
    pub(super) fn inflight(&self, bw: Rate) -> Bytes {
        self.quantization_budget(self.bdp(bw))
    }

    /// §5.6.4.2 QuantizationBudget; over QUIC the offload budget is the send quantum (§5.5.8.2).
    pub(super) fn quantization_budget(&self, inflight_cap: Bytes) -> Bytes {
        let cap = inflight_cap.max(self.output.send_quantum).max(self.min_pipe_cwnd());
        match self.state {
            State::ProbeBw(super::Phase::Up) => cap + self.datagram.times(2),
            _ => cap,
        }
    }

    /// §5.3.3.8 TargetInflight.
    pub(super) fn target_inflight(&self) -> Bytes {
        self.bdp(self.bw).min(self.output.cwnd)
    }
}
