//! A server and a client on real sockets.

use std::net::SocketAddr;

use warprate::units::{Bytes, Rate};
use warprate::{ClientConfig, Connection, Endpoint, Law, ServerConfig};

use super::configs;

/// Any port.
pub fn localhost() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// A law that loopback keeps up with.
pub fn fixed() -> Law {
    Law::fixed(Rate::mbps(500), Bytes::mb(4))
}

/// A server and a client, whose connection is established.
pub struct Pair {
    pub server: Endpoint,
    pub client: Endpoint,
    pub serving: Connection,
    pub connection: Connection,
}

impl Pair {
    pub async fn new() -> Self {
        let (server, client) = configs(&fixed());
        Self::with(server, client).await
    }

    pub async fn with(server_config: ServerConfig, client_config: ClientConfig) -> Self {
        let server = Endpoint::server(server_config, localhost()).unwrap();
        let mut client = Endpoint::client(localhost()).unwrap();
        client.set_default_client_config(client_config.clone());
        let (connection, serving) = connect(&client, &server, client_config).await;
        Self { server, client, serving, connection }
    }
}

/// One more connection between two endpoints, as the client and as the server have it.
pub async fn connect(client: &Endpoint, server: &Endpoint, config: ClientConfig) -> (Connection, Connection) {
    let connecting = client.connect_with(config, server.local_addr().unwrap(), "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connection, serving) = tokio::join!(connecting, accepting);
    (connection.unwrap(), serving)
}
