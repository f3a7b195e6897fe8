//! A QUIC host: one end of one connection, run by the library's own sans-IO core.
//!
//! It is the code that runs on sockets, with the event queue in the place of the driver: the same
//! state machine, the same gate, the same control loop.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes as Data, BytesMut};
pub use quinn_proto::Side;
use quinn_proto::{
    ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ServerConfig, StreamEvent, StreamId, Transmit, VarInt,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use warplink::{Time, wire_bytes};
use warprate::conn::core::{self, Core, Setup};
use warprate::conn::{BatchLimits, ClientHandshake, ConnectionStats, Head};
use warpunits::Bytes;

use super::null_crypto::{NullClient, NullServer};
use super::stats::RttSamples;
use super::{Context, FlowStats, Host, Progress};
use crate::packet::{Body, Packet, RouteId};

/// How packets are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protection {
    /// TLS handshake, no cost per packet.
    #[default]
    Null,
    /// TLS 1.3 with AES-128-GCM.
    Tls,
}

/// What the application at this end does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends this much on one stream as soon as the connection is there, or without end.
    Send(Option<Bytes>),
    /// Reads.
    Receive,
}

/// One end of a connection.
pub struct QuicHost {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Core)>,
    role: Role,
    side: Side,
    setup: Setup,
    server: Option<ServerConfig>,
    client: Option<ClientHandshake>,
    route: RouteId,
    origin: Instant,
    start: Time,
    stream: Option<StreamId>,
    left: Option<Bytes>,
    progress: Progress,
    watch: Watch,
    batch: Vec<u8>,
    is_closing: bool,
}

/// What both ends need to find each other.
#[derive(Clone)]
pub struct QuicOptions {
    /// Law, anchor and transport parameters.
    pub setup: Setup,
    /// Packet protection.
    pub protection: Protection,
    /// Seeds this host's draws.
    pub seed: u64,
    /// Where its packets go.
    pub route: RouteId,
    /// The instant that stands for time zero.
    pub origin: Instant,
    /// When it begins.
    pub start: Time,
}

impl QuicHost {
    /// One end, idle until `start`, when the client connects.
    pub fn new(role: Role, side: Side, options: QuicOptions) -> Self {
        let mut endpoint_config = EndpointConfig::default();
        let mut rng_seed = [0; 32];
        rng_seed[..8].copy_from_slice(&options.seed.to_le_bytes());
        endpoint_config.rng_seed(Some(rng_seed));
        let cid_seed = options.seed;
        endpoint_config.cid_generator(move || Box::new(NumberedCids { seed: cid_seed, next: 0 }));
        let (server, client) = match side {
            Side::Server => (Some(server_config(options.protection)), None),
            Side::Client => (None, Some(client_handshake(options.protection, options.seed))),
        };
        let endpoint = Endpoint::new(Arc::new(endpoint_config), server.clone().map(Arc::new), true, None);
        let left = match role {
            Role::Send(bytes) => Some(bytes.unwrap_or(Bytes::MAX)),
            Role::Receive => None,
        };
        Self {
            endpoint,
            connection: None,
            role,
            side,
            setup: options.setup,
            server,
            client,
            route: options.route,
            origin: options.origin,
            start: options.start,
            stream: None,
            left,
            progress: Progress::default(),
            watch: Watch::new(),
            batch: Vec::new(),
            is_closing: false,
        }
    }

    /// What the connection did, in the library's own words.
    pub fn connection_stats(&self) -> Option<ConnectionStats> {
        self.connection.as_ref().map(|(_, core)| core.stats())
    }

    fn instant(&self, now: Time) -> Instant {
        self.origin + now.since_start()
    }

    fn connect(&mut self, now: Time) {
        let handshake = self.client.as_ref().expect("a client has its configuration");
        let instant = self.instant(now);
        let connection =
            core::connect(&mut self.endpoint, instant, handshake, &self.setup, SERVER_ADDRESS, SERVER_NAME)
                .expect("the parameters are valid");
        self.connection = Some(connection);
    }

    /// Lets everything happen that does not need time.
    fn settle(&mut self, cx: &mut Context<'_>) {
        let now = self.instant(cx.now);
        self.forward_events(cx.now);
        loop {
            self.write();
            let Some((_, core)) = &mut self.connection else { return };
            let Some(transmit) = core.poll_transmit(now, LIMITS, &mut self.batch) else { break };
            if self.stream.is_some() && self.progress.first_sent.is_none() {
                let has_sent = core.stats().proto.frame_tx.stream > 0;
                self.progress.first_sent = has_sent.then_some(cx.now);
            }
            launch(self.route, &transmit, &self.batch, cx);
        }
        self.forward_events(cx.now);
        self.observe(cx.now);
    }

