//! One end of a stream without QUIC: the machine behind [`bare`](super::bare) and [`tcp`](super::tcp).
//!
//! ```text
//! FlowHost = handshake (tcp-like) + Sender (stream, Control, loss detection, timers) + Receiver (ranges, ACK policy)
//! ```
//! The two kinds of host share everything but their [`Shape`]: what acknowledgements name, how large
//! packets are, and what the sender does after a silence.

mod ranges;
mod receiver;
mod scoreboard;
mod sender;

use std::sync::Arc;
use std::time::{Duration, Instant};

use warplink::{Span, Time};
use warprate::cc::{LawFactory, PathStart};
use warprate::control::Control;
use warpunits::{Bytes, Rate};

pub use receiver::AckPolicy;
use receiver::Receiver;
use sender::Sender;

use super::{Batched, Context, FlowStats, Host, Progress};
use crate::packet::{Body, Handshake, Packet, RouteId, Segment};

/// What the application at one end does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Sends so much, or without end, as soon as the peer is there.
    Send(Option<Bytes>),
    /// Opens the connection and reads to the end of the stream.
    Receive,
    /// Opens the connection, sends so much, and reads the answer to its end.
    Request(Bytes),
    /// Reads the request to its end, then sends so much.
    Respond(Bytes),
}

/// What one end needs.
#[derive(Clone)]
pub struct FlowOptions {
    /// Makes the congestion controller of what this end sends.
    pub law: Arc<dyn LawFactory>,
    /// Most that this end may ever send at: the line rate of its interface, in payload bytes.
    /// [`Rate::MAX`] leaves the rate to the law, and with a plan of `Rate::MAX` nothing is paced.
    pub anchor: Rate,
    /// When what arrives here is acknowledged, and in what batches it is handed over.
    pub acks: AckPolicy,
    /// What the peer's policy delays acknowledgements by at most; it is part of a bare sender's probe
    /// timeout (RFC 9002 §6.2.1).
    pub peer_ack_delay: Duration,
    /// Whether packets are sent as ECN-capable, ECT(0). Default: no.
    pub ecn: bool,
    /// Where this end's packets go.
    pub route: RouteId,
    /// The instant that stands for time zero.
    pub origin: Instant,
    /// When this end begins. Default: at time zero.
    pub start: Time,
}

impl FlowOptions {
    pub(super) fn new(
        law: impl LawFactory + 'static,
        acks: AckPolicy,
        route: RouteId,
        origin: Instant,
    ) -> Self {
        Self {
            law: Arc::new(law),
            anchor: Rate::MAX,
            acks,
            peer_ack_delay: acks.delay,
            ecn: false,
            route,
            origin,
            start: Time::START,
        }
    }
}

impl std::fmt::Debug for FlowOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowOptions")
            .field("anchor", &self.anchor)
            .field("acks", &self.acks)
            .field("route", &self.route)
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}

/// What acknowledgements name, and what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Transmissions, as QUIC does.
    Bare,
    /// Pieces of the stream, as TCP does.
    Tcp,
}

/// In what the kinds of host differ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub dialect: Dialect,
    /// A full packet as laws count it.
    pub datagram: Bytes,
    /// Stream bytes in a full packet.
    pub payload: Bytes,
    /// Added to a packet's size on the wire.
    pub framing: Bytes,
    /// Wire bytes of an acknowledgement of one range (bare) or of none (tcp-like).
    pub ack: Bytes,
    /// Wire bytes of each range.
    pub ack_range: Bytes,
    /// Most stream bytes from the oldest unacknowledged one to the newest sent.
    pub buffer: Option<Bytes>,
    pub peer_ack_delay: Duration,
    /// Floor of the retransmission timeout (tcp-like).
    pub least_timeout: Duration,
}

impl Shape {
    /// What laws count beside stream bytes.
    fn overhead(&self) -> Bytes {
        self.datagram - self.payload
    }

    fn ack_wire(&self, ranges: u64) -> Bytes {
        match self.dialect {
            Dialect::Bare => self.ack + self.ack_range.times(ranges.saturating_sub(1)),
            // RFC 2018 §3: two bytes of option header, padded to a multiple of four.
            Dialect::Tcp if ranges > 0 => self.ack + Bytes::new(4) + self.ack_range.times(ranges),
            Dialect::Tcp => self.ack,
        }
    }
}

