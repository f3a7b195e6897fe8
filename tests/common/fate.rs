//! What a wire does to datagrams, as functions of a seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::pair::{Departure, Fate};

/// Loses `loss` of all datagrams, both ways, and delays each by `delay` and up to `jitter` more, so
/// that they overtake each other.
pub fn rough(seed: u64, delay: Duration, loss: f64, jitter: Duration) -> Fate {
    let mut rng = StdRng::seed_from_u64(seed);
    Box::new(move |departure| {
        let is_lost = rng.random_bool(loss);
        let extra = jitter.mul_f64(rng.random_range(0.0..1.0));
        (!is_lost).then_some((delay + extra, departure.ecn))
    })
}

/// Loses what `is_lost` says, and delays the rest by `delay`.
pub fn losing(delay: Duration, mut is_lost: impl FnMut(&Departure) -> bool + 'static) -> Fate {
    Box::new(move |departure| (!is_lost(departure)).then_some((delay, departure.ecn)))
}
