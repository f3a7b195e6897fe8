//! Endpoints that change their socket, and sockets that serve both families.

use std::net::{SocketAddr, UdpSocket};

use tokio::time::timeout;
use warprate::{Connection, ConnectionError, Endpoint, EndpointConfig};

use crate::{Identity, PATIENCE, Pair, connect, localhost};

const BYTES: usize = 20_000_000;

fn socket_at(addr: impl Into<SocketAddr>) -> UdpSocket {
    UdpSocket::bind(addr.into()).unwrap()
}

/// A download from `from`, in the midst of which `to` does something.
async fn download_while(from: &Connection, to: &Connection, act: impl FnOnce()) {
    let mut stream = from.open_uni().await.unwrap();
    let writing = tokio::spawn(async move {
        stream.write_chunk(vec![1; BYTES].into()).await.unwrap();
        stream.finish().unwrap();
        stream.stopped().await
    });
    let mut incoming = to.accept_uni().await.unwrap();
    let mut read = vec![0; BYTES / 4];
    incoming.read_exact(&mut read).await.unwrap();
    act();
    let rest = timeout(PATIENCE, incoming.read_to_end(BYTES)).await.expect("it goes on").unwrap();
    assert_eq!(read.len() + rest.len(), BYTES);
    assert_eq!(writing.await.unwrap(), Ok(None));
}

#[tokio::test]
async fn a_client_goes_on_from_another_port_and_from_another_address() {
    let pair = Pair::new().await;
    for addr in [localhost(), ([127, 0, 0, 2], 0).into(), localhost()] {
        let before = pair.client.local_addr().unwrap();
        let socket = socket_at(addr);
        let after = socket.local_addr().unwrap();
        download_while(&pair.serving, &pair.connection, || pair.client.rebind(socket).unwrap()).await;
        assert_eq!(pair.client.local_addr().unwrap(), after);
        assert_eq!(pair.serving.remote_address(), after);
        assert_ne!(before, after);
        // And in the other direction.
        let socket = socket_at(addr);
        let after = socket.local_addr().unwrap();
        download_while(&pair.connection, &pair.serving, || pair.client.rebind(socket).unwrap()).await;
        assert_eq!(pair.serving.remote_address(), after);
    }
    // The socket at hand begins connections, too.
    let identity = Identity::new();
    let server = Endpoint::server(identity.server(), localhost()).unwrap();
    let (_connection, serving) = connect(&pair.client, &server, identity.client()).await;
    assert_eq!(serving.remote_address(), pair.client.local_addr().unwrap());
}

#[tokio::test]
async fn every_connection_of_an_endpoint_moves() {
    let identity = Identity::new();
    let server = Endpoint::server(identity.server(), localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let config = identity.client();
    let first = connect(&client, &server, config.clone()).await;
    let second = connect(&client, &server, config).await;
    let socket = socket_at(localhost());
    let addr = socket.local_addr().unwrap();
    client.rebind(socket).unwrap();
    for (connection, serving) in [first, second] {
        download_while(&serving, &connection, || ()).await;
        assert_eq!(serving.remote_address(), addr);
    }
}

#[tokio::test]
async fn a_socket_of_the_other_family_is_refused_and_the_former_kept() {
    let pair = Pair::new().await;
    let Ok(socket) = UdpSocket::bind("[::1]:0") else { return };
    let (from, to) = (pair.client.local_addr().unwrap(), socket.local_addr().unwrap());
    let error = pair.client.rebind(socket).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot move from {from} to {to}: both must be IPv4, or both IPv6")
    );
    assert_eq!(pair.client.local_addr().unwrap(), from);
    download_while(&pair.serving, &pair.connection, || ()).await;
}

#[tokio::test]
async fn a_server_that_allows_no_migration_hears_nothing_from_elsewhere() {
    let identity = Identity::new();
    let mut config = identity.server();
    config.migration(false);
    let mut transport = warprate::TransportConfig::default();
    transport.dead_link_timeout(Some(std::time::Duration::from_millis(500)));
    let mut client_config = identity.client();
    client_config.transport_config(std::sync::Arc::new(transport));
    let pair = Pair::with(config, client_config).await;
    pair.client.rebind(socket_at(localhost())).unwrap();
    let error = timeout(PATIENCE, pair.connection.closed()).await.unwrap();
    assert_eq!(error, ConnectionError::TimedOut);
}

#[tokio::test]
async fn a_client_may_bring_its_socket() {
    let socket = socket_at(localhost());
    let addr = socket.local_addr().unwrap();
    let client = Endpoint::new(EndpointConfig::default(), None, socket).unwrap();
    assert_eq!(client.local_addr().unwrap(), addr);
    let identity = Identity::new();
    let server = Endpoint::server(identity.server(), localhost()).unwrap();
    let (connection, serving) = connect(&client, &server, identity.client()).await;
    assert_eq!(serving.remote_address(), addr);
    download_while(&serving, &connection, || ()).await;
}

#[tokio::test]
async fn one_socket_serves_both_families() {
    let identity = Identity::new();
    let Ok(server) = Endpoint::server(identity.server(), "[::]:0".parse().unwrap()) else { return };
    let port = server.local_addr().unwrap().port();
    for (from, to) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "[::1]")] {
        let client = Endpoint::client(from.parse().unwrap()).unwrap();
        let to = format!("{to}:{port}").parse().unwrap();
        let connecting = client.connect_with(identity.client(), to, "localhost").unwrap();
        let accepting = async { server.accept().await.unwrap().await.unwrap() };
        let (connection, serving) = tokio::join!(connecting, accepting);
        download_while(&serving, &connection.unwrap(), || ()).await;
    }
}
