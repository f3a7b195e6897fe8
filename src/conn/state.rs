//! A connection behind its lock: what its handles and the driver share.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Instant;

use bytes::Bytes;
use quinn_proto::{ConnectionHandle, Dir, EndpointEvent, Event, StreamEvent, StreamId, Transmit, VarInt};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::batch::BatchLimits;
use super::core::Core;
use super::door::UnderWay;
use super::error::ConnectionError;
use super::interface::Outlet;
use super::shard::Shard;
use super::wait::until;

/// What the handles and the driver share.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Anything has happened but to one stream or a datagram.
    events: Arc<Notify>,
    /// A datagram has come, or there is room for one again.
    datagrams: Arc<Notify>,
    /// Handles of the application; the driver's own reference does not count.
    handles: AtomicUsize,
}

impl Shared {
    pub fn new(
        handle: ConnectionHandle,
        core: Core,
        shard: Arc<Shard>,
        outlet: Outlet,
        under_way: Option<UnderWay>,
    ) -> Arc<Self> {
        let (events, datagrams) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let state = State {
            core,
            handle,
            shard,
            outlet,
            under_way,
            is_dirty: false,
            is_established: false,
            is_announced: false,
            is_abandoned: false,
            is_drained: false,
            error: None,
            events: events.clone(),
            datagrams: datagrams.clone(),
            readers: FxHashMap::default(),
            writers: FxHashMap::default(),
            stopped: FxHashMap::default(),
        };
        Arc::new(Self { state: Mutex::new(state), events, datagrams, handles: AtomicUsize::new(0) })
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks `ready` again after every event of the connection that is not a stream's or a datagram's own.
    pub async fn wait<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> T {
        until(&self.events, || ready(&mut self.lock())).await
    }

    /// Waits until the handshake is complete; it is so although the connection has ended since.
    pub async fn established(&self) -> Result<(), ConnectionError> {
        self.wait(|state| match state.is_announced {
            true => Some(Ok(())),
            false => state.error().map(Err),
        })
        .await
    }
}

/// A counted handle.
pub(super) struct ConnectionRef(Arc<Shared>);

impl ConnectionRef {
    pub fn new(shared: Arc<Shared>) -> Self {
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// The connection for a stream that was opened early, or not; `None` if the server has turned down what
    /// was said early, and the stream's number belongs to another.
    pub fn lock_stream(&self, is_early: bool) -> Option<MutexGuard<'_, State>> {
        let mut state = self.lock();
        let is_forgotten = is_early && state.is_early_rejected();
        (!is_forgotten).then_some(state)
    }

    /// Told of datagrams.
    pub fn datagrams(&self) -> &Notify {
        &self.0.datagrams
    }

    /// Where the connection lives, as a number.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// See [`Shared::wait`].
    pub async fn wait<T>(&self, ready: impl FnMut(&mut State) -> Option<T>) -> T {
        self.0.wait(ready).await
    }

    /// The connection, to look at without keeping it alive.
    pub fn uncounted(&self) -> Arc<Shared> {
        self.0.clone()
    }

    /// Opens a stream when the peer allows it; whether that is before the end of a client's handshake.
    pub async fn open(&self, dir: Dir) -> Result<(StreamId, bool), ConnectionError> {
        self.wait(|state| match state.error() {
            Some(error) => Some(Err(error)),
            None => {
                let connection = state.core.inner();
                let is_early = connection.side().is_client() && connection.is_handshaking();
                connection.streams().open(dir).map(|id| Ok((id, is_early)))
            }
        })
        .await
    }

    /// Waits for a stream of the peer's; whether that is before the end of the handshake.
    pub async fn accept(&self, dir: Dir) -> Result<(StreamId, bool), ConnectionError> {
        self.wait(|state| {
            let connection = state.core.inner();
            let is_early = connection.is_handshaking();
            if let Some(id) = connection.streams().accept(dir) {
                // Taking a stream may allow the peer to open another.
                state.mark_dirty();
                return Some(Ok((id, is_early)));
            }
            state.error().map(Err)
        })
        .await
    }
}

impl Clone for ConnectionRef {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl Drop for ConnectionRef {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut state = self.lock();
            state.is_abandoned = true;
            state.mark_dirty();
        }
    }
}

