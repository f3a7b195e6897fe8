//! A clock for unit tests: one epoch per process, and durations by name.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The tests' epoch.
pub fn t0() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "an `Instant` can come from nowhere else")]
    *EPOCH.get_or_init(Instant::now)
}

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub const fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}
