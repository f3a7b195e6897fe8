//! A peer that wants us to keep much of what costs it little.

use quinn_proto::{ConnectionError, TransportErrorCode};
use warprate::conn::Law;
use warprate::units::{Bytes, Rate};

use crate::common::fate::losing;
use crate::common::pair::{Pair, ms, setup};
use crate::established::{Frame, bare_pair, forge, payload, verdict};

/// STREAM frames (RFC 9000 §19.8) of one byte each on one stream, with a gap after each.
fn gaps(stream: u64, range: std::ops::Range<u64>) -> Vec<Frame> {
    range.map(|byte| (0x0e, vec![stream, 2 * byte, 1], vec![0])).collect()
}

/// Lets the client send packets of these frames, 150 in each.
fn say(pair: &mut Pair, frames: &[Frame]) {
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

/// A hundred bytes in a packet of 1200: three thousand times, unread.
#[test]
fn what_waits_to_be_read_costs_two_and_a_half_times_its_size_at_most() {
    let mut pair = bare_pair(Law::warprate(1));
    pair.pause(false, true);
    let forged = forge(&mut pair);
    let counted = allocation_counter::measure(|| {
        for piece in 0..3000 {
            // PADDING, then a STREAM frame.
            let frame = payload(&[(0x0e, vec![2, 100 * piece, 100], vec![0; 100])]);
            forged.borrow_mut().push_back([vec![0; 1200 - frame.len()], frame].concat());
            pair.client.core().inner().ping();
            pair.run(ms(1));
        }
        pair.run(ms(20));
        pair.departures = vec![];
    });
    assert_eq!(verdict(&pair), None);
    println!("{} bytes for 300,000", counted.bytes_current);
    assert!(counted.bytes_current <= 750_000 + PER_STREAM_OF_GAPS, "{counted:?}");
}

/// 20 MB in flight to a peer that has vanished.
#[test]
fn what_is_in_flight_costs_what_is_stated() {
    let law = setup(Law::fixed(Rate::gbps(1), Bytes::mb(20)));
    let mut pair = Pair::connected(ms(5), law.clone(), law);
    pair.run(ms(1_000));
    pair.download(20_000_000);
    pair.fate = losing(ms(5), |_| true);
    let counted = allocation_counter::measure(|| {
        pair.run(ms(300));
        pair.departures = vec![];
    });
    let in_flight = pair.server.core().stats().path.in_flight;
    let packets = in_flight.get() as i64 / 1452;
    assert!(packets > 10_000, "{packets}");
    println!("{} bytes for {packets} packets", counted.bytes_current);
    assert!(counted.bytes_current <= packets * PER_PACKET, "{counted:?}");
}

/// The application reads what comes, in no order.
#[test]
fn gaps_in_a_stream_that_is_read_unordered_cost_what_is_stated() {
    let mut pair = bare_pair(Law::warprate(1));
    let counted = allocation_counter::measure(|| {
        say(&mut pair, &gaps(2, 0..100_000));
        pair.departures = vec![];
    });
    assert_eq!((verdict(&pair), pair.server.received), (None, 100_000));
    // Stated at `RecvStream::read_chunk`.
    println!("{} bytes for each gap", counted.bytes_current / 100_000);
    assert!(counted.bytes_current <= 100_000 * 64, "{counted:?}");
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
            let pings = (0..20).map(|_| (0x01, vec![], vec![]));
            say(&mut pair, &challenges.chain(pings).collect::<Vec<_>>());
        }
        pair.departures = vec![];
    });
    assert_eq!(verdict(&pair), None);
    let sent = pair.server.core().stats().proto.udp_tx.datagrams - before;
    assert!(sent <= 400, "{sent} datagrams in answer to 100");
    assert!(counted.bytes_current < 64 << 10, "{counted:?}");
}

/// A client that hears nothing, and knocks again and again for longer than anyone is silent.
#[test]
fn a_handshake_without_end_is_given_up() {
    let mut patient = setup(Law::cubic());
    patient.transport.max_idle_timeout(None);
    let mut pair = Pair::new(ms(5), patient.clone(), patient);
    pair.fate = losing(ms(5), |departure| !departure.from_client);
    let begun = pair.now + ms(5);
    assert!(pair.run_until(ms(60_000), |pair| pair.server.lost().is_some()));
    assert_eq!(pair.server.lost(), Some(&ConnectionError::TimedOut));
    assert_eq!(pair.now - begun, ms(30_000));
}

/// Stated at [`warprate::TransportConfig`].
const PER_STREAM_OF_GAPS: i64 = 512 << 10;
const PER_PACKET: i64 = 1 << 10;
