//! Receive offload: a host that gets its packets in batches.

use std::time::Duration;

use warplink::{Span, Time};

use super::{Context, FlowStats, Host, Progress};
use crate::packet::Packet;

/// A host whose arrivals are handed over only at multiples of a period, all together: what GRO,
/// interrupt moderation and Wi-Fi aggregates do to arrival times.
#[derive(Debug)]
pub struct Batched<H> {
    host: H,
    period: Span,
    waiting: Vec<Packet>,
    due: Time,
}

impl<H: Host> Batched<H> {
    /// `host` with arrivals handed over at multiples of `period`; a period of zero batches only what
    /// arrives in the same instant.
    pub fn new(host: H, period: Duration) -> Self {
        Self { host, period: period.into(), waiting: Vec::new(), due: Time::NEVER }
    }

    /// The host inside.
    pub fn inner(&self) -> &H {
        &self.host
    }
}

impl<H: Host> Host for Batched<H> {
    fn wake(&mut self, cx: &mut Context<'_>) {
        if self.due <= cx.now {
            self.due = Time::NEVER;
            self.host.receive_all(&mut self.waiting, cx);
        }
        if self.host.next_wake() <= cx.now {
            self.host.wake(cx);
        }
    }

    fn receive(&mut self, packet: Packet, cx: &mut Context<'_>) {
        if self.waiting.is_empty() {
            let period = self.period.as_picos().max(1);
            self.due = Time::from_picos(cx.now.as_picos().div_ceil(period).saturating_mul(period));
        }
        self.waiting.push(packet);
    }

    fn next_wake(&mut self) -> Time {
        self.due.min(self.host.next_wake())
    }

    fn is_finished(&self) -> bool {
        self.host.is_finished()
    }

    fn progress(&self) -> Option<Progress> {
        self.host.progress()
    }

    fn stats(&self) -> Option<FlowStats> {
        self.host.stats()
    }
}
