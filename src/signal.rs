//! The words that modules share: what was sent, acknowledged and lost, and what is decided.
//!
//! *What it decides:* nothing. *In and out:* plain data. *May import:* [`crate::units`].
//!
//! Sizes count UDP payload, as `quinn-proto` does; conversion to wire bytes happens at the link's
//! edge. Every instant is the caller's: nothing here reads a clock.

use std::time::{Duration, Instant};

use crate::units::{Bytes, Rate};

/// One path of one connection, numbered in the order in which the connection took them up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u64);

/// The number of a packet of application data (1-RTT). Numbers grow by the connection, across its paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketNumber(pub u64);

/// What the transport tells the control loop about a path, in the order in which it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feedback {
    /// A datagram left (or is about to: `sent` is its planned departure).
    Sent {
        /// Departure; unique within the path, so that it identifies the datagram.
        sent: Instant,
        /// Size of the datagram.
        bytes: Bytes,
        /// What the datagram was for.
        purpose: Purpose,
        /// The packet's number, if the datagram holds nothing but one numbered packet and the transport
        /// tells: without it a late arrival stays unnoticed.
        number: Option<PacketNumber>,
    },
    /// A datagram has left once more, unchanged.
    Copied {
        /// When.
        now: Instant,
        /// Its first departure.
        sent: Instant,
        /// Size of the datagram.
        bytes: Bytes,
    },
    /// The ACK frame at hand names these packets, newly acknowledged or not.
    AckRange {
        /// When it was noticed.
        now: Instant,
        /// The least number.
        first: PacketNumber,
        /// The greatest number.
        last: PacketNumber,
    },
    /// One packet of the ACK frame at hand is newly acknowledged.
    Acked {
        /// Departure of the datagram that carried it.
        sent: Instant,
        /// Size of the packet.
        bytes: Bytes,
    },
    /// All packets of the ACK frame at hand have been named.
    AckEnd {
        /// Arrival of the ACK frame.
        now: Instant,
        /// Bytes still in flight after it.
        in_flight: Bytes,
    },
    /// Packets were declared lost: all that are outstanding and were sent no later than `newest`.
    Lost {
        /// When the loss was declared.
        now: Instant,
        /// Departure of the newest lost packet.
        newest: Instant,
        /// Size of all lost packets.
        bytes: Bytes,
        /// Whether nothing sent during three probe timeouts arrived (RFC 9002 §7.6).
        persistent: bool,
    },
    /// The ACK frame reported at least one more congestion-experienced mark.
    Marked {
        /// Arrival of the ACK frame.
        now: Instant,
        /// Departure of the newest packet that it acknowledged.
        newest: Instant,
        /// How many packets were marked since the last report; 1 where the transport does not count.
        packets: u32,
    },
    /// A path MTU probe was declared lost, which says nothing about congestion.
    ProbeLost {
        /// When it was noticed.
        now: Instant,
    },
    /// The path now carries datagrams of this size.
    Mtu(Bytes),
}

/// What a datagram is for; it decides how its fate is booked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Carries stream data, control frames or handshake messages, and will be acknowledged.
    Data,
    /// Looks for a larger path MTU; its loss is reported apart.
    MtuProbe,
    /// Carries only acknowledgements; never paced, never in flight.
    AckOnly,
}

/// What was known when a packet left: the basis of every delivery sample.
///
/// Source: draft-ietf-ccwg-bbr-06 §4.1, the per-packet state of delivery-rate estimation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Planned departure.
    pub sent: Instant,
    /// Size.
    pub bytes: Bytes,
    /// Bytes in flight, this packet included.
    pub tx_in_flight: Bytes,
    /// Bytes delivered so far on this path.
    pub delivered: Bytes,
    /// When `delivered` was last raised.
    pub delivered_at: Instant,
    /// Departure of the first packet of the flight that this one's sample spans.
    pub first_sent: Instant,
    /// Bytes lost so far on this path.
    pub lost: Bytes,
    /// Whether the application, or a host too busy to keep the plan, limited what was in flight, not the network.
    pub app_limited: bool,
    /// Round in which it left.
    pub round: u64,
}

/// A datagram has left.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Sent {
    /// Planned departure.
    pub now: Instant,
    /// Size.
    pub bytes: Bytes,
    /// Bytes in flight, this datagram included.
    pub in_flight: Bytes,
    /// Whether the application, or a host too busy to keep the plan, limits what is in flight, not the network.
    pub app_limited: bool,
}

/// How fast the path delivered between two points of its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliverySample {
    /// `delivered / interval`.
    pub rate: Rate,
    /// Bytes delivered in the interval.
    pub delivered: Bytes,
    /// Bytes lost in the interval.
    pub lost: Bytes,
    /// The longer of the time it took to send and the time it took to acknowledge.
    pub interval: Duration,
    /// Whether the application or a busy host limited the sender at its start: such a sample is a lower bound.
    pub app_limited: bool,
}

