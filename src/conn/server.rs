//! How a server's connections begin and behave.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::{TimeSource, ValidationTokenConfig, crypto};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::config::{Law, TransportConfig};
use crate::units::Bytes;

/// How a server's connections begin and behave.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Windows, timeouts and limits.
    pub transport: Arc<TransportConfig>,
    pub(super) proto: quinn_proto::ServerConfig,
    pub(super) law: Law,
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

    fn with_proto(proto: quinn_proto::ServerConfig) -> Self {
        Self { transport: Arc::default(), proto, law: Law::default() }
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

    /// Clients that may wait for [`Endpoint::accept`](super::Endpoint::accept) and what comes of it; more are
    /// not answered. Default 65,536.
    pub fn max_incoming(&mut self, count: usize) -> &mut Self {
        self.proto.max_incoming(count);
        self
    }

    /// What one waiting client may have sent: its 0-RTT data. More is dropped, and sent again by the client.
    /// Default 10 MiB.
    pub fn incoming_buffer_size(&mut self, size: Bytes) -> &mut Self {
        self.proto.incoming_buffer_size(size.get());
        self
    }

    /// What all waiting clients together may have sent. Default 100 MiB.
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
