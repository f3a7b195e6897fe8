//! Whether an epoch is long beside its own lumps.
//!
//! Jitter, batched ACKs and slotted media deliver in lumps: a silence longer than what then arrives
//! explains. An epoch proves something about the rate once it is several times its longest silence.

use std::time::Duration;

use super::evidence::{Point, Span};
use crate::units::Rate;

/// The points of the present epoch, thinned out.
#[derive(Debug, Clone, Default)]
pub(super) struct Lumps {
    pub points: Vec<Point>,
    least_rtt: Duration,
    spacing: Duration,
    last: Option<Point>,
    peak: Rate,
}

impl Lumps {
    pub fn new(first: Point) -> Self {
        Self { points: vec![first], least_rtt: first.rtt(), spacing: Duration::ZERO, last: Some(first), peak: Rate::ZERO }
    }

    pub fn add(&mut self, point: Point) {
        self.least_rtt = self.least_rtt.min(point.rtt());
        if let Some(last) = self.last.replace(point) {
            let step = Span::between(&last, &point);
            self.peak = self.peak.max(step.delivered / step.ack_time);
        }
        if self.points.last().is_none_or(|last| last.acked_at + self.spacing <= point.acked_at) {
            self.points.push(point);
        }
        if self.points.len() > MOST_POINTS {
            let mut keep = false;
            self.points.retain(|_| {
                keep = !keep;
                keep
            });
            let span = Span::between(&self.points[0], &point);
            self.spacing = span.ack_time / (MOST_POINTS as u32 / 2);
        }
    }

    pub fn least_rtt(&self) -> Duration {
        self.least_rtt
    }

    /// The fastest delivery between two points: what a bottleneck lets through at most.
    pub fn peak(&self) -> Rate {
        self.peak
    }

    /// The longest silence beyond what then arrived.
    pub fn largest(&self) -> Duration {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else { return Duration::ZERO };
        let whole = Span::between(first, last);
        if whole.delivered.is_zero() || whole.ack_time.is_zero() {
            return whole.ack_time;
        }
        let mean = whole.delivered / whole.ack_time;
        let steps = self.points.windows(2).map(|pair| Span::between(&pair[0], &pair[1]));
        steps.map(|step| step.ack_time.saturating_sub(step.delivered / mean)).max().unwrap_or_default()
    }

    /// Whether the points are enough, and spread evenly enough, to tell a rate.
    pub fn is_conclusive(&self) -> bool {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else { return false };
        let whole = Span::between(first, last);
        self.points.len() > LEAST_POINTS && self.largest() * EPOCH_OVER_LUMP <= whole.ack_time
    }
}

/// Steps of an epoch that tell its lumps.
const LEAST_POINTS: usize = 4;
const MOST_POINTS: usize = 64;
const EPOCH_OVER_LUMP: u32 = 16;
