//! One transfer over loopback by ours and by stock quinn, with everything equal but the stack: the same crypto (ring,
//! the first cipher suite that both ends offer), 1452-byte datagrams, the same flow-control windows and socket buffers,
//! one thread with a current-thread runtime per end, and the same way of writing and reading: 1 MB chunks in, unordered
//! chunks out.
#![allow(dead_code, reason = "each bench uses a part of it")]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use warprate::units::{Bytes as Size, Rate};
use warprate::{Endpoint, EndpointConfig, Law, TransportConfig, VarInt};

pub const SOCKET_BUFFER: usize = 2 << 20;
pub const STREAM_WINDOW: u32 = 32 << 20;
pub const CONNECTION_WINDOW: u32 = 64 << 20;
pub const MTU: u16 = 1452;

/// Who transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    Quinn,
    /// Ours as it is: under WarpRATE.
    Ours,
    /// Under `fixed` at 40 Gbit/s: more than a thread sends, so that the pacer works and holds nothing back.
    Fixed,
    /// Under `fixed` at 10 Tbit/s: every burst is a full batch, and always due.
    Unpaced,
}

impl Stack {
    /// Names the threads, for profilers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quinn => "quinn",
            Self::Ours => "warprate",
            Self::Fixed => "fixed",
            Self::Unpaced => "unpaced",
        }
    }
}

#[derive(Clone, Copy)]
pub struct Cost {
    pub wall: Duration,
    pub cpu: Duration,
}

pub struct Certificate {
    pub chain: CertificateDer<'static>,
    key: Vec<u8>,
    chain_pem: String,
    key_pem: String,
}

impl Certificate {
    pub fn new() -> Self {
        let certified =
            rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a name is valid");
        Self {
            chain: certified.cert.der().clone(),
            key: certified.signing_key.serialize_der(),
            chain_pem: certified.cert.pem(),
            key_pem: certified.signing_key.serialize_pem(),
        }
    }

    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }

    /// For libraries that read files.
    pub fn pem(&self) -> (String, String) {
        (self.chain_pem.clone(), self.key_pem.clone())
    }

    pub fn roots(&self) -> Arc<rustls::RootCertStore> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.chain.clone()).expect("the certificate was just made");
        Arc::new(roots)
    }
}

/// Transfers `bytes` from a server thread to a client thread.
pub fn transfer(stack: Stack, bytes: u64, certificate: &Certificate) -> Cost {
    if stack == Stack::Quinn {
        return between_threads(
            stack.name(),
            |address| quinn_server(bytes, certificate, address),
            |address| quinn_client(bytes, certificate, address),
        );
    }
    between_threads(
        stack.name(),
        |address| our_server(stack, bytes, certificate, address),
        |address| our_client(bytes, certificate, address),
    )
}

/// Runs a server, which tells its address, and a client, which measures, in a thread each.
pub fn between_threads<S, C>(
    name: &str,
    serve: impl FnOnce(mpsc::Sender<SocketAddr>) -> S + Send,
    download: impl FnOnce(SocketAddr) -> C + Send,
) -> Cost
where
    S: Future<Output = ()>,
    C: Future<Output = Cost>,
{
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let named = |end| std::thread::Builder::new().name(format!("{name}-{end}"));
        let server = move || runtime().block_on(serve(tell));
        named("send").spawn_scoped(scope, server).expect("a thread starts");
        let address = told.recv().expect("the server is listening");
        let client = move || runtime().block_on(download(address));
        let client = named("recv").spawn_scoped(scope, client).expect("a thread starts");
        client.join().expect("the client does not panic")
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts")
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}

pub fn meter() -> impl FnOnce() -> Cost {
    let (wall, before) = (Instant::now(), cpu());
    move || Cost { wall: wall.elapsed(), cpu: cpu() - before }
}

pub fn chunks(bytes: u64) -> impl Iterator<Item = Bytes> {
    let chunk = Bytes::from(vec![7; 1 << 20]);
    let mut left = bytes;
    std::iter::from_fn(move || {
        let take = left.min(chunk.len() as u64);
        left -= take;
        (take > 0).then(|| chunk.slice(..usize::try_from(take).expect("at most a megabyte")))
    })
}

pub fn localhost() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

