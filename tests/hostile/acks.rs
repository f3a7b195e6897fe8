//! ACK frames that lie: a peer that wants to be served faster than its path allows, or to confuse.

use quinn_proto::TransportErrorCode;
use warprate::conn::Law;

use crate::common::pair::{Pair, ms};
use crate::established::{bare_pair, forge, payload, verdict};

/// An ACK frame of the `count` packets up to `largest` (RFC 9000 §19.3).
fn ack(largest: u64, count: u64) -> Vec<u8> {
    payload(&[(0x02, vec![largest, 0, 0, count - 1], vec![])])
}

/// The numbers of the packets that the server has sent since the log was cleared.
fn sent(pair: &Pair) -> Vec<u64> {
    let from_server = pair.departures.iter().filter(|departure| !departure.from_client);
    from_server.map(|departure| number(&departure.data)).collect()
}

/// The packet number of a 1-RTT packet, as far as it is written out: low enough here to be all of it.
fn number(datagram: &[u8]) -> u64 {
    let len = usize::from(datagram[0] & 3) + 1;
    datagram[9..9 + len].iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Lets the client say that in its next packet.
fn claim(pair: &mut Pair, payload: Vec<u8>) {
    let forged = forge(pair);
    forged.borrow_mut().push_back(payload);
    pair.client.core().inner().ping();
    pair.run(ms(20));
}

#[test]
fn whoever_acknowledges_what_was_never_sent_loses_its_connection() {
    for law in [Law::default(), Law::cubic(), Law::bbr3(1), Law::new_reno()] {
        let mut pair = bare_pair(law);
        pair.download(20_000);
        pair.run(ms(100));
        let newest = *sent(&pair).last().expect("data has left");
        claim(&mut pair, ack(newest + 1000, 1));
        // RFC 9000 §13.1.
        assert_eq!(verdict(&pair), Some(TransportErrorCode::PROTOCOL_VIOLATION));
    }
}
