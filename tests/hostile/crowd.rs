//! A server and any number of clients in virtual time. The connections of either host share its interface as
//! the tokio driver lets them; what the server holds in memory is counted.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes as Data, BytesMut};
use quinn_proto::{
    ConnectionHandle, DatagramEvent, Dir, Event, FinishError, ReadError, StreamEvent, StreamId, Transmit,
};
use warprate::conn::core::{self, Core, Setup};
use warprate::conn::{BatchLimits, ClientHandshake, Head};
use warprate::egress::{Deadlines, Egress, Turn};
use warprate::units::{Bytes, Rate};

/// What an application does with its connection each time it looks: when it wants to look again.
pub type Application = Box<dyn FnMut(&mut Core, Instant) -> Option<Instant>>;

/// One end of a connection.
pub struct Member {
    pub core: Core,
    pub is_connected: bool,
    pub lost: Option<quinn_proto::ConnectionError>,
    /// Bytes read, and when the last stream ended.
    pub received: u64,
    pub finished: Option<Instant>,
    /// Reads what comes.
    pub is_reader: bool,
    application: Application,
    wakes_at: Option<Instant>,
    readable: Vec<StreamId>,
    is_drained: bool,
}

/// One socket with its connections.
pub struct Host {
    endpoint: quinn_proto::Endpoint,
    pub members: Vec<Option<Member>>,
    egress: Egress,
    free_at: Option<Instant>,
    deadlines: Deadlines,
    batch: Vec<u8>,
}

/// What a server's connections are.
pub struct Service {
    pub config: quinn_proto::ServerConfig,
    pub setup: Setup,
    /// Made for each client.
    pub application: Box<dyn Fn(SocketAddr) -> Application>,
}

struct Datagram {
    to_server: bool,
    client: SocketAddr,
    data: Vec<u8>,
}

/// All of them, and the wire.
pub struct Crowd {
    pub now: Instant,
    pub server: Host,
    pub clients: Host,
    service: Service,
    handshake: ClientHandshake,
    /// Whom the wire no longer reaches.
    pub vanished: Vec<SocketAddr>,
    /// What the server holds, and the most it ever held.
    pub held: i64,
    pub most_held: i64,
    wire: BTreeMap<(Instant, u64), Datagram>,
    sequence: u64,
}

/// Does nothing.
pub fn idle() -> Application {
    Box::new(|_, _| None)
}

/// Sends `bytes` on a stream as soon as there is a connection.
pub fn sending(bytes: usize) -> Application {
    let mut left = bytes;
    let mut stream = None;
    Box::new(move |core, _| {
        if core.inner().is_handshaking() || core.inner().is_closed() {
            return None;
        }
        let id = *stream.get_or_insert_with(|| core.inner().streams().open(Dir::Uni).expect("the first"));
        while left > 0 {
            let mut chunks = [Data::from(vec![0; left.min(65_536)])];
            match core.write_chunks(id, &mut chunks) {
                Ok(written) if written.bytes > 0 => left -= written.bytes,
                _ => return None,
            }
            if left == 0 {
                let _ = core.inner().send_stream(id).finish();
            }
        }
        None
    })
}

