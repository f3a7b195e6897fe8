//! What losses and marks do to the model (§5.5.10), and what undoes it (§5.5.11).
//!
//! While probing, losses above 2 % set `inflight_longterm`; otherwise each round with a loss lowers
//! `bw_shortterm` and `inflight_shortterm` towards what the round delivered.

use std::time::Instant;

use super::constants::{BETA, LOSS_THRESH, PER_SAFE_BYTE};
use super::{Bbr3, Phase, Sample, State};
use crate::signal::{Loss, Snapshot, Undo};
use crate::units::{Bytes, Rate};

/// The bounds that congestion taught; the largest value means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub bw_shortterm: Rate,
    pub inflight_shortterm: Bytes,
    pub inflight_longterm: Bytes,
}

impl Bounds {
    pub const UNBOUNDED: Self =
        Self { bw_shortterm: Rate::MAX, inflight_shortterm: Bytes::MAX, inflight_longterm: Bytes::MAX };

    pub fn has_longterm(&self) -> bool {
        self.inflight_longterm != Bytes::MAX
    }

    /// ResetShortTermModel.
    pub fn reset_short_term(&mut self) {
        self.bw_shortterm = Rate::MAX;
        self.inflight_shortterm = Bytes::MAX;
    }

    fn raise_to(&mut self, saved: &Self) {
        self.bw_shortterm = self.bw_shortterm.max(saved.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(saved.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(saved.inflight_longterm);
    }
}

/// The round trip over which losses and deliveries are summed up; it begins anew with a loss.
#[derive(Debug, Clone, Default)]
pub(super) struct LossRound {
    pub is_loss_in_round: bool,
    /// A round ended with this ACK.
    pub is_start: bool,
    pub bw_latest: Rate,
    pub inflight_latest: Bytes,
    /// Holes in the sequence of packets (§5.3.1.3).
    pub lost_ranges: u32,
    /// A queue marked packets in this round.
    pub is_marked: bool,
    delivered: Bytes,
    /// Where the newest hole ends, in bytes sent on the path.
    hole_end: Bytes,
}

impl LossRound {
    /// ResetCongestionSignals.
    pub fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = Rate::ZERO;
        self.inflight_latest = Bytes::ZERO;
    }

    /// Counts holes: a lost packet that directly follows the last one widens its hole. What had been
    /// sent when a packet left is what had been delivered or lost or was in flight.
    pub fn note_range(&mut self, packet: &Snapshot) {
        let end = packet.delivered + packet.lost + packet.tx_in_flight;
        if end - packet.bytes != self.hole_end || self.lost_ranges == 0 {
            self.lost_ranges = self.lost_ranges.saturating_add(1);
        }
        self.hole_end = end;
    }
}

/// A state that losses made the law leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UndoState {
    Startup,
    ProbeBwUp,
}

/// The present or last episode of losses.
///
/// It begins with a loss and ends when a packet sent since is acknowledged (RFC 9002 §7.3.2).
#[derive(Debug, Clone, Default)]
pub(super) struct Recovery {
    is_active: bool,
    episode: Option<Episode>,
}

/// What is needed to take an episode back.
#[derive(Debug, Clone)]
struct Episode {
    start: Instant,
    /// Departures of the oldest and the newest packet lost in it.
    oldest: Instant,
    newest: Instant,
    lost: u64,
    arrived: u64,
    undo_state: Option<UndoState>,
    undo: Bounds,
}

impl Recovery {
    pub fn is_active(&self) -> bool {
        self.is_active
    }

    /// Whether the last episode was taken back, or there was none.
    #[cfg(test)]
    pub fn is_forgotten(&self) -> bool {
        self.episode.is_none()
    }

    /// Whether an ACK of a packet sent at `sent` shows that a round has passed in recovery.
    pub fn has_lasted_a_round(&self, sent: Instant) -> bool {
        self.is_active && self.episode.as_ref().is_some_and(|episode| sent > episode.start)
    }

    pub fn set_undo_state(&mut self, state: UndoState) {
        if let Some(episode) = &mut self.episode {
            episode.undo_state = Some(state);
        }
    }

    fn begin(&mut self, now: Instant, first: &Snapshot, bounds: Bounds) {
        self.is_active = true;
        self.episode = Some(Episode {
            start: now,
            oldest: first.sent,
            newest: first.sent,
            lost: 0,
            arrived: 0,
            undo_state: None,
            undo: bounds,
        });
    }

    fn note_lost(&mut self, packet: &Snapshot) {
        if let Some(episode) = &mut self.episode {
            episode.lost += 1;
            episode.oldest = episode.oldest.min(packet.sent);
            episode.newest = episode.newest.max(packet.sent);
        }
    }