/// One end of a bare or tcp-like connection.
#[derive(Debug)]
pub struct FlowHost {
    shape: Shape,
    traffic: Traffic,
    options: FlowOptions,
    phase: Phase,
    sender: Sender,
    receiver: Receiver,
    progress: Progress,
    acks_sent: u64,
}

/// How far the connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Before its start, or waiting for an opener.
    Idle,
    /// Its SYN or SYN-ACK, first sent at the first moment, is to be repeated at the second.
    Opening {
        since: Time,
        again: Time,
        tries: u32,
    },
    Open,
}

impl FlowHost {
    pub(super) fn new(shape: Shape, traffic: Traffic, options: FlowOptions) -> Self {
        let shape = Shape { peer_ack_delay: options.peer_ack_delay, ..shape };
        let now = options.origin + options.start.since_start();
        let law = options.law.build(PathStart::new(now, shape.datagram).with_anchor(options.anchor));
        let control = Control::new(now, law, options.anchor, shape.datagram);
        Self {
            sender: Sender::new(shape, options.origin, now, control),
            receiver: Receiver::new(shape.dialect, options.acks),
            shape,
            traffic,
            options,
            phase: Phase::Idle,
            progress: Progress::default(),
            acks_sent: 0,
        }
    }

    /// The host as the world takes it: with arrivals in batches if its ACK policy says so.
    pub fn into_host(self) -> Box<dyn Host> {
        match self.options.acks.batch {
            Some(batch) => Box::new(Batched::new(self, batch)),
            None => Box::new(self),
        }
    }

    /// The control loop of what this end sends, for reports.
    pub fn control(&self) -> &Control {
        self.sender.control()
    }

    /// Whether everything that this end has to send so far is acknowledged.
    pub fn is_idle(&self) -> bool {
        self.sender.is_idle()
    }

    fn instant(&self, now: Time) -> Instant {
        self.options.origin + now.since_start()
    }

    fn opens(&self) -> bool {
        matches!(self.traffic, Traffic::Receive | Traffic::Request(_))
    }

    /// The host's start has come, or the handshake's next attempt.
    fn open(&mut self, cx: &mut Context<'_>) {
        let has_handshake = self.shape.dialect == Dialect::Tcp;
        match self.phase {
            Phase::Idle if !has_handshake => self.on_open(cx.now),
            Phase::Idle if self.opens() => self.greet(cx, cx.now, 0),
            Phase::Opening { since, again, tries } if again <= cx.now => self.greet(cx, since, tries),
            Phase::Idle | Phase::Opening { .. } | Phase::Open => {}
        }
    }

    /// Sends SYN or SYN-ACK, again after a second and then ever more rarely (RFC 6298 §2 and §5.5).
    fn greet(&mut self, cx: &mut Context<'_>, since: Time, tries: u32) {
        let wait = FIRST_GREETING_TIMEOUT.times(1 << tries.min(MOST_GREETING_DOUBLINGS));
        self.phase = Phase::Opening { since, again: cx.now + wait, tries: tries + 1 };
        let step = if self.opens() { Handshake::Syn } else { Handshake::SynAck };
        self.launch_handshake(step, cx);
    }

    fn on_handshake(&mut self, step: Handshake, cx: &mut Context<'_>) {
        match (step, self.phase) {
            (Handshake::Syn, Phase::Idle) => self.greet(cx, cx.now, 0),
            // Our answer was lost.
            (Handshake::Syn, _) => self.launch_handshake(Handshake::SynAck, cx),
            (Handshake::SynAck, _) => {
                self.launch_handshake(Handshake::Ack, cx);
                self.on_answer(cx.now);
            }
            (Handshake::Ack, _) => self.on_answer(cx.now),
        }
    }

    /// The peer has answered our SYN or SYN-ACK.
    fn on_answer(&mut self, now: Time) {
        let Phase::Opening { since, tries, .. } = self.phase else { return };
        // Karn's rule: an answer to one of several tries measures nothing.
        if tries == 1 {
            self.sender.on_handshake_rtt((now - since).into());
        }
        self.on_open(now);
    }

    fn on_open(&mut self, now: Time) {
        self.phase = Phase::Open;
        self.progress.connected = Some(now);
        match self.traffic {
            Traffic::Send(bytes) => self.sender.write(bytes),
            Traffic::Request(bytes) => self.sender.write(Some(bytes)),
            Traffic::Receive | Traffic::Respond(_) => {}
        }
    }

