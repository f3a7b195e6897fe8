//! What a figure must reach: a floor or a goal.

/// What a figure is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// At least this part of the oracle's goodput.
    OfOracle(f64),
    /// At least this many times the goodput of the best rival on the same path with the same seeds.
    OfBestRival(f64),
    /// At least this, in the figure's own unit.
    AtLeast(f64),
    /// At most this, in the figure's own unit.
    AtMost(f64),
    /// Neither below nor above, in the figure's own unit.
    Within(f64, f64),
}

/// A figure, and those of others on the same path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The median over the seeds.
    pub ours: f64,
    /// The oracle's.
    pub oracle: Option<f64>,
    /// The median over the seeds of ours to the oracle's.
    pub ratio: Option<f64>,
    /// The best rival and its median.
    pub best_rival: Option<(&'static str, f64)>,
}

impl Bound {
    /// Whether the figure reaches it.
    pub fn is_met(self, figure: &Figure) -> bool {
        match self {
            Self::OfOracle(part) => figure.ratio.is_some_and(|ratio| ratio >= part),
            Self::OfBestRival(times) => {
                figure.best_rival.is_some_and(|(_, rival)| figure.ours >= times * rival)
            }
            Self::AtLeast(least) => figure.ours >= least,
            Self::AtMost(most) => figure.ours <= most,
            Self::Within(least, most) => (least..=most).contains(&figure.ours),
        }
    }

    /// The part of the oracle's goodput that reaches it; `None` for what is no goodput.
    pub fn of_oracle(self, figure: &Figure) -> Option<f64> {
        match self {
            Self::OfOracle(part) => Some(part),
            Self::OfBestRival(times) => Some(times * figure.best_rival?.1 / figure.oracle?),
            Self::AtLeast(least) => Some(least / figure.oracle?),
            Self::AtMost(_) | Self::Within(..) => None,
        }
    }

    /// As the table shows it.
    pub fn text(self, figure: &Figure) -> String {
        match self {
            Self::OfOracle(part) => format!("{part} of oracle"),
            Self::OfBestRival(times) => match figure.best_rival {
                Some((law, rival)) => format!("≥ {times} x {rival:.1} ({law})"),
                None => format!("≥ {times} x best rival"),
            },
            Self::AtLeast(least) => format!("≥ {least}"),
            Self::AtMost(most) => format!("≤ {most}"),
            Self::Within(least, most) => format!("{least} to {most}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURE: Figure =
        Figure { ours: 450.0, oracle: Some(900.0), ratio: Some(0.5), best_rival: Some(("cubic", 360.0)) };

    #[test]
    fn a_bound_is_met_at_its_edge() {
        for (bound, beyond) in [
            (Bound::OfOracle(0.5), Bound::OfOracle(0.51)),
            (Bound::OfBestRival(1.25), Bound::OfBestRival(1.26)),
            (Bound::AtLeast(450.0), Bound::AtLeast(451.0)),
            (Bound::AtMost(450.0), Bound::AtMost(449.0)),
            (Bound::Within(400.0, 450.0), Bound::Within(451.0, 500.0)),
        ] {
            assert!(bound.is_met(&FIGURE), "{bound:?}");
            assert!(!beyond.is_met(&FIGURE), "{beyond:?}");
        }
    }

    #[test]
    fn without_an_oracle_or_a_rival_nothing_is_reached_in_their_terms() {
        let alone = Figure { oracle: None, ratio: None, best_rival: None, ..FIGURE };
        assert!(!Bound::OfOracle(0.0).is_met(&alone));
        assert!(!Bound::OfBestRival(0.0).is_met(&alone));
    }

    #[test]
    fn bounds_on_goodput_are_parts_of_the_oracle() {
        assert_eq!(Bound::OfBestRival(1.25).of_oracle(&FIGURE), Some(0.5));
        assert_eq!(Bound::AtLeast(630.0).of_oracle(&FIGURE), Some(0.7));
        assert_eq!(Bound::AtMost(5.0).of_oracle(&FIGURE), None);
    }
}
