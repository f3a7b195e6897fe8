//! Makes the certificate that simulated servers show: `cargo run -p warpsim --example pin_certificate`.
//!
//! Ed25519, so that signatures have one length; valid for ever, so that runs do not depend on the date.

use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, date_time_ymd};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let key = KeyPair::generate_for(&PKCS_ED25519)?;
    let mut params = CertificateParams::new(vec!["localhost".into()])?;
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(4096, 1, 1);
    let certificate = params.self_signed(&key)?;
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/host");
    std::fs::write(format!("{dir}/certificate.der"), certificate.der())?;
    std::fs::write(format!("{dir}/key.der"), key.serialize_der())?;
    println!("wrote {dir}/certificate.der and {dir}/key.der");
    Ok(())
}
