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

/// What packets carry.
#[derive(Debug, Clone)]
pub enum Body {
    /// A UDP datagram.
    Datagram(Vec<u8>),
    /// Nothing that anybody reads: cross traffic.
    Filler,
}