    /// Books a lost packet that arrived after all; the episode, if that was the last one missing.
    fn take_if_spurious(&mut self, packet: &Snapshot) -> Option<Episode> {
        let episode = self.episode.as_mut()?;
        if packet.sent < episode.oldest || packet.sent > episode.newest {
            return None;
        }
        episode.arrived += 1;
        if episode.arrived < episode.lost {
            return None;
        }
        self.is_active = false;
        self.episode.take()
    }
}

impl Sample {
    /// §5.5.10.2 IsInflightTooHigh for what an ACK shows.
    pub(super) fn is_inflight_too_high(&self) -> bool {
        is_inflight_too_high(self.lost, self.tx_in_flight)
    }
}

/// QUIC always has selective acknowledgements, so a single loss is not yet too much.
pub(super) fn is_inflight_too_high(lost: Bytes, tx_in_flight: Bytes) -> bool {
    lost > tx_in_flight * LOSS_THRESH
}

/// §5.5.10.2 InflightAtLoss: how much was in flight when losses crossed the threshold, which may have
/// happened within this packet, if it is a batch.
pub(super) fn inflight_at_loss(packet: &Snapshot, lost: Bytes) -> Bytes {
    let inflight_prev = packet.tx_in_flight - packet.bytes;
    let lost_prev = lost - packet.bytes;
    // DRAFT: the prefix is negative where earlier packets crossed the threshold; none is safe then.
    let lost_prefix = (inflight_prev * LOSS_THRESH - lost_prev) * PER_SAFE_BYTE;
    inflight_prev + lost_prefix
}

impl Bbr3 {
    /// §5.2.4, and §5.6.4.4 for what the draft calls an RTO.
    pub(super) fn handle_loss(&mut self, loss: &Loss<'_>) {
        let Some(first) = loss.packets.first() else { return };
        if !self.recovery.is_active() {
            // DRAFT: NoteLoss saves the state in every round, and again after StartProbeBW_DOWN has
            // cleared the round, so that a second packet of the same loss would overwrite what is to be
            // restored. Here an episode saves once.
            self.save_cwnd();
            self.recovery.begin(loss.now, first, self.bounds);
        }
        // DRAFT: C.lost means the losses up to the packet at hand, not those reported along with it.
        let mut lost = loss.lost - loss.bytes;
        for packet in loss.packets {
            lost += packet.bytes;
            self.handle_lost_packet(loss.now, packet, lost);
        }
        if loss.persistent {
            // DRAFT: "+ 1" is one datagram. QUIC has no RTO that lowers the window; persistent congestion
            // is its counterpart, with two datagrams as the floor (RFC 9002 §7.6.2).
            self.output.cwnd = (self.in_flight + self.datagram).max(self.datagram.times(2));
        }
        self.apply_to_output();
    }

    /// §5.5.10.2 HandleLostPacket.
    fn handle_lost_packet(&mut self, now: Instant, packet: &Snapshot, lost: Bytes) {
        self.recovery.note_lost(packet);
        self.loss_round.note_range(packet);
        self.note_congestion();
        if !self.cycle.is_bw_probe_sample {
            return;
        }
        let lost = lost - packet.lost;
        if is_inflight_too_high(lost, packet.tx_in_flight) {
            let is_app_limited = packet.app_limited || self.self_limit.covers(packet.sent);
            let was_up = self.state == State::ProbeBw(Phase::Up);
            self.handle_inflight_too_high(now, inflight_at_loss(packet, lost), is_app_limited);
            if was_up {
                self.recovery.set_undo_state(UndoState::ProbeBwUp);
            }
        }
    }

    /// §3.7: a mark is congestion, and a queue's word needs no second. Like a loss in the round, it
    /// lowers the short-term bounds at the round's end.
    ///
    /// DRAFT: no response to ECN is specified. While probing, the rule is that for senders which cannot
    /// count losses (IsInflightTooHigh without selective ACKs), since marks come without a count: any
    /// mark of a probe ends the probe, and a round with a mark ends Startup.
    pub(super) fn handle_mark(&mut self, now: Instant, packets: u32) {
        if !self.handle_linux_mark(now, packets) {
            self.note_congestion();
            self.loss_round.is_marked = true;
            if self.cycle.is_bw_probe_sample {
                self.handle_mark_of_probe(now);
            }
        }
        self.apply_to_output();
    }

    /// A probe was marked: what was in flight when the newest acknowledged packet left is too much.
    pub(super) fn handle_mark_of_probe(&mut self, now: Instant) {
        let (tx_in_flight, is_app_limited) = self.ecn.newest();
        self.handle_inflight_too_high(now, tx_in_flight, is_app_limited);
    }

