//! The tcp-like host: what the published baselines ran on.
//!
//! A three-way handshake, a SACK scoreboard, a retransmission timeout with a floor of 200 ms and
//! exponential backoff (RFC 6298), acknowledgements for every second segment or after 40 ms and at
//! once when something is out of order, and at most 4 MB between the oldest unacknowledged byte and
//! the newest sent. The law decides the initial window. A law whose plan has [`Rate::MAX`] is not
//! paced, which is how kernels run CUBIC.
//!
//! Loss detection is RACK's with RFC 6675's threshold: three later transmissions, or 9/8 round trips,
//! so lost retransmissions are found, too. After a timeout everything outstanding is lost, which laws
//! see as persistent congestion. Not modelled: tail loss probes (RFC 8985 §7), undo, Nagle, the
//! receiver's window, and acknowledgements that ride on data.
//!
//! Sizes: a segment has 1448 stream bytes and 1538 on the wire (52 of headers with timestamps, 38 of
//! framing), an acknowledgement 90 and with n SACK blocks 4 + 8n more. Laws count stream bytes.
//!
//! [`Rate::MAX`]: warpunits::Rate::MAX

use std::time::{Duration, Instant};

use warprate::cc::LawFactory;
use warpunits::Bytes;

use super::flow::{AckPolicy, Dialect, FlowHost, FlowOptions, Shape, Traffic};
use crate::packet::RouteId;

/// Options for a tcp-like host: the law for what it sends, where its packets go, and the origin of time.
pub fn options(law: impl LawFactory + 'static, route: RouteId, origin: Instant) -> FlowOptions {
    FlowOptions::new(law, AckPolicy::TCP, route, origin)
}

/// A tcp-like host.
pub fn host(traffic: Traffic, options: FlowOptions) -> FlowHost {
    FlowHost::new(SHAPE, traffic, options)
}

/// The maximum segment size: stream bytes of a full segment.
pub const MSS: Bytes = Bytes::new(1448);

/// Most data that the application may hand to the sender before the oldest of it is acknowledged
/// (Linux' `tcp_wmem` has 4 MB as its default maximum).
pub const SEND_BUFFER: Bytes = Bytes::mib(4);

/// Linux' `TCP_RTO_MIN`; RFC 6298 §2.4 asks for a second.
pub const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

const SHAPE: Shape = Shape {
    dialect: Dialect::Tcp,
    datagram: MSS,
    payload: MSS,
    framing: Bytes::new(52 + 38),
    ack: Bytes::new(52 + 38),
    ack_range: Bytes::new(8),
    buffer: Some(SEND_BUFFER),
    peer_ack_delay: Duration::ZERO,
    least_timeout: LEAST_TIMEOUT,
};
