//! Streams: what an application writes to and reads from.
//!
//! Both ends implement tokio's `AsyncRead` and `AsyncWrite`. Bulk transfers do better with the chunk
//! methods: written chunks of 64 KB and more as [`Bytes`](bytes::Bytes) are not copied, and
//! [`RecvStream::read_chunk`] without order never waits for a retransmission.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use quinn_proto::{Chunk, Chunks, FinishError, ReadableError, StreamId, VarInt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::ConnectionRef;
use super::core::Core;
use super::error::{ClosedStream, ConnectionError, ReadError, ReadExactError, ReadToEndError, WriteError};

/// The sending end of a stream.
///
/// Dropping it finishes the stream.
#[derive(Debug)]
pub struct SendStream {
    connection: ConnectionRef,
    id: StreamId,
    is_reset: bool,
}

impl SendStream {
    pub(super) fn new(connection: ConnectionRef, id: StreamId) -> Self {
        Self { connection, id, is_reset: false }
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
        self.write_chunks(&mut [chunk]).await
    }

    /// Writes all of `chunks` without copying them; what was taken is removed from them.
    pub async fn write_chunks(&mut self, mut chunks: &mut [Bytes]) -> Result<(), WriteError> {
        while !chunks.is_empty() {
            let through = poll_fn(|cx| self.poll_with(cx, |core, id| core.write_chunks(id, chunks))).await?;
            chunks = &mut chunks[through..];
        }
        Ok(())
    }

    /// Says that nothing more will be written; what was written is delivered all the same, also when
    /// all handles of the connection are dropped afterwards.
    pub fn finish(&mut self) -> Result<(), ClosedStream> {
        let mut state = self.connection.lock();
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
        let mut state = self.connection.lock();
        state.core.inner().send_stream(self.id).reset(code)?;
        state.mark_dirty();
        self.is_reset = true;
        Ok(())
    }

    /// Waits until the peer has received everything (`None`) or has stopped reading (its code). After a
    /// [`reset`](Self::reset) there is nothing to wait for (`None`).
    pub async fn stopped(&self) -> Result<Option<VarInt>, ConnectionError> {
        if self.is_reset {
            return Ok(None);
        }
        poll_fn(|cx| {
            let mut state = self.connection.lock();
            match state.core.inner().send_stream(self.id).stopped() {
                Err(_) => Poll::Ready(Ok(None)),
                Ok(Some(code)) => Poll::Ready(Ok(Some(code))),
                Ok(None) => match state.error() {
                    Some(error) => Poll::Ready(Err(error)),
                    None => {
                        state.wake_when_stopped(self.id, cx);
                        Poll::Pending
                    }
                },
            }
        })
        .await
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
        let mut state = self.connection.lock();
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
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_with(cx, |core, id| core.write(id, data)).map_err(Into::into)
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
        let mut state = self.connection.lock();
        state.forget_writer(self.id);
        let mut stream = state.core.inner().send_stream(self.id);
        if let Err(FinishError::Stopped(code)) = stream.finish() {
            let _ = stream.reset(code);
        }
        state.mark_dirty();
    }
}

/// The receiving end of a stream.
///
/// Dropping it before its end tells the peer to stop sending, with code 0.
#[derive(Debug)]
pub struct RecvStream {
    connection: ConnectionRef,
    id: StreamId,
    /// How the stream ended, once it has.
    end: Option<End>,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Finished,
    Reset(VarInt),
    Stopped,
}

/// What one attempt to read came to.
enum Attempt<T> {
    Read(T),
    Blocked,
    Ended(End),
}

impl<T> Attempt<T> {
    fn map<U>(self, f: impl FnOnce(T) -> U) -> Attempt<U> {
        match self {
            Self::Read(value) => Attempt::Read(f(value)),
            Self::Blocked => Attempt::Blocked,
            Self::Ended(end) => Attempt::Ended(end),
        }
    }
}

impl RecvStream {
    pub(super) fn new(connection: ConnectionRef, id: StreamId) -> Self {
        Self { connection, id, end: None }
    }

    /// Reads in order into `buf`: the number of bytes, or `None` at the end of the stream.
    /// Cancel-safe.
    pub async fn read(&mut self, buf: &mut [u8]) -> Result<Option<usize>, ReadError> {
        let mut buf = ReadBuf::new(buf);
        poll_fn(|cx| self.poll_read_buf(cx, &mut buf)).await?;
        let read = buf.filled().len();
        Ok((read > 0 || buf.capacity() == 0).then_some(read))
    }