impl Crowd {
    /// A server whose interface has the rate that its setup says, 10 ms away.
    pub fn new((config, handshake): (quinn_proto::ServerConfig, ClientHandshake), service: Service) -> Self {
        #[expect(clippy::disallowed_methods, reason = "virtual time needs an origin")]
        let now = Instant::now();
        let mut held = 0;
        let server = metered(&mut held, &mut 0, || Host::new(Some(config.clone()), service.setup.anchor, 1));
        Self {
            now,
            server,
            clients: Host::new(None, Rate::gbps(10), 2),
            service: Service { config, ..service },
            handshake,
            vanished: Vec::new(),
            held,
            most_held: held,
            wire: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// A client begins a connection; its name.
    pub fn connect(&mut self, setup: &Setup, is_reader: bool, application: Application) -> usize {
        let (handle, core) =
            core::connect(&mut self.clients.endpoint, self.now, &self.handshake, setup, SERVER, "localhost")
                .expect("the parameters are valid");
        self.clients.insert(handle, core, is_reader, application);
        self.clients.look(handle.0, self.now);
        handle.0
    }

    pub fn client(&mut self, name: usize) -> &mut Member {
        self.clients.members[name].as_mut().expect("a client stays until it has drained")
    }

    /// The wire no longer reaches a client.
    pub fn vanish(&mut self, name: usize) {
        self.vanished.push(address(name));
    }

    /// Connections of the server that have not drained.
    pub fn served(&self) -> usize {
        self.server.members.iter().flatten().count()
    }

    pub fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Runs until `done`, for `time` at most; whether it was done.
    pub fn run_until(&mut self, time: Duration, mut done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + time;
        let mut turns = 0;
        loop {
            self.send();
            if done(self) {
                return true;
            }
            let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
            let hosts = [&self.server, &self.clients].into_iter().filter_map(Host::next);
            let Some(next) = arrival.into_iter().chain(hosts).min().filter(|next| *next <= end) else {
                self.now = end;
                return false;
            };
            turns = if next > self.now { 0 } else { turns + 1 };
            assert!(turns < 100_000, "time stands still");
            self.now = self.now.max(next);
            self.deliver();
            let (now, server) = (self.now, &mut self.server);
            metered(&mut self.held, &mut self.most_held, || server.expire(now));
            self.clients.expire(now);
        }
    }

    fn send(&mut self) {
        loop {
            let (now, server) = (self.now, &mut self.server);
            let Some((_, transmit)) = metered(&mut self.held, &mut self.most_held, || server.transmit(now))
            else {
                break;
            };
            let data = self.server.batch[..transmit.size].to_vec();
            self.launch(false, transmit.destination, &transmit, &data);
        }
        while let Some((name, transmit)) = self.clients.transmit(self.now) {
            let data = self.clients.batch[..transmit.size].to_vec();
            self.launch(true, address(name), &transmit, &data);
        }
    }

    fn launch(&mut self, to_server: bool, client: SocketAddr, transmit: &Transmit, data: &[u8]) {
        if self.vanished.contains(&client) {
            return;
        }
        for datagram in data.chunks(transmit.segment_size.unwrap_or(data.len()).max(1)) {
            self.sequence += 1;
            let datagram = Datagram { to_server, client, data: datagram.to_vec() };
            self.wire.insert((self.now + DELAY, self.sequence), datagram);
        }
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let Datagram { to_server, client, data } = entry.remove();
            let now = self.now;
            let response = if to_server {
                let (server, service) = (&mut self.server, &self.service);
                metered(&mut self.held, &mut self.most_held, || {
                    server.receive(now, client, &data, Some(service))
                })
            } else {
                self.clients.receive(now, SERVER, &data, None)
            };
            if let Some((transmit, data)) = response {
                self.launch(!to_server, client, &transmit, &data);
            }
        }
    }
}

/// Runs a part of the server, and counts what it keeps.
fn metered<T>(held: &mut i64, most: &mut i64, part: impl FnOnce() -> T) -> T {
    let mut result = None;
    let counted = allocation_counter::measure(|| result = Some(part()));
    *most = (*most).max(*held + counted.bytes_max as i64);
    *held += counted.bytes_current;
    result.expect("it has run")
}

impl Host {
    fn new(server: Option<quinn_proto::ServerConfig>, anchor: Rate, seed: u8) -> Self {
        let mut config = quinn_proto::EndpointConfig::default();
        config.rng_seed(Some([seed; 32]));
        Self {
            endpoint: quinn_proto::Endpoint::new(Arc::new(config), server.map(Arc::new), true, None),
            members: Vec::new(),
            egress: Egress::new(anchor),
            free_at: None,
            deadlines: Deadlines::default(),
            batch: Vec::new(),
        }
    }

    fn insert(&mut self, handle: ConnectionHandle, core: Core, is_reader: bool, application: Application) {
        if self.members.len() <= handle.0 {
            self.members.resize_with(handle.0 + 1, || None);
        }
        self.members[handle.0] = Some(Member {
            core,
            is_connected: false,
            lost: None,
            received: 0,
            finished: None,
            is_reader,
            application,
            wakes_at: None,
            readable: Vec::new(),
            is_drained: false,
        });
    }

    /// When something is to be done.
    fn next(&self) -> Option<Instant> {
        self.deadlines.next().into_iter().chain(self.free_at).min()
    }

