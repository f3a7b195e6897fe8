//! Real sockets, few and short.

mod common;

use std::net::SocketAddr;

use common::configs;
use warprate::units::{Bytes, Rate};
use warprate::{Endpoint, Law};

fn localhost() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

#[tokio::test]
async fn a_download_arrives() {
    let (server_config, client_config) = configs(&Law::fixed(Rate::gbps(1), Bytes::mb(4)));
    let server = Endpoint::server(server_config, localhost()).unwrap();
    let addr = server.local_addr();
    let serving = tokio::spawn(async move {
        let connection = server.accept().await.unwrap().await.unwrap();
        let mut stream = connection.open_uni().await.unwrap();
        for _ in 0..160 {
            stream.write_chunk(vec![5; 65_536].into()).await.unwrap();
        }
        stream.finish().unwrap();
        drop((stream, connection));
        server.wait_idle().await;
    });
    let client = Endpoint::client(localhost()).unwrap();
    client.set_default_client_config(client_config);
    let connection = client.connect(addr, "localhost").unwrap().await.unwrap();
    let mut stream = connection.accept_uni().await.unwrap();
    let t = std::time::Instant::now();
    let data = stream.read_to_end(20_000_000).await.unwrap();
    println!("{:?} {:?}", t.elapsed(), data.len());
    assert_eq!(data.len(), 160 * 65_536);
    serving.await.unwrap();
}
