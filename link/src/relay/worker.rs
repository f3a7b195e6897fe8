//! The relay's thread: send what is due, wait, receive, and again.

use std::collections::BTreeMap;
use std::io::PipeReader;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_udp::{EcnCodepoint, RecvMeta};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use warpunits::Bytes;

use super::departures::{Batch, Departures, Route};
use super::socket::{Inbox, Socket};
use super::stats::{Counters, DirectionCounters, Shared};
use crate::link::{Fate, Link, wire_bytes};
use crate::time::Time;

pub(super) struct Worker {
    clock: Clock,
    stopped: PipeReader,
    listen: Arc<Socket>,
    server: SocketAddr,
    to_server: Direction,
    to_client: Direction,
    clients: Clients,
    shared: Arc<Shared>,
    inbox: Inbox,
    batch: Batch,
}

/// What woke the thread.
enum Wake {
    Stop,
    /// A departure is due, or datagrams have come in.
    Work {
        from_clients: bool,
        /// Clients to whom the server has sent something.
        from_server: Vec<SocketAddr>,
    },
}

impl Worker {
    pub(super) fn new(
        stopped: PipeReader,
        listen: Arc<Socket>,
        server: SocketAddr,
        (forward, reverse): (Link, Link),
        shared: Arc<Shared>,
    ) -> Self {
        let ipv6 = server.is_ipv6();
        Self {
            clock: Clock::start(),
            stopped,
            listen,
            server,
            to_server: Direction { link: forward, departures: Departures::default(), ipv6 },
            to_client: Direction { link: reverse, departures: Departures::default(), ipv6 },
            clients: Clients::default(),
            shared,
            inbox: Inbox::new(),
            batch: Batch::default(),
        }
    }

    /// Runs until the other end of the `stopped` pipe closes.
    pub(super) fn run(mut self) {
        wake_punctually();
        loop {
            self.send_due();
            match self.wait() {
                Wake::Stop => return,
                Wake::Work { from_clients, from_server } => {
                    if from_clients {
                        self.receive_from_clients();
                    }
                    for client in from_server {
                        self.receive_from_server(client);
                    }
                }
            }
        }
    }

    fn send_due(&mut self) {
        let Self { clock, shared, batch, .. } = self;
        self.to_server.send_due(clock, batch, shared, |counters| &mut counters.to_server);
        self.to_client.send_due(clock, batch, shared, |counters| &mut counters.to_client);
    }

    /// Sleeps until a socket is readable, a departure is due or the relay is to stop.
    fn wait(&self) -> Wake {
        let mut fds =
            vec![PollFd::new(&self.stopped, PollFlags::IN), PollFd::new(&self.listen, PollFlags::IN)];
        fds.extend(self.clients.by_addr.values().map(|client| PollFd::new(&client.upstream, PollFlags::IN)));

        let due = [&self.to_server, &self.to_client].iter().filter_map(|d| d.departures.next_due()).min();
        let timeout = due.map(|due| sleep((due - self.clock.now()).into()));
        if poll(&mut fds, timeout.as_ref()).is_err() {
            // A signal came in, or the kernel is out of memory: look again.
            return Wake::Work { from_clients: false, from_server: Vec::new() };
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0] {
            return Wake::Stop;
        }
        let clients = self.clients.by_addr.keys().zip(&ready[2..]);
        let from_server = clients.filter(|(_, ready)| **ready).map(|(addr, _)| *addr).collect();
        Wake::Work { from_clients: ready[1], from_server }
    }

    fn receive_from_clients(&mut self) {
        let filled = self.listen.receive(&mut self.inbox);
        let now = self.clock.now();
        let mut counters = self.shared.lock();
        for (meta, datagrams) in self.inbox.batches(filled) {
            let Some(upstream) = self.clients.upstream(meta, self.server, now, &mut counters) else {
                counters.clientless += datagrams.count() as u64;
                continue;
            };
            let route = Route { socket: upstream, destination: self.server, source: None };
            for datagram in datagrams {
                self.to_server.offer(now, &route, meta.ecn, datagram, &mut counters.to_server);
            }
        }
    }

    fn receive_from_server(&mut self, addr: SocketAddr) {
        // The client may have lost its place since the thread woke.
        let Some(client) = self.clients.by_addr.get_mut(&addr) else {
            return;
        };
        let filled = client.upstream.receive(&mut self.inbox);
        let now = self.clock.now();
        client.last_active = now;
        let route = Route { socket: Arc::clone(&self.listen), destination: addr, source: client.local_ip };
        let mut counters = self.shared.lock();
        for (meta, datagrams) in self.inbox.batches(filled) {
            let is_server = (meta.addr.ip(), meta.addr.port()) == (self.server.ip(), self.server.port());
            if is_server {
                for datagram in datagrams {
                    self.to_client.offer(now, &route, meta.ecn, datagram, &mut counters.to_client);
                }
            }
        }
    }
}

