//! Real sockets, few and short: what applications rely on, and what strangers may do.

mod common;

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use common::configs;
use common::sockets::{Pair, fixed, localhost};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use warprate::units::{Bytes, Rate};
use warprate::{
    ConnectError, ConnectionError, Endpoint, EndpointConfig, ReadError, ReadExactError, ReadToEndError,
    TransportConfig, VarInt, WriteError,
};

fn code(n: u32) -> VarInt {
    VarInt::from_u32(n)
}

#[tokio::test]
async fn what_was_finished_is_delivered_though_every_handle_is_dropped() {
    let Pair { server, client, serving, connection } = Pair::new().await;
    let mut stream = serving.open_uni().await.unwrap();
    stream.write_chunk(vec![5; 3_000_000].into()).await.unwrap();
    stream.finish().unwrap();
    drop((stream, serving));
    let mut stream = connection.accept_uni().await.unwrap();
    let data = stream.read_to_end(3_000_000).await.unwrap();
    assert_eq!(data.len(), 3_000_000);
    drop((stream, connection));
    server.wait_idle().await;
    client.wait_idle().await;
    assert_eq!((server.open_connections(), client.open_connections()), (0, 0));
}

#[tokio::test]
async fn tokio_readers_and_writers_work() {
    let pair = Pair::new().await;
    let (mut send, mut recv) = pair.connection.open_bi().await.unwrap();
    send.write_all(b"hello").await.unwrap();
    send.shutdown().await.unwrap();
    let (mut answer, mut request) = pair.serving.accept_bi().await.unwrap();
    let mut text = String::new();
    request.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hello");
    tokio::io::copy(&mut &b"to you"[..], &mut answer).await.unwrap();
    answer.finish().unwrap();
    assert_eq!(recv.read_to_end(6).await.unwrap(), b"to you");
    assert_eq!(recv.read(&mut [0; 8]).await.unwrap(), None);
    // The end is read: the peer knows that everything arrived.
    assert_eq!(answer.stopped().await.unwrap(), None);
}

#[tokio::test]
async fn a_stream_ends_in_one_of_its_ways() {
    let pair = Pair::new().await;
    let mut stream = pair.serving.open_uni().await.unwrap();
    stream.write_all(b"abc").await.unwrap();
    let mut incoming = pair.connection.accept_uni().await.unwrap();
    let mut three = [0; 3];
    incoming.read_exact(&mut three).await.unwrap();

    stream.reset(code(7)).unwrap();
    assert_eq!(incoming.read(&mut three).await, Err(ReadError::Reset(code(7))));
    assert_eq!(incoming.read(&mut three).await, Err(ReadError::Reset(code(7))));
    assert_eq!(stream.write(b"x").await, Err(WriteError::ClosedStream));

    let mut stream = pair.serving.open_uni().await.unwrap();
    stream.write_all(b"abc").await.unwrap();
    let mut incoming = pair.connection.accept_uni().await.unwrap();
    incoming.stop(code(9)).unwrap();
    assert_eq!(stream.stopped().await.unwrap(), Some(code(9)));
    assert_eq!(stream.write(b"x").await, Err(WriteError::Stopped(code(9))));
    assert_eq!(incoming.read(&mut three).await, Err(ReadError::ClosedStream));

    let mut stream = pair.serving.open_uni().await.unwrap();
    stream.write_all(b"ab").await.unwrap();
    stream.finish().unwrap();
    assert_eq!(stream.write(b"x").await, Err(WriteError::ClosedStream));
    let mut incoming = pair.connection.accept_uni().await.unwrap();
    assert_eq!(incoming.read_exact(&mut three).await, Err(ReadExactError::FinishedEarly(2)));

    let mut stream = pair.serving.open_uni().await.unwrap();
    stream.write_all(b"abc").await.unwrap();
    let mut incoming = pair.connection.accept_uni().await.unwrap();
    assert_eq!(incoming.read_to_end(2).await, Err(ReadToEndError::TooLong));
}

