//! The bytes that are downloaded: a function of their offset, so that the receiver can check every
//! chunk by itself, in whatever order chunks come.

use bytes::Bytes;

/// The stream's contents: a pattern that repeats, with a period that no packet or chunk size divides.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// Two periods, so that a period can be cut out at any place.
    twice: Bytes,
}

impl Pattern {
    pub fn new() -> Self {
        let mut state = 1u64;
        let period: Vec<u8> = (0..PERIOD).map(|_| next_byte(&mut state)).collect();
        Self { twice: period.repeat(2).into() }
    }

    /// The first `bytes` of the stream, in chunks that share one buffer.
    pub fn chunks(&self, bytes: u64) -> impl Iterator<Item = Bytes> {
        (0..bytes).step_by(PERIOD).map(move |offset| {
            let len = usize::try_from(bytes - offset).map_or(PERIOD, |left| left.min(PERIOD));
            self.twice.slice(..len)
        })
    }

    /// Whether `chunk` is what belongs at `offset`.
    pub fn matches(&self, mut offset: u64, chunk: &[u8]) -> bool {
        chunk.chunks(PERIOD).all(|part| {
            let at = usize::try_from(offset % PERIOD as u64).expect("less than the period");
            offset += part.len() as u64;
            self.twice[at..at + part.len()] == *part
        })
    }
}

/// Knuth's 64-bit linear congruential generator; its top byte is even enough for a pattern.
fn next_byte(state: &mut u64) -> u8 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    state.to_be_bytes()[0]
}

/// The largest prime below 2¹⁶. It is also the size of a write: larger ones save the send buffer work.
const PERIOD: usize = 65_521;
