//! A connection as the application holds it.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{ConnectionHandle, Dir, EndpointEvent, Event, StreamEvent, StreamId, VarInt};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::clock;
use super::core::Core;
use super::error::ConnectionError;
use super::interface::Outlet;
use super::shard::Shard;
use super::stats::ConnectionStats;
use super::streams::{RecvStream, SendStream};
use super::wait::until;

/// A QUIC connection.
///
/// Clones are handles of the same connection. When the last handle, streams included, is dropped, the
/// connection stays until every finished stream has been delivered, and then closes with code 0.
/// [`close`](Self::close) ends it at once.
#[derive(Debug, Clone)]
pub struct Connection(ConnectionRef);

impl Connection {
    /// Opens a stream to write on; waits while the peer allows no more streams.
    ///
    /// The peer learns of it with the first write or the end.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        let id = self.open(Dir::Uni).await?;
        Ok(SendStream::new(self.0.clone(), id))
    }

    /// Opens a stream to write on and to read from; waits while the peer allows no more streams.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.open(Dir::Bi).await?;
        Ok((SendStream::new(self.0.clone(), id), RecvStream::new(self.0.clone(), id)))
    }

    /// Waits for the peer to open a stream to read from.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        let id = self.accept(Dir::Uni).await?;
        Ok(RecvStream::new(self.0.clone(), id))
    }

    /// Waits for the peer to open a stream to read from and to write on.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.accept(Dir::Bi).await?;
        Ok((SendStream::new(self.0.clone(), id), RecvStream::new(self.0.clone(), id)))
    }

    /// Ends the connection at once: what has not been delivered is lost, and every pending operation
    /// fails with [`ConnectionError::LocallyClosed`]. The peer is told `code` and `reason`.
    ///
    /// To end it after delivery, wait for [`SendStream::stopped`] first, or just drop the handles.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        self.0.lock().close(clock::now(), code, Bytes::copy_from_slice(reason));
    }

    /// Waits until the connection has ended; why.
    pub async fn closed(&self) -> ConnectionError {
        self.wait(|state| state.error()).await
    }

    /// Why the connection has ended, if it has.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.0.lock().error()
    }

    /// What the connection did, and what it knows of its path.
    pub fn stats(&self) -> ConnectionStats {
        self.0.lock().core.stats()
    }

    /// Smoothed round-trip time; 333 ms before the first measurement (RFC 9002 §6.2.2).
    pub fn rtt(&self) -> Duration {
        self.0.lock().core.inner().rtt()
    }

    /// The peer's address at present.
    pub fn remote_address(&self) -> SocketAddr {
        self.0.lock().core.inner().remote_address()
    }

    /// The local address that the peer reached, where the system tells it.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.0.lock().core.inner().local_ip()
    }

    async fn open(&self, dir: Dir) -> Result<StreamId, ConnectionError> {
        self.wait(|state| match state.error() {
            Some(error) => Some(Err(error)),
            None => state.core.inner().streams().open(dir).map(Ok),
        })
        .await
    }

    async fn accept(&self, dir: Dir) -> Result<StreamId, ConnectionError> {
        self.wait(|state| {
            if let Some(id) = state.core.inner().streams().accept(dir) {
                // Taking a stream may allow the peer to open another.
                state.mark_dirty();
                return Some(Ok(id));
            }
            state.error().map(Err)
        })
        .await
    }

    /// Asks `ready` again after every event of the connection that is not a stream's own.
    async fn wait<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> T {
        until(&self.0.0.events, || ready(&mut self.0.lock())).await
    }
}

/// A connection whose handshake is under way.
#[must_use = "a connection is established by awaiting it"]
pub struct Connecting(Pin<Box<dyn Future<Output = Result<Connection, ConnectionError>> + Send>>);

