//! What the integration tests share.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod pair;

use std::sync::Arc;

/// A self-signed certificate for `localhost`, as the two ends' TLS configurations.
pub fn tls() -> (quinn_proto::ServerConfig, quinn_proto::ClientConfig) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a name is valid");
    let certificate = certified.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let server = quinn_proto::ServerConfig::with_single_cert(vec![certificate.clone()], key.into())
        .expect("the key belongs to the certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("the certificate was just made");
    let client = quinn_proto::ClientConfig::with_root_certificates(Arc::new(roots))
        .expect("roots suffice for a client");
    (server, client)
}

/// The same as the tokio side's configurations.
pub fn configs(law: &warprate::Law) -> (warprate::ServerConfig, warprate::ClientConfig) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a name is valid");
    let certificate = certified.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut server = warprate::ServerConfig::with_single_cert(vec![certificate.clone()], key.into())
        .expect("the key belongs to the certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("the certificate was just made");
    let mut client =
        warprate::ClientConfig::with_root_certificates(Arc::new(roots)).expect("roots suffice for a client");
    server.law(law.clone());
    client.law(law.clone());
    (server, client)
}
