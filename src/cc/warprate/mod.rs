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
//! q*       = 4 ms · sqrt(25 Mbit/s / D)
//! u        = (q* - queue) / (2 · min(epoch, 40 ms)), within -25 % and +10 %
//!
//! queue > q*:  r = min(r, D · (1 + u))                                 yield
//! otherwise:   r = max(r, D · (1 + u)) while nothing is lost           grow
//! r <= anchor; in flight <= r · (srtt + 4 · rttvar)
//!
//!  start   at the anchor's rate, 106 KB blind, then what the first train shows  (`start`)
//!    v
//!  cruise  the law above   <--- probe 1.25 for an epoch: success r · 1.25, else an epoch at 0.75 (`probe`)
//!    |                     <--- drain 1/4 until the queue is gone: every 5 s, at first every second, so that the
//!    |                          floor shows, and when arrival fell below 4/5 of the pace; no other evidence
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
//! All of its numbers stand in [`Tuning`].

mod compete;
mod evidence;
mod guard;
mod probe;
mod slowdown;
mod standing;
mod start;
mod tuning;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use self::compete::Compete;
use self::evidence::{Epoch, Point, Span, nanos, thousandths};
use self::guard::Guard;
use self::probe::{Ladder, Probe};
use self::slowdown::{Answer, Slowdown};
use self::standing::Standing;
use self::start::Start;
use self::tuning::TARGET_AT;
pub use self::tuning::{Number, Tuning};
use super::random::Random;
use super::{PathStart, RateLaw};
use crate::signal::{Ack, Plan, Rtt, Sent, Undo, Verdict, VerdictKind};
use crate::units::{Bytes, Gain, Rate};

/// The WarpRATE law.
#[derive(Debug, Clone)]
pub struct WarpRate {
    tuning: Tuning,
    datagram: Bytes,
    anchor: Rate,
    born: Instant,
    now: Instant,
    random: Random,
    /// What the law is about.
    rate: Rate,
    /// What arrived in the last epochs; the anchor before anything did.
    arrival: Rate,
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
    scattered: Bytes,
    /// Bytes that arrived after they had been declared lost.
    late: Bytes,
    /// Packets sent before this are no evidence.
    blank_until: Option<Instant>,
    /// What was sent before this has been answered.
    answered: Option<Instant>,
    floor_seen: Instant,
    /// When others were seen last, and the window that they left to us.
    granted: Option<(Instant, Bytes)>,
}

#[derive(Debug, Clone)]
enum Phase {
    Start(Box<Start>),
    Cruise {
        epochs_left: u32,
    },
    Probe(Probe),
    /// Below the rate until then.
    Below {
        until: Instant,
        gain: Gain,
    },
    /// So far below it that the queue empties.
    Drain {
        until: Instant,
    },
    Compete(Box<Compete>),
}

impl WarpRate {
    /// A law in its first state; `seed` spreads its probes, and should differ between flows.
    pub fn new(start: PathStart, seed: u64) -> Self {
        Self::tuned(start, seed, Tuning::default())
    }

    /// The same by other numbers, for experiments.
    pub fn tuned(start: PathStart, seed: u64, tuning: Tuning) -> Self {
        Self {
            tuning,
            datagram: start.datagram,
            anchor: start.anchor,
            born: start.now,
            now: start.now,
            random: Random::new(seed),
            rate: start.anchor,
            arrival: start.anchor,
            phase: Phase::Start(Box::new(Start::new(start.now, tuning))),
            ladder: Ladder::default(),
            epoch: None,
            history: VecDeque::new(),
            arrivals: VecDeque::new(),
            delay: Standing::default(),
            slowdown: None,
            guard: Guard::new(start.now, &tuning),
            scattered: Bytes::ZERO,
            late: Bytes::ZERO,
            blank_until: None,
            answered: None,
            floor_seen: start.now,
            granted: None,
        }
    }

    fn set_rate(&mut self, rate: Rate) {
        let round = self.delay.rtt.map_or(LONGEST_ROUND, |rtt| rtt.smoothed);
        self.rate = rate.max(self.datagram.times(2) / round).min(self.anchor);
    }

