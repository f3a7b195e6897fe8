//! The driver: one shard is one socket and one task.
//!
//! ```text
//! down   applications -mark_dirty-> Driver -egress.turn-> core.poll_transmit -> socket
//! up     socket -> endpoint -> core.handle_datagram -> applications' wakers
//! ```
//! The driver holds one lock at a time: the endpoint's, or one connection's.
//!
//! Where the kernel keeps release times, batches are handed over up to [`LEAD`] before they are to leave.
//! The core is told the release time for the present, so that round trips start there.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{ConnectionEvent, ConnectionHandle, EndpointEvent, TransportError, TransportErrorCode};
use quinn_udp::{BATCH_SIZE, RecvMeta};
use tokio::task::AbortHandle;

use super::ahead::Ahead;
use super::alarm::Alarm;
use super::batch::BatchLimits;
use super::clock;
use super::error::ConnectionError;
#[cfg(target_os = "linux")]
use super::error_queue::Report;
use super::head::Head;
use super::interface::{Outlet, Outlets, SendClock};
use super::sampler::Sampler;
use super::shard::Shard;
use super::sizing::Sizing;
use super::socket::{Outgoing, Socket};
use crate::egress::{Deadlines, Egress, Turn};
use crate::units::Bytes;

/// The task.
pub(super) struct Driver {
    shard: Arc<Shard>,
    socket: Socket,
    /// The socket before it, until when it is listened to.
    former: Option<(Socket, Instant)>,
    sizing: Sizing,
    egress: Egress,
    outlets: Arc<Outlets>,
    /// The task that keeps the outlets up to date, and ends with us.
    watcher: AbortHandle,
    /// The outlet of each connection, and the peer that it leads to.
    outlet_of: Vec<Option<(Outlet, SocketAddr)>>,
    /// What waits in the kernel for its time.
    ahead: Ahead,
    alarm: Alarm,
    sampler: Sampler,
    /// When each connection wants to be looked at.
    deadlines: Deadlines,
    /// When the interface is free for the next batch.
    egress_free_at: Option<Instant>,
    /// A batch that the full send buffer refused.
    unsent: Option<Outgoing>,
    batch: Vec<u8>,
    inbox: Inbox,
    /// Receive errors since something was last received.
    failures: u32,
    /// Why the driver ended, if the system is to blame.
    failure: Option<String>,
    events: Vec<(ConnectionHandle, (Head, ConnectionEvent))>,
    dirty: Vec<ConnectionHandle>,
    moved: Vec<(ConnectionHandle, Outlet)>,
    /// Connections whose handshake is to be given up.
    given_up: Vec<ConnectionHandle>,
    endpoint_events: VecDeque<(ConnectionHandle, EndpointEvent)>,
}

/// Receive buffers.
struct Inbox {
    space: Box<[u8]>,
    meta: [RecvMeta; RECEIVE_MESSAGES],
}

impl Driver {
    pub fn new(
        shard: Arc<Shard>,
        socket: Socket,
        sizing: Sizing,
        outlets: Arc<Outlets>,
        watcher: AbortHandle,
    ) -> io::Result<Self> {
        let ahead = Ahead::new(socket.room_ahead());
        Ok(Self {
            shard,
            socket,
            former: None,
            sizing,
            egress: Egress::new(Outlet::unknown(outlets.anchor()).anchor),
            outlets,
            watcher,
            outlet_of: Vec::new(),
            ahead,
            alarm: Alarm::new()?,
            sampler: Sampler::default(),
            deadlines: Deadlines::default(),
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
            moved: Vec::new(),
            given_up: Vec::new(),
            endpoint_events: VecDeque::new(),
        })
    }

