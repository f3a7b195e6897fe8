//! Floods at the door of an endpoint on a real socket: clients that knock and come no further.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use warprate::conn::Law;
use warprate::{Connection, ConnectionError, Endpoint, Incoming, ServerConfig};

use crate::common::configs;
use crate::common::sockets::{fixed, localhost};
use crate::common::tls_made_once;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Stated at [`ServerConfig`].
const PER_INCOMING: i64 = 12 << 10;

/// First datagrams of clients that say nothing more.
fn knocks(count: usize, server: SocketAddr) -> Vec<Vec<u8>> {
    let mut endpoint =
        quinn_proto::Endpoint::new(Arc::new(quinn_proto::EndpointConfig::default()), None, true, None);
    let handshake = &tls_made_once().1;
    #[expect(clippy::disallowed_methods, reason = "the origin of a time that stands still")]
    let now = std::time::Instant::now();
    let setup = crate::common::pair::setup(Law::cubic());
    let limits = warprate::conn::BatchLimits { bytes: warprate::units::Bytes::kb(2), segments: 1 };
    let knock = || {
        let (_, mut core) =
            warprate::conn::core::connect(&mut endpoint, now, handshake, &setup, server, "localhost")
                .unwrap();
        let mut datagram = Vec::new();
        let _ = core.poll_transmit(now, limits, &mut datagram).expect("a client knocks");
        datagram
    };
    std::iter::repeat_with(knock).take(count).collect()
}

/// The datagrams arrive, a few at a time so that the socket's buffer holds them.
async fn flood(datagrams: &[Vec<u8>], server: &Endpoint) {
    for (host, some) in (1..=250).cycle().zip(datagrams.chunks(20)) {
        // Another source for each few.
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 1, host), 0)).unwrap();
        for datagram in some {
            socket.send_to(datagram, server.local_addr().unwrap()).unwrap();
        }
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// The clients that wait to be accepted.
async fn waiting(server: &Endpoint) -> Vec<Incoming> {
    let mut waiting = vec![];
    while let Ok(Some(incoming)) = timeout(Duration::from_millis(1), server.accept()).await {
        waiting.push(incoming);
    }
    waiting
}

fn endpoints(configure: impl FnOnce(&mut ServerConfig)) -> (Endpoint, Endpoint) {
    let (mut server, client) = configs(&fixed());
    configure(&mut server);
    let server = Endpoint::server(server, localhost()).unwrap();
    let mut endpoint = Endpoint::client(localhost()).unwrap();
    endpoint.set_default_client_config(client);
    (server, endpoint)
}

