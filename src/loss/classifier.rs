//! What a loss means: scatter, burst or congestion.
//!
//! ```text
//! raised    = queue seen by the packets acknowledged around it > max(floor / 8, 1 ms)
//! clustered = losses among the last 64 packets > e + 2 · sqrt(e) + 1, e = 64 · scatter rate
//!
//! persistent congestion (RFC 9002 §7.6)      -> persistent
//! raised and clustered                       -> congestion
//! clustered, not raised                      -> burst
//! otherwise                                  -> scatter
//! ```
//! The scatter rate is the fraction lost so (mean with weight 1/1024).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::signal::{Ack, Delay, Loss, Verdict, VerdictKind};
use crate::units::Bytes;

/// Tells kinds of loss apart.
#[derive(Debug, Clone, Default)]
pub struct Classifier {
    delay: Delay,
    /// When that was so.
    acked_at: Option<Instant>,
    /// Fates of the last packets, `true` for a loss.
    fates: VecDeque<bool>,
    losses: u32,
    /// Losses by chance per million packets.
    scatter_ppm: u32,
    /// When a queue last took or marked a packet.
    congested_at: Option<Instant>,
}

impl Classifier {
    /// Takes in what an ACK frame acknowledged.
    pub fn on_ack(&mut self, ack: &Ack) {
        self.delay = ack.delay;
        self.acked_at = Some(ack.now);
        for _ in 0..ack.packets {
            self.note(false);
            self.learn(0);
        }
    }

    /// Decides what a loss means.
    pub fn on_loss(&mut self, loss: &Loss<'_>) -> Option<Verdict> {
        let newest = loss.packets.last()?.sent;
        for _ in loss.packets {
            self.note(true);
        }
        let kind = match (loss.persistent, self.is_raised(), self.is_clustered()) {
            (true, ..) => VerdictKind::Persistent,
            (false, true, true) => VerdictKind::Congestion,
            (false, false, true) => VerdictKind::Burst,
            (false, _, false) => VerdictKind::Scatter,
        };
        if kind == VerdictKind::Scatter || !self.is_raised() {
            loss.packets.iter().for_each(|_| self.learn(1_000_000));
        }
        if matches!(kind, VerdictKind::Congestion | VerdictKind::Persistent) {
            self.congested_at = Some(loss.now);
        }
        Some(Verdict {
            now: loss.now,
            kind,
            newest,
            bytes: loss.bytes,
            packets: u32::try_from(loss.packets.len()).unwrap_or(u32::MAX),
            queue: self.delay.queue,
        })
    }

    /// A mark needs no classification: a queue said so.
    pub fn on_mark(&mut self, now: Instant, newest: Instant, packets: u32) -> Verdict {
        self.congested_at = Some(now);
        let queue = self.delay.queue;
        Verdict { now, kind: VerdictKind::Mark, newest, packets, bytes: Bytes::ZERO, queue }
    }

    /// Whether chance alone threatens what leaves now: it has taken packets before, no queue stands, and
    /// none has taken or marked any of late.
    ///
    /// A queue of ours is gone after a silence as long as the round trip through it.
    pub fn expects_chance(&self, now: Instant) -> bool {
        let is_within = |time: Duration, at: Option<Instant>| at.is_some_and(|at| now <= at + time);
        let Delay { floor, queue, .. } = self.delay;
        self.scatter_ppm > 0
            && !(self.is_raised() && is_within(floor + queue, self.acked_at))
            && !is_within(floor * CALM_ROUND_TRIPS, self.congested_at)
    }

    fn note(&mut self, is_lost: bool) {
        self.fates.push_back(is_lost);
        self.losses += u32::from(is_lost);
        if self.fates.len() > WINDOW {
            self.losses -= u32::from(self.fates.pop_front() == Some(true));
        }
    }

    /// Takes in whether a packet was lost by chance, in millionths.
    fn learn(&mut self, ppm: u32) {
        self.scatter_ppm = (self.scatter_ppm * 1023 + ppm) / 1024;
    }

    fn is_raised(&self) -> bool {
        self.delay.queue > (self.delay.floor / 8).max(LEAST_QUEUE)
    }

    fn is_clustered(&self) -> bool {
        // In thousandths of a packet.
        let expected = 64 * self.scatter_ppm / 1000;
        let spread = (expected * 1000).isqrt();
        self.losses * 1000 > expected + 2 * spread + 1000
    }
}

const WINDOW: usize = 64;
const LEAST_QUEUE: Duration = Duration::from_millis(1);
/// By then whatever answered to the congestion shows in the queue.
const CALM_ROUND_TRIPS: u32 = 8;

#[cfg(test)]
mod tests;
