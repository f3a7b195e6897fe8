//! What an endpoint's handles, its connections and its driver share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{ConnectionEvent, ConnectionHandle, DatagramEvent, Incoming, RetryError, Transmit};
use quinn_udp::RecvMeta;
use tokio::sync::Notify;

use super::core::Core;
use super::door::{Answer, Door, UnderWay};
use super::endpoint::EndpointStats;
use super::head::Head;
use super::interface::Outlet;
use super::sampler::SendClockStats;
use super::server::ServerConfig;
use super::socket::{self, Socket};
use super::state::{self, ConnectionRef};

/// What endpoint handles, connections and the driver share.
pub(super) struct Shard {
    endpoint: Mutex<EndpointState>,
    dirty: Mutex<Dirty>,
    /// A connection has come or gone.
    pub events: Arc<Notify>,
    /// Handles of the endpoint in the application's hands.
    handles: AtomicUsize,
    /// How often the driver was woken.
    wake_ups: AtomicU64,
    clock_stats: Mutex<SendClockStats>,
}

/// The endpoint behind its lock.
pub(super) struct EndpointState {
    pub proto: quinn_proto::Endpoint,
    pub connections: Vec<Option<Arc<state::Shared>>>,
    open: usize,
    /// What clients that come now are served under, if they are.
    pub server: Option<Arc<ServerConfig>>,
    door: Door,
    /// Connections whose handshake is to be given up.
    pub given_up: Vec<ConnectionHandle>,
    /// Clients that wait for an answer.
    pub incoming: VecDeque<Waiting>,
    pub stats: EndpointStats,
    /// Datagrams that the endpoint itself wants to send.
    pub responses: VecDeque<(Transmit, Vec<u8>)>,
    /// Tasks that wait for a connection to come or to go.
    events: Arc<Notify>,
    /// No connection is taken up any more.
    pub is_closed: bool,
    /// The driver has ended.
    pub is_dead: bool,
}

/// A client that has been let in, and waits for an answer.
pub(super) struct Waiting {
    pub incoming: Incoming,
    pub under_way: UnderWay,
    /// What the server was when it came.
    pub config: Arc<ServerConfig>,
}

#[derive(Default)]
struct Dirty {
    connections: Vec<ConnectionHandle>,
    /// The endpoint moves to this socket.
    socket: Option<Socket>,
    /// Connections that leave by another outlet than they did.
    outlets: Vec<(ConnectionHandle, Outlet)>,
    /// The endpoint itself has something to send, or has lost its last handle.
    endpoint: bool,
    driver: Option<Waker>,
}

impl Shard {
    pub fn new(proto: quinn_proto::Endpoint, server: Option<Arc<ServerConfig>>) -> Arc<Self> {
        let events = Arc::new(Notify::new());
        let endpoint = EndpointState {
            proto,
            connections: Vec::new(),
            open: 0,
            server,
            door: Door::default(),
            given_up: Vec::new(),
            incoming: VecDeque::new(),
            stats: EndpointStats::default(),
            responses: VecDeque::new(),
            events: events.clone(),
            is_closed: false,
            is_dead: false,
        };
        Arc::new(Self {
            endpoint: Mutex::new(endpoint),
            dirty: Mutex::default(),
            events,
            handles: AtomicUsize::new(0),
            wake_ups: AtomicU64::new(0),
            clock_stats: Mutex::default(),
        })
    }

    pub fn endpoint(&self) -> MutexGuard<'_, EndpointState> {
        self.endpoint.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the driver to look at a connection.
    pub fn mark_dirty(&self, handle: ConnectionHandle) {
        self.wake_driver(|dirty| dirty.connections.push(handle));
    }

    /// Tells the driver where a connection's datagrams leave from now on.
    pub fn set_outlet(&self, handle: ConnectionHandle, outlet: Outlet) {
        self.wake_driver(|dirty| dirty.outlets.push((handle, outlet)));
    }

    /// Tells the driver to go on with another socket.
    pub fn rebind(&self, socket: Socket) {
        self.wake_driver(|dirty| dirty.socket = Some(socket));
    }

    /// Asks the driver to look at the endpoint.
    pub fn mark_endpoint_dirty(&self) {
        self.wake_driver(|dirty| dirty.endpoint = true);
    }

    pub fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    pub fn remove_handle(&self) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.mark_endpoint_dirty();
        }
    }

    pub fn has_handles(&self) -> bool {
        self.handles.load(Ordering::Acquire) > 0
    }

    /// The driver was woken.
    pub fn on_wake_up(&self) {
        self.wake_ups.fetch_add(1, Ordering::Relaxed);
    }

    /// What the driver adds to the statistics.
    pub fn clock_stats(&self) -> MutexGuard<'_, SendClockStats> {
        self.clock_stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The statistics at present.
    pub fn send_clock_stats(&self) -> SendClockStats {
        SendClockStats { wake_ups: self.wake_ups.load(Ordering::Relaxed), ..self.clock_stats().clone() }
    }

    fn wake_driver(&self, note: impl FnOnce(&mut Dirty)) {
        let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut dirty);
        if let Some(driver) = dirty.driver.take() {
            driver.wake();
        }
    }

    /// The socket to go on with, if there is another.
    pub fn take_socket(&self) -> Option<Socket> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner).socket.take()
    }

    /// Moves what is dirty into `connections` and `outlets`, and registers for the next change; whether
    /// there was any.
    pub fn take_dirty(
        &self,
        connections: &mut Vec<ConnectionHandle>,
        outlets: &mut Vec<(ConnectionHandle, Outlet)>,
        cx: &Context<'_>,
    ) -> bool {
        let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        dirty.driver = Some(cx.waker().clone());
        connections.append(&mut dirty.connections);
        outlets.append(&mut dirty.outlets);
        let is_touched = std::mem::take(&mut dirty.endpoint) || dirty.socket.is_some();
        is_touched || !connections.is_empty() || !outlets.is_empty()
    }
}

