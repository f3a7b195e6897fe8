//! What lies between a transmitter and the far end.
//!
//! *What it decides:* whether a packet that has left a transmitter arrives, and when. *In:* the
//! packet's number and the moment when its last bit left. *Out:* a moment, or none. It does not
//! know who decides which packet leaves next: a [`Link`](crate::Link) puts a first-in-first-out queue before
//! it, a simulator's port a queue discipline. *May import:* `time`, `random`, `profile`.
//!
//! For packet n that departed at t, on a link that loses with probability p(t), delays by d(t) and
//! releases every s, these steps in this order:
//! ```text
//! lost     = draw(loss, n) < p(t), or n + 1 is a multiple of the period    holds nobody up
//! reaches  = t + max(0, d(t) + draw(jitter, n)·σ) picoseconds
//!            Fifo: at least that of every packet carried before
//! at       = ⌈reaches / s⌉ · s                    without slots: reaches
//! ```
//! Slots come last, so that jitter and steps of the delay move packets between slots and never out
//! of them. The packets of one slot have the same `at` and arrive in the order in which they were
//! carried, which is the caller's to keep; so packets overtake each other only into an earlier slot.

use crate::profile::{Losses, Order, Profile};
use crate::random::RandomStream;
use crate::time::{Span, Time};

/// The way after the transmitter, with its state.
#[derive(Clone, Debug)]
pub struct Wire {
    profile: Profile,
    loss: RandomStream,
    jitter: RandomStream,
    /// The latest moment so far at which a packet reached the far end, before slots.
    last_reached: Time,
}

impl Wire {
    /// An empty wire. Wires of one run need different seeds: see [`link_seed`](crate::link_seed).
    pub fn new(profile: &Profile, seed: u64) -> Self {
        Self {
            profile: profile.clone(),
            loss: RandomStream::new(seed, LOSS),
            jitter: RandomStream::new(seed, JITTER),
            last_reached: Time::START,
        }
    }

    /// When the packet that left the transmitter at `departed` arrives; `None` when it is lost at
    /// random.
    ///
    /// `draw` numbers the random draws: it is the packet's number, from zero, among all packets
    /// that were *offered* to the queue before this wire. So what the queue drops does not shift the
    /// fates of other packets, and two queue disciplines meet the same losses.
    pub fn carry(&mut self, draw: u64, departed: Time) -> Option<Time> {
        let is_lost = match self.profile.losses_at(departed) {
            Losses::Random(probability) => self.loss.happens(draw, probability),
            Losses::Every(n) => (draw + 1).is_multiple_of(n.get().into()),
        };
        if is_lost {
            return None;
        }
        let mut reaches = departed + self.delay(draw, departed);
        if self.profile.jitter().order() == Order::Fifo {
            self.last_reached = self.last_reached.max(reaches);
            reaches = self.last_reached;
        }
        Some(self.next_slot(reaches))
    }

    /// Delay and jitter of one packet.
    fn delay(&self, draw: u64, departed: Time) -> Span {
        let delay = i128::from(Span::from(self.profile.delay_at(departed)).as_picos());
        let sigma = Span::from(self.profile.jitter().sigma()).as_picos();
        let varied = delay + self.jitter.normal(draw, sigma);
        Span::from_picos(u64::try_from(varied.max(0)).unwrap_or(u64::MAX))
    }

    /// The first moment from `reaches` on at which packets are released.
    fn next_slot(&self, reaches: Time) -> Time {
        let period = Span::from(self.profile.slots()).as_picos();
        if period == 0 {
            return reaches;
        }
        Time::from_picos(reaches.as_picos().checked_next_multiple_of(period).unwrap_or(u64::MAX))
    }
}

/// The purposes of a wire's random streams.
const LOSS: u64 = 1;
const JITTER: u64 = 2;