    /// Notes what happened since the last look; a receiver has no flow to watch.
    fn observe(&mut self, now: Time) {
        let Some((_, core)) = self.connection.as_ref().filter(|_| self.role != Role::Receive) else { return };
        let stats = core.stats();
        if stats.path.delivered > self.watch.delivered {
            self.watch.delivered = stats.path.delivered;
            if let Some(rtt) = stats.path.rtt {
                self.watch.rtt.add(rtt.latest);
            }
        }
        if self.watch.first_loss.is_none() && !stats.path.lost.is_zero() {
            self.watch.first_loss = Some(now);
        }
        // A loss is a congestion event for the state machine, too; several packets share one event.
        let events = stats.proto.path.congestion_events;
        if self.watch.first_mark.is_none() && events > 0 && stats.path.lost.is_zero() {
            self.watch.first_mark = Some(now);
        }
    }

    /// Passes events between connection, endpoint and application.
    fn forward_events(&mut self, now: Time) {
        let instant = self.instant(now);
        let Some((handle, core)) = &mut self.connection else { return };
        while let Some(event) = core.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                core.handle_event(instant, event);
            }
        }
        let mut readable = None;
        while let Some(event) = core.poll() {
            match event {
                Event::Connected => self.progress.connected = Some(now),
                Event::ConnectionLost { .. } => self.progress.has_failed = self.progress.finished.is_none(),
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    readable = core.inner().streams().accept(Dir::Uni);
                }
                Event::Stream(StreamEvent::Readable { id }) => readable = Some(id),
                _ => {}
            }
        }
        if let Some(id) = readable {
            self.read(now, id);
        }
    }

    /// Hands the stream as much as it takes.
    fn write(&mut self) {
        let Some((_, core)) = self.connection.as_mut().filter(|_| self.progress.connected.is_some()) else {
            return;
        };
        let Some(left) = &mut self.left else { return };
        let id = *self
            .stream
            .get_or_insert_with(|| core.inner().streams().open(Dir::Uni).expect("the peer allows a stream"));
        while !left.is_zero() {
            let chunk = CHUNK.slice(..(*left).min(Bytes::of_len(CHUNK.len())).as_len());
            let mut rest = [chunk.clone()];
            if core.write_chunks(id, &mut rest).is_err() {
                return;
            }
            *left -= Bytes::of_len(chunk.len() - rest[0].len());
        }
        let _ = core.inner().send_stream(id).finish();
        self.left = None;
    }

    fn read(&mut self, now: Time, id: StreamId) {
        let Some((_, core)) = &mut self.connection else { return };
        let mut stream = core.inner().recv_stream(id);
        let Ok(mut chunks) = stream.read(false) else { return };
        let mut is_finished = false;
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    self.progress.received += Bytes::of_len(chunk.bytes.len());
                    self.progress.last_received = Some(now);
                }
                Ok(None) => {
                    is_finished = true;
                    break;
                }
                Err(_) => break,
            }
        }
        let _ = chunks.finalize();
        if is_finished {
            self.progress.finished = Some(now);
            self.is_closing = true;
            core.inner().close(self.origin + now.since_start(), VarInt::from_u32(0), Data::new());
        }
    }

    /// Passes a packet to the endpoint and its connection.
    fn take_in(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let Body::Datagram(data) = packet.body else { return };
        let now = self.instant(cx.now);
        let mut response = Vec::new();
        let data = BytesMut::from(Data::from(data));
        let head = Head::of(&data);
        let peer = if self.side.is_client() { SERVER_ADDRESS } else { CLIENT_ADDRESS };
        match self.endpoint.handle(now, peer, None, packet.ecn, data, &mut response) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, core)) = &mut self.connection {
                    core.handle_datagram(now, &head, event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let config = self.server.clone().expect("only servers get connections");
                let accepted =
                    core::accept(&mut self.endpoint, now, config, &self.setup, incoming, &mut response);
                if self.connection.is_none() {
                    self.connection = accepted.ok();
                }
            }
            Some(DatagramEvent::Response(transmit)) => launch(self.route, &transmit, &response, cx),
            None => {}
        }
    }
}

impl Host for QuicHost {
    fn wake(&mut self, cx: &mut Context<'_>) {
        if self.connection.is_none() && self.side.is_client() {
            self.connect(cx.now);
        }
        let now = self.instant(cx.now);
        if let Some((_, core)) = &mut self.connection {
            core.handle_timeout(now);
        }
        self.settle(cx);
    }

