//! Percentiles of many times in little memory.

use warplink::Span;

/// Counts times in buckets that grow with the time: what it tells is less than 1/32 too low.
#[derive(Clone)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

impl Histogram {
    /// Nothing counted.
    pub fn new() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0 }
    }

    /// Counts a time.
    pub fn add(&mut self, time: Span) {
        self.buckets[bucket(time.as_picos())] += 1;
        self.count += 1;
    }

    /// What was counted since it was `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let buckets = self.buckets.iter().zip(&earlier.buckets).map(|(now, then)| now - then).collect();
        Self { buckets, count: self.count - earlier.count }
    }

    /// The least time, rounded down to its bucket, below or at which `percent` of all times lie; zero
    /// if there are none.
    pub fn percentile(&self, percent: u64) -> Span {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Span::from_picos(floor(index));
            }
        }
        Span::ZERO
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Histogram of {}", self.count)
    }
}

/// 32 buckets for each power of two; the first 32 times have one each.
fn bucket(picos: u64) -> usize {
    if picos < STEPS {
        return usize::try_from(picos).expect("below 32");
    }
    let shift = picos.ilog2() - STEPS.ilog2();
    let step = (picos >> shift) - STEPS;
    usize::try_from((u64::from(shift) + 1) * STEPS + step).expect("below 2000")
}

fn floor(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    match bucket / STEPS {
        0 => bucket,
        shift => (STEPS + bucket % STEPS) << (shift - 1),
    }
}

const STEPS: u64 = 32;
const BUCKETS: usize = 60 * 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_bucket_close_below_it() {
        for shift in 0..64 {
            for offset in [0, 1, 12_345] {
                let picos = (1u64 << shift).saturating_add(offset);
                let floor = floor(bucket(picos));
                assert!(floor <= picos && picos - floor <= picos / 32, "{picos} {floor}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_count_from_below() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.percentile(50), Span::ZERO);
        for time in 1..=20 {
            histogram.add(Span::from_picos(time));
        }
        assert_eq!(histogram.percentile(50), Span::from_picos(10));
        assert_eq!(histogram.percentile(95), Span::from_picos(19));
        assert_eq!(histogram.percentile(100), Span::from_picos(20));
        let earlier = histogram.clone();
        histogram.add(Span::from_picos(7));
        assert_eq!(histogram.since(&earlier).percentile(50), Span::from_picos(7));
    }
}
