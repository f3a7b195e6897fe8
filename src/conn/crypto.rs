//! The second tap: what `quinn-proto` takes for the TLS session.
//!
//! `quinn-proto` tells a congestion controller of packets by their departure only, of marks without their
//! count, and never of an acknowledgement that comes after it has declared the packet lost. The session that
//! seals and opens packets sees the rest: packet numbers, and the ACK frames in plain text.
//!
//! *What it decides:* nothing. Every call is passed on as it is. *Out:* the numbers of the packets sealed and
//! opened last, the peer's count of marks, and the ranges of ACK frames, as lines of [`tap`](super::tap)'s event
//! log ahead of those that the same frame causes there; and, of a datagram that has come, the number in its
//! header. No key and no payload leaves it but the key of that header, which goes to the tap.
//!
//! It reads 1-RTT packets only, and in them the ACK frame that stands first or behind PADDING, PING,
//! HANDSHAKE_DONE and IMMEDIATE_ACK frames, which is where senders put it. A frame that is missed costs
//! an undo or the exact count of marks, nothing else.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig,
    Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

use super::tap::{Entry, Shared};
use crate::signal::PacketNumber;

/// A client's TLS configuration with a tap on its sessions.
pub(super) struct TappedClient {
    pub inner: Arc<dyn ClientConfig>,
    pub shared: Arc<Shared>,
}

impl ClientConfig for TappedClient {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = self.inner.clone().start_session(version, server_name, params)?;
        Ok(Box::new(TappedSession { inner, shared: self.shared.clone(), has_handshake_keys: false }))
    }
}

/// A server's TLS configuration with a tap on its sessions.
pub(super) struct TappedServer {
    pub inner: Arc<dyn ServerConfig>,
    pub shared: Arc<Shared>,
}

impl ServerConfig for TappedServer {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.inner.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(self: Arc<Self>, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        let inner = self.inner.clone().start_session(version, params);
        Box::new(TappedSession { inner, shared: self.shared.clone(), has_handshake_keys: false })
    }
}

struct TappedSession {
    inner: Box<dyn Session>,
    shared: Arc<Shared>,
    /// The session hands out the keys of the handshake first, then those of the data.
    has_handshake_keys: bool,
}

impl TappedSession {
    fn tapped(&self, keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        let tapped = |inner| Box::new(TappedKey { inner, shared: self.shared.clone() });
        KeyPair { local: tapped(keys.local), remote: tapped(keys.remote) }
    }
}

impl Session for TappedSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.inner.write_handshake(buf)?;
        if !std::mem::replace(&mut self.has_handshake_keys, true) {
            return Some(keys);
        }
        let KeyPair { local, remote } = keys.header;
        let remote = Arc::from(remote);
        self.shared.set_header_key(Arc::clone(&remote));
        let header = KeyPair { local, remote: Box::new(SharedHeaderKey(remote)) as Box<dyn HeaderKey> };
        Some(Keys { header, packet: self.tapped(keys.packet) })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.inner.next_1rtt_keys()?;
        Some(self.tapped(keys))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

/// The header key of the peer's 1-RTT packets, which no key update changes (RFC 9001 §5.4).
struct SharedHeaderKey(Arc<dyn HeaderKey>);

impl HeaderKey for SharedHeaderKey {
    fn decrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        self.0.decrypt(pn_offset, packet);
    }

    fn encrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        self.0.encrypt(pn_offset, packet);
    }

    fn sample_size(&self) -> usize {
        self.0.sample_size()
    }
}

/// A 1-RTT key that notes what passes.
struct TappedKey {
    inner: Box<dyn PacketKey>,
    shared: Arc<Shared>,
}

impl TappedKey {
    fn note_ack(&self, payload: &[u8]) {
        let ce_count = self.shared.append(|log| {
            read_ack(payload, |first, last| {
                log.push(Entry::AckRange { first: PacketNumber(first), last: PacketNumber(last) });
            })
        });
        if let Some(count) = ce_count {
            self.shared.set_ce_count(count);
        }
    }
}

