//! CUBIC (RFC 9438) with HyStart++ (RFC 9406), in bytes and integers.
//!
//! ```text
//! W(t)   = C · (t − K)³ + W_max              C = 0.4 segments/s³, t without application-limited time
//! K      = ∛((W_max − W_epoch) / C)
//! target = clamp(W(t + srtt), W, 1.5 · W)
//! W     += acknowledged · (target − W) / W   DEVIATES RFC 9438 §4.4, see `Increase`
//! W_est += α · acknowledged · segment / W    α = 9/17, and 1 once W_est has reached W_prior
//! W      = max(W, W_est)                     while W(t) < W_est: the Reno-friendly region
//!
//! loss or mark: W_max = W, or 0.85 · W if W < W_max (fast convergence); ssthresh = W = 0.7 · W
//! persistent congestion: W = 2 segments, slow start; then K = 0 and W_max = W where avoidance begins
//!
//!   slow start (HyStart++) --loss, mark, RTT rise--> congestion avoidance --persistent--> slow start
//! ```
//! Every increase is scaled by the bytes that an ACK acknowledges, so the window does not depend on how
//! often the receiver acknowledges.

use std::time::{Duration, Instant};

use super::hystart::{Growth, HyStart};
use super::window::{Recovery, Reduction, WindowUse, initial_window, least_window, paced};
use super::{PathStart, RateLaw};
use crate::signal::{Ack, Loss, Plan, Rtt, Sent, Snapshot, Undo, Verdict, VerdictKind};
use crate::units::{Bytes, Gain};

/// How an ACK raises the window towards the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Increase {
    /// By `acknowledged · (target − W) / W`.
    ///
    /// DEVIATES RFC 9438 §4.4, which forgets the factor `segments_acked` that its own §4.3 has: as
    /// published, a receiver that acknowledges less often makes its sender slower.
    #[default]
    PerByte,
    /// By `segment · (target − W) / W` per ACK frame, as published. For experiments only.
    Literal,
}

/// CUBIC.
#[derive(Debug, Clone)]
pub struct Cubic {
    curve: Curve,
    recovery: Recovery,
    usage: WindowUse,
    increase: Increase,
    rtt: Option<Rtt>,
    /// HyStart++ serves the initial slow start only.
    hystart: Option<HyStart>,
    /// When the application began to limit the sender.
    limited_since: Option<Instant>,
    /// The last reduction, while it may prove spurious.
    reduction: Option<Reduction<Curve>>,
}

/// The state that RFC 9438 §4.9.2 restores when a reduction proves spurious.
#[derive(Debug, Clone)]
struct Curve {
    datagram: Bytes,
    window: Bytes,
    ssthresh: Bytes,
    /// Window before the last reduction.
    prior: Bytes,
    /// W_max; `None` until a reduction has set it.
    max: Option<Bytes>,
    epoch: Option<Epoch>,
    /// What has not yet made up a byte of window.
    carry: u128,
}

/// One stage of congestion avoidance.
#[derive(Debug, Clone)]
struct Epoch {
    start: Instant,
    /// Time from the start to the plateau.
    k: Duration,
    /// The plateau.
    origin: Bytes,
    /// What Reno would have.
    estimate: Bytes,
    carry: u128,
}

impl Cubic {
    /// In slow start, with the initial window of RFC 9002 §7.2.
    pub fn new(start: PathStart) -> Self {
        Self::with_increase(start, Increase::default())
    }

    /// The same with a chosen way to raise the window.
    pub fn with_increase(start: PathStart, increase: Increase) -> Self {
        let curve = Curve {
            datagram: start.datagram,
            window: initial_window(start.datagram),
            ssthresh: Bytes::MAX,
            prior: Bytes::ZERO,
            max: None,
            epoch: None,
            carry: 0,
        };
        Self {
            curve,
            recovery: Recovery::default(),
            usage: WindowUse::default(),
            increase,
            rtt: None,
            hystart: Some(HyStart::new()),
            limited_since: None,
            reduction: None,
        }
    }

    /// In congestion avoidance with this window.
    pub(super) fn resumed(start: PathStart, window: Bytes) -> Self {
        let mut cubic = Self::new(start);
        cubic.curve.window = window.max(least_window(start.datagram));
        cubic.curve.ssthresh = cubic.curve.window;
        cubic.hystart = None;
        cubic
    }

