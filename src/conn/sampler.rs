//! Departure truth: a few of the batches are followed until they have left.
//!
//! *In:* when a batch was to leave, and when the kernel says that it entered the interface's queue and left it.
//! *Out:* [`SendClockStats`]. One batch is followed at a time, and one in ten milliseconds: each costs half a
//! dozen system calls.

use std::time::{Duration, Instant};

use super::txtime::ReleaseReports;

/// How well the departures of an endpoint kept to their plans, since it began.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SendClockStats {
    /// How far from its planned departure a batch left, early or late. Sampled: one batch in 10 ms of those that
    /// the pacer had held back, where the interface's driver tells when it passed them to the device.
    pub departure_error: Histogram,
    /// How long a batch was in the interface's queue, which keeps it until its time if it is `fq` or `etf`. Of
    /// the same batches.
    pub queue_delay: Histogram,
    /// What the kernel reported of release times. Only [`SendClock::Etf`](super::SendClock::Etf) reports.
    pub releases: ReleaseReports,
    /// How often the endpoint's task was woken.
    pub wake_ups: u64,
    /// How often the socket's send buffer was full.
    pub full_buffers: u64,
}

/// How often which times were measured: to a hundredth, from a microsecond to ten seconds.
#[derive(Debug, Clone)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Histogram {
    /// Counts one more.
    pub fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that this share of them, 0.5 for the median, does not exceed; `None` if there are none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        (self.count() > 0).then(|| Duration::from_nanos(self.0.value_at_quantile(share)))
    }
}

impl Default for Histogram {
    fn default() -> Self {
        let histogram = hdrhistogram::Histogram::new_with_bounds(LEAST, MOST, DIGITS);
        Self(histogram.expect("the bounds are in order, and two digits are few"))
    }
}

impl FromIterator<Duration> for Histogram {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        let mut histogram = Self::default();
        times.into_iter().for_each(|time| histogram.record(time));
        histogram
    }
}

/// Follows one batch at a time.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    followed: Option<Followed>,
    again_at: Option<Instant>,
}

#[derive(Debug)]
struct Followed {
    planned: Instant,
    handed_over: Instant,
    queued: Option<Instant>,
}

impl Sampler {
    /// Whether the next batch is to be followed.
    pub fn is_due(&self, now: Instant) -> bool {
        self.again_at.is_none_or(|at| at <= now)
    }

    /// Whether one is on its way.
    pub fn is_waiting(&self) -> bool {
        self.followed.is_some()
    }

    /// A batch that was to leave at `planned` was handed over at `now`, or just after it.
    pub fn on_sent(&mut self, now: Instant, planned: Instant) {
        self.followed = Some(Followed { planned, handed_over: now, queued: None });
        self.again_at = Some(now + SPACING);
    }

    /// It entered the interface's queue.
    pub fn on_queued(&mut self, at: Instant) {
        if let Some(followed) = self.followed.as_mut().filter(|followed| at >= followed.handed_over) {
            followed.queued = Some(at);
        }
    }

    /// It left. What left before the followed one was handed over is an earlier one, given up.
    pub fn on_left(&mut self, at: Instant, stats: &mut SendClockStats) {
        let Some(Followed { planned, queued, .. }) =
            self.followed.take_if(|followed| at >= followed.handed_over)
        else {
            return;
        };
        stats.departure_error.record(at.max(planned) - at.min(planned));
        if let Some(queued) = queued {
            stats.queue_delay.record(at.saturating_duration_since(queued));
        }
    }
}

/// Between two batches that are followed.
const SPACING: Duration = Duration::from_millis(10);

/// Nanoseconds, and digits: 18 KB a histogram.
const LEAST: u64 = 1_000;
const MOST: u64 = 10_000_000_000;
const DIGITS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::{ms, t0, us};

    /// The value, to the histogram's precision.
    fn is_about(time: Option<Duration>, expected: Duration) -> bool {
        time.is_some_and(|time| time.abs_diff(expected) <= expected / 64 + us(1))
    }

    #[test]
    fn a_histogram_tells_quantiles() {
        let histogram: Histogram = (1..=100).map(us).collect();
        assert_eq!(histogram.count(), 100);
        assert!(is_about(histogram.quantile(0.5), us(50)), "{:?}", histogram.quantile(0.5));
        assert!(is_about(histogram.quantile(0.99), us(99)), "{:?}", histogram.quantile(0.99));
        assert_eq!(Histogram::default().quantile(0.5), None);
        let extremes: Histogram = [Duration::ZERO, Duration::MAX].into_iter().collect();
        assert!(extremes.quantile(0.0) <= Some(us(2)));
        assert!(extremes.quantile(1.0) >= Some(Duration::from_secs(10)));
    }

    #[test]
    fn a_batch_is_followed_from_the_plan_through_the_queue() {
        let (mut sampler, mut stats) = (Sampler::default(), SendClockStats::default());
        assert!(sampler.is_due(t0()) && !sampler.is_waiting());
        sampler.on_sent(t0(), t0() + ms(2));
        assert!(!sampler.is_due(t0() + ms(9)) && sampler.is_due(t0() + ms(10)) && sampler.is_waiting());
        sampler.on_queued(t0() + us(10));
        sampler.on_left(t0() + us(2_050), &mut stats);
        assert!(!sampler.is_waiting());
        assert!(is_about(stats.departure_error.quantile(0.5), us(50)));
        assert!(is_about(stats.queue_delay.quantile(0.5), us(2_040)));
    }

    #[test]
    fn a_batch_that_was_given_up_is_not_taken_for_its_successor() {
        let (mut sampler, mut stats) = (Sampler::default(), SendClockStats::default());
        sampler.on_sent(t0(), t0());
        sampler.on_sent(t0() + ms(10), t0() + ms(10));
        sampler.on_queued(t0() + ms(1));
        sampler.on_left(t0() + ms(2), &mut stats);
        assert_eq!(stats.departure_error.count(), 0);
        sampler.on_left(t0() + us(10_020), &mut stats);
        // Without a stamp of its queue, as some old kernels have it.
        assert_eq!((stats.departure_error.count(), stats.queue_delay.count()), (1, 0));
        sampler.on_left(t0() + ms(11), &mut stats);
        assert_eq!(stats.departure_error.count(), 1, "each batch counts once");
    }
}
