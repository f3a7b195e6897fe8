// A server that echoes, and a client that uses whatever it finds. `run` tells what happened, without anything that
// differs from run to run.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, Incoming, RecvStream, SendStream, ServerConfig, VarInt};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

const PROTOCOL: &[u8] = b"echo";

/// What happened, in the order in which one end saw it.
#[derive(Clone, Default)]
struct Story(Arc<Mutex<Vec<String>>>);

impl Story {
    fn tell(&self, line: impl Into<String>) {
        self.0.lock().expect("nobody panics").push(line.into());
    }
}

pub async fn run() -> Result<Vec<String>> {
    let (client_story, server_story) = (Story::default(), Story::default());
    let (server_config, client_config) = configs()?;
    let endpoint = Endpoint::server(server_config, (Ipv4Addr::LOCALHOST, 0).into())?;
    let addr = endpoint.local_addr()?;
    let serving = tokio::spawn(serve(endpoint.clone(), server_story.clone()));
    client(addr, client_config, &client_story).await?;
    serving.await??;
    endpoint.wait_idle().await;
    assert_eq!(endpoint.open_connections(), 0);
    let mut story = client_story.0.lock().expect("nobody panics").clone();
    story.extend(server_story.0.lock().expect("nobody panics").clone());
    Ok(story)
}

fn configs() -> Result<(ServerConfig, ClientConfig)> {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let certificate = CertificateDer::from(certified.cert);
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());

    let mut server_crypto = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())?;
    server_crypto.alpn_protocols = vec![PROTOCOL.into()];
    server_crypto.max_early_data_size = u32::MAX;
    let mut server_config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server_crypto)?));
    let transport_config = Arc::get_mut(&mut server_config.transport).context("it is not shared yet")?;
    transport_config.max_concurrent_uni_streams(0_u8.into());
    transport_config.max_idle_timeout(Some(Duration::from_secs(20).try_into()?));

    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    let mut client_crypto = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    client_crypto.alpn_protocols = vec![PROTOCOL.into()];
    client_crypto.enable_early_data = true;
    let mut client_config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(client_crypto)?));
    let mut transport_config = quinn::TransportConfig::default();
    transport_config.keep_alive_interval(Some(Duration::from_secs(5))).send_fairness(true);
    client_config.transport_config(Arc::new(transport_config));
    Ok((server_config, client_config))
}

/// Serves three connections, the first one after a Retry.
async fn serve(endpoint: Endpoint, story: Story) -> Result<()> {
    let mut served = 0;
    while served < 3 {
        let incoming = endpoint.accept().await.context("the endpoint is open")?;
        if served == 0 && !incoming.remote_address_validated() {
            story.tell(format!("retry, as it may: {}", incoming.may_retry()));
            incoming.retry().map_err(|_| anyhow!("it was validated"))?;
            continue;
        }
        served += 1;
        handle_connection(incoming, &story).await?;
    }
    let stats = endpoint.stats();
    story.tell(format!("accepted {}, refused {}", stats.accepted_handshakes, stats.refused_handshakes));
    Ok(())
}

async fn handle_connection(incoming: Incoming, story: &Story) -> Result<()> {
    let connection = incoming.await?;
    let data = connection.handshake_data().context("it is over")?;
    let data = data.downcast::<HandshakeData>().map_err(|_| anyhow!("rustls it is"))?;
    story.tell(format!("a client of {:?} speaks {:?}", data.server_name, data.protocol));
    loop {
        tokio::select! {
            stream = connection.accept_bi() => match stream {
                Err(quinn::ConnectionError::ApplicationClosed(close)) => {
                    story.tell(format!("closed with {}: {:?}", close.error_code, close.reason));
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
                Ok(stream) => handle_request(stream, story).await?,
            },
            Ok(datagram) = connection.read_datagram() => connection.send_datagram(datagram)?,
        }
    }
}

async fn handle_request((mut send, mut recv): (SendStream, RecvStream), story: &Story) -> Result<()> {
    match recv.read_to_end(100_000).await {
        Ok(request) => {
            story.tell(format!("echo of {} bytes on {}", request.len(), send.id()));
            send.write_all(&request).await?;
            send.finish()?;
        }
        Err(quinn::ReadToEndError::TooLong) => {
            story.tell("too long");
            send.reset(VarInt::from_u32(13))?;
        }
        Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(code))) => story.tell(format!("reset with {code}")),
        Err(error) => bail!("failed to read the request: {error}"),
    }
    Ok(())
}

async fn client(server: SocketAddr, config: ClientConfig, story: &Story) -> Result<()> {
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(server, "localhost")?.await.context("failed to connect")?;
    story.tell(format!("connected to the server: {}", connection.remote_address() == server));
    requests(&connection, story).await?;

    // From another port.
    endpoint.rebind(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?)?;
    let answer = ask(&connection, b"after the move").await?;
    story.tell(format!("answered {}", String::from_utf8_lossy(&answer)));
    let mut material = [0; 32];
    connection.export_keying_material(&mut material, b"EXPORTER-echo", b"").map_err(|_| anyhow!("no material"))?;
    story.tell(format!("{} has sent and heard: {}", connection.side() == quinn::Side::Client, connection.rtt() > Duration::ZERO));
    connection.close(0_u32.into(), b"done");
    story.tell(format!("{}", connection.closed().await));

    // Again, and then in a hurry.
    let connection = endpoint.connect(server, "localhost")?.await?;
    connection.force_key_update();
    ask(&connection, b"with new keys").await?;
    connection.close(1_u32.into(), b"again");
    let connecting = endpoint.connect(server, "localhost")?;
    match connecting.into_0rtt() {
        Ok((connection, accepted)) => {
            let (mut send, mut recv) = connection.open_bi().await?;
            send.write_all(b"early").await?;
            send.finish()?;
            story.tell(format!("0-RTT: {:?}", recv.read_to_end(10).await?));
            story.tell(format!("accepted: {}", accepted.await));
            connection.close(2_u32.into(), b"early");
        }
        Err(_) => story.tell("no 0-RTT"),
    }
    endpoint.wait_idle().await;
    Ok(())
}

async fn requests(connection: &Connection, story: &Story) -> Result<()> {
    for length in [0, 1, 50_000] {
        let request = vec![7; length];
        let answer = ask(connection, &request).await?;
        story.tell(format!("echo of {length} bytes: {}", answer == request));
    }
    // One that is too long for the server, and one that is given up.
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(&vec![7; 150_000]).await?;
    send.finish()?;
    match recv.read(&mut [0; 8]).await {
        Err(quinn::ReadError::Reset(code)) => story.tell(format!("the server reset with {code}")),
        other => bail!("not reset: {other:?}"),
    }
    let (mut send, _recv) = connection.open_bi().await?;
    send.set_priority(3)?;
    story.tell(format!("priority {}", send.priority()?));
    send.write_chunk(vec![7; 1_000].into()).await?;
    send.reset(VarInt::from_u32(21))?;
    // A datagram, which loopback delivers.
    let longest = connection.max_datagram_size().context("the server takes them")?;
    connection.send_datagram(vec![9; longest.min(1_000)].into())?;
    story.tell(format!("a datagram of {} bytes", connection.read_datagram().await?.len()));
    Ok(())
}

async fn ask(connection: &Connection, request: &[u8]) -> Result<Vec<u8>> {
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(request).await?;
    send.finish()?;
    let answer = recv.read_to_end(request.len()).await?;
    if let Some(code) = send.stopped().await? {
        bail!("stopped with {code}");
    }
    Ok(answer)
}
