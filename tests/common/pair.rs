//! Two in-memory endpoints in virtual time, joined by a wire that tests may disturb.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Event, StreamId, Transmit};
use warprate::conn::core::{self, Core, Setup};
use warprate::conn::{BatchLimits, ClientHandshake, Head, Law, TransportConfig};
use warprate::units::{Bytes, Rate};

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// What every stream carries from `offset` on: its offsets modulo a prime.
fn content(offset: u64, len: usize) -> bytes::Bytes {
    static CONTENT: LazyLock<bytes::Bytes> = LazyLock::new(|| (0..=250).cycle().take(65_536 + 251).collect());
    let start = (offset % 251) as usize;
    CONTENT.slice(start..start + len)
}

/// A setup with the given law, an anchor of 10 Gbit/s and default parameters.
pub fn setup(law: Law) -> Setup {
    Setup { law, anchor: Rate::gbps(10), transport: TransportConfig::default() }
}

/// One datagram as it left.
#[derive(Debug, Clone)]
pub struct Departure {
    pub at: Instant,
    pub from_client: bool,
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub data: Vec<u8>,
    pub ecn: Option<EcnCodepoint>,
}

/// One end.
pub struct End {
    pub endpoint: quinn_proto::Endpoint,
    pub core: Option<Core>,
    handle: Option<ConnectionHandle>,
    pub address: SocketAddr,
    pub events: Vec<Event>,
    /// Sum of what was read, and whether the stream that was opened last has ended.
    pub received: u64,
    pub is_finished: bool,
    incoming: Option<(quinn_proto::ServerConfig, Setup)>,
    /// Whether clients are sent a Retry first.
    pub retries: bool,
    /// Bytes of a stream still to be written.
    pub backlog: Option<(StreamId, std::ops::Range<u64>)>,
    /// The application neither writes nor reads.
    is_paused: bool,
    /// What it reads may be anything.
    pub is_forged: bool,
}

type Wire = BTreeMap<(Instant, u64), Departure>;

/// What becomes of a datagram: `None` is lost, otherwise the one-way delay and the ECN mark.
pub type Fate = Box<dyn FnMut(&Departure) -> Option<(Duration, Option<EcnCodepoint>)>>;

/// What the wire does to a datagram that arrives: changes it, or lets a copy follow so much later.
pub type Mischief = Box<dyn FnMut(&mut Departure) -> Option<Duration>>;

pub struct Pair {
    pub now: Instant,
    pub start: Instant,
    pub client: End,
    pub server: End,
    pub fate: Fate,
    pub mischief: Mischief,
    wire: Wire,
    sequence: u64,
    /// Every datagram that left, in order.
    pub departures: Vec<Departure>,
    pub limits: BatchLimits,
    /// How far ahead departures are planned.
    pub lead: Duration,
}

impl Pair {
    /// Begins a connection over a wire with this one-way delay.
    pub fn new(delay: Duration, client: Setup, server: Setup) -> Self {
        Self::with_tls(&super::tls(), delay, client, server)
    }

    /// Begins a connection whose client has connected to the same server before, and may hurry.
    pub fn acquainted(delay: Duration, client: Setup, server: Setup) -> Self {
        let (config, handshake) = super::tls();
        Self::meet_again([config.clone(), config], handshake, delay, client, server)
    }

    /// The same, but the server has forgotten the client, and turns down what it says early.
    pub fn forgotten(delay: Duration, client: Setup, server: Setup) -> Self {
        let (configs, handshake) = super::tls_of_two_servers();
        Self::meet_again(configs, handshake, delay, client, server)
    }

    fn meet_again(
        [first, second]: [quinn_proto::ServerConfig; 2],
        handshake: ClientHandshake,
        delay: Duration,
        client: Setup,
        server: Setup,
    ) -> Self {
        let mut pair = Self::with_tls(&(first, handshake.clone()), delay, client.clone(), server.clone());
        pair.run_until(ms(5_000), |pair| pair.client.has_connected() && pair.wire.is_empty());
        Self::with_tls(&(second, handshake), delay, client, server)
    }

