//! Our laws and our pacer in stock quinn, whose driver, streams and API stay as they are.
//!
//! ```no_run
//! use warprate::{Law, stock::Paced};
//!
//! # async fn serve(config: quinn::ServerConfig) -> Result<(), Box<dyn std::error::Error>> {
//! let paced = Paced::server(config.clone(), "0.0.0.0:4433".parse()?, Law::warprate(1))?;
//! while let Some(incoming) = paced.endpoint().accept().await {
//!     let connecting = paced.accept(incoming, config.clone())?;
//!     tokio::spawn(async move {
//!         let connection: quinn::Connection = connecting.await?;
//!         // as before
//!         # Ok::<_, quinn::ConnectionError>(connection)
//!     });
//! }
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//! controller (drop_in)  time to send?  -- no: wake me then --> Slot, one per remote address --> Keeper
//! quinn's connection    a batch of up to ten datagrams ------> Socket: splits it into the pacer's bursts
//! Keeper, one task      wakes connections when they are due, and sends the bursts that were not
//! ```
//! A connection that may not send yet is told that there is no window, so nothing that quinn sends of its own accord is
//! held: acknowledgements and loss probes leave at once. Where the interface's queue keeps release times (`fq`), the
//! kernel holds a batch's later bursts instead of the task.
//!
//! Beside the full driver these are lost: connections of one endpoint do not share the interface's anchor, each keeps to
//! it alone; a batch's packets count as sent when its first leaves; and what [`DropIn`](super::DropIn) tells of identity,
//! marks, early pings and undo. A peer that moves to another address is paced between batches, and not within them.

mod keeper;
mod socket;

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use self::keeper::Keeper;
use self::socket::PacedSocket;
use super::config::Law;
use super::endpoint::{EndpointConfig, bind};

/// A quinn endpoint whose connections' laws and socket share a pace.
pub struct Paced {
    endpoint: quinn::Endpoint,
    keeper: Arc<Keeper>,
    law: Law,
    settings: Settings,
}

/// What the user wants of each connection's transport.
type Settings = Box<dyn Fn(&mut quinn::TransportConfig) + Send + Sync>;

impl Paced {
    /// A quinn server at `addr`. Must be called within a tokio runtime with I/O enabled.
    pub fn server(config: quinn::ServerConfig, addr: SocketAddr, law: Law) -> io::Result<Self> {
        Self::new(&EndpointConfig::default(), Some(config), bind(addr)?, law)
    }

    /// A quinn endpoint at `addr` that only begins connections. Must be called within a tokio runtime with I/O
    /// enabled.
    pub fn client(addr: SocketAddr, law: Law) -> io::Result<Self> {
        Self::new(&EndpointConfig::default(), None, bind(addr)?, law)
    }

    /// A quinn endpoint on a socket that the caller brings; of `config` its anchor, its send clock and its socket
    /// buffers are used.
    pub fn new(
        config: &EndpointConfig,
        server: Option<quinn::ServerConfig>,
        socket: UdpSocket,
        law: Law,
    ) -> io::Result<Self> {
        let keeper = Keeper::start(config, socket)?;
        let socket = Arc::new(PacedSocket::new(keeper.clone()));
        let endpoint = quinn::Endpoint::new_with_abstract_socket(
            quinn::EndpointConfig::default(),
            server,
            socket,
            Arc::new(quinn::TokioRuntime),
        )?;
        Ok(Self { endpoint, keeper, law, settings: Box::new(|_| {}) })
    }

    /// Sets up the transport of each connection, whose congestion controller, packet threshold and ACK frequency come
    /// from the law. Default: quinn's own.
    #[must_use]
    pub fn with_transport(
        self,
        settings: impl Fn(&mut quinn::TransportConfig) + Send + Sync + 'static,
    ) -> Self {
        Self { settings: Box::new(settings), ..self }
    }

    /// quinn's endpoint, for everything else. Connections that it begins or accepts by itself are not paced.
    pub fn endpoint(&self) -> &quinn::Endpoint {
        &self.endpoint
    }

    /// Begins a connection; `config`'s transport is replaced.
    pub fn connect(
        &self,
        mut config: quinn::ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<quinn::Connecting, quinn::ConnectError> {
        config.transport_config(self.transport(remote));
        self.endpoint.connect_with(config, remote, server_name)
    }

    /// Accepts a client; `config`'s transport is replaced.
    pub fn accept(
        &self,
        incoming: quinn::Incoming,
        mut config: quinn::ServerConfig,
    ) -> Result<quinn::Connecting, quinn::ConnectionError> {
        config.transport_config(self.transport(incoming.remote_address()));
        incoming.accept_with(Arc::new(config))
    }

    fn transport(&self, remote: SocketAddr) -> Arc<quinn::TransportConfig> {
        let mut transport = quinn::TransportConfig::default();
        self.law.set_acknowledgements(&mut transport);
        (self.settings)(&mut transport);
        transport.congestion_controller_factory(self.law.controllers(self.keeper.slot(remote)));
        Arc::new(transport)
    }
}

impl fmt::Debug for Paced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paced").field("endpoint", &self.endpoint).field("law", &self.law).finish()
    }
}
