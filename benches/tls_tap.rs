//! What the tap on the TLS session costs: bulk between two `quinn-proto` endpoints in memory, with the tap and
//! without, in alternating pairs. `cargo bench --bench tls_tap [-- --pairs 15]`
//!
//! TLS 1.3 of ring, 1452-byte datagrams, one acknowledgement for ten packets as under a paced law; the log is
//! drained and the sealed number taken as the core does. No sockets and no law of ours: they would only make
//! the tap's part smaller.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(dead_code, reason = "the tap's files are compiled as they are")]

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::congestion::CubicConfig;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt,
};
use rustix::time::{ClockId, clock_gettime};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crypto::{TappedClient, TappedServer};
use tap::Shared;

#[path = "../src/conn/crypto.rs"]
mod crypto;
#[path = "../src/conn/tap.rs"]
mod tap;
mod signal {
    pub(crate) use warprate::signal::*;
}
mod units {
    pub(crate) use warprate::units::*;
}

const TRANSFER: usize = 200_000_000;
const MTU: u16 = 1452;
/// Datagrams that one end sends before the other has its turn.
const TURN: usize = 64;
const TURN_TIME: Duration = Duration::from_micros(100);

fn main() {
    let pairs = options();
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a valid name");
    let key = certificate.signing_key.serialize_der();
    let chain = certificate.cert.der();
    transfer(true, chain, &key);
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        // Who goes first alternates too.
        let order = if pair % 2 == 0 { [true, false] } else { [false, true] };
        let costs = order.map(|is_tapped| transfer(is_tapped, chain, &key));
        let (tapped, plain) = if pair % 2 == 0 { (costs[0], costs[1]) } else { (costs[1], costs[0]) };
        eprintln!("  pair {}: tapped {tapped:.3?}, plain {plain:.3?} of CPU", pair + 1);
        ratios.push(tapped.as_secs_f64() / plain.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    let quartile = |number: usize| 100.0 * (ratios[(ratios.len() - 1) * number / 4] - 1.0);
    println!(
        "the tap's part of the CPU of bulk without sockets, {} MB, {pairs} pairs: median {:+.2} %, quartiles {:+.2} \
         and {:+.2} %",
        TRANSFER / 1_000_000,
        quartile(2),
        quartile(1),
        quartile(3)
    );
}

fn options() -> usize {
    let mut pairs = 15;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--pairs" => {
                let value = args.next().expect("--pairs needs a value");
                pairs = value.parse().expect("--pairs takes a whole number");
            }
            // Cargo's own.
            "--bench" => {}
            other => panic!("unknown option {other}; known is --pairs"),
        }
    }
    pairs
}

/// An end: its endpoint, its connection, and what its tap shares.
struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    tap: Option<Arc<Shared>>,
    server: Option<Arc<ServerConfig>>,
    peer: SocketAddr,
    log: Vec<tap::Entry>,
    datagrams: Vec<u8>,
}

impl End {
    fn new(server: Option<ServerConfig>, tap: Option<Arc<Shared>>, peer: SocketAddr) -> Self {
        let server = server.map(Arc::new);
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), server.clone(), true, None);
        Self { endpoint, connection: None, tap, server, peer, log: Vec::new(), datagrams: Vec::new() }
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.connection.as_mut().expect("the handshake has begun").1
    }

    /// Takes in what has arrived.
    fn receive(&mut self, now: Instant, arrived: &mut VecDeque<BytesMut>) {
        let mut response = Vec::new();
        for datagram in arrived.drain(..) {
            match self.endpoint.handle(now, self.peer, None, None, datagram, &mut response) {
                Some(DatagramEvent::ConnectionEvent(_, event)) => self.connection().handle_event(event),
                Some(DatagramEvent::NewConnection(incoming)) => {
                    let accepted = self.endpoint.accept(incoming, now, &mut response, self.server.clone());
                    self.connection = Some(accepted.unwrap_or_else(|_| panic!("the client is welcome")));
                }
                Some(DatagramEvent::Response(_)) | None => {}
            }
        }
    }

    /// Sends a turn's datagrams, and drains the tap's log.
    fn send(&mut self, now: Instant, out: &mut VecDeque<BytesMut>) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        while out.len() < TURN {
            self.datagrams.clear();
            let Some(transmit) = connection.poll_transmit(now, 1, &mut self.datagrams) else { break };
            out.push_back(BytesMut::from(&self.datagrams[..transmit.size]));
            if let Some(tap) = &self.tap {
                std::hint::black_box(tap.take_sealed());
            }
        }
        if let Some(tap) = &self.tap {
            tap.drain(&mut self.log);
        }
    }
}

