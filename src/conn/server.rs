//! How a server's connections begin and behave.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::{TimeSource, ValidationTokenConfig, crypto};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::config::{Law, TransportConfig};
use super::door::DoorLimits;
use crate::units::Bytes;

/// How a server's connections begin and behave.
///
/// # What strangers may cost
/// | what | at most | of which there are at most |
/// |---|---|---|
/// | a client that waits to be accepted | 12 KiB, and what it has sent | [`max_handshakes`](Self::max_handshakes), [`max_incoming`](Self::max_incoming) |
/// | what those have sent | [`incoming_buffer_size`](Self::incoming_buffer_size) each | [`incoming_buffer_size_total`](Self::incoming_buffer_size_total) in all |
/// | a client that is accepted and not connected | 64 KiB, for 30 s | [`max_handshakes`](Self::max_handshakes) |
/// | a client whose address may be made up | the same | [`max_unvalidated_handshakes`](Self::max_unvalidated_handshakes) |
/// | an answer that waits to be sent | 2 KiB | 1024 |
///
/// With the defaults these are 64 MB for clients who may be anywhere, and 640 MB for ten thousand that really are
/// where they say. What a connected one may cost, [`TransportConfig`] tells.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Windows, timeouts and limits.
    pub transport: Arc<TransportConfig>,
    pub(super) proto: quinn_proto::ServerConfig,
    pub(super) law: Law,
    pub(super) door: DoorLimits,
}

impl ServerConfig {
    /// A server with a TLS configuration of your own, and a key that seals the tokens of Retry and of
    /// validated addresses. Servers behind one address must share that key.
    pub fn new(crypto: Arc<dyn crypto::ServerConfig>, token_key: Arc<dyn crypto::HandshakeTokenKey>) -> Self {
        Self::with_proto(quinn_proto::ServerConfig::new(crypto, token_key))
    }

    /// A server with this certificate chain, leaf first, and its key; TLS 1.3, no client certificates.
    pub fn with_single_cert(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        Ok(Self::with_proto(quinn_proto::ServerConfig::with_single_cert(chain, key)?))
    }

    /// A server with a TLS configuration of your own, for instance a
    /// [`QuicServerConfig`](quinn_proto::crypto::rustls::QuicServerConfig) with ALPN, and a random token key.
    pub fn with_crypto(crypto: Arc<dyn crypto::ServerConfig>) -> Self {
        Self::with_proto(quinn_proto::ServerConfig::with_crypto(crypto))
    }

    fn with_proto(mut proto: quinn_proto::ServerConfig) -> Self {
        proto.incoming_buffer_size(INCOMING_BUFFER.get()).incoming_buffer_size_total(INCOMING_BUFFERS.get());
        Self { transport: Arc::default(), proto, law: Law::default(), door: DoorLimits::default() }
    }

    /// Congestion controller of the connections. Default: [`Law::warprate`], its seed drawn.
    pub fn law(&mut self, law: Law) -> &mut Self {
        self.law = law;
        self
    }

    /// Windows, timeouts and limits.
    pub fn transport_config(&mut self, transport: Arc<TransportConfig>) -> &mut Self {
        self.transport = transport;
        self
    }

    /// How clients get tokens that validate their address at the next connection (RFC 9000 §8.1.3).
    pub fn validation_token_config(&mut self, tokens: ValidationTokenConfig) -> &mut Self {
        self.proto.validation_token_config(tokens);
        self
    }

    /// Seals the tokens of Retry and of validated addresses. Default: a random key.
    pub fn token_key(&mut self, key: Arc<dyn crypto::HandshakeTokenKey>) -> &mut Self {
        self.proto.token_key(key);
        self
    }

    /// How long a client may take to come back with the token of a Retry. Default 15 s.
    pub fn retry_token_lifetime(&mut self, lifetime: Duration) -> &mut Self {
        self.proto.retry_token_lifetime(lifetime);
        self
    }

    /// Whether clients may change their address, as they do behind a NAT that rebinds. Default: they may.
    pub fn migration(&mut self, may_migrate: bool) -> &mut Self {
        self.proto.migration(may_migrate);
        self
    }

    /// Handshakes of clients that may be under way at a time: those that wait for
    /// [`Endpoint::accept`](super::Endpoint::accept), that the application has not answered, or that are
    /// accepted and not yet connected. For one more, the connection that was accepted first and is not connected yet
    /// is given up with `TimedOut`; if none is accepted, the client gets no answer, and knocks again. Each takes up
    /// to 64 KiB, and is given up 30 s after it was accepted. Default 10,000: as many as a core completes in a few
    /// seconds.
    pub fn max_handshakes(&mut self, count: usize) -> &mut Self {
        self.door.handshakes = count;
        self
    }

    /// Of [`max_handshakes`](Self::max_handshakes), those whose client had not proved its address when it
    /// knocked; more are sent a Retry, so that whoever made up its address comes no further (RFC 9000 §8.1.2,
    /// §21.2). It costs honest clients a round trip. Default 1000: a core completes a few thousand handshakes a
    /// second, and an honest one takes about 100 ms, so that more under way are no honest load. 0 asks everyone.
    pub fn max_unvalidated_handshakes(&mut self, count: usize) -> &mut Self {
        self.door.unvalidated = count;
        self
    }

    /// Clients that may wait for [`Endpoint::accept`](super::Endpoint::accept) and what comes of it; more are
    /// not answered. Default 65,536, so that [`max_handshakes`](Self::max_handshakes) comes first.
    pub fn max_incoming(&mut self, count: usize) -> &mut Self {
        self.proto.max_incoming(count);
        self
    }

    /// What one waiting client may have sent: its 0-RTT data. More is dropped, and sent again by the client.
    /// Default 64 KiB: whoever it is has four initial windows (RFC 9002 §7.2), and an application that accepts
    /// at once needs none.
    pub fn incoming_buffer_size(&mut self, size: Bytes) -> &mut Self {
        self.proto.incoming_buffer_size(size.get());
        self
    }

    /// What all waiting clients together may have sent. Default 16 MiB. Small datagrams take up to ten times
    /// their size.
    pub fn incoming_buffer_size_total(&mut self, size: Bytes) -> &mut Self {
        self.proto.incoming_buffer_size_total(size.get());
        self
    }

    /// The clock against which tokens expire. Default: the system's time of day.
    pub fn time_source(&mut self, clock: Arc<dyn TimeSource>) -> &mut Self {
        self.proto.time_source(clock);
        self
    }
}

/// What a stranger may leave with us.
const INCOMING_BUFFER: Bytes = Bytes::kib(64);

/// The same of 256 strangers.
const INCOMING_BUFFERS: Bytes = Bytes::mib(16);