async fn our_server(stack: Stack, bytes: u64, certificate: &Certificate, address: mpsc::Sender<SocketAddr>) {
    let mut config =
        warprate::ServerConfig::with_single_cert(vec![certificate.chain.clone()], certificate.key())
            .expect("the key belongs to the certificate");
    config.transport_config(Arc::new(our_transport()));
    match stack {
        Stack::Fixed => config.law(Law::fixed(Rate::gbps(40), Size::mib(16))),
        Stack::Unpaced => config.law(Law::fixed(Rate::gbps(10_000), Size::mib(16))),
        Stack::Ours | Stack::Quinn => &mut config,
    };
    let endpoint = our_endpoint(Some(config));
    address.send(endpoint.local_addr().expect("bound")).expect("the client waits");
    let connection = endpoint.accept().await.expect("open").await.expect("a handshake");
    let mut stream = connection.open_uni().await.expect("a stream");
    for chunk in chunks(bytes) {
        stream.write_chunk(chunk).await.expect("the client reads");
    }
    stream.finish().expect("open");
    connection.closed().await;
}

async fn our_client(bytes: u64, certificate: &Certificate, server: SocketAddr) -> Cost {
    let mut config = warprate::ClientConfig::with_root_certificates(certificate.roots()).expect("roots");
    config.transport_config(Arc::new(our_transport()));
    let endpoint = our_endpoint(None);
    let connection =
        endpoint.connect_with(config, server, "localhost").expect("valid").await.expect("a handshake");
    let mut stream = connection.accept_uni().await.expect("a stream");
    let stop = meter();
    let mut received = 0;
    while let Some(chunk) = stream.read_chunk(usize::MAX, false).await.expect("no reset") {
        received += chunk.bytes.len() as u64;
    }
    let cost = stop();
    assert_eq!(received, bytes);
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    cost
}

fn our_transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .initial_mtu(MTU)
        .stream_receive_window(Size::new(STREAM_WINDOW.into()))
        .receive_window(Size::new(CONNECTION_WINDOW.into()))
        .send_window(Size::new(STREAM_WINDOW.into()));
    transport
}

fn our_endpoint(server: Option<warprate::ServerConfig>) -> Endpoint {
    let mut config = EndpointConfig::default();
    config.anchor(Rate::gbps(10_000));
    config.socket_buffer(Size::of_len(SOCKET_BUFFER));
    let socket = UdpSocket::bind(localhost()).expect("a free port");
    Endpoint::new(config, server, socket).expect("an endpoint")
}

async fn quinn_server(bytes: u64, certificate: &Certificate, address: mpsc::Sender<SocketAddr>) {
    let mut config =
        quinn::ServerConfig::with_single_cert(vec![certificate.chain.clone()], certificate.key())
            .expect("the key belongs to the certificate");
    config.transport_config(quinn_transport());
    let endpoint = quinn_endpoint(Some(config));
    address.send(endpoint.local_addr().expect("bound")).expect("the client waits");
    let connection = endpoint.accept().await.expect("open").await.expect("a handshake");
    let mut stream = connection.open_uni().await.expect("a stream");
    for chunk in chunks(bytes) {
        stream.write_chunk(chunk).await.expect("the client reads");
    }
    stream.finish().expect("open");
    connection.closed().await;
}

async fn quinn_client(bytes: u64, certificate: &Certificate, server: SocketAddr) -> Cost {
    let mut config = quinn::ClientConfig::with_root_certificates(certificate.roots()).expect("roots");
    config.transport_config(quinn_transport());
    let endpoint = quinn_endpoint(None);
    let connection =
        endpoint.connect_with(config, server, "localhost").expect("valid").await.expect("a handshake");
    let mut stream = connection.accept_uni().await.expect("a stream");
    let stop = meter();
    let mut received = 0;
    while let Some(chunk) = stream.read_chunk(usize::MAX, false).await.expect("no reset") {
        received += chunk.bytes.len() as u64;
    }
    let cost = stop();
    assert_eq!(received, bytes);
    connection.close(VarInt::from_u32(0).into_inner().try_into().expect("small"), b"");
    endpoint.wait_idle().await;
    cost
}

fn quinn_transport() -> Arc<quinn::TransportConfig> {
    let mut transport = quinn::TransportConfig::default();
    transport
        .initial_mtu(MTU)
        .stream_receive_window(STREAM_WINDOW.into())
        .receive_window(CONNECTION_WINDOW.into())
        .send_window(STREAM_WINDOW.into());
    Arc::new(transport)
}

/// The system may grant less, to all stacks alike.
pub fn ask_buffers(socket: &UdpSocket) {
    let state = quinn_udp::UdpSocketState::new(socket.into()).expect("a UDP socket");
    let _ = state.set_send_buffer_size(socket.into(), SOCKET_BUFFER);
    let _ = state.set_recv_buffer_size(socket.into(), SOCKET_BUFFER);
}

fn quinn_endpoint(server: Option<quinn::ServerConfig>) -> quinn::Endpoint {
    let socket = UdpSocket::bind(localhost()).expect("a free port");
    ask_buffers(&socket);
    quinn::Endpoint::new(quinn::EndpointConfig::default(), server, socket, Arc::new(quinn::TokioRuntime))
        .expect("an endpoint")
}
