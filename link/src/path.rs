//! Both directions of a path.
//!
//! *What it decides:* how a round trip's figures (rate, RTT, buffer in BDPs) become two
//! [`Profile`]s. *In:* figures. *Out:* a [`PathProfile`], and its two [`Link`]s for a seed. *May
//! import:* units, `profile`, `link`, `random`.

use std::time::Duration;

use warpunits::{Bytes, Rate};

use crate::link::Link;
use crate::profile::{Jitter, Probability, Profile, ProfileError};
use crate::random::link_seed;

/// A path between a sender of data and its receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathProfile {
    /// What the data passes.
    pub forward: Profile,
    /// What the acknowledgements pass.
    pub reverse: Profile,
}

impl PathProfile {
    /// A path with the same rate and half of `rtt` each way, no loss, no jitter, and a buffer of
    /// one BDP in each direction (the customary size: it lets a loss-based law keep the link busy
    /// when it halves its window).
    ///
    /// # Errors
    /// As [`Profile::new`].
    pub fn symmetric(rate: Rate, rtt: Duration) -> Result<Self, ProfileError> {
        let there = rtt / 2;
        let buffer = bdp(rate, rtt);
        Ok(Self {
            forward: Profile::new(rate, there, buffer)?,
            reverse: Profile::new(rate, rtt - there, buffer)?,
        })
    }

    /// The same path losing data packets with this probability.
    #[must_use]
    pub fn with_data_loss(self, loss: Probability) -> Self {
        Self { forward: self.forward.with_loss(loss), ..self }
    }

    /// The same path losing acknowledgements with this probability.
    #[must_use]
    pub fn with_ack_loss(self, loss: Probability) -> Self {
        Self { reverse: self.reverse.with_loss(loss), ..self }
    }

    /// The same path with this jitter in each direction.
    #[must_use]
    pub fn with_jitter(self, jitter: Jitter) -> Self {
        Self { forward: self.forward.with_jitter(jitter), reverse: self.reverse.with_jitter(jitter) }
    }

    /// The same path with this buffer in each direction.
    #[must_use]
    pub fn with_buffer(self, buffer: Bytes) -> Self {
        Self { forward: self.forward.with_buffer(buffer), reverse: self.reverse.with_buffer(buffer) }
    }

    /// The base two-way delay before any delay step: without queueing, jitter, slots or serialisation.
    pub fn rtt(&self) -> Duration {
        self.forward.delay() + self.reverse.delay()
    }

    /// The forward and the reverse link of a run with this seed.
    pub fn links(&self, seed: u64) -> (Link, Link) {
        (
            Link::new(self.forward.clone(), link_seed(seed, 0)),
            Link::new(self.reverse.clone(), link_seed(seed, 1)),
        )
    }
}

/// The bandwidth-delay product: the wire bytes that a path of this rate and base two-way delay
/// holds without a queue.
pub fn bdp(rate: Rate, rtt: Duration) -> Bytes {
    rate * rtt
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    #[test]
    fn a_symmetric_path_splits_its_round_trip() {
        let rtt = Duration::from_nanos(40_000_001);
        let path = PathProfile::symmetric(Rate::mbps(100), rtt).expect("valid");
        assert_eq!(path.forward.delay(), Duration::from_millis(20));
        assert_eq!(path.rtt(), rtt);
    }

    #[test]
    fn the_default_buffer_is_one_bdp() {
        let path = PathProfile::symmetric(Rate::mbps(100), Duration::from_millis(40)).expect("valid");
        assert_eq!(path.forward.buffer(), Bytes::kb(500));
    }

    #[test]
    fn losses_go_to_their_direction() {
        let path = PathProfile::symmetric(Rate::mbps(1), Duration::ZERO)
            .expect("valid")
            .with_data_loss(Probability::percent(5))
            .with_ack_loss(Probability::percent(1));
        assert_eq!(path.forward.loss(), Probability::percent(5));
        assert_eq!(path.reverse.loss(), Probability::percent(1));
    }

    #[test]
    fn the_two_directions_lose_different_packets() {
        let half = Probability::percent(50);
        let path = PathProfile::symmetric(Rate::MAX, Duration::ZERO).expect("valid");
        let (mut forward, mut reverse) = path.with_data_loss(half).with_ack_loss(half).links(1);
        let mut agree = 0;
        for _ in 0..1000 {
            let fates = [&mut forward, &mut reverse].map(|link| link.offer(Time::START, Bytes::new(100)));
            agree += u32::from(fates[0] == fates[1]);
        }
        // Half of them agree by chance, give or take 16.
        assert!(agree.abs_diff(500) < 80, "{agree} of 1000 fates agree");
    }
}
