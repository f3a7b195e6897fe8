//! Listening to round trips from inside the congestion controllers, in every row by the same rule: one
//! sample per ACK frame, its arrival minus the departure of the newest packet that it acknowledges.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use warprate::cc::RateLaw;
use warprate::signal::{Ack, Loss, Plan, Sent, Undo, Verdict};
use warprate::units::Bytes;

/// Where samples are collected; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Samples(Arc<Mutex<Vec<Duration>>>);

/// What the samples come to.
#[derive(Debug, Clone, Copy)]
pub struct Summary {
    pub min: Duration,
    pub mean: Duration,
    pub p95: Duration,
}

impl Samples {
    fn push(&self, rtt: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(rtt);
    }

    /// `None` if there were none.
    pub fn summary(&self) -> Option<Summary> {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        samples.sort_unstable();
        let count = u32::try_from(samples.len()).ok()?;
        Some(Summary {
            min: *samples.first()?,
            mean: samples.iter().sum::<Duration>() / count,
            p95: samples[(samples.len() * 95).div_ceil(100) - 1],
        })
    }
}

/// A law of ours, listened to.
#[derive(Debug, Clone)]
pub struct HeardLaw<L> {
    pub law: L,
    pub samples: Samples,
}

impl<L: RateLaw + Clone + 'static> RateLaw for HeardLaw<L> {
    fn on_sent(&mut self, sent: &Sent) {
        self.law.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.samples.push(ack.rtt.latest);
        self.law.on_ack(ack);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.law.on_loss(loss);
    }

    fn on_verdict(&mut self, verdict: &Verdict) {
        self.law.on_verdict(verdict);
    }

    fn on_undo(&mut self, undo: &Undo) {
        self.law.on_undo(undo);
    }

    fn on_deadline(&mut self, now: Instant) {
        self.law.on_deadline(now);
    }

    fn on_mtu(&mut self, datagram: Bytes) {
        self.law.on_mtu(datagram);
    }

    fn plan(&self, now: Instant) -> Plan {
        self.law.plan(now)
    }

    fn state(&self) -> &'static str {
        self.law.state()
    }
}

/// A factory of `quinn-proto`, each of whose controllers is listened to.
pub struct Heard {
    pub inner: Arc<dyn ControllerFactory + Send + Sync>,
    pub samples: Samples,
}

impl ControllerFactory for Heard {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = self.inner.clone().build(now, current_mtu);
        Box::new(HeardController { inner, samples: self.samples.clone(), newest: None })
    }
}

/// Passes everything on as it is.
struct HeardController {
    inner: Box<dyn Controller>,
    samples: Samples,
    /// Departure of the newest packet that the ACK frame at hand has named so far.
    newest: Option<Instant>,
}

impl Controller for HeardController {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.newest = self.newest.max(Some(sent));
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        if let Some(sent) = self.newest.take() {
            self.samples.push(now.saturating_duration_since(sent));
        }
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost_bytes: u64) {
        self.inner.on_congestion_event(now, sent, persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.clone_box(), samples: self.samples.clone(), newest: self.newest })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}
