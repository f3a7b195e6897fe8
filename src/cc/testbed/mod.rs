//! A sender, one bottleneck and a receiver, to run laws against in unit tests.
//!
//! The sender is [`Control`] driven as `conn/core.rs` drives it, with QUIC's loss detection (RFC 9002) in
//! front of it. Everything is a pure function of the settings; time is simulated.
//!
//! ```text
//! source -> Control -> [losses, policer] -> queue of `buffer` bytes -> link of `rate` -> delay / 2 (+ detour)
//!    ^                                                                                      v
//!    +----- Feedback <- loss detection <- delay / 2 (+ jitter, held to multiples of `ack_slot`) <- receiver
//! ```
//! An ACK frame names all that arrived before it, so one that is overtaken costs nothing.
//!
//! Settings in [`Path`] and [`Source`] may be changed while it runs.
#![cfg(test)]

mod path;
mod watched;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

pub use self::path::{Path, Policer};
use self::watched::Watched;
pub use self::watched::{Cause, Step};
use super::random::Random;
use super::{PathStart, RateLaw};
use crate::control::Control;
use crate::signal::{Feedback, PacketNumber, Plan, Purpose, Release};
use crate::test_clock::{ms, t0};
use crate::units::{Bytes, Gain, Rate};

/// Size of every datagram.
pub const DATAGRAM: Bytes = Bytes::new(1452);

/// The application.
#[derive(Debug, Clone)]
pub enum Source {
    /// It always has data.
    Bulk,
    /// It makes data at this rate; `ready` is when the next datagram is complete.
    Steady { rate: Rate, ready: Instant },
    /// It has none.
    Silent,
}

/// Sender, path and receiver.
pub struct Bed<L> {
    pub path: Path,
    pub source: Source,
    /// The host is busy: the sender gets to send only at multiples of this, one burst each time.
    pub host_slot: Duration,
    now: Instant,
    control: Control,
    law: Watched<L>,
    sender: Sender,
    link: Link,
    receiver: Receiver,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    wake: Option<Instant>,
    random: Random,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive { number: u64, is_marked: bool },
    AckArrive { frame: u64 },
}

/// An ACK frame on its way.
#[derive(Debug)]
struct AckFrame {
    frame: u64,
    numbers: Vec<u64>,
    is_marked: bool,
}

#[derive(Debug)]
struct Sender {
    outstanding: BTreeMap<u64, Instant>,
    next: u64,
    largest_acked: Option<u64>,
    last_sent: Instant,
    loss_due: Option<Instant>,
    probes: u32,
}

#[derive(Debug, Default)]
struct Link {
    queue: VecDeque<(u64, bool)>,
    done: Option<Instant>,
    entered: u64,
    dropped: u64,
}

#[derive(Debug, Default)]
struct Receiver {
    pending: Vec<u64>,
    is_marked: bool,
    ack_due: Option<Instant>,
    expected: u64,
    delivered: u64,
    frames: u64,
    in_transit: VecDeque<AckFrame>,
    last_ack: Option<Instant>,
}

