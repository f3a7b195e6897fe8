//! What travels: packets, and the routes they take.

use quinn_proto::EcnCodepoint;
use warpunits::Bytes;

/// A host, by its place in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// A port, by its place in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub usize);

/// A route, by its place in the world: the ports that a packet passes, and the host that gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub usize);

/// A packet on its way.
#[derive(Debug, Clone)]
pub struct Packet {
    /// Where it goes.
    pub route: RouteId,
    /// Ports of the route that it has passed.
    pub hop: usize,
    /// Size on the wire, with all headers and framing.
    pub wire: Bytes,
    /// Its congestion mark.
    pub ecn: Option<EcnCodepoint>,
    /// What it carries.
    pub body: Body,
}

/// A piece of a stream. The bytes themselves are not carried, since nobody reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Number of the transmission, from 1 on and never used twice.
    pub number: u64,
    /// Which piece of the stream, counted from 0; `None` for a probe that only asks for an answer.
    pub chunk: Option<u64>,
    /// Stream bytes in it.
    pub bytes: u32,
    /// Whether the stream ends with it.
    pub is_last: bool,
    /// The sender has no use for the fate of transmissions below this one.
    pub settled: u64,
}

/// What has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckFrame {
    /// Everything below has arrived; zero from bare receivers, which name ranges only.
    pub below: u64,
    /// The range to be read first: the highest one (bare), or the one that changed last (tcp-like).
    pub first: Option<Range>,
    /// Further ranges.
    pub more: Vec<Range>,
    /// Congestion marks seen so far.
    pub marks: u32,
}

/// Numbers from the first to the second, both included.
pub type Range = (u64, u64);

/// The three-way handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// The opener's first.
    Syn,
    /// The answer.
    SynAck,
    /// The opener's acknowledgement.
    Ack,
}

/// What packets carry.
#[derive(Debug, Clone)]
pub enum Body {
    /// A UDP datagram.
    Datagram(Vec<u8>),
    /// Stream data of a bare or tcp-like host.
    Segment(Segment),
    /// An acknowledgement of a bare or tcp-like host.
    Ack(AckFrame),
    /// A step of a tcp-like host's handshake.
    Handshake(Handshake),
    /// Nothing that anybody reads: cross traffic.
    Filler,
}
