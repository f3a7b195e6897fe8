//! The TLS configurations of the sans-IO core's tests.

use std::sync::{Arc, LazyLock};

use quinn_proto::NoneTokenStore;
use quinn_proto::crypto::rustls::QuicClientConfig;
use rustls::client::Resumption;
use warprate::conn::ClientHandshake;

/// A self-signed certificate for `localhost`, as the two ends' TLS configurations. Ed25519 signatures
/// and a fixed serial number have one size, so that every run sends the same datagrams.
pub fn tls() -> (quinn_proto::ServerConfig, ClientHandshake) {
    let ([server, _], client) = tls_of_two_servers();
    (server, client)
}

/// As [`tls`], but made once, and nobody remembers anybody: for thousands of connections, which do not depend on
/// those before them.
pub fn tls_made_once() -> &'static (quinn_proto::ServerConfig, ClientHandshake) {
    static TLS: LazyLock<(quinn_proto::ServerConfig, ClientHandshake)> = LazyLock::new(|| {
        let ([server, _], mut client) = made(Resumption::disabled());
        client.tokens = Arc::new(NoneTokenStore);
        (server, client)
    });
    &TLS
}

/// The same of two servers that show one certificate, and do not know each other's clients.
pub fn tls_of_two_servers() -> ([quinn_proto::ServerConfig; 2], ClientHandshake) {
    made(Resumption::default())
}

fn made(resumption: Resumption) -> ([quinn_proto::ServerConfig; 2], ClientHandshake) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("the algorithm is known");
    let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).expect("a name is valid");
    params.serial_number = Some(1_u64.into());
    let certificate = params.self_signed(&key).expect("the key signs").der().clone();
    let servers = [(); 2].map(|()| {
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
        quinn_proto::ServerConfig::with_single_cert(vec![certificate.clone()], key.into())
            .expect("the key belongs to the certificate")
    });
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("the certificate was just made");
    let mut tls =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("ring speaks TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
    tls.enable_early_data = true;
    tls.resumption = resumption;
    let client = QuicClientConfig::try_from(tls).expect("ring has a QUIC cipher suite");
    (servers, ClientHandshake::new(Arc::new(client)))
}
