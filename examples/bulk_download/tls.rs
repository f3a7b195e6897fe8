//! The certificate that all rows share, and the sizes that they have in common.

use std::sync::Arc;

use anyhow::Context;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use warprate::units::Bytes;

/// UDP payload of a full datagram; over IPv4 and Ethernet it takes 1518 bytes on the wire.
pub const DATAGRAM: u16 = 1452;

/// Flow control of one stream, and of what the sender may keep for it.
pub const STREAM_WINDOW: Bytes = Bytes::mib(32);

/// Flow control of one connection.
pub const CONNECTION_WINDOW: Bytes = Bytes::mib(64);

/// The name that the certificate is for.
pub const SERVER_NAME: &str = "localhost";

/// A self-signed certificate, the key that belongs to it, and the clients' trust in it.
pub struct Tls {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    roots: Arc<RootCertStore>,
}

impl Tls {
    pub fn new() -> anyhow::Result<Self> {
        let certified = rcgen::generate_simple_self_signed(vec![SERVER_NAME.into()])
            .context("cannot make a certificate")?;
        let certificate = certified.cert.der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone())?;
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()).into();
        Ok(Self { certificate, key, roots: Arc::new(roots) })
    }

    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.clone()]
    }

    pub fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }

    pub fn roots(&self) -> Arc<RootCertStore> {
        self.roots.clone()
    }
}

impl Clone for Tls {
    fn clone(&self) -> Self {
        Self { certificate: self.certificate.clone(), key: self.key(), roots: self.roots() }
    }
}
