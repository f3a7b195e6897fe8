//! The relay on real sockets: few, short, and with loose bounds, since machines are busy.
#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "these tests measure real time")]

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use warplink::{Fate, Jitter, Order, PathProfile, Probability, RelayError, RelayStats, Time, UdpRelay};
use warpunits::{Bytes, Rate};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
/// Longer than any pause of a busy machine, and the price of a failure only.
const PATIENCE: Duration = Duration::from_secs(20);

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(LOOPBACK).expect("loopback exists");
    socket.set_read_timeout(Some(PATIENCE)).expect("a valid timeout");
    // A test's thread may pause; what the system does not grant costs nothing but luck.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 2 << 20);
    socket
}

fn addr(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("bound")
}

fn path(rate: Rate, rtt: Duration) -> PathProfile {
    PathProfile::symmetric(rate, rtt).expect("valid").with_buffer(Bytes::mb(10))
}

fn relay_to(server: &UdpSocket, path: &PathProfile) -> UdpRelay {
    UdpRelay::start(LOOPBACK, addr(server), path, 1).expect("a relay on loopback")
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = vec![0; 65_536];
    let (len, from) = socket.recv_from(&mut buffer).expect("a datagram arrives");
    buffer.truncate(len);
    (buffer, from)
}

/// Polls until `done`; the relay counts a datagram just after it has sent it.
fn stats_when(relay: &UdpRelay, done: impl Fn(&RelayStats) -> bool) -> RelayStats {
    let start = Instant::now();
    loop {
        let stats = relay.stats();
        if done(&stats) {
            return stats;
        }
        assert!(start.elapsed() < PATIENCE, "gave up waiting: {stats:?}");
        std::thread::yield_now();
    }
}

#[test]
fn an_echo_takes_the_round_trip_and_comes_back_intact() {
    let (client, server) = (socket(), socket());
    let relay = relay_to(&server, &path(Rate::mbps(100), Duration::from_millis(20)));
    let mut rtts = Vec::new();
    for size in [1, 1200, 0, 1452, 9000, 65_507, 3, 700, 1] {
        let sent: Vec<u8> = (0..size).map(|i: usize| i.to_le_bytes()[0]).collect();
        let start = Instant::now();
        client.send_to(&sent, relay.local_addr()).expect("sent");
        let (got, from) = receive(&server);
        server.send_to(&got, from).expect("sent");
        let (echo, from) = receive(&client);
        rtts.push(start.elapsed());
        assert_eq!(echo, sent);
        assert_eq!(from, relay.local_addr());
    }
    rtts.sort();
    assert!(rtts[0] >= Duration::from_millis(20), "faster than the path: {rtts:?}");
    assert!(rtts[rtts.len() / 2] < Duration::from_millis(60), "median far above the path: {rtts:?}");
    let stats = stats_when(&relay, |stats| stats.to_client.delivered == 9);
    assert_eq!((stats.to_server.offered, stats.to_server.delivered), (9, 9));
    assert_eq!(stats.to_server.kernel_refused + stats.to_client.kernel_refused, 0);
}

#[test]
fn clients_are_told_apart() {
    let (alice, bob, server) = (socket(), socket(), socket());
    let relay = relay_to(&server, &path(Rate::mbps(100), Duration::from_millis(2)));
    alice.send_to(b"alice", relay.local_addr()).expect("sent");
    let (_, alice_at_server) = receive(&server);
    bob.send_to(b"bob", relay.local_addr()).expect("sent");
    let (_, bob_at_server) = receive(&server);
    assert_ne!(alice_at_server, bob_at_server);

    server.send_to(b"for bob", bob_at_server).expect("sent");
    server.send_to(b"for alice", alice_at_server).expect("sent");
    assert_eq!(receive(&alice).0, b"for alice");
    assert_eq!(receive(&bob).0, b"for bob");
    assert_eq!(relay.stats().clients, 2);
}

#[test]
fn strangers_do_not_reach_clients() {
    let (client, server, stranger) = (socket(), socket(), socket());
    let relay = relay_to(&server, &path(Rate::mbps(100), Duration::ZERO));
    client.send_to(b"hello", relay.local_addr()).expect("sent");
    let (_, client_at_server) = receive(&server);
    stranger.send_to(b"evil", client_at_server).expect("sent");
    server.send_to(b"good", client_at_server).expect("sent");
    assert_eq!(receive(&client).0, b"good");
}

#[test]
fn losses_are_the_links_and_are_counted() {
    let (client, server) = (socket(), socket());
    let path = path(Rate::MAX, Duration::ZERO).with_data_loss(Probability::percent(20));
    let relay = relay_to(&server, &path);
    let (mut forward, _) = path.links(1);
    let mut expected = Vec::new();
    for n in 0..200u8 {
        client.send_to(&[n], relay.local_addr()).expect("sent");
        if let Fate::Delivered { .. } = forward.offer(Time::START, Bytes::new(67)) {
            expected.push(n);
        }
    }
    let got: Vec<u8> = expected.iter().map(|_| receive(&server).0[0]).collect();
    assert_eq!(got, expected, "the same datagrams as in a simulation with this seed");
    let to_server = stats_when(&relay, |stats| stats.to_server.in_flight == 0).to_server;
    assert_eq!(to_server.offered, 200);
    assert_eq!(to_server.random_losses, 200 - expected.len() as u64);
    assert_eq!(to_server.delivered, expected.len() as u64);
}

