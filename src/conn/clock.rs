//! The clock. Nothing else in the library reads one.

use std::time::Instant;

/// The present.
pub(super) fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the tokio side is where `now` comes from")]
    Instant::now()
}

#[cfg(target_os = "linux")]
pub(super) use linux::{now_on_realtime, now_with};

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::time::{Duration, Instant};

    use nix::time::{ClockId, clock_gettime};

    use super::now;

    /// The present, and what a clock of the kernel's says then. The best of a few pairs of readings, since
    /// the scheduler may come between any two.
    pub fn now_with(clock: ClockId) -> io::Result<(Instant, Duration)> {
        let mut before = now();
        let mut best = (Duration::MAX, before, Duration::ZERO);
        for _ in 0..MOST_READINGS {
            let reading = clock_gettime(clock)?.into();
            let after = now();
            let apart = after - before;
            if apart < best.0 {
                best = (apart, before + apart / 2, reading);
            }
            if apart < CLOSE {
                break;
            }
            before = after;
        }
        Ok((best.1, best.2))
    }

    /// The same of CLOCK_REALTIME, which never fails.
    pub fn now_on_realtime() -> (Instant, Duration) {
        now_with(ClockId::CLOCK_REALTIME).unwrap_or_else(|_| (now(), Duration::ZERO))
    }

    /// Readings are some 50 ns apart, or some microseconds where each is a system call.
    const CLOSE: Duration = Duration::from_micros(2);
    const MOST_READINGS: u32 = 4;

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn clock_monotonic_and_instants_run_side_by_side() {
            let (first, reading) = now_with(ClockId::CLOCK_MONOTONIC).unwrap();
            let (second, later) = now_with(ClockId::CLOCK_MONOTONIC).unwrap();
            // Two pairs, of which the scheduler may have torn one apart in each of its four tries.
            let between = second - first;
            assert!(between.abs_diff(later - reading) < Duration::from_millis(50));
        }
    }
}
