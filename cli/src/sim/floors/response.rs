//! How fast a flow answers a change of capacity, read from the samples of its bottleneck.

use std::time::Duration;

use warpsim::metrics::LinkReport;
use warpunits::{Bytes, Rate};

/// Time between two samples.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(5);

/// From `step` until the queue, at the new rate, stays below 10 ms for half a second.
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
const STAYS: Duration = Duration::from_millis(500);
const AVERAGED: Duration = Duration::from_millis(100);
