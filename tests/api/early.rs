//! 0-RTT: what is said before the handshake is complete.

use tokio::time::timeout;
use warprate::{
    ClientConfig, Endpoint, ReadError, ResetError, ServerConfig, StoppedError, WriteError, ZeroRttConnection,
};

use crate::{Identity, PATIENCE, connect, localhost};

/// A server and a client that remembers it.
async fn acquainted(identity: &Identity) -> (Endpoint, Endpoint, ClientConfig) {
    let server = Endpoint::server(identity.server(), localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let config = identity.client();
    introduce(&client, &server, &config).await;
    (server, client, config)
}

/// Connects once. What the server says is read, and the ticket for the next time comes before it.
async fn introduce(client: &Endpoint, server: &Endpoint, config: &ClientConfig) {
    let (connection, serving) = connect(client, server, config.clone()).await;
    let mut stream = serving.open_uni().await.unwrap();
    stream.write_all(b"welcome").await.unwrap();
    stream.finish().unwrap();
    assert_eq!(connection.accept_uni().await.unwrap().read_to_end(7).await.unwrap(), b"welcome");
}

fn hurry(
    client: &Endpoint,
    server: &Endpoint,
    config: ClientConfig,
) -> (ZeroRttConnection, impl Future<Output = bool>) {
    let connecting = client.connect_with(config, server.local_addr().unwrap(), "localhost").unwrap();
    connecting.into_0rtt().expect("the server is remembered")
}

#[tokio::test]
async fn a_request_and_its_answer_need_no_handshake() {
    let identity = Identity::new();
    let (server, client, config) = acquainted(&identity).await;
    let (early, accepted) = hurry(&client, &server, config);
    let asking = async {
        let (mut send, mut recv) = early.open_bi().await.unwrap();
        assert!(recv.is_0rtt());
        send.write_all(b"read this").await.unwrap();
        send.finish().unwrap();
        recv.read_to_end(10).await.unwrap()
    };
    let answering = async {
        let connecting = server.accept().await.unwrap().accept().unwrap();
        let (early, _) = connecting.into_0rtt().expect("a server always may");
        let (mut send, mut recv) = early.accept_bi().await.unwrap();
        assert!(recv.is_0rtt(), "it may be a replay, and says so");
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"read this");
        send.write_all(b"here it is").await.unwrap();
        send.finish().unwrap();
        early.established().await.unwrap()
    };
    let (answer, serving) = timeout(PATIENCE, async { tokio::join!(asking, answering) }).await.unwrap();
    assert_eq!(answer, b"here it is");
    assert!(accepted.await);
    let connection = early.established().await.unwrap();
    // What comes later is no early data, and cannot be a replay.
    let mut stream = connection.open_uni().await.unwrap();
    stream.write_all(b"pay this").await.unwrap();
    stream.finish().unwrap();
    let mut incoming = serving.accept_uni().await.unwrap();
    assert!(!incoming.is_0rtt());
    assert_eq!(incoming.read_to_end(8).await.unwrap(), b"pay this");
}

#[tokio::test]
async fn a_server_that_waits_for_the_handshake_reads_no_replay() {
    let identity = Identity::new();
    let (server, client, config) = acquainted(&identity).await;
    let (early, accepted) = hurry(&client, &server, config);
    let mut stream = early.open_uni().await.unwrap();
    stream.write_all(b"early").await.unwrap();
    stream.finish().unwrap();
    let serving = server.accept().await.unwrap().await.unwrap();
    let mut incoming = serving.accept_uni().await.unwrap();
    assert!(!incoming.is_0rtt(), "whoever completed the handshake has said it");
    assert_eq!(incoming.read_to_end(5).await.unwrap(), b"early");
    assert!(accepted.await);
}

#[tokio::test]
async fn a_stranger_has_to_wait_for_the_handshake() {
    let identity = Identity::new();
    let server = Endpoint::server(identity.server(), localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let connecting =
        client.connect_with(identity.client(), server.local_addr().unwrap(), "localhost").unwrap();
    let connecting = connecting.into_0rtt().expect_err("the server is not known");
    assert_eq!(connecting.remote_address(), server.local_addr().unwrap());
    let (connected, accepted) = tokio::join!(connecting, async { server.accept().await.unwrap().await });
    assert!(connected.is_ok() && accepted.is_ok());
}

#[tokio::test]
async fn early_data_that_the_server_turns_down_fails_clearly_and_may_be_said_again() {
    let identity = Identity::new();
    let (_, client, config) = acquainted(&identity).await;
    // Another server of that name, which does not know the tickets of the first.
    let other: ServerConfig = identity.server();
    let server = Endpoint::server(other, localhost()).unwrap();
    let (early, accepted) = hurry(&client, &server, config);
    let (mut send, mut recv) = early.open_bi().await.unwrap();
    send.write_all(b"early").await.unwrap();
    let stopped = send.stopped();
    // They wait when the server's answer comes.
    let waiting = tokio::spawn(async move { (stopped.await, recv.read(&mut [0; 8]).await, recv) });
    let serving = server.accept().await.unwrap().await.unwrap();
    assert!(!timeout(PATIENCE, accepted).await.unwrap());
    let (stopped, read, mut recv) = timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert_eq!((stopped, read), (Err(StoppedError::ZeroRttRejected), Err(ReadError::ZeroRttRejected)));
    assert_eq!(recv.received_reset().await, Err(ResetError::ZeroRttRejected));
    assert_eq!(send.write(b"x").await, Err(WriteError::ZeroRttRejected));
    assert!(send.finish().is_err() && send.set_priority(1).is_err());

    let connection = early.established().await.unwrap();
    let (mut again, mut answer) = connection.open_bi().await.unwrap();
    // It has the number of the stream that never was, whose handles must not touch it.
    assert_eq!(again.id(), send.id());
    drop((send, recv));
    again.write_all(b"again").await.unwrap();
    again.finish().unwrap();
    let (mut reply, mut incoming) = serving.accept_bi().await.unwrap();
    assert!(!incoming.is_0rtt());
    assert_eq!(incoming.read_to_end(5).await.unwrap(), b"again");
    reply.write_all(b"yes").await.unwrap();
    reply.finish().unwrap();
    assert_eq!(answer.read_to_end(3).await.unwrap(), b"yes");
}

#[tokio::test]
async fn a_client_that_trusts_roots_may_hurry_too() {
    let (server_config, client_config) = crate::common::configs(&crate::fixed());
    let server = Endpoint::server(server_config, localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    introduce(&client, &server, &client_config).await;
    let (early, accepted) = hurry(&client, &server, client_config);
    let _serving = server.accept().await.unwrap().await.unwrap();
    assert!(accepted.await);
    early.established().await.unwrap();
}

#[tokio::test]
async fn whoever_only_asks_whether_early_data_was_accepted_does_not_keep_the_connection() {
    let identity = Identity::new();
    let (server, client, config) = acquainted(&identity).await;
    let (early, accepted) = hurry(&client, &server, config);
    let serving = server.accept().await.unwrap().await.unwrap();
    drop(early.established().await.unwrap());
    timeout(PATIENCE, serving.closed()).await.expect("the last handle is gone");
    drop(accepted);
}
