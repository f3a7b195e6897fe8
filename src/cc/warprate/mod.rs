//! WarpRATE: a rate within the interface's, moved by what is delivered and by queues that answer to it.
//!
//! *What it decides:* pacing rate and in-flight bound. *In:* every event of a path, and what losses mean.
//! *Out:* the plan. *May import:* `units`, `signal`, and the shadow law of `compete`.
//!
//! It reads neither the time between ACKs as a rate nor a loss as congestion. Everything is decided once
//! per *epoch*, a span of packets that is long beside its own lumps (`evidence`):
//! ```text
//! epoch   >= max(floor + queue, 2 ms), and 16 times its longest silence
//! D        = (delivered + scattered losses) / time, over four epochs
//! queue    = least RTT of the epoch - floor - foreign - lump          (`standing`)
//! q*(r)    = 4 ms · sqrt(25 Mbit/s / r)
//! u        = (q* - queue) / (2 · min(epoch, 40 ms)), within -25 % and +10 %
//!
//! queue > q*:  r = min(r, D · (1 + u))                                 yield
//! otherwise:   r = max(r, D · (1 + u)) while nothing is lost           grow
//! r <= anchor; in flight <= r · (srtt + 4 · rttvar)
//!
//!  start   at the anchor's rate, 106 KB blind, then what the first train shows  (`start`)
//!    v
//!  cruise  the law above   <--- probe 1.25 for an epoch: success r · 1.25, else an epoch at 0.75 (`probe`)
//!    |                     <--- drain 1/2 for an epoch and 10 ms: the floor shows; no other evidence
//!    |                     <--- drain 1/8 until the queue is gone: arrival fell below 4/5 of the pace
//!    |                     <--- below 0.8 for a spell: does loss follow our rate?  (`guard`)
//!    v
//!  compete a CUBIC in the shadow, and a dip to 1/4 every few seconds to see who is there  (`compete`)
//! ```
//! Three questions replace profiles of media. *Does the queue answer?* While we send less than arrives,
//! it must drain; a delay that does not is not ours (`slowdown`): where packets come in lumps it is the
//! path's own and is written off (`foreign`), otherwise others fill the queue, and we compete. *Does loss
//! answer?* Scatter is ignored as long as it does not follow our rate. *Did it arrive?* What is not
//! delivered for long, whatever the reason, is not sent.
//!
//! A verdict of congestion or a mark takes 15 % off D, once per round trip; silence changes nothing.

mod compete;
mod constants;
mod evidence;
mod guard;
mod probe;
mod slowdown;
mod standing;
mod start;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use self::compete::Compete;
use self::constants::{
    CONGESTION_GAIN, EVIDENCE_EPOCHS, FLOOR_INTERVAL, LEAST_SILENCE, LONGEST_RESPONSE, RIVALS_REMEMBERED,
    SHORTEST_EPOCH, STEPS, TARGET_AT, TARGET_QUEUE,
};
use self::evidence::{Epoch, Point, Span, nanos, thousandths};
use self::guard::Guard;
use self::probe::{Ladder, Probe};
use self::slowdown::{Answer, Slowdown};
use self::standing::Standing;
use self::start::Start;
use super::random::Random;
use super::{PathStart, RateLaw};
use crate::signal::{Ack, Plan, Rtt, Sent, Undo, Verdict, VerdictKind};
use crate::units::{Bytes, Gain, Rate};

/// The WarpRATE law.
#[derive(Debug, Clone)]
pub struct WarpRate {
    datagram: Bytes,
    anchor: Rate,
    born: Instant,
    now: Instant,
    random: Random,
    /// What the law is about.
    rate: Rate,
    phase: Phase,
    ladder: Ladder,
    /// The present epoch; none before the start is over.
    epoch: Option<Epoch>,
    /// Where the last epochs began, oldest first.
    history: VecDeque<Point>,
    /// Arrival rates of the last epochs.
    arrivals: VecDeque<Rate>,
    delay: Standing,
    slowdown: Option<Slowdown>,
    guard: Guard,
    delivered: Bytes,
    scattered: Bytes,
    /// Bytes that arrived after they had been declared lost.
    late: Bytes,
    /// Packets sent before this are no evidence.
    blank_until: Option<Instant>,
    /// What was sent before this has been answered.
    answered: Option<Instant>,
    floor_seen: Instant,
    rivals_seen: Option<Instant>,
}

