//! What a wire does to datagrams, as functions of a seed.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::pair::{Departure, Fate, Mischief};
use warprate::units::{Bytes, Rate};

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

/// A transmitter with a queue before it, in each direction, and the wire behind.
#[derive(Debug, Clone)]
pub struct Hop {
    pub rate: Rate,
    /// Room in the queue; what finds more before it is dropped.
    pub queue: Bytes,
    pub delay: Duration,
}

/// One hop after the other, behind which `fate` decides.
pub fn through(hops: Vec<Hop>, mut fate: Fate) -> Fate {
    let mut free_at = vec![[None; 2]; hops.len()];
    Box::new(move |departure| {
        let mut at = departure.at;
        for (hop, free_at) in hops.iter().zip(&mut free_at) {
            let free_at: &mut Option<Instant> = &mut free_at[usize::from(departure.from_client)];
            let start = free_at.map_or(at, |free_at| free_at.max(at));
            if start - at > hop.queue / hop.rate {
                return None;
            }
            let end = start + Bytes::new(departure.data.len() as u64) / hop.rate;
            *free_at = Some(end);
            at = end + hop.delay;
        }
        let (delay, ecn) = fate(departure)?;
        Some((at - departure.at + delay, ecn))
    })
}

/// Flips a bit in `corruption` of all datagrams, and lets copies of `duplication` follow within a second.
pub fn mischief(seed: u64, corruption: f64, duplication: f64) -> Mischief {
    let mut rng = StdRng::seed_from_u64(seed);
    Box::new(move |departure| {
        if rng.random_bool(corruption) {
            let at = rng.random_range(0..departure.data.len());
            departure.data[at] ^= 1 << rng.random_range(0..8);
        }
        let later = Duration::from_micros(10_u64.pow(rng.random_range(0..7)));
        rng.random_bool(duplication).then_some(later)
    })
}

/// Loses what `is_lost` says, and delays the rest by `delay`.
pub fn losing(delay: Duration, mut is_lost: impl FnMut(&Departure) -> bool + 'static) -> Fate {
    Box::new(move |departure| (!is_lost(departure)).then_some((delay, departure.ecn)))
}
