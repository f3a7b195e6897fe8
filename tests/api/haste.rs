//! Clients that do something the moment they are connected.

use std::net::UdpSocket;
use std::sync::Arc;

use tokio::time::timeout;
use warprate::{ConnectionError, Endpoint};

use crate::{Identity, PATIENCE, code, connect, localhost};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_closes_at_once_has_connected_all_the_same() {
    let identity = Identity::new();
    let server = Endpoint::server(identity.server(), localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    for _ in 0..50 {
        let connecting =
            client.connect_with(identity.client(), server.local_addr().unwrap(), "localhost").unwrap();
        let hasty = tokio::spawn(async move { connecting.await.unwrap().close(code(7), b"bye") });
        let incoming = server.accept().await.unwrap();
        let connection =
            timeout(PATIENCE, incoming.into_future()).await.unwrap().expect("the handshake was complete");
        let ConnectionError::ApplicationClosed(close) = connection.closed().await else {
            panic!("not closed")
        };
        assert_eq!((close.error_code, &close.reason[..]), (code(7), &b"bye"[..]));
        hasty.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_moves_at_once_is_served_at_its_new_address() {
    let identity = Identity::new();
    let server = Endpoint::server(identity.server(), localhost()).unwrap();
    let config = identity.client();
    for _ in 0..50 {
        let client = Arc::new(Endpoint::client(localhost()).unwrap());
        let connecting =
            client.connect_with(config.clone(), server.local_addr().unwrap(), "localhost").unwrap();
        let socket = UdpSocket::bind(localhost()).unwrap();
        let addr = socket.local_addr().unwrap();
        let hasty = {
            let client = client.clone();
            tokio::spawn(async move {
                let connection = connecting.await.unwrap();
                client.rebind(socket).unwrap();
                let mut stream = connection.open_uni().await.unwrap();
                stream.write_all(b"from elsewhere").await.unwrap();
                stream.finish().unwrap();
                assert_eq!(stream.stopped().await, Ok(None));
            })
        };
        let serving = timeout(PATIENCE, server.accept().await.unwrap().into_future()).await.unwrap().unwrap();
        let mut stream = timeout(PATIENCE, serving.accept_uni()).await.expect("it is heard").unwrap();
        assert_eq!(stream.read_to_end(14).await.unwrap(), b"from elsewhere");
        timeout(PATIENCE, hasty).await.unwrap().unwrap();
        assert_eq!(serving.remote_address(), addr);
    }
}

#[tokio::test]
async fn a_connection_that_ended_since_was_established_all_the_same() {
    let identity = Identity::new();
    let server = Endpoint::server(identity.server(), localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let connecting =
        client.connect_with(identity.client(), server.local_addr().unwrap(), "localhost").unwrap();
    let accepted = server.accept().await.unwrap().accept().unwrap();
    connecting.await.unwrap().close(code(3), b"");
    // The server's application comes late.
    client.wait_idle().await;
    let connection = accepted.await.expect("it was established");
    assert!(matches!(connection.close_reason(), Some(ConnectionError::ApplicationClosed(_))));
    let (_other, serving) = connect(&client, &server, identity.client()).await;
    drop(serving);
}
