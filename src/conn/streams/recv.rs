//! The receiving end of a stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use quinn_proto::{Chunk, Chunks, ReadableError, StreamId, VarInt};
use tokio::io::{AsyncRead, ReadBuf};

use crate::conn::error::{ClosedStream, ReadError, ReadExactError, ReadToEndError, ResetError};
use crate::conn::state::ConnectionRef;

/// The receiving end of a stream.
///
/// Dropping it before its end tells the peer to stop sending, with code 0.
#[derive(Debug)]
pub struct RecvStream {
    connection: ConnectionRef,
    id: StreamId,
    /// Opened before the handshake was complete.
    is_early: bool,
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
    pub(in crate::conn) fn new(connection: ConnectionRef, id: StreamId, is_early: bool) -> Self {
        Self { connection, id, is_early, end: None }
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
    /// for this stream. Nothing is copied. Which parts have come is remembered, 64 bytes for each gap: a peer can
    /// leave one after each byte within its window. Cancel-safe.
    pub async fn read_chunk(&mut self, max: usize, ordered: bool) -> Result<Option<Chunk>, ReadError> {
        poll_fn(|cx| self.poll_with(cx, ordered, |chunks| next_chunk(chunks, max))).await
    }

    /// Reads the next chunks in order into `chunks`: how many, or `None` at the end of the stream. Nothing
    /// is copied. Cancel-safe.
    pub async fn read_chunks(&mut self, chunks: &mut [Bytes]) -> Result<Option<usize>, ReadError> {
        if chunks.is_empty() {
            return Ok(Some(0));
        }
        let (mut read, all) = (0, chunks.len());
        let result = poll_fn(|cx| {
            self.poll_chunks(cx, usize::MAX, |chunk| {
                chunks[read] = chunk.bytes;
                read += 1;
                if read < all { usize::MAX } else { 0 }
            })
        })
        .await?;
        Ok(result.map(|()| read))
    }

    /// Reads in order into `buf`: the number of bytes, none at the end of the stream. Sees to it that the
    /// task is woken if there is nothing to read yet.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<Result<usize, ReadError>> {
        let mut buf = ReadBuf::new(buf);
        ready!(self.poll_read_buf(cx, &mut buf))?;
        Poll::Ready(Ok(buf.filled().len()))
    }

    /// Reads the rest of the stream, which may be `limit` bytes long.
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut data = Vec::new();
        while let Some(chunk) = self.read_chunk(usize::MAX, true).await? {
            if data.len() + chunk.bytes.len() > limit {
                return Err(ReadToEndError::TooLong);
            }
            data.extend_from_slice(&chunk.bytes);
        }
        Ok(data)
    }

    /// Tells the peer to stop sending, with `code`; what has arrived is discarded.
    pub fn stop(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        let mut state = self.connection.lock_stream(self.is_early).ok_or_else(ClosedStream::default)?;
        state.core.inner().recv_stream(self.id).stop(code)?;
        state.forget_reader(self.id);
        state.mark_dirty();
        self.end = Some(End::Stopped);
        Ok(())
    }

    /// Waits until the peer abandons the stream: with which code. `None` if it ends otherwise: everything has
    /// arrived, or we have stopped reading. Cancel-safe.
    pub async fn received_reset(&mut self) -> Result<Option<VarInt>, ResetError> {
        poll_fn(|cx| self.poll_received_reset(cx)).await
    }

    /// Whether the stream was opened before the handshake was complete: then its data may be a replay, and
    /// must not be acted on unless that does no harm, see
    /// [`ZeroRttConnection`](crate::ZeroRttConnection). Not so once the handshake is complete.
    pub fn is_0rtt(&self) -> bool {
        self.is_early
    }

    /// The stream's number.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Reads in order into the free part of `buf`, which stays as it is at the end of the stream. Sees to it
    /// that the task is woken if there is nothing to read yet.
    pub fn poll_read_buf(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), ReadError>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let result = self.poll_chunks(cx, buf.remaining(), |chunk| {
            buf.put_slice(&chunk.bytes);
            buf.remaining()
        });
        result.map_ok(|_| ())
    }

    /// Reads chunks in order, of `wanted` bytes at most, and gives each to `take`, which says how many more
    /// are wanted.
    fn poll_chunks(
        &mut self,
        cx: &mut Context<'_>,
        mut wanted: usize,
        mut take: impl FnMut(Chunk) -> usize,
    ) -> Poll<Result<Option<()>, ReadError>> {
        // An end that is met behind data counts from the next read on: the state machine tells it once.
        let mut met = None;
        let result = self.poll_with(cx, true, |chunks| {
            let mut has_read = false;
            while wanted > 0 {
                match next_chunk(chunks, wanted) {
                    Attempt::Read(chunk) => {
                        wanted = take(chunk);
                        has_read = true;
                    }
                    Attempt::Ended(end) if has_read => {
                        met = Some(end);
                        break;
                    }
                    Attempt::Blocked if has_read => break,
                    nothing_read => return nothing_read.map(|_| ()),
                }
            }
            Attempt::Read(())
        });
        self.end = self.end.or(met);
        result
    }

    fn poll_received_reset(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<VarInt>, ResetError>> {
        match self.end {
            None => {}
            Some(End::Reset(code)) => return Poll::Ready(Ok(Some(code))),
            Some(End::Finished | End::Stopped) => return Poll::Ready(Ok(None)),
        }
        let Some(mut state) = self.connection.lock_stream(self.is_early) else {
            return Poll::Ready(Err(ResetError::ZeroRttRejected));
        };
        match state.core.inner().recv_stream(self.id).received_reset() {
            Err(ClosedStream { .. }) => Poll::Ready(Ok(None)),
            Ok(Some(code)) => {
                // The stream's end may allow the peer to open another.
                state.mark_dirty();
                self.end = Some(End::Reset(code));
                Poll::Ready(Ok(Some(code)))
            }
            Ok(None) => match state.error() {
                Some(error) => Poll::Ready(Err(error.into())),
                None => {
                    state.wake_when_readable(self.id, cx);
                    Poll::Pending
                }
            },
        }
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
        let Some(mut state) = self.connection.lock_stream(self.is_early) else {
            return Poll::Ready(Err(ReadError::ZeroRttRejected));
        };
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
        let Some(mut state) = self.connection.lock_stream(self.is_early) else { return };
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
