//! WarpRATE.

mod compete;
mod evidence;
mod lumps;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use self::compete::Compete;
use self::evidence::{Point, Span};
use self::lumps::Lumps;
use super::random::Random;
use super::{PathStart, RateLaw};
use crate::signal::{Ack, Plan, Rtt, Sent, Verdict, VerdictKind};
use crate::units::{Bytes, Gain, Rate};

/// WarpRATE.
#[derive(Debug, Clone)]
pub struct WarpRate {
    datagram: Bytes,
    anchor: Rate,
    rate: Rate,
    phase: Phase,
    train: Train,
    /// Starts of the last epochs, oldest first.
    epochs: VecDeque<Point>,
    last: Option<Point>,
    lumps: Lumps,
    compete: Option<Compete>,
    competed_at: Option<Instant>,
    now: Instant,
    lump: Duration,
    slowdown: Option<Slowdown>,
    arrivals: VecDeque<Rate>,
    least: VecDeque<Duration>,
    delivered: Bytes,
    scattered: Bytes,
    started: Instant,
    floor_seen: Instant,
    resume_at: Option<Instant>,
    rtt: Option<Rtt>,
    floor: Duration,
    noise: Duration,
    queue: Duration,
    /// Delay above the floor that did not answer to our rate.
    foreign: Duration,
    cut_at: Option<Instant>,
    /// Gain successes in a row.
    successes: u32,
    failures: u32,
    random: Random,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Start { first: Option<Point> },
    Cruise { epochs_left: u32 },
    /// Probing with the gain since this instant.
    Probe { since: Instant, gain_milli: u32, queue: Duration },
    /// Waiting until what the probe sent is acknowledged.
    Judge { since: Instant, until: Instant, gain_milli: u32, first: Option<Point>, queue: Duration },
    /// Half rate, so that the floor shows.
    Drain { until: Instant },
    /// Below the rate after a probe that failed.
    Trim { until: Instant, gain_milli: u32 },
}

/// Our slowing down because of a queue.
#[derive(Debug, Clone, Copy)]
struct Slowdown {
    /// Delay above the floor at its begin.
    from: Duration,
    /// By how much the delay should have fallen since.
    expected: i64,
    epochs: u32,
    since: Instant,
    /// The rate at its begin.
    rate: Rate,
}

/// The first packets that left together.
#[derive(Debug, Clone)]
struct Train {
    start: Instant,
    last: Instant,
    bytes: Bytes,
}

impl Train {
    fn on_sent(&mut self, sent: &Sent, datagram: Bytes, rate: Rate) {
        let gap = sent.now.saturating_duration_since(self.last);
        if self.bytes < datagram.times(10) && gap > Duration::from_millis(1) + datagram.times(4) / rate {
            self.start = sent.now;
            self.bytes = Bytes::ZERO;
        }
        self.bytes += sent.bytes;
        self.last = sent.now;
    }
}

impl WarpRate {
    /// A law in its first state; `seed` spreads its probes.
    pub fn new(start: PathStart, seed: u64) -> Self {
        Self {
            datagram: start.datagram,
            anchor: start.anchor,
            rate: start.anchor,
            phase: Phase::Start { first: None },
            train: Train { start: start.now, last: start.now, bytes: Bytes::ZERO },
            epochs: VecDeque::new(),
            last: None,
            lumps: Lumps::default(),
            compete: None,
            competed_at: None,
            now: start.now,
            lump: Duration::ZERO,
            slowdown: None,
            arrivals: VecDeque::new(),
            least: VecDeque::new(),
            delivered: Bytes::ZERO,
            scattered: Bytes::ZERO,
            started: start.now,
            floor_seen: start.now,
            resume_at: None,
            rtt: None,
            floor: Duration::ZERO,
            noise: Duration::ZERO,
            queue: Duration::ZERO,
            foreign: Duration::ZERO,
            cut_at: None,
            successes: 0,
            failures: 0,
            random: Random::new(seed),
        }
    }

    fn set_rate(&mut self, rate: Rate) {
        let least = self.datagram / LONGEST_GAP;
        self.rate = rate.max(least).min(self.anchor);
    }

