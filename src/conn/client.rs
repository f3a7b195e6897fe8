//! How a client's connections begin and behave.

use std::fmt;
use std::sync::Arc;

use quinn_proto::{ConnectionId, TokenStore, crypto};
use rustls::client::WebPkiServerVerifier;

use super::config::{ClientHandshake, Law, TransportConfig};

/// How a client's connections begin and behave.
#[derive(Clone)]
pub struct ClientConfig {
    pub(super) handshake: ClientHandshake,
    pub(super) law: Law,
    pub(super) transport: Arc<TransportConfig>,
}

impl ClientConfig {
    /// A client with a TLS configuration of your own, for instance a
    /// [`QuicClientConfig`](quinn_proto::crypto::rustls::QuicClientConfig) with ALPN.
    pub fn new(crypto: Arc<dyn crypto::ClientConfig>) -> Self {
        let handshake = ClientHandshake::new(crypto);
        Self { handshake, law: Law::default(), transport: Arc::default() }
    }

    /// A client that trusts these authorities.
    ///
    /// Fails when one of them is unusable.
    pub fn with_root_certificates(
        roots: Arc<rustls::RootCertStore>,
    ) -> Result<Self, rustls::client::VerifierBuilderError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build()?;
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("ring speaks TLS 1.3")
            .with_webpki_verifier(verifier)
            .with_no_client_auth();
        // It is only sent where the application asks for it, see `Connecting::into_0rtt`.
        tls.enable_early_data = true;
        let crypto = crypto::rustls::QuicClientConfig::try_from(tls).expect("ring has a QUIC cipher suite");
        Ok(Self::new(Arc::new(crypto)))
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

    /// Keeps the tokens by which servers recognise an address that they have validated before (RFC 9000
    /// §8.1.3). Default: a memory of 256 servers, shared by the clones of this configuration.
    pub fn token_store(&mut self, tokens: Arc<dyn TokenStore>) -> &mut Self {
        self.handshake.tokens = tokens;
        self
    }

    /// Makes the server's first connection ids: eight bytes at least, unpredictable (RFC 9000 §7.2).
    /// Default: 20 random bytes.
    pub fn initial_dst_cid_provider(
        &mut self,
        initial_cids: Arc<dyn Fn() -> ConnectionId + Send + Sync>,
    ) -> &mut Self {
        self.handshake.initial_cids = Some(initial_cids);
        self
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("law", &self.law)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}
