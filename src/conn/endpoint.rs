//! Endpoints: where connections begin.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use quinn_proto::VarInt;
use quinn_proto::crypto;
use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng, TryRng};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::cid::ShardCids;
use super::clock;
use super::config::{ClientHandshake, Law, TransportConfig};
use super::connection::{Connecting, Connection};
use super::core::{self, Setup};
use super::driver::Driver;
use super::error::{ConnectError, ConnectionError};
use super::interface::{Outlet, Outlets, SendClock};
use super::sampler::SendClockStats;
use super::shard::{EndpointState, Shard};
use super::sizing::Sizing;
use super::socket::Socket;
use super::wait::until;
use super::watcher;
use crate::units::{Bytes as Size, Rate};

/// What all connections of an endpoint share.
#[derive(Debug, Clone, Default)]
pub struct EndpointConfig {
    anchor: Option<Rate>,
    send_clock: SendClock,
    socket_buffer: Option<Size>,
}

impl EndpointConfig {
    /// Line rate (UDP payload) of the interfaces: all connections that leave by one of them together never
    /// send faster. Default: what the kernel knows of each, and 10 Gbit/s where it knows nothing, see
    /// [`AnchorSource`](super::AnchorSource); it is looked up when a connection begins, and again when links
    /// or routes change. [`Endpoint::new`] refuses a rate of zero.
    pub fn anchor(&mut self, anchor: Rate) -> &mut Self {
        self.anchor = Some(anchor);
        self
    }

    /// Who holds datagrams until their departure, where the queue of the interface keeps release times;
    /// the timer does elsewhere. Default: `fq`. [`Endpoint::new`] refuses `etf` without CAP_NET_ADMIN.
    pub fn send_clock(&mut self, clock: SendClock) -> &mut Self {
        self.send_clock = clock;
        self
    }

    /// Socket buffer to ask the system for, each way. It may grant less; a line of the log then says what to
    /// raise. Default: what moves in a round trip, within
    /// [`SOCKET_BUFFERS`](super::SOCKET_BUFFERS). [`Endpoint::new`] refuses less than 64 KiB.
    pub fn socket_buffer(&mut self, buffer: Size) -> &mut Self {
        self.socket_buffer = Some(buffer);
        self
    }
}

/// [`Law::warprate`], its first seed drawn from the operating system.
impl Default for Law {
    fn default() -> Self {
        // What the system cannot draw is no reason to fail: it only spreads probes.
        Self::warprate(SysRng.try_next_u64().unwrap_or_default())
    }
}

/// How a server's connections begin and behave.
#[derive(Clone)]
pub struct ServerConfig {
    proto: quinn_proto::ServerConfig,
    law: Law,
    transport: TransportConfig,
}

impl ServerConfig {
    /// A server with this certificate chain, leaf first, and its key; TLS 1.3, no client certificates.
    pub fn with_single_cert(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        Ok(Self::new(quinn_proto::ServerConfig::with_single_cert(chain, key)?))
    }

    /// A server with a TLS configuration of your own, for instance a
    /// [`QuicServerConfig`](quinn_proto::crypto::rustls::QuicServerConfig) with ALPN.
    pub fn with_crypto(crypto: Arc<dyn crypto::ServerConfig>) -> Self {
        Self::new(quinn_proto::ServerConfig::with_crypto(crypto))
    }

    fn new(proto: quinn_proto::ServerConfig) -> Self {
        Self { proto, law: Law::default(), transport: TransportConfig::default() }
    }

    /// Congestion controller of the connections. Default: [`Law::warprate`], its seed drawn.
    pub fn law(&mut self, law: Law) -> &mut Self {
        self.law = law;
        self
    }

    /// Windows, timeouts and limits.
    pub fn transport(&mut self, transport: TransportConfig) -> &mut Self {
        self.transport = transport;
        self
    }
}

/// How a client's connections begin and behave.
#[derive(Clone)]
pub struct ClientConfig {
    handshake: ClientHandshake,
    law: Law,
    transport: TransportConfig,
}

impl ClientConfig {
    /// A client that trusts these authorities.
    ///
    /// Fails when one of them is unusable.
    pub fn with_root_certificates(
        roots: Arc<rustls::RootCertStore>,
    ) -> Result<Self, rustls::client::VerifierBuilderError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build()?;
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("ring speaks TLS 1.3")
            .with_webpki_verifier(verifier)
            .with_no_client_auth();
        let crypto = crypto::rustls::QuicClientConfig::try_from(tls).expect("ring has a QUIC cipher suite");
        Ok(Self::with_crypto(Arc::new(crypto)))
    }

    /// A client with a TLS configuration of your own, for instance a
    /// [`QuicClientConfig`](quinn_proto::crypto::rustls::QuicClientConfig) with ALPN.
    pub fn with_crypto(crypto: Arc<dyn crypto::ClientConfig>) -> Self {
        let handshake = ClientHandshake::new(crypto);
        Self { handshake, law: Law::default(), transport: TransportConfig::default() }
    }

    /// Congestion controller of the connections. Default: [`Law::warprate`], its seed drawn.
    pub fn law(&mut self, law: Law) -> &mut Self {
        self.law = law;
        self
    }

    /// Windows, timeouts and limits.
    pub fn transport(&mut self, transport: TransportConfig) -> &mut Self {
        self.transport = transport;
        self
    }
}

