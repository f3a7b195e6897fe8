use std::fmt;

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

    /// `value * self`, rounded down, saturating.
    pub(crate) fn scale(self, value: u64) -> u64 {
        saturate(u128::from(value) * u128::from(self.num) / u128::from(self.den))
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
