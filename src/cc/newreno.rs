//! NewReno as RFC 9002 §7 has it, in bytes.
//!
//! ```text
//! slow start            W += acknowledged
//! congestion avoidance  W += datagram · acknowledged / W
//! loss or mark          ssthresh = W = max(W / 2, 2 datagrams)    once per round trip
//! persistent congestion W = 2 datagrams
//!
//!   slow start --loss, mark, W >= ssthresh--> congestion avoidance --persistent congestion--> slow start
//! ```
//! The window stands while the application limits the sender (§7.8), and for acknowledgements of what
//! was sent before the last reduction.

use std::time::Instant;

use super::window::{Recovery, Reduction, WindowUse, initial_window, least_window, paced};
use super::{PathStart, RateLaw};
use crate::signal::{Ack, Loss, Plan, Rtt, Sent, Snapshot, Undo, Verdict, VerdictKind};
use crate::units::{Bytes, Gain};

/// NewReno.
#[derive(Debug, Clone)]
pub struct NewReno {
    datagram: Bytes,
    window: Bytes,
    ssthresh: Bytes,
    /// Acknowledged bytes, times a datagram, that have not yet made up one byte of window.
    carry: u128,
    recovery: Recovery,
    usage: WindowUse,
    rtt: Option<Rtt>,
    /// The last reduction, while it may prove spurious.
    reduction: Option<Reduction<Before>>,
}

/// What a reduction that proves spurious restores.
#[derive(Debug, Clone)]
struct Before {
    window: Bytes,
    ssthresh: Bytes,
}

impl NewReno {
    /// In slow start, with the initial window of RFC 9002 §7.2.
    pub fn new(start: PathStart) -> Self {
        Self {
            datagram: start.datagram,
            window: initial_window(start.datagram),
            ssthresh: Bytes::MAX,
            carry: 0,
            recovery: Recovery::default(),
            usage: WindowUse::default(),
            rtt: None,
            reduction: None,
        }
    }

    /// Answers a loss of these packets, or a mark, which cannot prove spurious.
    fn reduce(&mut self, lost: &[Snapshot]) {
        let before = Before { window: self.window, ssthresh: self.ssthresh };
        self.reduction = Reduction::new(lost, before);
        self.window = (self.window * LOSS_REDUCTION).max(least_window(self.datagram));
        self.ssthresh = self.window;
        self.carry = 0;
    }

    fn grow(&mut self, acknowledged: Bytes) {
        if self.window < self.ssthresh {
            self.window += acknowledged;
            return;
        }
        self.carry += u128::from(acknowledged.get()) * u128::from(self.datagram.get());
        let window = u128::from(self.window.get());
        self.window += Bytes::new(u64::try_from(self.carry / window).unwrap_or(u64::MAX));
        self.carry %= window;
    }
}

impl RateLaw for NewReno {
    fn on_sent(&mut self, sent: &Sent) {
        self.usage.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.rtt = Some(ack.rtt);
        let is_slow_start = self.window < self.ssthresh;
        let is_used = self.usage.on_ack(ack, self.window, is_slow_start, self.datagram);
        if is_used && !self.recovery.covers(ack.newest.sent) {
            self.grow(ack.bytes);
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
            self.window = least_window(self.datagram);
            self.recovery.end();
            self.reduction = None;
        }
    }

    fn on_verdict(&mut self, verdict: &Verdict) {
        // RFC 9002 §7.1: a mark is answered like a loss; it cannot prove spurious.
        if verdict.kind == VerdictKind::Mark && self.recovery.begins(verdict.now, verdict.newest) {
            self.reduce(&[]);
        }
    }

    fn on_undo(&mut self, undo: &Undo) {
        let Some(reduction) = self.reduction.as_mut().filter(|_| self.recovery.covers(undo.packet.sent))
        else {
            return;
        };
        if reduction.on_undo(&undo.packet) {
            self.window = self.window.max(reduction.before.window);
            self.ssthresh = reduction.before.ssthresh;
            self.reduction = None;
        }
    }

    fn on_mtu(&mut self, datagram: Bytes) {
        self.datagram = datagram;
        self.window = self.window.max(least_window(datagram));
    }

    fn plan(&self, _now: Instant) -> Plan {
        paced(self.window, self.rtt)
    }

    fn state(&self) -> &'static str {
        if self.window < self.ssthresh { "slow start" } else { "congestion avoidance" }
    }
}

/// RFC 9002 §7.3.2, kLossReductionFactor.
const LOSS_REDUCTION: Gain = Gain::ratio(1, 2);
