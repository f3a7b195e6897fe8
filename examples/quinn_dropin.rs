//! A law of ours in stock quinn: one line. `cargo run --release --example quinn_dropin`
//!
//! Server and client are quinn's own; 20 MB cross a 100 Mbit/s, 20 ms path that loses 1 % of the data, with
//! quinn's CUBIC and with WarpRATE.
#![allow(clippy::disallowed_methods, reason = "an example reads the clock")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustls::pki_types::PrivatePkcs8KeyDer;
use warplink::{PathProfile, Probability, UdpRelay};
use warprate::cc::{WarpRate, seeded};
use warprate::conn::DropIn;
use warprate::units::Rate;

const BYTES: usize = 20_000_000;

#[tokio::main]
async fn main() -> Result<()> {
    let ours = {
        let mut transport = quinn::TransportConfig::default();
        // The whole change to a quinn server; draw the seed, so that servers do not probe alike:
        transport.congestion_controller_factory(Arc::new(DropIn::new(seeded(1, WarpRate::new))));
        transport
    };
    for (name, transport) in [("quinn's CUBIC", quinn::TransportConfig::default()), ("WarpRATE", ours)] {
        let took = download(transport).await?;
        println!("{name}: {:.1} Mbit/s", BYTES as f64 * 8e-6 / took.as_secs_f64());
    }
    Ok(())
}

async fn download(transport: quinn::TransportConfig) -> Result<Duration> {
    let localhost: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let certificate = certified.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone())?;

    let mut config = quinn::ServerConfig::with_single_cert(vec![certificate], key.into())?;
    config.transport_config(Arc::new(transport));
    let server = quinn::Endpoint::server(config, localhost)?;
    let mut path = PathProfile::symmetric(Rate::mbps(100), Duration::from_millis(20))?;
    // To the relay, forward is from client to server.
    path.reverse = path.reverse.with_loss(Probability::percent(1));
    let relay = UdpRelay::start(localhost, server.local_addr()?, &path, 1)?;
    tokio::spawn(serve(server));

    let client = quinn::Endpoint::client(localhost)?;
    let config = quinn::ClientConfig::with_root_certificates(Arc::new(roots))?;
    let connection = client.connect_with(config, relay.local_addr(), "localhost")?.await?;
    let start = Instant::now();
    let data = connection.accept_uni().await?.read_to_end(BYTES).await?;
    anyhow::ensure!(data.len() == BYTES, "{} of {BYTES} bytes", data.len());
    Ok(start.elapsed())
}

async fn serve(server: quinn::Endpoint) -> Result<()> {
    let incoming = server.accept().await.ok_or_else(|| anyhow::anyhow!("the endpoint was closed"))?;
    let connection = incoming.await?;
    let mut stream = connection.open_uni().await?;
    stream.write_chunk(vec![7; BYTES].into()).await?;
    stream.finish()?;
    connection.closed().await;
    Ok(())
}
