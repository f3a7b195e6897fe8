//! What a link is like, checked once.
//!
//! *What it decides:* which descriptions of a link make sense. *In:* numbers from people and
//! files. *Out:* a [`Profile`] that the link need not doubt, or a [`ProfileError`] that names the
//! field and says what it should be. *May import:* units, `time`.

use std::fmt;
use std::time::Duration;

use warpunits::{Bytes, Rate};

use crate::time::{Span, Time};

/// One direction of a path: a transmitter behind a queue, then a delay.
///
/// The packet passes, in this order: a byte-limited first-in-first-out buffer, the transmitter at
/// `rate`, random loss, and the delay with its jitter. A packet that is lost at random has therefore taken
/// its time on the transmitter, as on a radio link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    rate: Rate,
    delay: Duration,
    buffer: Bytes,
    loss: Probability,
    jitter: Jitter,
}

impl Profile {
    /// A link without loss or jitter.
    ///
    /// `rate` counts wire bytes (see [`wire_bytes`](crate::wire_bytes)); [`Rate::MAX`] means that
    /// packets take no time to send and never queue. `delay` is one-way. `buffer` is what may
    /// wait, in wire bytes, not counting the packet in transmission; [`Bytes::MAX`] means no limit and zero
    /// means that a packet which finds the transmitter busy is dropped.
    ///
    /// # Errors
    /// When `rate` is zero (nothing would ever arrive) or `delay` is longer than a day (a mistaken unit).
    pub fn new(rate: Rate, delay: Duration, buffer: Bytes) -> Result<Self, ProfileError> {
        if rate.is_zero() {
            return Err(ProfileError::new("rate", rate, "a rate above zero"));
        }
        let delay = at_most_a_day("delay", delay)?;
        Ok(Self { rate, delay, buffer, loss: Probability::ZERO, jitter: Jitter::NONE })
    }

    /// The same link losing packets independently with this probability. Default: none.
    #[must_use]
    pub fn with_loss(self, loss: Probability) -> Self {
        Self { loss, ..self }
    }

    /// The same link with this jitter. Default: none.
    #[must_use]
    pub fn with_jitter(self, jitter: Jitter) -> Self {
        Self { jitter, ..self }
    }

    /// The same link with this buffer.
    #[must_use]
    pub fn with_buffer(self, buffer: Bytes) -> Self {
        Self { buffer, ..self }
    }

    /// Wire bytes per second that leave the queue.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The one-way delay after the transmitter, without jitter.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// Wire bytes that may wait, not counting the packet in transmission.
    pub fn buffer(&self) -> Bytes {
        self.buffer
    }

    /// The probability that a packet is lost after the transmitter.
    pub fn loss(&self) -> Probability {
        self.loss
    }

    /// How the delay varies.
    pub fn jitter(&self) -> Jitter {
        self.jitter
    }

    /// When the last bit of a packet of `size` wire bytes has left whose first bit leaves at
    /// `starts`, rounded up to 1 ps.
    pub fn finish(&self, starts: Time, size: Bytes) -> Time {
        starts + serialisation(size, self.rate)
    }
}

/// A probability, in whole billionths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Probability(u32);

impl Probability {
    /// It never happens.
    pub const ZERO: Self = Self(0);
    /// It always happens.
    pub const ONE: Self = Self(Self::BILLION);

    pub(crate) const BILLION: u32 = 1_000_000_000;

    /// `n` hundredths, for literals: `Probability::percent(5)`.
    ///
    /// # Panics
    /// When `n` is above 100; in a `const` that is a compile error.
    pub const fn percent(n: u32) -> Self {
        assert!(n <= 100, "a probability is at most 100 percent");
        Self(n * (Self::BILLION / 100))
    }

    /// `n` billionths.
    ///
    /// # Errors
    /// When `n` is more than a billion.
    pub fn parts_per_billion(n: u32) -> Result<Self, ProfileError> {
        if n > Self::BILLION {
            return Err(ProfileError::new("loss", n, "at most 1000000000 billionths"));
        }
        Ok(Self(n))
    }

    /// The probability nearest to `fraction`, which 0.01 means one percent.
    ///
    /// # Errors
    /// When `fraction` is negative, above 1, or not a number.
    pub fn fraction(fraction: f64) -> Result<Self, ProfileError> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(ProfileError::new("loss", fraction, "a fraction from 0 to 1, such as 0.01"));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        let billionths = (fraction * f64::from(Self::BILLION)).round() as u32;
        Ok(Self(billionths))
    }

    /// The probability in billionths.
    pub const fn as_parts_per_billion(self) -> u32 {
        self.0
    }

    /// The probability as a fraction, for reports only: decisions use integers.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::BILLION)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.as_f64() * 100.0)
    }
}