impl PacketKey for TappedKey {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        self.shared.set_sealed(PacketNumber(packet));
        self.inner.encrypt(packet, buf, header_len);
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.inner.decrypt(packet, header, payload)?;
        self.shared.set_opened(PacketNumber(packet));
        // Bulk data needs no closer look.
        if may_begin_with_ack(payload) {
            self.note_ack(payload);
        }
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}

fn may_begin_with_ack(payload: &[u8]) -> bool {
    payload.first().is_some_and(|first| SKIPPED.contains(first) || ACKS.contains(first))
}

/// Reads the ACK frame at the beginning of `payload`, if there is one (RFC 9000 §19.3): hands the least and
/// the greatest number of each range to `note`, and returns the count of congestion-experienced packets.
/// A malformed frame has no count, and only the ranges before the fault: `quinn-proto` ends the connection.
fn read_ack(payload: &[u8], mut note: impl FnMut(u64, u64)) -> Option<u64> {
    let skipped = payload.iter().take_while(|byte| SKIPPED.contains(byte)).count();
    let (kind, mut fields) = payload[skipped..].split_first()?;
    if !ACKS.contains(kind) {
        return None;
    }
    let mut largest = varint(&mut fields)?;
    let _delay = varint(&mut fields)?;
    let more = varint(&mut fields)?;
    let mut smallest = largest.checked_sub(varint(&mut fields)?)?;
    note(smallest, largest);
    for i in 1..=more {
        // §19.3.1: the gap counts from one below the last range, less one.
        largest = smallest.checked_sub(varint(&mut fields)?)?.checked_sub(2)?;
        smallest = largest.checked_sub(varint(&mut fields)?)?;
        if i < MOST_RANGES {
            note(smallest, largest);
        }
    }
    if *kind != ACK_ECN {
        return None;
    }
    let (_ect0, _ect1) = (varint(&mut fields)?, varint(&mut fields)?);
    varint(&mut fields)
}

/// RFC 9000 §16.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let (first, _) = bytes.split_first()?;
    let len = 1 << (first >> 6);
    let (field, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    // The two highest bits of the first byte tell the length.
    let first = u64::from(first & 0x3f);
    Some(field[1..].iter().fold(first, |value, &byte| value << 8 | u64::from(byte)))
}

/// ACK without and with ECN counts.
const ACKS: [u8; 2] = [0x02, ACK_ECN];
const ACK_ECN: u8 = 0x03;

/// PADDING, PING, HANDSHAKE_DONE and IMMEDIATE_ACK are one byte long.
const SKIPPED: [u8; 4] = [0x00, 0x01, 0x1e, 0x1f];

