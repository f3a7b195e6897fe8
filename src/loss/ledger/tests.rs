//! Departures and fates whose books are known.
#![cfg(test)]

use super::*;
use crate::test_clock::{ms, t0, us};
use crate::units::Rate;

const PACKET: Bytes = Bytes::new(1000);

/// A ledger that has sent `n` packets, one per millisecond from `t0` on.
fn after_sending(n: u64) -> Ledger {
    let mut ledger = Ledger::new(t0());
    for i in 0..n {
        ledger.on_sent(t0() + ms(i), PACKET, Purpose::Data, None);
    }
    ledger
}

#[test]
fn a_steady_flow_is_sampled_at_its_rate() {
    // 20 packets of 1000 B, 1 ms apart, each acknowledged 10 ms later: 1 MB/s.
    let mut ledger = after_sending(20);
    let mut last = None;
    for i in 0..20 {
        ledger.on_acked(t0() + ms(i), PACKET);
        last = ledger.on_ack_end(t0() + ms(i + 10), PACKET.times(19 - i));
    }
    let ack = last.expect("a known packet was acknowledged");
    assert_eq!(ack.rtt.latest, ms(10));
    assert_eq!(ack.rtt.min, ms(10));
    assert_eq!(ack.delivered, Bytes::new(20_000));
    // The last packet left when nothing was delivered; sent over 19 ms, acknowledged over 29 ms.
    assert_eq!(ack.sample.expect("longer than the least RTT").rate, Bytes::new(20_000) / ms(29));
    assert_eq!(ledger.audit(), Audit::default());
}

#[test]
fn compressed_acks_do_not_inflate_the_rate() {
    // Sent over 9 ms, all acknowledged at the same instant: the send side bounds the rate.
    let mut ledger = after_sending(10);
    for i in 0..10 {
        ledger.on_acked(t0() + ms(i), PACKET);
    }
    let ack = ledger.on_ack_end(t0() + ms(9) + us(100), Bytes::ZERO).expect("acknowledged");
    let sample = ack.sample.expect("longer than the least RTT");
    assert_eq!(sample.interval, ms(9) + us(100));
    assert!(sample.rate < Rate::bytes_per_sec(1_111_112));
    assert_eq!((ack.packets, ack.bytes), (10, Bytes::new(10_000)));
}

#[test]
fn rounds_count_round_trips() {
    let mut ledger = after_sending(2);
    ledger.on_acked(t0(), PACKET);
    let first = ledger.on_ack_end(t0() + ms(10), PACKET).expect("acknowledged");
    assert!(first.round_start);
    // The second packet left before the round began: it cannot end it.
    ledger.on_acked(t0() + ms(1), PACKET);
    let second = ledger.on_ack_end(t0() + ms(11), Bytes::ZERO).expect("acknowledged");
    assert!(!second.round_start);
    ledger.on_sent(t0() + ms(12), PACKET, Purpose::Data, None);
    ledger.on_acked(t0() + ms(12), PACKET);
    let third = ledger.on_ack_end(t0() + ms(22), Bytes::ZERO).expect("acknowledged");
    assert_eq!((third.round, third.round_start), (2, true));
}

#[test]
fn a_loss_is_every_outstanding_packet_up_to_the_newest_lost_one() {
    let mut ledger = after_sending(6);
    ledger.on_acked(t0() + ms(1), PACKET);
    ledger.on_acked(t0() + ms(5), PACKET);
    ledger.on_ack_end(t0() + ms(15), PACKET.times(4));
    let loss = ledger.on_lost(t0() + ms(15), t0() + ms(2), PACKET.times(2), false);
    let sent: Vec<_> = loss.packets.iter().map(|packet| packet.sent).collect();
    assert_eq!(sent, [t0(), t0() + ms(2)]);
    assert_eq!((loss.bytes, loss.in_flight), (PACKET.times(2), PACKET.times(2)));
    assert_eq!(ledger.audit(), Audit::default());
}

#[test]
fn a_loss_that_does_not_add_up_is_counted() {
    let mut ledger = after_sending(1);
    ledger.on_lost(t0() + ms(9), t0(), Bytes::new(1500), false);
    assert_eq!(ledger.audit().inexact_losses, 1);
    assert_eq!(ledger.in_flight(), Bytes::ZERO);
}