    /// RFC 9438 §4.2, §5.8: time in which the application limits the sender does not count. Whether the
    /// ACK may raise the window.
    fn is_unlimited(&mut self, ack: &Ack) -> bool {
        let curve = &self.curve;
        let is_slow_start = curve.window < curve.ssthresh;
        if !self.usage.on_ack(ack, curve.window, is_slow_start, curve.datagram) {
            self.limited_since.get_or_insert(ack.now);
            return false;
        }
        if let (Some(since), Some(epoch)) = (self.limited_since.take(), &mut self.curve.epoch) {
            epoch.start += ack.now.saturating_duration_since(since.max(epoch.start));
        }
        true
    }

    fn slow_start(&mut self, ack: &Ack) {
        match &mut self.hystart {
            None => self.curve.window += ack.bytes,
            Some(hystart) => match hystart.on_ack(ack) {
                Growth::By(bytes) => self.curve.window += bytes,
                Growth::Done => {
                    self.curve.ssthresh = self.curve.window;
                    self.hystart = None;
                }
            },
        }
    }

    /// Answers a loss of these packets, or a mark, which cannot prove spurious.
    fn reduce(&mut self, lost: &[Snapshot]) {
        self.reduction = Reduction::new(lost, self.curve.clone());
        self.hystart = None;
        self.limited_since = None;
        self.curve.reduce();
    }
}

impl Curve {
    /// RFC 9438 §4.6, §4.7.
    fn reduce(&mut self) {
        let max = match self.max {
            Some(max) if self.window < max => self.window * FAST_CONVERGENCE,
            _ => self.window,
        };
        self.max = Some(max);
        self.prior = self.window;
        // §4.6 takes the flight size; the window may stand for it, since it never grows unused (§5.8).
        self.window = (self.window * BETA).max(least_window(self.datagram));
        self.ssthresh = self.window;
        self.epoch = None;
        self.carry = 0;
    }

    /// One ACK in congestion avoidance.
    fn avoid(&mut self, ack: &Ack, increase: Increase) {
        let datagram = self.datagram;
        let mut epoch = self.epoch.take().unwrap_or_else(|| self.begin_epoch(ack.now));
        let t = ack.now.saturating_duration_since(epoch.start);
        let now = epoch.window_at(t, datagram);
        let target =
            epoch.window_at(t + ack.rtt.smoothed, datagram).clamp(self.window, self.window * MOST_GROWTH);
        epoch.estimate_reno(ack.bytes, self.window, self.prior, datagram);
        if now < epoch.estimate {
            // §4.3: the Reno-friendly region.
            self.window = self.window.max(epoch.estimate);
        } else {
            let counted = match increase {
                Increase::PerByte => ack.bytes,
                Increase::Literal => datagram,
            };
            self.carry += u128::from(counted.get()) * u128::from((target - self.window).get());
            let window = u128::from(self.window.get());
            self.window += whole(self.carry / window);
            self.carry %= window;
        }
        self.epoch = Some(epoch);
    }

    /// RFC 9438 §4.2; without a reduction before it, §4.8 and §4.10: K = 0, W_max = W.
    fn begin_epoch(&mut self, now: Instant) -> Epoch {
        let max = *self.max.get_or_insert(self.window);
        if self.prior.is_zero() {
            self.prior = self.window;
        }
        let origin = max.max(self.window);
        Epoch {
            start: now,
            k: time_to_plateau(origin - self.window, self.datagram),
            origin,
            estimate: self.window,
            carry: 0,
        }
    }
}

impl Epoch {
    /// W(t) = C · (t − K)³ + W_max, in bytes, never below zero.
    fn window_at(&self, t: Duration, datagram: Bytes) -> Bytes {
        let offset = micros(t.min(LONGEST_EPOCH)) - micros(self.k);
        let grown =
            offset.pow(3) / MICROS_CUBED_PER_STEP * i128::from(datagram.get()) * C_NUM / C_DEN / STEPS;
        let window = i128::from(self.origin.get()) + grown;
        Bytes::new(u64::try_from(window.max(0)).unwrap_or(u64::MAX))
    }

    /// RFC 9438 §4.3: W_est grows by α segments per window acknowledged.
    fn estimate_reno(&mut self, acknowledged: Bytes, window: Bytes, prior: Bytes, datagram: Bytes) {
        let (num, den) = if self.estimate < prior { ALPHA } else { (1, 1) };
        self.carry += u128::from(acknowledged.get()) * u128::from(datagram.get()) * num;
        let unit = u128::from(window.get()) * den;
        self.estimate += whole(self.carry / unit);
        self.carry %= unit;
    }
}

