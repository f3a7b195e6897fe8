//! A congestion controller of your own, tried out on an impaired path.
//!
//! ```text
//! cargo run --release --example custom_law
//! ```
//! The law is `Aimd`, the first half of this file: additive increase and multiplicative decrease, as
//! TCP's, but of the *rate*. The second half downloads 4 MB under it over a relay in this process. To
//! compare laws on harder paths, see the example `bulk_download`.
#![allow(clippy::disallowed_methods, reason = "it measures real time")]
#![allow(missing_docs, reason = "a program, not an interface")]

use std::time::Instant;

use warprate::cc::{PathStart, RateLaw};
use warprate::signal::{Ack, Loss, Plan};
use warprate::units::{Bytes, Gain, Rate};

/// ```text
/// rate(t)   += STEP          once per round trip
///           *= 7/10          on a loss, at most once per round trip
/// window(t)  = 2 · rate · smoothed RTT
/// ```
#[derive(Debug, Clone)]
struct Aimd {
    rate: Rate,
    window: Bytes,
    /// Losses of packets sent before this have been answered.
    answered: Instant,
    state: &'static str,
}

impl Aimd {
    /// The first state on a new path.
    fn new(start: PathStart) -> Self {
        Self { rate: FIRST_RATE, window: start.datagram.times(10), answered: start.now, state: "increase" }
    }
}

impl RateLaw for Aimd {
    fn on_ack(&mut self, ack: &Ack) {
        if ack.round_start {
            self.rate = self.rate + STEP;
            self.state = "increase";
        }
        // Pacing sets the speed. The window only stops a sender whose acknowledgements stay away.
        self.window = (self.rate * ack.rtt.smoothed).times(2).max(LEAST_WINDOW);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        // All that was in flight meets the same full queue: one answer is enough for it.
        if loss.packets.iter().any(|packet| packet.sent >= self.answered) {
            self.rate = (self.rate * DECREASE).max(FIRST_RATE);
            self.answered = loss.now;
            self.state = "decrease";
        }
    }

    fn plan(&self, _now: Instant) -> Plan {
        Plan::new(self.rate, self.window)
    }

    fn state(&self) -> &'static str {
        self.state
    }
}

/// A speed that any path carries.
const FIRST_RATE: Rate = Rate::mbps(2);
/// A path of 20 Mbit/s is full after 18 round trips.
const STEP: Rate = Rate::mbps(1);
const DECREASE: Gain = Gain::ratio(7, 10);
/// Some twenty datagrams, for round trips so short that the rate alone would leave room for one or two.
const LEAST_WINDOW: Bytes = Bytes::kb(32);

#[cfg(not(unix))]
fn main() {
    eprintln!("custom_law needs the relay of warplink, and that needs Unix");
}

#[cfg(unix)]
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    trial::main().await
}

#[cfg(unix)]
mod trial {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use anyhow::Context;
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use warplink::{PathProfile, UdpRelay};
    use warprate::units::{Bytes, Rate};
    use warprate::{ClientConfig, ConnectionStats, Endpoint, Law, ServerConfig};

    use super::Aimd;

    pub(super) async fn main() -> anyhow::Result<()> {
        let (mut server_config, client_config) = configs()?;
        server_config.law(Law::custom(Aimd::new));

        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Endpoint::server(server_config, any_port)?;
        let path = PathProfile::symmetric(LINK, Duration::from_millis(20))?;
        let relay = UdpRelay::start(any_port, server.local_addr()?, &path, 1)?;
        let mut client = Endpoint::client(any_port)?;
        client.set_default_client_config(client_config);

        let serving = tokio::spawn(serve(server));
        let connection = client.connect(relay.local_addr(), "localhost")?.await?;
        let mut stream = connection.accept_uni().await?;
        let start = Instant::now();
        let mut received = 0;
        while let Some(chunk) = stream.read_chunk(usize::MAX, false).await? {
            received += chunk.bytes.len() as u64;
        }
        let time = start.elapsed();
        let stats = serving.await??;

        println!("{} in {time:.2?}: {} of {LINK}", Bytes::new(received), Bytes::new(received) / time);
        println!("the law's last answer: {}, window {}", stats.path.pacing_rate, stats.path.window);
        println!("packets: {} sent, {} lost", stats.proto.path.sent_packets, stats.proto.path.lost_packets);
        Ok(())
    }

    /// Sends [`TOTAL`] to the first client, and waits until all of it has been acknowledged.
    async fn serve(endpoint: Endpoint) -> anyhow::Result<ConnectionStats> {
        let connection = endpoint.accept().await.context("the endpoint has stopped")?.await?;
        let mut stream = connection.open_uni().await?;
        stream.write_chunk(vec![7; TOTAL.as_len()].into()).await?;
        stream.finish()?;
        stream.stopped().await?;
        Ok(connection.stats())
    }

    /// Two ends that trust each other by a certificate made on the spot.
    fn configs() -> anyhow::Result<(ServerConfig, ClientConfig)> {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certified.cert.der().clone())?;
        let server = ServerConfig::with_single_cert(vec![certified.cert.der().clone()], key.into())?;
        Ok((server, ClientConfig::with_root_certificates(Arc::new(roots))?))
    }

    const LINK: Rate = Rate::mbps(20);
    const TOTAL: Bytes = Bytes::mb(4);
}
