//! hq-interop on stock quinn.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use clap::Parser;
use peer_line::{ALPN, BETWEEN_UPDATES, Command, Get, MOVES_AFTER, Serve};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, Incoming, RecvStream, SendStream, ServerConfig};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// On one thread, so that early requests are there when the first datagram is made.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    match Command::parse() {
        Command::Serve(options) => serve(Arc::new(options)).await,
        Command::Get(options) => get(Arc::new(options)).await,
    }
}

async fn serve(options: Arc<Serve>) -> Result<()> {
    let chain = CertificateDer::pem_file_iter(&options.cert)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(&options.key)?;
    let mut tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls.max_early_data_size = u32::MAX;
    let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let endpoint = Endpoint::server(config, options.listen)?;
    options.announce(endpoint.local_addr()?);
    while let Some(incoming) = endpoint.accept().await {
        if options.retry && !incoming.remote_address_validated() {
            incoming.retry()?;
            continue;
        }
        let options = options.clone();
        tokio::spawn(async move {
            if let Err(error) = answer_all(incoming, options).await {
                eprintln!("{error:#}");
            }
        });
    }
    Ok(())
}

async fn answer_all(incoming: Incoming, options: Arc<Serve>) -> Result<()> {
    let connection = incoming.await?;
    while let Ok((send, receive)) = connection.accept_bi().await {
        tokio::spawn(answer(send, receive, options.clone()));
    }
    Ok(())
}

async fn answer(mut send: SendStream, mut receive: RecvStream, options: Arc<Serve>) -> Result<()> {
    let request = receive.read_to_end(4096).await?;
    let file = options.file(&request).context("not a request")?;
    send.write_all(&tokio::fs::read(file).await?).await?;
    send.finish()?;
    Ok(())
}

async fn get(options: Arc<Get>) -> Result<()> {
    let (address, mut paths) = options.targets().context("not a URL")?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&options.ca)?)?;
    let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls.enable_early_data = options.early;
    let mut endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)));

    if options.resume || options.early {
        let connection = endpoint.connect(address, SERVER_NAME)?.await?;
        fetch_all(&options, &endpoint, &connection, vec![paths.remove(0)]).await?;
        connection.close(0_u32.into(), b"");
    }
    let connection = connect(&options, &endpoint, address).await?;
    if options.key_update {
        fetch_all(&options, &endpoint, &connection, vec![paths.remove(0)]).await?;
        tokio::time::sleep(BETWEEN_UPDATES).await;
        connection.force_key_update();
    }
    fetch_all(&options, &endpoint, &connection, paths).await?;
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

async fn connect(options: &Get, endpoint: &Endpoint, address: SocketAddr) -> Result<Connection> {
    let connecting = endpoint.connect(address, SERVER_NAME)?;
    if options.early {
        let (connection, _) = connecting.into_0rtt().ok().context("no ticket for early data")?;
        return Ok(connection);
    }
    Ok(connecting.await?)
}

async fn fetch_all(
    options: &Arc<Get>,
    endpoint: &Endpoint,
    connection: &Connection,
    paths: Vec<String>,
) -> Result<()> {
    let received = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = paths
        .into_iter()
        .map(|path| {
            let (options, received) = (options.clone(), received.clone());
            tokio::spawn(fetch(options, endpoint.clone(), connection.clone(), path, received))
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn fetch(
    options: Arc<Get>,
    endpoint: Endpoint,
    connection: Connection,
    path: String,
    received: Arc<AtomicU64>,
) -> Result<()> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(format!("GET {path}\r\n").as_bytes()).await?;
    send.finish()?;
    let mut body = Vec::new();
    while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
        body.extend_from_slice(&chunk.bytes);
        let more = chunk.bytes.len() as u64;
        let before = received.fetch_add(more, Ordering::Relaxed);
        if options.migrate && before < MOVES_AFTER && before + more >= MOVES_AFTER {
            endpoint.rebind(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?)?;
        }
    }
    Ok(tokio::fs::write(options.file(&path), body).await?)
}

const SERVER_NAME: &str = "localhost";
