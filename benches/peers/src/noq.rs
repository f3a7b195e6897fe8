//! n0's fork of quinn.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc;

use crate::stacks::{
    CONNECTION_WINDOW, Certificate, Cost, MTU, STREAM_WINDOW, ask_buffers, between_threads, chunks,
    localhost, meter,
};

pub fn transfer(bytes: u64, certificate: &Certificate) -> Cost {
    between_threads(
        "noq",
        |address| serve(bytes, certificate, address),
        |address| download(bytes, certificate, address),
    )
}

async fn serve(bytes: u64, certificate: &Certificate, address: mpsc::Sender<SocketAddr>) {
    let mut config = noq::ServerConfig::with_single_cert(vec![certificate.chain.clone()], certificate.key())
        .expect("the key belongs to the certificate");
    config.transport_config(transport());
    let endpoint = endpoint(Some(config));
    address.send(endpoint.local_addr().expect("bound")).expect("the client waits");
    let connection = endpoint.accept().await.expect("open").await.expect("a handshake");
    let mut stream = connection.open_uni().await.expect("a stream");
    for chunk in chunks(bytes) {
        stream.write_chunk(chunk).await.expect("the client reads");
    }
    stream.finish().expect("open");
    connection.closed().await;
}

async fn download(bytes: u64, certificate: &Certificate, server: SocketAddr) -> Cost {
    let mut config = noq::ClientConfig::with_root_certificates(certificate.roots()).expect("roots");
    config.transport_config(transport());
    let endpoint = endpoint(None);
    let connection =
        endpoint.connect_with(config, server, "localhost").expect("valid").await.expect("a handshake");
    let mut stream = connection.accept_uni().await.expect("a stream").into_unordered();
    let stop = meter();
    let mut received = 0;
    while let Some(chunk) = stream.read_chunk(usize::MAX).await.expect("no reset") {
        received += chunk.bytes.len() as u64;
    }
    let cost = stop();
    assert_eq!(received, bytes);
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    cost
}

fn transport() -> Arc<noq::TransportConfig> {
    let mut transport = noq::TransportConfig::default();
    transport
        .initial_mtu(MTU)
        .stream_receive_window(STREAM_WINDOW.into())
        .receive_window(CONNECTION_WINDOW.into())
        .send_window(STREAM_WINDOW.into());
    Arc::new(transport)
}

fn endpoint(server: Option<noq::ServerConfig>) -> noq::Endpoint {
    let socket = UdpSocket::bind(localhost()).expect("a free port");
    ask_buffers(&socket);
    noq::Endpoint::new(noq::EndpointConfig::default(), server, socket, Arc::new(noq::TokioRuntime))
        .expect("an endpoint")
}
