//! Packet protection that costs nothing and protects nothing: for simulations.
//!
//! TLS runs as it does in reality, so handshakes have their real packets and sizes; only the keys of
//! the packets are replaced. A packet's tag still binds its number, its header and its key phase, so
//! that a packet of another phase or a wrongly decoded number is refused just as in reality, and the
//! trace of packets is the same as with real protection.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig,
    Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

/// A client's TLS without packet protection.
pub struct NullClient(pub Arc<dyn ClientConfig>);

/// A server's TLS without packet protection.
pub struct NullServer(pub Arc<dyn ServerConfig>);

impl ClientConfig for NullClient {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = self.0.clone().start_session(version, server_name, params)?;
        Ok(Box::new(NullSession { inner, next_phase: FIRST_DATA_PHASE, keys_given: 0 }))
    }
}

impl ServerConfig for NullServer {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.0.initial_keys(version, dst_cid).map(|_| keys(INITIAL))
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.0.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(self: Arc<Self>, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        let inner = self.0.clone().start_session(version, params);
        Box::new(NullSession { inner, next_phase: FIRST_DATA_PHASE, keys_given: 0 })
    }
}

struct NullSession {
    inner: Box<dyn Session>,
    /// Secret of the next 1-RTT key phase; both ends count the same phases.
    next_phase: u64,
    /// Key sets that the handshake has handed out.
    keys_given: u64,
}

impl Session for NullSession {
    fn initial_keys(&self, _dst_cid: &ConnectionId, _side: Side) -> Keys {
        keys(INITIAL)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner
            .early_crypto()
            .map(|_| (Box::new(NullHeader) as _, Box::new(NullKey { secret: EARLY }) as _))
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
        self.inner.write_handshake(buf)?;
        // The handshake hands out the Handshake keys first, then the keys of the first data phase.
        self.keys_given += 1;
        if self.keys_given == 1 { Some(keys(HANDSHAKE)) } else { Some(keys(self.take_phase())) }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.inner.next_1rtt_keys()?;
        Some(keys(self.take_phase()).packet)
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

impl NullSession {
    fn take_phase(&mut self) -> u64 {
        self.next_phase += 1;
        self.next_phase - 1
    }
}

fn keys(secret: u64) -> Keys {
    Keys {
        header: KeyPair { local: Box::new(NullHeader), remote: Box::new(NullHeader) },
        packet: KeyPair { local: Box::new(NullKey { secret }), remote: Box::new(NullKey { secret }) },
    }
}

/// Leaves headers as they are.
struct NullHeader;

impl HeaderKey for NullHeader {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        16
    }
}

/// Leaves payloads as they are; the tag tells number, header and phase.
struct NullKey {
    secret: u64,
}

impl NullKey {
    fn tag(&self, packet: u64, header: &[u8]) -> [u8; TAG_LEN] {
        let words = header.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        let sum = words.fold(mix(self.secret ^ mix(packet)), |sum, word| mix(sum ^ word));
        let mut tag = [0; TAG_LEN];
        tag[..8].copy_from_slice(&sum.to_le_bytes());
        tag[8..].copy_from_slice(&mix(sum).to_le_bytes());
        tag
    }
}

impl PacketKey for NullKey {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let (header, rest) = buf.split_at_mut(header_len);
        let tag_at = rest.len() - TAG_LEN;
        rest[tag_at..].copy_from_slice(&self.tag(packet, header));
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let plain_len = payload.len().checked_sub(TAG_LEN).ok_or(CryptoError)?;
        if payload[plain_len..] != self.tag(packet, header) {
            return Err(CryptoError);
        }
        payload.truncate(plain_len);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG_LEN
    }

    // RFC 9001 §6.6, the limits of AES-GCM: keys are updated when they would be in reality.
    fn confidentiality_limit(&self) -> u64 {
        1 << 23
    }

    fn integrity_limit(&self) -> u64 {
        1 << 52
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): every bit of the input moves every bit of
/// the output.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// As long as an AES-GCM tag.
const TAG_LEN: usize = 16;

const INITIAL: u64 = 1;
const HANDSHAKE: u64 = 2;
const EARLY: u64 = 3;
const FIRST_DATA_PHASE: u64 = 16;