/// One direction: its link, and the datagrams that the link has let through.
struct Direction {
    link: Link,
    departures: Departures,
    /// Which IP headers the link's wire bytes include.
    ipv6: bool,
}

impl Direction {
    fn offer(
        &mut self,
        now: Time,
        route: &Route,
        ecn: Option<EcnCodepoint>,
        datagram: &[u8],
        counters: &mut DirectionCounters,
    ) {
        let fate = self.link.offer(now, wire_bytes(Bytes::of_len(datagram.len()), self.ipv6));
        counters.count_offered(fate);
        if let Fate::Delivered { at, .. } = fate {
            self.departures.push(at, route.clone(), ecn, datagram);
        }
    }

    fn send_due(
        &mut self,
        clock: &Clock,
        batch: &mut Batch,
        shared: &Shared,
        counters: fn(&mut Counters) -> &mut DirectionCounters,
    ) {
        // One reading for all: what falls due meanwhile has its turn after the other direction.
        let now = clock.now();
        while self.departures.take_due(now, batch) {
            let outcomes = batch.send();
            let sent = clock.now();
            let mut guard = shared.lock();
            let counters = counters(&mut guard);
            for (due, taken) in outcomes {
                if taken { counters.count_delivered(sent - due) } else { counters.count_refused() }
            }
        }
    }
}

/// The clients that the relay serves, each with the socket that stands for it at the server.
#[derive(Default)]
struct Clients {
    by_addr: BTreeMap<SocketAddr, Client>,
}

struct Client {
    upstream: Arc<Socket>,
    /// The relay's address that the client sent to, from which it expects its answers.
    local_ip: Option<IpAddr>,
    last_active: Time,
}

impl Clients {
    /// The upstream socket of the client that `meta` came from; `None` when the system has no
    /// socket to give.
    fn upstream(
        &mut self,
        meta: &RecvMeta,
        server: SocketAddr,
        now: Time,
        counters: &mut Counters,
    ) -> Option<Arc<Socket>> {
        if let Some(client) = self.by_addr.get_mut(&meta.addr) {
            client.last_active = now;
            client.local_ip = meta.dst_ip;
            return Some(Arc::clone(&client.upstream));
        }
        if self.by_addr.len() == MAX_CLIENTS {
            self.evict_idlest();
            counters.evicted_clients += 1;
        }
        let any_ip: IpAddr =
            if server.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let upstream = Socket::bind((any_ip, 0).into()).ok().map(Arc::new);
        if let Some(upstream) = upstream.clone() {
            let client = Client { upstream, local_ip: meta.dst_ip, last_active: now };
            self.by_addr.insert(meta.addr, client);
        }
        counters.upstream_inodes = self.by_addr.values().map(|client| client.upstream.inode()).collect();
        upstream
    }

    /// Forgets the client that has been idle for longest. What is on its way to the server keeps
    /// its socket until it has left.
    fn evict_idlest(&mut self) {
        let idlest = self.by_addr.iter().min_by_key(|(_, client)| client.last_active);
        if let Some(addr) = idlest.map(|(addr, _)| *addr) {
            self.by_addr.remove(&addr);
        }
    }
}

/// The time since the relay's start.
struct Clock(Instant);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the relay runs in real time; links get `now` from here")]
    fn start() -> Self {
        Self(Instant::now())
    }

    #[expect(clippy::disallowed_methods, reason = "the relay runs in real time; links get `now` from here")]
    fn now(&self) -> Time {
        self.0.elapsed().into()
    }
}

/// Asks the kernel to fire this thread's timers when they are due, not up to 50 µs later.
fn wake_punctually() {
    #[cfg(target_os = "linux")]
    {
        // Without it the relay is later, which the lateness figures show.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    }
}

/// How long `poll` is to sleep when the next departure is `until_due` away.
fn sleep(until_due: Duration) -> Timespec {
    Timespec::try_from(until_due.clamp(SHORTEST_SLEEP, LONGEST_SLEEP)).expect("an hour fits")
}

/// Above 500 Mbit/s datagrams are due closer together than the kernel can wake a thread. Sleeping at
/// least this long lets a few gather and leave in one call: the relay needs less CPU (measured: 6 to 40 %), its
/// median lateness rises by this much, and on a busy machine p99 falls.
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);

/// Some systems refuse to sleep for longer than 24 days; waking early does no harm.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// Each costs a socket, and `poll` looks at all of them.
const MAX_CLIENTS: usize = 128;
