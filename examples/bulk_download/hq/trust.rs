//! Who a server is, and how a client knows.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, ensure};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};

/// A server's certificates, its own first, and the key that belongs to it.
pub struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

impl Identity {
    /// From PEM files.
    pub fn read(certificates: &Path, key: &Path) -> anyhow::Result<Self> {
        let chain = read_certificates(certificates)?;
        let key = PrivateKeyDer::from_pem_file(key)
            .with_context(|| format!("cannot read a private key in PEM from {}", key.display()))?;
        Ok(Self { chain, key })
    }

    /// A certificate that nobody has signed, for `localhost` and the address.
    pub fn self_signed(listen: SocketAddr) -> anyhow::Result<Self> {
        let names = vec!["localhost".to_owned(), listen.ip().to_string()];
        let made = rcgen::generate_simple_self_signed(names).context("cannot make a certificate")?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Ok(Self { chain: vec![made.cert.der().clone()], key: key.into() })
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }
}

/// SHA-256 of a certificate, written in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    /// Colons between the digits, as `openssl x509 -fingerprint -sha256` writes them, are skipped.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits: Option<Vec<_>> =
            text.chars().filter(|letter| *letter != ':').map(|letter| letter.to_digit(16)).collect();
        let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).expect("two hexadecimal digits");
        digits
            .filter(|digits| digits.len() == 64)
            .map(|digits| digits.chunks_exact(2).map(byte).collect::<Vec<_>>())
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or_else(|| "expected a SHA-256 in 64 hexadecimal digits, as `serve` prints it".to_owned())
    }
}

/// A verifier that trusts the authorities in a PEM file.
pub fn authorities(
    file: &Path,
    provider: &Arc<CryptoProvider>,
) -> anyhow::Result<Arc<dyn ServerCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(file)? {
        roots.add(certificate).with_context(|| format!("unusable certificate in {}", file.display()))?;
    }
    Ok(WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build()?)
}

fn read_certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = || CertificateDer::pem_file_iter(file)?.collect::<Result<Vec<_>, _>>();
    let certificates = read().with_context(|| format!("cannot read {}", file.display()))?;
    ensure!(!certificates.is_empty(), "no certificate in PEM in {}", file.display());
    Ok(certificates)
}

/// Trusts one certificate whatever its names and dates, or any at all. That the server has its key is verified
/// in both cases.
#[derive(Debug)]
pub struct Direct {
    /// `None` trusts any.
    pub pin: Option<Fingerprint>,
    pub provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Direct {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.pin {
            Some(pin) if pin != Fingerprint::of(certificate) => {
                let found = Fingerprint::of(certificate);
                Err(Error::General(format!("the certificate has the SHA-256 {found}, not the pinned one")))
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
