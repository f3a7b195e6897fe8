//! Connections: `quinn-proto`'s state machine, its seam to our control, and the tokio side.
//!
//! ```text
//! endpoint, incoming, connecting  what applications hold: where connections begin,
//! connection, streams, datagrams  and what is done with them
//! server, client, config          what they choose
//! door                            who may come in
//! shard, state, driver            what is shared behind locks; the task of one socket
//! departures                      when datagrams really leave, measured on purpose
//! sampler, error_queue            a few of the endpoint's departures, followed
//! sizing                          how large the socket's buffers should be
//! interface, txtime               where datagrams leave, how fast, and who holds them until then
//! core                            one connection without a socket and without a clock
//! head, resequencer               datagrams that overtook others, in order again
//! pieces                          what streams are given to write
//! tail                            what leaves twice at the end of a flight
//! drop_in, stock                  laws in quinn: by its controllers alone, and with a paced socket
//! tap                             the seam: what quinn-proto takes for a congestion controller
//! crypto                          the seam: what it takes for TLS, which sees packet numbers and ACK frames
//! ```
//! *May import:* everything else in the library. `clock` is the only caller of the clock.

mod ack_debt;
mod ahead;
mod alarm;
mod batch;
mod cid;
mod client;
mod clock;
mod config;
mod connecting;
mod connection;
pub mod core;
mod crypto;
mod datagrams;
#[cfg(target_os = "linux")]
mod departures;
mod door;
mod driver;
mod drop_in;
mod endpoint;
mod error;
#[cfg(target_os = "linux")]
mod error_queue;
mod head;
mod incoming;
mod interface;
mod limits;
mod pieces;
#[cfg(feature = "qlog")]
mod qlog;
mod resequencer;
mod sampler;
mod server;
mod shard;
mod sizing;
mod socket;
mod state;
mod stats;
#[cfg(feature = "quinn")]
pub mod stock;
mod streams;
mod tail;
mod tap;
mod txtime;
mod wait;
mod watcher;

pub use batch::BatchLimits;
pub use client::ClientConfig;
pub use config::{ClientHandshake, Law, TransportConfig};
pub use connecting::{Connecting, ZeroRttAccepted, ZeroRttConnection};
pub use connection::Connection;
pub use datagrams::SendDatagramError;
#[cfg(target_os = "linux")]
pub use departures::{Departure, measure_departures};
pub use drop_in::DropIn;
pub use endpoint::{Endpoint, EndpointConfig, EndpointStats};
pub use error::{
    ClosedStream, ConnectError, ConnectionError, ReadError, ReadExactError, ReadToEndError, ResetError,
    StoppedError, WriteError,
};
pub use head::Head;
pub use incoming::{Incoming, IncomingFuture, RetryError};
pub use interface::{Anchor, AnchorSource, Etf, Interface, Qdisc, SendClock};
pub use limits::{Blocked, Limit};
#[cfg(feature = "qlog")]
pub use qlog::Qlog;
pub use resequencer::ArrivalOrder;
pub use sampler::{Histogram, SendClockStats};
pub use server::ServerConfig;
pub use sizing::SOCKET_BUFFERS;
pub use stats::{CongestionState, ConnectionStats, PathStats};
pub use streams::{RecvStream, SendStream};
pub use tail::Copies;
pub use tap::Foreign;
pub use txtime::ReleaseReports;
