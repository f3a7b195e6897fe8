//! Errors, one enum per caller's action. The application's error codes are QUIC's 62-bit numbers.

use std::io;

use quinn_proto::VarInt;
pub use quinn_proto::{ClosedStream, ConnectError, ConnectionError};

/// Why a read failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer abandoned the stream.
    #[error("the peer reset the stream with code {0}")]
    Reset(VarInt),
    /// The connection ended before the stream did.
    #[error("connection lost")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was stopped, or read to its end, before.
    #[error("the stream is closed")]
    ClosedStream,
    /// An ordered read followed an unordered one.
    #[error("ordered read after an unordered one")]
    IllegalOrderedRead,
    /// The stream was opened before the handshake was complete, and the server did not take early data.
    #[error("the server turned down early data (0-RTT)")]
    ZeroRttRejected,
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match error {
            ReadError::Reset(_) | ReadError::ZeroRttRejected => io::ErrorKind::ConnectionReset,
            ReadError::ConnectionLost(_) | ReadError::ClosedStream => io::ErrorKind::NotConnected,
            ReadError::IllegalOrderedRead => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

/// Why [`RecvStream::read_exact`](super::RecvStream::read_exact) failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadExactError {
    /// The stream ended first.
    #[error("the stream ended after {0} bytes")]
    FinishedEarly(usize),
    /// A read failed.
    #[error(transparent)]
    ReadError(#[from] ReadError),
}

/// Why [`RecvStream::read_to_end`](super::RecvStream::read_to_end) failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadToEndError {
    /// The stream is longer than the caller's limit.
    #[error("the stream is longer than the caller's limit")]
    TooLong,
    /// A read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why a write failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer no longer wants the stream.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(VarInt),
    /// The connection ended.
    #[error("connection lost")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was finished or reset before.
    #[error("the stream is closed")]
    ClosedStream,
    /// The stream was opened before the handshake was complete, and the server did not take early data.
    #[error("the server turned down early data (0-RTT)")]
    ZeroRttRejected,
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        let kind = match error {
            WriteError::Stopped(_) | WriteError::ZeroRttRejected => io::ErrorKind::ConnectionReset,
            WriteError::ConnectionLost(_) | WriteError::ClosedStream => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}

impl From<ClosedStream> for WriteError {
    fn from(_: ClosedStream) -> Self {
        Self::ClosedStream
    }
}

impl From<StoppedError> for WriteError {
    fn from(error: StoppedError) -> Self {
        match error {
            StoppedError::ConnectionLost(error) => Self::ConnectionLost(error),
            StoppedError::ZeroRttRejected => Self::ZeroRttRejected,
        }
    }
}

/// Why waiting for the end of a stream that we write on failed, see
/// [`SendStream::stopped`](super::SendStream::stopped).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoppedError {
    /// The connection ended.
    #[error("connection lost")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was opened before the handshake was complete, and the server did not take early data.
    #[error("the server turned down early data (0-RTT)")]
    ZeroRttRejected,
}

impl From<StoppedError> for io::Error {
    fn from(error: StoppedError) -> Self {
        let kind = match error {
            StoppedError::ZeroRttRejected => io::ErrorKind::ConnectionReset,
            StoppedError::ConnectionLost(_) => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}

/// Why waiting for the peer to abandon a stream failed, see
/// [`RecvStream::received_reset`](super::RecvStream::received_reset).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResetError {
    /// The connection ended.
    #[error("connection lost")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was opened before the handshake was complete, and the server did not take early data.
    #[error("the server turned down early data (0-RTT)")]
    ZeroRttRejected,
}

impl From<ResetError> for ReadError {
    fn from(error: ResetError) -> Self {
        match error {
            ResetError::ConnectionLost(error) => Self::ConnectionLost(error),
            ResetError::ZeroRttRejected => Self::ZeroRttRejected,
        }
    }
}

impl From<ResetError> for io::Error {
    fn from(error: ResetError) -> Self {
        let kind = match error {
            ResetError::ZeroRttRejected => io::ErrorKind::ConnectionReset,
            ResetError::ConnectionLost(_) => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}
