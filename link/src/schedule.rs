//! How a link's figures change while it runs.
//!
//! *What it decides:* which value holds at a moment, and how long a packet takes while the rate
//! changes under it. *In:* steps and outages, checked by `profile`. *Out:* values at moments, and
//! the moments at which transmissions end. *May import:* units, `time`.
//!
//! A step holds from its moment on, that moment included, until the next one. A transmission of S
//! bytes that begins at s ends at the first whole picosecond f outside an outage with
//! ```text
//! ∫ rate(t) dt from s to f  ≥  S      exact, in integers: only the end is rounded
//! ```

use std::sync::Arc;

use warpunits::{Bytes, Rate};

use crate::time::{Span, Time};

/// A value that changes at given moments. Clones share the steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Steps<V> {
    first: V,
    /// In order of time.
    later: Arc<[(Time, V)]>,
}

impl<V: Copy> Steps<V> {
    pub(crate) fn constant(first: V) -> Self {
        Self::new(first, Vec::new())
    }

    /// `first` until the first of `later`, whose moments increase.
    pub(crate) fn new(first: V, later: Vec<(Time, V)>) -> Self {
        Self { first, later: later.into() }
    }

    /// The same steps after another first value.
    pub(crate) fn with_first(&self, first: V) -> Self {
        Self { first, later: Arc::clone(&self.later) }
    }

    /// The value before every step.
    pub(crate) fn first(&self) -> V {
        self.first
    }

    /// Every value that ever holds.
    pub(crate) fn values(&self) -> impl Iterator<Item = V> + '_ {
        std::iter::once(self.first).chain(self.later.iter().map(|(_, value)| *value))
    }

    /// The value at `moment`.
    pub(crate) fn at(&self, moment: Time) -> V {
        self.before(self.begun(moment))
    }

    /// How many steps have begun at `moment`.
    fn begun(&self, moment: Time) -> usize {
        self.later.partition_point(|(at, _)| *at <= moment)
    }

    /// The value when `begun` steps have begun.
    fn before(&self, begun: usize) -> V {
        begun.checked_sub(1).map_or(self.first, |last| self.later[last].1)
    }
}

/// The rate of a transmitter: what it would be, and when the transmitter stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RateSchedule {
    /// The rate without outages.
    nominal: Steps<Rate>,
    outages: Arc<[Outage]>,
    /// The rate with outages, which follows from the other two.
    actual: Steps<Rate>,
}

/// A stretch of time without transmission: `from` belongs to it, `until` does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) from: Time,
    pub(crate) until: Time,
}

impl RateSchedule {
    pub(crate) fn constant(rate: Rate) -> Self {
        let nominal = Steps::constant(rate);
        Self { actual: nominal.clone(), nominal, outages: Vec::new().into() }
    }

    /// The same outages with other rates.
    pub(crate) fn with_steps(&self, later: Vec<(Time, Rate)>) -> Self {
        Self::new(Steps::new(self.nominal.first(), later), Arc::clone(&self.outages))
    }

    /// The same rates with other outages, which come in order and do not overlap.
    pub(crate) fn with_outages(&self, outages: Vec<Outage>) -> Self {
        Self::new(self.nominal.clone(), outages.into())
    }

    fn new(nominal: Steps<Rate>, outages: Arc<[Outage]>) -> Self {
        let is_out = |moment| {
            let begun = outages.partition_point(|outage| outage.from <= moment);
            begun.checked_sub(1).is_some_and(|last| moment < outages[last].until)
        };
        let rate_at = |moment| if is_out(moment) { Rate::ZERO } else { nominal.at(moment) };
        let mut moments: Vec<Time> = nominal.later.iter().map(|(at, _)| *at).collect();
        moments.extend(outages.iter().flat_map(|outage| [outage.from, outage.until]));
        moments.sort_unstable();
        moments.dedup();
        let later = moments.into_iter().map(|moment| (moment, rate_at(moment))).collect();
        Self { actual: Steps::new(nominal.first(), later), nominal, outages }
    }

    /// The rate before every step, whether or not the transmitter stands still then.
    pub(crate) fn first(&self) -> Rate {
        self.nominal.first()
    }

    /// The rate at `moment`, zero during an outage.
    pub(crate) fn at(&self, moment: Time) -> Rate {
        self.actual.at(moment)
    }

    /// When the last bit of `size` bytes has left whose first bit leaves at `starts`.
    pub(crate) fn finish(&self, starts: Time, size: Bytes) -> Time {
        let Steps { first, later } = &self.actual;
        if later.is_empty() {
            return starts + serialisation(size, *first);
        }
        let mut begun = self.actual.begun(starts);
        let mut now = starts;
        // In bytes·ps/s, so that rate · span counts down from it without rounding.
        let mut left = u128::from(size.get()) * PICOS_PER_SEC;
        loop {
            let rate = self.actual.before(begun);
            let Some((until, _)) = later.get(begun).copied() else {
                return now + time_for(left, rate);
            };
            let sent = sent_in(until - now, rate);
            if left <= sent && !rate.is_zero() {
                return now + time_for(left, rate);
            }
            left -= sent;
            now = until;
            begun += 1;
        }
    }
}

