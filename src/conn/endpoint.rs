//! Endpoints: where connections begin.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use quinn_proto::VarInt;
use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng, TryRng};
use socket2::{Domain, Protocol, Type};

use super::cid::ShardCids;
use super::client::ClientConfig;
use super::clock;
use super::config::{Law, TransportConfig};
use super::connecting::Connecting;
use super::core::{self, Setup};
use super::driver::Driver;
use super::error::ConnectError;
use super::incoming::Incoming;
use super::interface::{Outlet, Outlets, SendClock};
use super::sampler::SendClockStats;
use super::server::ServerConfig;
use super::shard::{EndpointState, Shard};
use super::sizing::Sizing;
use super::socket::Socket;
use super::wait::until;
use super::watcher;
use crate::units::{Bytes as Size, Rate};

/// What all connections of an endpoint share.
#[derive(Debug, Clone, Default)]
pub struct EndpointConfig {
    pub(super) anchor: Option<Rate>,
    pub(super) send_clock: SendClock,
    pub(super) socket_buffer: Option<Size>,
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

    /// Whether an endpoint can be made of it.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.anchor.is_some_and(Rate::is_zero) {
            let message = "the anchor is `0 bit/s`: it must be a rate above zero";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if let Some(size) = self.socket_buffer.filter(|size| *size < LEAST_BUFFER) {
            let message =
                format!("the socket buffer is `{size}`: it must be {LEAST_BUFFER}, one batch, at least");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(())
    }
}

/// [`Law::warprate`], its first seed drawn from the operating system.
impl Default for Law {
    fn default() -> Self {
        // What the system cannot draw is no reason to fail: it only spreads probes.
        Self::warprate(SysRng.try_next_u64().unwrap_or_default())
    }
}

/// A UDP socket and the connections on it.
///
/// Clones are handles of the same endpoint. It serves its connections until the last of them has ended,
/// also after all handles are dropped; new clients are turned away from then on.
#[derive(Clone)]
pub struct Endpoint {
    handle: Handle,
    client: Option<ClientConfig>,
}

/// What became of handshakes since an endpoint began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Clients that were taken up.
    pub accepted_handshakes: u64,
    /// Connections that we have begun.
    pub outgoing_handshakes: u64,
    /// Clients that were turned away, whether by the application, or because it had let go.
    pub refused_handshakes: u64,
    /// Clients that got no answer.
    pub ignored_handshakes: u64,
    /// Clients that were sent a Retry.
    pub retried_handshakes: u64,
    /// Accepted clients whose handshake was given up for that of another, see
    /// [`ServerConfig::max_handshakes`].
    pub given_up_handshakes: u64,
    /// Answers to strangers (refusals, Retry, version negotiation, stateless resets) that were dropped since
    /// 1,024 others were waiting to be sent.
    pub dropped_answers: u64,
}

/// A counted reference to the shard.
pub(super) struct Handle {
    pub shard: Arc<Shard>,
    shared: Arc<Settings>,
}

struct Settings {
    config: EndpointConfig,
    /// The socket's address.
    local_addr: Mutex<SocketAddr>,
    outlets: Arc<Outlets>,
}

