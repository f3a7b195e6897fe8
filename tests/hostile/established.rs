//! A peer that knows the keys of a connection, and says whatever it likes.
//!
//! The connection runs under the simulator's null cipher, whose tag does not bind the payload: so packets of
//! the peer can be given another on their way.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use quinn_proto::coding::Codec;
use quinn_proto::{TransportErrorCode, VarInt};
use warprate::conn::Law;

use super::null_crypto::{NullClient, NullServer};
use crate::common::pair::{Pair, ms, setup};
use crate::common::tls_made_once;

/// A frame: its type, its fields, and bytes that follow them as they are.
pub type Frame = (u8, Vec<u64>, Vec<u8>);

/// RFC 9000 §16.
fn varint(into: &mut Vec<u8>, value: u64) {
    VarInt::from_u64(value.min(VarInt::MAX.into_inner())).expect("clamped").encode(into);
}

/// Frames as they stand in a packet.
pub fn payload(frames: &[Frame]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (kind, fields, tail) in frames {
        varint(&mut payload, (*kind).into());
        fields.iter().for_each(|field| varint(&mut payload, *field));
        payload.extend(tail);
    }
    payload
}

/// What a sequence of bytes says in packets: each begins with its length.
pub fn payloads(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut payloads = vec![];
    while let Some((len, rest)) = bytes.split_first() {
        let (payload, rest) = rest.split_at(rest.len().min((*len).into()));
        payloads.push(payload.to_vec());
        bytes = rest;
    }
    payloads
}

/// A pair whose packets are not encrypted, with the handshake over.
pub fn bare_pair(server: Law) -> Pair {
    let (mut config, mut handshake) = tls_made_once().clone();
    config.crypto = Arc::new(NullServer(config.crypto));
    handshake.crypto = Arc::new(NullClient(handshake.crypto));
    let mut pair = Pair::connected_with(&(config, handshake), ms(5), setup(Law::warprate(1)), setup(server));
    pair.run(ms(200));
    pair.departures.clear();
    pair.client.is_forged = true;
    pair.server.is_forged = true;
    pair
}

/// From now on the packets of the client say what `payloads` do, one after the other, and then what they did.
pub fn forge(pair: &mut Pair) -> Rc<RefCell<VecDeque<Vec<u8>>>> {
    let payloads: Rc<RefCell<VecDeque<Vec<u8>>>> = Rc::default();
    let left = payloads.clone();
    pair.mischief = Box::new(move |departure| {
        if departure.from_client
            && let Some(payload) = left.borrow_mut().pop_front()
        {
            say(&mut departure.data, &payload);
        }
        None
    });
    payloads
}

/// Puts `payload` in the place of what a 1-RTT packet says.
fn say(datagram: &mut Vec<u8>, payload: &[u8]) {
    assert!(datagram[0] & 0x80 == 0, "the handshake is over");
    let number_len = usize::from(datagram[0] & 3) + 1;
    let header_len = 1 + CID_LEN + number_len;
    let tag = datagram.split_off(datagram.len() - TAG_LEN);
    datagram.truncate(header_len);
    datagram.extend(&payload[..payload.len().min(LONGEST)]);
    datagram.extend(tag);
}

/// As long as quinn-proto's endpoints make them unless told otherwise.
const CID_LEN: usize = 8;

/// The null cipher's.
const TAG_LEN: usize = 16;

/// A longer one does not fit a datagram.
const LONGEST: usize = 1_400;

/// Lets the client say all that, one packet after the other, to a server which sends it 50 KB.
///
/// The connection ends with an error, or goes on; in the end it is idle and over.
pub fn meet(payloads: &[Vec<u8>]) {
    let mut pair = bare_pair(Law::warprate(1));
    let forged = forge(&mut pair);
    pair.download(50_000);
    for payload in payloads {
        forged.borrow_mut().push_back(payload.clone());
        pair.client.core().inner().ping();
        pair.run(ms(2));
    }
    pair.run(ms(100_000));
    let stats = pair.server.core().stats();
    assert!(pair.server.lost().is_some(), "an idle connection ends: {:#?}", stats.path);
}

/// The code with which the server ends the connection, if it has.
pub fn verdict(pair: &Pair) -> Option<TransportErrorCode> {
    match pair.server.lost()? {
        quinn_proto::ConnectionError::TransportError(error) => Some(error.code),
        _ => None,
    }
}
