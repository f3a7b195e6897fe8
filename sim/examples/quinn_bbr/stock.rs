//! A simulated server without our core: stock `quinn-proto` with its own pacer and batches.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes as Data, BytesMut};
use quinn_proto::congestion::BbrConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ServerConfig,
    StreamId, TransportConfig,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use warplink::{PathProfile, Time, link_seed, wire_bytes};
use warprate::Law;
use warprate::conn::core::Setup;
use warpsim::host::quic::{CERTIFICATE, KEY, Protection, QuicHost, QuicOptions, Role, Side};
use warpsim::host::{Context, Host};
use warpsim::packet::{Body, HostId, Packet, RouteId};
use warpsim::port::Port;
use warpsim::queue::{Fifo, Limit};
use warpsim::world::World;
use warpunits::{Bytes, Rate};

/// Goodput of a download of `bytes` from it, handshake excluded, in Mbit/s.
#[expect(clippy::disallowed_methods, reason = "virtual time needs an origin; nothing depends on which")]
pub fn goodput(path: &PathProfile, bytes: usize, seed: u64) -> Option<f64> {
    let origin = Instant::now();
    let mut world = World::new();
    let mut port = |profile: &warplink::Profile, index| {
        let queue = Box::new(Fifo::new(Limit::Bytes(profile.buffer())));
        world.add_port(Port::new(profile.clone(), queue, link_seed(seed, index)))
    };
    let (forward, reverse) = (port(&path.forward, 0), port(&path.reverse, 1));
    let to_client = world.add_route(vec![forward], HostId(0));
    let to_server = world.add_route(vec![reverse], HostId(1));
    let setup = Setup {
        law: Law::quinn_cubic(),
        anchor: Rate::gbps(10),
        transport: warprate::TransportConfig::default().initial_mtu(1452).clone(),
    };
    let (protection, start) = (Protection::Tls, Time::START);
    let client = QuicOptions { setup, protection, seed, route: to_server, origin, start };
    let client = world.add_host(Box::new(QuicHost::new(Role::Receive, Side::Client, client)));
    let server = world.add_host(Box::new(Stock::new(bytes, to_client, origin)));
    world.run_until(Time::from(Duration::from_secs(60)));
    let finished = world.host(client).progress()?.finished?;
    let any: &mut dyn std::any::Any = world.host(server);
    let began = any.downcast_ref::<Stock>()?.began?;
    Some(bytes as f64 * 8.0 / Duration::from(finished - began).as_secs_f64() / 1e6)
}

struct Stock {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    stream: Option<StreamId>,
    left: usize,
    began: Option<Time>,
    route: RouteId,
    origin: Instant,
}

impl Stock {
    fn new(bytes: usize, route: RouteId, origin: Instant) -> Self {
        let mut transport = TransportConfig::default();
        transport
            .initial_mtu(1452)
            .send_window(32 << 20)
            .congestion_controller_factory(Arc::new(BbrConfig::default()));
        let key = PrivatePkcs8KeyDer::from(KEY).into();
        let mut config = ServerConfig::with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)
            .expect("the pinned key belongs to the pinned certificate");
        config.transport_config(Arc::new(transport));
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::new(config)), true, None);
        Self { endpoint, connection: None, stream: None, left: bytes, began: None, route, origin }
    }

    fn settle(&mut self, cx: &mut Context<'_>) {
        let now = self.origin + cx.now.since_start();
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            if matches!(event, Event::Connected) {
                self.stream = connection.streams().open(Dir::Uni);
                self.began = Some(cx.now);
            }
        }
        if let Some(id) = self.stream {
            let mut stream = connection.send_stream(id);
            while self.left > 0 {
                let chunk = Data::from(vec![0; self.left.min(1 << 20)]);
                match stream.write_chunks(&mut [chunk]) {
                    Ok(written) => self.left -= written.bytes,
                    Err(_) => break,
                }
            }
            if self.left == 0 {
                let _ = stream.finish();
            }
        }
        let mut batch = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, BATCH, &mut batch) {
            launch(self.route, transmit.size, transmit.segment_size, &batch, cx);
            batch.clear();
        }
    }
}

impl Host for Stock {
    fn wake(&mut self, cx: &mut Context<'_>) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(self.origin + cx.now.since_start());
        }
        self.settle(cx);
    }

    fn receive(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let Body::Datagram(data) = packet.body else { return };
        let now = self.origin + cx.now.since_start();
        let mut response = Vec::new();
        let data = BytesMut::from(&data[..]);
        match self.endpoint.handle(now, CLIENT, None, packet.ecn, data, &mut response) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                self.connection = self.endpoint.accept(incoming, now, &mut response, None).ok();
            }
            Some(DatagramEvent::Response(transmit)) => {
                launch(self.route, transmit.size, transmit.segment_size, &response, cx);
            }
            _ => {}
        }
        self.settle(cx);
    }

    fn next_wake(&mut self) -> Time {
        let timeout = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        timeout.map_or(Time::NEVER, |at| Time::from(at.saturating_duration_since(self.origin)))
    }

    fn is_finished(&self) -> bool {
        true
    }
}

fn launch(route: RouteId, size: usize, segment: Option<usize>, data: &[u8], cx: &mut Context<'_>) {
    for datagram in data[..size].chunks(segment.unwrap_or(size).max(1)) {
        cx.outbox.push(Packet {
            route,
            hop: 0,
            wire: wire_bytes(Bytes::of_len(datagram.len()), false),
            ecn: None,
            body: Body::Datagram(datagram.to_vec()),
        });
    }
}

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 4434);
/// Datagrams of a batch, as stock quinn polls them.
const BATCH: usize = 10;
