//! Who sends.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use rustls::pki_types::CertificateDer;
use warprate::cc::{Fixed, PathStart};
use warprate::conn::DropIn;
use warprate::stock::Paced;
use warprate::units::{Bytes, Rate};
use warprate::{Endpoint, EndpointConfig, Law, TransportConfig, VarInt};

use super::receiver::SENDER;

/// Size of every datagram.
pub const DATAGRAM: Bytes = Bytes::new(1452);

/// Before the measurement: the handshake, and what a window that opens lets out at once.
pub const WARM_UP: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// Our endpoint under the law `fixed`.
    Warprate,
    /// quinn on our paced socket, under the same law.
    Paced,
    /// Stock quinn under the same law as a window.
    Quinn,
    /// A datagram at a time, each after `sleep_until`.
    Tokio,
}

pub const SENDERS: [Sender; 4] = [Sender::Warprate, Sender::Paced, Sender::Quinn, Sender::Tokio];

impl Sender {
    pub fn name(self) -> &'static str {
        match self {
            Self::Warprate => "warprate",
            Self::Paced => "quinn, paced",
            Self::Quinn => "quinn",
            Self::Tokio => "tokio sleeps",
        }
    }

    /// Sends from a thread of its own, in this thread's namespace; the CPU that it took after the start.
    pub fn run(
        self,
        rate: Rate,
        time: Duration,
        to: SocketAddr,
        trusted: &CertificateDer<'static>,
    ) -> Duration {
        let roots = roots(trusted);
        let thread = thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
            runtime.block_on(async move {
                match self {
                    Self::Warprate => warprate(rate, time, to, roots).await,
                    Self::Paced => paced(rate, time, to, roots).await,
                    Self::Quinn => quinn(rate, time, to, roots).await,
                    Self::Tokio => tokio_sleeps(rate, time, to).await,
                }
            })
        });
        thread.join().expect("the sender does not panic")
    }
}

fn roots(trusted: &CertificateDer<'static>) -> Arc<rustls::RootCertStore> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted.clone()).expect("the certificate was just made");
    Arc::new(roots)
}

/// The CPU that this thread takes between the start and `time` later.
async fn cpu(time: Duration) -> Duration {
    tokio::time::sleep(WARM_UP).await;
    let before = thread_cpu();
    tokio::time::sleep(time).await;
    thread_cpu() - before
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}

fn socket() -> UdpSocket {
    UdpSocket::bind((SENDER, 0)).expect("a free port")
}

async fn warprate(rate: Rate, time: Duration, to: SocketAddr, roots: Arc<rustls::RootCertStore>) -> Duration {
    let endpoint = Endpoint::new(EndpointConfig::default(), None, socket()).expect("an endpoint");
    let mut config = warprate::ClientConfig::with_root_certificates(roots).expect("roots suffice");
    let mut transport = TransportConfig::default();
    transport.initial_mtu(u16::try_from(DATAGRAM.get()).expect("a datagram's size"));
    config.transport_config(Arc::new(transport)).law(Law::fixed(rate, Bytes::mb(64)));
    let connection =
        endpoint.connect_with(config, to, "localhost").expect("valid").await.expect("a handshake");
    let mut stream = connection.open_uni().await.expect("a stream");
    let writer = tokio::spawn(async move { while stream.write_chunk(chunk()).await.is_ok() {} });
    let spent = cpu(time).await;
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    writer.await.expect("the writer does not panic");
    spent
}

async fn quinn(rate: Rate, time: Duration, to: SocketAddr, roots: Arc<rustls::RootCertStore>) -> Duration {
    let runtime = Arc::new(quinn::TokioRuntime);
    let endpoint = quinn::Endpoint::new(quinn::EndpointConfig::default(), None, socket(), runtime);
    let endpoint = endpoint.expect("an endpoint");
    let mut config = quinn::ClientConfig::with_root_certificates(roots).expect("roots suffice");
    let mut transport = quinn::TransportConfig::default();
    set_up(&mut transport);
    transport.congestion_controller_factory(Arc::new(DropIn::new(move |_: PathStart| {
        Fixed::new(rate, Bytes::mb(64))
    })));
    config.transport_config(Arc::new(transport));
    let connecting = endpoint.connect_with(config, to, "localhost").expect("valid");
    send(&endpoint, connecting, time).await
}

async fn paced(rate: Rate, time: Duration, to: SocketAddr, roots: Arc<rustls::RootCertStore>) -> Duration {
    let law = Law::fixed(rate, Bytes::mb(64));
    let paced = Paced::new(&EndpointConfig::default(), None, socket(), law).expect("an endpoint");
    let paced = paced.with_transport(set_up);
    let config = quinn::ClientConfig::with_root_certificates(roots).expect("roots suffice");
    let connecting = paced.connect(config, to, "localhost").expect("valid");
    send(paced.endpoint(), connecting, time).await
}

fn set_up(transport: &mut quinn::TransportConfig) {
    transport.initial_mtu(u16::try_from(DATAGRAM.get()).expect("a datagram's size")).send_window(64 << 20);
}

async fn send(endpoint: &quinn::Endpoint, connecting: quinn::Connecting, time: Duration) -> Duration {
    let connection = connecting.await.expect("a handshake");
    let mut stream = connection.open_uni().await.expect("a stream");
    let writer = tokio::spawn(async move { while stream.write_chunk(chunk()).await.is_ok() {} });
    let spent = cpu(time).await;
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    writer.await.expect("the writer does not panic");
    spent
}

async fn tokio_sleeps(rate: Rate, time: Duration, to: SocketAddr) -> Duration {
    let socket = tokio::net::UdpSocket::from_std({
        let socket = socket();
        socket.set_nonblocking(true).expect("a socket can");
        socket
    })
    .expect("a runtime with I/O");
    let sender = tokio::spawn(async move {
        let start = tokio::time::Instant::now();
        let datagram = vec![7; DATAGRAM.as_len()];
        for i in 0.. {
            tokio::time::sleep_until(start + DATAGRAM.times(i) / rate).await;
            socket.send_to(&datagram, to).await.expect("the interface is there");
        }
    });
    let spent = cpu(time).await;
    sender.abort();
    spent
}

fn chunk() -> bytes::Bytes {
    vec![7; 1 << 20].into()
}
