//! s2n-quic, with rustls.

use std::net::SocketAddr;
use std::sync::mpsc;

use s2n_quic::client::Connect;
use s2n_quic::provider::io::tokio::Provider as Io;
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::rustls;
use s2n_quic::{Client, Server};

use crate::stacks::{
    CONNECTION_WINDOW, Certificate, Cost, MTU, SOCKET_BUFFER, STREAM_WINDOW, between_threads, chunks,
    localhost, meter,
};

pub fn transfer(bytes: u64, certificate: &Certificate) -> Cost {
    between_threads(
        "s2n",
        |address| serve(bytes, certificate, address),
        |address| download(bytes, certificate, address),
    )
}

async fn serve(bytes: u64, certificate: &Certificate, address: mpsc::Sender<SocketAddr>) {
    let tls = rustls::Server::builder()
        .with_certificate(certificate.pem().0, certificate.pem().1)
        .and_then(|builder| builder.build())
        .expect("the key belongs to the certificate");
    let mut server = Server::builder()
        .with_tls(tls)
        .expect("TLS")
        .with_limits(limits())
        .expect("limits")
        .with_io(io())
        .expect("a socket")
        .start()
        .expect("a server");
    address.send(server.local_addr().expect("bound")).expect("the client waits");
    let mut connection = server.accept().await.expect("a client");
    let mut stream = connection.open_send_stream().await.expect("a stream");
    for chunk in chunks(bytes) {
        stream.send(chunk).await.expect("the client reads");
    }
    // The client may be gone once it has read all.
    let _ = stream.close().await;
}

async fn download(bytes: u64, certificate: &Certificate, server: SocketAddr) -> Cost {
    let tls = rustls::Client::builder()
        .with_certificate(certificate.pem().0)
        .and_then(|builder| builder.build())
        .expect("TLS");
    let client = Client::builder()
        .with_tls(tls)
        .expect("TLS")
        .with_limits(limits())
        .expect("limits")
        .with_io(io())
        .expect("a socket")
        .start()
        .expect("a client");
    let connect = Connect::new(server).with_server_name("localhost");
    let mut connection = client.connect(connect).await.expect("a handshake");
    let mut stream = connection.accept_receive_stream().await.expect("open").expect("a stream");
    let stop = meter();
    let mut received = 0;
    while let Some(chunk) = stream.receive().await.expect("no reset") {
        received += chunk.len() as u64;
    }
    let cost = stop();
    assert_eq!(received, bytes);
    cost
}

fn limits() -> Limits {
    let fits = "within the library's bounds";
    Limits::new()
        .with_data_window(CONNECTION_WINDOW.into())
        .expect(fits)
        .with_unidirectional_data_window(STREAM_WINDOW.into())
        .expect(fits)
        .with_max_send_buffer_size(STREAM_WINDOW)
        .expect(fits)
}

fn io() -> Io {
    let fits = "within the library's bounds";
    Io::builder()
        .with_receive_address(localhost())
        .expect("loopback")
        .with_send_buffer_size(SOCKET_BUFFER)
        .expect(fits)
        .with_recv_buffer_size(SOCKET_BUFFER)
        .expect(fits)
        .with_max_mtu(MTU + 28)
        .expect(fits)
        .build()
        .expect("an I/O provider")
}
