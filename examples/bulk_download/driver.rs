//! A download through `warprate`, under any of its laws.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use warplink::UdpRelay;
use warprate::cc::{Bbr3, Cubic, Fixed, NewReno, PathStart, RateLaw, WarpRate};
use warprate::units::{Bytes, Gain, Rate};
use warprate::{ClientConfig, Connection, Endpoint, Foreign, Law, ServerConfig, TransportConfig};

use crate::options::LawName;
use crate::row::{Counts, Job, Meter, localhost};
use crate::rtt::{Heard, HeardLaw, Samples};
use crate::tls::{CONNECTION_WINDOW, DATAGRAM, SERVER_NAME, STREAM_WINDOW};

/// Downloads; the sender's counts, and the relay that stood between.
pub async fn download(job: &Job, meter: &Meter<'_>, samples: &Samples) -> anyhow::Result<(Counts, UdpRelay)> {
    let law = law(job, samples);
    let mut server = ServerConfig::with_single_cert(job.tls.chain(), job.tls.key())?;
    server.law(law.clone()).transport_config(Arc::new(transport()));
    let mut client = ClientConfig::with_root_certificates(job.tls.roots())?;
    client.transport_config(Arc::new(transport()));

    let server = Endpoint::server(server, localhost())?;
    let relay = job.relay(server.local_addr()?)?;
    let mut endpoint = Endpoint::client(localhost())?;
    endpoint.set_default_client_config(client);
    let (counts, _connection) =
        tokio::try_join!(serve(&server, job, meter), fetch(&endpoint, &relay, meter))?;
    Ok((counts, relay))
}

async fn serve(endpoint: &Endpoint, job: &Job, meter: &Meter<'_>) -> anyhow::Result<Counts> {
    let incoming = endpoint.accept().await.context("the server's endpoint has stopped")?;
    let connection = incoming.await.context("server, handshake")?;
    let mut stream = connection.open_uni().await?;
    meter.first_write();
    for chunk in job.pattern.chunks(job.bytes) {
        stream.write_chunk(chunk).await.context("server, writing")?;
    }
    stream.finish()?;
    stream.stopped().await.context("server, waiting for the last acknowledgement")?;
    let path = connection.stats().proto.path;
    Ok(Counts { lost: path.lost_packets, sent: path.sent_packets })
}

/// Reads everything; the connection must live until the server has its last acknowledgement.
async fn fetch(endpoint: &Endpoint, relay: &UdpRelay, meter: &Meter<'_>) -> anyhow::Result<Connection> {
    meter.connecting();
    let connection = endpoint.connect(relay.local_addr(), SERVER_NAME)?.await.context("client, handshake")?;
    meter.connected();
    let mut stream = connection.accept_uni().await.context("client, waiting for the stream")?;
    while let Some(chunk) = stream.read_chunk(usize::MAX, false).await.context("client, reading")? {
        meter.arrived(chunk.offset, &chunk.bytes)?;
    }
    meter.ended()?;
    Ok(connection)
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(STREAM_WINDOW)
        .receive_window(CONNECTION_WINDOW)
        .send_window(STREAM_WINDOW)
        .initial_mtu(DATAGRAM);
    transport
}

fn law(job: &Job, samples: &Samples) -> Law {
    let seed = job.seed;
    match job.law {
        // As `Law::warprate` does.
        LawName::WarpRate => ours(move |start| WarpRate::new(start, seed), samples).paced(),
        LawName::Fixed => fixed(job, samples),
        LawName::Cubic => ours(Cubic::new, samples),
        LawName::NewReno => ours(NewReno::new, samples),
        LawName::Bbr3 => ours(move |start| Bbr3::new(start, seed), samples),
        LawName::QuinnCubic | LawName::Quinn => foreign("cubic", Arc::new(CubicConfig::default()), samples),
        LawName::QuinnNewReno => foreign("newreno", Arc::new(NewRenoConfig::default()), samples),
        LawName::QuinnBbr => foreign("bbr", Arc::new(BbrConfig::default()), samples),
    }
}

fn foreign(name: &'static str, inner: Arc<dyn ControllerFactory + Send + Sync>, samples: &Samples) -> Law {
    Law::foreign(Foreign::new(name, Arc::new(Heard { inner, samples: samples.clone() })))
}

/// 95 % of the link, and a window that never holds it back.
fn fixed(job: &Job, samples: &Samples) -> Law {
    let rate = fixed_rate(job.path.forward.rate());
    let jitter = job.path.forward.jitter().sigma() + job.path.reverse.jitter().sigma();
    // A packet is in flight for one round trip and the acknowledgement's delay. A lost one stays so until
    // its loss is declared, 1/8 of a round trip later or more where packets are few, and while
    // acknowledgements are lost everything waits for the next: twice that time holds it all. More
    // would do no harm: the rate, below the link's, is what keeps the queue empty.
    let time = 2 * (job.path.rtt() + 4 * jitter + ACK_DELAY) + TIMER_GRAIN;
    let window = rate * time + FEW_DATAGRAMS;
    // As `Law::fixed` does.
    ours(move |_| Fixed::new(rate, window), samples).paced()
}

/// A law of ours, listened to.
fn ours<L>(build: impl Fn(PathStart) -> L + Send + Sync + 'static, samples: &Samples) -> Law
where
    L: RateLaw + Clone + 'static,
{
    let samples = samples.clone();
    Law::custom(move |start: PathStart| HeardLaw { law: build(start), samples: samples.clone() })
}

/// 95 % of the link's wire rate, in UDP payload, which is what laws count.
fn fixed_rate(link: Rate) -> Rate {
    link * Gain::percent(95) * Gain::ratio(DATAGRAM as u32, DATAGRAM as u32 + WIRE_OVERHEAD)
}

/// IPv4 and UDP headers, and Ethernet's framing.
const WIRE_OVERHEAD: u32 = 28 + 38;

/// QUIC's default max_ack_delay (RFC 9000 §18.2).
const ACK_DELAY: Duration = Duration::from_millis(25);

/// Losses are declared by a timer of at least this grain (RFC 9002 §6.1.2), on a busy machine.
const TIMER_GRAIN: Duration = Duration::from_millis(10);

/// On slow links an acknowledgement, due for every tenth datagram, is more than a round trip away.
const FEW_DATAGRAMS: Bytes = Bytes::new(32 * DATAGRAM as u64);
