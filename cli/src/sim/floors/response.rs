//! How fast a flow answers a change of capacity, read from the samples of its bottleneck.

use std::time::Duration;

use warpsim::metrics::LinkReport;
use warpunits::{Bytes, Rate};

/// Time between two samples.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(5);

/// From `step` until the queue, at the new rate, stays below 10 ms for 200 ms.
pub fn until_drained(link: &LinkReport, step: Duration, rate: Rate) -> Option<Duration> {
    let is_low: Vec<_> = link
        .queued_series
        .iter()
        .skip(samples(step) - 1)
        .map(|bytes| Bytes::new(*bytes) / rate < LOW_QUEUE)
        .collect();
    let first = is_low.windows(samples(STAYS)).position(|window| window.iter().all(|is_low| *is_low))?;
    Some(SAMPLE_EVERY * u32::try_from(first).ok()?)
}

/// From `step` until the link has carried 90 % of the new rate for a tenth of a second.
pub fn until_regained(link: &LinkReport, step: Duration, rate: Rate) -> Option<Duration> {
    let enough = (rate * AVERAGED).get() / 10 * 9;
    let sent = link.sent_series.get(samples(step) - 1..)?;
    let gained = sent.iter().zip(sent.iter().skip(samples(AVERAGED)));
    let first = gained.map(|(before, after)| after - before).position(|bytes| bytes >= enough)?;
    Some(AVERAGED + SAMPLE_EVERY * u32::try_from(first).ok()?)
}

/// How many samples are taken in a time.
fn samples(time: Duration) -> usize {
    usize::try_from(time.as_nanos() / SAMPLE_EVERY.as_nanos()).expect("runs last minutes")
}

const LOW_QUEUE: Duration = Duration::from_millis(10);
/// Five round trips of 40 ms: neither the moment before the queue builds up nor a short dip is an answer, and
/// a later probe is no relapse.
const STAYS: Duration = Duration::from_millis(200);
/// Long enough for 90 % to be told from 80 % in packets, and short beside the goal of 300 ms.
const AVERAGED: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    /// A bottleneck with these samples from 5 ms on.
    fn link(queued: impl Iterator<Item = u64>, sent: impl Iterator<Item = u64>) -> LinkReport {
        LinkReport {
            name: "bottleneck".into(),
            utilisation: 0.0,
            queue_mean_ns: 0,
            queue_p50_ns: 0,
            queue_p95_ns: 0,
            queue_p99_ns: 0,
            queue_most_bytes: 0,
            overflow_drops: 0,
            random_losses: 0,
            jitter_per_packet: 0.0,
            queued_series: queued.collect(),
            sent_series: sent.collect(),
        }
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_queue_is_drained_when_it_stays_low() {
        // 10 ms at 20 Mbit/s are 25 kB. It is low until 1.1 s, between 1.3 and 1.4 s, and from 1.5 s on.
        let is_low = |t| t < 1100 || (1300..1400).contains(&t) || t >= 1500;
        let link = link((1..600).map(|n| if is_low(5 * n) { 24_999 } else { 25_000 }), 0..0);
        assert_eq!(until_drained(&link, ms(1000), Rate::mbps(20)), Some(ms(500)));
        assert_eq!(until_drained(&link, ms(500), Rate::mbps(20)), Some(Duration::ZERO));
        // 200 ms before the end of the samples at 2.995 s is the last moment that can count.
        assert_eq!(until_drained(&link, ms(2795), Rate::mbps(20)), Some(Duration::ZERO));
        assert_eq!(until_drained(&link, ms(2805), Rate::mbps(20)), None);
    }

    #[test]
    fn a_rate_is_regained_when_a_tenth_of_a_second_has_carried_it() {
        // 100 Mbit/s carry 62.5 kB in 5 ms. A fifth of it until 1.5 s, then nine tenths.
        let rate = |t| if t <= 1500 { 12_500 } else { 56_250 };
        let sent: Vec<_> = (1..600)
            .scan(0, |sent, n| {
                *sent += rate(5 * n);
                Some(*sent)
            })
            .collect();
        let link = link(0..0, sent.into_iter());
        assert_eq!(until_regained(&link, ms(1000), Rate::mbps(100)), Some(ms(600)));
        assert_eq!(until_regained(&link, ms(1000), Rate::mbps(101)), None);
        assert_eq!(until_regained(&link, ms(5000), Rate::mbps(100)), None);
    }
}