impl<L: RateLaw + Clone + 'static> Bed<L> {
    /// A sender under the law that `build` makes, with data to send, at the tests' epoch.
    pub fn new(path: Path, build: impl FnOnce(PathStart) -> L) -> Self {
        let now = t0();
        let law = Watched::new(build(PathStart::new(now, DATAGRAM)));
        let control = Control::new(now, Box::new(law.clone()), Rate::gbps(100), DATAGRAM);
        Self {
            path,
            source: Source::Bulk,
            host_slot: Duration::ZERO,
            now,
            control,
            law,
            sender: Sender {
                outstanding: BTreeMap::new(),
                next: 0,
                largest_acked: None,
                last_sent: now,
                loss_due: None,
                probes: 0,
            },
            link: Link::default(),
            receiver: Receiver::default(),
            events: BinaryHeap::new(),
            wake: Some(now),
            random: Random::new(1),
        }
    }

    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.step(end) {}
        self.now = end;
    }

    /// Runs until `is_met`, for `limit` at most; whether it was met.
    pub fn run_until(&mut self, limit: Duration, mut is_met: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + limit;
        loop {
            if is_met(self) {
                return true;
            }
            if !self.step(end) {
                self.now = end;
                return false;
            }
        }
    }

    /// Runs until the law is in `state`.
    pub fn run_to(&mut self, state: &str, limit: Duration) -> bool {
        self.run_until(limit, |bed| bed.state() == state)
    }

    /// The rate at which data arrives during the next `time`.
    pub fn measure(&mut self, time: Duration) -> Rate {
        let before = self.delivered();
        self.run_for(time);
        (self.delivered() - before) / time
    }

    /// The application makes data at this rate from now on.
    pub fn set_steady(&mut self, rate: Rate) {
        self.source = Source::Steady { rate, ready: self.now };
        self.wake = Some(self.now);
    }

    /// The application has as much data as can be sent from now on.
    pub fn set_bulk(&mut self) {
        self.source = Source::Bulk;
        self.wake = Some(self.now);
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    /// The law as it is.
    pub fn law<R>(&self, look: impl FnOnce(&L) -> R) -> R {
        look(&self.law.lock().law)
    }

    /// The law's states so far, each with when it began.
    pub fn trace(&self) -> Vec<(Instant, &'static str)> {
        self.law.lock().trace.clone()
    }

    /// Every change of the law's pace so far.
    pub fn steps(&self) -> Vec<Step> {
        self.law.lock().steps.clone()
    }

    pub fn state(&self) -> &'static str {
        self.control.state()
    }

    pub fn plan(&self) -> Plan {
        self.control.plan()
    }

    /// What the host was too busy to send.
    pub fn missed(&self) -> Bytes {
        self.control.missed()
    }

    /// Whether what leaves now is marked: it will not show what the path can do.
    pub fn is_app_limited(&self) -> bool {
        self.control.ledger().is_app_limited()
    }

    pub fn in_flight(&self) -> Bytes {
        self.control.ledger().in_flight()
    }

    /// Data that has reached the receiver.
    pub fn delivered(&self) -> Bytes {
        DATAGRAM.times(self.receiver.delivered)
    }

    /// Packets sent, and packets dropped on the way.
    pub fn sent_and_dropped(&self) -> (u64, u64) {
        (self.link.entered, self.link.dropped)
    }

    /// What waits in front of the link.
    pub fn queue(&self) -> Bytes {
        DATAGRAM.times(self.link.queue.len().saturating_sub(1) as u64)
    }

    /// One event, unless the next is later than `end`.
    fn step(&mut self, end: Instant) -> bool {
        let next_event = self.events.peek().map(|Reverse((at, ..))| *at);
        let timer = self.probe_due();
        let dues =
            [next_event, self.link.done, self.receiver.ack_due, self.sender.loss_due, timer, self.wake];
        let Some(at) = dues.into_iter().flatten().min().filter(|at| *at <= end) else { return false };
        self.now = self.now.max(at);
        let is_due = |due: Option<Instant>| due == Some(at);
        if is_due(self.link.done) {
            self.on_link_done();
        } else if is_due(next_event) {
            let Some(Reverse((_, _, event))) = self.events.pop() else { return false };
            match event {
                Event::Arrive { number, is_marked } => self.on_arrival(number, is_marked),
                Event::AckArrive { frame } => self.on_frame(frame),
            }
        } else if is_due(self.receiver.ack_due) {
            self.send_ack();
        } else if is_due(self.sender.loss_due) {
            self.detect_losses();
        } else if is_due(timer) && !is_due(self.wake) {
            self.sender.probes += 1;
            self.send();
        }
        // What arrived at one instant is read before anything is sent, as from one socket.
        if self.events.peek().is_none_or(|Reverse((at, ..))| *at > self.now) {
            self.pump();
        }
        true
    }

    /// Sends what may leave, as `Core::poll_transmit` does.
    fn pump(&mut self) {
        self.wake = self.kept_waiting();
        if self.wake.is_some() {
            return;
        }
        loop {
            let mut allowance = match self.control.release(self.now) {
                Release::OnAck => return,
                Release::At(at) => {
                    self.wake = Some(at);
                    return;
                }
                Release::Now { bytes } => bytes,
            };
            while allowance >= DATAGRAM {
                if let Some(ready) = self.wait_for_data() {
                    self.control.on_app_limited(self.now);
                    self.wake = ready;
                    return;
                }
                self.send();
                allowance -= DATAGRAM;
            }
        }
    }

    /// When the busy host lets the sender send again.
    fn kept_waiting(&self) -> Option<Instant> {
        let over =
            (self.now - t0()).as_nanos().checked_rem(self.host_slot.as_nanos()).filter(|over| *over > 0)?;
        Some(self.now + self.host_slot - Duration::from_nanos(u64::try_from(over).expect("below a slot")))
    }

    /// `None` if a datagram is ready and now taken, else when one will be, if ever.
    fn wait_for_data(&mut self) -> Option<Option<Instant>> {
        match &mut self.source {
            Source::Bulk => None,
            Source::Silent => Some(None),
            Source::Steady { ready, .. } if *ready > self.now => Some(Some(*ready)),
            Source::Steady { rate, ready } => {
                *ready += DATAGRAM / *rate;
                None
            }
        }
    }

    fn send(&mut self) {
        let sent = self.now.max(self.sender.last_sent + Duration::from_nanos(1));
        let number = self.sender.next;
        self.sender.next += 1;
        self.sender.last_sent = sent;
        self.sender.outstanding.insert(number, sent);
        let purpose = Purpose::Data;
        let named = Some(PacketNumber(number));
        self.control.on_feedback(&Feedback::Sent { sent, bytes: DATAGRAM, purpose, number: named });
        self.enter_link(number);
    }

    fn enter_link(&mut self, number: u64) {
        self.link.entered += 1;
        let is_policed =
            self.path.policer.as_mut().is_some_and(|policer| !policer.admits(self.now, DATAGRAM));
        let is_lost = self.path.lose_every.is_some_and(|n| self.link.entered.is_multiple_of(n));
        let is_chance = self.path.loss_permille > 0 && self.random.between(0, 999) < self.path.loss_permille;
        let is_overflow = self.link.done.is_some() && self.queue() + DATAGRAM > self.path.buffer;
        if is_policed || is_lost || is_chance || is_overflow {
            self.link.dropped += 1;
            return;
        }
        let is_marked = self.queue() > self.path.mark_above;
        self.link.queue.push_back((number, is_marked));
        if self.link.done.is_none() {
            self.link.done = Some(self.now + DATAGRAM / self.path.rate);
        }
    }

    fn on_link_done(&mut self) {
        let detour = match self.path.detour {
            Some((until, extra)) if self.now < until => extra,
            _ => Duration::ZERO,
        };
        if let Some((number, is_marked)) = self.link.queue.pop_front() {
            self.schedule(self.path.delay / 2 + detour, Event::Arrive { number, is_marked });
        }
        self.link.done = (!self.link.queue.is_empty()).then(|| self.now + DATAGRAM / self.path.rate);
    }

    fn on_arrival(&mut self, number: u64, is_marked: bool) {
        let receiver = &mut self.receiver;
        receiver.delivered += 1;
        receiver.pending.push(number);
        receiver.is_marked |= is_marked;
        let is_in_order = number == receiver.expected;
        receiver.expected = receiver.expected.max(number + 1);
        // RFC 9000 §13.2.1: out of order and marked packets are acknowledged at once.
        if !is_in_order || is_marked || receiver.pending.len() >= self.path.ack_every {
            self.send_ack();
        } else if receiver.ack_due.is_none() {
            receiver.ack_due = Some(self.now + MAX_ACK_DELAY);
        }
    }

    fn send_ack(&mut self) {
        self.receiver.ack_due = None;
        let numbers = std::mem::take(&mut self.receiver.pending);
        let is_marked = std::mem::take(&mut self.receiver.is_marked);
        let mut wait = self.path.delay - self.path.delay / 2;
        if !self.path.ack_jitter.is_zero() {
            wait += self.random.below(self.path.ack_jitter);
            if self.path.keeps_acks_in_order {
                wait = wait.max(self.receiver.last_ack.map_or(wait, |last| last - self.now));
            }
        }
        if !self.path.ack_slot.is_zero() {
            let arrival = (self.now + wait - t0()).as_nanos();
            let over = arrival % self.path.ack_slot.as_nanos();
            wait += self.path.ack_slot - Duration::from_nanos(u64::try_from(over).expect("below a slot"));
        }
        let receiver = &mut self.receiver;
        let frame = receiver.frames;
        receiver.frames += 1;
        receiver.last_ack = Some(self.now + wait);
        receiver.in_transit.push_back(AckFrame { frame, numbers, is_marked });
        self.schedule(wait, Event::AckArrive { frame });
    }

    /// Takes in what this frame and those that it overtook name.
    fn on_frame(&mut self, frame: u64) {
        while self.receiver.in_transit.front().is_some_and(|ack| ack.frame <= frame) {
            let Some(ack) = self.receiver.in_transit.pop_front() else { return };
            self.on_ack(&ack.numbers, ack.is_marked);
        }
    }

    fn on_ack(&mut self, numbers: &[u64], is_marked: bool) {
        let mut newest = None;
        for number in numbers {
            if let Some(sent) = self.sender.outstanding.remove(number) {
                newest = newest.max(Some(sent));
                self.sender.largest_acked = self.sender.largest_acked.max(Some(*number));
                self.control.on_feedback(&Feedback::Acked { sent, bytes: DATAGRAM });
            }
            let number = PacketNumber(*number);
            self.control.on_feedback(&Feedback::AckRange { now: self.now, first: number, last: number });
        }
        let Some(newest) = newest else { return };
        self.sender.probes = 0;
        let in_flight = DATAGRAM.times(self.sender.outstanding.len() as u64);
        self.control.on_feedback(&Feedback::AckEnd { now: self.now, in_flight });
        self.detect_losses();
        if is_marked {
            self.control.on_feedback(&Feedback::Marked { now: self.now, newest, packets: 1 });
        }
    }

    /// RFC 9002 §6.1.
    fn detect_losses(&mut self) {
        self.sender.loss_due = None;
        let (Some(largest), Some(rtt)) = (self.sender.largest_acked, self.control.ledger().rtt()) else {
            return;
        };
        let patience = (rtt.latest.max(rtt.smoothed) * 9 / 8).max(ms(1));
        let mut lost = Vec::new();
        for (&number, &sent) in self.sender.outstanding.range(..largest) {
            if largest - number >= PACKET_THRESHOLD || self.now >= sent + patience {
                lost.push((number, sent));
            } else {
                self.sender.loss_due = Some(sent + patience);
                break;
            }
        }
        let (Some(&(first, oldest)), Some(&(last, newest))) = (lost.first(), lost.last()) else { return };
        for (number, _) in &lost {
            self.sender.outstanding.remove(number);
        }
        let is_run = last - first + 1 == lost.len() as u64;
        let persistent = is_run && newest - oldest > self.probe_timeout() * 3;
        let bytes = DATAGRAM.times(lost.len() as u64);
        self.control.on_feedback(&Feedback::Lost { now: self.now, newest, bytes, persistent });
    }

    /// RFC 9002 §6.2.1.
    fn probe_timeout(&self) -> Duration {
        match self.control.ledger().rtt() {
            Some(rtt) => rtt.smoothed + (rtt.deviation * 4).max(ms(1)) + MAX_ACK_DELAY,
            None => ms(999),
        }
    }

    fn probe_due(&self) -> Option<Instant> {
        let is_waiting = !self.sender.outstanding.is_empty() && self.sender.loss_due.is_none();
        is_waiting.then(|| self.sender.last_sent + self.probe_timeout() * (1 << self.sender.probes.min(10)))
    }

    fn schedule(&mut self, wait: Duration, event: Event) {
        // Ties are broken by the order in which events were scheduled.
        let order = self.link.entered * 4 + self.receiver.delivered;
        self.events.push(Reverse((self.now + wait, order, event)));
    }
}