#[derive(Debug, Clone)]
enum Phase {
    Start(Box<Start>),
    Cruise {
        epochs_left: u32,
    },
    Probe(Probe),
    /// Below the rate, in thousandths of it, until then.
    Below {
        until: Instant,
        gain: i64,
    },
    /// So far below it that the queue empties.
    Drain {
        until: Instant,
        gain: i64,
    },
    Compete(Box<Compete>),
}

impl WarpRate {
    /// A law in its first state; `seed` spreads its probes, and should differ between flows.
    pub fn new(start: PathStart, seed: u64) -> Self {
        Self {
            datagram: start.datagram,
            anchor: start.anchor,
            born: start.now,
            now: start.now,
            random: Random::new(seed),
            rate: start.anchor,
            phase: Phase::Start(Box::new(Start::new(start.now))),
            ladder: Ladder::default(),
            epoch: None,
            history: VecDeque::new(),
            arrivals: VecDeque::new(),
            delay: Standing::default(),
            slowdown: None,
            guard: Guard::new(start.now),
            delivered: Bytes::ZERO,
            scattered: Bytes::ZERO,
            late: Bytes::ZERO,
            blank_until: None,
            answered: None,
            floor_seen: start.now,
            rivals_seen: None,
        }
    }

    fn set_rate(&mut self, rate: Rate) {
        self.rate = rate.max(self.datagram / LONGEST_GAP).min(self.anchor);
    }