    fn receive(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.take_in(packet, cx);
        self.settle(cx);
    }

    fn receive_all(&mut self, packets: &mut Vec<Packet>, cx: &mut Context<'_>) {
        for packet in packets.drain(..) {
            self.take_in(packet, cx);
        }
        self.settle(cx);
    }

    fn next_wake(&mut self) -> Time {
        match &mut self.connection {
            Some((_, core)) => match core.poll_timeout() {
                Some(at) => Time::from(at.saturating_duration_since(self.origin)),
                None => Time::NEVER,
            },
            None if self.side.is_client() => self.start,
            None => Time::NEVER,
        }
    }

    fn is_finished(&self) -> bool {
        match self.role {
            Role::Receive => self.progress.finished.is_some() || self.progress.has_failed,
            // The receiver tells.
            Role::Send(_) => true,
        }
    }

    fn progress(&self) -> Option<Progress> {
        Some(self.progress)
    }

    fn stats(&self) -> Option<FlowStats> {
        let stats = self.connection_stats()?;
        Some(FlowStats {
            datagrams_sent: stats.proto.udp_tx.datagrams + stats.copies.datagrams,
            packets_lost: stats.proto.path.lost_packets,
            bytes_lost: stats.path.lost,
            rtt: self.watch.rtt.summary(),
            first_loss: self.watch.first_loss,
            first_mark: self.watch.first_mark,
            ..FlowStats::default()
        })
    }
}

/// What the connection's counters do not keep: when things first happened, and each round-trip time.
#[derive(Debug)]
struct Watch {
    delivered: Bytes,
    rtt: RttSamples,
    first_loss: Option<Time>,
    first_mark: Option<Time>,
}

impl Watch {
    fn new() -> Self {
        Self { delivered: Bytes::ZERO, rtt: RttSamples::new(), first_loss: None, first_mark: None }
    }
}

fn launch(route: RouteId, transmit: &Transmit, data: &[u8], cx: &mut Context<'_>) {
    for datagram in data[..transmit.size].chunks(transmit.segment_size.unwrap_or(transmit.size).max(1)) {
        cx.outbox.push(Packet {
            route,
            hop: 0,
            wire: wire_bytes(Bytes::of_len(datagram.len()), false),
            ecn: transmit.ecn,
            body: Body::Datagram(datagram.to_vec()),
        });
    }
}

fn server_config(protection: Protection) -> ServerConfig {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(KEY));
    let config = ServerConfig::with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)
        .expect("the pinned key belongs to the pinned certificate");
    match protection {
        Protection::Tls => config,
        Protection::Null => ServerConfig::with_crypto(Arc::new(NullServer(config.crypto))),
    }
}

fn client_handshake(protection: Protection, seed: u64) -> ClientHandshake {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(CERTIFICATE)).expect("the pinned certificate is well formed");
    let tls = quinn_proto::crypto::rustls::QuicClientConfig::try_from(
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("ring speaks TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth(),
    )
    .expect("ring has a QUIC cipher suite");
    let mut handshake = match protection {
        Protection::Tls => ClientHandshake::new(Arc::new(tls)),
        Protection::Null => ClientHandshake::new(Arc::new(NullClient(Arc::new(tls)))),
    };
    let cid = NumberedCids { seed, next: 0 }.generate_cid();
    handshake.initial_cids = Some(Arc::new(move || cid));
    handshake
}

/// Connection ids that follow from the host's seed.
struct NumberedCids {
    seed: u64,
    next: u64,
}

impl ConnectionIdGenerator for NumberedCids {
    fn generate_cid(&mut self) -> ConnectionId {
        self.next += 1;
        ConnectionId::new(&(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.next).to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// A megabyte of zeros, shared by all writes.
static CHUNK: Data = Data::from_static(&[0; 1 << 20]);

const SERVER_NAME: &str = "localhost";
const SERVER_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 4433);
const CLIENT_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 4434);

/// The largest GSO batch; the pacer's quantum bounds bursts.
const LIMITS: BatchLimits = BatchLimits { bytes: Bytes::new(65_507), segments: 64 };

/// The certificate of every simulated server: Ed25519, for `localhost`, valid from 2000 to 4096; made by
/// `sim/examples/pin_certificate.rs`. Ed25519 signatures have one length, so that handshakes have the same
/// packets in every run.
pub const CERTIFICATE: &[u8] = include_bytes!("certificate.der");
/// The certificate's key, PKCS #8: no secret.
pub const KEY: &[u8] = include_bytes!("key.der");
