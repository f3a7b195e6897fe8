//! A download through the crate `quinn` as it is: the outside rival.

use std::sync::Arc;

use anyhow::Context;
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig, VarInt};
use quinn_proto::congestion::CubicConfig;
use warplink::UdpRelay;
use warprate::units::Bytes;

use crate::row::{Counts, Job, Meter, localhost};
use crate::rtt::{Heard, Samples};
use crate::tls::{CONNECTION_WINDOW, DATAGRAM, SERVER_NAME, STREAM_WINDOW};

/// Downloads; the sender's counts, and the relay that stood between.
pub async fn download(job: &Job, meter: &Meter<'_>, samples: &Samples) -> anyhow::Result<(Counts, UdpRelay)> {
    let transport = Arc::new(transport(samples)?);
    let mut server = ServerConfig::with_single_cert(job.tls.chain(), job.tls.key())?;
    server.transport_config(transport.clone());
    let mut client = ClientConfig::with_root_certificates(job.tls.roots())?;
    client.transport_config(Arc::new(self::transport(&Samples::default())?));

    let server = Endpoint::server(server, localhost()).context("cannot start the server")?;
    let relay = job.relay(server.local_addr()?)?;
    let mut endpoint = Endpoint::client(localhost()).context("cannot start the client")?;
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
    let path = connection.stats().path;
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

/// The same sizes as the other rows', quinn's defaults in everything else. The controller is quinn's
/// default; [`Heard`] only listens.
fn transport(samples: &Samples) -> anyhow::Result<TransportConfig> {
    let varint = |bytes: Bytes| VarInt::from_u64(bytes.get());
    let default = Arc::new(CubicConfig::default());
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(varint(STREAM_WINDOW)?)
        .receive_window(varint(CONNECTION_WINDOW)?)
        .send_window(STREAM_WINDOW.get())
        .initial_mtu(DATAGRAM)
        .congestion_controller_factory(Arc::new(Heard { inner: default, samples: samples.clone() }));
    Ok(transport)
}
