//! ACK frames that lie: a peer that wants to be served faster than its path allows, or to be remembered.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use quinn_proto::TransportErrorCode;
use warprate::conn::Law;
use warprate::units::{Bytes, Rate};

use crate::common::pair::{Pair, ms, us};
use crate::established::{bare_pair, forge, payload, verdict};

fn laws() -> [Law; 5] {
    let fixed = Law::fixed(Rate::mbps(100), Bytes::mb(4));
    [Law::warprate(1), Law::cubic(), Law::bbr3(1), Law::new_reno(), fixed]
}

/// An ACK frame of the `count` packets up to `largest` (RFC 9000 §19.3).
fn ack(largest: u64, count: u64) -> Vec<u8> {
    payload(&[(0x02, vec![largest, 0, 0, count - 1], vec![])])
}

/// The numbers of the packets that the server has sent since the log was cleared.
fn sent(pair: &Pair) -> Vec<u64> {
    let from_server = pair.departures.iter().filter(|departure| !departure.from_client);
    from_server.map(|departure| number(&departure.data)).collect()
}

/// The packet number of a 1-RTT packet, as far as it is written out: these are low enough to be whole.
fn number(datagram: &[u8]) -> u64 {
    let len = usize::from(datagram[0] & 3) + 1;
    datagram[9..9 + len].iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Lets the client send a packet that says that.
fn claim(pair: &mut Pair, forged: &RefCell<VecDeque<Vec<u8>>>, payload: Vec<u8>) {
    forged.borrow_mut().push_back(payload);
    pair.client.core().inner().ping();
}

#[test]
fn whoever_acknowledges_what_was_never_sent_loses_its_connection() {
    for law in laws() {
        let mut pair = bare_pair(law);
        let forged = forge(&mut pair);
        pair.download(20_000);
        pair.run(ms(100));
        let newest = *sent(&pair).last().expect("data has left");
        claim(&mut pair, &forged, ack(newest + 1000, 1));
        pair.run(ms(20));
        // RFC 9000 §13.1.
        assert_eq!(verdict(&pair), Some(TransportErrorCode::PROTOCOL_VIOLATION));
    }
}

/// The numbers that nobody sends tell (RFC 9000 §21.4): one among the first 64, one among the next 64, one
/// among the next 128, and so on.
#[test]
fn whoever_acknowledges_before_it_has_received_loses_its_connection() {
    for law in laws() {
        let mut pair = bare_pair(law);
        let forged: Rc<RefCell<VecDeque<_>>> = forge(&mut pair);
        pair.download(2_000_000);
        for _ in 0..2000 {
            if let Some(&newest) = sent(&pair).last() {
                claim(&mut pair, &forged, ack(newest, (newest + 1).min(64)));
            }
            pair.run(ms(1));
            if verdict(&pair).is_some() {
                break;
            }
        }
        assert_eq!(verdict(&pair), Some(TransportErrorCode::PROTOCOL_VIOLATION));
        assert!(*sent(&pair).last().expect("data has left") < 1024);
    }
}

/// 500 ACK frames of 64 ranges each, all in one instant, about packets that arrived long ago.
#[test]
fn acknowledgements_without_end_are_not_kept() {
    let mut pair = bare_pair(Law::warprate(1));
    pair.download(1_000_000);
    pair.run(ms(5_000));
    assert!(pair.client.is_finished);
    let sent = sent(&pair);
    let largest = *sent.last().expect("data has left");
    // Every other number, except around one that nobody sent.
    let lowest = (0..=largest).rev().find(|number| !sent.contains(number)).expect("one is left out") + 2;
    let ranges = ((largest - lowest) / 2).min(63);
    let mut fields = vec![largest, 0, ranges, 0];
    fields.extend((0..ranges).flat_map(|_| [0, 0]));
    let frame = payload(&[(0x02, fields, vec![])]);
    let forged = forge(&mut pair);
    let arrival = pair.now + ms(100);
    pair.fate = Box::new(move |departure| departure.from_client.then(|| (arrival - departure.at, None)));
    for _ in 0..500 {
        claim(&mut pair, &forged, frame.clone());
        pair.run(us(100));
    }
    pair.departures = Vec::with_capacity(100);
    let counted = allocation_counter::measure(|| {
        pair.run(ms(51));
        pair.departures = Vec::with_capacity(100);
    });
    assert_eq!(verdict(&pair), None);
    let acks = pair.server.core().stats().proto.frame_rx.acks;
    assert!(acks >= 500, "{acks}");
    assert!(ranges > 20, "{ranges}");
    assert!(counted.bytes_current < 64 << 10, "{counted:?}");
}
