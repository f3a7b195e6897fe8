//! The sending half of bare and tcp-like hosts: what to send next, what became of it, and the timers.
//!
//! The gate, the ledger, the law and the pacer are the library's [`Control`], fed exactly as
//! `warprate::conn::core` feeds it: departures at least a nanosecond apart, one `AckEnd` per
//! acknowledgement with the bytes truly in flight, losses as a prefix of what is outstanding.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use warplink::Time;
use warprate::control::Control;
use warprate::signal::{Feedback, Purpose, Release, Rtt};
use warpunits::Bytes;

use super::scoreboard::Scoreboard;
use super::{Dialect, Shape};
use crate::host::FlowStats;
use crate::host::stats::RttSamples;
use crate::packet::{AckFrame, Segment};

/// One stream's sender.
#[derive(Debug)]
pub(super) struct Sender {
    shape: Shape,
    origin: Instant,
    control: Control,
    stream: Stream,
    scoreboard: Scoreboard,
    /// What is outstanding and whatever was sent since; the front is outstanding.
    sent: VecDeque<Transmission>,
    /// Number of the front of `sent`, or of the next transmission when it is empty.
    first: u64,
    in_flight: Bytes,
    last_sent: Instant,
    /// The newest transmission that was acknowledged.
    newest: Option<(u64, Instant)>,
    /// Declared lost, oldest first: an acknowledgement of one shows that the loss was spurious.
    written_off: VecDeque<WrittenOff>,
    /// Transmissions of chunks that are known to have arrived by an earlier one (tcp-like).
    redundant: Vec<u64>,
    handshake_rtt: Option<Duration>,
    timers: Timers,
    limit: Limit,
    marks: u32,
    counts: Counts,
    rtt: RttSamples,
    acked: Vec<u64>,
}

/// The stream in pieces of one packet each.
#[derive(Debug)]
struct Stream {
    /// The piece after the newest one sent.
    next: u64,
    /// Number of pieces.
    end: u64,
    /// Bytes of the last piece.
    last: Bytes,
    /// To be sent again; they go first, the lowest of all at the head.
    lost: BTreeSet<u64>,
}

/// One packet on its way.
#[derive(Debug, Clone, Copy)]
struct Transmission {
    sent: Instant,
    chunk: Option<u64>,
    bytes: u32,
    is_acked: bool,
}

#[derive(Debug, Clone, Copy)]
struct WrittenOff {
    number: u64,
    chunk: Option<u64>,
    at: Instant,
}

#[derive(Debug)]
struct Timers {
    /// When the oldest outstanding packet counts as lost by age.
    loss: Option<Instant>,
    /// From when the probe or retransmission timeout counts.
    from: Instant,
    /// Timeouts since something was last acknowledged.
    backoff: u32,
    /// Probes that may leave whatever the gate says.
    probes: u32,
}

/// What happened so far.
#[derive(Debug, Default)]
struct Counts {
    packets_sent: u64,
    packets_lost: u64,
    bytes_lost: Bytes,
    retransmitted: Bytes,
    spurious_losses: u64,
    timeouts: u64,
    first_loss: Option<Time>,
    first_mark: Option<Time>,
}

/// What holds the sender back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Application,
    Pacing(Instant),
    Window,
}

impl Sender {
    /// A sender with nothing to send; time zero is `origin`.
    pub fn new(shape: Shape, origin: Instant, now: Instant, control: Control) -> Self {
        Self {
            shape,
            origin,
            control,
            stream: Stream { next: 0, end: 0, last: Bytes::ZERO, lost: BTreeSet::new() },
            scoreboard: Scoreboard::new(shape.dialect),
            sent: VecDeque::new(),
            first: 1,
            in_flight: Bytes::ZERO,
            last_sent: now,
            newest: None,
            written_off: VecDeque::new(),
            redundant: Vec::new(),
            handshake_rtt: None,
            timers: Timers { loss: None, from: now, backoff: 0, probes: 0 },
            limit: Limit::Application,
            marks: 0,
            counts: Counts::default(),
            rtt: RttSamples::new(),
            acked: Vec::new(),
        }
    }

