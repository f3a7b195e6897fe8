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
//! for loss. Under [`stock::Paced`](super::stock::Paced), a paced socket for quinn, plan and pacer hold as they do
//! under our own driver: the window is the plan's, and nothing between departures.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use super::tap::SHUT;
use crate::cc::{LawFactory, PathStart};
use crate::control::Control;
use crate::signal::{Feedback, Purpose, Release};
use crate::units::{Bytes, Rate};

/// Makes `quinn-proto` controllers of laws.
pub struct DropIn {
    factory: Arc<dyn LawFactory>,
    slot: Option<Arc<dyn PaceSlot>>,
}

impl DropIn {
    /// The laws that `factory` makes; a law's constructor will do.
    pub fn new(factory: impl LawFactory + 'static) -> Self {
        Self { factory: Arc::new(factory), slot: None }
    }

    /// The same for one connection whose packets leave through a socket of ours.
    #[cfg(feature = "quinn")]
    pub(super) fn paced(factory: Arc<dyn LawFactory>, slot: Arc<dyn PaceSlot>) -> Self {
        Self { factory, slot: Some(slot) }
    }
}

/// Where the controllers of one peer's connections meet the socket that paces them.
pub(super) trait PaceSlot: fmt::Debug + Send + Sync {
    /// The present.
    fn now(&self) -> Instant;
    /// Most that may leave there.
    fn anchor(&self) -> Rate;
    /// What is sent next is to leave at `rate`, in bursts of this size.
    fn follow(&self, rate: Rate, burst: Bytes);
    /// Whether the connection can be woken. It cannot once it has left for a socket of another kind.
    fn is_served(&self) -> bool;
    /// The connection is to be woken then, so that it sends more.
    fn wake_at(&self, at: Instant);
}

impl ControllerFactory for DropIn {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let datagram = Bytes::new(current_mtu.into());
        let anchor = self.slot.as_ref().map_or(Rate::MAX, |slot| slot.anchor());
        let start = match &self.slot {
            Some(_) => PathStart::new(now, datagram).with_anchor(anchor),
            None => PathStart::new(now, datagram),
        };
        let control = Control::new(now, self.factory.build(start), anchor, datagram);
        let initial_window = control.plan().window;
        let gate = self.slot.clone().map(|slot| Gate { slot, is_open: AtomicBool::new(false) });
        Box::new(LawController { control: Mutex::new(control), initial_window, gate })
    }
}

/// One path's law under quinn's interface.
struct LawController {
    control: Mutex<Control>,
    initial_window: Bytes,
    gate: Option<Gate>,
}

/// The pacer's answer to a connection that asks for the window: all of it, or nothing.
struct Gate {
    slot: Arc<dyn PaceSlot>,
    /// Stays so until something is sent or heard: quinn asks twice for one datagram, once for room and once for its
    /// own pacer, which a window of nothing would stop for good.
    is_open: AtomicBool,
}

impl Gate {
    /// Whether it is time to send; if it is not, the connection is woken when it is.
    fn open(&self, control: &mut Control) -> bool {
        if self.is_open.load(Ordering::Relaxed) {
            return true;
        }
        match control.release_by_time(self.slot.now()) {
            Release::Now { bytes } => {
                self.slot.follow(control.pacing_rate(), bytes);
                self.is_open.store(true, Ordering::Relaxed);
                return true;
            }
            Release::At(at) => self.slot.wake_at(control.deadline().map_or(at, |until| until.min(at))),
            // An acknowledgement wakes it, too.
            Release::OnAck => control.deadline().into_iter().for_each(|until| self.slot.wake_at(until)),
        }
        false
    }
}

impl LawController {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&mut self, feedback: &Feedback) {
        if let Some(gate) = &mut self.gate {
            *gate.is_open.get_mut() = false;
        }
        self.control.get_mut().unwrap_or_else(PoisonError::into_inner).on_feedback(feedback);
    }
}

