//! What the integration tests share.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod diary;
pub mod example;
pub mod fate;
#[cfg(target_os = "linux")]
pub mod namespace;
pub mod pair;
pub mod sockets;
mod tls;

use std::sync::Arc;

#[allow(unused_imports, reason = "each test uses a part of it")]
pub use tls::{tls, tls_made_once, tls_of_two_servers};

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