    /// The stream to send: so many bytes, or without end.
    pub fn write(&mut self, bytes: Option<Bytes>) {
        let payload = self.shape.payload.get();
        let Some(bytes) = bytes else {
            self.stream.end = u64::MAX;
            return;
        };
        // An empty stream has an end, too, and it travels.
        self.stream.end = bytes.get().div_ceil(payload).max(1);
        self.stream.last = bytes - Bytes::new(payload).times(self.stream.end - 1);
    }

    /// The handshake took so long: the timers' first estimate.
    pub fn on_handshake_rtt(&mut self, rtt: Duration) {
        self.handshake_rtt = Some(rtt);
    }

    /// Takes in an acknowledgement.
    pub fn on_ack(&mut self, now: Instant, ack: &AckFrame) {
        let mut acked = std::mem::take(&mut self.acked);
        acked.clear();
        self.scoreboard.read(ack, &mut acked);
        let before = self.in_flight;
        let newest = self.newest;
        for &number in &acked {
            self.on_acked(now, number);
        }
        self.acked = acked;
        self.settle_redundant(now);
        if self.in_flight < before {
            let in_flight = self.in_flight;
            self.control.on_feedback(&Feedback::AckEnd { now, in_flight });
            self.timers.backoff = 0;
            self.timers.probes = 0;
            if self.shape.dialect == Dialect::Tcp {
                // RFC 6298 §5.3.
                self.timers.from = now;
            }
            if self.newest != newest
                && let Some(rtt) = self.control.ledger().rtt()
            {
                self.rtt.add(rtt.latest);
            }
        }
        self.detect_losses(now);
        if ack.marks > self.marks
            && let Some((_, newest)) = self.newest
        {
            let packets = ack.marks - self.marks;
            self.marks = ack.marks;
            self.counts.first_mark.get_or_insert(since(self.origin, now));
            self.control.on_feedback(&Feedback::Marked { now, newest, packets });
        }
    }

