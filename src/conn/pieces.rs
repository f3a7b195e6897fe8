//! What streams are given to write, in pieces.

use bytes::Bytes;
use quinn_proto::{StreamId, WriteError, Written};

use super::core::Core;

impl Core {
    /// Writes as much of `data` as a stream takes at once, at least a byte.
    ///
    /// # Errors
    /// As `quinn-proto`'s stream, which takes nothing while it is blocked.
    pub fn write(&mut self, stream: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        let longest = self.longest_piece();
        self.inner().send_stream(stream).write(&data[..data.len().min(longest)])
    }

    /// Writes as much of `chunks` as a stream takes, without copying, and removes it from them; how many of
    /// them are through, and how many bytes. What is not copied is released piece by piece: `quinn-proto` counts a piece against
    /// the send window until the last byte of it is acknowledged.
    ///
    /// # Errors
    /// As `quinn-proto`'s stream, when it took nothing.
    pub fn write_chunks(&mut self, stream: StreamId, chunks: &mut [Bytes]) -> Result<Written, WriteError> {
        let longest = self.longest_piece();
        let mut stream = self.inner().send_stream(stream);
        let mut total = Written::default();
        for chunk in chunks {
            while !chunk.is_empty() {
                let piece = chunk.slice(..chunk.len().min(longest));
                match stream.write_chunks(&mut [piece]) {
                    Ok(written) => {
                        total.bytes += written.bytes;
                        let _ = chunk.split_to(written.bytes);
                    }
                    Err(_) if total.bytes > 0 => return Ok(total),
                    Err(error) => return Err(error),
                }
            }
            total.chunks += 1;
        }
        Ok(total)
    }

    /// A sixteenth of the send window: what is written without copying is released when a whole piece has been
    /// acknowledged, and for each datagram `quinn-proto` walks all pieces before the one that it is cut from.
    fn longest_piece(&self) -> usize {
        (self.send_window.as_len() / 16).max(LEAST_PIECE)
    }
}

/// A sixteenth of the least send window.
const LEAST_PIECE: usize = 64 << 10;