#[tokio::test]
async fn chunks_come_unordered_when_asked_for_and_never_ordered_again() {
    let pair = Pair::new().await;
    let mut stream = pair.serving.open_uni().await.unwrap();
    stream.write_all(b"abc").await.unwrap();
    let mut incoming = pair.connection.accept_uni().await.unwrap();
    let chunk = incoming.read_chunk(2, false).await.unwrap().unwrap();
    assert_eq!((chunk.offset, &chunk.bytes[..]), (0, &b"ab"[..]));
    assert_eq!(incoming.read(&mut [0; 8]).await, Err(ReadError::IllegalOrderedRead));
}

#[tokio::test]
async fn writers_wait_for_slow_readers_within_the_windows() {
    let (server, mut client) = configs(&fixed());
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(Bytes::kb(100));
    client.transport_config(Arc::new(transport));
    let pair = Pair::with(server, client).await;
    let mut stream = pair.serving.open_uni().await.unwrap();
    let writing = tokio::spawn(async move {
        stream.write_chunk(vec![1; 40_000_000].into()).await.unwrap();
        stream.finish().unwrap();
    });
    let mut incoming = pair.connection.accept_uni().await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    // 32 MiB of send window and 100 kB of receive window are less than 40 MB.
    assert!(!writing.is_finished());
    assert!(pair.connection.stats().proto.udp_rx.bytes < 200_000);
    assert_eq!(incoming.read_to_end(40_000_000).await.unwrap().len(), 40_000_000);
    writing.await.unwrap();
}

#[tokio::test]
async fn closing_tells_both_ends_why() {
    let pair = Pair::new().await;
    let mut stream = pair.serving.open_uni().await.unwrap();
    stream.write_all(b"abc").await.unwrap();
    let mut incoming = pair.connection.accept_uni().await.unwrap();
    pair.serving.close(code(3), b"enough");
    assert_eq!(pair.serving.closed().await, ConnectionError::LocallyClosed);
    assert_eq!(stream.write(b"x").await, Err(ConnectionError::LocallyClosed.into()));
    let ConnectionError::ApplicationClosed(close) = pair.connection.closed().await else {
        panic!("not closed")
    };
    assert_eq!((close.error_code, &close.reason[..]), (code(3), &b"enough"[..]));
    assert!(matches!(incoming.read_to_end(9).await, Err(ReadToEndError::Read(ReadError::ConnectionLost(_)))));
    assert!(pair.connection.open_uni().await.is_err());
    pair.server.wait_idle().await;
    pair.client.wait_idle().await;
}

#[tokio::test]
async fn closing_an_endpoint_ends_its_connections_and_its_accepting() {
    let pair = Pair::new().await;
    pair.server.close(code(1), b"");
    assert!(pair.server.accept().await.is_none());
    assert!(matches!(pair.connection.closed().await, ConnectionError::ApplicationClosed(_)));
    pair.server.wait_idle().await;
    let refused = pair.client.connect(pair.server.local_addr().unwrap(), "localhost").unwrap().await;
    assert!(matches!(refused, Err(ConnectionError::ConnectionClosed(_))), "{refused:?}");
    let client = pair.client;
    client.close(code(0), b"");
    assert!(matches!(client.connect(localhost(), "localhost"), Err(ConnectError::EndpointStopping)));
}

#[tokio::test]
async fn a_dropped_incoming_connection_is_refused() {
    let (server_config, client_config) = configs(&fixed());
    let server = Endpoint::server(server_config, localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let connecting =
        client.connect_with(client_config.clone(), server.local_addr().unwrap(), "localhost").unwrap();
    let turning_away = async { drop(server.accept().await.unwrap()) };
    let (result, ()) = tokio::join!(connecting, turning_away);
    assert!(matches!(result, Err(ConnectionError::ConnectionClosed(_))), "{result:?}");
}

#[tokio::test]
async fn an_occupied_port_is_named() {
    let taken = UdpSocket::bind(localhost()).unwrap();
    let addr = taken.local_addr().unwrap();
    let error = Endpoint::client(addr).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().starts_with(&format!("cannot bind a UDP socket to {addr}: ")), "{error}");
}

