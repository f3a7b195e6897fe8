//! The server: a task for each connection, and one for each request.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::BytesMut;
use rustls::KeyLogFile;
use rustls::crypto::ring;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use warprate::crypto::rustls::QuicServerConfig;
use warprate::{
    Connection, Endpoint, Incoming, ReadToEndError, RecvStream, SendStream, ServerConfig, TransportConfig,
    VarInt,
};

use super::options::{Serve, law_named};
use super::request::{ALPN, LONGEST, Refusal, requested};
use super::root::Root;
use super::trust::{Fingerprint, Identity};

pub async fn serve(options: &Serve) -> anyhow::Result<()> {
    let root = Arc::new(Root::open(&options.directory)?);
    let identity = match (&options.cert, &options.key) {
        (Some(cert), Some(key)) => Identity::read(cert, key)?,
        _ => Identity::self_signed(options.listen)?,
    };
    let fingerprint = identity.fingerprint();
    let mut config = ServerConfig::with_crypto(tls(identity)?);
    config.law(law_named(&options.law)).transport_config(Arc::new(transport()));
    let endpoint = Endpoint::server(config, options.listen)?;
    announce(options, endpoint.local_addr()?, fingerprint).context("cannot write to stdout")?;
    while let Some(incoming) = endpoint.accept().await {
        if options.retry && incoming.may_retry() && !incoming.remote_address_validated() {
            let _ = incoming.retry();
        } else {
            tokio::spawn(greet(incoming, root.clone()));
        }
    }
    Ok(())
}

fn tls(identity: Identity) -> anyhow::Result<Arc<QuicServerConfig>> {
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(identity.chain, identity.key)
        .context("the private key is not that of the certificate")?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    // All or nothing (RFC 9001 §4.6.1). A request that is played again only reads a file again.
    tls.max_early_data_size = u32::MAX;
    // It writes only where the environment asks for it.
    tls.key_log = Arc::new(KeyLogFile::new());
    Ok(Arc::new(QuicServerConfig::try_from(tls)?))
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    // Requests come on streams of the other kind.
    transport.max_concurrent_uni_streams(VarInt::from_u32(0));
    transport
}

fn announce(options: &Serve, address: SocketAddr, fingerprint: Fingerprint) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "serving {} on {address}", options.directory.display())?;
    writeln!(out, "certificate {fingerprint}")?;
    writeln!(out, "bulk_download get https://{address}/FILE --pin {fingerprint}")?;
    out.flush()
}

async fn greet(incoming: Incoming, root: Arc<Root>) {
    let client = incoming.remote_address();
    match incoming.await {
        Ok(connection) => answer_all(&connection, &root).await,
        Err(error) => say(client, &error.to_string()),
    }
}

/// Until the client ends the connection, in whatever way.
async fn answer_all(connection: &Connection, root: &Arc<Root>) {
    while let Ok((send, receive)) = connection.accept_bi().await {
        tokio::spawn(answer(connection.remote_address(), send, receive, root.clone()));
    }
}

async fn answer(client: SocketAddr, mut send: SendStream, mut receive: RecvStream, root: Arc<Root>) {
    let file = match timeout(PATIENCE, asked(&mut receive, root)).await {
        Ok(Ok(file)) => file,
        Ok(Err(NoFile::Refused(refusal))) => return refuse(client, &mut send, &mut receive, refusal),
        Ok(Err(NoFile::Gone)) => return,
        Err(_) => return refuse(client, &mut send, &mut receive, Refusal::Late),
    };
    if let Err(refusal) = copy(file, &mut send).await {
        refuse(client, &mut send, &mut receive, refusal);
    }
}

/// Why there is nothing to send.
enum NoFile {
    Refused(Refusal),
    /// The client no longer waits.
    Gone,
}

async fn asked(receive: &mut RecvStream, root: Arc<Root>) -> Result<File, NoFile> {
    let request = receive.read_to_end(LONGEST).await.map_err(|error| match error {
        ReadToEndError::TooLong => NoFile::Refused(Refusal::TooLong),
        _ => NoFile::Gone,
    })?;
    let path: PathBuf = requested(&request).map_err(NoFile::Refused)?;
    let opened = tokio::task::spawn_blocking(move || root.file(&path)).await;
    opened.unwrap_or(Err(Refusal::Unreadable)).map_err(NoFile::Refused)
}

/// Sends the file and ends the stream. A client that stops it has its reasons.
async fn copy(file: File, send: &mut SendStream) -> Result<(), Refusal> {
    let mut file = tokio::fs::File::from_std(file);
    loop {
        let mut chunk = BytesMut::with_capacity(CHUNK);
        match file.read_buf(&mut chunk).await {
            Ok(0) => break,
            Ok(_) => {}
            Err(_) => return Err(Refusal::Unreadable),
        }
        if send.write_chunk(chunk.freeze()).await.is_err() {
            return Ok(());
        }
    }
    let _ = send.finish();
    Ok(())
}

/// Only this stream ends; it may have ended by itself.
fn refuse(client: SocketAddr, send: &mut SendStream, receive: &mut RecvStream, refusal: Refusal) {
    let code = VarInt::from_u32(refusal.code());
    let _ = send.reset(code);
    let _ = receive.stop(code);
    say(client, &format!("refused a request: {refusal}"));
}

/// A reader that has gone away is no reason to stop.
fn say(client: SocketAddr, text: &str) {
    let _ = writeln!(io::stderr(), "{client}: {text}");
}

/// For a whole request, which is one datagram.
const PATIENCE: Duration = Duration::from_secs(10);

/// Chunks of this size are not copied; a hundred streams keep 26 MB of them.
const CHUNK: usize = 256 * 1024;
