//! What lies between a transmitter and the far end.
//!
//! *What it decides:* whether a packet that has left a transmitter arrives, and when. *In:* the
//! packet's number and the moment when its last bit left. *Out:* a moment, or none. It does not
//! know who decides which packet leaves next: a [`Link`](crate::Link) puts a first-in-first-out queue before
//! it, a simulator's port a queue discipline. *May import:* `time`, `random`, `profile`.
//!
//! For packet n that departed at t, on a link that loses with probability p and delays by d:
//! ```text
//! lost = draw(loss, n) < p
//! at   = t + max(0, d + draw(jitter, n)·σ)   picoseconds
//! Fifo: at least the `at` of every packet carried before
//! ```

use crate::profile::{Order, Profile};
use crate::random::RandomStream;
use crate::time::{Span, Time};

/// The way after the transmitter, with its state.
#[derive(Clone, Debug)]
pub struct Wire {
    profile: Profile,
    loss: RandomStream,
    jitter: RandomStream,
    /// The latest arrival so far.
    last_arrival: Time,
}

impl Wire {
    /// An empty wire. Wires of one run need different seeds: see [`link_seed`](crate::link_seed).
    pub fn new(profile: &Profile, seed: u64) -> Self {
        Self {
            profile: *profile,
            loss: RandomStream::new(seed, LOSS),
            jitter: RandomStream::new(seed, JITTER),
            last_arrival: Time::START,
        }
    }

    /// When the packet that left the transmitter at `departed` arrives; `None` when it is lost at
    /// random.
    ///
    /// `draw` numbers the random draws: it is the packet's number, from zero, among all packets
    /// that were *offered* to the queue before this wire. So what the queue drops does not shift the
    /// fates of other packets, and two queue disciplines meet the same losses.
    pub fn carry(&mut self, draw: u64, departed: Time) -> Option<Time> {
        if self.loss.happens(draw, self.profile.loss()) {
            return None;
        }
        let at = departed + self.delay(draw);
        Some(match self.profile.jitter().order() {
            Order::Reorder => at,
            Order::Fifo => {
                self.last_arrival = self.last_arrival.max(at);
                self.last_arrival
            }
        })
    }

    /// Delay and jitter of one packet.
    fn delay(&self, draw: u64) -> Span {
        let delay = i128::from(Span::from(self.profile.delay()).as_picos());
        let sigma = Span::from(self.profile.jitter().sigma()).as_picos();
        let varied = delay + self.jitter.normal(draw, sigma);
        Span::from_picos(u64::try_from(varied.max(0)).unwrap_or(u64::MAX))
    }
}

/// The purposes of a wire's random streams.
const LOSS: u64 = 1;
const JITTER: u64 = 2;