    /// One turn of the loop: whether anything was done.
    fn turn(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut is_busy = self.receive(cx)?;
        // Another socket is registered with the runtime by the attempt to receive from it.
        if let Some(socket) = self.shard.take_socket() {
            self.move_to(socket);
            is_busy |= self.receive(cx)?;
        }
        is_busy |= self.take_dirty(cx);
        is_busy |= self.expire(clock::now());
        is_busy |= self.handle_endpoint_events();
        is_busy |= self.transmit(cx)?;
        if let Some(sizes) = self.sizing.poll(clock::now()) {
            self.socket.ask_buffers(sizes);
            self.ahead.set_most(self.socket.room_ahead());
        }
        #[cfg(target_os = "linux")]
        if self.socket.clock() == SendClock::Etf {
            self.read_reports(false);
        }
        Ok(is_busy)
    }

    /// Receives one batch of messages and hands their datagrams to the connections.
    fn receive(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut bufs = self.inbox.space.chunks_exact_mut(LARGEST_MESSAGE).map(IoSliceMut::new);
        let mut bufs: [IoSliceMut<'_>; RECEIVE_MESSAGES] =
            std::array::from_fn(|_| bufs.next().expect("the space holds all messages"));
        let mut polled = self.socket.poll_recv(cx, &mut bufs, &mut self.inbox.meta);
        if let Some((former, until)) = self.former.take_if(|_| polled.is_pending()) {
            polled = match former.poll_recv(cx, &mut bufs, &mut self.inbox.meta) {
                // It is done with, and its errors concern nobody.
                Poll::Ready(Err(_)) => Poll::Pending,
                polled => {
                    self.former = Some((former, until)).filter(|(_, until)| clock::now() < *until);
                    polled
                }
            };
        }
        let received = match polled {
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
        while let Some((handle, (head, event))) = events_left.next() {
            let Some(connection) = self.shard.endpoint().get(handle) else { continue };
            let mut state = connection.lock();
            self.sizing.on_rtt(state.core.inner().rtt());
            state.core.handle_datagram(now, &head, event);
            while let Some((_, (head, event))) = events_left.next_if(|(next, _)| *next == handle) {
                state.core.handle_datagram(now, &head, event);
            }
            state.forward_events(now, &mut self.endpoint_events);
            if let Some(Some((_, remote))) = self.outlet_of.get_mut(handle.0)
                && *remote != state.core.inner().remote_address()
            {
                *remote = state.core.inner().remote_address();
                self.outlets.moved.notify_one();
            }
            let timeout = state.core.poll_timer();
            self.join(handle.0, timeout);
        }
        drop(events_left);
        self.events = events;
        self.give_up_handshakes();
        Ok(true)
    }

    /// Lets the endpoint tell whose the datagrams are.
    fn route(&mut self, now: Instant, received: usize) {
        let mut endpoint = self.shard.endpoint();
        let messages = self.inbox.space.chunks_exact(LARGEST_MESSAGE).zip(&self.inbox.meta).take(received);
        for (message, meta) in messages {
            self.sizing.on_received(Bytes::of_len(meta.len));
            let stride = meta.stride.clamp(1, LARGEST_MESSAGE);
            // A few share a buffer: of one that is kept, by a client that waits or in a stream with a gap, the others'
            // room is kept, too.
            for few in message[..meta.len].chunks(stride * (SHARED_BUFFER / stride).max(1)) {
                let mut few = BytesMut::from(few);
                while !few.is_empty() {
                    let datagram = few.split_to(stride.min(few.len()));
                    self.events.extend(endpoint.take_in(now, meta, datagram));
                }
            }
        }
        self.given_up.append(&mut endpoint.given_up);
    }

    /// Makes room for the clients that came when all places were taken.
    fn give_up_handshakes(&mut self) {
        for handle in self.given_up.drain(..) {
            let connection = self.shard.endpoint().get(handle);
            if let Some(connection) = connection {
                connection.lock().give_up_handshake(&mut self.endpoint_events);
            }
        }
    }

    /// Goes on with another socket. What is on its way to the one before it is still received.
    fn move_to(&mut self, mut socket: Socket) {
        socket.ask_buffers(self.sizing.asked());
        self.ahead = Ahead::new(socket.room_ahead());
        let former = std::mem::replace(&mut self.socket, socket);
        self.former = Some((former, clock::now() + FORMER_SOCKET_IS_HEARD));
    }

    /// Looks at the connections that applications have touched.
    fn take_dirty(&mut self, cx: &Context<'_>) -> bool {
        let mut dirty = std::mem::take(&mut self.dirty);
        let is_busy = self.shard.take_dirty(&mut dirty, &mut self.moved, cx);
        self.move_connections();
        if !self.shard.has_handles() {
            // Nobody is left to accept.
            self.shard.endpoint().close_door();
        }
        let now = clock::now();
        for handle in dirty.drain(..) {
            let Some(connection) = self.shard.endpoint().get(handle) else { continue };
            let mut state = connection.lock();
            state.clear_dirty();
            state.forward_events(now, &mut self.endpoint_events);
            let timeout = state.core.poll_timer();
            self.join(handle.0, timeout);
        }
        self.dirty = dirty;
        is_busy
    }

    /// Takes up where connections' datagrams leave from now on.
    fn move_connections(&mut self) {
        let now = clock::now();
        for (handle, outlet) in self.moved.drain(..) {
            let Some(connection) = self.shard.endpoint().get(handle) else { continue };
            let remote = {
                let mut state = connection.lock();
                state.core.set_anchor(now, outlet.anchor);
                state.core.inner().remote_address()
            };
            let lead = if outlet.clock == SendClock::Timer { Duration::ZERO } else { LEAD };
            self.egress.assign(handle.0, outlet.link, outlet.anchor, lead);
            if self.outlet_of.len() <= handle.0 {
                self.outlet_of.resize(handle.0 + 1, None);
            }
            self.outlet_of[handle.0] = Some((outlet, remote));
            self.egress.join(handle.0);
        }
    }

    /// Looks at the connections whose time has come.
    fn expire(&mut self, now: Instant) -> bool {
        let mut is_busy = false;
        while let Some(flow) = self.deadlines.take_due(now) {
            let Some(connection) = self.shard.endpoint().get(ConnectionHandle(flow)) else { continue };
            let mut state = connection.lock();
            state.core.handle_timeout(now);
            state.forward_events(now, &mut self.endpoint_events);
            let timeout = state.core.poll_timer();
            self.join(flow, timeout);
            is_busy = true;
        }
        is_busy
    }

    /// Puts a connection in its interface's line. However long that is, its state machine's own timers go on.
    fn join(&mut self, flow: usize, timeout: Option<Instant>) {
        self.deadlines.set(flow, timeout);
        self.egress.join(flow);
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
                self.deadlines.set(handle.0, None);
                continue;
            }
            let connection = answer.and_then(|answer| Some((endpoint.get(handle)?, answer)));
            drop(endpoint);
            if let Some((connection, answer)) = connection {
                let now = clock::now();
                let mut state = connection.lock();
                state.core.handle_event(now, answer);
                state.forward_events(now, &mut self.endpoint_events);
                let timeout = state.core.poll_timer();
                self.join(handle.0, timeout);
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
            if let Some(outgoing) = self.unsent.take() {
                if self.socket.poll_writable(cx)?.is_pending() {
                    self.unsent = Some(outgoing);
                    return Ok(false);
                }
                self.send(outgoing)?;
                if self.unsent.is_some() {
                    self.egress_free_at = Some(now + FULL_BUFFER);
                    return Ok(false);
                }
                continue;
            }
            match self.egress.turn(now) {
                Turn::Idle => return Ok(false),
                Turn::Busy(free_at) => {
                    self.egress_free_at = Some(free_at);
                    return Ok(false);
                }
                Turn::Send { flow, at } => self.give_turn(now, flow, at)?,
            }
        }
        Ok(true)
    }

    /// Lets one connection send a batch, to leave at `at` or later. One that has nothing more to send is
    /// looked at again when its timer says so.
    fn give_turn(&mut self, now: Instant, flow: usize, at: Instant) -> io::Result<()> {
        let Some(connection) = self.shard.endpoint().get(ConnectionHandle(flow)) else { return Ok(()) };
        let outlet = self.outlet_of.get(flow).copied().flatten().map(|(outlet, _)| outlet);
        let kept_by_kernel = outlet.filter(|outlet| outlet.clock != SendClock::Timer);
        let at = kept_by_kernel.map_or(now, |outlet| at.max(now + outlet.margin));
        let mut state = connection.lock();
        let due = state.core.next_release();
        // Asked anew: a device may turn out not to segment when it is first told to.
        let bytes = self.egress.longest_batch(flow);
        let limits = BatchLimits { bytes, segments: self.socket.max_segments() };
        let mut transmit = state.poll_transmit(at, limits, &mut self.batch);
        let may_hurry = kept_by_kernel.is_some() && self.ahead.has_room(now);
        if transmit.is_none()
            && let Some(next) = state.core.next_release().filter(|next| may_hurry && *next <= now + LEAD)
        {
            transmit = state.poll_transmit(next.max(at), limits, &mut self.batch);
        }
        if let Some(transmit) = transmit {
            let departure = state.core.departure().max(at);
            let timeout = state.core.poll_timer();
            drop(state);
            self.egress.on_sent(Some(flow), now, Bytes::of_len(transmit.size));
            self.join(flow, timeout);
            let release = kept_by_kernel.map(|outlet| outlet.release(departure));
            // What the kernel keeps is to leave at its departure; what we kept was to leave when it was due.
            let planned = due.map(|due| if release.is_some() { departure } else { due.min(departure) });
            return self.send(Outgoing { transmit, release, planned });
        }
        state.forward_events(now, &mut self.endpoint_events);
        let timeout = state.core.poll_timeout();
        let next = state.core.next_release().filter(|next| may_hurry && *next > now + LEAD);
        drop(state);
        // Half the lead is for a timer that is late, half to hand over several batches at once.
        let early = next.map(|next| next - LEAD / 2);
        self.deadlines.set(flow, early.into_iter().chain(timeout).min());
        Ok(())
    }

    /// Sends the batch at hand, or keeps it until the send buffer has room.
    fn send(&mut self, outgoing: Outgoing) -> io::Result<()> {
        let size = Bytes::of_len(outgoing.transmit.size);
        if self.try_send(&outgoing)? {
            self.sizing.on_sent(size);
            if let Some(release) = outgoing.release {
                self.ahead.on_sent(release.at, size);
            }
        } else {
            self.shard.clock_stats().full_buffers += 1;
            self.unsent = Some(outgoing);
        }
        Ok(())
    }

    /// Follows the batch if it is the turn of one that waited for its time.
    #[cfg(target_os = "linux")]
    fn try_send(&mut self, outgoing: &Outgoing) -> io::Result<bool> {
        let now = clock::now();
        let Some(planned) = outgoing.planned.filter(|_| self.sampler.is_due(now)) else {
            return self.socket.try_send(outgoing, &self.batch);
        };
        // Those of the one before.
        self.read_reports(self.sampler.is_waiting());
        let is_sent = self.socket.try_send_stamped(outgoing, &self.batch)?;
        if is_sent {
            self.sampler.on_sent(now, planned);
        }
        Ok(is_sent)
    }

    #[cfg(not(target_os = "linux"))]
    fn try_send(&mut self, outgoing: &Outgoing) -> io::Result<bool> {
        self.socket.try_send(outgoing, &self.batch)
    }

    /// Takes up what the kernel has told of single datagrams.
    #[cfg(target_os = "linux")]
    fn read_reports(&mut self, are_stamped: bool) {
        let (sampler, mut stats) = (&mut self.sampler, self.shard.clock_stats());
        let mut realtime = None;
        let mut instant = |stamp: Duration| {
            let (now, present) = *realtime.get_or_insert_with(clock::now_on_realtime);
            now - present.saturating_sub(stamp)
        };
        self.socket.read_reports(are_stamped, |report| match report {
            Report::Queued(at, _) => sampler.on_queued(instant(at)),
            Report::Left(at, _) => sampler.on_left(instant(at), &mut stats),
            Report::Missed => stats.releases.missed += 1,
            Report::Refused => stats.releases.refused += 1,
        });
    }

    /// Sends the endpoint's own datagrams. Those that find the buffer full are dropped: they answer
    /// strangers, who will ask again.
    fn respond(&mut self) -> io::Result<()> {
        let mut response = self.shard.endpoint().responses.pop_front();
        while let Some((transmit, datagram)) = response {
            let now = clock::now();
            self.egress.on_sent(None, now, Bytes::of_len(transmit.size));
            let release = self.outlets.release_for_stranger(transmit.destination, now);
            self.socket.try_send(&Outgoing { transmit, release, planned: None }, &datagram)?;
            let mut endpoint = self.shard.endpoint();
            response = endpoint.responses.pop_front();
            if endpoint.is_idle() {
                endpoint.wake_waiting();
            }
        }
        Ok(())
    }

    /// Ends the driver because the system fails it.
    fn fail(&mut self, what: &str, error: &io::Error) -> Poll<()> {
        tracing::error!(%error, "the endpoint's {what} failed");
        self.failure = Some(format!("the endpoint's {what} failed: {error}"));
        Poll::Ready(())
    }

    /// Whether nobody needs the driver any more.
    fn is_finished(&self) -> bool {
        !self.shard.has_handles() && self.unsent.is_none() && self.shard.endpoint().is_idle()
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = self.get_mut();
        driver.shard.on_wake_up();
        for _ in 0..TURNS_PER_POLL {
            match driver.turn(cx) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => return driver.fail("socket", &error),
            }
            if driver.is_finished() {
                return Poll::Ready(());
            }
            let Some(wake_at) = driver.deadlines.next().into_iter().chain(driver.egress_free_at).min() else {
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
        self.watcher.abort();
        let connections = {
            let mut endpoint = self.shard.endpoint();
            endpoint.is_dead = true;
            while let Some(waiting) = endpoint.incoming.pop_front() {
                endpoint.proto.ignore(waiting.incoming);
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

/// How long a socket that was left is still heard: what was on its way to it arrives within a few round trips.
const FORMER_SOCKET_IS_HEARD: Duration = Duration::from_secs(3);

/// The longest UDP payload, and the longest coalesced message.
const LARGEST_MESSAGE: usize = 65_535;

/// Datagrams that come together share allocations of this size: five of them, where one each costs a twentieth of the
/// CPU of bulk.
pub(super) const SHARED_BUFFER: usize = 8 << 10;

/// Batches between two looks at the receive queue: a millisecond of ACKs at 10 Gbit/s.
const BATCHES_PER_TURN: usize = 16;

/// How long before its departure a batch is handed to a kernel that keeps release times: a timer may be half
/// of it late, and a change of plan takes effect after it at the latest. `fq` holds 100 packets of a flow
/// unless told otherwise; at a pacer's 250 us a batch these are eight.
pub(super) const LEAD: Duration = Duration::from_millis(2);

/// Until the next try when the send buffer is full, and the system does not tell when it has room. A buffer
/// of the default size takes longer to empty at 10 Gbit/s.
pub(super) const FULL_BUFFER: Duration = Duration::from_micros(250);

/// Turns between two returns to the runtime, so that a busy endpoint lets other tasks run.
const TURNS_PER_POLL: usize = 8;

/// A wait that is shorter than going to sleep and waking up takes is spent looking at the socket.
const SHORTEST_SLEEP: Duration = Duration::from_micros(10);
