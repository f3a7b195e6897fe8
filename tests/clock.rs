//! The send clock on real sockets: what it tells of itself, what it does when there is nothing to do, and what
//! it makes of absurd settings.

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use common::configs;
use tokio::time::{sleep, timeout};
use warprate::conn::SendClockStats;
use warprate::units::{Bytes, Rate};
use warprate::{Connection, ConnectionError, Endpoint, EndpointConfig, Law, TransportConfig};

const PATIENCE: Duration = Duration::from_secs(20);

fn localhost() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn endpoint(config: &EndpointConfig, server: Option<warprate::ServerConfig>) -> Endpoint {
    Endpoint::new(config.clone(), server, UdpSocket::bind(localhost()).unwrap()).unwrap()
}

/// Both ends of a connection, and their endpoints, the server's first.
struct Pair {
    endpoints: [Endpoint; 2],
    serving: Connection,
    connection: Connection,
}

async fn connect(config: &EndpointConfig, law: &Law) -> Pair {
    let (server_config, client_config) = configs(law);
    let (server, client) = (endpoint(config, Some(server_config)), endpoint(config, None));
    let connecting = client.connect_with(client_config, server.local_addr().unwrap(), "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connection, serving) =
        timeout(PATIENCE, async { tokio::join!(connecting, accepting) }).await.unwrap();
    Pair { connection: connection.unwrap(), serving, endpoints: [server, client] }
}

impl Pair {
    /// The server sends so much, and it arrives.
    async fn download(&self, size: usize) {
        let mut stream = self.serving.open_uni().await.unwrap();
        stream.write_chunk(vec![7; size].into()).await.unwrap();
        stream.finish().unwrap();
        let mut stream = self.connection.accept_uni().await.unwrap();
        let data = timeout(PATIENCE, stream.read_to_end(size)).await.expect("it arrives").unwrap();
        assert!(data.len() == size && data.iter().all(|&byte| byte == 7));
    }

    fn stats(&self) -> [SendClockStats; 2] {
        [0, 1].map(|i| self.endpoints[i].send_clock_stats())
    }
}

#[tokio::test]
async fn an_idle_endpoint_is_not_woken() {
    for law in [Law::warprate(1), Law::cubic(), Law::bbr3(1), Law::quinn_cubic()] {
        let pair = connect(&EndpointConfig::default(), &law).await;
        pair.download(1_000_000).await;
        // The last acknowledgements, probes of the path's MTU, and keys that are put away.
        sleep(Duration::from_secs(1)).await;
        let before = pair.stats().map(|stats| stats.wake_ups);
        assert!(before.iter().all(|&wake_ups| wake_ups > 0));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(pair.stats().map(|stats| stats.wake_ups), before, "{law:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn departures_are_followed_while_there_are_any() {
    let pair = connect(&EndpointConfig::default(), &Law::fixed(Rate::mbps(20), Bytes::mb(1))).await;
    // 200 ms: a sample every 10 ms, of which the last is read when the next is taken.
    pair.download(500_000).await;
    let [stats, _] = pair.stats();
    assert!((5..=40).contains(&stats.departure_error.count()), "{}", stats.departure_error.count());
    assert_eq!(stats.queue_delay.count(), stats.departure_error.count());
    assert!(stats.departure_error.quantile(0.5) < Some(Duration::from_secs(1)));
    assert_eq!(stats.releases, warprate::conn::ReleaseReports::default());
}

/// Linux gives them to every socket that reads stamps at all: ours must not, see `error_queue`.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn stamps_of_received_datagrams_that_others_ask_for_do_no_harm() {
    use nix::sys::socket::{setsockopt, sockopt::ReceiveTimestampns};
    let other = UdpSocket::bind(localhost()).unwrap();
    setsockopt(&other, ReceiveTimestampns, &true).unwrap();
    let pair = connect(&EndpointConfig::default(), &Law::fixed(Rate::mbps(200), Bytes::mb(1))).await;
    pair.download(5_000_000).await;
    assert!(pair.stats()[0].departure_error.count() > 0);
}

#[tokio::test]
async fn buffers_that_no_system_grants_are_no_failure_and_those_that_hold_no_batch_are_refused() {
    let mut config = EndpointConfig::default();
    for size in [Bytes::ZERO, Bytes::new(65_535)] {
        config.socket_buffer(size);
        let error = Endpoint::new(config.clone(), None, UdpSocket::bind(localhost()).unwrap()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().starts_with(&format!("the socket buffer is `{size}`: ")), "{error}");
    }
    for size in [Bytes::kib(64), Bytes::MAX] {
        config.socket_buffer(size);
        let pair = connect(&config, &Law::fixed(Rate::mbps(100), Bytes::kb(20))).await;
        pair.download(100_000).await;
    }
}

#[tokio::test]
async fn an_absurd_anchor_is_obeyed_and_nothing_more() {
    let mut config = EndpointConfig::default();
    config.anchor(Rate::MAX);
    connect(&config, &Law::fixed(Rate::mbps(100), Bytes::mb(1))).await.download(100_000).await;
    // At a byte per second a handshake takes hours.
    config.anchor(Rate::bytes_per_sec(1));
    let (server_config, mut client_config) = configs(&Law::default());
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(Duration::from_millis(300).try_into().unwrap()));
    client_config.transport_config(Arc::new(transport));
    let (server, client) = (endpoint(&config, Some(server_config)), endpoint(&config, None));
    let connecting = client.connect_with(client_config, server.local_addr().unwrap(), "localhost").unwrap();
    let error = timeout(PATIENCE, connecting).await.expect("it ends").unwrap_err();
    assert_eq!(error, ConnectionError::TimedOut);
}
