//! The statistics of a row: floats, and nothing of the runs.

/// What several runs of one kind came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// The median; of an even number the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Half of the mean's 95 % confidence interval; infinite for a single run.
    pub half_width: f64,
}

impl Figures {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
        let half_width = match sorted.len() {
            1 => f64::INFINITY,
            n => t_quantile(n - 1) * (squares / (count - 1.0) / count).sqrt(),
        };
        Some(Self { median, min, max, half_width })
    }

    /// How far another median may lie from this one, as a part of it: a tenth, or twice the confidence
    /// interval's half width.
    pub fn band(&self) -> f64 {
        LEAST_BAND.max(2.0 * self.half_width / self.median)
    }

    /// Whether `other`'s median lies within the band, if that says anything.
    pub fn verdict(&self, other: &Self) -> &'static str {
        let is_within = (other.median - self.median).abs() <= self.band() * self.median;
        match is_within {
            true if self.band() > WIDEST_BAND => "undecided",
            true => "agrees",
            false => "MISSES",
        }
    }
}

/// Student's t at 97.5 %; beyond the table its last value, which is too wide there.
fn t_quantile(degrees: usize) -> f64 {
    T_975[degrees.clamp(1, T_975.len()) - 1]
}

const T_975: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086,
];

const LEAST_BAND: f64 = 0.1;
/// Runs that differ so much among themselves agree with anything.
const WIDEST_BAND: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        let figures = Figures::of(&[92.0, 90.0, 94.0, 91.0, 93.0]).expect("there are values");
        assert_eq!((figures.median, figures.min, figures.max), (92.0, 90.0, 94.0));
        // Standard deviation √2.5, five values, t = 2.776.
        assert!((figures.half_width - 2.776 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-9, "{figures:?}");
        assert_eq!(Figures::of(&[1.0, 2.0]).map(|figures| figures.median), Some(1.5));
        assert_eq!(Figures::of(&[]), None);
    }

    #[test]
    fn the_band_is_a_tenth_or_twice_the_interval() {
        let steady = Figures::of(&[100.0, 100.0, 100.0]).expect("values");
        let at = |median| Figures { median, ..steady };
        assert_eq!([90.0, 110.0].map(|median| steady.verdict(&at(median))), ["agrees"; 2]);
        assert_eq!([89.0, 111.0].map(|median| steady.verdict(&at(median))), ["MISSES"; 2]);
        let noisy = Figures::of(&[80.0, 100.0, 120.0]).expect("values");
        assert!((noisy.band() - 2.0 * 4.303 * 20.0 / 3.0_f64.sqrt() / 100.0).abs() < 1e-9);
        let single = Figures::of(&[100.0]).expect("a value");
        assert_eq!(single.verdict(&noisy), "undecided");
    }
}