    fn take_in(&mut self, packet: Packet, cx: &mut Context<'_>) {
        match packet.body {
            Body::Segment(segment) => {
                self.on_answer(cx.now);
                let new = self.receiver.on_segment(cx.now, &segment, packet.ecn);
                self.on_data(cx.now, new);
            }
            Body::Ack(frame) => {
                self.on_answer(cx.now);
                let now = self.instant(cx.now);
                self.sender.on_ack(now, &frame);
            }
            Body::Handshake(step) => self.on_handshake(step, cx),
            Body::Datagram(_) | Body::Filler => {}
        }
    }

    fn on_data(&mut self, now: Time, new: Bytes) {
        if !new.is_zero() {
            self.progress.last_received = Some(now);
            self.progress.received = self.receiver.received();
        }
        if self.progress.finished.is_none() && self.receiver.is_complete() {
            self.progress.finished = Some(now);
            if let Traffic::Respond(bytes) = self.traffic {
                self.sender.write(Some(bytes));
            }
        }
    }

    /// Lets everything leave that may leave now.
    fn settle(&mut self, cx: &mut Context<'_>) {
        if let Some((frame, ranges)) = self.receiver.poll_ack(cx.now) {
            self.acks_sent += 1;
            self.launch(self.shape.ack_wire(ranges), Body::Ack(frame), cx);
        }
        if self.phase != Phase::Open {
            return;
        }
        let now = self.instant(cx.now);
        let (shape, options) = (self.shape, &self.options);
        let ecn = options.ecn.then_some(quinn_proto::EcnCodepoint::Ect0);
        let first_sent = &mut self.progress.first_sent;
        self.sender.send(now, |segment: Segment| {
            first_sent.get_or_insert(cx.now);
            let wire = Bytes::new(segment.bytes.into()) + shape.overhead() + shape.framing;
            cx.outbox.push(Packet { route: options.route, hop: 0, wire, ecn, body: Body::Segment(segment) });
        });
    }

    fn launch_handshake(&self, step: Handshake, cx: &mut Context<'_>) {
        let wire = if step == Handshake::Ack { self.shape.ack } else { self.shape.ack + SYN_OPTIONS };
        self.launch(wire, Body::Handshake(step), cx);
    }

    fn launch(&self, wire: Bytes, body: Body, cx: &mut Context<'_>) {
        cx.outbox.push(Packet { route: self.options.route, hop: 0, wire, ecn: None, body });
    }
}

impl Host for FlowHost {
    fn wake(&mut self, cx: &mut Context<'_>) {
        if self.phase == Phase::Open {
            let now = self.instant(cx.now);
            self.sender.on_timeout(now);
        } else {
            self.open(cx);
        }
        self.settle(cx);
    }

    fn receive(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.take_in(packet, cx);
        self.settle(cx);
    }

    fn receive_all(&mut self, packets: &mut Vec<Packet>, cx: &mut Context<'_>) {
        for packet in packets.drain(..) {
            self.take_in(packet, cx);
        }
        self.settle(cx);
    }

    fn next_wake(&mut self) -> Time {
        let ours = match self.phase {
            Phase::Idle if self.opens() || self.shape.dialect == Dialect::Bare => self.options.start,
            Phase::Idle => Time::NEVER,
            Phase::Opening { again, .. } => again,
            Phase::Open => match self.sender.next_timeout() {
                Some(at) => Time::from(at.saturating_duration_since(self.options.origin)),
                None => Time::NEVER,
            },
        };
        ours.min(self.receiver.next_ack())
    }

    fn is_finished(&self) -> bool {
        match self.traffic {
            // Whoever reads to the end tells.
            Traffic::Send(_) | Traffic::Respond(_) => true,
            Traffic::Receive | Traffic::Request(_) => self.progress.finished.is_some(),
        }
    }

    fn progress(&self) -> Option<Progress> {
        Some(self.progress)
    }

    fn stats(&self) -> Option<FlowStats> {
        let stats = self.sender.stats();
        Some(FlowStats { datagrams_sent: stats.datagrams_sent + self.acks_sent, ..stats })
    }
}

/// RFC 6298 §2: one second until there is a measurement.
const FIRST_GREETING_TIMEOUT: Span = Span::from_picos(1_000_000_000_000);

/// At most 64 s between attempts, as Linux has it.
const MOST_GREETING_DOUBLINGS: u32 = 6;

/// What a SYN carries beyond timestamps: maximum segment size, window scale, SACK permitted (Linux
/// sends 40 bytes of header with 20 of options; an acknowledgement has 12 of them).
const SYN_OPTIONS: Bytes = Bytes::new(8);