    /// The queue that this rate is to keep.
    fn target_queue(&self) -> Duration {
        let square = TARGET_QUEUE.as_nanos().pow(2) * u128::from(TARGET_AT.as_bytes_per_sec());
        let nanos = (square / u128::from(self.rate.as_bytes_per_sec().max(1))).isqrt();
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).clamp(LEAST_TARGET, MOST_TARGET)
    }

    fn epoch(&self) -> Duration {
        (self.floor + self.queue).max(SHORTEST_EPOCH)
    }

    fn on_start_ack(&mut self, point: Point) {
        let Phase::Start { first } = self.phase else { return };
        if point.sent_at < self.train.start {
            return;
        }
        let Some(first) = first.filter(|first| first.sent_at >= self.train.start) else {
            self.phase = Phase::Start { first: Some(point) };
            self.lumps = Lumps::new(point);
            return;
        };
        self.lumps.add(point);
        let span = Span::between(&first, &point);
        if !self.lumps.is_conclusive() {
            let peak = self.lumps.peak();
            self.set_rate(peak);
            return;
        }
        self.rate = self.anchor;
        if span.arrival() < span.pace() * Gain::percent(90) {
            self.set_rate(span.arrival());
        }
        self.cruise(false);
        self.restart(point);
    }

    fn cruise(&mut self, soon: bool) {
        let epochs_left = if soon { 0 } else { self.random.between(5, 9) * self.failures.clamp(1, 3) };
        self.phase = Phase::Cruise { epochs_left };
    }

    fn on_epoch(&mut self, point: Point, app_limited: bool) {
        let window = Span::between(&self.epochs[0], &point);
        let recent = Span::between(self.epochs.back().expect("not empty"), &point);
        let above = self.lumps.least_rtt().saturating_sub(self.floor);
        self.least.push_back(above);
        if self.least.len() > 4 {
            self.least.pop_front();
        }
        self.foreign = self.foreign.min(self.least.iter().max().copied().unwrap_or_default());
        self.queue = above.saturating_sub(self.foreign + self.lumps.largest());
        self.lump = self.lumps.largest();
        self.lumps = Lumps::new(point);
        self.epochs.push_back(point);
        if self.epochs.len() > EVIDENCE_EPOCHS {
            self.epochs.pop_front();
        }
        let arrival = window.arrival();
        let target = self.target_queue();
        self.check_foreign(&window, &recent, above, target);
        let u = self.answer_milli(target);
        let epoch = self.epoch();
        let cap = self.arrivals.iter().copied().max().unwrap_or(self.rate);
        let next = (arrival * Gain::ratio((1000 + u) as u32, 1000)).max(cap * Gain::percent(70));
        if self.queue > target {
            self.set_rate(next.min(self.rate));
        } else if !app_limited && next > self.rate {
            self.set_rate(next);
        }
        self.advance(point, epoch, target, app_limited);
    }

    fn answer_milli(&self, target: Duration) -> i64 {
        let epoch = self.epoch().min(Duration::from_millis(40)).as_nanos() as i64;
        let off = target.as_nanos() as i64 - self.queue.as_nanos() as i64;
        (off * 1000 / (2 * epoch)).clamp(-250, 100)
    }

    /// A queue that does not drain when we slow down is not ours.
    fn check_foreign(&mut self, window: &Span, recent: &Span, above: Duration, target: Duration) {
        if recent.pace() > recent.arrival() * Gain::percent(125) {
            self.arrivals.clear();
        }
        self.arrivals.push_back(recent.arrival());
        if self.arrivals.len() > 8 {
            self.arrivals.pop_front();
        }
        if self.queue <= target {
            self.slowdown = None;
            return;
        }
        let capacity = window.arrival();
        let Some(slow) = &mut self.slowdown else {
            self.slowdown = Some(Slowdown { from: above, expected: 0, epochs: 0, since: self.now, rate: self.rate });
            return;
        };
        slow.expected += recent.send_time.as_nanos() as i64 - (recent.sent / capacity).as_nanos() as i64;
        let fallen = slow.from.saturating_sub(above);
        slow.epochs += 1;
        let expected = Duration::from_nanos(slow.expected.max(0) as u64);
        let is_known = self.competed_at.is_some_and(|at| at + Duration::from_secs(20) > self.now);
        let share = if is_known { 2 } else { 1 };
        let is_long = slow.epochs >= TEST_EPOCHS / share && slow.since + SHORTEST_TEST / share <= self.now;
        if is_long && expected > target && expected * slow.epochs > self.queue * TEST_EPOCHS {
            if std::env::var("DBG").is_ok() { eprintln!("{:p} test rate {:.2} arrival {:.2} cap {:.2} above {above:?} queue {:?} foreign {:?} expected {:?} fallen {fallen:?}", &self.datagram, self.rate.as_mbps_f64(), recent.arrival().as_mbps_f64(), capacity.as_mbps_f64(), self.queue, self.foreign, slow.expected); }
            if fallen < expected / 4 && self.queue > self.lump * 8 {
                let rate = slow.rate;
                self.set_rate(rate);
                let window = self.rate * self.rtt.expect("measured").smoothed;
                self.compete = Some(Compete::new(self.now, self.datagram, window, &mut self.random));
                self.foreign = Duration::ZERO;
            } else if fallen < expected / 4 {
                self.foreign += self.queue;
                self.queue = Duration::ZERO;
                let rate = slow.rate;
                self.set_rate(rate);
            }
            self.slowdown = None;
        }
    }

    fn advance(&mut self, point: Point, epoch: Duration, target: Duration, app_limited: bool) {
        match self.phase {
            Phase::Start { .. } | Phase::Drain { .. } => {}
            Phase::Cruise { epochs_left: 0 } => {
                if self.queue < target / 2 && !app_limited && self.rate < self.anchor {
                    let gain_milli = match (self.failures, self.successes) {
                        (2.., _) => 1100,
                        (_, 0 | 1) => 1250,
                        (_, 2) => 1500,
                        _ => 2000,
                    };
                    self.phase = Phase::Probe { since: point.acked_at, gain_milli, queue: self.queue };
                }
            }
            Phase::Cruise { epochs_left } => self.phase = Phase::Cruise { epochs_left: epochs_left - 1 },
            Phase::Probe { since, gain_milli, queue } => {
                self.phase =
                    Phase::Judge { since, until: point.acked_at, gain_milli, first: None, queue };
            }
            Phase::Judge { .. } => {}
            Phase::Trim { until, .. } => {
                if point.acked_at >= until {
                    self.cruise(false);
                }
            }
        }
        let _ = epoch;
    }

    fn on_probe_ack(&mut self, point: Point) {
        let Phase::Judge { since, until, gain_milli, first, queue } = self.phase else { return };
        if point.sent_at < since {
            return;
        }
        let Some(first) = first else {
            self.phase = Phase::Judge { since, until, gain_milli, first: Some(point), queue };
            return;
        };
        if point.sent_at < until {
            return;
        }
        let span = Span::between(&first, &point);
        let rise = span.ack_time.saturating_sub(span.send_time);
        let expected = span.send_time * (gain_milli - 1000) / 1000;
        let is_success = rise < expected * 3 / 10 && span.delivered >= span.sent * Gain::percent(85);
        if is_success {
            self.successes += 1;
            self.failures = 0;
            self.set_rate(self.rate * Gain::ratio(gain_milli, 1000));
            self.cruise(true);
        } else {
            self.successes = 0;
            self.failures += 1;
            self.phase = Phase::Trim { until: point.acked_at + self.epoch(), gain_milli: 2000 - gain_milli.min(1250) };
        }
        self.restart(point);
    }

    /// Whether it is time to look for the floor; a drain is no evidence of anything else.
    fn drain(&mut self, point: Point) {
        if point.rtt() <= self.floor + self.target_queue() / 4 {
            self.floor_seen = point.acked_at;
        }
        match self.phase {
            Phase::Cruise { .. } if self.slowdown.is_none() => {
                let age = point.acked_at.saturating_duration_since(self.started);
                let patience = if age < Duration::from_secs(6) { 1 } else { 5 };
                if self.floor_seen + Duration::from_secs(patience) < point.acked_at {
                    let until = point.acked_at + self.epoch() + Duration::from_millis(10);
                    self.phase = Phase::Drain { until };
                    self.resume_at = Some(until);
                    self.floor_seen = point.acked_at;
                }
            }
            Phase::Drain { until } if until <= point.acked_at => self.cruise(false),
            _ => {}
        }
    }

    fn on_compete_ack(&mut self, ack: &Ack, point: Point) {
        let target = self.target_queue();
        let Some(compete) = &mut self.compete else { return };
        let is_over = compete.on_ack(ack, point, target, &mut self.random);
        let rate = compete.window(ack.now) / ack.rtt.smoothed;
        self.set_rate(rate);
        if is_over {
            self.compete = None;
            self.competed_at = Some(ack.now);
            self.floor_seen = ack.now;
            self.slowdown = None;
            self.arrivals.clear();
            self.cruise(false);
            self.restart(point);
        }
    }

    fn restart(&mut self, point: Point) {
        self.epochs.clear();
        self.epochs.push_back(point);
        self.lumps = Lumps::new(point);
    }

    fn gain(&self) -> Gain {
        match self.phase {
            Phase::Probe { gain_milli, .. } | Phase::Trim { gain_milli, .. } => Gain::ratio(gain_milli, 1000),
            Phase::Drain { .. } => Gain::ratio(1, 2),
            _ => Gain::ONE,
        }
    }

    fn window(&self) -> Bytes {
        let Some(rtt) = self.rtt else { return BLIND };
        if let Phase::Start { .. } = self.phase {
            let grown = if self.lumps.points.len() > 1 { self.delivered.times(3) } else { Bytes::ZERO };
            return BLIND + grown;
        }
        let rate = self.rate.min(self.anchor);
        let slack = self.datagram.times(24);
        rate * (rtt.smoothed + rtt.deviation * 4 + Duration::from_millis(1)) + slack
    }
}