impl Controller for LawController {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        let feedback =
            Feedback::Sent { sent: now, bytes: Bytes::new(bytes), purpose: Purpose::Data, number: None };
        self.tell(&feedback);
    }

    fn on_ack(&mut self, _now: Instant, sent: Instant, bytes: u64, app_limited: bool, _rtt: &RttEstimator) {
        if app_limited {
            self.control().on_app_limited(sent);
        }
        self.tell(&Feedback::Acked { sent, bytes: Bytes::new(bytes) });
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _app_limited: bool, _largest: Option<u64>) {
        if let Some(gate) = &self.gate {
            self.control().set_anchor(now, gate.slot.anchor());
        }
        self.tell(&Feedback::AckEnd { now, in_flight: Bytes::new(in_flight) });
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost_bytes: u64) {
        self.tell(&match lost_bytes {
            0 => Feedback::Marked { now, newest: sent, packets: 1 },
            bytes => Feedback::Lost { now, newest: sent, bytes: Bytes::new(bytes), persistent },
        });
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.tell(&Feedback::Mtu(Bytes::new(new_mtu.into())));
    }

    fn window(&self) -> u64 {
        let mut control = self.control();
        let gate = self.gate.as_ref().filter(|gate| gate.slot.is_served());
        if gate.is_some_and(|gate| !gate.open(&mut control)) {
            return SHUT;
        }
        let plan = control.plan();
        let window = match (gate, control.ledger().rtt()) {
            (None, Some(rtt)) => plan.window.min(plan.rate * rtt.smoothed),
            _ => plan.window,
        };
        window.max(control.datagram().times(2)).get()
    }

    fn metrics(&self) -> ControllerMetrics {
        let plan = self.control().plan();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = if self.gate.is_some() { plan.window.get() } else { self.window() };
        metrics.pacing_rate = Some(plan.rate.as_bits_per_sec());
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let gate =
            self.gate.as_ref().map(|gate| Gate { slot: gate.slot.clone(), is_open: AtomicBool::new(false) });
        let control = Mutex::new(self.control().clone());
        Box::new(Self { control, initial_window: self.initial_window, gate })
    }

    fn initial_window(&self) -> u64 {
        self.initial_window.get()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(all(test, feature = "quinn"))]
mod tests {
    use super::*;
    use crate::cc::Fixed;
    use crate::test_clock::{ms, t0, us};

    const DATAGRAM: u64 = 1200;

    /// A slot at made-up times.
    #[derive(Debug)]
    struct Slot {
        now: Mutex<Instant>,
        wake_at: Mutex<Option<Instant>>,
        is_served: bool,
    }

    impl PaceSlot for Slot {
        fn now(&self) -> Instant {
            *self.now.lock().unwrap()
        }

        fn anchor(&self) -> Rate {
            Rate::gbps(1)
        }

        fn follow(&self, rate: Rate, burst: Bytes) {
            assert_eq!((rate, burst), (Rate::mbps(1), Bytes::new(DATAGRAM)));
        }

        fn is_served(&self) -> bool {
            self.is_served
        }

        fn wake_at(&self, at: Instant) {
            *self.wake_at.lock().unwrap() = Some(at);
        }
    }

    /// A controller with a window of 10 datagrams at 1 Mbit/s, that is 9.6 ms for a datagram.
    fn controller(is_served: bool) -> (Arc<Slot>, Box<dyn Controller>) {
        let slot = Arc::new(Slot { now: Mutex::new(t0()), wake_at: Mutex::default(), is_served });
        let factory = |_: PathStart| Fixed::new(Rate::mbps(1), Bytes::new(10 * DATAGRAM));
        let drop_in = Arc::new(DropIn::paced(Arc::new(factory), slot.clone()));
        (slot, drop_in.build(t0(), 1200))
    }

    #[test]
    fn there_is_no_window_until_it_is_time_and_the_connection_is_woken_then() {
        let (slot, mut controller) = controller(true);
        assert_eq!(controller.window(), 10 * DATAGRAM);
        controller.on_sent(t0(), DATAGRAM, 0);
        assert_eq!(controller.window(), SHUT);
        assert_eq!(*slot.wake_at.lock().unwrap(), Some(t0() + us(9_600)));
        assert_eq!(
            controller.metrics().congestion_window,
            10 * DATAGRAM,
            "what users are told is the plan's"
        );
        *slot.now.lock().unwrap() = t0() + us(9_599);
        assert_eq!(controller.window(), SHUT);
        *slot.now.lock().unwrap() = t0() + us(9_600);
        assert_eq!(controller.window(), 10 * DATAGRAM);
        assert_eq!(controller.clone_box().window(), 10 * DATAGRAM);
    }

    #[test]
    fn quinn_counts_what_is_in_flight() {
        let (slot, mut controller) = controller(true);
        // Acknowledgements alone, which the peer never acknowledges.
        for i in 0..100 {
            *slot.now.lock().unwrap() = t0() + ms(100 * (i + 1));
            controller.on_sent(t0() + ms(100 * i), 1000, i);
        }
        assert_eq!(controller.window(), 10 * DATAGRAM);
    }

    #[test]
    fn a_connection_that_nobody_wakes_has_its_window_as_without_a_socket_of_ours() {
        let (_, mut controller) = controller(false);
        controller.on_sent(t0(), DATAGRAM, 0);
        assert_eq!(controller.window(), 10 * DATAGRAM);
    }
}
