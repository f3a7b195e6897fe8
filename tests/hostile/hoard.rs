//! A peer that wants us to keep much of what costs it little.

use quinn_proto::TransportErrorCode;
use warprate::conn::Law;

use crate::common::pair::{Pair, ms};
use crate::established::{Packet, bare_pair, forge, payload, verdict};

/// STREAM frames (RFC 9000 §19.8) of one byte each on one stream, with a gap after each.
fn gaps(stream: u64, range: std::ops::Range<u64>) -> Packet {
    range.map(|byte| (0x0e, vec![stream, 2 * byte, 1], vec![0])).collect()
}

/// Lets the client send packets of these frames, 150 in each.
fn say(pair: &mut Pair, frames: &Packet) {
    let forged = forge(pair);
    for packet in frames.chunks(150) {
        forged.borrow_mut().push_back(payload(packet));
        pair.client.core().inner().ping();
        pair.run(ms(1));
    }
    pair.run(ms(20));
}

/// Of an application that reads nothing: what waits costs what is stated at `TransportConfig`, however small the
/// pieces are.
#[test]
fn a_gap_after_every_byte_costs_no_more_than_stated() {
    let mut pair = bare_pair(Law::warprate(1));
    pair.pause(false, true);
    let counted = allocation_counter::measure(|| {
        for stream in (0..100).map(|n| 4 * n + 2) {
            say(&mut pair, &gaps(stream, 0..1000));
        }
        pair.departures = vec![];
    });
    assert_eq!(verdict(&pair), None);
    assert_eq!(pair.server.core().stats().proto.frame_rx.stream, 100_000);
    let each = counted.bytes_current / 100;
    println!("{each} bytes for each stream of gaps");
    assert!(each <= PER_STREAM_OF_GAPS, "{each}");
}

#[test]
fn a_stream_of_too_many_gaps_ends_the_connection() {
    let mut pair = bare_pair(Law::warprate(1));
    pair.pause(false, true);
    say(&mut pair, &gaps(2, 0..3000));
    assert_eq!(verdict(&pair), Some(TransportErrorCode::INTERNAL_ERROR));
}

/// 2000 PATH_CHALLENGE frames (§19.17), of which a packet's last needs an answer, and as many PINGs.
#[test]
fn questions_without_end_are_not_kept() {
    let mut pair = bare_pair(Law::warprate(1));
    let before = pair.server.core().stats().proto.udp_tx.datagrams;
    let counted = allocation_counter::measure(|| {
        for _ in 0..100 {
            let challenges = (0..20).map(|n| (0x1a, vec![], vec![n; 8]));
            say(&mut pair, &challenges.chain((0..20).map(|_| (0x01, vec![], vec![]))).collect());
        }
        pair.departures = vec![];
    });
    assert_eq!(verdict(&pair), None);
    let sent = pair.server.core().stats().proto.udp_tx.datagrams - before;
    assert!(sent <= 400, "{sent} datagrams in answer to 100");
    assert!(counted.bytes_current < 64 << 10, "{counted:?}");
}

/// Stated at [`warprate::TransportConfig`].
const PER_STREAM_OF_GAPS: i64 = 256 << 10;
