//! Datagrams of the application: unreliable, unordered, each in one packet (RFC 9221). They leave by the same
//! send clock as streams, and count in flight, but are never sent again.

use bytes::Bytes;
use quinn_proto::SendDatagramError as Refusal;

use super::connection::Connection;
use super::error::ConnectionError;
use super::wait::until;

impl Connection {
    /// Queues a datagram, ahead of stream data. If the queue is full the oldest ones in it are dropped:
    /// what is newest matters most. Dropping the connection's last handle does not wait for it to leave.
    pub fn send_datagram(&self, data: Bytes) -> Result<(), SendDatagramError> {
        self.queue_datagram(data, true).map(|_| ())
    }

    /// Queues a datagram, and waits for room in the queue if it is full.
    pub async fn send_datagram_wait(&self, data: Bytes) -> Result<(), SendDatagramError> {
        let mut waiting = data;
        until(self.0.datagrams(), || match self.queue_datagram(std::mem::take(&mut waiting), false) {
            Ok(Some(returned)) => {
                waiting = returned;
                None
            }
            result => Some(result.map(|_| ())),
        })
        .await
    }

    /// Waits for a datagram of the peer's. Those that nobody reads are dropped, the oldest first, beyond
    /// [`TransportConfig::datagram_receive_buffer_size`](super::TransportConfig::datagram_receive_buffer_size).
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        until(self.0.datagrams(), || {
            let mut state = self.0.lock();
            let data = state.core.inner().datagrams().recv();
            data.map(Ok).or_else(|| state.error().map(Err))
        })
        .await
    }

    /// Longest datagram that may be sent at present, in bytes; `None` if the peer takes none. It follows the
    /// path's MTU, and is a little over 1,100 at least unless the peer sets a limit of its own.
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.0.lock().core.inner().datagrams().max_size()
    }

    /// Bytes that may be queued without dropping what waits.
    pub fn datagram_send_buffer_space(&self) -> usize {
        self.0.lock().core.inner().datagrams().send_buffer_space()
    }

    /// Queues `data`, or gives it back if there is no room.
    fn queue_datagram(&self, data: Bytes, may_drop: bool) -> Result<Option<Bytes>, SendDatagramError> {
        let mut state = self.0.lock();
        if let Some(error) = state.error() {
            return Err(error.into());
        }
        match state.core.inner().datagrams().send(data, may_drop) {
            Ok(()) => {
                state.mark_dirty();
                Ok(None)
            }
            Err(Refusal::Blocked(data)) => Ok(Some(data)),
            Err(Refusal::UnsupportedByPeer) => Err(SendDatagramError::UnsupportedByPeer),
            Err(Refusal::Disabled) => Err(SendDatagramError::Disabled),
            Err(Refusal::TooLarge) => Err(SendDatagramError::TooLarge),
        }
    }
}

/// Why a datagram was not queued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer takes no datagrams.
    #[error("the peer takes no datagrams")]
    UnsupportedByPeer,
    /// We take none, and so must not send any: see
    /// [`TransportConfig::datagram_receive_buffer_size`](super::TransportConfig::datagram_receive_buffer_size).
    #[error("datagrams are disabled: the transport configuration has no buffer for them")]
    Disabled,
    /// It fits no packet, or not our queue; see [`Connection::max_datagram_size`].
    #[error("the datagram is longer than the path, the peer or the send buffer allow")]
    TooLarge,
    /// The connection has ended.
    #[error("connection lost")]
    ConnectionLost(#[from] ConnectionError),
}
