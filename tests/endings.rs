//! How things end on real sockets when the application has let go, or the endpoint has.

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use common::configs;
use tokio::time::timeout;
use warprate::units::{Bytes, Rate};
use warprate::{Connection, Endpoint, EndpointConfig, Law, TransportConfig, VarInt};

const PATIENCE: Duration = Duration::from_secs(5);

fn localhost() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn fixed() -> Law {
    Law::fixed(Rate::mbps(500), Bytes::mb(4))
}

async fn pair(transport: TransportConfig) -> (Endpoint, Endpoint, Connection, Connection) {
    let (server_config, mut client_config) = configs(&fixed());
    client_config.transport_config(Arc::new(transport));
    let server = Endpoint::server(server_config, localhost()).unwrap();
    let mut client = Endpoint::client(localhost()).unwrap();
    client.set_default_client_config(client_config);
    let connecting = client.connect(server.local_addr().unwrap(), "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connection, serving) = tokio::join!(connecting, accepting);
    (server, client, serving, connection.unwrap())
}

#[tokio::test]
async fn a_client_taken_up_after_the_end_of_its_endpoint_is_told() {
    let (server_config, client_config) = configs(&fixed());
    let server = Endpoint::server(server_config, localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let _connecting =
        client.connect_with(client_config.clone(), server.local_addr().unwrap(), "localhost").unwrap();
    let incoming = server.accept().await.unwrap();
    server.close(VarInt::from_u32(0), b"");
    assert!(timeout(PATIENCE, incoming).await.expect("it ends").is_err(), "a closed endpoint took it up");
}

#[test]
fn a_client_taken_up_after_the_end_of_its_runtime_is_told() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (server_config, client_config) = configs(&fixed());
    let (ours, theirs) = (runtime(), runtime());
    let server = ours.block_on(async { Endpoint::server(server_config, localhost()) }).unwrap();
    let client = theirs.block_on(async { Endpoint::client(localhost()) }).unwrap();
    let _connecting =
        client.connect_with(client_config.clone(), server.local_addr().unwrap(), "localhost").unwrap();
    let incoming = theirs.block_on(server.accept()).unwrap();
    drop(ours);
    let result = theirs.block_on(async { timeout(PATIENCE, incoming).await });
    assert!(result.expect("it ends").is_err());
}

#[tokio::test]
async fn nobody_is_kept_waiting_at_an_endpoint_without_handles() {
    let (server, client, _serving, _connection) = pair(TransportConfig::default()).await;
    let addr = server.local_addr().unwrap();
    drop(server);
    let connecting = client.connect(addr, "localhost").unwrap();
    assert!(timeout(PATIENCE, connecting).await.expect("it is refused").is_err());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_path_without_segmentation_offload_carries_data() {
    use std::os::fd::AsRawFd;
    unsafe extern "C" {
        fn setsockopt(fd: i32, level: i32, name: i32, value: *const i32, len: u32) -> i32;
    }
    let socket = UdpSocket::bind(localhost()).unwrap();
    let (server_config, client_config) = configs(&fixed());
    // Linux refuses to segment without checksums (EINVAL), as it does on devices without offload (EIO).
    // SAFETY: a valid descriptor, SOL_SOCKET, SO_NO_CHECK, and an int.
    assert_eq!(unsafe { setsockopt(socket.as_raw_fd(), 1, 11, &1, 4) }, 0);
    let server = Endpoint::new(EndpointConfig::default(), Some(server_config), socket).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let connecting =
        client.connect_with(client_config.clone(), server.local_addr().unwrap(), "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connection, serving) = tokio::join!(connecting, accepting);
    let connection = connection.unwrap();
    let mut stream = serving.open_uni().await.unwrap();
    stream.write_chunk(vec![5; 10_000_000].into()).await.unwrap();
    stream.finish().unwrap();
    let mut incoming = connection.accept_uni().await.unwrap();
    let data = timeout(PATIENCE, incoming.read_to_end(10_000_000)).await;
    let data = data.expect("it arrives").unwrap();
    assert_eq!(data.len(), 10_000_000);
}

#[tokio::test]
async fn waiting_for_a_stream_that_was_reset_ends() {
    let (_server, _client, serving, _connection) = pair(TransportConfig::default()).await;
    let mut stream = serving.open_uni().await.unwrap();
    stream.write_all(b"abc").await.unwrap();
    stream.reset(VarInt::from_u32(1)).unwrap();
    // In a task of its own, since `timeout` asks once more when it is over.
    let waiting = tokio::spawn(async move { stream.stopped().await });
    assert!(timeout(PATIENCE, waiting).await.is_ok(), "a reset stream has ended");
}