impl EndpointState {
    /// Takes up a connection; a client's handshake is `under_way`.
    pub fn insert(
        &mut self,
        shard: &Arc<Shard>,
        handle: ConnectionHandle,
        core: Core,
        outlet: Outlet,
        under_way: Option<UnderWay>,
    ) -> ConnectionRef {
        if let Some(under_way) = &under_way {
            self.door.on_accepted(handle, under_way);
        }
        let shared = state::Shared::new(handle, core, shard.clone(), outlet, under_way);
        if self.connections.len() <= handle.0 {
            self.connections.resize_with(handle.0 + 1, || None);
        }
        self.connections[handle.0] = Some(shared.clone());
        self.open += 1;
        let connection = ConnectionRef::new(shared);
        let mut state = connection.lock();
        state.set_outlet(outlet);
        state.mark_dirty();
        drop(state);
        connection
    }

    /// The connections that have not drained.
    pub fn connections(&self) -> impl Iterator<Item = &Arc<state::Shared>> {
        self.connections.iter().flatten()
    }

    pub fn open_connections(&self) -> usize {
        self.open
    }

    /// Serves the clients that come from now on under `server`, or none.
    pub fn set_server(&mut self, server: Option<Arc<ServerConfig>>) {
        self.proto.set_server_config(server.as_ref().map(|server| Arc::new(server.proto.clone())));
        self.server = server;
    }

    /// Whose a datagram is, its beginning, and what it means to the connection; strangers are dealt with.
    pub fn take_in(
        &mut self,
        now: Instant,
        meta: &RecvMeta,
        datagram: BytesMut,
    ) -> Option<(ConnectionHandle, (Head, ConnectionEvent))> {
        let mut response = Vec::new();
        let head = Head::of(&datagram);
        let ecn = socket::ecn(meta);
        match self.proto.handle(now, meta.addr, meta.dst_ip, ecn, datagram, &mut response)? {
            DatagramEvent::ConnectionEvent(handle, event) => return Some((handle, (head, event))),
            DatagramEvent::NewConnection(incoming) => self.on_incoming(incoming),
            DatagramEvent::Response(transmit) => self.respond(transmit, response),
        }
        None
    }

    /// A client has knocked.
    fn on_incoming(&mut self, incoming: Incoming) {
        let Some(server) = self.server.clone().filter(|_| !self.is_closed) else {
            return self.refuse(incoming);
        };
        match self.door.knock(server.door, incoming.remote_address_validated()) {
            Answer::Admit(under_way) => self.admit(incoming, under_way, server),
            Answer::Replace(handle, under_way) => {
                self.given_up.push(handle);
                self.stats.given_up_handshakes += 1;
                self.admit(incoming, under_way, server);
            }
            Answer::Retry => {
                if let Err(error) = self.retry(incoming) {
                    self.ignore(error.into_incoming());
                }
            }
            Answer::Ignore => self.ignore(incoming),
        }
    }

    fn admit(&mut self, incoming: Incoming, under_way: UnderWay, config: Arc<ServerConfig>) {
        self.incoming.push_back(Waiting { incoming, under_way, config });
        self.wake_waiting();
    }

    /// Takes up no more connections, and turns those away that have knocked.
    pub fn close_door(&mut self) {
        self.is_closed = true;
        while let Some(waiting) = self.incoming.pop_front() {
            self.refuse(waiting.incoming);
        }
        self.wake_waiting();
    }

    /// Turns a client away.
    pub fn refuse(&mut self, incoming: Incoming) {
        self.stats.refused_handshakes += 1;
        let mut response = Vec::new();
        let transmit = self.proto.refuse(incoming, &mut response);
        self.respond(transmit, response);
    }

    /// Asks a client to come back with a token.
    pub fn retry(&mut self, incoming: Incoming) -> Result<(), RetryError> {
        let mut response = Vec::new();
        let transmit = self.proto.retry(incoming, &mut response)?;
        self.stats.retried_handshakes += 1;
        self.respond(transmit, response);
        Ok(())
    }

    /// Forgets a client.
    pub fn ignore(&mut self, incoming: Incoming) {
        self.stats.ignored_handshakes += 1;
        self.proto.ignore(incoming);
    }

    /// Queues a datagram of the endpoint's own; when too many are waiting, strangers get no answer.
    pub fn respond(&mut self, transmit: Transmit, datagram: Vec<u8>) {
        if self.responses.len() < MOST_RESPONSES {
            self.responses.push_back((transmit, datagram));
        } else {
            self.stats.dropped_answers += 1;
        }
    }

    /// Whether there is nothing left to do for anybody.
    pub fn is_idle(&self) -> bool {
        self.open == 0 && self.responses.is_empty()
    }

    /// Tells every task that waits for the endpoint.
    pub fn wake_waiting(&self) {
        self.events.notify_waiters();
    }

    pub fn get(&self, handle: ConnectionHandle) -> Option<Arc<state::Shared>> {
        self.connections.get(handle.0).cloned().flatten()
    }

    pub fn remove(&mut self, handle: ConnectionHandle) {
        if self.connections[handle.0].take().is_some() {
            self.open -= 1;
            self.wake_waiting();
        }
    }
}

/// Answers to strangers that may wait to be sent.
const MOST_RESPONSES: usize = 1024;