    /// q*(rate) = 4 ms · sqrt(25 Mbit/s / rate), within limits.
    fn target(&self) -> Duration {
        let square = TARGET_QUEUE.as_nanos().pow(2) * u128::from(TARGET_AT.as_bytes_per_sec());
        let nanos = (square / u128::from(self.rate.as_bytes_per_sec().max(1))).isqrt();
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).clamp(LEAST_TARGET, MOST_TARGET)
    }

    fn epoch_length(&self) -> Duration {
        (self.delay.floor + self.delay.queue).max(SHORTEST_EPOCH)
    }

    /// u in thousandths: half of the queue's error in the time of an epoch.
    fn answer(&self, target: Duration) -> i64 {
        let time = nanos(self.epoch_length().min(LONGEST_RESPONSE)).max(1);
        let error = nanos(target) - nanos(self.delay.queue);
        (error * 1000 / (2 * time)).clamp(STEPS.0, STEPS.1)
    }

    fn cruise(&mut self) {
        let epochs = if self.ladder.is_climbing() { 0 } else { self.random.between(5, 9) };
        self.phase = Phase::Cruise { epochs_left: epochs * self.ladder.patience() };
    }

    /// Evidence begins anew.
    fn restart(&mut self, point: Point) {
        self.history.clear();
        self.history.push_back(point);
        self.epoch = Some(Epoch::new(point));
    }

    /// The law, once per epoch.
    fn on_epoch(&mut self, epoch: &Epoch, is_limited: bool) {
        let above = self.delay.on_epoch(epoch);
        let last = epoch.last();
        let window = Span::between(self.history.front().unwrap_or(&last), &last);
        self.history.push_back(last);
        if self.history.len() > EVIDENCE_EPOCHS {
            self.history.pop_front();
        }
        self.epoch = Some(Epoch::new(last));
        let target = self.target();
        self.watch_slowdown(&epoch.span(), window.arrival(), above, target);
        if matches!(self.phase, Phase::Compete(_)) {
            return;
        }
        let best = self.arrivals.iter().copied().max().unwrap_or(self.rate);
        let next = (window.arrival() * thousandths(1000 + self.answer(target))).max(best * LEAST_OF_BEST);
        if self.delay.queue > target {
            self.set_rate(next.min(self.rate));
        } else if !is_limited && window.is_whole() {
            self.set_rate(next.max(self.rate));
        }
        if window.arrival() < window.pace() * Gain::percent(65) {
            // More is lost than chance explains.
            self.set_rate(window.arrival().min(self.rate));
        }
        self.advance(&window, &epoch.span(), target, is_limited);
    }

    /// A queue that does not drain when we slow down is not ours.
    fn watch_slowdown(&mut self, span: &Span, capacity: Rate, above: Duration, target: Duration) {
        if span.pace() > span.arrival() * Gain::percent(125) {
            self.arrivals.clear();
        }
        self.arrivals.push_back(span.arrival());
        if self.arrivals.len() > 2 * EVIDENCE_EPOCHS {
            self.arrivals.pop_front();
        }
        if self.delay.queue <= target {
            self.slowdown = None;
            return;
        }
        let Some(slowdown) = &mut self.slowdown else {
            self.slowdown = Some(Slowdown::new(self.now, above, self.rate));
            return;
        };
        let is_known = self.rivals_seen.is_some_and(|seen| self.now < seen + RIVALS_REMEMBERED);
        let queue = self.delay.queue;
        let answer = slowdown.on_epoch(self.now, span, capacity, above, (queue, target), is_known);
        let before = slowdown.rate;
        if answer != Answer::Open {
            self.slowdown = None;
        }
        if answer == Answer::NotOurs {
            self.set_rate(before);
            self.blame_others();
        }
    }

    /// The queue is not ours. Where packets come in lumps it is the path's own delay; where they come
    /// evenly it is a queue that others fill.
    fn blame_others(&mut self) {
        match self.delay.rtt {
            Some(rtt) if self.delay.queue > self.delay.lump * 8 => {
                let window = self.rate * rtt.smoothed;
                let compete = Compete::new(self.now, self.datagram, window, &mut self.random);
                self.delay.foreign = Duration::ZERO;
                self.phase = Phase::Compete(Box::new(compete));
            }
            _ => {
                self.delay.foreign += self.delay.queue;
                self.delay.queue = Duration::ZERO;
            }
        }
    }

    /// The next phase, at an epoch's end.
    fn advance(&mut self, window: &Span, span: &Span, target: Duration, is_limited: bool) {
        let now = self.now;
        match &mut self.phase {
            Phase::Cruise { epochs_left: 0 } => {
                let has_room = self.delay.queue < target / 2 && self.rate < self.anchor;
                if has_room && !is_limited && !self.guard.is_elastic(now) {
                    self.phase = Phase::Probe(Probe::new(
                        now,
                        self.ladder.gain(self.delay.queue < target / 8),
                        *window,
                    ));
                }
            }
            Phase::Cruise { epochs_left } => *epochs_left -= 1,
            Phase::Probe(probe) => probe.end(now),
            Phase::Below { until, .. } if *until <= now => self.cruise(),
            _ => {}
        }
        if let Phase::Cruise { .. } = self.phase {
            let length = self.epoch_length();
            let spell = self.guard.on_epoch(now, span.sent, length, self.datagram, &mut self.random);
            if let Some(spell) = spell {
                self.phase = Phase::Below { until: now + spell, gain: 800 };
            }
        }
    }

    fn on_probe_ack(&mut self, point: Point) {
        let Phase::Probe(probe) = &mut self.phase else { return };
        let Some(is_success) = probe.on_ack(point) else { return };
        let gain = probe.gain;
        if is_success {
            self.ladder.on_success();
            self.set_rate(self.rate * thousandths(gain));
            self.cruise();
        } else {
            self.ladder.on_failure();
            let until = self.now + self.epoch_length();
            self.phase = Phase::Below { until, gain: (2000 - gain).max(750) };
        }
        self.restart(point);
    }

    /// Capacity fell: the queue rises though an epoch is far from over.
    fn on_drop(&mut self, ack: &Ack, point: Point) {
        let Some(epoch) = &self.epoch else { return };
        let span = epoch.span();
        let is_long = span.ack_time * 4 >= self.epoch_length();
        let high = (self.target() * 4).max(self.delay.floor / 5);
        // The cheap questions first: a lump is a walk over the epoch.
        if !is_long || ack.delay.queue <= high {
            return;
        }
        let is_high = ack.delay.queue.saturating_sub(self.delay.foreign + epoch.lump()) > high;
        if !is_high || !epoch.is_conclusive() || span.arrival() * DROP >= span.pace() {
            return;
        }
        let capacity = span.arrival();
        let excess = ack.in_flight - capacity * self.delay.floor;
        self.set_rate(capacity);
        self.arrivals.clear();
        self.slowdown = None;
        self.drain(excess / capacity, 125);
        self.restart(point);
    }

    /// Looks for the floor when it has not been seen for long.
    fn look_for_floor(&mut self, point: Point) {
        let above = point.rtt().saturating_sub(self.delay.floor);
        if above <= self.target() / 4 {
            self.floor_seen = self.now;
        }
        match self.phase {
            Phase::Cruise { .. } if self.slowdown.is_none() => {
                let is_young = self.now < self.born + FLOOR_INTERVAL * 6;
                let interval = if is_young { FLOOR_INTERVAL } else { FLOOR_INTERVAL * 5 };
                if self.floor_seen + interval < self.now {
                    self.drain(self.epoch_length() + LEAST_DRAIN, 500);
                }
            }
            // What was sent before it may still stand in the queue.
            Phase::Drain { until, gain } => {
                let is_empty = gain < 500 && above <= self.target() && point.sent_at > self.floor_seen;
                if until <= self.now || is_empty {
                    self.blank_until = Some(self.now);
                    self.cruise();
                }
            }
            _ => {}
        }
    }

    /// Lets the queue empty. A drain is evidence of nothing but the floor.
    fn drain(&mut self, length: Duration, gain: i64) {
        let until = self.now + length;
        self.phase = Phase::Drain { until, gain };
        self.blank_until = Some(until);
        self.floor_seen = self.now;
    }

    fn on_compete_ack(&mut self, ack: &Ack, point: Point) {
        let target = self.target();
        let Phase::Compete(compete) = &mut self.phase else { return };
        let is_over = compete.on_ack(ack, point, target, &mut self.random);
        let rate = compete.window(self.now) / ack.rtt.smoothed;
        self.set_rate(rate);
        if is_over {
            self.rivals_seen = Some(self.now);
            self.floor_seen = self.now;
            self.arrivals.clear();
            self.cruise();
            self.restart(point);
        }
    }

    /// The arrival rate since the oldest epoch on record, if that proves anything.
    fn proven_arrival(&self) -> Option<Rate> {
        let epoch = self.epoch.as_ref()?;
        let first = self.history.front()?;
        let is_proven = self.history.len() > 1 || epoch.is_conclusive();
        is_proven.then(|| Span::between(first, &epoch.last()).arrival())
    }

    /// A queue overflowed or marked: below what is delivered, once per round trip.
    fn on_congestion(&mut self, verdict: &Verdict) {
        if let Phase::Start(_) = self.phase {
            return;
        }
        if self.answered.is_some_and(|answered| verdict.newest <= answered) {
            return;
        }
        self.answered = Some(verdict.now);
        let delivered = self.proven_arrival().unwrap_or(self.rate);
        self.set_rate(delivered.min(self.rate) * CONGESTION_GAIN);
        if let Some(epoch) = &self.epoch {
            let last = epoch.last();
            self.restart(last);
        }
        self.ladder.on_failure();
        self.cruise();
    }

    fn gain(&self, now: Instant) -> Gain {
        match &self.phase {
            Phase::Probe(probe) if probe.is_sending() => thousandths(probe.gain),
            Phase::Below { gain, .. } | Phase::Drain { gain, .. } => thousandths(*gain),
            Phase::Compete(compete) => compete.gain(now),
            _ => Gain::ONE,
        }
    }

    /// In-flight bound: what the rate has in flight during all but the rarest round trips.
    fn window(&self) -> Bytes {
        match (&self.phase, self.delay.rtt) {
            (Phase::Start(start), _) => start.window(self.delivered),
            (Phase::Compete(compete), _) => compete.window(self.now),
            (_, Some(rtt)) => {
                let longest = rtt.smoothed + rtt.deviation * 4 + ACK_LAG;
                self.rate * longest + self.datagram.times(WINDOW_SLACK)
            }
            (_, None) => constants::BLIND,
        }
    }

    fn on_evidence(&mut self, ack: &Ack, point: Point) {
        let Some(epoch) = &mut self.epoch else { return };
        let silence = (self.delay.floor + self.delay.queue) * 2;
        let silence = silence.max(ack.rtt.smoothed + ack.rtt.deviation * 4).max(LEAST_SILENCE);
        if epoch.last().acked_at + silence < point.acked_at {
            // Silence is not evidence.
            return self.restart(point);
        }
        epoch.add(point);
        let is_long = point.acked_at >= epoch.first().acked_at + self.epoch_length();
        self.on_probe_ack(point);
        match self.epoch.take_if(|epoch| is_long && epoch.is_conclusive()) {
            Some(epoch) => self.on_epoch(&epoch, ack.newest.app_limited),
            None => self.on_drop(ack, point),
        }
    }

    fn judge_loss(&mut self, point: Point, rtt: &Rtt) {
        let resolved = point.sent_at.checked_sub(rtt.smoothed / 2).unwrap_or(point.sent_at);
        if self.guard.judge(self.now, point, resolved, self.rate) {
            let Some(first) = self.history.front() else { return };
            let span = Span::between(first, &point);
            let delivered = span.delivered / span.ack_time;
            self.set_rate(delivered.min(self.rate * thousandths(850)));
        }
    }
}