impl fmt::Debug for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Gaussian jitter: each packet's delay gets its own independent N(0, sigma), and the sum is
/// clipped at zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jitter {
    sigma: Duration,
    order: Order,
}

impl Jitter {
    /// Every packet takes exactly the link's delay.
    pub const NONE: Self = Self { sigma: Duration::ZERO, order: Order::Fifo };

    /// Jitter with the standard deviation `sigma`.
    ///
    /// # Errors
    /// When `sigma` is longer than a day (a mistaken unit).
    pub fn new(sigma: Duration, order: Order) -> Result<Self, ProfileError> {
        Ok(Self { sigma: at_most_a_day("jitter sigma", sigma)?, order })
    }

    /// The standard deviation of a packet's extra delay, before clipping and ordering.
    pub fn sigma(&self) -> Duration {
        self.sigma
    }

    /// Whether packets may overtake each other.
    pub fn order(&self) -> Order {
        self.order
    }
}

/// What happens when a packet's jitter would let it overtake an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It arrives together with the latest packet before it, as radio links and schedulers
    /// mostly have it. Lost packets hold nobody up.
    Fifo,
    /// It overtakes.
    Reorder,
}

/// A description of a link that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: `{value}` is not {expected}")]
pub struct ProfileError {
    field: &'static str,
    value: String,
    expected: &'static str,
}

impl ProfileError {
    fn new(field: &'static str, value: impl fmt::Display, expected: &'static str) -> Self {
        Self { field, value: value.to_string(), expected }
    }

    /// The field that is wrong.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

/// The time that `size` wire bytes take at `rate`, rounded up to 1 ps; zero at [`Rate::MAX`] and
/// for ever at a rate of zero.
pub fn serialisation(size: Bytes, rate: Rate) -> Span {
    if size.is_zero() || rate == Rate::MAX {
        return Span::ZERO;
    }
    if rate.is_zero() {
        return Span::MAX;
    }
    let picos = (u128::from(size.get()) * PICOS_PER_SEC).div_ceil(u128::from(rate.as_bytes_per_sec()));
    Span::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
}

fn at_most_a_day(field: &'static str, time: Duration) -> Result<Duration, ProfileError> {
    if time > LONGEST_DELAY {
        return Err(ProfileError::new(field, format!("{time:?}"), "at most a day"));
    }
    Ok(time)
}

/// Light crosses the orbit of Neptune in less; a longer delay is a number in the wrong unit.
const LONGEST_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

const PICOS_PER_SEC: u128 = 1_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn message<T: fmt::Debug>(result: Result<T, ProfileError>) -> String {
        result.expect_err("must be refused").to_string()
    }

    #[test]
    fn a_zero_rate_is_refused() {
        let result = Profile::new(Rate::ZERO, Duration::ZERO, Bytes::MAX);
        assert_eq!(message(result), "rate: `0 bit/s` is not a rate above zero");
    }

    #[test]
    fn impossible_probabilities_are_refused() {
        for wrong in [-0.01, 1.01, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let found = message(Probability::fraction(wrong));
            assert_eq!(found, format!("loss: `{wrong}` is not a fraction from 0 to 1, such as 0.01"));
        }
        assert!(Probability::parts_per_billion(1_000_000_001).is_err());
    }

    #[test]
    fn delays_in_the_wrong_unit_are_refused() {
        let days = Duration::from_secs(90_000);
        assert_eq!(
            message(Profile::new(Rate::MAX, days, Bytes::MAX)),
            "delay: `90000s` is not at most a day"
        );
        assert_eq!(message(Jitter::new(days, Order::Fifo)), "jitter sigma: `90000s` is not at most a day");
    }

    #[test]
    fn probabilities_say_what_they_are() {
        let p = Probability::fraction(0.0125).expect("a probability");
        assert_eq!(p.as_parts_per_billion(), 12_500_000);
        assert_eq!(p.to_string(), "1.25 %");
        assert_eq!(Probability::percent(100), Probability::ONE);
        assert_eq!(Probability::fraction(1.0), Ok(Probability::ONE));
    }
}