/// A UDP socket and the connections on it.
///
/// Clones are handles of the same endpoint. It serves its connections until the last of them has ended,
/// also after all handles are dropped; new clients are turned away from then on.
#[derive(Clone)]
pub struct Endpoint(Handle);

/// A counted reference to the shard.
struct Handle {
    shard: Arc<Shard>,
    shared: Arc<Settings>,
}

struct Settings {
    local_addr: SocketAddr,
    outlets: Arc<Outlets>,
    server: Option<ServerConfig>,
    client: Mutex<Option<ClientConfig>>,
}

impl Endpoint {
    /// An endpoint that accepts connections at `addr`, and may begin its own.
    ///
    /// Must be called within a tokio runtime with I/O enabled. The error names the address.
    pub fn server(config: ServerConfig, addr: SocketAddr) -> io::Result<Self> {
        Self::new(EndpointConfig::default(), Some(config), bind(addr)?)
    }

    /// An endpoint at `addr` that only begins connections; port 0 lets the system choose.
    ///
    /// Must be called within a tokio runtime with I/O enabled. The error names the address.
    pub fn client(addr: SocketAddr) -> io::Result<Self> {
        Self::new(EndpointConfig::default(), None, bind(addr)?)
    }

    /// An endpoint on a socket that the caller brings.
    pub fn new(config: EndpointConfig, server: Option<ServerConfig>, socket: UdpSocket) -> io::Result<Self> {
        if config.anchor.is_some_and(Rate::is_zero) {
            let message = "the anchor is `0 bit/s`: it must be a rate above zero";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if let Some(size) = config.socket_buffer.filter(|size| *size < LEAST_BUFFER) {
            let message =
                format!("the socket buffer is `{size}`: it must be {LEAST_BUFFER}, one batch, at least");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let sizing = Sizing::new(clock::now(), config.socket_buffer);
        let socket = Socket::new(socket, sizing.asked(), config.send_clock)?;
        let local_addr = socket.local_addr()?;
        let mut rng = StdRng::try_from_rng(&mut SysRng).map_err(io::Error::other)?;
        let mut proto_config = quinn_proto::EndpointConfig::default();
        let mut cid_seed = [0; 32];
        rng.fill_bytes(&mut cid_seed);
        proto_config.cid_generator(move || Box::new(ShardCids::new(THE_ONLY_SHARD, cid_seed)));
        let proto = quinn_proto::Endpoint::new(
            Arc::new(proto_config),
            server.as_ref().map(|server| Arc::new(server.proto.clone())),
            !socket.may_fragment(),
            None,
        );
        let shard = Shard::new(proto);
        let outlets = Arc::new(Outlets::new(local_addr.ip(), config.anchor, socket.clock()));
        let watcher = tokio::spawn(watcher::watch(Arc::downgrade(&shard), outlets.clone()));
        let watcher = watcher.abort_handle();
        let driver = Driver::new(shard.clone(), socket, sizing, outlets.clone(), watcher)?;
        let shared = Arc::new(Settings { local_addr, outlets, server, client: Mutex::new(None) });
        // The handle comes first: a driver that finds none takes its work for done.
        shard.add_handle();
        let endpoint = Self(Handle { shard, shared });
        tokio::spawn(driver);
        Ok(endpoint)
    }

    /// What [`connect`](Self::connect) uses from now on.
    pub fn set_default_client_config(&self, config: ClientConfig) {
        *self.0.shared.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(config);
    }

    /// Begins a connection to `remote`, whose certificate must be valid for `server_name`.
    pub fn connect(&self, remote: SocketAddr, server_name: &str) -> Result<Connecting, ConnectError> {
        let config = self.0.shared.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.connect_with(&config.ok_or(ConnectError::NoDefaultClientConfig)?, remote, server_name)
    }

    /// Begins a connection with a configuration of its own.
    pub fn connect_with(
        &self,
        config: &ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let remote = self.0.shared.reachable(remote)?;
        let outlet = self.0.shared.outlets.towards(remote);
        let setup = setup(&config.law, &config.transport, &outlet);
        let mut endpoint = self.0.shard.endpoint();
        if endpoint.is_closed || endpoint.is_dead {
            return Err(ConnectError::EndpointStopping);
        }
        let (handle, core) =
            core::connect(&mut endpoint.proto, clock::now(), &config.handshake, &setup, remote, server_name)?;
        Ok(Connecting::new(endpoint.insert(&self.0.shard, handle, core, outlet)))
    }

    /// Waits for a client to begin a connection; `None` once the endpoint is closed.
    pub async fn accept(&self) -> Option<Incoming> {
        self.wait(|endpoint| match endpoint.incoming.pop_front() {
            Some(incoming) => Some(Some(Incoming { inner: Some(incoming), endpoint: self.clone() })),
            None => (endpoint.is_closed || endpoint.is_dead).then_some(None),
        })
        .await
    }

    /// Ends all connections at once, telling the peers `code` and `reason`, and takes up no more.
    ///
    /// What has not been delivered is lost. Wait for [`wait_idle`](Self::wait_idle) afterwards, so that
    /// the peers hear of it.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        let reason = Bytes::copy_from_slice(reason);
        let connections: Vec<_> = {
            let mut endpoint = self.0.shard.endpoint();
            endpoint.close_door();
            endpoint.connections().cloned().collect()
        };
        for connection in connections {
            connection.lock().close(clock::now(), code, reason.clone());
        }
        self.0.shard.mark_endpoint_dirty();
    }

    /// Waits until every connection has ended and the peers have been told.
    pub async fn wait_idle(&self) {
        self.wait(|endpoint| (endpoint.is_idle() || endpoint.is_dead).then_some(())).await;
    }

    /// The socket's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.shared.local_addr
    }

