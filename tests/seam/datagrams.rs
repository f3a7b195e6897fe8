//! Datagrams of the application pass the same gate as streams.

use bytes::Bytes as Data;
use warprate::units::{Bytes, Rate};

use crate::common::pair::{Pair, ms, setup};
use crate::{FULL, fixed, settled};
use warprate::conn::Law;

/// The server queues `count` datagrams of 1000 bytes, each of which holds its number.
fn queue(pair: &mut Pair, count: u8) {
    for i in 0..count {
        let data = Data::from(vec![i; 1_000]);
        pair.server.core().inner().datagrams().send(data, false).expect("there is room");
    }
}

#[test]
fn datagrams_keep_to_the_plan() {
    let rate = Rate::mbps(4);
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(Law::fixed(rate, Bytes::mb(64))));
    queue(&mut pair, 200);
    let start = pair.now;
    pair.run(ms(1_000));
    let mut sent = 0;
    for departure in pair.departures.iter().filter(|departure| !departure.from_client) {
        sent += departure.data.len() as u64;
        let planned = (rate * (departure.at - start)).get();
        assert!(sent <= planned + 2 * FULL, "{sent} bytes after {:?}", departure.at - start);
    }
    // 200 kB and their headers take 0.42 s at that rate.
    let mut received = Vec::new();
    while let Some(data) = pair.client.core().inner().datagrams().recv() {
        received.push(data[0]);
    }
    assert_eq!(received, (0..200).collect::<Vec<u8>>());
    assert_eq!(pair.server.core().stats().path.in_flight, Bytes::ZERO);
}

#[test]
fn a_full_window_holds_datagrams_back_and_lost_ones_are_not_repeated() {
    let mut pair =
        settled(ms(20), fixed(Rate::mbps(10)), setup(Law::fixed(Rate::mbps(100), Bytes::new(10 * FULL))));
    queue(&mut pair, 100);
    let mut count = 0;
    pair.fate = crate::common::fate::losing(ms(20), move |departure| {
        count += usize::from(!departure.from_client);
        !departure.from_client && count == 5
    });
    pair.run(ms(10));
    let in_flight = pair.server.core().stats().path.in_flight;
    assert!(in_flight > Bytes::new(8 * FULL) && in_flight <= Bytes::new(10 * FULL), "{in_flight}");
    pair.run(ms(3_000));
    let mut received = 0;
    while pair.client.core().inner().datagrams().recv().is_some() {
        received += 1;
    }
    assert_eq!(received, 99);
}
