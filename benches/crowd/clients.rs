//! The crowd: stock quinn's clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::servers::{CERTIFICATE, quinn_endpoint};

/// How many, and how much each of them downloads.
#[derive(Debug, Clone, Copy)]
pub struct Crowd {
    pub clients: usize,
    pub bytes: usize,
}

/// The crowd when all have what they came for. They stay connected until it is dropped.
pub struct Served {
    /// From the first request to the last byte.
    pub time: Duration,
    _connections: Vec<quinn::Connection>,
    _runtime: Runtime,
}

/// All connect, a few at a time; then all ask at once, and read what they get.
pub fn download(crowd: Crowd, server: SocketAddr) -> Served {
    let runtime =
        Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime starts");
    let connections = runtime.block_on(connect(crowd, server));
    let start = Instant::now();
    runtime.block_on(async {
        let mut downloads = JoinSet::new();
        for connection in connections.clone() {
            downloads.spawn(async move { assert_eq!(ask(&connection).await, crowd.bytes) });
        }
        downloads.join_all().await;
    });
    Served { time: start.elapsed(), _connections: connections, _runtime: runtime }
}

async fn connect(crowd: Crowd, server: SocketAddr) -> Vec<quinn::Connection> {
    let mut endpoint = quinn_endpoint(None);
    endpoint.set_default_client_config(trusting());
    let (mut connections, mut handshakes) = (Vec::new(), JoinSet::new());
    for _ in 0..crowd.clients {
        if handshakes.len() == AT_A_TIME {
            connections.push(handshakes.join_next().await.expect("some").expect("no panic"));
        }
        let connecting = endpoint.connect(server, "localhost").expect("the parameters are valid");
        handshakes.spawn(async move { connecting.await.expect("a handshake") });
    }
    connections.append(&mut handshakes.join_all().await);
    connections
}

/// How many bytes the server sends.
async fn ask(connection: &quinn::Connection) -> usize {
    let (mut request, mut answer) = connection.open_bi().await.expect("a stream");
    request.write_all(b"all").await.expect("the server listens");
    let mut received = 0;
    while let Some(chunk) = answer.read_chunk(usize::MAX, false).await.expect("no reset") {
        received += chunk.bytes.len();
    }
    received
}

fn trusting() -> quinn::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(CERTIFICATE)).expect("the certificate is well formed");
    quinn::ClientConfig::with_root_certificates(Arc::new(roots)).expect("roots")
}

/// Few enough that no Initial packet is dropped, which would cost a second.
const AT_A_TIME: usize = 20;