impl RateLaw for WarpRate {
    fn on_sent(&mut self, sent: &Sent) {
        match &mut self.phase {
            Phase::Start(start) => start.on_sent(sent, self.datagram, self.rate),
            Phase::Compete(compete) => compete.on_sent(sent),
            _ => {}
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        let point = Point::of(ack, self.late, self.scattered);
        self.now = ack.now;
        self.delivered = ack.delivered;
        self.delay.rtt = Some(ack.rtt);
        self.delay.floor = ack.delay.floor;
        if let Phase::Start(start) = &mut self.phase {
            let read = start.on_ack(point, ack, self.anchor);
            self.rate = start.rate(self.anchor);
            if let Some(rate) = read {
                self.set_rate(rate);
                self.cruise();
                self.restart(point);
            }
            return;
        }
        if self.epoch.as_ref().is_some_and(|epoch| epoch.last().sent_at >= point.sent_at) {
            return;
        }
        if let Phase::Compete(_) = self.phase {
            return self.on_compete_ack(ack, point);
        }
        self.look_for_floor(point);
        self.judge_loss(point, &ack.rtt);
        if self.blank_until.is_some_and(|until| point.sent_at < until) {
            return;
        }
        if self.blank_until.take().is_some() {
            return self.restart(point);
        }
        self.on_evidence(ack, point);
    }

    fn on_verdict(&mut self, verdict: &Verdict) {
        let target = self.target();
        match (&mut self.phase, verdict.kind) {
            // Among others, each loss from a queue is one.
            (
                Phase::Compete(compete),
                VerdictKind::Congestion | VerdictKind::Mark | VerdictKind::Persistent,
            ) => {
                compete.on_congestion(verdict);
            }
            (Phase::Compete(compete), _) if verdict.queue > target => compete.on_congestion(verdict),
            (_, VerdictKind::Congestion | VerdictKind::Mark | VerdictKind::Persistent) => {
                self.on_congestion(verdict);
            }
            // Nor is there any chance in losses that follow our rate.
            (_, VerdictKind::Scatter | VerdictKind::Burst) if self.guard.is_elastic(self.now) => {
                let is_new = self.answered.is_some_and(|answered| verdict.newest > answered);
                match is_new.then(|| self.guard.acquit(self.rate)).flatten() {
                    Some(before) => self.set_rate(before),
                    None => self.on_congestion(verdict),
                }
            }
            (phase, VerdictKind::Scatter) => {
                let is_cruising = matches!(phase, Phase::Cruise { .. });
                self.scattered += verdict.bytes;
                self.guard.on_loss(verdict.newest, verdict.bytes, is_cruising);
            }
            (phase, VerdictKind::Burst) => {
                let is_cruising = matches!(phase, Phase::Cruise { .. });
                self.guard.on_loss(verdict.newest, verdict.bytes, is_cruising);
            }
        }
    }

    fn on_undo(&mut self, undo: &Undo) {
        self.late += undo.packet.bytes;
        self.scattered -= undo.packet.bytes;
    }

    /// A faster interface is found out by probes, like any capacity.
    fn on_anchor(&mut self, anchor: Rate) {
        self.anchor = anchor;
        self.set_rate(self.rate);
    }

    fn on_mtu(&mut self, datagram: Bytes) {
        self.datagram = datagram;
    }

    fn plan(&self, now: Instant) -> Plan {
        // A buffer without room for a burst.
        let quantum = if self.guard.is_elastic(now) { self.datagram.times(2) } else { Bytes::MAX };
        let pace = match self.phase {
            Phase::Compete(_) => self.rate * Gain::ratio(5, 4),
            _ => self.rate,
        };
        Plan { quantum, ..Plan::new((pace * self.gain(now)).min(self.anchor), self.window()) }
    }

    fn state(&self) -> &'static str {
        match &self.phase {
            Phase::Start(_) => "start",
            Phase::Cruise { .. } => "cruise",
            Phase::Probe(probe) if probe.is_sending() => "probe",
            Phase::Probe(_) => "judge",
            Phase::Below { .. } => "below",
            Phase::Drain { .. } => "drain",
            Phase::Compete(_) => "compete",
        }
    }
}

const LEAST_TARGET: Duration = Duration::from_micros(250);
const MOST_TARGET: Duration = Duration::from_millis(15);
/// However often it slows down, it stays so close to the best of the last epochs.
const LEAST_OF_BEST: Gain = Gain::percent(70);
/// An arrival below 4/5 of the pace is a drop of capacity.
const DROP: Gain = Gain::ratio(5, 4);
const LEAST_DRAIN: Duration = Duration::from_millis(10);
/// At least a datagram per 100 ms.
const LONGEST_GAP: Duration = Duration::from_millis(100);
/// What an ACK of ten packets may lag.
const ACK_LAG: Duration = Duration::from_millis(1);
const WINDOW_SLACK: u64 = 24;

#[cfg(test)]
mod principles;
#[cfg(test)]
mod tests;