#[test]
fn a_burst_beyond_the_buffer_overflows() {
    let (client, server) = (socket(), socket());
    // 50 datagrams of 66 + 1000 bytes at 10 kB/s: one in transmission, three in the buffer.
    let path = path(Rate::bytes_per_sec(10_000), Duration::ZERO).with_buffer(Bytes::new(3 * 1066));
    let relay = relay_to(&server, &path);
    for n in 0..50 {
        client.send_to(&[n; 1000], relay.local_addr()).expect("sent");
    }
    let stats = stats_when(&relay, |stats| stats.to_server.offered == 50);
    // A pause of more than 100 ms while sending would let another in.
    assert!((40..=46).contains(&stats.to_server.overflow_drops), "{stats:?}");
}

#[test]
fn a_dead_server_does_not_stop_the_relay() {
    let (client, dead) = (socket(), socket());
    let server_addr = addr(&dead);
    let relay = relay_to(&dead, &path(Rate::mbps(100), Duration::ZERO));
    drop(dead);
    for n in 1..=5 {
        client.send_to(&[n], relay.local_addr()).expect("sent");
        stats_when(&relay, |stats| stats.to_server.offered == u64::from(n) && stats.to_server.in_flight == 0);
    }
    // The server comes back at the same address.
    let server = UdpSocket::bind(server_addr).expect("the port is still free");
    server.set_read_timeout(Some(PATIENCE)).expect("a valid timeout");
    client.send_to(b"again", relay.local_addr()).expect("sent");
    assert_eq!(receive(&server).0, b"again");
}

#[test]
fn the_idlest_client_makes_room_for_a_new_one() {
    let server = socket();
    let relay = relay_to(&server, &path(Rate::MAX, Duration::ZERO));
    let clients: Vec<UdpSocket> = (0..130).map(|_| socket()).collect();
    for client in &clients {
        client.send_to(b"hello", relay.local_addr()).expect("sent");
        receive(&server);
    }
    let stats = relay.stats();
    assert_eq!((stats.clients, stats.evicted_clients, stats.clientless), (128, 2, 0));
    // The first is forgotten, and welcome again.
    clients[0].send_to(b"again", relay.local_addr()).expect("sent");
    let (_, at_server) = receive(&server);
    server.send_to(b"welcome", at_server).expect("sent");
    assert_eq!(receive(&clients[0]).0, b"welcome");
}

#[test]
fn a_fifo_path_with_jitter_keeps_the_order_of_a_train() {
    let (client, server) = (socket(), socket());
    let jitter = Jitter::new(Duration::from_millis(2), Order::Fifo).expect("valid");
    let relay = relay_to(&server, &path(Rate::mbps(100), Duration::from_millis(10)).with_jitter(jitter));
    for n in 0..200u8 {
        client.send_to(&[n; 100], relay.local_addr()).expect("sent");
    }
    let got: Vec<u8> = (0..200).map(|_| receive(&server).0[0]).collect();
    assert!(got.is_sorted());
}

#[test]
fn a_train_arrives_at_the_links_rate() {
    let (client, server) = (socket(), socket());
    let relay = relay_to(&server, &path(Rate::mbps(20), Duration::from_millis(2)));
    let start = Instant::now();
    for _ in 0..100 {
        client.send_to(&[7; 1452], relay.local_addr()).expect("sent");
    }
    for _ in 0..100 {
        receive(&server);
    }
    // 100 datagrams of 1518 wire bytes take 60.72 ms at 20 Mbit/s, and the path 1 ms.
    let took = start.elapsed();
    assert!(took >= Duration::from_micros(61_720), "faster than the link: {took:?}");
    assert!(took < Duration::from_millis(600), "far slower than the link: {took:?}");
    if cfg!(target_os = "linux") {
        assert_eq!(relay.stats().to_server.receive_drops, Some(0));
    }
}

/// Sends `contents` in one call as datagrams of `segment` bytes, marked with a codepoint.
fn send_train(from: &UdpSocket, to: SocketAddr, contents: &[u8], segment: usize, ecn: EcnCodepoint) {
    let state = UdpSocketState::new(from.into()).expect("a UDP socket");
    let transmit = Transmit {
        destination: to,
        ecn: Some(ecn),
        contents,
        segment_size: (contents.len() > segment).then_some(segment),
        src_ip: None,
    };
    state.send(from.into(), &transmit).expect("sent");
    from.set_nonblocking(false).expect("a socket");
}