    fn with_tls(
        (server_config, client_handshake): &(quinn_proto::ServerConfig, ClientHandshake),
        delay: Duration,
        client: Setup,
        server: Setup,
    ) -> Self {
        let mut endpoint_config = quinn_proto::EndpointConfig::default();
        endpoint_config.rng_seed(Some([7; 32]));
        let endpoint_config = Arc::new(endpoint_config);
        #[expect(clippy::disallowed_methods, reason = "virtual time needs an origin")]
        let now = Instant::now();
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let end = |server_config: Option<quinn_proto::ServerConfig>, port, incoming| End {
            endpoint: quinn_proto::Endpoint::new(
                endpoint_config.clone(),
                server_config.map(Arc::new),
                true,
                None,
            ),
            core: None,
            handle: None,
            address: address(port),
            events: Vec::new(),
            received: 0,
            is_finished: false,
            incoming,
            retries: false,
            backlog: None,
            is_paused: false,
            is_forged: false,
        };
        let mut pair = Self {
            now,
            start: now,
            client: end(None, 1, None),
            server: end(Some(server_config.clone()), 2, Some((server_config.clone(), server))),
            fate: Box::new(move |departure| Some((delay, departure.ecn))),
            mischief: Box::new(|_| None),
            wire: Wire::new(),
            sequence: 0,
            departures: Vec::new(),
            limits: BatchLimits { bytes: Bytes::new(65_507), segments: 64 },
            lead: Duration::ZERO,
        };
        let end = &mut pair.client;
        let (handle, core) = core::connect(
            &mut end.endpoint,
            now,
            client_handshake,
            &client,
            pair.server.address,
            "localhost",
        )
        .expect("the parameters are valid");
        (end.handle, end.core) = (Some(handle), Some(core));
        pair
    }

    /// A pair whose handshake is over, with the log of departures cleared.
    pub fn connected(delay: Duration, client: Setup, server: Setup) -> Self {
        Self::connected_with(&super::tls(), delay, client, server)
    }

    /// The same, with these configurations of TLS.
    pub fn connected_with(
        tls: &(quinn_proto::ServerConfig, ClientHandshake),
        delay: Duration,
        client: Setup,
        server: Setup,
    ) -> Self {
        let mut pair = Self::with_tls(tls, delay, client, server);
        pair.run_until(ms(5_000), |pair| {
            pair.client.has_connected() && pair.server.has_connected() && pair.wire.is_empty()
        });
        assert!(pair.server.has_connected(), "the handshake did not complete");
        pair.departures.clear();
        pair
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// The server opens a stream and writes `bytes` to it, as fast as it takes them.
    pub fn download(&mut self, bytes: u64) {
        self.client.is_finished = false;
        self.server.write(bytes);
    }

    /// The client opens a stream and writes `bytes` to it.
    pub fn upload(&mut self, bytes: u64) {
        self.server.is_finished = false;
        self.client.write(bytes);
    }

    /// From now on the client's datagrams come from `address`. Datagrams to its earlier addresses
    /// still reach it, unless `fate` decides otherwise.
    pub fn move_client(&mut self, address: SocketAddr) {
        self.client.address = address;
    }

    /// A stranger's datagram arrives, now.
    pub fn inject(&mut self, to_server: bool, source: SocketAddr, data: Vec<u8>) {
        let destination = if to_server { self.server.address } else { self.client.address };
        self.sequence += 1;
        let departure =
            Departure { at: self.now, from_client: to_server, source, destination, data, ecn: None };
        self.wire.insert((self.now, self.sequence), departure);
    }

    /// The application of one end stops writing and reading, or goes on.
    pub fn pause(&mut self, is_client: bool, is_paused: bool) {
        let end = if is_client { &mut self.client } else { &mut self.server };
        end.is_paused = is_paused;
        end.drain(self.now);
    }

    /// Runs for `time`.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        self.run_until(time, |_| false);
        self.now = end;
    }

