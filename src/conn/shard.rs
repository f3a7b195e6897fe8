//! The driver: one shard is one socket and one task.
//!
//! ```text
//! down   applications -mark_dirty-> Driver -egress.turn-> core.poll_transmit -> socket
//! up     socket -> endpoint -> core.handle_event -> applications' wakers
//! ```
//! The driver holds one lock at a time: the endpoint's, or one connection's.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{
    ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointEvent, Incoming, Transmit, TransportError,
    TransportErrorCode,
};
use quinn_udp::{BATCH_SIZE, RecvMeta};
use tokio::sync::Notify;

use super::alarm::Alarm;
use super::batch::BatchLimits;
use super::clock;
use super::connection::{self, ConnectionRef};
use super::core::Core;
use super::error::ConnectionError;
use super::socket::{self, Socket};
use crate::egress::{Egress, Turn};
use crate::units::{Bytes, Rate};

/// What endpoint handles, connections and the driver share.
pub(super) struct Shard {
    endpoint: Mutex<EndpointState>,
    dirty: Mutex<Dirty>,
    /// A connection has come or gone.
    pub events: Arc<Notify>,
    /// Handles of the endpoint in the application's hands.
    handles: AtomicUsize,
}

/// The endpoint behind its lock.
pub(super) struct EndpointState {
    pub proto: quinn_proto::Endpoint,
    connections: Vec<Option<Arc<connection::Shared>>>,
    open: usize,
    pub incoming: VecDeque<Incoming>,
    /// Datagrams that the endpoint itself wants to send.
    responses: VecDeque<(Transmit, Vec<u8>)>,
    /// Tasks that wait for a connection to come or to go.
    events: Arc<Notify>,
    /// No connection is taken up any more.
    pub is_closed: bool,
    /// The driver has ended.
    pub is_dead: bool,
}

#[derive(Default)]
struct Dirty {
    connections: Vec<ConnectionHandle>,
    /// The endpoint itself has something to send, or has lost its last handle.
    endpoint: bool,
    driver: Option<Waker>,
}

impl Shard {
    pub fn new(proto: quinn_proto::Endpoint) -> Arc<Self> {
        let events = Arc::new(Notify::new());
        let endpoint = EndpointState {
            proto,
            connections: Vec::new(),
            open: 0,
            incoming: VecDeque::new(),
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
        })
    }

    pub fn endpoint(&self) -> MutexGuard<'_, EndpointState> {
        self.endpoint.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the driver to look at a connection.
    pub fn mark_dirty(&self, handle: ConnectionHandle) {
        self.wake_driver(|dirty| dirty.connections.push(handle));
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

    fn wake_driver(&self, note: impl FnOnce(&mut Dirty)) {
        let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut dirty);
        if let Some(driver) = dirty.driver.take() {
            driver.wake();
        }
    }

    /// Moves what is dirty into `connections`, and registers for the next change; whether there was any.
    fn take_dirty(&self, connections: &mut Vec<ConnectionHandle>, cx: &Context<'_>) -> bool {
        let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        dirty.driver = Some(cx.waker().clone());
        connections.append(&mut dirty.connections);
        std::mem::take(&mut dirty.endpoint) || !connections.is_empty()
    }
}

impl EndpointState {
    /// Takes up a connection.
    pub fn insert(&mut self, shard: &Arc<Shard>, handle: ConnectionHandle, core: Core) -> ConnectionRef {
        let shared = connection::Shared::new(handle, core, shard.clone());
        if self.connections.len() <= handle.0 {
            self.connections.resize_with(handle.0 + 1, || None);
        }
        self.connections[handle.0] = Some(shared.clone());
        self.open += 1;
        let connection = ConnectionRef::new(shared);
        connection.lock().mark_dirty();
        connection
    }

    /// The connections that have not drained.
    pub fn connections(&self) -> impl Iterator<Item = &Arc<connection::Shared>> {
        self.connections.iter().flatten()
    }

    pub fn open_connections(&self) -> usize {
        self.open
    }

    /// Takes up no more connections, and turns those away that have knocked.
    pub fn close_door(&mut self) {
        self.is_closed = true;
        while let Some(incoming) = self.incoming.pop_front() {
            self.refuse(incoming);
        }
        self.wake_waiting();
    }

    /// Turns a client away.
    pub fn refuse(&mut self, incoming: Incoming) {
        let mut response = Vec::new();
        let transmit = self.proto.refuse(incoming, &mut response);
        self.respond(transmit, response);
    }

