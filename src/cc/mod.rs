//! "How fast, and how much in flight?" The trait that every congestion controller implements, and
//! the controllers.
//!
//! *What it decides:* a [`Plan`], that is a pacing rate and a window. *In:* events as structs of
//! [`crate::signal`]. *Out:* the plan. *May import:* `units` and `signal`. A law sees no socket, no
//! clock, no randomness of the operating system, no MTU discovery and no log.
//!
//! Read [`fixed`] first: it is the tutorial for authors of laws.

pub mod bbr3;
#[cfg(test)]
mod busy_host;
#[cfg(test)]
mod contract;
pub mod cubic;
pub mod fixed;
mod hystart;
pub mod newreno;
mod random;
#[cfg(test)]
mod testbed;
pub mod warprate;
mod window;

pub use bbr3::Bbr3;
pub use cubic::Cubic;
pub use fixed::Fixed;
pub use newreno::NewReno;
pub use warprate::WarpRate;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::signal::{Ack, Loss, Plan, Sent, Undo, Verdict};
use crate::units::{Bytes, Rate};

/// A congestion controller: events in, one plan out.
///
/// Instances are values: one per path, cloned when a path is taken over, so `Clone` is required.
/// Every method but [`plan`](RateLaw::plan) and [`state`](RateLaw::state) has an empty default.
///
/// Contract: nothing panics, the plan is valid from construction on (a positive rate unless the law
/// means *never*), and the same events give the same plans.
pub trait RateLaw: fmt::Debug + Send + Sync + CloneLaw {
    /// A datagram that will be acknowledged has left.
    fn on_sent(&mut self, sent: &Sent) {
        let _ = sent;
    }

    /// An ACK frame arrived; called once per frame.
    fn on_ack(&mut self, ack: &Ack) {
        let _ = ack;
    }

    /// Packets were declared lost; called at once, before anything is known about the reason.
    fn on_loss(&mut self, loss: &Loss<'_>) {
        let _ = loss;
    }

    /// What a loss or a mark means has been decided.
    fn on_verdict(&mut self, verdict: &Verdict) {
        let _ = verdict;
    }

    /// A loss proved spurious.
    fn on_undo(&mut self, undo: &Undo) {
        let _ = undo;
    }

    /// The instant named by the plan's `until` has come.
    fn on_deadline(&mut self, now: Instant) {
        let _ = now;
    }

    /// The interface has another line rate, or the path leaves by another interface: what may ever leave is
    /// bounded by `anchor` now. The pacer keeps to it in any case; a law that reasons with the anchor that it
    /// was built with ([`PathStart::anchor`]) takes up the new one here.
    fn on_anchor(&mut self, anchor: Rate) {
        let _ = anchor;
    }

    /// The path now carries datagrams of this size.
    fn on_mtu(&mut self, datagram: Bytes) {
        let _ = datagram;
    }

    /// The present answer. Cheap: it is asked after every event.
    fn plan(&self, now: Instant) -> Plan;

    /// Name of the present state, for traces.
    fn state(&self) -> &'static str;
}

/// Cloning behind the trait object; implemented for every law that is `Clone`.
pub trait CloneLaw {
    /// A copy with the same state.
    fn clone_law(&self) -> Box<dyn RateLaw>;
}

impl<L: RateLaw + Clone + 'static> CloneLaw for L {
    fn clone_law(&self) -> Box<dyn RateLaw> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn RateLaw> {
    fn clone(&self) -> Self {
        self.as_ref().clone_law()
    }
}

/// What a law may know when it is made for a new path.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct PathStart {
    /// When the path is taken up.
    pub now: Instant,
    /// Size of the datagrams to begin with.
    pub datagram: Bytes,
    /// The most that may ever leave, the line rate of the interface; unbounded where it is not known.
    pub anchor: Rate,
}

impl PathStart {
    /// A path that is taken up at `now` with datagrams of this size.
    pub const fn new(now: Instant, datagram: Bytes) -> Self {
        Self { now, datagram, anchor: Rate::MAX }
    }

    /// The same start behind an interface of this line rate (UDP payload).
    #[must_use]
    pub const fn with_anchor(self, anchor: Rate) -> Self {
        Self { anchor, ..self }
    }
}

/// Makes a law for each new path. Closures implement it.
pub trait LawFactory: Send + Sync {
    /// A law in its first state.
    fn build(&self, start: PathStart) -> Box<dyn RateLaw>;
}

impl<F, L> LawFactory for F
where
    F: Fn(PathStart) -> L + Send + Sync,
    L: RateLaw + 'static,
{
    fn build(&self, start: PathStart) -> Box<dyn RateLaw> {
        Box::new(self(start))
    }
}

/// A factory of laws that draw: each path takes the next seed, from `seed` on, so that flows which share a
/// bottleneck do not draw alike.
pub fn seeded<L>(seed: u64, build: fn(PathStart, u64) -> L) -> impl Fn(PathStart) -> L + Send + Sync {
    let next = AtomicU64::new(seed);
    move |start| build(start, next.fetch_add(1, Ordering::Relaxed))
}
