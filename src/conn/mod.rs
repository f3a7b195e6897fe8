//! Connections: `quinn-proto`'s state machine, its seam to our control, and the tokio side.
//!
//! ```text
//! endpoint, connection, streams   what applications hold
//! shard, driver                   what they share; the task of one socket
//! departures                      when datagrams really leave, measured on purpose
//! sampler, error_queue            a few of the endpoint's departures, followed
//! sizing                          how large the socket's buffers should be
//! interface, txtime               where datagrams leave, how fast, and who holds them until then
//! core                            one connection without a socket and without a clock
//! tap                             the seam: what quinn-proto takes for a congestion controller
//! crypto                          the seam: what it takes for TLS, which sees packet numbers and ACK frames
//! ```
//! *May import:* everything else in the library. `clock` is the only caller of the clock.

mod ack_debt;
mod ahead;
mod alarm;
mod batch;
mod cid;
mod clock;
mod config;
mod connection;
pub mod core;
mod crypto;
#[cfg(target_os = "linux")]
mod departures;
mod driver;
mod drop_in;
mod endpoint;
mod error;
#[cfg(target_os = "linux")]
mod error_queue;
mod interface;
#[cfg(feature = "qlog")]
mod qlog;
mod sampler;
mod shard;
mod sizing;
mod socket;
mod stats;
mod streams;
mod tap;
mod txtime;
mod wait;
mod watcher;

pub use batch::BatchLimits;
pub use config::{ClientHandshake, Law, TransportConfig};
pub use connection::{Connecting, Connection};
#[cfg(target_os = "linux")]
pub use departures::{Departure, measure_departures};
pub use drop_in::DropIn;
pub use endpoint::{ClientConfig, Endpoint, EndpointConfig, Incoming, ServerConfig};
pub use error::{
    ClosedStream, ConnectError, ConnectionError, ReadError, ReadExactError, ReadToEndError, WriteError,
};
pub use interface::{Anchor, AnchorSource, Etf, Interface, Qdisc, SendClock};
#[cfg(feature = "qlog")]
pub use qlog::Qlog;
pub use sampler::{Histogram, SendClockStats};
pub use sizing::SOCKET_BUFFERS;
pub use stats::{ConnectionStats, Limit, PathStats};
pub use streams::{RecvStream, SendStream};
pub use tap::Foreign;
pub use txtime::ReleaseReports;
