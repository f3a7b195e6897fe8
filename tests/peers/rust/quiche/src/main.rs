//! hq-interop on quiche, which brings neither sockets nor timers.

mod client;
mod server;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use peer_line::{ALPN, Command};
use tokio::net::UdpSocket;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    match Command::parse() {
        Command::Serve(options) => server::serve(options).await,
        Command::Get(options) => client::get(options).await,
    }
}

/// What both ends have in common.
fn config() -> Result<quiche::Config> {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[ALPN])?;
    config.set_max_idle_timeout(30_000);
    config.set_max_recv_udp_payload_size(DATAGRAM);
    config.set_max_send_udp_payload_size(DATAGRAM);
    config.set_initial_max_data(16 << 20);
    config.set_initial_max_stream_data_bidi_local(16 << 20);
    config.set_initial_max_stream_data_bidi_remote(16 << 20);
    config.set_initial_max_streams_bidi(100);
    config.set_active_connection_id_limit(4);
    // The relay between the ends has a queue of its own.
    config.enable_pacing(false);
    Ok(config)
}

fn new_cid() -> quiche::ConnectionId<'static> {
    quiche::ConnectionId::from_vec(rand::random::<[u8; CID]>().to_vec())
}

/// Lets the peer have as many connection ids as it takes; those that are new.
fn offer_cids(connection: &mut quiche::Connection) -> Vec<quiche::ConnectionId<'static>> {
    let mut offered = Vec::new();
    while connection.is_established() && connection.scids_left() > 0 {
        let cid = new_cid();
        if connection.new_scid(&cid, rand::random(), false).is_err() {
            break;
        }
        offered.push(cid);
    }
    offered
}

/// Sends all that may leave, each datagram by the socket with the address that it leaves from.
async fn flush(connection: &mut quiche::Connection, sockets: &[&UdpSocket]) -> Result<()> {
    let mut buffer = [0; DATAGRAM];
    while let Ok((length, info)) = connection.send(&mut buffer) {
        let socket = sockets.iter().find(|socket| socket.local_addr().is_ok_and(|local| local == info.from));
        if let Some(socket) = socket {
            socket.send_to(&buffer[..length], info.to).await?;
        }
    }
    Ok(())
}

async fn sleep(timeout: Option<Duration>) {
    tokio::time::sleep(timeout.unwrap_or(Duration::from_secs(60))).await;
}

/// A datagram and where it came from.
async fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Result<(usize, SocketAddr)> {
    Ok(socket.recv_from(buffer).await?)
}

const DATAGRAM: usize = 1350;

const CID: usize = 16;
