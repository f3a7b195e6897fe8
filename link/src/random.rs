//! Seeded random numbers that are the same on every machine.
//!
//! *What it decides:* nothing; it answers "what is the n-th draw of this stream?". *In:* a seed, a
//! purpose, a counter. *Out:* 64 bits, a number below a bound, a yes or no with a given probability, or a
//! normal deviate, all in integers.
//! *May import:* the quantile table.
//!
//! Draws are a function of (seed, purpose, counter) and there is no hidden state. So asking for
//! the jitter of a packet does not shift the losses, and the n-th packet offered to a link meets
//! the n-th draw whatever became of the packets before it.
//!
//! The generator is SplitMix64, whose n-th output is a hash of `seed + n·φ` (Steele, Lea, Flood:
//! "Fast splittable pseudorandom number generators", OOPSLA 2014; constants from Vigna's reference
//! code, <https://prng.di.unimi.it/splitmix64.c>). It is not for secrets.

use crate::normal_table::QUANTILES;
use crate::profile::Probability;

/// The seed of the `index`-th of several links or hosts that share one run's seed.
///
/// Links that are given the same seed draw the same losses; give each its own. Where links and hosts
/// are numbered separately, give each kind a run seed of its own first:
/// `link_seed(link_seed(run, kind), index)`.
pub fn link_seed(run_seed: u64, index: u64) -> u64 {
    mix(mix(run_seed).wrapping_add(index.wrapping_mul(GOLDEN)))
}

/// One stream of draws, read by counter: for links, and for hosts that need chance.
///
/// ```
/// use warplink::{Probability, RandomStream, link_seed};
///
/// const THINK_TIMES: u64 = 1;
/// // Host 3 of a run has a seed of its own, so that adding host 4 changes nothing for it.
/// let stream = RandomStream::new(link_seed(2024, 3), THINK_TIMES);
/// assert!(stream.below(0, 6) < 6);
/// assert_eq!(stream.bits(17), stream.bits(17));
/// assert!(!stream.happens(0, Probability::ZERO));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomStream {
    key: u64,
}

impl RandomStream {
    /// The stream of the holder of `seed` for one purpose; each purpose has its own numbers.
    ///
    /// Two holders of the same seed draw the same numbers for the same purpose: give each link and
    /// each host of a run its own seed ([`link_seed`]).
    pub fn new(seed: u64, purpose: u64) -> Self {
        Self { key: link_seed(seed, purpose) }
    }

    /// 64 uniform bits.
    pub fn bits(self, counter: u64) -> u64 {
        mix(self.key.wrapping_add(counter.wrapping_add(1).wrapping_mul(GOLDEN)))
    }

    /// A whole number from 0 to `n - 1`, uniform to within one part in 2⁶⁴ / n; 0 when `n` is 0.
    pub fn below(self, counter: u64, n: u64) -> u64 {
        // The high word of bits * n.
        ((u128::from(self.bits(counter)) * u128::from(n)) >> 64) as u64
    }

    /// Whether an event with this probability happens.
    pub fn happens(self, counter: u64, probability: Probability) -> bool {
        self.below(counter, Probability::BILLION.into()) < probability.as_parts_per_billion().into()
    }

    /// A normal deviate with standard deviation `sigma`, in the unit of `sigma`, rounded towards
    /// zero; never further than 6.3 sigma from zero.
    pub fn normal(self, counter: u64, sigma: u64) -> i128 {
        let z = i128::from(standard_normal(self.bits(counter)));
        z * i128::from(sigma) / (1 << Z_FRACTION_BITS)
    }
}

/// SplitMix64's output function.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Turns uniform bits into a standard normal deviate in units of 2⁻²⁴: the inverse of the
/// distribution function, read from a table and interpolated linearly (error below 10⁻⁴).
///
/// One bit is the sign. The other 63, t, stand for the probability p = t / 2⁶⁴ of lying further out
/// on that side. The table's steps shrink with p by octaves, so tails are as exact as the middle.
fn standard_normal(bits: u64) -> i64 {
    let t = bits >> 1;
    let octave = (t.leading_zeros() - 1) as usize;
    let magnitude = if octave >= OCTAVES {
        i64::from(QUANTILES[OCTAVES * STEPS])
    } else {
        // The leading one moves to bit 63 and out; then come the step and the place within it.
        let mantissa = t << octave << 2;
        let step = (mantissa >> (64 - STEP_BITS)) as usize;
        let within = (mantissa << STEP_BITS >> 32).cast_signed();
        let outer = octave * STEPS + STEPS - step;
        let (low, high) = (i64::from(QUANTILES[outer - 1]), i64::from(QUANTILES[outer]));
        high - (((high - low) * within) >> 32)
    };
    if bits & 1 == 0 { magnitude } else { -magnitude }
}

/// 2⁶⁴ divided by the golden ratio: SplitMix64's increment.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The table's unit is 2⁻²⁴ standard deviations.
const Z_FRACTION_BITS: u32 = 24;
/// Octaves of tail probability that the table covers: from 1/2 down to 2⁻³³, which is 6.3 sigma.
const OCTAVES: usize = 32;
const STEP_BITS: u32 = 5;
/// Steps in an octave.
const STEPS: usize = 1 << STEP_BITS;

#[cfg(test)]
mod tests {
    use super::*;

    const SIGMA: u64 = 1_000_000_000;

    fn uniform(counter: u64) -> u64 {
        RandomStream::new(7, 2).bits(counter)
    }