impl fmt::Debug for ConnectionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// The connection behind its lock.
pub(super) struct State {
    pub core: Core,
    handle: ConnectionHandle,
    shard: Arc<Shard>,
    /// Where its datagrams leave.
    outlet: Outlet,
    /// Of a client's handshake, until it is complete.
    under_way: Option<UnderWay>,
    /// Whether the driver has been asked to look at it.
    is_dirty: bool,
    is_established: bool,
    /// The application knows. It is told when our last message of the handshake has left: if it closed the
    /// connection before, or moved it to another address, the peer's handshake would fail.
    is_announced: bool,
    /// No handles are left: close as soon as what was finished is delivered.
    is_abandoned: bool,
    /// The endpoint has been told to forget it.
    is_drained: bool,
    error: Option<ConnectionError>,
    /// Tasks wait here for anything but one stream or a datagram.
    events: Arc<Notify>,
    datagrams: Arc<Notify>,
    /// One task reads a stream, and one writes on it, since that takes `&mut`.
    readers: FxHashMap<StreamId, Waker>,
    writers: FxHashMap<StreamId, Waker>,
    /// Any number of tasks wait for its end. A stream without an entry has ended, or nobody has asked.
    stopped: FxHashMap<StreamId, Arc<Notify>>,
}

impl State {
    /// Asks the driver to look at the connection.
    pub fn mark_dirty(&mut self) {
        if !std::mem::replace(&mut self.is_dirty, true) {
            self.shard.mark_dirty(self.handle);
        }
    }

    /// Tells the driver where the connection's datagrams leave from now on.
    pub fn set_outlet(&mut self, outlet: Outlet) {
        self.outlet = outlet;
        self.shard.set_outlet(self.handle, outlet);
    }

    /// The endpoint has moved to another socket, from which datagrams leave by `outlet`. The path is another
    /// one if the address is, or the interface.
    pub fn on_rebound(&mut self, now: Instant, outlet: Outlet, is_other_address: bool) {
        let is_other_path = is_other_address || outlet.link != self.outlet.link;
        self.core.on_rebound(now, is_other_path);
        self.set_outlet(outlet);
        self.mark_dirty();
    }