#[test]
fn a_datagram_of_two_packets_is_lost_in_parts() {
    let mut ledger = after_sending(1);
    ledger.on_lost(t0() + ms(9), t0(), Bytes::new(400), false);
    assert_eq!((ledger.in_flight(), ledger.lost()), (Bytes::new(600), Bytes::new(400)));
    ledger.on_acked(t0(), Bytes::new(600));
    assert_eq!((ledger.delivered(), ledger.audit()), (Bytes::new(600), Audit::default()));
}

#[test]
fn a_lost_packet_that_arrives_is_taken_back_once_as_it_was_sent() {
    let mut ledger = Ledger::new(t0());
    for i in 0..3 {
        ledger.on_sent(t0() + ms(i), PACKET, Purpose::Data, Some(PacketNumber(i)));
    }
    let lost = ledger.on_lost(t0() + ms(9), t0() + ms(1), PACKET.times(2), false).packets.to_vec();
    // The range names a packet that is outstanding, too.
    let mut late = || ledger.take_late(t0() + ms(10), PacketNumber(1), PacketNumber(2));
    assert_eq!((late(), late()), (Some(lost[1]), None));
    assert_eq!((ledger.lost(), ledger.spurious(), ledger.in_flight()), (PACKET.times(2), PACKET, PACKET));
}

#[test]
fn a_lost_mtu_probe_is_no_loss() {
    let mut ledger = after_sending(1);
    ledger.on_sent(t0() + ms(1), Bytes::new(1452), Purpose::MtuProbe, None);
    assert_eq!(ledger.in_flight(), Bytes::new(2452));
    ledger.on_probe_lost();
    assert_eq!((ledger.in_flight(), ledger.lost()), (PACKET, Bytes::ZERO));
}

#[test]
fn the_probe_of_an_abandoned_search_is_lost_with_other_packets() {
    let mut ledger = after_sending(1);
    ledger.on_sent(t0() + ms(1), Bytes::new(1452), Purpose::MtuProbe, None);
    ledger.on_sent(t0() + ms(2), PACKET, Purpose::Data, None);
    let loss = ledger.on_lost(t0() + ms(9), t0() + ms(2), Bytes::new(3452), false);
    assert_eq!((loss.packets.len(), loss.bytes, loss.in_flight), (2, PACKET.times(2), Bytes::ZERO));
    assert_eq!(ledger.audit(), Audit::default());
}

#[test]
fn acknowledgements_alone_are_not_in_flight() {
    let mut ledger = after_sending(0);
    assert!(ledger.on_sent(t0(), Bytes::new(40), Purpose::AckOnly, None).is_none());
    assert_eq!(ledger.in_flight(), Bytes::ZERO);
}

#[test]
fn a_datagram_of_two_packets_is_acknowledged_in_parts() {
    let mut ledger = after_sending(1);
    ledger.on_acked(t0(), Bytes::new(400));
    ledger.on_ack_end(t0() + ms(10), Bytes::new(600));
    ledger.on_acked(t0(), Bytes::new(600));
    let ack = ledger.on_ack_end(t0() + ms(11), Bytes::ZERO).expect("acknowledged");
    assert_eq!(ack.delivered, PACKET);
    assert_eq!(ledger.audit(), Audit::default());
}

#[test]
fn discarded_handshake_packets_leave_the_books() {
    let mut ledger = after_sending(3);
    ledger.on_acked(t0() + ms(2), PACKET);
    assert!(ledger.on_ack_end(t0() + ms(12), Bytes::ZERO).is_some());
    assert_eq!((ledger.in_flight(), ledger.audit().forgotten), (Bytes::ZERO, 2));
}

#[test]
fn packets_of_another_path_are_unknown() {
    let mut ledger = after_sending(1);
    ledger.on_acked(t0() + us(1), PACKET);
    assert!(ledger.on_ack_end(t0() + ms(10), PACKET).is_none());
    assert_eq!(ledger.audit().unknown_acks, 1);
}

