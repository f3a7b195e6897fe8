//! A connection as the application holds it.

use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use quinn_proto::crypto::ExportKeyingMaterialError;
use quinn_proto::{Dir, Side, VarInt};

use super::clock;
use super::error::ConnectionError;
use super::state::ConnectionRef;
use super::stats::{CongestionState, ConnectionStats};
use super::streams::{RecvStream, SendStream};
use crate::units::Bytes as Size;

/// A QUIC connection whose handshake is complete: the peer is who it claims to be, and nothing that is read
/// from now on is a replay.
///
/// Clones are handles of the same connection. When the last handle, streams included, is dropped, the
/// connection stays until every finished stream has been delivered, and then closes with code 0.
/// [`close`](Self::close) ends it at once.
#[derive(Debug, Clone)]
pub struct Connection(pub(super) ConnectionRef);

impl Connection {
    /// Opens a stream to write on; waits while the peer allows no more streams.
    ///
    /// The peer learns of it with the first write or the end.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        let (id, is_early) = self.0.open(Dir::Uni).await?;
        Ok(SendStream::new(self.0.clone(), id, is_early))
    }

    /// Opens a stream to write on and to read from; waits while the peer allows no more streams.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let (id, is_early) = self.0.open(Dir::Bi).await?;
        let recv = RecvStream::new(self.0.clone(), id, is_early);
        Ok((SendStream::new(self.0.clone(), id, is_early), recv))
    }

    /// Waits for the peer to open a stream to read from.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        let (id, is_early) = self.0.accept(Dir::Uni).await?;
        Ok(RecvStream::new(self.0.clone(), id, is_early))
    }

    /// Waits for the peer to open a stream to read from and to write on.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let (id, is_early) = self.0.accept(Dir::Bi).await?;
        let recv = RecvStream::new(self.0.clone(), id, is_early);
        Ok((SendStream::new(self.0.clone(), id, is_early), recv))
    }

    /// Ends the connection at once: what has not been delivered is lost, and every pending operation
    /// fails with [`ConnectionError::LocallyClosed`]. The peer is told `code` and `reason`.
    ///
    /// To end it after delivery, wait for [`SendStream::stopped`] first, or just drop the handles.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        self.0.lock().close(clock::now(), code, Bytes::copy_from_slice(reason));
    }

    /// Waits until the connection has ended; why.
    pub async fn closed(&self) -> ConnectionError {
        self.0.wait(|state| state.error()).await
    }

    /// Why the connection has ended, if it has.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.0.lock().error()
    }

    /// Streams that the peer may open to write to us only, at a time and from now on. It hears of more when
    /// there are more by an eighth; fewer take effect as streams end.
    pub fn set_max_concurrent_uni_streams(&self, count: VarInt) {
        self.set_max_concurrent_streams(Dir::Uni, count);
    }

    /// The same of streams that both ends write on.
    pub fn set_max_concurrent_bi_streams(&self, count: VarInt) {
        self.set_max_concurrent_streams(Dir::Bi, count);
    }

    /// [`TransportConfig::send_window`](super::TransportConfig::send_window) from now on.
    pub fn set_send_window(&self, window: Size) {
        self.0.lock().core.set_send_window(window);
    }

    /// [`TransportConfig::receive_window`](super::TransportConfig::receive_window) from now on. Of a lower
    /// one the peer hears as what it may send already is read.
    pub fn set_receive_window(&self, window: Size) {
        let mut state = self.0.lock();
        state.core.inner().set_receive_window(VarInt::from_u64(window.get()).unwrap_or(VarInt::MAX));
        state.mark_dirty();
    }

    /// Takes new keys into use with the next packet (RFC 9001 §6). Keys are renewed in time by themselves:
    /// this is for tests. Nothing happens while the peer has not followed the last update.
    pub fn force_key_update(&self) {
        self.0.lock().core.inner().force_key_update();
    }

    /// What the connection did, and what it knows of its path.
    pub fn stats(&self) -> ConnectionStats {
        self.0.lock().core.stats()
    }

    /// The congestion controller and what it has decided.
    pub fn congestion_state(&self) -> CongestionState {
        self.0.lock().core.congestion_state()
    }

    /// Smoothed round-trip time; 333 ms before the first measurement (RFC 9002 §6.2.2).
    pub fn rtt(&self) -> Duration {
        self.0.lock().core.inner().rtt()
    }

    /// Least round-trip time of the present path.
    pub fn min_rtt(&self) -> Duration {
        self.0.lock().core.inner().min_rtt()
    }

    /// Which end we are.
    pub fn side(&self) -> Side {
        self.0.lock().core.inner().side()
    }

    /// The peer's address at present.
    pub fn remote_address(&self) -> SocketAddr {
        self.0.lock().core.inner().remote_address()
    }

    /// The local address that the client reached, where the system tells it; `None` at the client.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.0.lock().core.inner().local_ip()
    }

    /// What the handshake agreed on. With rustls a
    /// [`HandshakeData`](quinn_proto::crypto::rustls::HandshakeData): the ALPN protocol, and the name that
    /// the client asked for.
    pub fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.0.lock().core.inner().crypto_session().handshake_data()
    }

    /// Who the peer has proved to be. With rustls a `Vec<CertificateDer>`, its certificate first; `None` if
    /// it has shown none.
    pub fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.0.lock().core.inner().crypto_session().peer_identity()
    }

    /// Fills `output` with key material that only the two ends know, and that differs for every `label` and
    /// `context` (RFC 8446 §7.5).
    pub fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.0.lock().core.inner().crypto_session().export_keying_material(output, label, context)
    }

    /// A number that no other living connection of this process has, the same for all handles.
    pub fn stable_id(&self) -> usize {
        self.0.address()
    }

    fn set_max_concurrent_streams(&self, dir: Dir, count: VarInt) {
        let mut state = self.0.lock();
        state.core.inner().set_max_concurrent_streams(dir, count);
        state.mark_dirty();
    }
}