impl RateLaw for WarpRate {
    fn on_sent(&mut self, sent: &Sent) {
        if let Some(compete) = &mut self.compete {
            compete.on_sent(sent);
        }
        if let Phase::Start { .. } = self.phase {
            self.train.on_sent(sent, self.datagram, self.rate);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        let point = Point::of(ack, self.scattered);
        self.delivered = ack.delivered;
        self.rtt = Some(ack.rtt);
        self.floor = ack.delay.floor;
        self.noise = ack.delay.noise;
        if let Phase::Start { .. } = self.phase {
            self.last = Some(point);
            return self.on_start_ack(point);
        }
        if self.last.is_some_and(|last| last.sent_at >= point.sent_at) {
            return;
        }
        let silence = (self.epoch() * 2).max(ack.rtt.smoothed + ack.rtt.deviation * 4).max(LEAST_SILENCE);
        if self.last.is_some_and(|last| last.acked_at + silence < point.acked_at) {
            self.restart(point);
        }
        self.last = Some(point);
        self.now = ack.now;
        if self.compete.is_some() {
            return self.on_compete_ack(ack, point);
        }
        self.drain(point);
        if self.resume_at.is_some_and(|at| point.sent_at < at) {
            return;
        }
        if self.resume_at.take().is_some() {
            self.restart(point);
        }
        self.on_probe_ack(point);
        self.lumps.add(point);
        let is_long = point.acked_at >= self.epochs.back().expect("not empty").acked_at + self.epoch();
        if is_long && self.lumps.is_conclusive() {
            self.on_epoch(point, ack.newest.app_limited);
        }
    }

    fn on_verdict(&mut self, verdict: &Verdict) {
        match verdict.kind {
            VerdictKind::Congestion | VerdictKind::Mark | VerdictKind::Persistent => {}
            VerdictKind::Scatter if self.compete.is_some() && verdict.queue > self.target_queue() => {}
            VerdictKind::Scatter => {
                self.scattered += verdict.bytes;
                return;
            }
            VerdictKind::Burst => return,
        }
        if let Some(compete) = &mut self.compete {
            return compete.on_congestion(verdict);
        }
        if self.cut_at.is_some_and(|at| verdict.newest <= at) {
            return;
        }
        self.cut_at = Some(verdict.now);
        let rate = match (self.last, self.epochs.front()) {
            (Some(last), Some(first)) if last.acked_at > first.acked_at => Span::between(first, &last).arrival(),
            _ => self.rate,
        };
        if let Phase::Start { .. } = self.phase {
            return;
        }
        self.set_rate(rate.min(self.rate) * Gain::percent(85));
        if let Some(last) = self.last {
            self.restart(last);
        }
        self.failures += 1;
        self.successes = 0;
        self.cruise(false);
    }

    fn on_mtu(&mut self, datagram: Bytes) {
        self.datagram = datagram;
    }

    fn plan(&self, now: Instant) -> Plan {
        if let Some(compete) = &self.compete {
            let window = compete.window(now);
            let rate = self.rate * Gain::ratio(5, 4) * compete.gain(now);
            return Plan::new(rate.min(self.anchor), window);
        }
        Plan::new((self.rate * self.gain()).min(self.anchor), self.window())
    }

    fn state(&self) -> &'static str {
        if self.compete.is_some() {
            return "compete";
        }
        match self.phase {
            Phase::Start { .. } => "start",
            Phase::Cruise { .. } => "cruise",
            Phase::Probe { .. } => "probe",
            Phase::Judge { .. } => "judge",
            Phase::Drain { .. } => "drain",
            Phase::Trim { .. } => "trim",
        }
    }
}

const SHORTEST_TEST: Duration = Duration::from_millis(600);
const TEST_EPOCHS: u32 = 4;
const BLIND: Bytes = Bytes::new(106_000);
const LEAST_TRAIN: Bytes = Bytes::new(30_000);
const FIRST_READING: Duration = Duration::from_millis(4);
const TARGET_QUEUE: Duration = Duration::from_millis(4);
const TARGET_AT: Rate = Rate::mbps(25);
const LEAST_TARGET: Duration = Duration::from_micros(250);
const MOST_TARGET: Duration = Duration::from_millis(15);
const SHORTEST_EPOCH: Duration = Duration::from_millis(2);
const EVIDENCE_EPOCHS: usize = 4;
const LEAST_SILENCE: Duration = Duration::from_millis(30);
const LONGEST_GAP: Duration = Duration::from_millis(100);