    /// Builds the next batch, see [`Core::poll_transmit`].
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        limits: BatchLimits,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.core.set_write_blocked(!self.writers.is_empty());
        let transmit = self.core.poll_transmit(now, limits, buf);
        if self.is_established && !self.is_announced {
            self.is_announced = true;
            self.wake_waiting();
        }
        transmit
    }

    /// The driver looks now.
    pub fn clear_dirty(&mut self) {
        self.is_dirty = false;
    }

    /// Why the connection has ended, if it has.
    pub fn error(&self) -> Option<ConnectionError> {
        self.error.clone()
    }

    pub fn wake_when_readable(&mut self, id: StreamId, cx: &Context<'_>) {
        self.readers.insert(id, cx.waker().clone());
    }

    pub fn wake_when_writable(&mut self, id: StreamId, cx: &Context<'_>) {
        self.writers.insert(id, cx.waker().clone());
    }

    /// What tells of a stream's end.
    pub fn when_stopped(&mut self, id: StreamId) -> Arc<Notify> {
        self.stopped.entry(id).or_default().clone()
    }

    /// Whether the end of a stream that was asked for with [`when_stopped`](Self::when_stopped) is still to
    /// come.
    pub fn awaits_stop(&self, id: StreamId) -> bool {
        self.stopped.contains_key(&id)
    }

    /// Tells those who wait for a stream's end that it has come.
    pub fn wake_stopped(&mut self, id: StreamId) {
        if let Some(waiting) = self.stopped.remove(&id) {
            waiting.notify_waiters();
        }
    }

    /// Whether the server has turned down what we said before the handshake was complete. The state machine
    /// has then forgotten the streams on which we did, and gives their numbers to others.
    pub fn is_early_rejected(&mut self) -> bool {
        let connection = self.core.inner();
        self.is_established && connection.side().is_client() && !connection.accepted_0rtt()
    }

    pub fn forget_reader(&mut self, id: StreamId) {
        self.readers.remove(&id);
    }

    pub fn forget_writer(&mut self, id: StreamId) {
        self.writers.remove(&id);
        if self.stopped.get(&id).is_some_and(|waiting| Arc::strong_count(waiting) == 1) {
            self.stopped.remove(&id);
        }
    }

    /// Ends the connection at once.
    pub fn close(&mut self, now: Instant, code: VarInt, reason: Bytes) {
        if self.error.is_none() {
            self.core.inner().close(now, code, reason);
            self.terminate(ConnectionError::LocallyClosed);
            self.mark_dirty();
        }
    }

    /// Tells the application that the connection has ended.
    pub fn terminate(&mut self, error: ConnectionError) {
        self.error.get_or_insert(error);
        self.is_announced |= self.is_established;
        self.wake_waiting();
        self.datagrams.notify_waiters();
        self.wake_streams();
    }

    fn wake_streams(&mut self) {
        for wakers in [&mut self.readers, &mut self.writers] {
            wakers.drain().for_each(|(_, waker)| waker.wake());
        }
        self.stopped.drain().for_each(|(_, waiting)| waiting.notify_waiters());
    }

    /// Passes events on: the application's to its tasks, the endpoint's to `endpoint_events`.
    pub fn forward_events(
        &mut self,
        now: Instant,
        endpoint_events: &mut VecDeque<(ConnectionHandle, EndpointEvent)>,
    ) {
        if self.is_drained {
            return;
        }
        while let Some(event) = self.core.poll() {
            self.on_event(event);
        }
        if self.is_abandoned && self.error.is_none() && self.core.inner().streams().send_streams() == 0 {
            self.close(now, VarInt::from_u32(0), Bytes::new());
        }
        while let Some(event) = self.core.poll_endpoint_events() {
            if event.is_drained() {
                self.is_drained = true;
                self.under_way = None;
            }
            endpoint_events.push_back((self.handle, event));
        }
    }

    /// Forgets the client at once and without a word, if its handshake is still under way.
    pub fn give_up_handshake(&mut self, endpoint_events: &mut VecDeque<(ConnectionHandle, EndpointEvent)>) {
        if self.is_drained || self.under_way.take().is_none() {
            return;
        }
        self.terminate(ConnectionError::TimedOut);
        self.is_drained = true;
        endpoint_events.push_back((self.handle, EndpointEvent::drained()));
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Connected => {
                self.is_established = true;
                self.under_way = None;
                if self.is_early_rejected() {
                    self.wake_streams();
                }
            }
            Event::ConnectionLost { reason } => self.terminate(reason),
            Event::Stream(StreamEvent::Opened { .. } | StreamEvent::Available { .. }) => self.wake_waiting(),
            Event::Stream(StreamEvent::Readable { id }) => wake(&mut self.readers, id),
            Event::Stream(StreamEvent::Writable { id }) => wake(&mut self.writers, id),
            Event::Stream(StreamEvent::Finished { id }) => self.wake_stopped(id),
            Event::Stream(StreamEvent::Stopped { id, .. }) => {
                self.wake_stopped(id);
                wake(&mut self.writers, id);
            }
            Event::HandshakeDataReady => self.wake_waiting(),
            Event::DatagramReceived | Event::DatagramsUnblocked => self.datagrams.notify_waiters(),
        }
    }

    fn wake_waiting(&self) {
        self.events.notify_waiters();
    }
}

fn wake(wakers: &mut FxHashMap<StreamId, Waker>, id: StreamId) {
    if let Some(waker) = wakers.remove(&id) {
        waker.wake();
    }
}
