//! The bare host: a law under the library's control loop, without QUIC; for large grids.
//!
//! It has what a law can notice of QUIC and nothing else. Transmissions have numbers that are never
//! used twice, acknowledgements name ranges of them (at most 64), loss is detected by three packets or
//! 9/8 round trips, and silence is broken by probes after a probe timeout with doubling backoff (RFC
//! 9002). Lost chunks leave first, the lowest at the head. There is no handshake, no flow control and
//! no encryption, and none of the library's early pings.
//!
//! Sizes: a full datagram has 1452 bytes of UDP payload, 1518 on the wire, of which 1420 are stream
//! bytes: what the QUIC host moves per datagram on average, so that both have the same oracle. An
//! acknowledgement has 40 bytes of payload, 106 on the wire, and 2 more for each range after the first.

use std::time::{Duration, Instant};

use warprate::cc::LawFactory;
use warpunits::Bytes;

use super::flow::{AckPolicy, Dialect, FlowHost, FlowOptions, Shape, Traffic};
use crate::packet::RouteId;

/// Options for a bare host: the law for what it sends, where its packets go, and the origin of time.
/// Acknowledges like QUIC.
pub fn options(law: impl LawFactory + 'static, route: RouteId, origin: Instant) -> FlowOptions {
    FlowOptions::new(law, AckPolicy::QUIC, route, origin)
}

/// A bare host.
pub fn host(traffic: Traffic, options: FlowOptions) -> FlowHost {
    FlowHost::new(SHAPE, traffic, options)
}

/// UDP payload of a full datagram.
pub const DATAGRAM: Bytes = Bytes::new(1452);

/// Stream bytes of a full datagram.
pub const STREAM_PER_DATAGRAM: Bytes = Bytes::new(1420);

const SHAPE: Shape = Shape {
    dialect: Dialect::Bare,
    datagram: DATAGRAM,
    payload: STREAM_PER_DATAGRAM,
    framing: Bytes::new(28 + 38),
    ack: Bytes::new(40 + 28 + 38),
    ack_range: Bytes::new(2),
    buffer: None,
    peer_ack_delay: AckPolicy::QUIC.delay,
    least_timeout: Duration::ZERO,
};