    /// Queues a datagram of the endpoint's own; when too many are waiting, strangers get no answer.
    pub fn respond(&mut self, transmit: Transmit, datagram: Vec<u8>) {
        if self.responses.len() < MOST_RESPONSES {
            self.responses.push_back((transmit, datagram));
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

    fn get(&self, handle: ConnectionHandle) -> Option<Arc<connection::Shared>> {
        self.connections.get(handle.0).cloned().flatten()
    }

    fn remove(&mut self, handle: ConnectionHandle) {
        if self.connections[handle.0].take().is_some() {
            self.open -= 1;
            self.wake_waiting();
        }
    }
}

/// The task.
pub(super) struct Driver {
    shard: Arc<Shard>,
    socket: Socket,
    egress: Egress,
    longest_batch: Bytes,
    alarm: Alarm,
    /// When each connection wants to be looked at.
    timers: BTreeSet<(Instant, usize)>,
    /// The same by connection.
    timer_of: Vec<Option<Instant>>,
    /// When the interface is free for the next batch.
    egress_free_at: Option<Instant>,
    /// A batch that the full send buffer refused.
    unsent: Option<Transmit>,
    batch: Vec<u8>,
    inbox: Inbox,
    /// Receive errors since something was last received.
    failures: u32,
    /// Why the driver ended, if the system is to blame.
    failure: Option<String>,
    events: Vec<(ConnectionHandle, ConnectionEvent)>,
    dirty: Vec<ConnectionHandle>,
    endpoint_events: VecDeque<(ConnectionHandle, EndpointEvent)>,
}

/// Receive buffers.
struct Inbox {
    space: Box<[u8]>,
    meta: [RecvMeta; RECEIVE_MESSAGES],
}

impl Driver {
    pub fn new(shard: Arc<Shard>, socket: Socket, anchor: Rate) -> io::Result<Self> {
        let egress = Egress::new(anchor);
        let longest_batch = egress.longest_batch();
        Ok(Self {
            shard,
            socket,
            egress,
            longest_batch,
            alarm: Alarm::new()?,
            timers: BTreeSet::new(),
            timer_of: Vec::new(),
            egress_free_at: None,
            unsent: None,
            batch: Vec::new(),
            inbox: Inbox {
                space: vec![0; RECEIVE_MESSAGES * LARGEST_MESSAGE].into(),
                meta: [RecvMeta::default(); RECEIVE_MESSAGES],
            },
            failures: 0,
            failure: None,
            events: Vec::new(),
            dirty: Vec::new(),
            endpoint_events: VecDeque::new(),
        })
    }

    /// One turn of the loop: whether anything was done.
    fn turn(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut is_busy = self.receive(cx)?;
        is_busy |= self.take_dirty(cx);
        is_busy |= self.expire(clock::now());
        is_busy |= self.handle_endpoint_events();
        is_busy |= self.transmit(cx)?;
        Ok(is_busy)
    }

    /// Receives one batch of messages and hands their datagrams to the connections.
    fn receive(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut bufs = self.inbox.space.chunks_exact_mut(LARGEST_MESSAGE).map(IoSliceMut::new);
        let mut bufs: [IoSliceMut<'_>; RECEIVE_MESSAGES] =
            std::array::from_fn(|_| bufs.next().expect("the space holds all messages"));
        let received = match self.socket.poll_recv(cx, &mut bufs, &mut self.inbox.meta) {
            Poll::Pending => return Ok(false),
            // It concerns one peer or one moment; connections' timers notice what comes of it.
            Poll::Ready(Err(error)) if self.failures < MOST_FAILURES => {
                tracing::debug!(%error, "receiving failed");
                self.failures += 1;
                return Ok(true);
            }
            Poll::Ready(received) => received?,
        };
        self.failures = 0;
        let now = clock::now();
        self.route(now, received);
        let mut events = std::mem::take(&mut self.events);
        let mut events_left = events.drain(..).peekable();
        while let Some((handle, event)) = events_left.next() {
            let Some(connection) = self.shard.endpoint().get(handle) else { continue };
            let mut state = connection.lock();
            state.core.handle_event(now, event);
            while let Some((_, event)) = events_left.next_if(|(next, _)| *next == handle) {
                state.core.handle_event(now, event);
            }
            state.forward_events(now, &mut self.endpoint_events);
            self.egress.join(handle.0);
        }
        drop(events_left);
        self.events = events;
        Ok(true)
    }

    /// Lets the endpoint tell whose the datagrams are.
    fn route(&mut self, now: Instant, received: usize) {
        let mut endpoint = self.shard.endpoint();
        let messages = self.inbox.space.chunks_exact(LARGEST_MESSAGE).zip(&self.inbox.meta).take(received);
        for (message, meta) in messages {
            let mut message = BytesMut::from(&message[..meta.len]);
            while !message.is_empty() {
                let datagram = message.split_to(meta.stride.clamp(1, message.len()));
                let mut response = Vec::new();
                let event = endpoint.proto.handle(
                    now,
                    meta.addr,
                    meta.dst_ip,
                    socket::ecn(meta),
                    datagram,
                    &mut response,
                );
                match event {
                    Some(DatagramEvent::ConnectionEvent(handle, event)) => self.events.push((handle, event)),
                    Some(DatagramEvent::NewConnection(incoming)) if endpoint.is_closed => {
                        endpoint.refuse(incoming);
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        endpoint.incoming.push_back(incoming);
                        endpoint.wake_waiting();
                    }
                    Some(DatagramEvent::Response(transmit)) => endpoint.respond(transmit, response),
                    None => {}
                }
            }
        }
    }

    /// Looks at the connections that applications have touched.
    fn take_dirty(&mut self, cx: &Context<'_>) -> bool {
        let mut dirty = std::mem::take(&mut self.dirty);
        let is_busy = self.shard.take_dirty(&mut dirty, cx);
        if self.shard.handles.load(Ordering::Acquire) == 0 {
            // Nobody is left to accept.
            self.shard.endpoint().close_door();
        }
        let now = clock::now();
        for handle in dirty.drain(..) {
            let Some(connection) = self.shard.endpoint().get(handle) else { continue };
            let mut state = connection.lock();
            state.clear_dirty();
            state.forward_events(now, &mut self.endpoint_events);
            self.egress.join(handle.0);
        }
        self.dirty = dirty;
        is_busy
    }

    /// Looks at the connections whose time has come.
    fn expire(&mut self, now: Instant) -> bool {
        let mut is_busy = false;
        while let Some(&(at, flow)) = self.timers.first() {
            if at > now {
                break;
            }
            self.set_timer(flow, None);
            let Some(connection) = self.shard.endpoint().get(ConnectionHandle(flow)) else { continue };
            let mut state = connection.lock();
            state.core.handle_timeout(now);
            state.forward_events(now, &mut self.endpoint_events);
            self.egress.join(flow);
            is_busy = true;
        }
        is_busy
    }

    /// Passes events between connections and the endpoint.
    fn handle_endpoint_events(&mut self) -> bool {
        let is_busy = !self.endpoint_events.is_empty();
        while let Some((handle, event)) = self.endpoint_events.pop_front() {
            let is_drained = event.is_drained();
            let mut endpoint = self.shard.endpoint();
            let answer = endpoint.proto.handle_event(handle, event);
            if is_drained {
                endpoint.remove(handle);
                drop(endpoint);
                self.egress.leave(handle.0);
                self.set_timer(handle.0, None);
                continue;
            }
            let connection = answer.and_then(|answer| Some((endpoint.get(handle)?, answer)));
            drop(endpoint);
            if let Some((connection, answer)) = connection {
                let now = clock::now();
                let mut state = connection.lock();
                state.core.handle_event(now, answer);
                state.forward_events(now, &mut self.endpoint_events);
                self.egress.join(handle.0);
            }
        }
        is_busy
    }

    /// Sends what may leave, a bounded number of batches; whether more may be waiting.
    fn transmit(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        self.respond()?;
        self.egress_free_at = None;
        for _ in 0..BATCHES_PER_TURN {
            let now = clock::now();
            if let Some(transmit) = self.unsent.take() {
                if self.socket.poll_writable(cx)?.is_pending() {
                    self.unsent = Some(transmit);
                    return Ok(false);
                }
                self.send(transmit)?;
                continue;
            }
            match self.egress.turn(now) {
                Turn::Idle => return Ok(false),
                Turn::Busy(free_at) => {
                    self.egress_free_at = Some(free_at);
                    return Ok(false);
                }
                Turn::Send(flow) => self.give_turn(now, flow)?,
            }
        }
        Ok(true)
    }

    /// Lets one connection send a batch. One that has nothing more to send is looked at again when its
    /// timer says so.
    fn give_turn(&mut self, now: Instant, flow: usize) -> io::Result<()> {
        let Some(connection) = self.shard.endpoint().get(ConnectionHandle(flow)) else { return Ok(()) };
        let mut state = connection.lock();
        // Asked anew: a device may turn out not to segment when it is first told to.
        let limits = BatchLimits { bytes: self.longest_batch, segments: self.socket.max_segments() };
        match state.core.poll_transmit(now, limits, &mut self.batch) {
            Some(transmit) => {
                drop(state);
                self.egress.on_sent(now, Bytes::of_len(transmit.size));
                self.egress.join(flow);
                self.send(transmit)
            }
            None => {
                state.forward_events(now, &mut self.endpoint_events);
                let timeout = state.core.poll_timeout();
                drop(state);
                self.set_timer(flow, timeout);
                Ok(())
            }
        }
    }

    /// Sends the batch at hand, or keeps it until the send buffer has room.
    fn send(&mut self, transmit: Transmit) -> io::Result<()> {
        if !self.socket.try_send(&transmit, &self.batch)? {
            self.unsent = Some(transmit);
        }
        Ok(())
    }

    /// Sends the endpoint's own datagrams. Those that find the buffer full are dropped: they answer
    /// strangers, who will ask again.
    fn respond(&mut self) -> io::Result<()> {
        let mut response = self.shard.endpoint().responses.pop_front();
        while let Some((transmit, datagram)) = response {
            self.egress.on_sent(clock::now(), Bytes::of_len(transmit.size));
            self.socket.try_send(&transmit, &datagram)?;
            let mut endpoint = self.shard.endpoint();
            response = endpoint.responses.pop_front();
            if endpoint.is_idle() {
                endpoint.wake_waiting();
            }
        }
        Ok(())
    }

    fn set_timer(&mut self, flow: usize, at: Option<Instant>) {
        if self.timer_of.len() <= flow {
            self.timer_of.resize(flow + 1, None);
        }
        if let Some(old) = std::mem::replace(&mut self.timer_of[flow], at) {
            self.timers.remove(&(old, flow));
        }
        if let Some(at) = at {
            self.timers.insert((at, flow));
        }
    }

    /// Ends the driver because the system fails it.
    fn fail(&mut self, what: &str, error: &io::Error) -> Poll<()> {
        tracing::error!(%error, "the endpoint's {what} failed");
        self.failure = Some(format!("the endpoint's {what} failed: {error}"));
        Poll::Ready(())
    }

    /// Whether nobody needs the driver any more.
    fn is_finished(&self) -> bool {
        let has_handles = self.shard.handles.load(Ordering::Acquire) > 0;
        !has_handles && self.unsent.is_none() && self.shard.endpoint().is_idle()
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = self.get_mut();
        for _ in 0..TURNS_PER_POLL {
            match driver.turn(cx) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => return driver.fail("socket", &error),
            }
            if driver.is_finished() {
                return Poll::Ready(());
            }
            let wake_at = driver.timers.first().map(|&(at, _)| at);
            let Some(wake_at) = wake_at.into_iter().chain(driver.egress_free_at).min() else {
                return Poll::Pending;
            };
            let now = clock::now();
            if wake_at.saturating_duration_since(now) < SHORTEST_SLEEP {
                continue;
            }
            match driver.alarm.poll(cx, now, wake_at) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return driver.fail("timer", &error),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    /// Whether the socket failed or the runtime ends: nobody may wait for ever.
    fn drop(&mut self) {
        let connections = {
            let mut endpoint = self.shard.endpoint();
            endpoint.is_dead = true;
            while let Some(incoming) = endpoint.incoming.pop_front() {
                endpoint.proto.ignore(incoming);
            }
            endpoint.wake_waiting();
            std::mem::take(&mut endpoint.connections)
        };
        let error = match self.failure.take() {
            Some(reason) => ConnectionError::TransportError(TransportError {
                code: TransportErrorCode::INTERNAL_ERROR,
                frame: None,
                reason,
            }),
            None => ConnectionError::LocallyClosed,
        };
        for connection in connections.into_iter().flatten() {
            connection.lock().terminate(error.clone());
        }
    }
}

/// Messages per receive call: with UDP_GRO each holds up to 64 datagrams, and half a megabyte still
/// fits the second-level cache.
const RECEIVE_MESSAGES: usize = if BATCH_SIZE < 8 { BATCH_SIZE } else { 8 };

/// Receive errors in a row that are borne: each ICMP message of an unreachable peer is one, and a lack of
/// memory passes, but a socket that only fails is dead.
const MOST_FAILURES: u32 = 1000;

/// The longest UDP payload, and the longest coalesced message.
const LARGEST_MESSAGE: usize = 65_535;

/// Batches between two looks at the receive queue: a millisecond of ACKs at 10 Gbit/s.
const BATCHES_PER_TURN: usize = 16;

/// Turns between two returns to the runtime, so that a busy endpoint lets other tasks run.
const TURNS_PER_POLL: usize = 8;

/// A wait that is shorter than going to sleep and waking up takes is spent looking at the socket.
const SHORTEST_SLEEP: Duration = Duration::from_micros(10);

/// Answers to strangers that may wait to be sent.
const MOST_RESPONSES: usize = 1024;