#[test]
fn the_app_limited_mark_lasts_until_what_was_in_flight_is_delivered() {
    let mut ledger = after_sending(1);
    ledger.mark_app_limited();
    ledger.on_sent(t0() + ms(1), PACKET, Purpose::Data, None);
    ledger.on_acked(t0(), PACKET);
    ledger.on_ack_end(t0() + ms(10), PACKET);
    ledger.on_acked(t0() + ms(1), PACKET);
    let ack = ledger.on_ack_end(t0() + ms(11), Bytes::ZERO).expect("acknowledged");
    assert!(ack.newest.app_limited);
    assert!(ack.sample.expect("long enough").app_limited);
    ledger.on_sent(t0() + ms(12), PACKET, Purpose::Data, None);
    ledger.on_acked(t0() + ms(12), PACKET);
    let ack = ledger.on_ack_end(t0() + ms(22), Bytes::ZERO).expect("acknowledged");
    assert!(!ack.newest.app_limited);
}

#[test]
fn datagrams_of_one_instant_share_a_record() {
    let mut ledger = after_sending(0);
    for _ in 0..3 {
        ledger.on_sent(t0(), PACKET, Purpose::Data, None);
    }
    ledger.on_acked(t0(), PACKET);
    ledger.on_acked(t0(), PACKET);
    let ack = ledger.on_ack_end(t0() + ms(10), PACKET).expect("acknowledged");
    // Two packets in 10 ms; the third is still out, and is the one that is lost.
    assert_eq!(ack.sample.expect("a round trip long").rate, PACKET.times(2) / ms(10));
    let loss = ledger.on_lost(t0() + ms(12), t0(), PACKET, false);
    assert_eq!((loss.bytes, loss.in_flight), (PACKET, Bytes::ZERO));
    assert_eq!(ledger.audit(), Audit::default());
}

#[test]
fn a_reordered_ack_gives_no_rtt_sample() {
    let mut ledger = after_sending(2);
    ledger.on_acked(t0() + ms(1), PACKET);
    ledger.on_ack_end(t0() + ms(11), PACKET);
    ledger.on_acked(t0(), PACKET);
    let ack = ledger.on_ack_end(t0() + ms(50), Bytes::ZERO).expect("acknowledged");
    assert_eq!((ack.rtt.latest, ack.rtt.min), (ms(10), ms(10)));
}

#[test]
fn a_copied_packet_counts_as_delivered_and_gives_no_sample() {
    let mut ledger = after_sending(3);
    ledger.on_acked(t0(), PACKET);
    ledger.on_ack_end(t0() + ms(40), PACKET.times(2)).expect("acknowledged");
    let before = (ledger.rtt(), ledger.delay());
    ledger.on_copied(t0() + ms(2));
    ledger.on_acked(t0() + ms(2), PACKET);
    assert!(ledger.on_ack_end(t0() + ms(70), PACKET).is_none(), "which of the two arrived is unknown");
    assert_eq!((ledger.rtt(), ledger.delay()), before);
    assert_eq!((ledger.delivered(), ledger.in_flight()), (PACKET.times(2), PACKET));
    ledger.on_acked(t0() + ms(1), PACKET);
    let ack = ledger.on_ack_end(t0() + ms(71), Bytes::ZERO).expect("acknowledged");
    // Two packets of two frames; the newest of those that left once.
    assert_eq!((ack.packets, ack.bytes, ack.newest.sent), (2, PACKET.times(2), t0() + ms(1)));
    assert_eq!(ledger.audit(), Audit::default());
}

#[test]
fn a_lost_packet_whose_copy_arrives_is_none_the_less_lost() {
    let mut ledger = Ledger::new(t0());
    for i in 0..2 {
        ledger.on_sent(t0() + ms(i), PACKET, Purpose::Data, Some(PacketNumber(i)));
    }
    ledger.on_copied(t0());
    ledger.on_lost(t0() + ms(9), t0() + ms(1), PACKET.times(2), false);
    let late = ledger.take_late(t0() + ms(10), PacketNumber(0), PacketNumber(1)).map(|packet| packet.sent);
    assert_eq!(late, Some(t0() + ms(1)));
    assert_eq!(ledger.take_late(t0() + ms(10), PacketNumber(0), PacketNumber(1)), None);
}
