//! The sending end of a stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn_proto::{FinishError, StreamId, VarInt, Written};
use tokio::io::AsyncWrite;

use crate::conn::core::Core;
use crate::conn::error::{ClosedStream, StoppedError, WriteError};
use crate::conn::state::{ConnectionRef, State};
use crate::conn::wait::until;

/// The sending end of a stream.
///
/// Dropping it finishes the stream.
#[derive(Debug)]
pub struct SendStream {
    connection: ConnectionRef,
    id: StreamId,
    /// Opened before a client's handshake was complete.
    is_early: bool,
    is_reset: bool,
}

impl SendStream {
    pub(in crate::conn) fn new(connection: ConnectionRef, id: StreamId, is_early: bool) -> Self {
        Self { connection, id, is_early, is_reset: false }
    }

    /// Writes some of `data`; the number of bytes taken, at least one unless `data` is empty.
    ///
    /// Waits while flow control or the send window leave no room. Cancel-safe.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_with(cx, |core, id| core.write(id, data))).await
    }

    /// Writes all of `data`.
    pub async fn write_all(&mut self, mut data: &[u8]) -> Result<(), WriteError> {
        while !data.is_empty() {
            let written = self.write(data).await?;
            data = &data[written..];
        }
        Ok(())
    }

    /// Writes all of `chunk` without copying it.
    pub async fn write_chunk(&mut self, chunk: Bytes) -> Result<(), WriteError> {
        self.write_all_chunks(&mut [chunk]).await
    }

    /// Writes some of `chunks` without copying them: how many of them, and how many bytes. What was taken is
    /// removed from them, also from one that was taken in part. Cancel-safe.
    pub async fn write_chunks(&mut self, chunks: &mut [Bytes]) -> Result<Written, WriteError> {
        poll_fn(|cx| self.poll_with(cx, |core, id| core.write_chunks(id, chunks))).await
    }

    /// Writes all of `chunks` without copying them; what was taken is removed from them.
    pub async fn write_all_chunks(&mut self, mut chunks: &mut [Bytes]) -> Result<(), WriteError> {
        while !chunks.is_empty() {
            let written = self.write_chunks(chunks).await?;
            chunks = &mut chunks[written.chunks..];
        }
        Ok(())
    }

    /// Writes some of `data`, or sees to it that the task is woken when there is room.
    pub fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, WriteError>> {
        self.poll_with(cx, |core, id| core.write(id, data))
    }

    /// Says that nothing more will be written; what was written is delivered all the same, also when
    /// all handles of the connection are dropped afterwards.
    pub fn finish(&mut self) -> Result<(), ClosedStream> {
        let mut state = self.connection.lock_stream(self.is_early).ok_or_else(ClosedStream::default)?;
        let result = state.core.inner().send_stream(self.id).finish();
        state.mark_dirty();
        match result {
            // The peer has stopped reading: there is nobody left to tell.
            Ok(()) | Err(FinishError::Stopped(_)) => Ok(()),
            Err(FinishError::ClosedStream) => Err(ClosedStream::default()),
        }
    }

    /// Abandons the stream: what the peer has not received yet is not sent again.
    pub fn reset(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        let mut state = self.connection.lock_stream(self.is_early).ok_or_else(ClosedStream::default)?;
        state.core.inner().send_stream(self.id).reset(code)?;
        state.wake_stopped(self.id);
        state.mark_dirty();
        drop(state);
        self.is_reset = true;
        Ok(())
    }

    /// Whose data leaves first: streams of a higher priority go before those of a lower one, at any number
    /// of bytes. Default 0.
    pub fn set_priority(&self, priority: i32) -> Result<(), ClosedStream> {
        let mut state = self.connection.lock_stream(self.is_early).ok_or_else(ClosedStream::default)?;
        state.core.inner().send_stream(self.id).set_priority(priority)
    }

    /// The priority.
    pub fn priority(&self) -> Result<i32, ClosedStream> {
        let mut state = self.connection.lock_stream(self.is_early).ok_or_else(ClosedStream::default)?;
        state.core.inner().send_stream(self.id).priority()
    }

    /// Waits until the peer has received everything (`None`) or has stopped reading (its code). After a
    /// [`reset`](Self::reset) there is nothing to wait for (`None`). Any number of tasks may wait; the
    /// future outlives the stream.
    pub fn stopped(
        &self,
    ) -> impl Future<Output = Result<Option<VarInt>, StoppedError>> + Send + Sync + 'static {
        let (connection, id) = (self.connection.clone(), self.id);
        let (is_early, is_reset) = (self.is_early, self.is_reset);
        async move {
            if is_reset {
                return Ok(None);
            }
            let events = {
                let mut state = connection.lock();
                if let Some(end) = end_of(&mut state, id, is_early) {
                    return end;
                }
                state.when_stopped(id)
            };
            until(&events, || {
                let mut state = connection.lock();
                let end = end_of(&mut state, id, is_early);
                end.or_else(|| (!state.awaits_stop(id)).then_some(Ok(None)))
            })
            .await
        }
    }

    /// The stream's number.
    pub fn id(&self) -> StreamId {
        self.id
    }

    fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut Core, StreamId) -> Result<T, quinn_proto::WriteError>,
    ) -> Poll<Result<T, WriteError>> {
        let Some(mut state) = self.connection.lock_stream(self.is_early) else {
            return Poll::Ready(Err(WriteError::ZeroRttRejected));
        };
        if let Some(error) = state.error() {
            return Poll::Ready(Err(error.into()));
        }
        match write(&mut state.core, self.id) {
            Ok(written) => {
                state.mark_dirty();
                Poll::Ready(Ok(written))
            }
            Err(quinn_proto::WriteError::Blocked) => {
                state.wake_when_writable(self.id, cx);
                Poll::Pending
            }
            Err(quinn_proto::WriteError::Stopped(code)) => Poll::Ready(Err(WriteError::Stopped(code))),
            Err(quinn_proto::WriteError::ClosedStream) => Poll::Ready(Err(WriteError::ClosedStream)),
        }
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Self::poll_write(self, cx, data).map_err(Into::into)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A second shutdown finds the stream finished, which is what it wanted.
        let _ = self.finish();
        Poll::Ready(Ok(()))
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let Some(mut state) = self.connection.lock_stream(self.is_early) else { return };
        state.forget_writer(self.id);
        let mut stream = state.core.inner().send_stream(self.id);
        if let Err(FinishError::Stopped(code)) = stream.finish() {
            let _ = stream.reset(code);
        }
        state.mark_dirty();
    }
}

/// How a stream has ended, if it has.
fn end_of(state: &mut State, id: StreamId, is_early: bool) -> Option<Result<Option<VarInt>, StoppedError>> {
    if is_early && state.is_early_rejected() {
        return Some(Err(StoppedError::ZeroRttRejected));
    }
    match state.core.inner().send_stream(id).stopped() {
        Err(ClosedStream { .. }) => Some(Ok(None)),
        Ok(Some(code)) => Some(Ok(Some(code))),
        Ok(None) => state.error().map(|error| Err(error.into())),
    }
}