    /// q*(arrival) = 4 ms · sqrt(25 Mbit/s / arrival)
    fn target(&self) -> Duration {
        let square = self.tuning.target_queue.as_nanos().pow(2) * u128::from(TARGET_AT.as_bytes_per_sec());
        let nanos = (square / u128::from(self.arrival.as_bytes_per_sec().max(1))).isqrt();
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn epoch_length(&self) -> Duration {
        (self.delay.floor + self.delay.queue).max(self.tuning.shortest_epoch)
    }

    /// u in thousandths: half of the queue's error in the time of an epoch.
    fn answer(&self, target: Duration) -> i64 {
        let time = nanos(self.epoch_length().min(self.tuning.longest_response)).max(1);
        let error = nanos(target) - nanos(self.delay.queue);
        (error * 1000 / (2 * time)).clamp(-milli(self.tuning.step), milli(self.tuning.growth))
    }

    fn cruise(&mut self) {
        let spread = self.tuning.probe_every.div_ceil(4);
        let epochs = self.tuning.probe_every - spread..=self.tuning.probe_every + spread;
        let epochs_left =
            if self.ladder.is_climbing() { 0 } else { self.random.between(*epochs.start(), *epochs.end()) };
        self.phase = Phase::Cruise { epochs_left: epochs_left * self.ladder.patience(&self.tuning) };
    }

    /// Evidence begins anew.
    fn restart(&mut self, point: Point) {
        self.history.clear();
        self.history.push_back(point);
        self.epoch = Some(Epoch::new(point));
    }

    /// The law, once per epoch.
    fn on_epoch(&mut self, epoch: &Epoch, is_limited: bool) {
        let above = self.delay.on_epoch(epoch, &self.tuning);
        let last = epoch.last();
        let window = Span::between(self.history.front().unwrap_or(&last), &last);
        self.history.push_back(last);
        if self.history.len() > self.tuning.evidence_epochs as usize {
            self.history.pop_front();
        }
        self.epoch = Some(Epoch::new(last));
        let arrival = window.arrival(&self.tuning);
        self.arrival = arrival;
        let target = self.target();
        self.watch_slowdown(&epoch.span(), above, target);
        if matches!(self.phase, Phase::Compete(_)) {
            return;
        }
        let best = self.arrivals.iter().copied().max().unwrap_or(self.rate);
        let most_of = Gain::ONE - self.tuning.doubt;
        let next = (arrival * thousandths(1000 + self.answer(target))).max(best * most_of);
        if self.delay.queue > target {
            self.set_rate(next.min(self.rate));
        } else if !is_limited && window.is_whole() {
            self.set_rate(next.max(self.rate));
        }
        if arrival < window.pace() * most_of {
            // More is lost than chance explains.
            self.set_rate(arrival.min(self.rate));
        }
        self.advance(&window, &epoch.span(), target, is_limited);
    }

    /// A queue that does not drain when we slow down is not ours.
    fn watch_slowdown(&mut self, span: &Span, above: Duration, target: Duration) {
        let arrival = span.arrival(&self.tuning);
        if span.pace() > arrival * (Gain::ONE + self.tuning.step) {
            self.arrivals.clear();
        }
        self.arrivals.push_back(arrival);
        if self.arrivals.len() > 2 * self.tuning.evidence_epochs as usize {
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
        let queue = self.delay.queue;
        let answer = slowdown.on_epoch(self.now, span, self.arrival, above, (queue, target), &self.tuning);
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
            Some(rtt) if self.is_even(self.delay.queue) => {
                // A loss of theirs looks as if they had gone: the window is what it was, less the answer to it.
                let recent = self.granted.filter(|(seen, _)| self.now < *seen + self.tuning.interval * 2);
                let granted = recent.map_or(Bytes::ZERO, |(_, window)| window);
                let window = (granted * (Gain::ONE - self.tuning.cut)).max(self.rate * rtt.smoothed);
                let compete = Compete::new(self.now, self.datagram, window, &self.tuning, &mut self.random);
                self.delay.foreign = Duration::ZERO;
                self.phase = Phase::Compete(Box::new(compete));
            }
            _ => {
                self.delay.foreign += self.delay.queue;
                self.delay.queue = Duration::ZERO;
            }
        }
    }

    /// Whether packets come so evenly that lumps do not explain this delay.
    fn is_even(&self, delay: Duration) -> bool {
        delay > self.delay.lump * (self.tuning.epoch_over_lump / 2)
    }

    /// The next phase, at an epoch's end.
    fn advance(&mut self, window: &Span, span: &Span, target: Duration, is_limited: bool) {
        let now = self.now;
        match &mut self.phase {
            Phase::Cruise { epochs_left: 0 } => {
                let has_room = self.delay.queue < target / 2 && self.rate < self.anchor;
                let is_empty = self.delay.queue < target * self.tuning.step / 2;
                if has_room && !is_limited && !self.guard.is_elastic(now) {
                    self.phase =
                        Phase::Probe(Probe::new(now, self.ladder.gain(is_empty, &self.tuning), *window));
                }
            }
            Phase::Cruise { epochs_left } => *epochs_left -= 1,
            Phase::Probe(probe) => probe.end(now),
            Phase::Below { until, .. } if *until <= now => self.cruise(),
            _ => {}
        }
        if let Phase::Cruise { .. } = self.phase {
            let length = self.epoch_length();
            let spell =
                self.guard.on_epoch(now, span.sent, length, self.datagram, &self.tuning, &mut self.random);
            if let Some(spell) = spell {
                self.phase = Phase::Below { until: now + spell, gain: self.tuning.slower() };
            }
        }
    }

    fn on_probe_ack(&mut self, point: Point) {
        let Phase::Probe(probe) = &mut self.phase else { return };
        let Some(has_arrived) = probe.on_ack(point, &self.tuning) else { return };
        let gain = probe.gain;
        // One of N flows fills a link by an N-th of what it adds, and the others yield to a long probe.
        let left = point.rtt().saturating_sub(self.delay.floor + self.delay.foreign + self.delay.lump);
        if has_arrived && !(left > self.target() && self.is_even(left)) {
            self.ladder.on_success();
            self.set_rate(self.rate * gain);
            self.cruise();
        } else {
            self.ladder.on_failure();
            let until = self.now + self.epoch_length();
            self.phase = Phase::Below { until, gain: Gain::ONE - (gain - Gain::ONE).min(self.tuning.step) };
        }
        self.restart(point);
    }

    /// Capacity fell: the queue rises though an epoch is far from over.
    fn on_drop(&mut self, ack: &Ack, point: Point) {
        let Some(epoch) = &self.epoch else { return };
        let span = epoch.span();
        // So high that the law would take a whole step.
        let response = self.epoch_length().min(self.tuning.longest_response);
        let high = self.target() + response * 2 * self.tuning.step;
        // The cheap questions first: a lump is a walk over the epoch.
        if ack.delay.queue <= high || span.ack_time < self.epoch_length() * self.tuning.step {
            return;
        }
        let is_high = ack.delay.queue.saturating_sub(self.delay.foreign + epoch.lump()) > high;
        let capacity = span.arrival(&self.tuning);
        let is_drop = capacity * (Gain::ONE + self.tuning.step) < span.pace();
        if !is_high || !epoch.is_conclusive(&self.tuning) || !is_drop {
            return;
        }
        self.arrival = capacity;
        let excess = ack.in_flight - capacity * self.delay.floor;
        self.set_rate(capacity);
        self.arrivals.clear();
        self.slowdown = None;
        self.drain(excess / capacity);
        self.restart(point);
    }

    /// Looks for the floor when it has not been seen for long.
    fn look_for_floor(&mut self, point: Point) {
        let above = point.rtt().saturating_sub(self.delay.floor);
        if above <= self.target() * self.tuning.step {
            self.floor_seen = self.now;
        }
        match self.phase {
            Phase::Cruise { .. } if self.slowdown.is_none() => {
                // While it is young, each of its first epochs may have had a queue of others.
                let interval = self.tuning.interval;
                let interval = if self.now < self.born + interval { interval / 5 } else { interval };
                if self.floor_seen + interval < self.now {
                    self.drain(self.epoch_length() + self.tuning.longest_response / 4);
                }
            }
            // What was sent before it may still stand in the queue.
            Phase::Drain { until } => {
                let is_empty = above <= self.target() && point.sent_at > self.floor_seen;
                if until <= self.now || is_empty {
                    self.blank_until = Some(self.now);
                    self.cruise();
                }
            }
            _ => {}
        }
    }

    /// Lets the queue empty. A drain is evidence of nothing but the floor.
    fn drain(&mut self, length: Duration) {
        let until = self.now + length;
        self.phase = Phase::Drain { until };
        self.blank_until = Some(until);
        self.floor_seen = self.now;
    }

    fn on_compete_ack(&mut self, ack: &Ack, point: Point) {
        let target = self.target();
        let Phase::Compete(compete) = &mut self.phase else { return };
        let is_over = compete.on_ack(ack, point, target, &self.tuning, &mut self.random);
        let window = compete.window(self.now);
        self.set_rate(window / ack.rtt.smoothed);
        if is_over {
            self.granted = Some((self.now, window));
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
        let is_proven = self.history.len() > 1 || epoch.is_conclusive(&self.tuning);
        is_proven.then(|| Span::between(first, &epoch.last()).arrival(&self.tuning))
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
        self.set_rate(delivered.min(self.rate) * (Gain::ONE - self.tuning.cut));
        if let Some(epoch) = &self.epoch {
            let last = epoch.last();
            self.restart(last);
        }
        self.ladder.on_failure();
        self.cruise();
    }

    fn gain(&self, now: Instant) -> Gain {
        match &self.phase {
            Phase::Probe(probe) if probe.is_sending() => probe.gain,
            Phase::Below { gain, .. } => *gain,
            Phase::Drain { .. } => self.tuning.drained,
            Phase::Compete(compete) => compete.gain(now, &self.tuning),
            _ => Gain::ONE,
        }
    }

    /// In-flight bound: what the rate has in flight during all but the rarest round trips.
    fn window(&self) -> Bytes {
        match (&self.phase, self.delay.rtt) {
            (Phase::Start(start), _) => start.window(),
            (Phase::Compete(compete), _) => compete.window(self.now),
            (_, Some(rtt)) => {
                let longest = rtt.smoothed + rtt.deviation * 4 + self.tuning.shortest_epoch;
                self.rate * longest + self.datagram.times(2 * ACK_EVERY)
            }
            (_, None) => self.tuning.blind,
        }
    }

    fn on_evidence(&mut self, ack: &Ack, point: Point) {
        let Some(epoch) = &mut self.epoch else { return };
        let silence = (ack.rtt.smoothed + ack.rtt.deviation * 4).max(self.tuning.longest_response);
        if epoch.last().acked_at + silence < point.acked_at {
            // Silence is not evidence.
            return self.restart(point);
        }
        epoch.add(point, ack.newest.app_limited);
        let is_long = point.acked_at >= epoch.first().acked_at + self.epoch_length();
        self.on_probe_ack(point);
        match self.epoch.take_if(|epoch| is_long && epoch.is_conclusive(&self.tuning)) {
            Some(epoch) => self.on_epoch(&epoch, ack.newest.app_limited),
            None => self.on_drop(ack, point),
        }
    }

    fn judge_loss(&mut self, point: Point, rtt: &Rtt) {
        let resolved = point.sent_at.checked_sub(rtt.smoothed / 2).unwrap_or(point.sent_at);
        if self.guard.judge(self.now, point, resolved, self.rate, &self.tuning) {
            let Some(first) = self.history.front() else { return };
            let span = Span::between(first, &point);
            let delivered = span.delivered / span.ack_time;
            self.set_rate(delivered.min(self.rate * (Gain::ONE - self.tuning.cut)));
        }
    }
}

impl RateLaw for WarpRate {
    fn on_sent(&mut self, sent: &Sent) {
        match &mut self.phase {
            Phase::Start(start) => start.on_sent(sent, self.datagram, self.anchor),
            Phase::Compete(compete) => compete.on_sent(sent),
            _ => {}
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        let point = Point::of(ack, self.late, self.scattered);
        self.now = ack.now;
        self.delay.rtt = Some(ack.rtt);
        self.delay.floor = ack.delay.floor;
        if let Phase::Start(start) = &mut self.phase {
            if let Some(rate) = start.on_ack(point, ack, self.anchor) {
                self.set_rate(rate);
                self.arrival = rate;
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
        let is_chance = matches!(verdict.kind, VerdictKind::Scatter | VerdictKind::Burst);
        let target = self.target();
        match &mut self.phase {
            // Among others, each loss from a queue is one.
            Phase::Compete(compete) if !is_chance || verdict.queue > target => compete.on_congestion(verdict),
            _ if !is_chance => self.on_congestion(verdict),
            // Nor is there any chance in losses that follow our rate.
            _ if self.guard.is_elastic(self.now) => {
                let is_new = self.answered.is_some_and(|answered| verdict.newest > answered);
                match is_new.then(|| self.guard.acquit(self.arrival, &self.tuning)).flatten() {
                    Some(before) => self.set_rate(before),
                    None => self.on_congestion(verdict),
                }
            }
            phase => {
                let is_cruising = matches!(phase, Phase::Cruise { .. });
                if verdict.kind == VerdictKind::Scatter {
                    self.scattered += verdict.bytes;
                }
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
        if let Phase::Compete(compete) = &mut self.phase {
            compete.on_mtu(datagram);
        }
    }

    fn plan(&self, now: Instant) -> Plan {
        // A buffer without room for a burst.
        let is_elastic = self.guard.is_elastic(now);
        let quantum = if is_elastic { self.datagram.times(2) } else { Bytes::MAX };
        // What is lost to ourselves or to others is not chance.
        let copies = !is_elastic && !matches!(self.phase, Phase::Compete(_));
        let pace = match &self.phase {
            Phase::Start(start) => start.rate(self.anchor),
            Phase::Compete(_) => self.rate * (Gain::ONE + self.tuning.step),
            _ => self.rate,
        };
        Plan { quantum, copies, ..Plan::new((pace * self.gain(now)).min(self.anchor), self.window()) }
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

/// In thousandths.
fn milli(gain: Gain) -> i64 {
    i64::try_from(gain.thousandths()).unwrap_or(i64::MAX)
}

/// Two datagrams per round trip are the least (RFC 9002 §7.2): what is slower is all silence, and silence
/// proves nothing. Before there is one, it is taken for so long (RFC 9002 §6.2.2).
const LONGEST_ROUND: Duration = Duration::from_millis(333);
/// Packets that our receivers acknowledge with one frame; the frame may be lost.
const ACK_EVERY: u64 = 10;

#[cfg(test)]
mod principles;
#[cfg(test)]
mod tests;
