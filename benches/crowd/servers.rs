//! The servers, each a process of one thread.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use warprate::Law;

use super::clients::Crowd;

/// Who serves.
#[derive(Debug, Clone, Copy)]
pub enum Stack {
    /// With its default, WarpRATE.
    Warprate,
    /// With CUBIC and HyStart++, which is what its standard says.
    WarprateCubic,
    /// With quinn's own CUBIC: the rest makes the difference.
    WarprateQuinnCubic,
    Quinn,
}

impl Stack {
    pub const ALL: [Self; 4] = [Self::Warprate, Self::WarprateCubic, Self::WarprateQuinnCubic, Self::Quinn];

    pub fn name(self) -> &'static str {
        match self {
            Self::Warprate => "warprate",
            Self::WarprateCubic => "warprate, CUBIC",
            Self::WarprateQuinnCubic => "warprate, quinn's CUBIC",
            Self::Quinn => "quinn",
        }
    }

    /// If it is ours.
    fn law(self) -> Option<Law> {
        match self {
            Self::Warprate => Some(Law::default()),
            Self::WarprateCubic => Some(Law::cubic()),
            Self::WarprateQuinnCubic => Some(Law::quinn_cubic()),
            Self::Quinn => None,
        }
    }

    pub fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|stack| stack.name() == name);
        found.unwrap_or_else(|| panic!("no server is called {name}"))
    }
}

/// What a crowd cost its server.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub struct Cost {
    pub cpu_ms: f64,
    pub most_bytes: f64,
    pub kept_bytes: f64,
}

/// Tells where it listens, serves the crowd, and tells what that cost.
pub fn serve(stack: Stack, crowd: Crowd) {
    let data = Bytes::from(vec![7; crowd.bytes]);
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let before = cpu_ms();
    // Whoever is served stays connected until what is kept has been counted.
    let (mut quinn, mut warprate) = (None, None);
    let counted = allocation_counter::measure(|| {
        runtime.block_on(async {
            match stack.law() {
                Some(law) => warprate = Some(serve_with_warprate(law, data, crowd).await),
                None => quinn = Some(serve_with_quinn(data, crowd).await),
            }
        });
    });
    let cost = Cost {
        cpu_ms: cpu_ms() - before,
        most_bytes: counted.bytes_max as f64,
        kept_bytes: counted.bytes_current as f64,
    };
    println!("{}", serde_json::to_string(&cost).expect("plain data"));
}

fn cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 * 1e-6
}

async fn serve_with_warprate(
    law: Law,
    data: Bytes,
    crowd: Crowd,
) -> (warprate::Endpoint, Vec<warprate::Connection>) {
    let mut config = warprate::ServerConfig::with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key())
        .expect("the key belongs to the certificate");
    config.law(law);
    let mut socket_config = warprate::EndpointConfig::default();
    socket_config.socket_buffer(warprate::units::Bytes::of_len(SOCKET_BUFFER));
    let endpoint = warprate::Endpoint::new(socket_config, Some(config), socket()).expect("an endpoint");
    println!("{}", endpoint.local_addr().expect("bound"));
    let mut tasks = JoinSet::new();
    for _ in 0..crowd.clients {
        let incoming = endpoint.accept().await.expect("open");
        let data = data.clone();
        tasks.spawn(async move {
            let connection = incoming.await.expect("a handshake");
            let (mut stream, _) = connection.accept_bi().await.expect("a request");
            stream.write_chunk(data).await.expect("the client reads");
            stream.finish().expect("open");
            stream.stopped().await.expect("the client has all");
            connection
        });
    }
    (endpoint, tasks.join_all().await)
}

async fn serve_with_quinn(data: Bytes, crowd: Crowd) -> (quinn::Endpoint, Vec<quinn::Connection>) {
    let config = quinn::ServerConfig::with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key())
        .expect("the key belongs to the certificate");
    let endpoint = quinn_endpoint(Some(config));
    println!("{}", endpoint.local_addr().expect("bound"));
    let mut tasks = JoinSet::new();
    for _ in 0..crowd.clients {
        let incoming = endpoint.accept().await.expect("open");
        let data = data.clone();
        tasks.spawn(async move {
            let connection = incoming.await.expect("a handshake");
            let (mut stream, _) = connection.accept_bi().await.expect("a request");
            stream.write_chunk(data).await.expect("the client reads");
            stream.finish().expect("open");
            stream.stopped().await.expect("the client has all");
            connection
        });
    }
    (endpoint, tasks.join_all().await)
}

/// Stock quinn on a socket with as much room as ours; the system may grant less, to both alike.
pub fn quinn_endpoint(server: Option<quinn::ServerConfig>) -> quinn::Endpoint {
    let socket = socket();
    let state = quinn_udp::UdpSocketState::new((&socket).into()).expect("a UDP socket");
    let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER);
    let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER);
    quinn::Endpoint::new(quinn::EndpointConfig::default(), server, socket, Arc::new(quinn::TokioRuntime))
        .expect("an endpoint")
}

fn socket() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port")
}

fn key() -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(KEY).into()
}

/// The certificate of the simulator's servers, so that two processes have the same; no secret.
pub const CERTIFICATE: &[u8] = include_bytes!("../../sim/src/host/certificate.der");
const KEY: &[u8] = include_bytes!("../../sim/src/host/key.der");

/// Room for what a thousand connections send before they hear of anything.
const SOCKET_BUFFER: usize = 16 << 20;