/// The round-trip time of a path. Acknowledgement delay is not removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rtt {
    /// ACK arrival minus planned departure of the newest acknowledged packet.
    pub latest: Duration,
    /// Least seen on this path.
    pub min: Duration,
    /// Exponential mean with weight 1/8 (RFC 9002 §5.3).
    pub smoothed: Duration,
    /// Exponential mean deviation with weight 1/4 (RFC 9002 §5.3).
    pub deviation: Duration,
}

/// What the round-trip times say about queues, see `loss/delay.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Delay {
    /// Least round-trip time of the last 30 s.
    pub floor: Duration,
    /// How much round-trip times vary by themselves.
    pub noise: Duration,
    /// What stands above floor and noise.
    pub queue: Duration,
}

/// One ACK frame, once per frame whatever the number of packets that it acknowledges.
///
/// A packet that left twice counts as delivered, and is nobody's newest: which of the two arrived is unknown.
/// A frame that acknowledges nothing else is told together with the next one.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Ack {
    /// Arrival.
    pub now: Instant,
    /// Bytes that it newly acknowledged.
    pub bytes: Bytes,
    /// Packets that it newly acknowledged.
    pub packets: u32,
    /// Bytes in flight after it.
    pub in_flight: Bytes,
    /// Send-time state of the newest packet that it acknowledged.
    pub newest: Snapshot,
    /// Round-trip times after it.
    pub rtt: Rtt,
    /// Floor, noise and queue after it.
    pub delay: Delay,
    /// Delivery rate, unless the interval is shorter than the least round trip and so proves nothing.
    pub sample: Option<DeliverySample>,
    /// Bytes delivered on this path so far.
    pub delivered: Bytes,
    /// Bytes lost on this path so far.
    pub lost: Bytes,
    /// Rounds so far: a round ends when a packet sent after its start is acknowledged.
    pub round: u64,
    /// Whether this ACK began a round.
    pub round_start: bool,
}

/// Packets were declared lost. Nothing is said yet about the reason.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Loss<'a> {
    /// When.
    pub now: Instant,
    /// Each lost packet's send-time state, oldest first.
    pub packets: &'a [Snapshot],
    /// Size of all lost packets.
    pub bytes: Bytes,
    /// Bytes in flight after their removal.
    pub in_flight: Bytes,
    /// Bytes lost on this path so far.
    pub lost: Bytes,
    /// Persistent congestion (RFC 9002 §7.6).
    pub persistent: bool,
}

/// What a loss or a mark was found to mean.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Verdict {
    /// When it was decided.
    pub now: Instant,
    /// The finding.
    pub kind: VerdictKind,
    /// Departure of the newest packet concerned: one answer per round is due for it.
    pub newest: Instant,
    /// How many packets are concerned. For a mark it is the peer's claim: 1 at least, and otherwise unchecked.
    pub packets: u32,
    /// Size of the packets concerned; zero for a mark.
    pub bytes: Bytes,
    /// Delay above the path's floor that the packets acknowledged around them saw.
    pub queue: Duration,
}

/// The kinds of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VerdictKind {
    /// A queue marked packets instead of dropping them (ECN).
    Mark,
    /// Loss that does not follow the queue.
    Scatter,
    /// Many losses together without a queue.
    Burst,
    /// A queue overflowed.
    Congestion,
    /// Nothing arrived during three probe timeouts (RFC 9002 §7.6).
    Persistent,
}

/// A packet that had been declared lost arrived after all.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Undo {
    /// When it was noticed.
    pub now: Instant,
    /// Its send-time state.
    pub packet: Snapshot,
}

/// A law's answer: how fast, and how much in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Pacing rate; zero means never.
    pub rate: Rate,
    /// Bound on bytes in flight.
    pub window: Bytes,
    /// Most that may leave back to back; the pacer lowers it to what its clock can place.
    pub quantum: Bytes,
    /// Whether a flight's last datagrams may leave twice where the path loses by chance. Not for laws that a
    /// standard describes: none knows of it.
    pub copies: bool,
    /// When the law wants to be asked again though nothing happened.
    pub until: Option<Instant>,
}

impl Plan {
    /// A plan without a burst limit of its own, without copies and without a deadline.
    pub const fn new(rate: Rate, window: Bytes) -> Self {
        Self { rate, window, quantum: Bytes::MAX, copies: false, until: None }
    }
}

/// The pacer's answer: may a datagram leave?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// Up to this many bytes may leave back to back, now.
    Now {
        /// The burst; at least one datagram.
        bytes: Bytes,
    },
    /// Not before this instant.
    At(Instant),
    /// Not before feedback arrives: the window is full or the rate is zero.
    OnAck,
}
