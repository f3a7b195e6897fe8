use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Div, Mul, Sub};
use std::time::Duration;

use crate::saturate;

/// A dimensionless factor as an exact ratio of two integers: a pacing gain, a margin, a share.
///
/// A ratio and not a binary fixed-point number, because the specifications give theirs in decimal
/// and `Rate::mbps(100) * Gain::ratio(277, 100)` should be exactly 277 Mbit/s.
#[derive(Clone, Copy)]
pub struct Gain {
    num: u32,
    den: u32,
}

impl Gain {
    /// The factor 1.
    pub const ONE: Self = Self::ratio(1, 1);

    /// `num / den`.
    ///
    /// # Panics
    /// When `den` is zero; in a `const` that is a compile error.
    pub const fn ratio(num: u32, den: u32) -> Self {
        assert!(den != 0, "a gain's denominator must not be zero");
        Self { num, den }
    }

    /// `n` hundredths.
    pub const fn percent(n: u32) -> Self {
        Self::ratio(n, 100)
    }

    /// In thousandths, rounded down.
    pub const fn thousandths(self) -> u64 {
        self.num as u64 * 1000 / self.den as u64
    }

    fn wide(self) -> (u128, u128) {
        (self.num.into(), self.den.into())
    }

    /// `value * self`, rounded down, saturating.
    pub(crate) fn scale(self, value: u64) -> u64 {
        saturate(u128::from(value) * u128::from(self.num) / u128::from(self.den))
    }
}

/// The ratio of these, exact as far as 32 bits go.
fn fitted(num: u128, den: u128) -> Gain {
    let excess = (u128::BITS - (num | den).leading_zeros()).saturating_sub(u32::BITS);
    let fit = |value: u128| u32::try_from(value >> excess).unwrap_or(u32::MAX);
    Gain { num: fit(num), den: fit(den).max(1) }
}

impl Add for Gain {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        fitted(a * d + c * b, b * d)
    }
}

/// Saturates at zero.
impl Sub for Gain {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        fitted((a * d).saturating_sub(c * b), b * d)
    }
}

impl Mul for Gain {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        fitted(a * c, b * d)
    }
}

/// By zero it saturates.
impl Div for Gain {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        fitted(a * d, b * c)
    }
}

/// Rounded down to nanoseconds, saturating.
impl Mul<Gain> for Duration {
    type Output = Self;

    fn mul(self, gain: Gain) -> Self {
        let (num, den) = gain.wide();
        let nanos = self.as_nanos().saturating_mul(num).checked_div(den).unwrap_or(u128::MAX);
        Self::from_nanos(saturate(nanos))
    }
}

impl PartialOrd for Gain {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Gain {
    fn cmp(&self, other: &Self) -> Ordering {
        (u64::from(self.num) * u64::from(other.den)).cmp(&(u64::from(other.num) * u64::from(self.den)))
    }
}

impl PartialEq for Gain {
    fn eq(&self, other: &Self) -> bool {
        u64::from(self.num) * u64::from(other.den) == u64::from(other.num) * u64::from(self.den)
    }
}

impl Eq for Gain {}

impl fmt::Debug for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.num, self.den)
    }
}
