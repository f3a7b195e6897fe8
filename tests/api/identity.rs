//! Who the peer is, and what the handshake agreed on.

use rustls::pki_types::CertificateDer;
use warprate::crypto::rustls::HandshakeData;
use warprate::{Endpoint, Side};

use crate::{Identity, Pair, code, connect, localhost};

#[tokio::test]
async fn both_ends_know_what_was_agreed_and_the_client_whom_it_has_met() {
    let identity = Identity::new();
    let server = Endpoint::server(identity.server_speaking(&[b"hq-interop", b"h3"]), localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let config = identity.client_speaking(&[b"h3"]);
    let mut connecting = client.connect_with(config, server.local_addr().unwrap(), "localhost").unwrap();
    let accepting = async {
        let mut connecting = server.accept().await.unwrap().accept().unwrap();
        let data = connecting.handshake_data().await.unwrap().downcast::<HandshakeData>().unwrap();
        assert_eq!(
            (data.protocol.as_deref(), data.server_name.as_deref()),
            (Some(&b"h3"[..]), Some("localhost"))
        );
        assert_eq!(connecting.local_ip(), Some([127, 0, 0, 1].into()));
        connecting.await.unwrap()
    };
    let connected = async {
        let data = connecting.handshake_data().await.unwrap().downcast::<HandshakeData>().unwrap();
        assert_eq!(data.protocol.as_deref(), Some(&b"h3"[..]));
        connecting.await.unwrap()
    };
    let (connection, serving) = tokio::join!(connected, accepting);
    let seen = connection.peer_identity().unwrap().downcast::<Vec<CertificateDer<'static>>>().unwrap();
    assert_eq!(*seen, [identity.certificate]);
    assert!(serving.peer_identity().is_none(), "the client has shown no certificate");
    assert!(serving.handshake_data().is_some());
    assert_eq!((connection.side(), serving.side()), (Side::Client, Side::Server));
    assert_eq!(serving.remote_address(), client.local_addr().unwrap());
    assert_eq!((serving.local_ip(), connection.local_ip()), (Some([127, 0, 0, 1].into()), None));
}

#[tokio::test]
async fn both_ends_derive_the_same_key_material_and_nobody_else_does() {
    let pair = Pair::new().await;
    let export = |connection: &warprate::Connection, label: &[u8], context: &[u8]| {
        let mut output = [0; 64];
        connection.export_keying_material(&mut output, label, context).unwrap();
        output
    };
    let ours = export(&pair.connection, b"EXPORTER-test", b"context");
    assert_eq!(ours, export(&pair.serving, b"EXPORTER-test", b"context"));
    assert_ne!(ours, export(&pair.serving, b"EXPORTER-test", b"another"));
    assert_ne!(ours, export(&pair.serving, b"EXPORTER-other", b"context"));
}

#[tokio::test]
async fn a_connection_is_told_from_all_others() {
    let identity = Identity::new();
    let server = Endpoint::server(identity.server(), localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let (first, _first) = connect(&client, &server, identity.client()).await;
    let (second, _second) = connect(&client, &server, identity.client()).await;
    assert_eq!(first.stable_id(), first.clone().stable_id());
    assert_ne!(first.stable_id(), second.stable_id());
}

#[tokio::test]
async fn keys_may_be_renewed_in_the_midst_of_a_transfer() {
    let pair = Pair::new().await;
    let mut stream = pair.serving.open_uni().await.unwrap();
    let mut incoming = None;
    for i in 0..20u8 {
        // Both ends ask, at times together.
        pair.serving.force_key_update();
        if i % 3 == 0 {
            pair.connection.force_key_update();
        }
        stream.write_all(&[i; 10_000]).await.unwrap();
        let incoming = match &mut incoming {
            Some(incoming) => incoming,
            none => none.insert(pair.connection.accept_uni().await.unwrap()),
        };
        let mut read = [0; 10_000];
        incoming.read_exact(&mut read).await.unwrap();
        assert_eq!(read, [i; 10_000]);
    }
    stream.finish().unwrap();
    assert_eq!(stream.stopped().await.unwrap(), None);
    assert!(pair.connection.close_reason().is_none());
    pair.connection.close(code(0), b"");
    pair.client.wait_idle().await;
    pair.server.wait_idle().await;
}