/// The time that `size` wire bytes take at `rate`, rounded up to 1 ps; zero at [`Rate::MAX`] and
/// for ever at a rate of zero.
pub fn serialisation(size: Bytes, rate: Rate) -> Span {
    time_for(u128::from(size.get()) * PICOS_PER_SEC, rate)
}

/// The time to send `left` bytes·ps/s.
fn time_for(left: u128, rate: Rate) -> Span {
    if left == 0 || rate == Rate::MAX {
        return Span::ZERO;
    }
    if rate.is_zero() {
        return Span::MAX;
    }
    Span::from_picos(u64::try_from(left.div_ceil(rate.as_bytes_per_sec().into())).unwrap_or(u64::MAX))
}

/// The bytes·ps/s that a transmitter sends in `span`; their product fits 128 bits.
fn sent_in(span: Span, rate: Rate) -> u128 {
    if rate == Rate::MAX {
        return u128::MAX;
    }
    u128::from(span.as_picos()) * u128::from(rate.as_bytes_per_sec())
}

const PICOS_PER_SEC: u128 = 1_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(n: u64) -> Time {
        Time::from_picos(n * 1_000_000_000_000)
    }

    fn rate(n: u64) -> Rate {
        Rate::bytes_per_sec(n)
    }

    #[test]
    fn a_step_holds_from_its_moment_on() {
        let steps = Steps::new('a', vec![(secs(1), 'b'), (secs(2), 'c')]);
        let just_before = |n| Time::from_picos(secs(n).as_picos() - 1);
        let found = [Time::START, just_before(1), secs(1), just_before(2), secs(2), Time::NEVER];
        assert_eq!(found.map(|moment| steps.at(moment)), ['a', 'a', 'b', 'b', 'c', 'c']);
        assert_eq!(Steps::constant('a').at(Time::NEVER), 'a');
    }

    #[test]
    fn outages_and_rates_combine_in_either_order() {
        let rates = vec![(secs(2), rate(20)), (secs(6), rate(60))];
        let outage = |from, until| Outage { from: secs(from), until: secs(until) };
        // The first hides a step, the second begins with the first's end, the third is empty.
        let outages = vec![outage(1, 3), outage(3, 4), outage(5, 5), outage(6, 7)];
        let constant = RateSchedule::constant(rate(10));
        let schedule = constant.with_steps(rates.clone()).with_outages(outages.clone());
        assert_eq!(constant.with_outages(outages).with_steps(rates), schedule);
        let found: Vec<u64> = (0..9).map(|n| schedule.at(secs(n)).as_bytes_per_sec()).collect();
        assert_eq!(found, [10, 0, 0, 0, 20, 20, 0, 60, 60]);
        assert_eq!(schedule.first(), rate(10));
    }

    #[test]
    fn an_outage_may_be_there_from_the_start() {
        let outage = Outage { from: Time::START, until: secs(1) };
        let schedule = RateSchedule::constant(rate(10)).with_outages(vec![outage]);
        assert_eq!(schedule.finish(Time::START, Bytes::new(5)).as_picos(), 1_500_000_000_000);
        assert_eq!(schedule.first(), rate(10));
    }

    #[test]
    fn the_end_is_rounded_once_however_many_steps_there_are() {
        // 3 bytes/s and 7 bytes/s alternate, in steps that send no whole number of bytes.
        let step =
            |n: u64| (Time::from_picos(n * 100_000_000_003), rate(if n.is_multiple_of(2) { 3 } else { 7 }));
        let schedule = RateSchedule::constant(rate(3)).with_steps((1..=100).map(step).collect());
        // Ten steps send 5 · (3 + 7) · 100 000 000 003 bytes·ps/s: 150 more than 5 bytes. So these end
        // in the tenth step, which has the rate 7, and 150 / 7 = 21.4 ps before its end.
        let end = 10 * 100_000_000_003;
        assert_eq!(schedule.finish(Time::START, Bytes::new(5)).as_picos(), end - 21);
    }

    #[test]
    fn an_unlimited_stretch_sends_what_is_left_at_once() {
        let steps = vec![(secs(1), Rate::ZERO), (secs(2), Rate::MAX), (secs(3), rate(1))];
        let schedule = RateSchedule::constant(rate(1)).with_steps(steps);
        assert_eq!(schedule.finish(Time::START, Bytes::MAX), secs(2));
        assert_eq!(schedule.finish(secs(2), Bytes::MAX), secs(2));
        assert_eq!(schedule.finish(secs(1), Bytes::ZERO), secs(2), "nothing leaves during an outage");
        assert_eq!(schedule.finish(secs(3), Bytes::new(1)), secs(4));
        assert_eq!(schedule.finish(secs(3), Bytes::MAX), Time::NEVER);
    }

    #[test]
    fn the_widest_numbers_fit() {
        let fastest = Rate::bytes_per_sec(u64::MAX - 1);
        let steps = vec![(Time::from_picos(u64::MAX - 1), rate(1))];
        let schedule = RateSchedule::constant(fastest).with_steps(steps);
        // 10¹² · (2⁶⁴ - 1) / (2⁶⁴ - 2) is a little more than 10¹².
        assert_eq!(schedule.finish(Time::START, Bytes::MAX).as_picos(), 1_000_000_000_001);
        assert_eq!(schedule.finish(Time::NEVER, Bytes::MAX), Time::NEVER);
    }
}
