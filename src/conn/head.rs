//! The beginning of a datagram that has come, from which its packet's number is read ahead of `quinn-proto`.

use quinn_proto::crypto::HeaderKey;

use super::cid::CID_LEN;
use super::driver::SHARED_BUFFER;
use crate::signal::PacketNumber;

/// As much of a datagram as the number of its packet takes to be read, and its length.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    bytes: [u8; LEN],
    datagram: usize,
}

impl Head {
    /// The head of `datagram`, which has come to a connection whose ids are eight bytes long.
    pub fn of(datagram: &[u8]) -> Self {
        let mut bytes = [0; LEN];
        let len = datagram.len().min(LEN);
        bytes[..len].copy_from_slice(&datagram[..len]);
        Self { bytes, datagram: datagram.len() }
    }

    /// Whether it may wait: larger ones than Ethernet's and loopback's are not worth the room.
    pub(super) fn may_wait(&self) -> bool {
        self.datagram <= SHARED_BUFFER
    }

    /// Whether it is as large as bulk data makes datagrams: acknowledgements alone are smaller.
    pub(super) fn is_full(&self) -> bool {
        self.datagram >= LEAST_FULL
    }

    /// The number of the 1-RTT packet in it, if there is one, which is not authenticated by that. `next` is one
    /// more than the greatest number so far.
    pub(super) fn number(&self, key: &dyn HeaderKey, next: PacketNumber) -> Option<PacketNumber> {
        // RFC 9000 §17.3: a short header. §12.2: nothing follows its packet.
        let is_short = self.bytes[0] & 0x80 == 0;
        if !is_short || self.datagram < LEN || key.sample_size() > SAMPLE_LEN {
            return None;
        }
        let mut bytes = self.bytes;
        key.decrypt(NUMBER_AT, &mut bytes);
        let len = usize::from(bytes[0] & 0x03) + 1;
        let truncated =
            bytes[NUMBER_AT..NUMBER_AT + len].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        Some(PacketNumber(expand(truncated, 8 * len, next.0)))
    }
}

/// RFC 9000 §A.3: of all numbers that end with these bits, the one nearest to `expected`.
fn expand(truncated: u64, bits: usize, expected: u64) -> u64 {
    let window = 1_u64 << bits;
    let candidate = expected & !(window - 1) | truncated;
    if candidate + window / 2 <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

/// Where the number begins: behind the first byte and a connection id.
const NUMBER_AT: usize = 1 + CID_LEN;
/// All ciphers of TLS 1.3 sample so much (RFC 9001 §5.4), behind four bytes from where the number begins.
const SAMPLE_LEN: usize = 16;
const LEN: usize = NUMBER_AT + 4 + SAMPLE_LEN;
/// A datagram of the least size that every path carries (RFC 9000 §14).
const LEAST_FULL: usize = 1200;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_truncated_number_is_the_one_that_the_rfc_expands_it_to() {
        // RFC 9000 §A.3.
        assert_eq!(expand(0x9b32, 16, 0xa82f_30ea + 1), 0xa82f_9b32);
    }

    proptest! {
        /// RFC 9000 §A.2: the sender leaves so many bits that the number lies within half of a window.
        #[test]
        fn a_number_within_half_a_window_is_read_back(
            bytes in 1..=4_usize,
            expected in 0..1_u64 << 40,
            percent in -49..=49_i64,
        ) {
            let window = 1_u64 << (8 * bytes);
            let number = expected.saturating_add_signed(window.cast_signed() * percent / 100);
            prop_assert_eq!(expand(number & (window - 1), 8 * bytes, expected), number);
        }

        #[test]
        fn any_bytes_at_all_are_read_without_a_panic(datagram: Vec<u8>, next in 0..1_u64 << 62) {
            let _ = Head::of(&datagram).number(&Plain, PacketNumber(next));
        }
    }

    struct Plain;

    impl HeaderKey for Plain {
        fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}
        fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}
        fn sample_size(&self) -> usize {
            SAMPLE_LEN
        }
    }
}
