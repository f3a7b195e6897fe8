//! TLS over the kernel's TCP: what an application on this machine can have at best.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;

use rustls::crypto::ring;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::stacks::{Certificate, Cost, between_threads, chunks, localhost, meter};

pub fn transfer(bytes: u64, certificate: &Certificate) -> Cost {
    between_threads(
        "tcp",
        |address| serve(bytes, certificate, address),
        |address| download(bytes, certificate, address),
    )
}

async fn serve(bytes: u64, certificate: &Certificate, address: mpsc::Sender<SocketAddr>) {
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.chain.clone()], certificate.key())
        .expect("the key belongs to the certificate");
    let listener = TcpListener::bind(localhost()).await.expect("a free port");
    address.send(listener.local_addr().expect("bound")).expect("the client waits");
    let (stream, _) = listener.accept().await.expect("a client");
    let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await.expect("a handshake");
    for chunk in chunks(bytes) {
        stream.write_all(&chunk).await.expect("the client reads");
    }
    stream.shutdown().await.expect("the client reads");
}

async fn download(bytes: u64, certificate: &Certificate, server: SocketAddr) -> Cost {
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has TLS 1.3")
        .with_root_certificates(certificate.roots())
        .with_no_client_auth();
    let stream = TcpStream::connect(server).await.expect("the server listens");
    let name = "localhost".try_into().expect("a name");
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await.expect("a handshake");
    let stop = meter();
    let mut buffer = vec![0; 1 << 20];
    let mut received = 0;
    loop {
        match stream.read(&mut buffer).await.expect("no reset") {
            0 => break,
            len => received += len as u64,
        }
    }
    let cost = stop();
    assert_eq!(received, bytes);
    cost
}
