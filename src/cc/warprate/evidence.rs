//! What was delivered between two points of a path's history, and whether that proves anything.

use std::time::{Duration, Instant};

use super::ACK_EVERY;
use super::tuning::Tuning;
use crate::signal::Ack;
use crate::units::{Bytes, Gain, Rate};

/// The state of the path as one ACK frame shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    /// Departure of the newest packet acknowledged.
    pub sent_at: Instant,
    /// Bytes that had left by then.
    sent: Bytes,
    /// Arrival of the ACK frame.
    pub acked_at: Instant,
    delivered: Bytes,
    /// Bytes lost that no queue dropped.
    scattered: Bytes,
    /// Bytes delivered since the epoch began that their ACK frames had not to wait for.
    due: Bytes,
}

impl Point {
    pub fn of(ack: &Ack, late: Bytes, scattered: Bytes) -> Self {
        let newest = &ack.newest;
        Self {
            sent_at: newest.sent,
            sent: newest.delivered + newest.lost + newest.tx_in_flight,
            acked_at: ack.now,
            delivered: ack.delivered + late,
            scattered,
            due: Bytes::ZERO,
        }
    }

    pub fn rtt(&self) -> Duration {
        self.acked_at.saturating_duration_since(self.sent_at)
    }
}

/// The way from one point to a later one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub sent: Bytes,
    pub delivered: Bytes,
    scattered: Bytes,
    pub send_time: Duration,
    pub ack_time: Duration,
}

impl Span {
    pub fn between(from: &Point, to: &Point) -> Self {
        Self {
            sent: to.sent - from.sent,
            delivered: to.delivered - from.delivered,
            scattered: to.scattered - from.scattered,
            send_time: to.sent_at.saturating_duration_since(from.sent_at),
            ack_time: to.acked_at.saturating_duration_since(from.acked_at),
        }
    }

    /// The rate at which it left.
    pub fn pace(&self) -> Rate {
        self.sent / self.send_time
    }

    /// Whether nothing of it was lost by chance.
    pub fn is_whole(&self) -> bool {
        self.scattered.is_zero()
    }

    /// The rate at which it arrived. A scattered loss took its place in the bottleneck like any packet, so
    /// it counts, within limits.
    pub fn arrival(&self, tuning: &Tuning) -> Rate {
        (self.delivered + self.scattered.min(self.delivered * tuning.step)) / self.ack_time
    }
}

/// The points since the last decision, thinned out.
///
/// Jitter, batched ACKs and slotted media deliver in lumps: a silence longer than what then arrives
/// explains. An epoch proves something about the rate once it is long beside its longest silence.
#[derive(Debug, Clone)]
pub(super) struct Epoch {
    first: Point,
    last: Point,
    points: Vec<Point>,
    /// Least time between points that are kept.
    spacing: Duration,
    least_rtt: Duration,
    peak: Rate,
    /// The longest silence that was not the application's.
    longest: Duration,
}

impl Epoch {
    pub fn new(first: Point) -> Self {
        Self {
            first,
            last: first,
            points: vec![first],
            spacing: Duration::ZERO,
            least_rtt: first.rtt(),
            peak: Rate::ZERO,
            longest: Duration::ZERO,
        }
    }

    /// Takes in an ACK frame; whether the application held back what it acknowledges.
    pub fn add(&mut self, point: Point, is_limited: bool) {
        let step = Span::between(&self.last, &point);
        let point = Point { due: self.last.due + step.delivered.min(FRAME), ..point };
        // A probe for loss is no delivery, nor is a pause longer than a round trip.
        let is_delivery = step.delivered >= LEAST_STEP && step.ack_time <= self.least_rtt;
        let rate = if is_delivery { step.delivered / step.ack_time } else { Rate::ZERO };
        self.peak = self.peak.max(rate);
        if !is_limited && step.ack_time > self.longest {
            // What came before it may have been a lump.
            self.longest = step.ack_time;
            self.peak = rate;
        }
        self.least_rtt = self.least_rtt.min(point.rtt());
        self.last = point;
        if self.points.last().is_none_or(|last| last.acked_at + self.spacing <= point.acked_at) {
            self.points.push(point);
        }
        if self.points.len() > MOST_POINTS as usize {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.spacing = self.span().ack_time * 2 / MOST_POINTS;
        }
    }

