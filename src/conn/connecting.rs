//! A connection whose handshake is under way, and what may be done with it before the handshake is over.

use std::any::Any;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn_proto::VarInt;

use super::connection::Connection;
use super::datagrams::SendDatagramError;
use super::error::ConnectionError;
use super::state::ConnectionRef;
use super::streams::{RecvStream, SendStream};

/// A connection whose handshake is under way. Awaiting it waits for the handshake to be complete.
#[must_use = "a connection is established by awaiting it"]
pub struct Connecting {
    connection: ConnectionRef,
    established: Waiting<Result<(), ConnectionError>>,
}

type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send + Sync>>;

impl Connecting {
    pub(super) fn new(connection: ConnectionRef) -> Self {
        let waiting = connection.uncounted();
        Self { connection, established: Box::pin(async move { waiting.established().await }) }
    }

    /// Uses the connection before its handshake is complete, a round trip earlier; what is said then may be
    /// replayed, see [`ZeroRttConnection`].
    ///
    /// A client can do so if it remembers the server from an earlier connection, with TLS's
    /// `enable_early_data`; otherwise it gets `self` back. A server always can.
    pub fn into_0rtt(self) -> Result<(ZeroRttConnection, ZeroRttAccepted), Self> {
        {
            let mut state = self.connection.lock();
            if !state.core.inner().side().is_server() && !state.core.inner().has_0rtt() {
                drop(state);
                return Err(self);
            }
            state.core.begin_early_data();
        }
        let waiting = self.connection.uncounted();
        let accepted =
            async move { waiting.established().await.is_ok() && !waiting.lock().is_early_rejected() };
        Ok((ZeroRttConnection(Connection(self.connection)), ZeroRttAccepted(Box::pin(accepted))))
    }

    /// What the handshake agreed on, as soon as that is known; see
    /// [`Connection::handshake_data`].
    pub async fn handshake_data(&mut self) -> Result<Box<dyn Any>, ConnectionError> {
        self.connection
            .wait(|state| {
                let data = state.core.inner().crypto_session().handshake_data();
                data.map(Ok).or_else(|| state.error().map(Err))
            })
            .await
    }

    /// The local address that the client reached, where the system tells it; `None` at the client.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.connection.lock().core.inner().local_ip()
    }

    /// The peer's address.
    pub fn remote_address(&self) -> SocketAddr {
        self.connection.lock().core.inner().remote_address()
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.established.as_mut().poll(cx).map_ok(|()| Connection(self.connection.clone()))
    }
}

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connecting").finish_non_exhaustive()
    }
}

/// A connection in use before its handshake is complete. **What a client says on it may be replayed.**
///
/// Whoever recorded a client's first datagrams can send them to the server again, any number of times, and
/// the server cannot tell (RFC 9001 §9.2). So a client sends on it, and a server acts on what it reads from
/// it, only what does no harm when it is done again: a request to read, not one to pay. A server may send on
/// it at once, but does not know yet to whom.
///
/// A [`Connection`] cannot be replayed: await [`established`](Self::established), or the
/// [`Connecting`] in the first place, and read only then. Streams know which they are:
/// [`RecvStream::is_0rtt`]. If the server does not accept a client's early data, the streams opened on it
/// fail with `ZeroRttRejected`, and the client says it again on the [`Connection`].
#[derive(Debug, Clone)]
pub struct ZeroRttConnection(Connection);

impl ZeroRttConnection {
    /// Waits for the handshake to be complete; from then on nothing can be replayed. That early data was
    /// accepted is another matter, see [`ZeroRttAccepted`].
    pub async fn established(self) -> Result<Connection, ConnectionError> {
        self.0.0.uncounted().established().await?;
        Ok(self.0)
    }

    /// As [`Connection::open_uni`]; may be replayed.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        self.0.open_uni().await
    }

    /// As [`Connection::open_bi`]; may be replayed.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        self.0.open_bi().await
    }

    /// As [`Connection::accept_uni`]; may be a replay.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        self.0.accept_uni().await
    }

    /// As [`Connection::accept_bi`]; may be a replay.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        self.0.accept_bi().await
    }

    /// As [`Connection::send_datagram`]; may be replayed.
    pub fn send_datagram(&self, data: Bytes) -> Result<(), SendDatagramError> {
        self.0.send_datagram(data)
    }

    /// As [`Connection::read_datagram`]; may be a replay.
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        self.0.read_datagram().await
    }

    /// As [`Connection::max_datagram_size`]: what the server allowed the last time.
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.0.max_datagram_size()
    }

    /// As [`Connection::close`].
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        self.0.close(code, reason);
    }

    /// As [`Connection::closed`].
    pub async fn closed(&self) -> ConnectionError {
        self.0.closed().await
    }

    /// As [`Connection::remote_address`].
    pub fn remote_address(&self) -> SocketAddr {
        self.0.remote_address()
    }
}

/// Whether the server took a client's early data, known when the handshake is over: `true` if it did. At the
/// server `true` once the handshake is complete. `false` if the handshake failed.
pub struct ZeroRttAccepted(Waiting<bool>);

impl Future for ZeroRttAccepted {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for ZeroRttAccepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZeroRttAccepted").finish_non_exhaustive()
    }
}