impl Connecting {
    pub(super) fn new(connection: ConnectionRef) -> Self {
        let connection = Connection(connection);
        Self(Box::pin(async move {
            let failure = connection
                .wait(|state| match state.error() {
                    Some(error) => Some(Some(error)),
                    None => state.is_established.then_some(None),
                })
                .await;
            failure.map_or(Ok(connection), Err)
        }))
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connecting").finish_non_exhaustive()
    }
}

/// What the handles and the driver share.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Anything has happened but to one stream.
    events: Arc<Notify>,
    /// Handles of the application; the driver's own reference does not count.
    handles: AtomicUsize,
}

impl Shared {
    pub fn new(handle: ConnectionHandle, core: Core, shard: Arc<Shard>) -> Arc<Self> {
        let events = Arc::new(Notify::new());
        let state = State {
            core,
            handle,
            shard,
            is_dirty: false,
            is_established: false,
            is_abandoned: false,
            error: None,
            events: events.clone(),
            readers: FxHashMap::default(),
            writers: FxHashMap::default(),
            stopped: FxHashMap::default(),
        };
        Arc::new(Self { state: Mutex::new(state), events, handles: AtomicUsize::new(0) })
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Whether the driver has been asked to look at it.
    is_dirty: bool,
    is_established: bool,
    /// No handles are left: close as soon as what was finished is delivered.
    is_abandoned: bool,
    error: Option<ConnectionError>,
    /// Tasks wait here for anything but one stream.
    events: Arc<Notify>,
    readers: FxHashMap<StreamId, Waker>,
    writers: FxHashMap<StreamId, Waker>,
    stopped: FxHashMap<StreamId, Waker>,
}

impl State {
    /// Asks the driver to look at the connection.
    pub fn mark_dirty(&mut self) {
        if !std::mem::replace(&mut self.is_dirty, true) {
            self.shard.mark_dirty(self.handle);
        }
    }

    /// Tells the driver where the connection's datagrams leave from now on.
    pub fn set_outlet(&self, outlet: Outlet) {
        self.shard.set_outlet(self.handle, outlet);
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

    pub fn wake_when_stopped(&mut self, id: StreamId, cx: &Context<'_>) {
        self.stopped.insert(id, cx.waker().clone());
    }

    pub fn forget_reader(&mut self, id: StreamId) {
        self.readers.remove(&id);
    }

    pub fn forget_writer(&mut self, id: StreamId) {
        self.writers.remove(&id);
        self.stopped.remove(&id);
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
        self.wake_waiting();
        for wakers in [&mut self.readers, &mut self.writers, &mut self.stopped] {
            wakers.drain().for_each(|(_, waker)| waker.wake());
        }
    }

    /// Passes events on: the application's to its tasks, the endpoint's to `endpoint_events`.
    pub fn forward_events(
        &mut self,
        now: Instant,
        endpoint_events: &mut VecDeque<(ConnectionHandle, EndpointEvent)>,
    ) {
        while let Some(event) = self.core.poll() {
            self.on_event(event);
        }
        if self.is_abandoned && self.error.is_none() && self.core.inner().streams().send_streams() == 0 {
            self.close(now, VarInt::from_u32(0), Bytes::new());
        }
        while let Some(event) = self.core.poll_endpoint_events() {
            endpoint_events.push_back((self.handle, event));
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Connected => {
                self.is_established = true;
                self.wake_waiting();
            }
            Event::ConnectionLost { reason } => self.terminate(reason),
            Event::Stream(StreamEvent::Opened { .. } | StreamEvent::Available { .. }) => self.wake_waiting(),
            Event::Stream(StreamEvent::Readable { id }) => wake(&mut self.readers, id),
            Event::Stream(StreamEvent::Writable { id }) => wake(&mut self.writers, id),
            Event::Stream(StreamEvent::Finished { id }) => wake(&mut self.stopped, id),
            Event::Stream(StreamEvent::Stopped { id, .. }) => {
                wake(&mut self.stopped, id);
                wake(&mut self.writers, id);
            }
            Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked => {}
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