/// RFC 9002 §6.1.1.
const PACKET_THRESHOLD: u64 = 3;

/// RFC 9000 §18.2.
const MAX_ACK_DELAY: Duration = ms(25);

/// Whether a rate lies within so many percent of another.
pub fn is_within(rate: Rate, percent: u32, of: Rate) -> bool {
    rate >= of * Gain::percent(100 - percent) && rate <= of * Gain::percent(100 + percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Fixed;

    fn fixed(path: &Path, rate: Rate) -> Bed<Fixed> {
        Bed::new(path.clone(), |_| Fixed::new(rate, Bytes::mb(1)))
    }

    #[test]
    fn a_fixed_rate_below_the_links_arrives_whole() {
        let path = Path::new(Rate::mbps(10), ms(40));
        let mut bed = fixed(&path, Rate::mbps(8));
        bed.run_for(ms(500));
        assert!(is_within(bed.measure(ms(2000)), 1, Rate::mbps(8)));
        assert_eq!(bed.sent_and_dropped().1, 0);
        assert_eq!(bed.queue(), Bytes::ZERO);
        // The second of two packets is acknowledged at once: propagation and one packet on the link.
        let rtt = bed.control.ledger().rtt().expect("packets were acknowledged");
        assert_eq!(rtt.min, ms(40) + DATAGRAM / path.rate);
    }

    #[test]
    fn more_than_the_link_carries_fills_the_buffer_and_is_dropped() {
        let mut bed = fixed(&Path::new(Rate::mbps(10), ms(40)), Rate::mbps(20));
        bed.run_for(ms(1000));
        assert!(is_within(bed.measure(ms(2000)), 1, Rate::mbps(10)));
        let (sent, dropped) = bed.sent_and_dropped();
        assert!((45..55).contains(&(dropped * 100 / sent)), "{dropped} of {sent}");
        assert_eq!(bed.control.ledger().audit(), crate::loss::Audit::default());
    }

    #[test]
    fn a_policer_lets_its_rate_pass() {
        let mut path = Path::new(Rate::mbps(100), ms(10));
        path.policer = Some(Policer::new(t0(), Rate::mbps(5), Bytes::kb(20)));
        let mut bed = fixed(&path, Rate::mbps(8));
        bed.run_for(ms(1000));
        assert!(is_within(bed.measure(ms(2000)), 1, Rate::mbps(5)));
    }

    #[test]
    fn a_packet_that_takes_a_detour_is_lost_and_then_is_not() {
        let mut bed = fixed(&Path::new(Rate::mbps(10), ms(40)), Rate::mbps(8));
        bed.run_for(ms(500));
        bed.path.detour = Some((bed.now() + DATAGRAM / Rate::mbps(8), ms(20)));
        bed.run_for(ms(500));
        assert_eq!(bed.control.ledger().lost(), DATAGRAM);
        assert_eq!(bed.control.ledger().spurious(), DATAGRAM, "the late packet was recognised");
    }
}
