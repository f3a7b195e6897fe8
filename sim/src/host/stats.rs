//! What any host can be asked: how far it got, and what its flow went through.

use std::time::Duration;

use warplink::Time;
use warpunits::Bytes;

/// What the application saw, in simulated time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The handshake was complete; hosts without one say when they began.
    pub connected: Option<Time>,
    /// The first datagram with stream data left.
    pub first_sent: Option<Time>,
    /// The last byte was readable.
    pub finished: Option<Time>,
    /// Stream bytes read, each once.
    pub received: Bytes,
    /// When stream bytes were last read.
    pub last_received: Option<Time>,
    /// The connection ended with an error.
    pub has_failed: bool,
}

/// What the sending side of a host went through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FlowStats {
    /// Datagrams or segments that left, with data or without: acknowledgements and probes count.
    pub datagrams_sent: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Bytes of the packets declared lost, as laws count them.
    pub bytes_lost: Bytes,
    /// Stream bytes that left again after they had been declared lost. `None` where the transport does
    /// not tell; [`bytes_lost`](Self::bytes_lost) comes near it then.
    pub retransmitted: Option<Bytes>,
    /// Packets declared lost that arrived after all; `None` where the transport does not tell.
    pub spurious_losses: Option<u64>,
    /// Times that the sender heard nothing for so long that it had to probe or start again; `None` where
    /// the transport does not tell.
    pub timeouts: Option<u64>,
    /// Round-trip times, once there is a sample.
    pub rtt: Option<RttSummary>,
    /// When a packet was first declared lost.
    pub first_loss: Option<Time>,
    /// When a congestion mark was first reported. The QUIC host notices it only before its first loss.
    pub first_mark: Option<Time>,
}

/// Round-trip times of one flow, ACK delay included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttSummary {
    /// Samples: at most one per acknowledgement.
    pub samples: u64,
    /// The least.
    pub min: Duration,
    /// The mean, rounded down to 1 ns.
    pub mean: Duration,
    /// The 95th percentile, at most 1/32 too large.
    pub p95: Duration,
    /// The largest.
    pub max: Duration,
}

/// Collects round-trip times in buckets, 32 per octave of nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct RttSamples {
    count: u64,
    sum: u128,
    min: Duration,
    max: Duration,
    /// As many as the longest sample needs: about a thousand for milliseconds.
    buckets: Vec<u32>,
}

impl RttSamples {
    pub fn new() -> Self {
        Self { count: 0, sum: 0, min: Duration::MAX, max: Duration::ZERO, buckets: Vec::new() }
    }

    pub fn add(&mut self, rtt: Duration) {
        self.count += 1;
        self.sum += rtt.as_nanos();
        self.min = self.min.min(rtt);
        self.max = self.max.max(rtt);
        let bucket = bucket_of(rtt);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] = self.buckets[bucket].saturating_add(1);
    }

    pub fn summary(&self) -> Option<RttSummary> {
        let mean = self.sum.checked_div(self.count.into())?;
        Some(RttSummary {
            samples: self.count,
            min: self.min,
            mean: Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)),
            p95: self.percentile(95),
            max: self.max,
        })
    }

    /// The upper end of the bucket in which the percentile lies.
    fn percentile(&self, percent: u64) -> Duration {
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100);
        let mut seen = 0;
        for (bucket, &count) in self.buckets.iter().enumerate() {
            seen += u128::from(count);
            if seen >= rank {
                return upper_end(bucket).min(self.max);
            }
        }
        self.max
    }
}

/// Values below 64 ns have a bucket each; from there on an octave has 32.
fn bucket_of(rtt: Duration) -> usize {
    let nanos = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
    let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(STEP_BITS + 1);
    usize::try_from(nanos >> shift).expect("below 64") + (shift as usize) * STEPS
}

/// The largest value in a bucket.
fn upper_end(bucket: usize) -> Duration {
    let shift = (bucket / STEPS).saturating_sub(1);
    let step = bucket - shift * STEPS;
    Duration::from_nanos(u64::try_from(((step as u128 + 1) << shift) - 1).unwrap_or(u64::MAX))
}

const STEP_BITS: u32 = 5;
/// Buckets in an octave.
const STEPS: usize = 1 << STEP_BITS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_values_within_a_32nd() {
        for nanos in (0..200).chain([1_000, 65_535, 65_536, 39_999_999, 1 << 40, u64::MAX]) {
            let rtt = Duration::from_nanos(nanos);
            let end = upper_end(bucket_of(rtt));
            assert!(end >= rtt && end.as_nanos() <= rtt.as_nanos() * 33 / 32 + 1, "{rtt:?} in {end:?}");
            assert!(bucket_of(end) == bucket_of(rtt) || nanos == u64::MAX);
        }
    }

    #[test]
    fn the_summary_is_that_of_the_samples() {
        let mut samples = RttSamples::new();
        assert_eq!(samples.summary(), None);
        for ms in 1..=100 {
            samples.add(Duration::from_millis(ms));
        }
        let summary = samples.summary().expect("there are samples");
        assert_eq!((summary.samples, summary.min.as_millis(), summary.max.as_millis()), (100, 1, 100));
        assert_eq!(summary.mean, Duration::from_micros(50_500));
        assert!((95..=98).contains(&summary.p95.as_millis()), "{:?}", summary.p95);
    }
}