#[tokio::test]
async fn an_anchor_of_zero_is_refused() {
    let mut config = EndpointConfig::default();
    config.anchor(Rate::ZERO);
    let error = Endpoint::new(config, None, UdpSocket::bind(localhost()).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "the anchor is `0 bit/s`: it must be a rate above zero");
}

#[tokio::test]
async fn impossible_peers_are_refused_at_once() {
    let (_, config) = configs(&fixed());
    let client = Endpoint::client(localhost()).unwrap();
    let connect = |addr: &str, name: &str| client.connect_with(config.clone(), addr.parse().unwrap(), name);
    assert!(matches!(connect("[::1]:1", "localhost"), Err(ConnectError::InvalidRemoteAddress(_))));
    assert!(matches!(connect("127.0.0.1:0", "localhost"), Err(ConnectError::InvalidRemoteAddress(_))));
    assert!(matches!(connect("127.0.0.1:1", "no name"), Err(ConnectError::InvalidServerName(_))));
    let unset = client.connect(localhost(), "localhost");
    assert!(matches!(unset, Err(ConnectError::NoDefaultClientConfig)));
}

#[tokio::test]
async fn an_unreachable_peer_times_out() {
    let (_, mut config) = configs(&fixed());
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(VarInt::from_u32(300).into()));
    config.transport_config(Arc::new(transport));
    let client = Endpoint::client(localhost()).unwrap();
    // A socket that nobody reads, and one that nobody has.
    let silent = UdpSocket::bind(localhost()).unwrap();
    let connect = |addr| client.connect_with(config.clone(), addr, "localhost").unwrap();
    let results = tokio::join!(connect(silent.local_addr().unwrap()), connect(([127, 0, 0, 1], 9).into()));
    assert_eq!(results.0.unwrap_err(), ConnectionError::TimedOut);
    assert_eq!(results.1.unwrap_err(), ConnectionError::TimedOut);
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_ends_the_handshake_on_both_ends() {
    let (server_config, _) = configs(&fixed());
    let (_, other_client) = configs(&fixed());
    let server = Endpoint::server(server_config, localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let connecting =
        client.connect_with(other_client.clone(), server.local_addr().unwrap(), "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await };
    let (connected, accepted) = tokio::join!(connecting, accepting);
    assert!(connected.unwrap_err().to_string().contains("invalid peer certificate"));
    assert!(matches!(accepted, Err(ConnectionError::ConnectionClosed(_))));
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let (server_config, client_config) = configs(&fixed());
    let server = Endpoint::server(server_config, localhost()).unwrap();
    let client = Endpoint::client(localhost()).unwrap();
    let connecting =
        client.connect_with(client_config.clone(), server.local_addr().unwrap(), "example.org").unwrap();
    let accepting = async { server.accept().await.unwrap().await };
    let (connected, _) = tokio::join!(connecting, accepting);
    assert!(connected.unwrap_err().to_string().contains("not valid for name"));
}

#[test]
fn an_endpoint_lives_from_its_first_moment() {
    // Many, since another thread may run the driver before `server` returns.
    let (server_config, _) = configs(&fixed());
    let runtime = runtime();
    for _ in 0..200 {
        let server =
            runtime.block_on(async { Endpoint::server(server_config.clone(), localhost()) }).unwrap();
        let waiting = runtime.block_on(async {
            tokio::time::timeout(Duration::from_millis(1), server.accept()).await.is_err()
        });
        assert!(waiting, "the endpoint was closed before anybody closed it");
    }
}

#[test]
fn a_peer_that_vanishes_is_noticed() {
    let (mut server_config, client_config) = configs(&fixed());
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(VarInt::from_u32(300).into()));
    server_config.transport_config(Arc::new(transport));
    let ours = runtime();
    let server = ours.block_on(async { Endpoint::server(server_config, localhost()) }).unwrap();
    let addr = server.local_addr().unwrap();
    let serving = ours.spawn(async move {
        let connection = server.accept().await.unwrap().await.unwrap();
        let mut stream = connection.open_uni().await.unwrap();
        // More than the client will ever read, so that the server is in the midst of sending.
        let wrote = stream.write_chunk(vec![1; 100_000_000].into()).await;
        (wrote, connection.closed().await)
    });
    // The client's runtime goes away without a word, and its socket with it.
    let theirs = runtime();
    theirs.block_on(async {
        let client = Endpoint::client(localhost()).unwrap();
        let connection =
            client.connect_with(client_config.clone(), addr, "localhost").unwrap().await.unwrap();
        connection.accept_uni().await.unwrap().read(&mut [0; 1000]).await.unwrap();
        std::mem::forget((client, connection));
    });
    drop(theirs);
    let (wrote, closed) = ours.block_on(serving).unwrap();
    assert_eq!(wrote, Err(WriteError::ConnectionLost(ConnectionError::TimedOut)));
    assert_eq!(closed, ConnectionError::TimedOut);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[tokio::test]
async fn garbage_at_the_door_disturbs_nobody() {
    let pair = Pair::new().await;
    let stranger = UdpSocket::bind(localhost()).unwrap();
    let mut state = 1u32;
    for len in (0..1500).step_by(7) {
        let garbage: Vec<u8> = (0..len)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_be_bytes()[0]
            })
            .collect();
        // Truncated long headers of a known version, short headers, and noise.
        for first in [None, Some([0xc3, 0, 0, 0, 1]), Some([0x40, 0, 0, 0, 0]), Some([0xff; 5])] {
            let mut datagram = garbage.clone();
            if let Some(first) = first {
                let n = datagram.len().min(5);
                datagram[..n].copy_from_slice(&first[..n]);
            }
            for addr in [pair.server.local_addr().unwrap(), pair.client.local_addr().unwrap()] {
                let _ = stranger.send_to(&datagram, addr);
            }
        }
    }
    let mut stream = pair.serving.open_uni().await.unwrap();
    stream.write_chunk(vec![5; 1_000_000].into()).await.unwrap();
    stream.finish().unwrap();
    let mut incoming = pair.connection.accept_uni().await.unwrap();
    assert_eq!(incoming.read_to_end(1_000_000).await.unwrap().len(), 1_000_000);
}

