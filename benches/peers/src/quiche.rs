//! Cloudflare's quiche under its tokio driver.

use std::future::pending;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::oneshot;
use tokio_quiche::metrics::DefaultMetrics;
use tokio_quiche::quic::{HandshakeInfo, QuicheConnection, connect_with_config};
use tokio_quiche::quiche::Error;
use tokio_quiche::settings::{CertificateKind, Hooks, QuicSettings, TlsCertificatePaths};
use tokio_quiche::socket::Socket;
use tokio_quiche::{ApplicationOverQuic, ConnectionParams, QuicResult, listen};

use crate::stacks::{
    CONNECTION_WINDOW, Certificate, Cost, MTU, STREAM_WINDOW, ask_buffers, between_threads, chunks,
    localhost, meter,
};

pub fn transfer(bytes: u64, certificate: &Certificate) -> Cost {
    between_threads(
        "quiche",
        |address| serve(bytes, certificate, address),
        |address| download(bytes, address),
    )
}

async fn serve(bytes: u64, certificate: &Certificate, address: mpsc::Sender<SocketAddr>) {
    let files = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: String| {
        let path = files.path().join(name);
        std::fs::write(&path, text).expect("it can be written");
        path.to_str().expect("a name of ours").to_owned()
    };
    let (cert, private_key) = certificate.pem();
    let (cert, private_key) = (write("cert", cert), write("key", private_key));
    let paths = TlsCertificatePaths { cert: &cert, private_key: &private_key, kind: CertificateKind::X509 };
    let socket = socket();
    let local = socket.local_addr().expect("bound");
    let params = ConnectionParams::new_server(settings(), paths, Hooks::default());
    let mut listeners = listen([socket], params, DefaultMetrics).expect("a server");
    address.send(local).expect("the client waits");
    let connection = listeners[0].next().await.expect("open").expect("a client");
    let (tell, told) = oneshot::channel();
    let left = chunks(bytes).collect();
    connection.start(Sending { left, closed: Some(tell) });
    let _ = told.await;
}

async fn download(bytes: u64, server: SocketAddr) -> Cost {
    let socket = tokio::net::UdpSocket::from_std(socket()).expect("a runtime with I/O");
    socket.connect(server).await.expect("loopback");
    let socket = Socket::try_from(socket).expect("a socket");
    let params = ConnectionParams::new_client(settings(), None, Hooks::default());
    let (tell, told) = oneshot::channel();
    let receiving = Receiving { received: 0, buffer: vec![0; 1 << 20], done: Some(tell) };
    let connection =
        connect_with_config(socket, Some("localhost"), &params, receiving).await.expect("a handshake");
    let stop = meter();
    let received = told.await.expect("the whole stream");
    let cost = stop();
    assert_eq!(received, bytes);
    drop(connection);
    cost
}

/// The server's first stream of its own.
const STREAM: u64 = 3;

struct Sending {
    /// Last first.
    left: Vec<Bytes>,
    closed: Option<oneshot::Sender<()>>,
}

impl ApplicationOverQuic for Sending {
    fn on_conn_established(&mut self, _: &mut QuicheConnection, _: &HandshakeInfo) -> QuicResult<()> {
        self.left.reverse();
        Ok(())
    }

    fn should_act(&self) -> bool {
        true
    }

    async fn wait_for_data(&mut self, _: &mut QuicheConnection) -> QuicResult<()> {
        pending().await
    }

    fn process_reads(&mut self, _: &mut QuicheConnection) -> QuicResult<()> {
        Ok(())
    }

    fn process_writes(&mut self, connection: &mut QuicheConnection) -> QuicResult<()> {
        while let Some(mut chunk) = self.left.pop() {
            let is_last = self.left.is_empty();
            match connection.stream_send(STREAM, &chunk, is_last) {
                Ok(sent) if sent == chunk.len() => {}
                Ok(sent) => {
                    let _ = chunk.split_to(sent);
                    self.left.push(chunk);
                    break;
                }
                Err(Error::Done) => {
                    self.left.push(chunk);
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn on_conn_close<M: tokio_quiche::metrics::Metrics>(
        &mut self,
        _: &mut QuicheConnection,
        _: &M,
        _: &QuicResult<()>,
    ) {
        self.closed.take().into_iter().for_each(|closed| {
            let _ = closed.send(());
        });
    }
}

struct Receiving {
    received: u64,
    buffer: Vec<u8>,
    done: Option<oneshot::Sender<u64>>,
}

impl ApplicationOverQuic for Receiving {
    fn on_conn_established(&mut self, _: &mut QuicheConnection, _: &HandshakeInfo) -> QuicResult<()> {
        Ok(())
    }

    fn should_act(&self) -> bool {
        true
    }

    async fn wait_for_data(&mut self, _: &mut QuicheConnection) -> QuicResult<()> {
        pending().await
    }

    fn process_reads(&mut self, connection: &mut QuicheConnection) -> QuicResult<()> {
        loop {
            match connection.stream_recv(STREAM, &mut self.buffer) {
                Ok((len, is_end)) => {
                    self.received += len as u64;
                    if is_end && let Some(done) = self.done.take() {
                        let _ = done.send(self.received);
                        connection.close(true, 0, b"")?;
                    }
                }
                Err(Error::Done | Error::InvalidStreamState(_)) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn process_writes(&mut self, _: &mut QuicheConnection) -> QuicResult<()> {
        Ok(())
    }
}

fn settings() -> QuicSettings {
    let mut settings = QuicSettings::default();
    settings.alpn = vec![b"bulk".to_vec()];
    settings.initial_max_data = CONNECTION_WINDOW.into();
    settings.max_connection_window = CONNECTION_WINDOW.into();
    settings.initial_max_stream_data_uni = STREAM_WINDOW.into();
    settings.max_stream_window = STREAM_WINDOW.into();
    settings.max_send_udp_payload_size = MTU.into();
    settings.max_recv_udp_payload_size = MTU.into();
    settings.disable_client_ip_validation = true;
    settings
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(localhost()).expect("a free port");
    ask_buffers(&socket);
    socket.set_nonblocking(true).expect("a socket can");
    socket
}