    /// The instant named by [`next_timeout`](Self::next_timeout) may have come.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.timers.loss.is_some_and(|at| at <= now) {
            self.detect_losses(now);
        } else if self.timers.loss.is_none() && self.silence_ends().is_some_and(|at| at <= now) {
            self.timers.backoff = (self.timers.backoff + 1).min(MOST_BACKOFF);
            self.counts.timeouts += 1;
            match self.shape.dialect {
                // RFC 9002 §6.2.4: two probes, in case one is lost.
                Dialect::Bare => {
                    self.timers.probes = 2;
                    self.timers.from = now;
                }
                // RFC 6298 §5.4 to 5.7: everything outstanding is lost.
                Dialect::Tcp => {
                    self.timers.from = now;
                    self.lose(now, self.sent.len(), true);
                    self.timers.loss = None;
                }
            }
        }
    }

    /// Lets go what may leave now.
    pub fn send(&mut self, now: Instant, mut launch: impl FnMut(Segment)) {
        while self.timers.probes > 0 {
            // New data if there is any, else a ping, as `quinn-proto` has it.
            self.timers.probes -= 1;
            let chunk = self.take_chunk();
            self.transmit(now, chunk, &mut launch);
        }
        loop {
            let mut allowance = match self.control.release(now) {
                Release::Now { bytes } => bytes,
                Release::At(at) => return self.limit = Limit::Pacing(at),
                Release::OnAck => return self.limit = Limit::Window,
            };
            while allowance >= self.shape.datagram {
                let Some(chunk) = self.take_chunk() else {
                    self.limit = Limit::Application;
                    return self.control.on_app_limited(now);
                };
                allowance -= self.transmit(now, Some(chunk), &mut launch);
            }
        }
    }

    /// When to call [`on_timeout`](Self::on_timeout) and [`send`](Self::send) though nothing arrives.
    pub fn next_timeout(&self) -> Option<Instant> {
        let pacing = match self.limit {
            Limit::Pacing(at) => Some(at),
            Limit::Application | Limit::Window => None,
        };
        let recovery = self.timers.loss.or_else(|| self.silence_ends());
        [pacing, recovery, self.control.deadline()].into_iter().flatten().min()
    }

    /// What the flow went through.
    pub fn stats(&self) -> FlowStats {
        let counts = &self.counts;
        FlowStats {
            datagrams_sent: counts.packets_sent,
            packets_lost: counts.packets_lost,
            bytes_lost: counts.bytes_lost,
            retransmitted: Some(counts.retransmitted),
            spurious_losses: Some(counts.spurious_losses),
            timeouts: Some(counts.timeouts),
            rtt: self.rtt.summary(),
            first_loss: counts.first_loss,
            first_mark: counts.first_mark,
        }
    }

    /// The control loop, for reports.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Whether everything written has been acknowledged.
    pub fn is_idle(&self) -> bool {
        self.sent.is_empty() && self.stream.lost.is_empty() && self.stream.next >= self.stream.end
    }

    /// Books one item of an acknowledgement: a transmission (bare) or a chunk (tcp-like).
    fn on_acked(&mut self, now: Instant, item: u64) {
        let number = match self.scoreboard.transmission(item) {
            Some(latest) => {
                self.stream.lost.remove(&item);
                if latest.is_repeated && self.is_too_young(now, latest.number) {
                    // RFC 8985 §6.2: the acknowledgement is of an earlier transmission.
                    self.counts.spurious_losses += 1;
                    return self.redundant.push(latest.number);
                }
                latest.number
            }
            None => item,
        };
        self.settle(number);
    }

    /// Books the arrival of a transmission.
    fn settle(&mut self, number: u64) {
        let Some(transmission) = self.outstanding(number) else {
            return self.on_late(number);
        };
        let Transmission { sent, bytes, is_acked, .. } =
            std::mem::replace(transmission, Transmission { is_acked: true, ..*transmission });
        if is_acked {
            return;
        }
        let bytes = Bytes::new(bytes.into());
        debug_assert!(bytes <= self.in_flight, "what is outstanding is in flight");
        self.in_flight -= bytes;
        if self.newest.is_none_or(|(newest, _)| newest < number) {
            self.newest = Some((number, sent));
        }
        self.control.on_feedback(&Feedback::Acked { sent, bytes });
        while self.sent.front().is_some_and(|front| front.is_acked) {
            self.sent.pop_front();
            self.first += 1;
        }
    }

    /// A transmission that was declared lost has arrived.
    fn on_late(&mut self, number: u64) {
        if let Ok(index) = self.written_off.binary_search_by_key(&number, |lost| lost.number)
            && let Some(WrittenOff { chunk, .. }) = self.written_off.remove(index)
        {
            self.counts.spurious_losses += 1;
            if let Some(chunk) = chunk {
                self.stream.lost.remove(&chunk);
            }
        }
    }

    /// Redundant transmissions count as delivered by the first acknowledgement that could tell of them.
    fn settle_redundant(&mut self, now: Instant) {
        if self.redundant.is_empty() {
            return;
        }
        let redundant = std::mem::take(&mut self.redundant);
        for number in redundant {
            if self.is_too_young(now, number) {
                self.redundant.push(number);
            } else {
                self.settle(number);
            }
        }
    }

    /// Whether no acknowledgement of this transmission can have arrived by now.
    fn is_too_young(&mut self, now: Instant, number: u64) -> bool {
        let min = self.control.ledger().rtt().map_or(Duration::ZERO, |rtt| rtt.min);
        self.outstanding(number).is_some_and(|transmission| now < transmission.sent + min)
    }

    fn outstanding(&mut self, number: u64) -> Option<&mut Transmission> {
        let index = number.checked_sub(self.first)?;
        self.sent.get_mut(usize::try_from(index).ok()?)
    }

    /// RFC 9002 §6.1: lost is what was sent three packets, or 9/8 round trips, before the newest
    /// acknowledged packet. Both are monotone, so what is lost is a prefix of what is outstanding.
    fn detect_losses(&mut self, now: Instant) {
        self.timers.loss = None;
        let Some((newest, _)) = self.newest.filter(|(newest, _)| self.first < *newest) else {
            return self.forget_written_off(now);
        };
        let patience = self.patience();
        let mut lost = 0;
        for (number, transmission) in (self.first..newest).zip(&self.sent) {
            let age_limit = transmission.sent + patience;
            let is_lost = number + PACKET_THRESHOLD <= newest || age_limit <= now;
            if !is_lost && !transmission.is_acked {
                self.timers.loss = Some(age_limit);
                break;
            }
            lost += 1;
        }
        if lost > 0 {
            self.lose(now, lost, false);
        }
        self.forget_written_off(now);
    }

    /// Declares the first `count` entries lost that are not acknowledged.
    fn lose(&mut self, now: Instant, count: usize, is_persistent: bool) {
        let longest = self.probe_timeout() * PERSISTENT_CONGESTION;
        let mut run = None;
        let mut is_persistent = is_persistent;
        let mut lost = None;
        let mut bytes = Bytes::ZERO;
        for transmission in self.sent.drain(..count) {
            let number = self.first;
            self.first += 1;
            if transmission.is_acked {
                run = None;
                continue;
            }
            let since = *run.get_or_insert(transmission.sent);
            is_persistent |= self.newest.is_some() && transmission.sent - since > longest;
            lost = Some(transmission.sent);
            bytes += Bytes::new(transmission.bytes.into());
            self.counts.packets_lost += 1;
            self.written_off.push_back(WrittenOff { number, chunk: transmission.chunk, at: now });
            if let Some(chunk) = transmission.chunk.filter(|&chunk| !self.scoreboard.has(chunk)) {
                self.stream.lost.insert(chunk);
            }
        }
        while self.sent.front().is_some_and(|front| front.is_acked) {
            self.sent.pop_front();
            self.first += 1;
        }
        let Some(newest) = lost else { return };
        debug_assert!(bytes <= self.in_flight, "what is outstanding is in flight");
        self.in_flight -= bytes;
        self.counts.bytes_lost += bytes;
        self.counts.first_loss.get_or_insert(since(self.origin, now));
        self.control.on_feedback(&Feedback::Lost { now, newest, bytes, persistent: is_persistent });
    }

    /// What was declared lost is remembered for three probe timeouts.
    fn forget_written_off(&mut self, now: Instant) {
        if self.written_off.is_empty() {
            return;
        }
        let memory = self.probe_timeout() * 3;
        while self.written_off.front().is_some_and(|lost| lost.at + memory < now) {
            self.written_off.pop_front();
        }
        let settled = self.settled();
        self.scoreboard.forget(settled);
    }

    /// The oldest transmission whose fate is of interest.
    fn settled(&self) -> u64 {
        self.written_off.front().map_or(self.first, |lost| lost.number)
    }

    /// The next piece to send: lost ones first, then new ones as far as the buffer goes.
    fn take_chunk(&mut self) -> Option<u64> {
        if let Some(chunk) = self.stream.lost.pop_first() {
            let bytes = self.bytes_of(Some(chunk));
            self.counts.retransmitted += bytes;
            return Some(chunk);
        }
        let chunk = self.stream.next;
        let held = self.shape.payload.times(chunk.saturating_sub(self.scoreboard.below()));
        if chunk >= self.stream.end
            || self.shape.buffer.is_some_and(|buffer| held + self.shape.payload > buffer)
        {
            return None;
        }
        self.stream.next += 1;
        Some(chunk)
    }

    fn bytes_of(&self, chunk: Option<u64>) -> Bytes {
        match chunk {
            None => Bytes::ZERO,
            Some(chunk) if chunk + 1 == self.stream.end => self.stream.last,
            Some(_) => self.shape.payload,
        }
    }

    /// Sends one packet; its size as laws count it.
    fn transmit(&mut self, now: Instant, chunk: Option<u64>, launch: &mut impl FnMut(Segment)) -> Bytes {
        let sent = now.max(self.last_sent + Duration::from_nanos(1));
        if self.shape.dialect == Dialect::Bare || self.sent.is_empty() {
            // RFC 9002 §6.2.1; RFC 6298 §5.1.
            self.timers.from = sent;
        }
        self.last_sent = sent;
        let number = self.first + self.sent.len() as u64;
        let payload = self.bytes_of(chunk);
        let bytes = (payload + self.shape.overhead()).max(Bytes::new(1));
        let len = |bytes: Bytes| u32::try_from(bytes.get()).expect("a packet is short");
        self.sent.push_back(Transmission { sent, chunk, bytes: len(bytes), is_acked: false });
        if let Some(chunk) = chunk {
            self.scoreboard.on_sent(chunk, number);
        }
        self.in_flight += bytes;
        self.counts.packets_sent += 1;
        self.control.on_feedback(&Feedback::Sent { sent, bytes, purpose: Purpose::Data, number: None });
        launch(Segment {
            number,
            chunk,
            bytes: len(payload),
            is_last: chunk.is_some_and(|chunk| chunk + 1 == self.stream.end),
            settled: self.settled(),
        });
        bytes
    }

    /// RFC 9002 §6.1.2: 9/8 of the longer of the mean and the latest round trip, at least 1 ms.
    fn patience(&self) -> Duration {
        let rtt = self.control.ledger().rtt().map_or(INITIAL_RTT, |rtt| rtt.smoothed.max(rtt.latest));
        (rtt + rtt / 8).max(GRANULARITY)
    }

    /// When silence has lasted so long that something must be done.
    fn silence_ends(&self) -> Option<Instant> {
        let timeout = self.probe_timeout();
        (!self.sent.is_empty())
            .then(|| self.timers.from + (timeout * (1 << self.timers.backoff)).min(LONGEST_TIMEOUT))
    }

    /// RFC 9002 §6.2.1 (bare) or RFC 6298 §2 with the floor of the shape (tcp-like), without backoff.
    fn probe_timeout(&self) -> Duration {
        let (smoothed, deviation) = match self.control.ledger().rtt() {
            Some(Rtt { smoothed, deviation, .. }) => (smoothed, deviation),
            None => {
                let rtt = self.handshake_rtt.unwrap_or(INITIAL_RTT);
                (rtt, rtt / 2)
            }
        };
        let timeout = smoothed + (deviation * 4).max(GRANULARITY);
        match self.shape.dialect {
            Dialect::Bare => timeout + self.shape.peer_ack_delay,
            Dialect::Tcp => timeout.max(self.shape.least_timeout),
        }
    }
}

fn since(origin: Instant, now: Instant) -> Time {
    Time::from(now.saturating_duration_since(origin))
}

/// RFC 9002 §6.1.1, kPacketThreshold, and RFC 6675's DupThresh.
const PACKET_THRESHOLD: u64 = 3;

/// RFC 9002 §6.1.2, kGranularity.
const GRANULARITY: Duration = Duration::from_millis(1);

/// RFC 9002 §6.2.2. With half of it as deviation it makes RFC 6298's first timeout of one second, too.
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// RFC 9002 §7.6.1, kPersistentCongestionThreshold.
const PERSISTENT_CONGESTION: u32 = 3;

/// Keeps the timeout representable.
const MOST_BACKOFF: u32 = 16;

/// RFC 6298 §2.5: a maximum of at least 60 seconds; Linux has 120.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(120);
