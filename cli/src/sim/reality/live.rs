//! A topology's only flow on real sockets: the library's own endpoints, with warplink's relay between.
#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::time::timeout;
use warplink::{DirectionStats, PathProfile, RelayStats, UdpRelay};
use warprate::rustls::RootCertStore;
use warprate::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use warprate::{ClientConfig, Connection, Endpoint, EndpointConfig, Law, ServerConfig, TransportConfig};
use warpsim::host::quic::{CERTIFICATE, KEY};
use warpsim::scenario::{self, payload_rate};
use warpsim::topology::{Flow, Topology};
use warpunits::Bytes;

/// What came of a live run.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Stream bits per second, from the server's first write to the last byte at the client.
    pub goodput_bps: f64,
    /// Data packets that the link lost at random.
    pub random_losses: u64,
    /// Data packets that the link's full queue dropped.
    pub overflow_drops: u64,
    /// How late the relay was, 99th percentile of the later direction.
    pub late_p99: Duration,
    /// Packets that the kernel dropped, which the path did not.
    pub kernel_drops: u64,
}

impl Outcome {
    /// Whether the figures say more about the machine than about the path.
    pub fn is_disturbed(&self, rtt: Duration) -> bool {
        self.kernel_drops > 0 || self.late_p99 > rtt / 20
    }
}

/// Downloads under `law` over the links of `topology`, which are the reverse and then the forward one of
/// its only flow: as the relay numbers them, so that they draw what the simulator's draw.
pub fn download(topology: &Topology, law: &Law, seed: u64) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start a tokio runtime")?;
    runtime.block_on(async {
        match timeout(DEADLINE, run(topology, law, seed)).await {
            Ok(outcome) => outcome,
            Err(_) => bail!("a live download did not end within {DEADLINE:?}"),
        }
    })
}

async fn run(topology: &Topology, law: &Law, seed: u64) -> anyhow::Result<Outcome> {
    let flow = &topology.flows[0];
    let bytes = flow.bytes.context("the flow has no end")?;
    let path = scenario::path(topology, flow)?;
    let (server, client) = endpoints(flow, law)?;
    // The relay's `forward` is what clients send: in a download the acknowledgements.
    let relayed = PathProfile { forward: path.reverse, reverse: path.forward };
    let relay = UdpRelay::start(localhost(), server.local_addr()?, &relayed, seed)?;
    let ((first_write, _server), (last_byte, _client)) =
        tokio::try_join!(serve(&server, bytes), fetch(&client, &relay, bytes))?;
    let stats = relay.stats();
    Ok(Outcome {
        goodput_bps: bytes.get() as f64 * 8.0 / (last_byte - first_write).as_secs_f64(),
        random_losses: stats.to_client.random_losses,
        overflow_drops: stats.to_client.overflow_drops,
        late_p99: stats.to_client.lateness.p99.max(stats.to_server.lateness.p99),
        kernel_drops: kernel_drops(&stats),
    })
}

/// Server and client with what their simulated counterparts have.
fn endpoints(flow: &Flow, law: &Law) -> anyhow::Result<(Endpoint, Endpoint)> {
    let certificate = CertificateDer::from(CERTIFICATE);
    let mut transport = TransportConfig::default();
    transport.initial_mtu(flow.mtu);
    let transport = Arc::new(transport);
    let mut server = ServerConfig::with_single_cert(
        vec![certificate.clone()],
        PrivatePkcs8KeyDer::from(KEY.to_vec()).into(),
    )?;
    server.law(law.clone()).transport_config(transport.clone());
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client.law(law.clone()).transport_config(transport);
    let mut endpoint = EndpointConfig::default();
    endpoint.anchor(payload_rate(flow.nic, flow.mtu));
    let bind = || UdpSocket::bind(localhost()).context("cannot bind a socket");
    let server = Endpoint::new(endpoint.clone(), Some(server), bind()?)?;
    let mut clients = Endpoint::new(endpoint, None, bind()?)?;
    clients.set_default_client_config(client);
    Ok((server, clients))
}

/// Writes everything; the moment before the first write. Nothing is in flight then and no pacer holds
/// it back, so the first datagram with stream data leaves within microseconds.
async fn serve(endpoint: &Endpoint, bytes: Bytes) -> anyhow::Result<(Instant, Connection)> {
    let incoming = endpoint.accept().await.context("the server's endpoint has stopped")?;
    let connection = incoming.await.context("server, handshake")?;
    let mut stream = connection.open_uni().await?;
    let data = bytes::Bytes::from(vec![0; CHUNK.as_len()]);
    let first_write = Instant::now();
    let mut left = bytes;
    while !left.is_zero() {
        let chunk = data.slice(..left.min(CHUNK).as_len());
        left -= Bytes::of_len(chunk.len());
        stream.write_chunk(chunk).await.context("server, writing")?;
    }
    stream.finish()?;
    stream.stopped().await.context("server, waiting for the last acknowledgement")?;
    Ok((first_write, connection))
}

/// Reads everything; the moment at which the last byte was readable.
async fn fetch(endpoint: &Endpoint, relay: &UdpRelay, bytes: Bytes) -> anyhow::Result<(Instant, Connection)> {
    let connection = endpoint.connect(relay.local_addr(), "localhost")?.await.context("client, handshake")?;
    let mut stream = connection.accept_uni().await.context("client, waiting for the stream")?;
    let mut received = Bytes::ZERO;
    let mut last_byte = None;
    while let Some(chunk) = stream.read_chunk(usize::MAX, false).await.context("client, reading")? {
        received += Bytes::of_len(chunk.bytes.len());
        if received == bytes {
            last_byte = Some(Instant::now());
        }
    }
    ensure!(received == bytes, "the stream ended after {received} of {bytes}");
    Ok((last_byte.context("nothing was to be received")?, connection))
}

fn kernel_drops(stats: &RelayStats) -> u64 {
    let of = |direction: &DirectionStats| direction.kernel_refused + direction.receive_drops.unwrap_or(0);
    of(&stats.to_client) + of(&stats.to_server)
}

fn localhost() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// As the simulated server writes.
const CHUNK: Bytes = Bytes::mib(1);

/// No run takes a tenth of it unless something is wrong.
const DEADLINE: Duration = Duration::from_secs(60);
