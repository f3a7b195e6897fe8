//! Laws of ours in stock quinn, through its `Controller` trait.
#![allow(clippy::disallowed_methods, reason = "the controller is driven at made-up instants")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::congestion::{Controller, ControllerFactory};
use rustls::pki_types::PrivatePkcs8KeyDer;
use warprate::cc::{Bbr3, Cubic, Fixed, LawFactory, NewReno, PathStart, WarpRate, seeded};
use warprate::conn::DropIn;
use warprate::units::{Bytes, Rate};

fn controller(factory: impl LawFactory + 'static) -> (Box<dyn Controller>, Instant) {
    let now = Instant::now();
    (Arc::new(DropIn::new(factory)).build(now, 1200), now)
}

#[test]
fn the_first_window_is_ten_datagrams() {
    let (cubic, _) = controller(Cubic::new);
    assert_eq!((cubic.window(), cubic.initial_window()), (12_000, 12_000));
}

#[test]
fn warprate_begins_with_what_it_may_send_blind() {
    let (warprate, _) = controller(seeded(1, WarpRate::new));
    assert_eq!((warprate.window(), warprate.initial_window()), (106_000, 106_000));
}

#[test]
fn a_loss_and_a_mark_reduce_the_window_once_per_round_trip() {
    let (mut reno, now) = controller(NewReno::new);
    for i in 0..10 {
        reno.on_sent(now, 1200, i);
    }
    let later = now + Duration::from_millis(50);
    reno.on_congestion_event(later, now, false, 1200);
    assert_eq!(reno.window(), 6_000);
    reno.on_congestion_event(later, now, false, 0);
    assert_eq!(reno.window(), 6_000);
    let sent = later + Duration::from_millis(1);
    reno.on_sent(sent, 1200, 10);
    reno.on_congestion_event(sent + Duration::from_millis(50), sent, false, 0);
    assert_eq!(reno.window(), 3_000);
}

#[test]
fn a_clone_goes_its_own_way() {
    let (mut reno, now) = controller(NewReno::new);
    let clone = reno.clone_box();
    reno.on_sent(now, 1200, 0);
    reno.on_congestion_event(now + Duration::from_millis(50), now, false, 1200);
    assert_eq!((reno.window(), clone.window()), (6_000, 12_000));
}

#[tokio::test]
async fn stock_quinn_downloads_under_every_law() {
    const BYTES: usize = 3_000_000;
    let fixed = |_: PathStart| Fixed::new(Rate::mbps(400), Bytes::mb(4));
    let warprate = seeded(1, WarpRate::new);
    let factories = [
        DropIn::new(warprate),
        DropIn::new(Cubic::new),
        DropIn::new(NewReno::new),
        DropIn::new(seeded(1, Bbr3::new)),
        DropIn::new(fixed),
    ];
    for factory in factories {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let certificate = certified.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let mut transport = quinn::TransportConfig::default();
        transport.congestion_controller_factory(Arc::new(factory));
        let mut config = quinn::ServerConfig::with_single_cert(vec![certificate], key.into()).unwrap();
        config.transport_config(Arc::new(transport));
        let localhost: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let server = quinn::Endpoint::server(config, localhost).unwrap();
        let addr = server.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let connection = server.accept().await.unwrap().await.unwrap();
            let mut stream = connection.open_uni().await.unwrap();
            stream.write_chunk(vec![7; BYTES].into()).await.unwrap();
            stream.finish().unwrap();
            connection.closed().await;
            connection.stats().path.cwnd
        });
        let client = quinn::Endpoint::client(localhost).unwrap();
        let config = quinn::ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
        let connection = client.connect_with(config, addr, "localhost").unwrap().await.unwrap();
        let data = connection.accept_uni().await.unwrap().read_to_end(BYTES).await.unwrap();
        assert!(data.len() == BYTES && data.iter().all(|&byte| byte == 7));
        connection.close(0u32.into(), b"");
        let window = serving.await.unwrap();
        assert!(window >= 2 * 1200, "a window of {window} bytes");
    }
}