    /// Connections that have not ended.
    pub fn open_connections(&self) -> usize {
        self.0.shard.endpoint().open_connections()
    }

    /// How well departures kept to their plans, since the endpoint began.
    pub fn send_clock_stats(&self) -> SendClockStats {
        self.0.shard.send_clock_stats()
    }

    async fn wait<T>(&self, mut ready: impl FnMut(&mut EndpointState) -> Option<T>) -> T {
        let shard = &self.0.shard;
        until(&shard.events, || ready(&mut shard.endpoint())).await
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("local_addr", &self.local_addr()).finish_non_exhaustive()
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        self.shard.add_handle();
        Self { shard: self.shard.clone(), shared: self.shared.clone() }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shard.remove_handle();
    }
}

impl Settings {
    /// `remote` as this socket can reach it: a dual-stack socket takes IPv4 as mapped addresses.
    fn reachable(&self, remote: SocketAddr) -> Result<SocketAddr, ConnectError> {
        match (self.local_addr, remote.ip()) {
            (SocketAddr::V4(_), IpAddr::V6(_)) => Err(ConnectError::InvalidRemoteAddress(remote)),
            (SocketAddr::V6(_), IpAddr::V4(ip)) => Ok((ip.to_ipv6_mapped(), remote.port()).into()),
            _ => Ok(remote),
        }
    }
}

/// A connection that a client has begun. Awaiting it accepts it; dropping it refuses it.
#[derive(Debug)]
pub struct Incoming {
    inner: Option<quinn_proto::Incoming>,
    endpoint: Endpoint,
}

impl Incoming {
    /// Takes the connection up, under the endpoint's server configuration; refuses it once the endpoint is
    /// closed.
    pub fn accept(mut self) -> Result<Connecting, ConnectionError> {
        let incoming = self.inner.take().expect("taken only here and when dropped");
        let Handle { shard, shared } = &self.endpoint.0;
        let config = shared.server.as_ref().expect("only servers get connections");
        let outlet = shared.outlets.towards(incoming.remote_address());
        let setup = setup(&config.law, &config.transport, &outlet);
        let mut response = Vec::new();
        let mut endpoint = shard.endpoint();
        if endpoint.is_closed || endpoint.is_dead {
            endpoint.refuse(incoming);
            shard.mark_endpoint_dirty();
            return Err(ConnectionError::LocallyClosed);
        }
        let accepted = core::accept(
            &mut endpoint.proto,
            clock::now(),
            config.proto.clone(),
            &setup,
            incoming,
            &mut response,
        );
        match accepted {
            Ok((handle, core)) => Ok(Connecting::new(endpoint.insert(shard, handle, core, outlet))),
            Err(error) => {
                if let Some(transmit) = error.response {
                    endpoint.respond(transmit, response);
                    shard.mark_endpoint_dirty();
                }
                Err(error.cause)
            }
        }
    }

    /// The client's address, not yet validated.
    pub fn remote_address(&self) -> SocketAddr {
        self.inner.as_ref().expect("taken only when used up").remote_address()
    }
}

impl IntoFuture for Incoming {
    type Output = Result<Connection, ConnectionError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.accept()?.await })
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(incoming) = self.inner.take() {
            let shard = &self.endpoint.0.shard;
            shard.endpoint().refuse(incoming);
            shard.mark_endpoint_dirty();
        }
    }
}

fn setup(law: &Law, transport: &TransportConfig, outlet: &Outlet) -> Setup {
    Setup { law: law.clone(), anchor: outlet.anchor, transport: transport.clone() }
}

fn bind(addr: SocketAddr) -> io::Result<UdpSocket> {
    UdpSocket::bind(addr)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot bind a UDP socket to {addr}: {error}")))
}

/// A full batch of datagrams, which the system sends, and receives, as one.
const LEAST_BUFFER: Size = Size::kib(64);

/// One socket, one task.
const THE_ONLY_SHARD: u8 = 0;