    /// The upper tail of the standard normal distribution by Simpson's rule, from `z` to `z + 12`.
    fn upper_tail(z: f64) -> f64 {
        let n = 20_000;
        let h = 12.0 / f64::from(n);
        let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let weight = |i| if i == 0 || i == n { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
        (0..=n).map(|i| weight(i) * density(z + f64::from(i) * h)).sum::<f64>() * h / 3.0
    }

    #[test]
    fn it_is_splitmix64() {
        // The reference code's first outputs for the seed 1234567.
        let stream = RandomStream { key: 1_234_567 };
        let first: Vec<u64> = (0..3).map(|n| stream.bits(n)).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn the_table_holds_the_normal_quantiles() {
        for (i, &z) in QUANTILES.iter().enumerate() {
            let (k, j) = if i == 0 { (0, 32) } else { ((i - 1) / STEPS, STEPS - 1 - (i - 1) % STEPS) };
            let p = (1.0 + j as f64 / 32.0) / 2f64.powi(i32::try_from(k).expect("below 32") + 2);
            let found = upper_tail(f64::from(z) / 2f64.powi(24));
            assert!((found / p - 1.0).abs() < 1e-5, "entry {i}: tail {found:e}, expected {p:e}");
        }
    }

    #[test]
    fn interpolation_hits_the_quantiles_to_four_sigma_and_beyond() {
        for milli_sigma in (1..5_500).step_by(7) {
            let z = f64::from(milli_sigma) / 1000.0;
            // The bits whose tail probability is that of z; float to integer casts saturate.
            #[expect(clippy::cast_possible_truncation, reason = "p < 1/2, so the product is below 2^63")]
            let bits = ((upper_tail(z) * 2f64.powi(64)) as u64) << 1;
            let found = standard_normal(bits) as f64 / 2f64.powi(24);
            assert!((found - z).abs() < 1e-4, "{z} sigma came out as {found}");
            assert_eq!(standard_normal(bits | 1), -standard_normal(bits));
        }
    }

    #[test]
    fn extreme_bits_stay_within_the_table() {
        for bits in [0, 1, 2, 3, u64::MAX, u64::MAX - 1, 1 << 32, 1 << 31, 1 << 63] {
            assert!(standard_normal(bits).abs() <= i64::from(QUANTILES[OCTAVES * STEPS]));
        }
        assert!(standard_normal(u64::MAX).abs() <= 1, "half the probability lies further out: the median");
    }

    #[test]
    fn normal_deviates_have_the_right_moments_and_tails() {
        let n = 2_000_000u32;
        let stream = RandomStream::new(7, 2);
        let draws: Vec<f64> = (0..n).map(|i| stream.normal(i.into(), SIGMA) as f64 / SIGMA as f64).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let variance = draws.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.003, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.004, "variance {variance}");
        for sigmas in [1.0, 2.0, 3.0, 4.0] {
            let expected = 2.0 * upper_tail(sigmas) * f64::from(n);
            let found = draws.iter().filter(|z| z.abs() > sigmas).count() as f64;
            let bound = 4.0 * expected.sqrt() + 1.0;
            assert!((found - expected).abs() < bound, "beyond {sigmas} sigma: {found}, expected {expected}");
        }
    }

    #[test]
    fn uniform_bits_are_balanced_in_every_position() {
        let n = 100_000u32;
        for bit in 0..64 {
            let ones = (0..n).filter(|&i| uniform(i.into()) >> bit & 1 == 1).count() as f64;
            assert!((ones / f64::from(n) - 0.5).abs() < 0.008, "bit {bit}: {ones} of {n}");
        }
    }

    #[test]
    fn purposes_and_links_have_unrelated_numbers() {
        let streams = [
            RandomStream::new(7, 1),
            RandomStream::new(7, 2),
            RandomStream::new(8, 1),
            RandomStream::new(link_seed(7, 0), 1),
            RandomStream::new(link_seed(7, 1), 1),
        ];
        for (i, a) in streams.iter().enumerate() {
            for b in &streams[..i] {
                // Of 64 * 1000 bits of two unrelated streams, half agree, give or take 127.
                let agree: u32 = (0..1000).map(|n| (a.bits(n) ^ b.bits(n)).count_zeros()).sum();
                assert!(agree.abs_diff(32_000) < 600, "{agree} of 64000 bits agree");
            }
        }
    }

    #[test]
    fn the_ends_of_probability_are_exact() {
        let stream = RandomStream::new(1, 1);
        assert!((0..10_000).all(|n| stream.happens(n, Probability::ONE)));
        assert!(!(0..10_000).any(|n| stream.happens(n, Probability::ZERO)));
        // The smallest draw: all 64 bits are zero.
        let smallest = RandomStream { key: 0u64.wrapping_sub(GOLDEN) };
        assert_eq!(smallest.bits(0), 0);
        assert!(!smallest.happens(0, Probability::ZERO));
        assert!(smallest.happens(0, Probability::parts_per_billion(1).expect("a probability")));
    }

    #[test]
    fn numbers_below_a_bound_are_uniform_and_reach_both_ends() {
        let stream = RandomStream::new(3, 9);
        let mut counts = [0u32; 6];
        for counter in 0..60_000 {
            counts[usize::try_from(stream.below(counter, 6)).expect("below 6")] += 1;
        }
        // A count has a standard deviation of 91.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 410), "{counts:?}");
        assert_eq!((stream.below(5, 0), stream.below(5, 1)), (0, 0));
        assert!(stream.below(5, u64::MAX) <= stream.bits(5));
    }
}