#[test]
#[cfg(target_os = "linux")]
fn a_train_sent_in_one_call_is_many_packets_to_the_link() {
    let (client, server) = (socket(), socket());
    let path = path(Rate::MAX, Duration::from_millis(1)).with_data_loss(Probability::percent(50));
    let relay = relay_to(&server, &path);
    // 40 datagrams of 1000 bytes, the last of 10; each begins with its number.
    let train: Vec<u8> = (0..39_010).map(|i| u8::try_from(i / 1000).expect("below 40")).collect();
    send_train(&client, relay.local_addr(), &train, 1000, EcnCodepoint::Ect0);
    let (mut forward, _) = path.links(1);
    for (n, datagram) in train.chunks(1000).enumerate() {
        let size = warplink::wire_bytes(Bytes::of_len(datagram.len()), false);
        if let Fate::Delivered { .. } = forward.offer(Time::START, size) {
            assert_eq!(receive(&server).0, datagram, "datagram {n}");
        }
    }
    let stats = stats_when(&relay, |stats| stats.to_server.in_flight == 0);
    assert_eq!(stats.to_server.offered, 40);
}

#[test]
fn congestion_marks_pass_unchanged_both_ways() {
    let (client, server) = (socket(), socket());
    let relay = relay_to(&server, &path(Rate::MAX, Duration::ZERO));
    for ecn in [EcnCodepoint::Ect0, EcnCodepoint::Ect1, EcnCodepoint::Ce] {
        send_train(&client, relay.local_addr(), b"there", 5, ecn);
        let there = receive_meta(&server);
        assert_eq!(there.ecn, Some(ecn));
        send_train(&server, there.addr, b"back", 4, ecn);
        assert_eq!(receive_meta(&client).ecn, Some(ecn));
    }
    client.send_to(b"unmarked", relay.local_addr()).expect("sent");
    assert_eq!(receive_meta(&server).ecn, None);
}

fn receive_meta(socket: &UdpSocket) -> RecvMeta {
    let state = UdpSocketState::new(socket.into()).expect("a UDP socket");
    socket.set_nonblocking(false).expect("a socket");
    let (mut buffer, mut meta) = ([0; 100], [RecvMeta::default()]);
    state.recv(socket.into(), &mut [IoSliceMut::new(&mut buffer)], &mut meta).expect("a datagram arrives");
    meta[0]
}

#[test]
fn ipv6_works_where_there_is_any() {
    let ipv6 = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0));
    let Ok(server) = UdpSocket::bind(ipv6) else {
        return;
    };
    server.set_read_timeout(Some(PATIENCE)).expect("a valid timeout");
    // The client speaks IPv4, the server IPv6.
    let client = socket();
    let relay = relay_to(&server, &path(Rate::mbps(100), Duration::ZERO));
    client.send_to(b"ping", relay.local_addr()).expect("sent");
    let (ping, from) = receive(&server);
    assert_eq!((ping.as_slice(), from.is_ipv6()), (b"ping".as_slice(), true));
    server.send_to(b"pong", from).expect("sent");
    assert_eq!(receive(&client).0, b"pong");
}

#[test]
fn what_the_kernel_refuses_is_counted_as_such() {
    let Ok(client) = UdpSocket::bind((std::net::Ipv6Addr::LOCALHOST, 0)) else {
        return;
    };
    let server = socket();
    let path = path(Rate::MAX, Duration::ZERO);
    let listen = SocketAddr::new(addr(&client).ip(), 0);
    let relay = UdpRelay::start(listen, addr(&server), &path, 1).expect("a relay on loopback");
    // IPv6 carries a payload of up to 65,527 bytes, IPv4 of 65,507.
    if client.send_to(&[0; 65_520], relay.local_addr()).is_err() {
        return;
    }
    client.send_to(b"small", relay.local_addr()).expect("sent");
    assert_eq!(receive(&server).0, b"small");
    let to_server = stats_when(&relay, |stats| stats.to_server.delivered == 1).to_server;
    assert_eq!((to_server.offered, to_server.kernel_refused), (2, 1));
}

#[test]
fn errors_say_what_failed() {
    let path = path(Rate::MAX, Duration::ZERO);
    let taken = socket();
    let result = UdpRelay::start(addr(&taken), addr(&taken), &path, 1).expect_err("the port is taken");
    let expected = format!("cannot bind relay on {}: ", addr(&taken));
    assert!(result.to_string().starts_with(&expected), "{result}");
    let result = UdpRelay::start(LOOPBACK, LOOPBACK, &path, 1).expect_err("port 0 is nobody");
    assert!(matches!(result, RelayError::Server { .. }), "{result}");
}

#[test]
fn dropping_the_relay_frees_its_port() {
    let server = socket();
    let relay = relay_to(&server, &path(Rate::MAX, Duration::ZERO));
    let address = relay.local_addr();
    drop(relay);
    UdpSocket::bind(address).expect("the relay has let go");
}

#[test]
fn schedules_count_from_the_start_of_the_relay() {
    let (client, server) = (socket(), socket());
    let outage = (Duration::ZERO, Duration::from_millis(150));
    let path = path(Rate::mbps(100), Duration::from_millis(20));
    let forward = path.forward.with_outages(vec![outage]).expect("valid");
    let start = Instant::now();
    let relay = relay_to(&server, &PathProfile { forward, ..path });
    client.send_to(b"early", relay.local_addr()).expect("sent");
    assert_eq!(receive(&server).0, b"early");
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(160), "it came through the outage after {took:?}");
}
