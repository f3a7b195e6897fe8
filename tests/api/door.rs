//! Clients at the door, and what a server may do with them.

use std::sync::Arc;

use tokio::time::timeout;
use warprate::{ConnectionError, Endpoint, TransportConfig, VarInt};

use crate::{Identity, PATIENCE, connect, localhost};

fn impatient() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(VarInt::from_u32(300).into()));
    Arc::new(transport)
}

#[tokio::test]
async fn a_client_that_was_sent_a_retry_comes_back_validated() {
    let identity = Identity::new();
    let server = Endpoint::server(identity.server(), localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let at = server.local_addr().unwrap();
    let connecting = client.connect_with(identity.client(), at, "localhost").unwrap();
    let accepting = async {
        let first = server.accept().await.unwrap();
        assert_eq!(first.remote_address(), client.local_addr().unwrap());
        assert!(!first.remote_address_validated() && first.may_retry());
        let named = first.orig_dst_cid();
        first.retry().unwrap();
        let second = server.accept().await.unwrap();
        assert!(second.remote_address_validated() && !second.may_retry());
        assert_eq!(second.orig_dst_cid(), named, "the id from before the Retry");
        // A second Retry would be against the protocol; the client still waits.
        let error = second.retry().unwrap_err();
        error.into_incoming().await
    };
    let (connected, accepted) =
        timeout(PATIENCE, async { tokio::join!(connecting, accepting) }).await.unwrap();
    assert!(connected.is_ok() && accepted.is_ok());
    let stats = server.stats();
    assert_eq!((stats.retried_handshakes, stats.accepted_handshakes, stats.refused_handshakes), (1, 1, 0));
    assert_eq!(client.stats().outgoing_handshakes, 1);
}

#[tokio::test]
async fn an_ignored_client_hears_nothing_and_a_refused_one_does() {
    let identity = Identity::new();
    let server = Endpoint::server(identity.server(), localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let at = server.local_addr().unwrap();
    let mut config = identity.client();
    config.transport_config(impatient());
    let connecting = client.connect_with(config, at, "localhost").unwrap();
    // It knocks again and again.
    let ignoring = async {
        while let Some(incoming) = server.accept().await {
            incoming.ignore();
        }
    };
    tokio::select! {
        ended = connecting => assert_eq!(ended.unwrap_err(), ConnectionError::TimedOut),
        () = ignoring => unreachable!("the endpoint is open"),
    }
    let connecting = client.connect_with(identity.client(), at, "localhost").unwrap();
    server.accept().await.unwrap().refuse();
    let error = connecting.await.unwrap_err();
    assert!(matches!(error, ConnectionError::ConnectionClosed(_)), "{error:?}");
    assert!(server.stats().ignored_handshakes >= 1);
    assert_eq!((server.stats().refused_handshakes, server.stats().accepted_handshakes), (1, 0));
}

#[tokio::test]
async fn a_client_may_be_served_under_another_configuration() {
    let (usual, other) = (Identity::new(), Identity::new());
    let server = Endpoint::server(usual.server(), localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let at = server.local_addr().unwrap();
    let connecting = client.connect_with(other.client(), at, "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().accept_with(Arc::new(other.server())) };
    let (connected, accepted) = tokio::join!(connecting, async { accepting.await.unwrap().await });
    assert!(connected.is_ok() && accepted.is_ok());
}

#[tokio::test]
async fn a_new_server_configuration_is_for_those_who_come_after_it() {
    let (old, new) = (Identity::new(), Identity::new());
    let server = Endpoint::server(old.server(), localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let at = server.local_addr().unwrap();
    let knocking = client.connect_with(old.client(), at, "localhost").unwrap();
    let incoming = server.accept().await.unwrap();

    server.set_server_config(Some(new.server()));
    connect(&client, &server, new.client()).await;
    let (connected, accepted) = tokio::join!(knocking, incoming.into_future());
    assert!(connected.is_ok() && accepted.is_ok(), "it had come before");
}

#[tokio::test]
async fn an_endpoint_may_stop_serving_and_begin_again() {
    let identity = Identity::new();
    // It begins as a client's.
    let server = Endpoint::client(localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let at = server.local_addr().unwrap();
    let config = identity.server();
    server.set_server_config(Some(config.clone()));
    let knocking = client.connect_with(identity.client(), at, "localhost").unwrap();
    let incoming = server.accept().await.unwrap();
    server.set_server_config(None);
    // Whoever has come is still answered, here with a Retry, but then comes to a closed door.
    incoming.retry().unwrap();
    let mut hurried = identity.client();
    hurried.transport_config(impatient());
    assert!(client.connect_with(hurried, at, "localhost").unwrap().await.is_err());
    // It opens again, for tokens of the same key, too.
    server.set_server_config(Some(config));
    let accepting = async { server.accept().await.unwrap() };
    let (connected, accepted) = tokio::join!(knocking, async { accepting.await.await });
    assert!(connected.is_ok() && accepted.is_ok());
}
