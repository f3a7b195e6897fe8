//! quinn on a paced socket of ours.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::PrivatePkcs8KeyDer;
use warplink::{PathProfile, Probability, UdpRelay};
use warprate::stock::Paced;
use warprate::units::{Bytes, Rate};
use warprate::{EndpointConfig, Law};

const LOCALHOST: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn configs() -> (quinn::ServerConfig, quinn::ClientConfig) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let certificate = certified.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    (
        quinn::ServerConfig::with_single_cert(vec![certificate], key.into()).unwrap(),
        quinn::ClientConfig::with_root_certificates(Arc::new(roots)).unwrap(),
    )
}

/// A server at `addr` that sends back what comes on each stream.
fn echo(config: quinn::ServerConfig, addr: SocketAddr, law: Law) -> SocketAddr {
    let paced = Paced::server(config.clone(), addr, law).unwrap();
    let addr = paced.endpoint().local_addr().unwrap();
    tokio::spawn(async move {
        while let Some(incoming) = paced.endpoint().accept().await {
            let connecting = paced.accept(incoming, config.clone()).unwrap();
            tokio::spawn(async move {
                let connection = connecting.await.unwrap();
                while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                    tokio::spawn(async move {
                        let data = recv.read_to_end(usize::MAX).await.unwrap();
                        send.write_all(&data).await.unwrap();
                        send.finish().unwrap();
                    });
                }
            });
        }
    });
    addr
}

async fn ask(connection: &quinn::Connection, len: usize) {
    let data: Vec<u8> = (0..=250).cycle().take(len).collect();
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    let (written, echoed) = tokio::join!(
        async {
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
        },
        recv.read_to_end(usize::MAX),
    );
    let () = written;
    assert!(echoed.unwrap() == data);
}

#[tokio::test]
async fn both_ways_over_a_lossy_path_under_every_kind_of_law() {
    let laws = [
        Law::warprate(1),
        Law::cubic(),
        Law::bbr3(1),
        Law::fixed(Rate::mbps(50), Bytes::mb(1)),
        Law::quinn_cubic(),
    ];
    for law in laws {
        let (server_config, client_config) = configs();
        let server = echo(server_config, LOCALHOST, law.clone());
        let mut path = PathProfile::symmetric(Rate::mbps(100), Duration::from_millis(5)).unwrap();
        path.forward = path.forward.with_loss(Probability::percent(2));
        path.reverse = path.reverse.with_loss(Probability::percent(2));
        let relay = UdpRelay::start(LOCALHOST, server, &path, 1).unwrap();
        let client = Paced::client(LOCALHOST, law).unwrap();
        let connecting = client.connect(client_config, relay.local_addr(), "localhost").unwrap();
        ask(&connecting.await.unwrap(), 1_000_000).await;
    }
}

#[tokio::test]
async fn connections_to_one_peer_share_a_slot_and_all_go_on() {
    let (server_config, client_config) = configs();
    let law = Law::fixed(Rate::mbps(20), Bytes::mb(1));
    let server = echo(server_config, LOCALHOST, law.clone());
    let client = Paced::client(LOCALHOST, law).unwrap();
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let connecting = client.connect(client_config.clone(), server, "localhost").unwrap();
        asking.spawn(async move { ask(&connecting.await.unwrap(), 200_000).await });
    }
    asking.join_all().await;
    client.endpoint().close(0_u32.into(), b"");
    client.endpoint().wait_idle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_is_served_by_many_threads() {
    let (server_config, client_config) = configs();
    let law = Law::warprate(1);
    let server = echo(server_config, LOCALHOST, law.clone());
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let client = Arc::new(Paced::client(LOCALHOST, law.clone()).unwrap());
        for _ in 0..4 {
            let (client, config) = (client.clone(), client_config.clone());
            asking.spawn(async move {
                let connection = client.connect(config, server, "localhost").unwrap().await.unwrap();
                for len in [1, 1000, 300_000] {
                    ask(&connection, len).await;
                }
            });
        }
    }
    asking.join_all().await;
}

#[tokio::test]
async fn a_dual_stack_socket_paces_ipv4_peers() {
    let (server_config, client_config) = configs();
    let law = Law::fixed(Rate::mbps(50), Bytes::mb(1));
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let server = echo(server_config, any, law.clone());
    let client = Paced::client(any, law).unwrap();
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
    let connecting = client.connect(client_config, remote, "localhost").unwrap();
    ask(&connecting.await.unwrap(), 500_000).await;
}

#[tokio::test]
async fn a_connection_that_moves_to_a_socket_of_another_kind_goes_on() {
    let (server_config, client_config) = configs();
    let law = Law::fixed(Rate::mbps(20), Bytes::mb(1));
    let server = echo(server_config, LOCALHOST, law.clone());
    let client = Paced::client(LOCALHOST, law).unwrap();
    let connection = client.connect(client_config, server, "localhost").unwrap().await.unwrap();
    let asking = tokio::spawn(async move { ask(&connection, 500_000).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    client.endpoint().rebind(UdpSocket::bind(LOCALHOST).unwrap()).unwrap();
    asking.await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_is_an_error_that_says_why() {
    let socket = || UdpSocket::bind(LOCALHOST).unwrap();
    let mut config = EndpointConfig::default();
    config.anchor(Rate::ZERO);
    let error = Paced::new(&config, None, socket(), Law::cubic()).unwrap_err().to_string();
    assert!(error.contains("anchor") && error.contains("above zero"), "{error}");
    let taken = socket();
    let error = Paced::client(taken.local_addr().unwrap(), Law::cubic()).unwrap_err().to_string();
    assert!(error.contains("cannot bind") && error.contains("127.0.0.1"), "{error}");
}