    pub fn first(&self) -> Point {
        self.first
    }

    pub fn last(&self) -> Point {
        self.last
    }

    pub fn span(&self) -> Span {
        Span::between(&self.first, &self.last)
    }

    pub fn least_rtt(&self) -> Duration {
        self.least_rtt
    }

    /// The fastest delivery between two ACK frames since the longest silence that was not the application's: a
    /// bottleneck lets no more through. Zero while there is but one.
    pub fn peak(&self) -> Rate {
        self.peak
    }

    /// Bytes sent up to the last point since the earliest one whose delay was no less: they arrived as they
    /// had left. Delay that fell by half the time or more tells of a lump.
    pub fn unspread(&self) -> Bytes {
        let earliest = self.points.iter().find(|point| {
            let fall = point.rtt().saturating_sub(self.last.rtt());
            let time = self.last.sent_at.saturating_duration_since(point.sent_at);
            point.rtt() >= self.last.rtt() && fall * 2 <= time
        });
        earliest.map_or(Bytes::ZERO, |point| self.last.sent - point.sent)
    }

    /// The longest silence beyond what then arrived.
    pub fn lump(&self) -> Duration {
        lump(&self.points, &self.span())
    }

    /// Whether it is conclusive and so even that it may be the first reading of a bottleneck. Few points may be even
    /// by chance: fewer than twice as many as are asked for must be the more so.
    pub fn is_even(&self, tuning: &Tuning) -> bool {
        is_even(&self.points, &self.span(), tuning)
    }

    /// Whether the points are enough, and spread evenly enough, to tell a rate.
    pub fn is_conclusive(&self, tuning: &Tuning) -> bool {
        is_conclusive(&self.points, &self.span(), tuning)
    }

    /// What came after the longest silence, if that alone may be a first reading.
    pub fn since_silence(&self, tuning: &Tuning) -> Option<Span> {
        let silence = |pair: &[Point]| pair[1].acked_at.saturating_duration_since(pair[0].acked_at);
        let pairs = self.points.windows(2).enumerate();
        let (before, _) = pairs.max_by_key(|(_, pair)| silence(pair))?;
        let points = &self.points[before + 1..];
        let span = Span::between(points.first()?, &self.last);
        is_even(points, &span, tuning).then_some(span)
    }
}

fn are_enough(points: &[Point], span: &Span, tuning: &Tuning) -> bool {
    points.len() > tuning.evidence_epochs as usize && !span.ack_time.is_zero()
}

fn is_conclusive(points: &[Point], span: &Span, tuning: &Tuning) -> bool {
    are_enough(points, span, tuning) && lump(points, span) * tuning.epoch_over_lump <= span.ack_time
}

/// Conclusive, and of fewer than twice the points that are asked for the more even.
fn is_even(points: &[Point], span: &Span, tuning: &Tuning) -> bool {
    let most = 2 * tuning.evidence_epochs;
    let steps = u32::try_from(points.len()).unwrap_or(most).saturating_sub(1).min(most);
    are_enough(points, span, tuning)
        && lump(points, span) * tuning.epoch_over_lump * most.pow(2) <= span.ack_time * steps.pow(2)
}

/// The longest silence between points beyond what then arrived, by the mean of their span. What one frame
/// acknowledges beyond its due has waited for it.
fn lump(points: &[Point], span: &Span) -> Duration {
    if span.delivered.is_zero() || span.ack_time.is_zero() {
        return span.ack_time;
    }
    let mean = span.delivered / span.ack_time;
    let steps = points.windows(2).map(|pair| (Span::between(&pair[0], &pair[1]), pair[1].due - pair[0].due));
    steps.map(|(step, due)| step.ack_time.saturating_sub(due / mean)).max().unwrap_or_default()
}

