//! Arrivals in batches at a QUIC receiver.
#![allow(clippy::disallowed_methods, reason = "virtual time needs an origin")]

mod common;

use std::time::Duration;

use common::{Pair, ms};
use warplink::{PathProfile, Time};
use warprate::conn::core::Setup;
use warprate::conn::{Law, TransportConfig};
use warpsim::host::Batched;
use warpsim::host::quic::{Protection, QuicHost, QuicOptions, Role, Side};
use warpunits::{Bytes, Rate};

/// Datagrams from server and client for 10 MB at 400 Mbit/s, and when the client had all.
fn download(batch: Option<Duration>) -> (u64, u64, Time) {
    let path = PathProfile::symmetric(Rate::mbps(500), ms(20)).expect("a path");
    let mut pair = Pair::new(&path, 1, |way| {
        let mut transport = TransportConfig::default();
        transport.initial_mtu(1452);
        let law = Law::fixed(Rate::mbps(400), Bytes::mb(4));
        let setup = Setup { law, anchor: Rate::gbps(10), transport };
        let options = |route, seed| QuicOptions {
            setup: setup.clone(),
            protection: Protection::Null,
            seed,
            route,
            origin: way.origin,
            start: Time::START,
        };
        let client = QuicHost::new(Role::Receive, Side::Client, options(way.to_server, 1));
        let server = QuicHost::new(Role::Send(Some(Bytes::mb(10))), Side::Server, options(way.to_client, 2));
        let client: Box<dyn warpsim::host::Host> = match batch {
            Some(batch) => Box::new(Batched::new(client, batch)),
            None => Box::new(client),
        };
        (client, Box::new(server))
    });
    pair.run(Duration::from_secs(60));
    let finished = pair.progress(pair.client).finished.expect("it finishes");
    let acks = pair.port(pair.reverse).offered;
    (pair.stats(pair.server).datagrams_sent, acks, finished)
}

#[test]
fn a_batch_is_acknowledged_once() {
    let (packets, acks, _) = download(None);
    assert!(acks > packets / 15, "{packets} packets, {acks} datagrams back");
    let (packets, acks, finished) = download(Some(ms(4)));
    // 4 ms at 400 Mbit/s are 138 packets.
    assert!(acks < packets / 80, "{packets} packets, {acks} datagrams back");
    assert_eq!(finished.since_start().as_nanos() % ms(4).as_nanos(), 0);
}