    /// Fills `buf`.
    pub async fn read_exact(&mut self, buf: &mut [u8]) -> Result<(), ReadExactError> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.read(&mut buf[filled..]).await? {
                Some(read) => filled += read,
                None => return Err(ReadExactError::FinishedEarly(filled)),
            }
        }
        Ok(())
    }

    /// Reads the next chunk of at most `max` bytes, or `None` at the end of the stream.
    ///
    /// With `ordered` false, chunks come as they arrive, with their offset; then ordered reads are over
    /// for this stream. Nothing is copied. Cancel-safe.
    pub async fn read_chunk(&mut self, max: usize, ordered: bool) -> Result<Option<Chunk>, ReadError> {
        poll_fn(|cx| self.poll_with(cx, ordered, |chunks| next_chunk(chunks, max))).await
    }

    /// Reads the rest of the stream, which may be `limit` bytes long.
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut data = Vec::new();
        while let Some(chunk) = self.read_chunk(usize::MAX, true).await? {
            if data.len() + chunk.bytes.len() > limit {
                return Err(ReadToEndError::TooLong(limit));
            }
            data.extend_from_slice(&chunk.bytes);
        }
        Ok(data)
    }

    /// Tells the peer to stop sending, with `code`; what has arrived is discarded.
    pub fn stop(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        let mut state = self.connection.lock();
        state.core.inner().recv_stream(self.id).stop(code)?;
        state.mark_dirty();
        self.end = Some(End::Stopped);
        Ok(())
    }

    /// The stream's number.
    pub fn id(&self) -> StreamId {
        self.id
    }

    fn poll_read_buf(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<(), ReadError>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        // An end that is met behind data counts from the next read on: the state machine tells it once.
        let mut met = None;
        let result = self.poll_with(cx, true, |chunks| {
            let before = buf.filled().len();
            while buf.remaining() > 0 {
                match next_chunk(chunks, buf.remaining()) {
                    Attempt::Read(chunk) => buf.put_slice(&chunk.bytes),
                    Attempt::Ended(end) if buf.filled().len() > before => {
                        met = Some(end);
                        break;
                    }
                    Attempt::Blocked if buf.filled().len() > before => break,
                    nothing_read => return nothing_read.map(|_| ()),
                }
            }
            Attempt::Read(())
        });
        self.end = self.end.or(met);
        result.map_ok(|_| ())
    }

    /// Makes one attempt to read, and sees to it that the task is woken if it came to nothing.
    fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        ordered: bool,
        read: impl FnOnce(&mut Chunks<'_>) -> Attempt<T>,
    ) -> Poll<Result<Option<T>, ReadError>> {
        match self.end {
            None => {}
            Some(End::Finished) => return Poll::Ready(Ok(None)),
            Some(End::Reset(code)) => return Poll::Ready(Err(ReadError::Reset(code))),
            Some(End::Stopped) => return Poll::Ready(Err(ReadError::ClosedStream)),
        }
        let mut state = self.connection.lock();
        let mut stream = state.core.inner().recv_stream(self.id);
        let mut chunks = match stream.read(ordered) {
            Ok(chunks) => chunks,
            Err(ReadableError::ClosedStream) => return Poll::Ready(Err(ReadError::ClosedStream)),
            Err(ReadableError::IllegalOrderedRead) => return Poll::Ready(Err(ReadError::IllegalOrderedRead)),
        };
        let attempt = read(&mut chunks);
        if chunks.finalize().should_transmit() {
            state.mark_dirty();
        }
        match attempt {
            Attempt::Read(value) => Poll::Ready(Ok(Some(value))),
            Attempt::Blocked => match state.error() {
                Some(error) => Poll::Ready(Err(error.into())),
                None => {
                    state.wake_when_readable(self.id, cx);
                    Poll::Pending
                }
            },
            Attempt::Ended(end) => {
                self.end = Some(end);
                Poll::Ready(match end {
                    End::Reset(code) => Err(ReadError::Reset(code)),
                    _ => Ok(None),
                })
            }
        }
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_read_buf(cx, buf))?;
        Poll::Ready(Ok(()))
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let mut state = self.connection.lock();
        state.forget_reader(self.id);
        if self.end.is_none() && state.core.inner().recv_stream(self.id).stop(VarInt::from_u32(0)).is_ok() {
            state.mark_dirty();
        }
    }
}

fn next_chunk(chunks: &mut Chunks<'_>, max: usize) -> Attempt<Chunk> {
    match chunks.next(max) {
        Ok(Some(chunk)) => Attempt::Read(chunk),
        Ok(None) => Attempt::Ended(End::Finished),
        Err(quinn_proto::ReadError::Blocked) => Attempt::Blocked,
        Err(quinn_proto::ReadError::Reset(code)) => Attempt::Ended(End::Reset(code)),
    }
}