impl Endpoint {
    /// An endpoint that accepts connections at `addr`, and may begin its own. At `[::]` it serves IPv4, too.
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
        let server = server.map(Arc::new);
        config.check()?;
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
        let shard = Shard::new(proto, server);
        let outlets = Arc::new(Outlets::new(local_addr.ip(), config.anchor, socket.clock()));
        let watched = Arc::downgrade(&shard);
        let look_up = move |outlets: &Outlets| watcher::look_up_connections(&watched, outlets);
        let watcher = tokio::spawn(watcher::watch(outlets.clone(), look_up));
        let watcher = watcher.abort_handle();
        let driver = Driver::new(shard.clone(), socket, sizing, outlets.clone(), watcher)?;
        let local_addr = Mutex::new(local_addr);
        let shared = Arc::new(Settings { config, local_addr, outlets });
        // The handle comes first: a driver that finds none takes its work for done.
        shard.add_handle();
        let endpoint = Self { handle: Handle { shard, shared }, client: None };
        tokio::spawn(driver);
        Ok(endpoint)
    }

    /// What [`connect`](Self::connect) uses from now on, by this handle and by those cloned from it later.
    pub fn set_default_client_config(&mut self, config: ClientConfig) {
        self.client = Some(config);
    }

    /// Begins a connection to `remote`, whose certificate must be valid for `server_name`.
    pub fn connect(&self, remote: SocketAddr, server_name: &str) -> Result<Connecting, ConnectError> {
        let config = self.client.clone().ok_or(ConnectError::NoDefaultClientConfig)?;
        self.connect_with(config, remote, server_name)
    }

    /// Begins a connection with a configuration of its own.
    pub fn connect_with(
        &self,
        config: ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let remote = self.handle.shared.reachable(remote)?;
        let outlet = self.handle.shared.outlets.towards(remote);
        let setup = setup(&config.law, &config.transport, &outlet);
        let mut endpoint = self.handle.shard.endpoint();
        if endpoint.is_closed || endpoint.is_dead {
            return Err(ConnectError::EndpointStopping);
        }
        let (handle, core) =
            core::connect(&mut endpoint.proto, clock::now(), &config.handshake, &setup, remote, server_name)?;
        endpoint.stats.outgoing_handshakes += 1;
        Ok(Connecting::new(endpoint.insert(&self.handle.shard, handle, core, outlet, None)))
    }

    /// Serves the clients that come from now on under another configuration, or turns them away; those that
    /// have come before are served under the one that they met. Renews certificates without a restart.
    pub fn set_server_config(&self, config: Option<ServerConfig>) {
        self.handle.shard.endpoint().set_server(config.map(Arc::new));
    }

    /// Waits for a client to begin a connection; `None` once the endpoint is closed.
    pub async fn accept(&self) -> Option<Incoming> {
        self.wait(|endpoint| match endpoint.incoming.pop_front() {
            Some(waiting) => Some(Some(Incoming::new(waiting, self.handle.clone()))),
            None => (endpoint.is_closed || endpoint.is_dead).then_some(None),
        })
        .await
    }

    /// Goes on with another socket: the endpoint's own connections move with it, as those of a client do that
    /// changes from one network to another (RFC 9000 §9). They keep what their law has learned if the address
    /// and the interface stay the same, and start anew otherwise. Clients of a server do not find it at its
    /// new address.
    ///
    /// The socket must be of the same family as the one before it: addresses of peers are written for that.
    /// On an error the endpoint stays where it is.
    pub fn rebind(&self, socket: UdpSocket) -> io::Result<()> {
        let shared = &self.handle.shared;
        if self.handle.shard.endpoint().is_dead {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the endpoint has ended"));
        }
        let sizes = Sizing::new(clock::now(), shared.config.socket_buffer).asked();
        let socket = Socket::new(socket, sizes, shared.config.send_clock)?;
        let addr = socket.local_addr()?;
        let former = shared.local_addr();
        if former.is_ipv4() != addr.is_ipv4() {
            let message = format!("cannot move from {former} to {addr}: both must be IPv4, or both IPv6");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        *shared.local_addr.lock().unwrap_or_else(PoisonError::into_inner) = addr;
        shared.outlets.move_to(addr.ip(), socket.clock());
        self.handle.shard.rebind(socket);
        let is_other_address = former.ip() != addr.ip();
        let connections: Vec<_> = self.handle.shard.endpoint().connections().cloned().collect();
        for connection in connections {
            let remote = connection.lock().core.inner().remote_address();
            let outlet = shared.outlets.towards(remote);
            connection.lock().on_rebound(clock::now(), outlet, is_other_address);
        }
        Ok(())
    }

    /// Ends all connections at once, telling the peers `code` and `reason`, and takes up no more.
    ///
    /// What has not been delivered is lost. Wait for [`wait_idle`](Self::wait_idle) afterwards, so that
    /// the peers hear of it.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        let reason = Bytes::copy_from_slice(reason);
        let connections: Vec<_> = {
            let mut endpoint = self.handle.shard.endpoint();
            endpoint.close_door();
            endpoint.connections().cloned().collect()
        };
        for connection in connections {
            connection.lock().close(clock::now(), code, reason.clone());
        }
        self.handle.shard.mark_endpoint_dirty();
    }

    /// Waits until every connection has ended and the peers have been told.
    pub async fn wait_idle(&self) {
        self.wait(|endpoint| (endpoint.is_idle() || endpoint.is_dead).then_some(())).await;
    }

    /// The socket's address. Does not fail, but quinn's may.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.handle.shared.local_addr())
    }

    /// What became of handshakes since the endpoint began.
    pub fn stats(&self) -> EndpointStats {
        self.handle.shard.endpoint().stats
    }

    /// Connections that have not ended.
    pub fn open_connections(&self) -> usize {
        self.handle.shard.endpoint().open_connections()
    }

    /// How well departures kept to their plans, since the endpoint began.
    pub fn send_clock_stats(&self) -> SendClockStats {
        self.handle.shard.send_clock_stats()
    }

    async fn wait<T>(&self, mut ready: impl FnMut(&mut EndpointState) -> Option<T>) -> T {
        let shard = &self.handle.shard;
        until(&shard.events, || ready(&mut shard.endpoint())).await
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("local_addr", &self.handle.shared.local_addr())
            .finish_non_exhaustive()
    }
}

impl Handle {
    pub fn outlets(&self) -> &Outlets {
        &self.shared.outlets
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
    fn local_addr(&self) -> SocketAddr {
        *self.local_addr.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `remote` as this socket can reach it: a dual-stack socket takes IPv4 as mapped addresses.
    fn reachable(&self, remote: SocketAddr) -> Result<SocketAddr, ConnectError> {
        match (self.local_addr(), remote.ip()) {
            (SocketAddr::V4(_), IpAddr::V6(_)) => Err(ConnectError::InvalidRemoteAddress(remote)),
            (SocketAddr::V6(_), IpAddr::V4(ip)) => Ok((ip.to_ipv6_mapped(), remote.port()).into()),
            _ => Ok(remote),
        }
    }
}

/// How a connection that leaves by `outlet` is to behave.
pub(super) fn setup(law: &Law, transport: &TransportConfig, outlet: &Outlet) -> Setup {
    Setup { law: law.clone(), anchor: outlet.anchor, transport: transport.clone() }
}

/// A socket at `addr`; one for IPv6 takes IPv4 too, if its address does and the system can.
pub(super) fn bind(addr: SocketAddr) -> io::Result<UdpSocket> {
    let bind = || {
        let socket = socket2::Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
        if addr.is_ipv6()
            && let Err(error) = socket.set_only_v6(false)
        {
            tracing::debug!(%error, "the socket takes IPv6 only");
        }
        socket.bind(&addr.into())?;
        Ok(socket.into())
    };
    bind().map_err(|error: io::Error| {
        io::Error::new(error.kind(), format!("cannot bind a UDP socket to {addr}: {error}"))
    })
}

/// A full batch of datagrams, which the system sends, and receives, as one.
const LEAST_BUFFER: Size = Size::kib(64);

/// One socket, one task.
const THE_ONLY_SHARD: u8 = 0;