#[test]
fn a_runtime_that_ends_leaves_nobody_waiting() {
    let (ours, theirs) = (runtime(), runtime());
    let pair = theirs.block_on(Pair::new());
    let waiting = ours.spawn({
        let (connection, endpoint) = (pair.connection.clone(), pair.server.clone());
        async move {
            let error = connection.closed().await;
            endpoint.wait_idle().await;
            (error, endpoint.accept().await.is_none())
        }
    });
    drop(theirs);
    let (error, is_over) = ours.block_on(waiting).unwrap();
    assert_eq!((error, is_over), (ConnectionError::LocallyClosed, true));
}

#[tokio::test]
async fn ipv6_works_and_reaches_ipv4() {
    let (server_config, client_config) = configs(&fixed());
    let Ok(client) = Endpoint::client("[::]:0".parse().unwrap()) else { return };
    for addr in ["[::1]:0", "127.0.0.1:0"] {
        let server = Endpoint::server(server_config.clone(), addr.parse().unwrap()).unwrap();
        let connecting =
            client.connect_with(client_config.clone(), server.local_addr().unwrap(), "localhost").unwrap();
        let accepting = async { server.accept().await.unwrap().await };
        let (connected, accepted) = tokio::join!(connecting, accepting);
        assert!(connected.is_ok() && accepted.is_ok(), "{addr}");
    }
}

#[tokio::test]
async fn a_limit_on_streams_is_waited_for() {
    let (server, mut client) = configs(&fixed());
    let mut transport = TransportConfig::default();
    transport.max_concurrent_uni_streams(1_u32.into());
    client.transport_config(Arc::new(transport));
    let pair = Pair::with(server, client).await;
    let serving = pair.serving.clone();
    let opening = tokio::spawn(async move {
        for i in 0..20u8 {
            let mut stream = serving.open_uni().await.unwrap();
            stream.write_all(&[i]).await.unwrap();
            stream.finish().unwrap();
        }
    });
    for i in 0..20u8 {
        let mut stream = pair.connection.accept_uni().await.unwrap();
        assert_eq!(stream.read_to_end(1).await.unwrap(), [i]);
    }
    opening.await.unwrap();
}
