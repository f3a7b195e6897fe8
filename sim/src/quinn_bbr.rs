//! Quinn's BBR with one cause of its slowness removed: experiments for the validation page.
//!
//! *What it decides:* what the controller hears, or what is heard of it; its code is untouched. *In:* a
//! [`Change`]. *Out:* a [`Law`] for hosts and endpoints.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{BbrConfig, Controller, ControllerFactory, ControllerMetrics};
use warprate::{Foreign, Law};

/// What is different.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// It hears nothing of the handshake.
    NoHandshake,
    /// It hears that ten datagrams leave at one instant, as they do in stock quinn's batches.
    InBatches,
    /// The packets of an ACK frame count together for its bandwidth, not only the first of them.
    WholeAcks,
    /// The 200 ms of almost silence (PROBE_RTT) with which it answers the first full ACK are over at once.
    NoFirstProbe,
}

impl Change {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 5] = [
        ("as it is", Self::Nothing),
        ("no handshake", Self::NoHandshake),
        ("in batches", Self::InBatches),
        ("whole ACKs", Self::WholeAcks),
        ("no first probe", Self::NoFirstProbe),
    ];
}

/// Quinn's BBR, changed.
pub fn law(change: Change) -> Law {
    Law::foreign(Foreign::new("quinn-bbr", Arc::new(Factory(change))))
}

struct Factory(Change);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::new(BbrConfig::default()).build(now, current_mtu);
        let heard = Heard { frame: None, sent: 0, batch: (now, 0), has_probed: false };
        Box::new(Changed { inner, change: self.0, heard })
    }
}

struct Changed {
    inner: Box<dyn Controller>,
    change: Change,
    heard: Heard,
}

#[derive(Clone, Copy)]
struct Heard {
    /// The ACK frame at hand: newest departure, bytes, whether limited by the application, and the RTT.
    frame: Option<(Instant, u64, bool, RttEstimator)>,
    sent: u64,
    /// When the batch at hand left, and how many datagrams are to follow in it.
    batch: (Instant, u32),
    has_probed: bool,
}

impl Changed {
    fn is_deaf(&self) -> bool {
        self.change == Change::NoHandshake && self.heard.sent < HANDSHAKE
    }
}

impl Controller for Changed {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.heard.sent += bytes;
        if self.heard.batch.1 == 0 || self.change != Change::InBatches {
            self.heard.batch = (now, BATCH);
        }
        self.heard.batch.1 -= 1;
        if !self.is_deaf() {
            self.inner.on_sent(self.heard.batch.0, bytes, last_packet_number);
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        if self.is_deaf() {
            return;
        }
        if self.change == Change::WholeAcks {
            let (newest, before, ..) = self.heard.frame.unwrap_or((sent, 0, app_limited, *rtt));
            self.heard.frame = Some((newest.max(sent), before + bytes, app_limited, *rtt));
            return;
        }
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
        // The probe begins with the first ACK for which the application was not the limit. Told that it came
        // long ago and found nothing in flight, the controller ends the probe with the next round.
        if self.change == Change::NoFirstProbe && !app_limited && !self.heard.has_probed {
            self.heard.has_probed = true;
            self.inner.on_end_acks(now - LONG_AGO, 0, false, None);
        }
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        if self.is_deaf() {
            return;
        }
        if let Some((sent, bytes, app_limited, rtt)) = self.heard.frame.take() {
            self.inner.on_ack(now, sent, bytes, app_limited, &rtt);
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
        Box::new(Self { inner: self.inner.clone_box(), ..*self })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}

/// More than a handshake takes and less than the initial window.
const HANDSHAKE: u64 = 10_000;
/// Stock quinn's limit for a call of its pacer.
const BATCH: u32 = 10;
/// More than the 200 ms of the probe.
const LONG_AGO: Duration = Duration::from_millis(250);
