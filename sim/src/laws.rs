//! The laws at hand, by name. Adding one is one line in [`ALL`].

use std::sync::Arc;

use warprate::cc::warprate::Tuning;
use warprate::cc::{Bbr3, Cubic, Fixed, LawFactory, NewReno, PathStart, RateLaw, WarpRate};
use warprate::conn::Law;
use warpunits::{Bytes, Rate};

use crate::topology::{FixedSpec, LawSpec, Pace, Window};

/// A law of the registry.
#[derive(Debug)]
pub struct Entry {
    /// What topologies and commands call it.
    pub name: &'static str,
    /// The law whose published figures stand beside it.
    pub published_as: Option<&'static str>,
    maker: Maker,
}

/// Where a law comes from.
#[derive(Debug, Clone, Copy)]
enum Maker {
    /// Ours: its inputs and decisions can be traced, and its runs replayed.
    Own { make: fn(&PathFacts) -> Arc<dyn LawFactory>, is_paced: bool },
    /// `quinn-proto`'s.
    Foreign(fn() -> Law),
}

/// All laws.
pub const ALL: &[Entry] = &[
    paced("warprate", Some("warprate"), |path| path.warprate()),
    paced("fixed", None, |path| path.fixed()),
    own("cubic", Some("cubic"), |_| Arc::new(Cubic::new)),
    own("newreno", None, |_| Arc::new(NewReno::new)),
    own("bbr3", Some("bbr3"), |path| path.bbr3()),
    foreign("quinn-cubic", Some("cubic"), Law::quinn_cubic),
    foreign("quinn-newreno", None, Law::quinn_new_reno),
    foreign("quinn-bbr", Some("bbr3"), Law::quinn_bbr),
];

const fn own(
    name: &'static str,
    published_as: Option<&'static str>,
    make: fn(&PathFacts) -> Arc<dyn LawFactory>,
) -> Entry {
    Entry { name, published_as, maker: Maker::Own { make, is_paced: false } }
}

/// A law that sends at a rate of its own.
const fn paced(
    name: &'static str,
    published_as: Option<&'static str>,
    make: fn(&PathFacts) -> Arc<dyn LawFactory>,
) -> Entry {
    Entry { name, published_as, maker: Maker::Own { make, is_paced: true } }
}

const fn foreign(name: &'static str, published_as: Option<&'static str>, make: fn() -> Law) -> Entry {
    Entry { name, published_as, maker: Maker::Foreign(make) }
}

/// The law of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|law| law.name == name)
}

impl Entry {
    /// Makers of the law for a path, or the foreign law.
    pub fn make(&self, path: &PathFacts) -> Made {
        match self.maker {
            Maker::Own { make, is_paced } => Made::Own { factory: make(path), is_paced },
            Maker::Foreign(make) => Made::Foreign(make()),
        }
    }

    /// Whether it is `quinn-proto`'s: such laws seed themselves and use the platform's floats.
    pub fn is_foreign(&self) -> bool {
        matches!(self.maker, Maker::Foreign(_))
    }
}

/// A law ready for a flow.
#[derive(Clone)]
pub enum Made {
    /// Ours, or a user's.
    Own {
        /// Makes it for a path.
        factory: Arc<dyn LawFactory>,
        /// Whether it sends at a rate of its own, see [`Law::paced`].
        is_paced: bool,
    },
    /// A foreign one.
    Foreign(Law),
}

impl Made {
    /// A law of one's own, made by `factory` for each path.
    pub fn own(factory: impl LawFactory + 'static) -> Self {
        Self::Own { factory: Arc::new(factory), is_paced: false }
    }

    /// WarpRATE by other numbers than its own.
    pub fn warprate(tuning: Tuning, seed: u64) -> Self {
        let factory = move |start: PathStart| WarpRate::tuned(start, seed, tuning);
        Self::Own { factory: Arc::new(factory), is_paced: true }
    }

    /// Whether it is a controller written for `quinn-proto`.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign(_))
    }

    /// As the library's connections take it.
    pub fn into_law(self) -> Law {
        match self {
            Self::Own { factory, is_paced } => {
                let law = Law::custom(Shared(factory));
                if is_paced { law.paced() } else { law }
            }
            Self::Foreign(law) => law,
        }
    }
}

/// A factory behind a pointer.
#[derive(Clone)]
pub(crate) struct Shared(pub Arc<dyn LawFactory>);

impl LawFactory for Shared {
    fn build(&self, start: PathStart) -> Box<dyn RateLaw> {
        self.0.build(start)
    }
}

/// What laws may be given: `fixed` looks for nothing itself.
#[derive(Debug, Clone, Copy)]
pub struct PathFacts {
    /// UDP payload per second that the bottleneck carries.
    pub payload_rate: Rate,
    /// The bandwidth-delay product in wire bytes.
    pub bdp: Bytes,
    /// The parameters of `fixed`.
    pub fixed: FixedSpec,
    /// Seeds the law's own draws.
    pub seed: u64,
}

impl PathFacts {
    fn fixed(&self) -> Arc<dyn LawFactory> {
        let rate = match self.fixed.rate {
            Pace::Share(share) => share.of_rate(self.payload_rate),
            Pace::Rate(rate) => rate,
        };
        let window = match self.fixed.window {
            Window::Measured => return Arc::new(move |_: PathStart| Fixed::measured(rate)),
            Window::Bdp(multiple) => multiple.of_bytes(self.bdp),
            Window::Bytes(bytes) => bytes,
        };
        Arc::new(move |_: PathStart| Fixed::new(rate, window))
    }

    fn warprate(&self) -> Arc<dyn LawFactory> {
        let seed = self.seed;
        Arc::new(move |start: PathStart| WarpRate::new(start, seed))
    }

    fn bbr3(&self) -> Arc<dyn LawFactory> {
        let seed = self.seed;
        Arc::new(move |start: PathStart| Bbr3::new(start, seed))
    }
}

/// The law that a flow asks for, on a path of which this is known.
pub fn make(spec: &LawSpec, payload_rate: Rate, bdp: Bytes, seed: u64) -> Made {
    let fixed = match spec {
        LawSpec::Fixed(fixed) => *fixed,
        LawSpec::Named(_) => FixedSpec::default(),
    };
    let entry = find(spec.name()).expect("specs name laws of the registry");
    entry.make(&PathFacts { payload_rate, bdp, fixed, seed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_law_has_its_own_name() {
        for (index, law) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|other| other.name != law.name), "{}", law.name);
        }
    }

    #[test]
    fn fixed_takes_its_part_of_the_payload_rate() {
        let path = PathFacts {
            payload_rate: Rate::mbps(100),
            bdp: Bytes::kb(500),
            fixed: FixedSpec { window: Window::Bytes(Bytes::mb(1)), ..FixedSpec::default() },
            seed: 0,
        };
        // Any instant will do: `fixed` has no clock.
        #[expect(clippy::disallowed_methods, reason = "virtual time needs an origin")]
        let now = std::time::Instant::now();
        let plan = path.fixed().build(PathStart::new(now, Bytes::new(1452))).plan(now);
        assert_eq!((plan.rate, plan.window), (Rate::mbps(97), Bytes::mb(1)));
    }
}
