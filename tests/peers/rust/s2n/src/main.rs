//! hq-interop on s2n-quic, with rustls.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use peer_line::{ALPN, Command, Get, Serve, cannot};
use s2n_quic::client::Connect;
use s2n_quic::connection::Handle;
use s2n_quic::provider::endpoint_limits::{ConnectionAttempt, Limiter, Outcome};
use s2n_quic::provider::tls::rustls;
use s2n_quic::stream::BidirectionalStream;
use s2n_quic::{Client, Connection, Server};
use tokio::io::AsyncReadExt;

#[tokio::main]
async fn main() -> Result<()> {
    match Command::parse() {
        Command::Serve(options) => serve(Arc::new(options)).await,
        Command::Get(options) => get(Arc::new(options)).await,
    }
}

struct Retry(bool);

impl Limiter for Retry {
    fn on_connection_attempt(&mut self, _: &ConnectionAttempt<'_>) -> Outcome {
        if self.0 { Outcome::retry() } else { Outcome::allow() }
    }
}

async fn serve(options: Arc<Serve>) -> Result<()> {
    let tls = rustls::Server::builder()
        .with_certificate(options.cert.as_path(), options.key.as_path())
        .and_then(|builder| builder.with_application_protocols([ALPN].into_iter()).map_err(Into::into))
        .and_then(|builder| builder.build())
        .map_err(|error| anyhow!("{error}"))?;
    let mut server = Server::builder()
        .with_tls(tls)?
        .with_endpoint_limits(Retry(options.retry))?
        .with_io(options.listen)?
        .start()?;
    options.announce(server.local_addr()?);
    while let Some(connection) = server.accept().await {
        tokio::spawn(answer_all(connection, options.clone()));
    }
    Ok(())
}

async fn answer_all(mut connection: Connection, options: Arc<Serve>) {
    while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
        tokio::spawn(answer(stream, options.clone()));
    }
}

async fn answer(stream: BidirectionalStream, options: Arc<Serve>) -> Result<()> {
    let (mut receive, mut send) = stream.split();
    let mut request = Vec::new();
    receive.read_to_end(&mut request).await?;
    let file = options.file(&request).context("not a request")?;
    send.send(tokio::fs::read(file).await?.into()).await?;
    send.close().await?;
    Ok(())
}

async fn get(options: Arc<Get>) -> Result<()> {
    if options.early {
        cannot("s2n-quic has no 0-RTT");
    }
    if options.key_update {
        cannot("s2n-quic updates its keys only when their limit is near");
    }
    if options.migrate {
        cannot("s2n-quic's client does not migrate by itself");
    }
    let (address, mut paths) = options.targets().context("not a URL")?;
    let tls = rustls::Client::builder()
        .with_certificate(options.ca.as_path())
        .and_then(|builder| builder.with_application_protocols([ALPN].into_iter()).map_err(Into::into))
        .and_then(|builder| builder.build())
        .map_err(|error| anyhow!("{error}"))?;
    let client =
        Client::builder().with_tls(tls)?.with_io(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?.start()?;
    if options.resume {
        fetch_all(&options, &client, address, vec![paths.remove(0)]).await?;
    }
    fetch_all(&options, &client, address, paths).await
}

/// On a connection of their own.
async fn fetch_all(
    options: &Arc<Get>,
    client: &Client,
    address: SocketAddr,
    paths: Vec<String>,
) -> Result<()> {
    let connection = client.connect(Connect::new(address).with_server_name("localhost")).await?;
    let handle = connection.handle();
    let tasks: Vec<_> =
        paths.into_iter().map(|path| tokio::spawn(fetch(options.clone(), handle.clone(), path))).collect();
    for task in tasks {
        task.await??;
    }
    handle.close(0_u32.into());
    Ok(())
}

async fn fetch(options: Arc<Get>, mut handle: Handle, path: String) -> Result<()> {
    let (mut receive, mut send) = handle.open_bidirectional_stream().await?.split();
    send.send(format!("GET {path}\r\n").into()).await?;
    send.finish()?;
    let mut body = Vec::new();
    receive.read_to_end(&mut body).await?;
    Ok(tokio::fs::write(options.file(&path), body).await?)
}
