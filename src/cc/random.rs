//! The law's own randomness: a seeded generator in integers, so that a run can be repeated anywhere.

use std::time::Duration;

/// SplitMix64.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 or 1.
    pub fn bit(&mut self) -> u64 {
        self.next() >> 63
    }

    /// Uniform from `least` to `most`.
    pub fn between(&mut self, least: u32, most: u32) -> u32 {
        let span = u64::from(most - least) + 1;
        least + u32::try_from(((self.next() >> 32) * span) >> 32).expect("below the span")
    }

    /// Uniform from two thirds of `mean`, in milliseconds, to four: enough for flows not to move together.
    pub fn around(&mut self, mean: Duration) -> Duration {
        let third = u32::try_from(mean.as_millis() / 3).unwrap_or(u32::MAX / 4);
        Duration::from_millis(self.between(2 * third, 4 * third).into())
    }

    /// Uniform in nanoseconds from zero to below `most`, which is a second at most.
    pub fn below(&mut self, most: Duration) -> Duration {
        let nanos = (u128::from(self.next()) * most.as_nanos()) >> 64;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