    /// §5.5.10.2 NoteLoss.
    fn note_congestion(&mut self) {
        if !self.loss_round.is_loss_in_round {
            self.loss_round.delivered = self.delivered;
        }
        self.loss_round.is_loss_in_round = true;
    }

    /// §5.5.10.2 HandleInflightTooHigh.
    fn handle_inflight_too_high(&mut self, now: Instant, tx_in_flight: Bytes, is_app_limited: bool) {
        self.cycle.prev_probe_too_high = true;
        self.cycle.is_bw_probe_sample = false;
        if !is_app_limited {
            self.bounds.inflight_longterm = tx_in_flight.max(self.target_inflight() * BETA);
        }
        if self.state == State::ProbeBw(Phase::Up) {
            self.start_probe_bw_down(now);
        }
    }

    /// §5.5.10.3 UpdateLatestDeliverySignals.
    pub(super) fn update_latest_delivery_signals(&mut self, sample: &Sample) {
        let round = &mut self.loss_round;
        round.bw_latest = round.bw_latest.max(sample.delivery_rate);
        round.inflight_latest = round.inflight_latest.max(sample.delivered);
        // DRAFT: OnInit forgets `loss_round_delivered`: zero.
        round.is_start = sample.prior_delivered >= round.delivered;
        if round.is_start {
            round.delivered = self.delivered;
        }
    }

    /// §5.5.10.3 AdvanceLatestDeliverySignals.
    pub(super) fn advance_latest_delivery_signals(&mut self, sample: &Sample) {
        if self.loss_round.is_start {
            self.loss_round.bw_latest = sample.delivery_rate;
            self.loss_round.inflight_latest = sample.delivered;
        }
    }

    /// §5.5.10.3 UpdateCongestionSignals.
    pub(super) fn update_congestion_signals(&mut self, sample: &Sample) {
        self.update_max_bw(sample);
        if !self.loss_round.is_start {
            return;
        }
        self.adapt_lower_bounds_from_congestion();
        self.loss_round.is_loss_in_round = false;
    }

    /// §5.5.10.3 AdaptLowerBoundsFromCongestion, InitLowerBounds and LossLowerBounds.
    fn adapt_lower_bounds_from_congestion(&mut self) {
        let ecn_cut = self.ecn.end_round();
        if self.is_probing_bw() || !(self.loss_round.is_loss_in_round || ecn_cut.is_some()) {
            return;
        }
        if self.bounds.inflight_shortterm == Bytes::MAX {
            self.bounds.inflight_shortterm = self.output.cwnd;
        }
        let before = self.bounds.inflight_shortterm;
        if self.loss_round.is_loss_in_round {
            let (bounds, round) = (&mut self.bounds, &self.loss_round);
            if bounds.bw_shortterm == Rate::MAX {
                bounds.bw_shortterm = self.max_bw.get();
            }
            bounds.bw_shortterm = round.bw_latest.max(bounds.bw_shortterm * BETA);
            bounds.inflight_shortterm = round.inflight_latest.max(before * BETA);
        }
        if let Some(kept) = ecn_cut {
            self.bounds.inflight_shortterm = self.bounds.inflight_shortterm.min(before * kept);
        }
    }

    /// §5.6.4.4: leaving recovery, the window is what it was, as far as the model permits.
    pub(super) fn check_recovery_done(&mut self, sample: &Sample) {
        if self.recovery.has_lasted_a_round(sample.sent) {
            self.recovery.is_active = false;
            self.restore_cwnd();
        }
    }

    /// §5.5.11.2 HandleSpuriousLossDetection, once every packet lost in the episode has arrived.
    pub(super) fn handle_late_arrival(&mut self, undo: &Undo) {
        let Some(episode) = self.recovery.take_if_spurious(&undo.packet) else { return };
        self.restore_cwnd();
        self.loss_round.is_loss_in_round = false;
        self.full_pipe.reset(Rate::ZERO);
        self.bounds.raise_to(&episode.undo);
        match episode.undo_state {
            Some(UndoState::Startup) if self.state != State::Startup => {
                self.full_pipe.full_bw_reached = false;
                if !self.is_in_probe_rtt() {
                    self.enter_startup();
                }
            }
            Some(UndoState::ProbeBwUp) => {
                // DRAFT: the text keeps `prev_probe_too_high`, though the losses that set it were none.
                self.cycle.prev_probe_too_high = false;
                if self.state != State::ProbeBw(Phase::Up) && !self.is_in_probe_rtt() {
                    self.start_probe_bw_refill();
                }
            }
            _ => {}
        }
        self.apply_to_output();
    }
}