/// A client comes in; both ends of its connection.
async fn come_in(client: &Endpoint, server: &Endpoint) -> (Connection, Connection) {
    let connecting = client.connect(server.local_addr().unwrap(), "localhost").unwrap();
    let accepting = async {
        loop {
            let incoming = server.accept().await.unwrap();
            if incoming.remote_address() == client.local_addr().unwrap() {
                break incoming.await.unwrap();
            }
        }
    };
    let (connection, serving) =
        timeout(PATIENCE, async { tokio::join!(connecting, accepting) }).await.unwrap();
    (connection.unwrap(), serving)
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn clients_that_wait_cost_what_is_stated_and_the_rest_must_prove_their_address() {
    let runtime = runtime();
    let (server, client) = runtime.block_on(async {
        endpoints(|config| {
            config.max_unvalidated_handshakes(200);
        })
    });
    let datagrams = knocks(1000, server.local_addr().unwrap());
    // The driver and the flood run on this thread.
    let counted = allocation_counter::measure(|| runtime.block_on(flood(&datagrams, &server)));
    assert_eq!(
        server.stats().retried_handshakes + server.stats().dropped_answers,
        800,
        "{:?}",
        server.stats()
    );
    let each = counted.bytes_current / 200;
    println!("{each} bytes for each client that waits");
    assert!(each <= PER_INCOMING, "{each}");
    runtime.block_on(async {
        // It proves its address.
        come_in(&client, &server).await;
        assert_eq!(server.stats().accepted_handshakes, 1);
        assert_eq!(server.stats().refused_handshakes, 200, "dropped on its way in");
    });
}

/// Where the system hands over several datagrams of one sender at once, few outlive their use because of another.
#[cfg(target_os = "linux")]
#[test]
fn a_client_that_waits_keeps_little_more_than_its_own_datagram() {
    let runtime = runtime();
    let (server, _client) = runtime.block_on(async { endpoints(|_| {}) });
    let at = server.local_addr().unwrap();
    let datagrams = knocks(200, at);
    let counted = allocation_counter::measure(|| {
        runtime.block_on(async {
            for datagram in &datagrams {
                // Nobody's, in the same batch.
                let contents = [&datagram[..], &[0; 30 * 1200]].concat();
                let socket = UdpSocket::bind(localhost()).unwrap();
                let state = UdpSocketState::new(UdpSockRef::from(&socket)).unwrap();
                let segment_size = Some(datagram.len());
                let transmit =
                    Transmit { destination: at, ecn: None, contents: &contents, segment_size, src_ip: None };
                state.send(UdpSockRef::from(&socket), &transmit).unwrap();
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        });
    });
    let each = counted.bytes_current / 200;
    println!("{each} bytes for each client that waits");
    assert!(each <= PER_INCOMING, "{each}");
    assert_eq!(runtime.block_on(waiting(&server)).len(), 200);
}

#[test]
fn clients_that_are_accepted_and_go_no_further_keep_nobody_out() {
    runtime().block_on(async {
        let (server, client) = endpoints(|config| {
            config.max_unvalidated_handshakes(100);
        });
        flood(&knocks(300, server.local_addr().unwrap()), &server).await;
        let accepted: Vec<_> = waiting(&server).await.into_iter().map(|it| it.accept().unwrap()).collect();
        assert_eq!(accepted.len(), 100);
        assert_eq!(server.stats().retried_handshakes, 200);
        come_in(&client, &server).await;
        assert_eq!(server.stats().retried_handshakes, 201, "it, too");
    });
}

#[test]
fn clients_that_go_no_further_make_room_for_those_who_do() {
    runtime().block_on(async {
        let (server, client) = endpoints(|config| {
            config.max_handshakes(100).max_unvalidated_handshakes(100);
        });
        flood(&knocks(100, server.local_addr().unwrap()), &server).await;
        let accepted: Vec<_> = waiting(&server).await.into_iter().map(|it| it.accept().unwrap()).collect();
        assert_eq!((accepted.len(), server.open_connections()), (100, 100));
        let mut connections = vec![];
        for _ in 0..10 {
            connections.push(come_in(&client, &server).await);
        }
        // Who has connected takes no place, so that one made room for all.
        let stats = server.stats();
        assert_eq!(
            (server.open_connections(), stats.given_up_handshakes, stats.ignored_handshakes),
            (109, 1, 0)
        );
        let first = accepted.into_iter().next().unwrap();
        assert_eq!(first.await.unwrap_err(), ConnectionError::TimedOut);
        assert!(connections.iter().all(|(_, serving)| serving.close_reason().is_none()));
    });
}

#[test]
fn places_are_free_again_for_the_next() {
    runtime().block_on(async {
        let (server, client) = endpoints(|config| {
            config.max_handshakes(10);
        });
        flood(&knocks(30, server.local_addr().unwrap()), &server).await;
        assert_eq!(server.stats().ignored_handshakes, 20);
        let all = waiting(&server).await;
        assert_eq!(all.len(), 10);
        all.into_iter().for_each(Incoming::ignore);
        // One that is connected takes no place.
        let mut connections = vec![];
        for _ in 0..12 {
            connections.push(come_in(&client, &server).await);
        }
    });
}

#[test]
fn a_server_may_ask_everyone_for_proof() {
    runtime().block_on(async {
        let (server, client) = endpoints(|config| {
            config.max_unvalidated_handshakes(0);
        });
        flood(&knocks(300, server.local_addr().unwrap()), &server).await;
        assert!(waiting(&server).await.is_empty());
        come_in(&client, &server).await;
        assert_eq!((server.stats().retried_handshakes, server.stats().accepted_handshakes), (301, 1));
    });
}