impl RateLaw for Cubic {
    fn on_sent(&mut self, sent: &Sent) {
        self.usage.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.rtt = Some(ack.rtt);
        if !self.is_unlimited(ack) || self.recovery.covers(ack.newest.sent) {
            return;
        }
        if self.curve.window < self.curve.ssthresh {
            self.slow_start(ack);
        } else {
            self.curve.avoid(ack, self.increase);
        }
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        let Some(newest) = loss.packets.last() else { return };
        if self.recovery.begins(loss.now, newest.sent) {
            self.reduce(loss.packets);
        } else if let Some(reduction) = &mut self.reduction {
            reduction.on_loss(loss.packets.len());
        }
        if loss.persistent {
            // RFC 9438 §4.8: as Reno, but with CUBIC's ssthresh; the next stage begins with K = 0.
            self.curve.window = least_window(self.curve.datagram);
            self.curve.max = None;
            self.curve.prior = Bytes::ZERO;
            self.recovery.end();
            self.reduction = None;
        }
    }

    fn on_verdict(&mut self, verdict: &Verdict) {
        if verdict.kind == VerdictKind::Mark && self.recovery.begins(verdict.now, verdict.newest) {
            self.reduce(&[]);
        }
    }

    fn on_undo(&mut self, undo: &Undo) {
        let Some(reduction) = self.reduction.as_mut().filter(|_| self.recovery.covers(undo.packet.sent))
        else {
            return;
        };
        // RFC 9438 §4.9.2: only if the window is still below what it was.
        if reduction.on_undo(&undo.packet) && self.curve.window < reduction.before.window {
            let datagram = self.curve.datagram;
            self.curve = reduction.before.clone();
            self.reduction = None;
            // Packets may have grown since.
            self.on_mtu(datagram);
        }
    }

    fn on_mtu(&mut self, datagram: Bytes) {
        self.curve.datagram = datagram;
        self.curve.window = self.curve.window.max(least_window(datagram));
    }

    fn plan(&self, _now: Instant) -> Plan {
        paced(self.curve.window, self.rtt)
    }

    fn state(&self) -> &'static str {
        match &self.hystart {
            _ if self.curve.window >= self.curve.ssthresh => "congestion avoidance",
            Some(hystart) => hystart.name(),
            None => "slow start",
        }
    }
}

/// K = ∛(ΔW / C), rounded down to a microsecond.
fn time_to_plateau(below: Bytes, datagram: Bytes) -> Duration {
    let cubed = u128::from(below.get()) * C_DEN.unsigned_abs() * MICROS_PER_SEC.pow(3)
        / (C_NUM.unsigned_abs() * u128::from(datagram.get().max(1)));
    Duration::from_micros(cube_root(cubed))
}

/// The largest integer whose cube is at most `x`; bit by bit, so that every machine agrees.
fn cube_root(x: u128) -> u64 {
    let mut root = 0u128;
    for bit in (0..42).rev() {
        let candidate = root | (1 << bit);
        if candidate.pow(3) <= x {
            root = candidate;
        }
    }
    u64::try_from(root).expect("42 bits fit")
}

fn micros(time: Duration) -> i128 {
    i128::try_from(time.as_micros()).unwrap_or(i128::MAX)
}

fn whole(bytes: u128) -> Bytes {
    Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
}

// RFC 9438 §4.1: C = 0.4 segments/s³.
const C_NUM: i128 = 4;
const C_DEN: i128 = 10;

/// RFC 9438 §4.6: β = 0.7.
const BETA: Gain = Gain::ratio(7, 10);

/// RFC 9438 §4.7: (1 + β) / 2.
const FAST_CONVERGENCE: Gain = Gain::ratio(17, 20);

/// RFC 9438 §4.3: α = 3 (1 − β) / (1 + β) = 9/17.
const ALPHA: (u128, u128) = (9, 17);

/// RFC 9438 §4.2: the target is at most 1.5 windows.
const MOST_GROWTH: Gain = Gain::ratio(3, 2);

const MICROS_PER_SEC: u128 = 1_000_000;

/// Cubes are taken in µs³ and brought to 10⁻⁹ s³ before they meet the segment size, so that neither
/// precision nor 128 bits are exceeded: a step is 10⁹ µs³, and 10⁹ steps are a cubic second.
const MICROS_CUBED_PER_STEP: i128 = 1_000_000_000;
const STEPS: i128 = 1_000_000_000;

/// After a day the curve has long passed any window; keeps the cube within 128 bits.
const LONGEST_EPOCH: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod rfc9438;