/// A datagram of the least size that every path carries (RFC 9000 §14).
const LEAST_STEP: Bytes = Bytes::new(1200);
/// Twice what our receivers acknowledge with one frame, since one may be lost.
const FRAME: Bytes = Bytes::new(2 * ACK_EVERY * 1452);
/// Points kept of an epoch; the more, the finer its lumps are seen.
const MOST_POINTS: u32 = 64;

/// `rate` or `bytes` times this many thousandths.
pub(super) fn thousandths(milli: i64) -> Gain {
    Gain::ratio(u32::try_from(milli).unwrap_or(0), 1000)
}

/// In nanoseconds, so far below the largest number that differences and sums of a few stay within.
pub(super) fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::{ms, t0};

    const DATAGRAM: Bytes = Bytes::new(1452);

    /// An epoch of ACK frames, each so many milliseconds after the one before, and for so many packets.
    fn epoch(frames: &[(u64, u64)]) -> Epoch {
        let point = |at, packets| Point {
            sent_at: t0() + ms(at),
            sent: DATAGRAM.times(packets),
            acked_at: t0() + ms(at + 40),
            delivered: DATAGRAM.times(packets),
            scattered: Bytes::ZERO,
            due: Bytes::ZERO,
        };
        let mut epoch = Epoch::new(point(0, 0));
        let (mut at, mut packets) = (0, 0);
        for (time, count) in frames {
            (at, packets) = (at + time, packets + count);
            epoch.add(point(at, packets), false);
        }
        epoch
    }

    #[test]
    fn even_frames_are_no_lumps() {
        let epoch = epoch(&[(10, 10); 8]);
        assert_eq!(epoch.lump(), ms(0));
        assert!(epoch.is_conclusive(&Tuning::default()));
    }

    #[test]
    fn nor_are_so_many_that_most_points_are_dropped() {
        let epoch = epoch(&[(1, 10); 1000]);
        assert!(epoch.points.len() <= MOST_POINTS as usize);
        assert_eq!(epoch.lump(), ms(0));
    }

    #[test]
    fn a_silence_is_a_lump_beyond_what_then_arrives() {
        // 80 packets in 80 ms; ten of them explain 10 of 20 ms.
        let epoch = epoch(&[(10, 10), (10, 10), (20, 10), (0, 10), (10, 10), (10, 10), (10, 10), (10, 10)]);
        assert_eq!(epoch.lump(), ms(10));
        assert!(!epoch.is_conclusive(&Tuning::default()));
    }

    #[test]
    fn what_a_frame_acknowledges_beyond_its_due_explains_no_silence() {
        // Ten packets a millisecond; twenty of a hundred are due.
        let epoch = epoch(&[(10, 100); 8]);
        assert_eq!(epoch.lump(), ms(8));
        assert!(!epoch.is_conclusive(&Tuning::default()));
    }

    #[test]
    fn few_points_must_be_the_more_even() {
        // A packet a millisecond, and one frame so many milliseconds later than its packets explain: a twentieth of
        // the time. Of nine points a sixteenth is allowed, of five (4/8)² of that.
        let few = epoch(&[(10, 10), (10, 10), (12, 10), (8, 10)]);
        let many = epoch(&[(10, 10), (10, 10), (10, 10), (10, 10), (10, 10), (10, 10), (14, 10), (6, 10)]);
        for epoch in [&few, &many] {
            assert_eq!(epoch.lump() * 20, epoch.span().ack_time);
            assert!(epoch.is_conclusive(&Tuning::default()));
        }
        assert!(!few.is_even(&Tuning::default()) && many.is_even(&Tuning::default()));
    }
}
