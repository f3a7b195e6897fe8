use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use std::str::FromStr;
use std::time::Duration;

use crate::parse::{ParseUnitError, parse_scaled};
use crate::{Gain, NANOS_PER_SEC, Rate, duration_from_nanos, saturate};

/// A number of bytes: a packet, a window, a buffer, bytes in flight.
///
/// Addition and subtraction saturate, so bookkeeping never wraps: `Bytes(1) - Bytes(2)` is zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// More bytes than any buffer holds; as a window it means "no limit".
    pub const MAX: Self = Self(u64::MAX);

    /// `n` bytes.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The length of a buffer.
    pub const fn of_len(len: usize) -> Self {
        Self(len as u64)
    }

    /// `n` times 1000 bytes.
    pub const fn kb(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// `n` times 1024 bytes.
    pub const fn kib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 10))
    }

    /// `n` times 1,000,000 bytes.
    pub const fn mb(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// `n` times 1,048,576 bytes.
    pub const fn mib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 20))
    }

    /// The count as a bare number, for the edges of the library.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The count as a buffer length, saturating where `usize` is narrower.
    pub fn as_len(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Whether there are none.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// `self * n`, saturating.
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

/// The rate that moves these bytes in this time, rounded down; [`Rate::MAX`] when the time is zero.
#[expect(clippy::suspicious_arithmetic_impl, reason = "nanoseconds are made seconds first")]
impl Div<Duration> for Bytes {
    type Output = Rate;
    fn div(self, time: Duration) -> Rate {
        match (u128::from(self.0) * NANOS_PER_SEC).checked_div(time.as_nanos()) {
            Some(rate) => Rate::bytes_per_sec(saturate(rate)),
            None if self.is_zero() => Rate::ZERO,
            None => Rate::MAX,
        }
    }
}

/// The time these bytes take at this rate, rounded **up**; [`Duration::MAX`] at a rate of zero.
#[expect(clippy::suspicious_arithmetic_impl, reason = "seconds are made nanoseconds first")]
impl Div<Rate> for Bytes {
    type Output = Duration;
    fn div(self, rate: Rate) -> Duration {
        if self.is_zero() {
            return Duration::ZERO;
        }
        if rate.is_zero() {
            return Duration::MAX;
        }
        let nanos = u128::from(self.0) * NANOS_PER_SEC;
        duration_from_nanos(nanos.div_ceil(u128::from(rate.as_bytes_per_sec())))
    }
}

/// Scales, rounding down.
impl Mul<Gain> for Bytes {
    type Output = Self;
    fn mul(self, gain: Gain) -> Self {
        Self(gain.scale(self.0))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::parse::write_scaled(
            f,
            self.0,
            &[(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"), (1, "B")],
        )
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads `1452`, `10 MB`, `64kB`, `1.5 MiB`; a bare number counts bytes.
impl FromStr for Bytes {
    type Err = ParseUnitError;
    fn from_str(s: &str) -> Result<Self, ParseUnitError> {
        const UNITS: &[(&str, u64)] = &[
            ("", 1),
            ("B", 1),
            ("kB", 1_000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
        ];
        parse_scaled(s, UNITS, 1, "a number of bytes such as `10 MB` or `64 KiB`").map(Self)
    }
}
