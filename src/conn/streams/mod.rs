//! Streams: what an application writes to and reads from.
//!
//! Both ends implement tokio's `AsyncRead` and `AsyncWrite`. Bulk transfers do better with the chunk
//! methods: written chunks of 64 KB and more as [`Bytes`](bytes::Bytes) are not copied, and
//! [`RecvStream::read_chunk`] without order never waits for a retransmission.

mod recv;
mod send;

pub use recv::RecvStream;
pub use send::SendStream;
