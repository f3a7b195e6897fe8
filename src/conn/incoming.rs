//! A client at the door.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use quinn_proto::ConnectionId;

use super::clock;
use super::connecting::Connecting;
use super::connection::Connection;
use super::core;
use super::door::UnderWay;
use super::endpoint::{Handle, setup};
use super::error::ConnectionError;
use super::server::ServerConfig;
use super::shard::{EndpointState, Waiting};

/// A connection that a client has begun, and the server not yet answered.
///
/// Awaiting it accepts it; dropping it refuses it.
pub struct Incoming {
    /// Empty once it has been answered.
    inner: Option<(quinn_proto::Incoming, UnderWay)>,
    /// The endpoint's configuration when the client came.
    config: Arc<ServerConfig>,
    endpoint: Handle,
}

impl Incoming {
    pub(super) fn new(waiting: Waiting, endpoint: Handle) -> Self {
        let Waiting { incoming, under_way, config } = waiting;
        Self { inner: Some((incoming, under_way)), config, endpoint }
    }

    /// Takes the connection up, under the configuration that the endpoint had when the client came; refuses
    /// it once the endpoint is closed.
    pub fn accept(self) -> Result<Connecting, ConnectionError> {
        let config = self.config.clone();
        self.accept_with(config)
    }

    /// Takes the connection up under a configuration of its own.
    pub fn accept_with(mut self, config: Arc<ServerConfig>) -> Result<Connecting, ConnectionError> {
        let (incoming, under_way) = self.take();
        let shard = &self.endpoint.shard;
        let outlet = self.endpoint.outlets().towards(incoming.remote_address());
        let setup = setup(&config.law, &config.transport, &outlet);
        let mut response = Vec::new();
        let mut endpoint = shard.endpoint();
        if endpoint.is_closed || endpoint.is_dead {
            endpoint.refuse(incoming);
            shard.mark_endpoint_dirty();
            return Err(ConnectionError::LocallyClosed);
        }
        let now = clock::now();
        let proto = config.proto.clone();
        match core::accept(&mut endpoint.proto, now, proto, &setup, incoming, &mut response) {
            Ok((handle, core)) => {
                endpoint.stats.accepted_handshakes += 1;
                Ok(Connecting::new(endpoint.insert(shard, handle, core, outlet, Some(under_way))))
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    endpoint.respond(transmit, response);
                    shard.mark_endpoint_dirty();
                }
                Err(error.cause)
            }
        }
    }

    /// Turns the client away; it is told so.
    pub fn refuse(mut self) {
        let (incoming, _) = self.take();
        self.answer(|endpoint| endpoint.refuse(incoming));
    }

    /// Asks the client to prove its address by coming back with a token (RFC 9000 §8.1.2): a round trip for
    /// it, and nothing to remember for us. Fails if it has come with a token already, see
    /// [`may_retry`](Self::may_retry).
    pub fn retry(mut self) -> Result<(), RetryError> {
        let (incoming, under_way) = self.take();
        match self.answer(|endpoint| endpoint.retry(incoming)) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.inner = Some((error.into_incoming(), under_way));
                Err(RetryError(Box::new(self)))
            }
        }
    }

    /// Forgets the client without an answer; it will ask again a few times.
    pub fn ignore(mut self) {
        let (incoming, _) = self.take();
        self.answer(|endpoint| endpoint.ignore(incoming));
    }

    /// The local address that the client reached, where the system tells it.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.peek().local_ip()
    }

    /// The client's address. Whether it is really there, tells
    /// [`remote_address_validated`](Self::remote_address_validated).
    pub fn remote_address(&self) -> SocketAddr {
        self.peek().remote_address()
    }

    /// Whether the client has proved that it receives what is sent to its address: it has come with the
    /// token of a Retry, or of an earlier connection. If not, [`retry`](Self::retry) is possible.
    pub fn remote_address_validated(&self) -> bool {
        self.peek().remote_address_validated()
    }

    /// Whether [`retry`](Self::retry) is possible.
    pub fn may_retry(&self) -> bool {
        self.peek().may_retry()
    }

    /// The connection id that the client made up for us, before a Retry if there was one.
    pub fn orig_dst_cid(&self) -> ConnectionId {
        *self.peek().orig_dst_cid()
    }

    fn peek(&self) -> &quinn_proto::Incoming {
        let (incoming, _) = self.inner.as_ref().expect("whatever answers consumes it");
        incoming
    }

    fn take(&mut self) -> (quinn_proto::Incoming, UnderWay) {
        self.inner.take().expect("whatever answers consumes it")
    }

    fn answer<T>(&self, answer: impl FnOnce(&mut EndpointState) -> T) -> T {
        let shard = &self.endpoint.shard;
        let result = answer(&mut shard.endpoint());
        shard.mark_endpoint_dirty();
        result
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl IntoFuture for Incoming {
    type Output = Result<Connection, ConnectionError>;
    type IntoFuture = IncomingFuture;

    fn into_future(self) -> IncomingFuture {
        IncomingFuture(self.accept())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some((incoming, _)) = self.inner.take() {
            self.answer(|endpoint| endpoint.refuse(incoming));
        }
    }
}

/// What awaiting an [`Incoming`] waits for.
#[derive(Debug)]
pub struct IncomingFuture(Result<Connecting, ConnectionError>);

impl Future for IncomingFuture {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok(connecting) => Pin::new(connecting).poll(cx),
            Err(error) => Poll::Ready(Err(error.clone())),
        }
    }
}

/// The client had come with a token already; a second Retry is against the protocol (RFC 9000 §17.2.5).
#[derive(Debug, thiserror::Error)]
#[error("the client's address is validated, or it has been sent a Retry before")]
pub struct RetryError(Box<Incoming>);

impl RetryError {
    /// The client, still waiting for an answer.
    pub fn into_incoming(self) -> Incoming {
        *self.0
    }
}
