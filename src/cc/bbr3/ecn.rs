//! Linux v3's answer to ECN marks, **beyond the draft** and off by default.
//!
//! ```text
//! alpha              += (share of marked bytes in the round − alpha) / 16      starts at 1
//! inflight_shortterm  = (1 − alpha / 3) · inflight_shortterm                   per marked round
//! a probe is too high   if more than half of a round is marked; two such rounds end Startup
//! ```
//! It holds on paths with a `min_rtt` of at most 5 ms, where a mark means a shallow threshold; a longer
//! path treats a mark as the default does. Marked packets count as full datagrams, and no more of them than
//! the ACK frame acknowledged.

use std::time::{Duration, Instant};

use super::{Bbr3, Sample, State};
use crate::units::{Bytes, Gain};

/// What marks are weighed with.
#[derive(Debug, Clone)]
pub(super) struct Ecn {
    mode: Mode,
    /// What was in flight when the newest acknowledged packet left, and whether it was app-limited.
    newest: (Bytes, bool),
}

#[derive(Debug, Clone)]
enum Mode {
    AsLoss,
    LinuxV3(Shares),
}

#[derive(Debug, Clone)]
struct Shares {
    /// In units of 2⁻¹⁶.
    alpha: u32,
    frame: Bytes,
    acked: Bytes,
    marked: Bytes,
    high_rounds: u32,
}

impl Default for Ecn {
    fn default() -> Self {
        Self { mode: Mode::AsLoss, newest: (Bytes::ZERO, false) }
    }
}

impl Ecn {
    pub fn linux_v3() -> Self {
        let shares = Shares {
            alpha: ONE,
            frame: Bytes::ZERO,
            acked: Bytes::ZERO,
            marked: Bytes::ZERO,
            high_rounds: 0,
        };
        Self { mode: Mode::LinuxV3(shares), ..Self::default() }
    }

    pub fn newest(&self) -> (Bytes, bool) {
        self.newest
    }

    pub fn on_ack(&mut self, sample: &Sample) {
        self.newest = (sample.tx_in_flight, sample.is_app_limited);
        if let Mode::LinuxV3(shares) = &mut self.mode {
            shares.frame = sample.newly_acked;
            shares.acked += sample.newly_acked;
        }
    }

    /// Ends the round; what is kept of `inflight_shortterm` if it was marked.
    pub fn end_round(&mut self) -> Option<Gain> {
        let Mode::LinuxV3(shares) = &mut self.mode else { return None };
        let acked = std::mem::take(&mut shares.acked);
        let marked = std::mem::take(&mut shares.marked);
        let share = marked.get().min(acked.get()).saturating_mul(u64::from(ONE)) / acked.get().max(1);
        let share = u32::try_from(share).unwrap_or(ONE);
        shares.alpha = shares.alpha - shares.alpha / ALPHA_DIVISOR + share / ALPHA_DIVISOR;
        shares.high_rounds = if share > ONE / 2 { shares.high_rounds + 1 } else { 0 };
        (!marked.is_zero()).then(|| Gain::ratio(ONE - shares.alpha / CUT_DIVISOR, ONE))
    }
}

impl Bbr3 {
    /// Whether the mark is answered in Linux's way.
    pub(super) fn handle_linux_mark(&mut self, now: Instant, packets: u32) -> bool {
        let is_short = self.min_rtt.min_rtt.is_some_and(|rtt| rtt <= LONGEST_RTT);
        let Mode::LinuxV3(shares) = &mut self.ecn.mode else { return false };
        if !is_short {
            return false;
        }
        shares.marked += shares.frame.min(self.datagram.times(packets.into()));
        let is_high = shares.marked.times(2) > shares.acked;
        let ends_startup = shares.high_rounds >= STARTUP_HIGH_ROUNDS;
        if self.state == State::Startup && ends_startup {
            self.leave_startup_at_latest_inflight();
        }
        if self.cycle.is_bw_probe_sample && is_high {
            self.handle_mark_of_probe(now);
        }
        true
    }
}

const ONE: u32 = 1 << 16;
/// The mean's weight, 1/16.
const ALPHA_DIVISOR: u32 = 16;
/// A fully marked round costs a third.
const CUT_DIVISOR: u32 = 3;
/// Rounds marked by more than half that end Startup.
const STARTUP_HIGH_ROUNDS: u32 = 2;
/// Longer paths are not in the same building as a shallow threshold.
const LONGEST_RTT: Duration = Duration::from_millis(5);
