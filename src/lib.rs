//! A QUIC transport whose congestion control is *rate-paced*: the send clock is anchored to the
//! interface's line rate instead of the ACK stream.
//!
//! The library builds on `quinn-proto`'s state machine and brings its own send clock, loss accounting,
//! congestion control and tokio driver. The API is shaped like quinn's.
//!
//! # Quick start
//!
//! ```no_run
//! use warprate::{Endpoint, ServerConfig};
//!
//! # async fn serve(config: ServerConfig) -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = Endpoint::server(config, "0.0.0.0:4433".parse()?)?;
//! while let Some(incoming) = endpoint.accept().await {
//!     tokio::spawn(async move {
//!         let connection = incoming.await?;
//!         let (mut send, mut recv) = connection.accept_bi().await?;
//!         let request = recv.read_to_end(1024).await?;
//!         send.write_all(&request).await?;
//!         send.finish()?;
//!         Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//!     });
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # The data's way
//!
//! ```text
//! down   conn/streams -> conn/core -asks-> control.release -> pacer -Release-> egress -> conn/socket
//! up     conn/socket -> conn/core -> conn/tap -Feedback-> control -> loss -> cc -Plan-> pacer
//! ```
//!
//! | module      | its question |
//! |-------------|--------------|
//! | [`units`]   | how do quantities combine, and which way do they round? |
//! | [`signal`]  | which words do the modules share? |
//! | [`loss`]    | what became of what we sent? |
//! | [`cc`]      | how fast, and how much in flight? |
//! | [`pacer`]   | when? |
//! | [`egress`]  | whose turn? |
//! | [`control`] | the loop that joins them; read it first |
//! | [`conn`]    | the state machine, its seam to our control, and the tokio side |
//!
//! A module imports only from rows above it, and `loss`, `cc`, `pacer` and `egress` never from each
//! other. Everything above `conn` has no clock, no socket and no randomness: `now` and seeds are
//! arguments.
#![deny(unsafe_code)]

pub mod cc;
pub mod conn;
pub mod control;
pub mod egress;
pub mod loss;
pub mod pacer;
pub mod signal;
#[cfg(test)]
mod test_clock;
pub mod units;

#[cfg(feature = "quinn")]
pub use conn::stock;
pub use conn::{
    ClientConfig, CongestionState, Connecting, Connection, ConnectionStats, Endpoint, EndpointConfig,
    EndpointStats, Foreign, Incoming, IncomingFuture, Law, PathStats, RecvStream, SendStream, ServerConfig,
    TransportConfig, ZeroRttAccepted, ZeroRttConnection,
};
pub use conn::{
    ClosedStream, ConnectError, ConnectionError, ReadError, ReadExactError, ReadToEndError, ResetError,
    RetryError, SendDatagramError, StoppedError, WriteError,
};
pub use quinn_proto::{
    ApplicationClose, Chunk, ConnectionClose, ConnectionId, Dir, FrameStats, FrameType, IdleTimeout,
    NoneTokenLog, NoneTokenStore, Side, StdSystemTime, StreamId, TimeSource, TokenLog, TokenMemoryCache,
    TokenReuseError, TokenStore, TransportErrorCode, UdpStats, ValidationTokenConfig, VarInt,
    VarIntBoundsExceeded, Written, congestion, crypto,
};
pub use rustls;

/// The README's example must compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
