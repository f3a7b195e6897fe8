use std::fmt;
use std::ops::{Add, Mul, Sub};
use std::str::FromStr;
use std::time::Duration;

use crate::parse::{ParseUnitError, parse_scaled, write_scaled};
use crate::{Bytes, Gain, NANOS_PER_SEC, saturate};

/// A data rate, in whole bytes per second.
///
/// There is no conversion from a bare integer: every constructor names its unit. Addition and
/// subtraction saturate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// Nothing moves: whatever waits for this rate waits for ever.
    pub const ZERO: Self = Self(0);
    /// Faster than any interface; as a pacing rate it means "not paced".
    pub const MAX: Self = Self(u64::MAX);

    /// `n` bytes per second.
    pub const fn bytes_per_sec(n: u64) -> Self {
        Self(n)
    }

    /// `n` bits per second, rounded down to whole bytes per second.
    pub const fn bits_per_sec(n: u64) -> Self {
        Self(n / 8)
    }

    /// `n` kbit/s (1000 bits per second each).
    pub const fn kbps(n: u64) -> Self {
        Self(n.saturating_mul(125))
    }

    /// `n` Mbit/s (1,000,000 bits per second each).
    pub const fn mbps(n: u64) -> Self {
        Self(n.saturating_mul(125_000))
    }

    /// `n` Gbit/s (1,000,000,000 bits per second each).
    pub const fn gbps(n: u64) -> Self {
        Self(n.saturating_mul(125_000_000))
    }

    /// The rate in bytes per second.
    pub const fn as_bytes_per_sec(self) -> u64 {
        self.0
    }

    /// The rate in bits per second, saturating.
    pub const fn as_bits_per_sec(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// The rate in Mbit/s, for reports only: decisions use integers.
    pub fn as_mbps_f64(self) -> f64 {
        self.0 as f64 * 8e-6
    }

    /// Whether nothing moves.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add for Rate {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Rate {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// The bytes that this rate moves in this time, rounded down.
#[expect(clippy::suspicious_arithmetic_impl, reason = "nanoseconds are made seconds at the end")]
impl Mul<Duration> for Rate {
    type Output = Bytes;
    fn mul(self, time: Duration) -> Bytes {
        let product = u128::from(self.0).saturating_mul(time.as_nanos());
        Bytes::new(saturate(product / NANOS_PER_SEC))
    }
}

/// Scales, rounding down.
impl Mul<Gain> for Rate {
    type Output = Self;
    fn mul(self, gain: Gain) -> Self {
        Self(gain.scale(self.0))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s"), (1, "bit/s")];
        write_scaled(f, self.as_bits_per_sec(), &units)
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads `100 Mbit/s`, `2.5Gbit/s`, `800 kbps`; a unit is required, since a bare number is the bug
/// this type exists to prevent.
impl FromStr for Rate {
    type Err = ParseUnitError;
    fn from_str(s: &str) -> Result<Self, ParseUnitError> {
        const UNITS: &[(&str, u64)] = &[
            ("bit/s", 1),
            ("kbit/s", 1_000),
            ("Mbit/s", 1_000_000),
            ("Gbit/s", 1_000_000_000),
            ("bps", 1),
            ("kbps", 1_000),
            ("Mbps", 1_000_000),
            ("Gbps", 1_000_000_000),
        ];
        parse_scaled(s, UNITS, 8, "a rate with its unit such as `100 Mbit/s`").map(Self)
    }
}
