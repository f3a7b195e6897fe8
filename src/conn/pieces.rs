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
        self.inner().send_stream(stream).write(&data[..data.len().min(LONGEST_PIECE)])
    }

    /// Writes as much of `chunks` as a stream takes, without copying, and removes it from them; how many of
    /// them are through, and how many bytes. What is not copied is released piece by piece: `quinn-proto` counts a piece against
    /// the send window until the last byte of it is acknowledged.
    ///
    /// # Errors
    /// As `quinn-proto`'s stream, when it took nothing.
    pub fn write_chunks(&mut self, stream: StreamId, chunks: &mut [Bytes]) -> Result<Written, WriteError> {
        let mut stream = self.inner().send_stream(stream);
        let mut total = Written::default();
        for chunk in chunks {
            while !chunk.is_empty() {
                let piece = chunk.slice(..chunk.len().min(LONGEST_PIECE));
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
}

/// What is written without copying is released in pieces of this size: a sixteenth of the least send window.
const LONGEST_PIECE: usize = 64 << 10;