    fn receive(
        &mut self,
        now: Instant,
        from: SocketAddr,
        data: &[u8],
        service: Option<&Service>,
    ) -> Option<(Transmit, Vec<u8>)> {
        let mut response = Vec::new();
        let event = self.endpoint.handle(now, from, None, None, BytesMut::from(data), &mut response)?;
        match (event, service) {
            (DatagramEvent::ConnectionEvent(handle, event), _) => {
                if let Some(member) = self.members.get_mut(handle.0).and_then(Option::as_mut) {
                    member.core.handle_datagram(now, &Head::of(data), event);
                    self.look(handle.0, now);
                }
                None
            }
            (DatagramEvent::NewConnection(incoming), Some(Service { config, setup, application })) => {
                let accepted =
                    core::accept(&mut self.endpoint, now, config.clone(), setup, incoming, &mut response);
                match accepted {
                    Ok((handle, core)) => {
                        self.insert(handle, core, true, application(from));
                        self.look(handle.0, now);
                        None
                    }
                    Err(error) => error.response.map(|transmit| (transmit, response)),
                }
            }
            (DatagramEvent::NewConnection(incoming), None) => {
                self.endpoint.ignore(incoming);
                None
            }
            (DatagramEvent::Response(transmit), _) => Some((transmit, response)),
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some(flow) = self.deadlines.take_due(now) {
            if let Some(member) = &mut self.members[flow] {
                member.core.handle_timeout(now);
                self.look(flow, now);
            }
        }
        self.free_at = self.free_at.filter(|free_at| *free_at > now);
    }

    /// Passes events on, lets the application act, and puts the connection in line.
    fn look(&mut self, flow: usize, now: Instant) {
        let Some(member) = &mut self.members[flow] else { return };
        member.act(now);
        let mut events: VecDeque<_> = std::iter::from_fn(|| member.core.poll_endpoint_events()).collect();
        while let Some(event) = events.pop_front() {
            member.is_drained |= event.is_drained();
            if let Some(event) = self.endpoint.handle_event(ConnectionHandle(flow), event) {
                member.core.handle_event(now, event);
                events.extend(std::iter::from_fn(|| member.core.poll_endpoint_events()));
            }
        }
        if member.is_drained {
            self.egress.leave(flow);
            self.deadlines.set(flow, None);
            // A client's end is looked at.
            self.members[flow].take_if(|member| member.core.inner().side().is_server());
            return;
        }
        let timeout = member.core.poll_timer();
        self.deadlines.set(flow, timeout.into_iter().chain(member.wakes_at).min());
        self.egress.join(flow);
    }

    /// The next batch, if one may leave now.
    fn transmit(&mut self, now: Instant) -> Option<(usize, Transmit)> {
        loop {
            let flow = match self.egress.turn(now) {
                Turn::Send { flow, .. } => flow,
                Turn::Busy(free_at) => {
                    self.free_at = Some(free_at);
                    return None;
                }
                Turn::Idle => return None,
            };
            let limits = BatchLimits { bytes: self.egress.longest_batch(flow), segments: 64 };
            let Some(member) = &mut self.members[flow] else { continue };
            if let Some(transmit) = member.core.poll_transmit(now, limits, &mut self.batch) {
                self.egress.on_sent(Some(flow), now, Bytes::of_len(transmit.size));
                self.look(flow, now);
                return Some((flow, transmit));
            }
            let timeout = member.core.poll_timeout();
            self.deadlines.set(flow, timeout.into_iter().chain(member.wakes_at).min());
        }
    }
}

impl Member {
    fn act(&mut self, now: Instant) {
        while let Some(event) = self.core.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Readable { id }) => self.readable.push(id),
                _ => {}
            }
        }
        if self.is_reader {
            for dir in [Dir::Uni, Dir::Bi] {
                self.readable.extend(std::iter::from_fn(|| self.core.inner().streams().accept(dir)));
            }
            std::mem::take(&mut self.readable).into_iter().for_each(|id| self.read(now, id));
        }
        self.wakes_at = (self.application)(&mut self.core, now);
    }

    fn read(&mut self, now: Instant, id: StreamId) {
        let mut stream = self.core.inner().recv_stream(id);
        let Ok(mut chunks) = stream.read(false) else { return };
        let is_over = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.received += chunk.bytes.len() as u64,
                Ok(None) => {
                    self.finished = Some(now);
                    break true;
                }
                Err(error) => break error != ReadError::Blocked,
            }
        };
        let _ = chunks.finalize();
        // A stream that both write on is answered with its end.
        if is_over && id.dir() == Dir::Bi && self.core.inner().side() != id.initiator() {
            let mut stream = self.core.inner().send_stream(id);
            if let Err(FinishError::Stopped(code)) = stream.finish() {
                let _ = stream.reset(code);
            }
        }
    }
}

/// Where a client is.
pub fn address(name: usize) -> SocketAddr {
    let host = u32::from(Ipv4Addr::new(10, 0, 0, 0)) + u32::try_from(name).expect("few clients");
    (Ipv4Addr::from(host), 4433).into()
}

const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 443);

/// Each way.
const DELAY: Duration = Duration::from_millis(10);
