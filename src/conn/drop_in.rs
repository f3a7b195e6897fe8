//! Laws for stock quinn: any [`RateLaw`](crate::cc::RateLaw) as `quinn-proto`'s congestion controller.
//!
//! ```no_run
//! use std::sync::Arc;
//! use warprate::cc::{WarpRate, seeded};
//! use warprate::conn::DropIn;
//!
//! let mut transport = quinn::TransportConfig::default();
//! transport.congestion_controller_factory(Arc::new(DropIn::new(seeded(1, WarpRate::new))));
//! ```
//!
//! Stock quinn takes nothing from a controller but its window W, and paces at 1.25 · W / srtt by itself.
//! So the window is made to carry the rate too: `W = min(plan.window, plan.rate · srtt)`.
//!
//! What is lost against our own driver: the pacer (quinn's token bucket lets ten packets out at once,
//! and at a quarter more than the plan's rate), the anchor, exact identity of packets (those that quinn
//! sends at one instant share a record), early pings, `until`, the count of
//! marks (an ACK frame counts as one), and `on_undo`. Pure acknowledgements count as in
//! flight until the next ACK frame sets the count right.
//!
//! [`WarpRate`](crate::cc::WarpRate) loses most, since it answers with a rate: probes and slower spells act
//! through the window, a round trip long and blurred by it, and packets leave at up to 5/4 of what it says,
//! so that a standing queue is seen where there would be none. quinn's `packet_threshold(128)` lets
//! its packets be overtaken, as [`Law::paced`](super::Law::paced) does; the default of 3 takes jitter
//! for loss.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use crate::cc::{LawFactory, PathStart};
use crate::control::Control;
use crate::signal::{Feedback, Purpose};
use crate::units::{Bytes, Rate};

/// Makes `quinn-proto` controllers of laws.
pub struct DropIn {
    factory: Box<dyn LawFactory>,
}

impl DropIn {
    /// The laws that `factory` makes; a law's constructor will do.
    pub fn new(factory: impl LawFactory + 'static) -> Self {
        Self { factory: Box::new(factory) }
    }
}

impl ControllerFactory for DropIn {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let datagram = Bytes::new(current_mtu.into());
        let law = self.factory.build(PathStart::new(now, datagram));
        let control = Control::new(now, law, Rate::MAX, datagram);
        let initial_window = control.plan().window;
        Box::new(LawController { control, initial_window })
    }
}

/// One path's law under quinn's interface.
#[derive(Clone)]
struct LawController {
    control: Control,
    initial_window: Bytes,
}

impl Controller for LawController {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        let feedback =
            Feedback::Sent { sent: now, bytes: Bytes::new(bytes), purpose: Purpose::Data, number: None };
        self.control.on_feedback(&feedback);
    }

    fn on_ack(&mut self, _now: Instant, sent: Instant, bytes: u64, app_limited: bool, _rtt: &RttEstimator) {
        if app_limited {
            self.control.on_app_limited(sent);
        }
        self.control.on_feedback(&Feedback::Acked { sent, bytes: Bytes::new(bytes) });
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _app_limited: bool, _largest: Option<u64>) {
        self.control.on_feedback(&Feedback::AckEnd { now, in_flight: Bytes::new(in_flight) });
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost_bytes: u64) {
        self.control.on_feedback(&match lost_bytes {
            0 => Feedback::Marked { now, newest: sent, packets: 1 },
            bytes => Feedback::Lost { now, newest: sent, bytes: Bytes::new(bytes), persistent },
        });
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.control.on_feedback(&Feedback::Mtu(Bytes::new(new_mtu.into())));
    }

    fn window(&self) -> u64 {
        let plan = self.control.plan();
        let carried = match self.control.ledger().rtt() {
            Some(rtt) => plan.rate * rtt.smoothed,
            None => Bytes::MAX,
        };
        let least = self.control.datagram().times(2);
        plan.window.min(carried).max(least).get()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.pacing_rate = Some(self.control.plan().rate.as_bits_per_sec());
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window.get()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
