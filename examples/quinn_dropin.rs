//! Laws of ours in stock quinn. `cargo run --release --example quinn_dropin`
//!
//! 10 MB cross a 100 Mbit/s, 20 ms path that loses 1 % of the data: from quinn as it is, from quinn with our CUBIC, BBRv3
//! and WarpRATE for congestion controllers, from quinn on a paced socket, and from our own endpoint. The client is
//! quinn's as it is.
#![allow(clippy::disallowed_methods, reason = "an example reads the clock")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use warplink::{PathProfile, Probability, UdpRelay};
use warprate::Law;
use warprate::cc::{Bbr3, Cubic, LawFactory, WarpRate, seeded};
use warprate::conn::DropIn;
use warprate::stock::Paced;
use warprate::units::Rate;

const BYTES: usize = 10_000_000;
const LOCALHOST: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// quinn as it is.
async fn quinn_alone(config: quinn::ServerConfig) -> Result<SocketAddr> {
    let endpoint = quinn::Endpoint::server(config, LOCALHOST)?;
    let addr = endpoint.local_addr()?;
    tokio::spawn(async move { serve(endpoint.accept().await.context("closed")?.await?).await });
    Ok(addr)
}

/// One line more: the law as a congestion controller.
async fn with_controller(
    mut config: quinn::ServerConfig,
    law: impl LawFactory + 'static,
) -> Result<SocketAddr> {
    let mut transport = quinn::TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(DropIn::new(law)));
    config.transport_config(Arc::new(transport));
    quinn_alone(config).await
}

/// Two lines changed: law, pacer and socket.
async fn on_paced_socket(config: quinn::ServerConfig) -> Result<SocketAddr> {
    let paced = Paced::server(config.clone(), LOCALHOST, Law::warprate(1))?;
    let addr = paced.endpoint().local_addr()?;
    tokio::spawn(async move {
        let incoming = paced.endpoint().accept().await.context("closed")?;
        serve(paced.accept(incoming, config)?.await?).await
    });
    Ok(addr)
}

async fn serve(connection: quinn::Connection) -> Result<()> {
    let mut stream = connection.open_uni().await?;
    stream.write_chunk(vec![7; BYTES].into()).await?;
    stream.finish()?;
    connection.closed().await;
    Ok(())
}

/// Our own endpoint, of the same shape.
async fn our_endpoint(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<SocketAddr> {
    let config = warprate::ServerConfig::with_single_cert(vec![certificate], key)?;
    let endpoint = warprate::Endpoint::server(config, LOCALHOST)?;
    let addr = endpoint.local_addr()?;
    tokio::spawn(async move {
        let connection = endpoint.accept().await.context("closed")?.await?;
        let mut stream = connection.open_uni().await?;
        stream.write_chunk(vec![7; BYTES].into()).await?;
        stream.finish()?;
        connection.closed().await;
        anyhow::Ok(())
    });
    Ok(addr)
}

#[tokio::main]
async fn main() -> Result<()> {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let certificate = certified.cert.der().clone();
    let key = || PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()).into();
    let config = quinn::ServerConfig::with_single_cert(vec![certificate.clone()], key())?;
    let servers = [
        ("quinn", quinn_alone(config.clone()).await?),
        ("quinn, CUBIC as its controller", with_controller(config.clone(), Cubic::new).await?),
        // Draw the seeds, so that servers do not probe alike.
        ("quinn, BBRv3 as its controller", with_controller(config.clone(), seeded(1, Bbr3::new)).await?),
        (
            "quinn, WarpRATE as its controller",
            with_controller(config.clone(), seeded(1, WarpRate::new)).await?,
        ),
        ("quinn, WarpRATE on a paced socket", on_paced_socket(config).await?),
        ("warprate's endpoint", our_endpoint(certificate.clone(), key()).await?),
    ];
    for (name, server) in servers {
        let took = download(server, certificate.clone()).await.context(name)?;
        println!("{name:<34} {:5.1} Mbit/s", BYTES as f64 * 8e-6 / took.as_secs_f64());
    }
    Ok(())
}

async fn download(server: SocketAddr, certificate: CertificateDer<'static>) -> Result<Duration> {
    let mut path = PathProfile::symmetric(Rate::mbps(100), Duration::from_millis(20))?;
    // To the relay, forward is from client to server.
    path.reverse = path.reverse.with_loss(Probability::percent(1));
    let relay = UdpRelay::start(LOCALHOST, server, &path, 1)?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    let client = quinn::Endpoint::client(LOCALHOST)?;
    let config = quinn::ClientConfig::with_root_certificates(Arc::new(roots))?;
    let connection = client.connect_with(config, relay.local_addr(), "localhost")?.await?;
    let start = Instant::now();
    let data = connection.accept_uni().await?.read_to_end(BYTES).await?;
    anyhow::ensure!(data.len() == BYTES, "{} of {BYTES} bytes", data.len());
    Ok(start.elapsed())
}