    /// Runs until `done`, for `time` at most; whether it was done.
    pub fn run_until(&mut self, time: Duration, mut done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + time;
        let mut idle_turns = 0;
        loop {
            self.transmit();
            if done(self) {
                return true;
            }
            let next = [self.client.timeout(), self.server.timeout(), self.next_arrival()];
            let Some(next) = next.into_iter().flatten().min().filter(|next| *next <= end) else {
                return false;
            };
            idle_turns = if next > self.now { 0 } else { idle_turns + 1 };
            assert!(
                idle_turns < 10_000,
                "time stands still: client {:?}, server {:?}",
                self.client.core.as_mut().map(|core| (core.poll_timeout(), core.stats().path)),
                self.server.core.as_mut().map(|core| (core.poll_timeout(), core.stats().path)),
            );
            self.now = self.now.max(next);
            self.deliver();
            for end in [&mut self.client, &mut self.server] {
                end.expire(self.now);
            }
        }
    }

    fn next_arrival(&self) -> Option<Instant> {
        self.wire.keys().next().map(|(at, _)| *at)
    }

    fn transmit(&mut self) {
        for from_client in [true, false] {
            loop {
                let end = if from_client { &mut self.client } else { &mut self.server };
                let source = end.address;
                end.write_backlog();
                let at = self.now + self.lead;
                let Some((transmit, data)) = end.transmit(at, self.limits) else { break };
                self.launch(at, from_client, source, &transmit, &data);
            }
        }
    }

    fn launch(
        &mut self,
        at: Instant,
        from_client: bool,
        source: SocketAddr,
        transmit: &Transmit,
        data: &[u8],
    ) {
        for datagram in data.chunks(transmit.segment_size.unwrap_or(data.len()).max(1)) {
            let departure = Departure {
                at,
                from_client,
                source,
                destination: transmit.destination,
                data: datagram.to_vec(),
                ecn: transmit.ecn,
            };
            self.departures.push(departure.clone());
            if let Some((delay, ecn)) = (self.fate)(&departure) {
                let mut arrival = Departure { ecn, ..departure };
                let copy = (self.mischief)(&mut arrival);
                for later in [Some(Duration::ZERO), copy].into_iter().flatten() {
                    self.sequence += 1;
                    self.wire.insert((at + delay + later, self.sequence), arrival.clone());
                }
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.wire.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let departure = entry.remove();
            let from_client = departure.from_client;
            let end = if from_client { &mut self.server } else { &mut self.client };
            for (transmit, data) in end.receive(self.now, &departure) {
                let source = end_address(from_client, &self.client, &self.server);
                self.launch(self.now, !from_client, source, &transmit, &data);
            }
            let end = if from_client { &mut self.server } else { &mut self.client };
            end.drain(self.now);
        }
    }
}

fn end_address(to_server: bool, client: &End, server: &End) -> SocketAddr {
    if to_server { server.address } else { client.address }
}

impl End {
    pub fn core(&mut self) -> &mut Core {
        self.core.as_mut().expect("connected")
    }