/// The CPU time of both ends for the transfer after the handshake.
fn transfer(is_tapped: bool, chain: &CertificateDer<'static>, key: &[u8]) -> Duration {
    let [mut client, mut server] = ends(is_tapped, chain, key);
    let mut now = Instant::now();
    let tls = client_config(client.tap.clone(), chain);
    client.connection = Some(client.endpoint.connect(now, tls, SERVER, "localhost").expect("valid"));
    let (mut to_server, mut to_client) = (VecDeque::new(), VecDeque::new());
    let chunk = Bytes::from(vec![7; 1 << 20]);
    let (mut left, mut received) = (TRANSFER, 0);
    let (mut sending, mut begin): (Option<StreamId>, Option<Duration>) = (None, None);
    while received < TRANSFER {
        now += TURN_TIME;
        client.receive(now, &mut to_client);
        received += read(client.connection());
        client.send(now, &mut to_server);
        server.receive(now, &mut to_server);
        if let Some((_, connection)) = &mut server.connection {
            while let Some(event) = connection.poll() {
                if let Event::Connected = event {
                    sending = connection.streams().open(Dir::Uni);
                    begin = Some(cpu());
                }
            }
            if let Some(id) = sending {
                while left > 0 {
                    let piece = chunk.slice(..chunk.len().min(left));
                    match connection.send_stream(id).write_chunks(&mut [piece]) {
                        Ok(written) => left -= written.bytes,
                        Err(_) => break,
                    }
                }
            }
        }
        server.send(now, &mut to_client);
    }
    cpu() - begin.expect("the handshake came first")
}

fn ends(is_tapped: bool, chain: &CertificateDer<'static>, key: &[u8]) -> [End; 2] {
    let tap = || is_tapped.then(Shared::new);
    let server_tap = tap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.to_vec()));
    let mut config = ServerConfig::with_single_cert(vec![chain.clone()], key).expect("key and certificate");
    if let Some(shared) = server_tap.clone() {
        config.crypto = Arc::new(TappedServer { inner: config.crypto, shared });
    }
    config.transport_config(transport());
    [End::new(None, tap(), SERVER), End::new(Some(config), server_tap, CLIENT)]
}

fn client_config(tap: Option<Arc<Shared>>, chain: &CertificateDer<'static>) -> ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(chain.clone()).expect("the certificate was just made");
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("ring speaks TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let inner = Arc::new(QuicClientConfig::try_from(tls).expect("ring has a QUIC cipher suite"));
    let mut config = match tap {
        Some(shared) => ClientConfig::new(Arc::new(TappedClient { inner, shared })),
        None => ClientConfig::new(inner),
    };
    config.transport_config(transport());
    config
}

fn transport() -> Arc<TransportConfig> {
    let mut cubic = CubicConfig::default();
    // More than 32 bits: the token bucket stands aside.
    cubic.initial_window(1 << 33);
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(9));
    let mut transport = TransportConfig::default();
    transport
        .initial_mtu(MTU)
        .mtu_discovery_config(None)
        .congestion_controller_factory(Arc::new(cubic))
        .ack_frequency_config(Some(acks))
        .stream_receive_window(VarInt::from_u32(32 << 20))
        .receive_window(VarInt::from_u32(64 << 20))
        .send_window(32 << 20);
    Arc::new(transport)
}

/// What has arrived on the stream.
fn read(connection: &mut Connection) -> usize {
    let mut received = 0;
    while let Some(event) = connection.poll() {
        let id = match event {
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => connection.streams().accept(Dir::Uni),
            Event::Stream(StreamEvent::Readable { id }) => Some(id),
            _ => None,
        };
        let Some(id) = id else { continue };
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(false) else { continue };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            received += chunk.bytes.len();
        }
        let _ = chunks.finalize();
    }
    received
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}

const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 4433);
const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 4434);