/// As many as `quinn-proto` sends; bounds what a hostile frame adds to the log.
const MOST_RANGES: u64 = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ranges of an ACK frame, the greatest first, and its CE count.
    fn read(payload: &[u8]) -> (Vec<(u64, u64)>, Option<u64>) {
        let mut ranges = Vec::new();
        let ce_count = if may_begin_with_ack(payload) {
            read_ack(payload, |first, last| ranges.push((first, last)))
        } else {
            None
        };
        (ranges, ce_count)
    }

    /// RFC 9000 §16, in `1 << size` bytes or as many as the value takes.
    fn write_varint(out: &mut Vec<u8>, value: u64, size: u8) {
        let fits = |size: &u8| value < 1 << ((8 << size) - 2);
        let size = (size..4).find(fits).expect("below 2^62");
        let bytes = (value | u64::from(size) << ((8 << size) - 2)).to_be_bytes();
        out.extend_from_slice(&bytes[8 - (1 << size)..]);
    }

    /// RFC 9000 §19.3, from the ranges' definition.
    fn write_ack(ranges: &[(u64, u64)], ecn: Option<[u64; 3]>, size: u8) -> Vec<u8> {
        let mut out = vec![if ecn.is_some() { 0x03 } else { 0x02 }];
        let ((first, last), more) = (ranges[0], &ranges[1..]);
        for value in [last, 25, more.len() as u64, last - first] {
            write_varint(&mut out, value, size);
        }
        let mut smallest = first;
        for (first, last) in more {
            // Gap: packets left out, less one. Length: packets in the range, less one.
            write_varint(&mut out, (smallest - last - 1) - 1, size);
            write_varint(&mut out, last - first, size);
            smallest = *first;
        }
        for count in ecn.into_iter().flatten() {
            write_varint(&mut out, count, size);
        }
        out
    }

    #[test]
    fn variable_length_integers_are_those_of_the_rfc() {
        // RFC 9000 §A.1.
        let samples: [(&[u8], u64); 5] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ];
        for (mut bytes, value) in samples {
            assert_eq!(varint(&mut bytes), Some(value));
            assert!(bytes.is_empty());
        }
    }

    #[test]
    fn an_ack_frame_names_its_packets() {
        // Largest 10, first range 10..=8; gap 1 leaves out 7 and 6; range 5..=5.
        assert_eq!(read(&[0x02, 10, 0, 1, 2, 1, 0]), (vec![(8, 10), (5, 5)], None));
        // Behind a ping and padding, with ECN counts; a stream frame follows.
        assert_eq!(read(&[0x01, 0x00, 0x03, 4, 0, 0, 4, 1, 2, 3, 0x08]), (vec![(0, 4)], Some(3)));
    }

    #[test]
    fn other_frames_and_faults_name_none() {
        for payload in [
            &[0x08, 0x02, 10, 0, 0, 2][..],
            &[],
            &[0x00, 0x01],
            // Cut short, and a first range longer than the largest number.
            &[0x02, 10, 0],
            &[0x02, 1, 0, 0, 2],
        ] {
            assert_eq!(read(payload), (vec![], None), "{payload:?}");
        }
        // A gap that reaches below zero ends the reading.
        assert_eq!(read(&[0x03, 3, 0, 1, 1, 1, 0, 7, 7, 7]), (vec![(2, 3)], None));
    }

    #[test]
    fn a_frame_of_many_ranges_adds_a_bounded_number_of_lines() {
        let ranges: Vec<_> = (0..700).rev().map(|i| (2 * i, 2 * i)).collect();
        let (read, ce_count) = read(&write_ack(&ranges, Some([1, 2, 3]), 0));
        assert_eq!((&read[..], ce_count), (&ranges[..64], Some(3)));
    }

    prop_compose! {
        /// Ranges from the greatest down, as gaps and lengths from any point.
        fn any_ranges()(
            largest in 0..1_u64 << 62,
            steps in prop::collection::vec((0..5_000_u64, 0..5_000_u64), 1..40),
        ) -> Vec<(u64, u64)> {
            let mut last = Some(largest);
            let mut ranges = Vec::new();
            for (length, gap) in steps {
                let Some(end) = last else { break };
                let first = end.saturating_sub(length);
                ranges.push((first, end));
                last = first.checked_sub(gap + 2);
            }
            ranges
        }
    }

    proptest! {
        #[test]
        fn reading_is_the_inverse_of_writing(
            ranges in any_ranges(),
            ecn in prop::option::of(prop::array::uniform3(0..1_u64 << 62)),
            size in 0_u8..4,
            before in prop::collection::vec(prop::sample::select(&SKIPPED[..]), 0..4),
            after in prop::collection::vec(any::<u8>(), 0..8),
        ) {
            let payload = [before, write_ack(&ranges, ecn, size), after].concat();
            prop_assert_eq!(read(&payload), (ranges, ecn.map(|[_, _, ce]| ce)));
        }

        /// Any bytes at all: no panic, and no range upside down.
        #[test]
        fn reading_is_total(kind in prop::sample::select(vec![0x01_u8, 0x02, 0x03]), rest: Vec<u8>) {
            for (first, last) in read(&[vec![kind], rest].concat()).0 {
                prop_assert!(first <= last);
            }
        }
    }
}