    pub fn has_connected(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Connected))
    }

    pub fn lost(&self) -> Option<&quinn_proto::ConnectionError> {
        self.events.iter().find_map(|event| match event {
            Event::ConnectionLost { reason } => Some(reason),
            _ => None,
        })
    }

    fn write(&mut self, bytes: u64) {
        let id = self.core().inner().streams().open(Dir::Uni).expect("the limit is not reached");
        self.backlog = Some((id, 0..bytes));
    }

    fn write_backlog(&mut self) {
        if self.is_paused {
            return;
        }
        let Some((id, mut left)) = self.backlog.take() else { return };
        let core = self.core.as_mut().expect("connected");
        let mut stream = core.inner().send_stream(id);
        while !left.is_empty() {
            let chunk = content(left.start, (left.end - left.start).min(65_536) as usize);
            match stream.write_chunks(&mut [chunk]) {
                Ok(written) if written.bytes > 0 => left.start += written.bytes as u64,
                _ => break,
            }
        }
        if left.is_empty() {
            let _ = stream.finish();
        } else {
            self.backlog = Some((id, left));
        }
    }

    fn timeout(&mut self) -> Option<Instant> {
        self.core.as_mut().and_then(Core::poll_timeout)
    }

    fn transmit(&mut self, now: Instant, limits: BatchLimits) -> Option<(Transmit, Vec<u8>)> {
        let core = self.core.as_mut()?;
        let mut buf = Vec::new();
        let transmit = core.poll_transmit(now, limits, &mut buf)?;
        Some((transmit, buf))
    }

    fn expire(&mut self, now: Instant) {
        if let Some(core) = &mut self.core
            && core.poll_timeout().is_some_and(|at| at <= now)
        {
            core.handle_timeout(now);
        }
        self.drain(now);
    }

    /// Takes in a datagram; what the endpoint answers by itself.
    fn receive(&mut self, now: Instant, departure: &Departure) -> Vec<(Transmit, Vec<u8>)> {
        let mut buf = Vec::new();
        let data = BytesMut::from(&departure.data[..]);
        let head = Head::of(&data);
        match self.endpoint.handle(now, departure.source, None, departure.ecn, data, &mut buf) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some(core) = &mut self.core {
                    core.handle_datagram(now, &head, event);
                }
                vec![]
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.retries && incoming.may_retry() => {
                let transmit = self.endpoint.retry(incoming, &mut buf).expect("it may");
                vec![(transmit, buf)]
            }
            // A copy that is as late as this outlives the connection's first id.
            Some(DatagramEvent::NewConnection(incoming)) if self.core.is_some() => {
                self.endpoint.ignore(incoming);
                vec![]
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let (config, setup) = self.incoming.clone().expect("only servers get connections");
                match core::accept(&mut self.endpoint, now, config, &setup, incoming, &mut buf) {
                    Ok((handle, core)) => {
                        (self.handle, self.core) = (Some(handle), Some(core));
                        vec![]
                    }
                    // What the wire has spoilt.
                    Err(error) => error.response.map(|transmit| (transmit, buf)).into_iter().collect(),
                }
            }
            Some(DatagramEvent::Response(transmit)) => vec![(transmit, buf)],
            None => vec![],
        }
    }

    /// Passes events between core, endpoint and application, and reads what came.
    fn drain(&mut self, now: Instant) {
        let Some(core) = &mut self.core else { return };
        let handle = self.handle.expect("a core has a handle");
        while let Some(event) = core.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                core.handle_event(now, event);
            }
        }
        while let Some(event) = core.poll() {
            self.events.push(event);
        }
        if self.is_paused {
            return;
        }
        for dir in [Dir::Uni, Dir::Bi] {
            while let Some(id) = core.inner().streams().accept(dir) {
                self.events.push(Event::Stream(quinn_proto::StreamEvent::Readable { id }));
            }
        }
        let readable: Vec<StreamId> = self
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Stream(quinn_proto::StreamEvent::Readable { id }) => Some(*id),
                _ => None,
            })
            .collect();
        self.events
            .retain(|event| !matches!(event, Event::Stream(quinn_proto::StreamEvent::Readable { .. })));
        for id in readable {
            self.read(id);
        }
    }

    fn read(&mut self, id: StreamId) {
        let core = self.core.as_mut().expect("connected");
        let mut stream = core.inner().recv_stream(id);
        let Ok(mut chunks) = stream.read(false) else { return };
        loop {
            match chunks.next(65_536) {
                Ok(Some(chunk)) => {
                    let is_right = chunk.bytes == content(chunk.offset, chunk.bytes.len());
                    assert!(is_right || self.is_forged, "not what was written");
                    self.received += chunk.bytes.len() as u64;
                }
                Ok(None) => {
                    self.is_finished = true;
                    break;
                }
                Err(_) => break,
            }
        }
        let _ = chunks.finalize();
    }
}
