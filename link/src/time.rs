//! The link's clock: integer picoseconds.
//!
//! *What it decides:* how instants and spans add up and which way they round. *In and out:*
//! integers and [`std::time::Duration`]. *May import:* nothing.
//!
//! A picosecond is fine enough that one byte on a 100 Gbit/s link still takes 80 of them, so
//! rounding up a packet's serialisation time never matters, and 64 bits hold 213 days. Arithmetic
//! saturates; [`Time::NEVER`] stays never. What leaves for `Duration` is rounded **up** to 1 ns,
//! because whoever waits for an event must not wake before it.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A moment, in picoseconds since the link's start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The link's first moment.
    pub const START: Self = Self(0);
    /// Later than every event.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `picos` picoseconds after the start.
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }

    /// Picoseconds since the start.
    pub const fn as_picos(self) -> u64 {
        self.0
    }

    /// The time since the start, rounded up to 1 ns; [`Duration::MAX`] for [`Time::NEVER`].
    pub fn since_start(self) -> Duration {
        Span(self.0).into()
    }
}

/// The moment that lies this long after the start; [`Time::NEVER`] where 64 bits end.
impl From<Duration> for Time {
    fn from(since_start: Duration) -> Self {
        Self::START + Span::from(since_start)
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

/// The span from `earlier` to `self`; zero when `earlier` is later.
impl Sub for Time {
    type Output = Span;
    fn sub(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ps", self.0)
    }
}

/// A length of time, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// For ever.
    pub const MAX: Self = Self(u64::MAX);

    /// `picos` picoseconds.
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }

    /// The length in picoseconds.
    pub const fn as_picos(self) -> u64 {
        self.0
    }

    /// `self * n`, saturating.
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Exact, or [`Span::MAX`] where 64 bits end.
impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos() * PICOS_PER_NANO).unwrap_or(u64::MAX))
    }
}

/// Rounded up to 1 ns; [`Duration::MAX`] for [`Span::MAX`].
impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        match span {
            Span::MAX => Self::MAX,
            Span(picos) => Self::from_nanos(picos.div_ceil(1_000)),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ps", self.0)
    }
}

/// Picoseconds in a nanosecond; `Duration::MAX` times this still fits 128 bits.
const PICOS_PER_NANO: u128 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_survive_the_way_there_and_back() {
        let duration = Duration::new(3, 141_592_653);
        assert_eq!(Time::from(duration).as_picos(), 3_141_592_653_000);
        assert_eq!(Time::from(duration).since_start(), duration);
    }

    #[test]
    fn picoseconds_round_up_to_nanoseconds() {
        assert_eq!(Duration::from(Span::from_picos(1)), Duration::from_nanos(1));
        assert_eq!(Duration::from(Span::from_picos(1_000)), Duration::from_nanos(1));
        assert_eq!(Duration::from(Span::from_picos(1_001)), Duration::from_nanos(2));
    }

    #[test]
    fn never_stays_never() {
        assert_eq!(Time::from(Duration::MAX), Time::NEVER);
        assert_eq!(Time::NEVER + Span::from_picos(1), Time::NEVER);
        assert_eq!(Time::NEVER.since_start(), Duration::MAX);
        assert_eq!(Span::from_picos(2).times(u64::MAX), Span::MAX);
    }

    #[test]
    fn spans_between_moments_are_never_negative() {
        let (early, late) = (Time::from_picos(5), Time::from_picos(8));
        assert_eq!(late - early, Span::from_picos(3));
        assert_eq!(early - late, Span::ZERO);
    }
}
