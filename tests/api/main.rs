//! What a server author expects of a QUIC library, on real sockets: one module per subject.

#[path = "../common/mod.rs"]
mod common;

mod datagrams;
mod door;
mod early;
mod haste;
mod identity;
mod moving;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use common::configs;
use common::sockets::{Pair, connect, fixed, localhost};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use warprate::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use warprate::{ClientConfig, ServerConfig, VarInt};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn code(n: u32) -> VarInt {
    VarInt::from_u32(n)
}

/// A certificate of `localhost` that any number of servers may show.
struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    fn new() -> Self {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        Self { certificate: certified.cert.der().clone(), key: certified.signing_key.serialize_der() }
    }

    /// A server that shows it and remembers no client of any other.
    fn server(&self) -> ServerConfig {
        self.server_speaking(&[])
    }

    fn server_speaking(&self, protocols: &[&[u8]]) -> ServerConfig {
        let key = PrivatePkcs8KeyDer::from(self.key.clone());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key.into())
            .unwrap();
        tls.max_early_data_size = u32::MAX;
        tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
        config.law(fixed());
        config
    }

    /// A client that trusts it alone.
    fn client(&self) -> ClientConfig {
        self.client_speaking(&[])
    }

    fn client_speaking(&self, protocols: &[&[u8]]) -> ClientConfig {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let mut tls = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.enable_early_data = true;
        tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        config.law(fixed());
        config
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
