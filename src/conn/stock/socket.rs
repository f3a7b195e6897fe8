//! The socket that quinn sees.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use super::keeper::{Keeper, Slot};

/// Splits what quinn's connections send into bursts.
#[derive(Debug)]
pub(super) struct PacedSocket {
    keeper: Arc<Keeper>,
}

/// Where a connection's task is woken.
#[derive(Debug, Default)]
pub(super) struct Place {
    waker: Mutex<Option<Waker>>,
    /// The socket refused its last datagram.
    is_refused: AtomicBool,
    /// Where its controllers wait.
    pub slot: OnceLock<Weak<Slot>>,
}

impl Place {
    pub fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        waker.into_iter().for_each(Waker::wake);
    }

    fn stay(&self, waker: &Waker) {
        let mut stored = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !stored.as_ref().is_some_and(|stored| stored.will_wake(waker)) {
            *stored = Some(waker.clone());
        }
    }
}

thread_local! {
    /// Who sends next on this thread. A connection of quinn's asks for room and sends in one breath; what its endpoint
    /// sends by itself follows no question.
    static SENDER: RefCell<Option<Arc<Place>>> = const { RefCell::new(None) };
}

impl PacedSocket {
    pub fn new(keeper: Arc<Keeper>) -> Self {
        Self { keeper }
    }
}

impl AsyncUdpSocket for PacedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller { socket: self, place: Arc::default(), room: None })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let sender = SENDER.take();
        let sent = self.keeper.send(transmit, sender.as_ref());
        if let Some(sender) = sender {
            let is_refused = matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
            sender.is_refused.store(is_refused, Ordering::Relaxed);
        }
        sent
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.keeper.socket().poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.keeper.socket().local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.keeper.socket().max_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.keeper.socket().max_received_segments()
    }

    fn may_fragment(&self) -> bool {
        self.keeper.socket().may_fragment()
    }
}

type Room = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

/// One connection's question for room.
struct Poller {
    socket: Arc<PacedSocket>,
    place: Arc<Place>,
    /// Waits for the send buffer.
    room: Option<Room>,
}

impl UdpPoller for Poller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.place.stay(cx.waker());
        if self.place.is_refused.swap(false, Ordering::Relaxed) {
            let keeper = self.socket.keeper.clone();
            self.room = Some(Box::pin(async move { keeper.socket().writable().await }));
        }
        if let Some(room) = &mut self.room {
            match room.as_mut().poll(cx) {
                Poll::Ready(Ok(())) => self.room = None,
                other => return other,
            }
        }
        SENDER.set(Some(self.place.clone()));
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").field("place", &self.place).finish_non_exhaustive()
    }
}
