//! Lines 3 to 6 and 8: every packet has an identity, and every event finds its packet.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use quinn_proto::EcnCodepoint;
use warprate::signal::VerdictKind;
use warprate::units::{Bytes, Rate};

use crate::common::diary::{Diary, Told};
use crate::common::fate::{losing, rough};
use crate::common::pair::{Departure, Pair, ms, setup, us};
use crate::{FULL, fixed, settled};

/// Whether it is a datagram with stream data of the server's download.
fn is_bulk(departure: &Departure) -> bool {
    !departure.from_client && departure.data.len() > 1_000
}

#[test]
fn the_audit_stays_clean_under_loss_and_reordering_both_ways() {
    for seed in 0..6 {
        let mut pair = settled(ms(20), fixed(Rate::mbps(50)), fixed(Rate::mbps(50)));
        let before = [&mut pair.client, &mut pair.server].map(|end| end.core().stats().path.audit);
        pair.fate = rough(seed, ms(20), 0.03, ms(3));
        pair.download(4_000_000);
        pair.upload(4_000_000);
        let is_done = pair.run_until(ms(60_000), |pair| pair.client.is_finished && pair.server.is_finished);
        assert!(is_done, "seed {seed}");
        let after = [&mut pair.client, &mut pair.server].map(|end| end.core().stats().path.audit);
        assert_eq!(before, after, "seed {seed}");
        for audit in after {
            assert_eq!((audit.unknown_acks, audit.inexact_losses), (0, 0), "seed {seed}");
        }
        for end in [&mut pair.client, &mut pair.server] {
            let stats = end.core().stats();
            assert!(stats.path.lost.get() > 0, "seed {seed}: losses were seen");
            assert_eq!(stats.path.lost.get(), stats.proto.path.lost_bytes, "seed {seed}: no loss is missing");
        }
    }
}

#[test]
fn what_the_handshake_leaves_in_the_audit_comes_from_its_forgotten_packets() {
    for seed in 0..20 {
        let mut pair = Pair::new(ms(20), fixed(Rate::mbps(50)), fixed(Rate::mbps(50)));
        pair.fate = rough(seed, ms(20), 0.1, ms(3));
        assert!(
            pair.run_until(ms(20_000), |pair| pair.client.has_connected() && pair.server.has_connected())
        );
        pair.run(ms(2_000));
        for end in [&mut pair.client, &mut pair.server] {
            let audit = end.core().stats().path.audit;
            assert_eq!(audit.unknown_acks, 0, "seed {seed}: {audit:?}");
            assert!(audit.inexact_losses <= audit.forgotten, "seed {seed}: {audit:?}");
            // Initial and Handshake packets and their repetitions.
            assert!(audit.forgotten <= 16, "seed {seed}: {audit:?}");
            assert_eq!(end.core().stats().path.in_flight, Bytes::ZERO, "seed {seed}: nothing is left over");
        }
    }
}

#[test]
fn departures_are_unique_even_within_a_batch() {
    // At 1 Gbit/s a burst is 21 datagrams, planned for one instant.
    let diary = Diary::new(Rate::gbps(1), Bytes::mb(64));
    let mut pair = settled(ms(5), fixed(Rate::mbps(10)), setup(diary.law()));
    diary.clear();
    pair.download(2_000_000);
    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
    let sent = diary.sent();
    assert!(sent.windows(2).all(|pair| pair[0].now < pair[1].now));
    let instants: BTreeSet<Instant> = pair.departures.iter().map(|departure| departure.at).collect();
    assert!(instants.len() * 5 < sent.len(), "the datagrams did leave in bursts");
}

#[test]
fn each_datagram_of_a_batch_is_acknowledged_by_itself() {
    let diary = Diary::new(Rate::gbps(1), Bytes::mb(64));
    let mut pair = settled(ms(5), fixed(Rate::mbps(10)), setup(diary.law()));
    diary.clear();
    pair.download(1_000_000);
    pair.run(ms(1_000));
    let sent = diary.sent();
    assert!(sent.iter().all(|sent| sent.bytes.get() <= FULL));
    let acks = diary.acks();
    let packets: u64 = acks.iter().map(|ack| u64::from(ack.packets)).sum();
    let bytes: Bytes = acks.iter().map(|ack| ack.bytes).sum();
    assert_eq!(packets, sent.len() as u64);
    assert_eq!(bytes, sent.iter().map(|sent| sent.bytes).sum());
    assert_eq!(acks.last().expect("acknowledged").in_flight, Bytes::ZERO);
}

#[test]
fn a_law_is_told_once_per_ack_frame() {
    let diary = Diary::new(Rate::mbps(50), Bytes::mb(64));
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
    let before = pair.server.core().stats().proto.frame_rx.acks;
    diary.clear();
    pair.download(1_000_000);
    pair.run(ms(1_000));
    let frames = pair.server.core().stats().proto.frame_rx.acks - before;
    assert_eq!(diary.acks().len() as u64, frames);
}

#[test]
fn mtu_probes_are_charged_and_their_loss_is_no_congestion() {
    // A path of 1200 bytes: everything larger vanishes.
    let rate = Rate::mbps(2);
    let diary = Diary::new(rate, Bytes::mb(64));
    let mut pair = Pair::new(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
    pair.fate = losing(ms(20), |departure| departure.data.len() > 1_200);
    assert!(pair.run_until(ms(5_000), |pair| pair.client.has_connected() && pair.server.has_connected()));
    // The first probe is out; nothing of the handshake is.
    pair.run(ms(200));
    let forgotten = pair.server.core().stats().path.audit.forgotten;
    pair.download(1_000_000);
    let start = pair.now;
    assert!(pair.run_until(ms(30_000), |pair| pair.client.is_finished));
    let stats = pair.server.core().stats();
    assert_eq!(stats.path.audit.forgotten, forgotten, "a lost probe leaves the books by itself");
    assert!(stats.proto.path.lost_plpmtud_probes >= 3, "{:?}", stats.proto.path);
    assert_eq!((stats.path.lost, stats.path.datagram), (Bytes::ZERO, Bytes::new(1_200)));
    assert_eq!(diary.lost().len(), 0);
    assert_eq!((stats.path.audit.unknown_acks, stats.path.audit.inexact_losses), (0, 0));
    let probes = diary.sent().iter().filter(|sent| sent.bytes.get() > 1_200).count() as u64;
    assert_eq!(probes, stats.proto.path.sent_plpmtud_probes);
    // All that left, probes included, is within the plan and one quantum.
    let sent: u64 = pair
        .departures
        .iter()
        .filter(|departure| !departure.from_client && departure.at > start)
        .map(|departure| departure.data.len() as u64)
        .sum();
    assert!(sent <= (rate * (pair.now - start)).get() + 2 * FULL, "{sent} in {:?}", pair.now - start);
}

#[test]
fn a_found_mtu_is_told_to_the_law_and_fills_the_datagrams() {
    let diary = Diary::new(Rate::mbps(10), Bytes::mb(64));
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
    let told: Vec<u64> = diary
        .pages()
        .iter()
        .filter_map(|page| match page.told {
            Told::Mtu(bytes) => Some(bytes.get()),
            _ => None,
        })
        .collect();
    assert_eq!(told.last(), Some(&FULL));
    assert_eq!(pair.server.core().stats().path.datagram, Bytes::new(FULL));
}

#[test]
fn a_path_whose_mtu_shrinks_delivers_everything() {
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), fixed(Rate::mbps(20)));
    pair.download(2_000_000);
    pair.run(ms(200));
    pair.fate = losing(ms(20), |departure| departure.data.len() > 1_200);
    assert!(pair.run_until(ms(30_000), |pair| pair.client.is_finished));
    let stats = pair.server.core().stats();
    // What is in flight when it is detected is lost later, and counts again.
    assert!(stats.proto.path.black_holes_detected >= 1);
    assert_eq!(stats.path.datagram, Bytes::new(1_200));
    assert_eq!((stats.path.audit.unknown_acks, stats.path.audit.inexact_losses), (0, 0));
}

#[test]
fn the_round_trip_is_ack_arrival_minus_departure_from_the_first_sample_on() {
    let diary = Diary::new(Rate::mbps(50), Bytes::mb(64));
    let mut pair = Pair::connected(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
    pair.download(2_000_000);
    pair.run(ms(2_000));
    let acks = diary.acks();
    let mut newest = None;
    for ack in &acks {
        if newest < Some(ack.newest.sent) {
            newest = Some(ack.newest.sent);
            assert_eq!(ack.rtt.latest, ack.now - ack.newest.sent);
        }
        // 40 ms, and 25 ms at most until the receiver acknowledges; never the guess of 333 ms.
        assert!(ack.rtt.latest <= ms(65) && ack.rtt.smoothed <= ms(65), "{:?}", ack.rtt);
    }
    // Datagrams of a burst are planned a nanosecond apart, and the wire carries them together.
    let rtt = acks.last().expect("acknowledged").rtt;
    assert!(rtt.min <= ms(40) && rtt.min > ms(40) - us(1), "{rtt:?}");
}

#[test]
fn the_lost_set_is_exact() {
    for seed in 0..5_u64 {
        let diary = Diary::new(Rate::mbps(50), Bytes::mb(64));
        let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
        diary.clear();
        // Pseudo-random losses, singly and in runs, by the number of the datagram.
        let dropped = Rc::new(RefCell::new(Vec::new()));
        let (count, note) = (Rc::new(RefCell::new(0_u64)), dropped.clone());
        pair.fate = losing(ms(20), move |departure| {
            if !is_bulk(departure) {
                return false;
            }
            let number = count.replace_with(|count| *count + 1);
            let is_lost = (number / 3 * 2_654_435_761 + seed * 97) % 23 == 0;
            if is_lost {
                note.borrow_mut().push(usize::try_from(number).expect("few"));
            }
            is_lost
        });
        pair.download(3_000_000);
        assert!(pair.run_until(ms(20_000), |pair| pair.client.is_finished), "seed {seed}");
        pair.run(ms(1_000));
        let bulk: Vec<Instant> =
            diary.sent().iter().filter(|sent| sent.bytes.get() > 1_000).map(|sent| sent.now).collect();
        let expected: Vec<Instant> = dropped.borrow().iter().map(|&number| bulk[number]).collect();
        let mut told: Vec<Instant> = diary.lost().iter().map(|packet| packet.sent).collect();
        told.sort();
        assert!(expected.len() > 50);
        assert_eq!(told, expected, "seed {seed}");
    }
}

#[test]
fn a_lost_packet_brings_the_state_at_its_departure() {
    let diary = Diary::new(Rate::mbps(50), Bytes::mb(64));
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
    diary.clear();
    let mut count = 0;
    pair.fate = losing(ms(20), move |departure| {
        count += u64::from(is_bulk(departure));
        is_bulk(departure) && count == 100
    });
    pair.download(1_000_000);
    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
    let lost = diary.lost();
    let [lost] = &lost[..] else { panic!("one packet was dropped, not {}", lost.len()) };
    let sent = diary.sent().into_iter().find(|sent| sent.now == lost.sent).expect("it was sent");
    assert_eq!((lost.bytes, lost.tx_in_flight), (sent.bytes, sent.in_flight));
    assert_eq!(lost.lost, Bytes::ZERO);
}

#[test]
fn a_mark_is_a_verdict_and_no_loss() {
    let diary = Diary::new(Rate::mbps(50), Bytes::mb(64));
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
    diary.clear();
    let marked_from = pair.now;
    pair.fate = Box::new(|departure| {
        let ecn = if is_bulk(departure) { Some(EcnCodepoint::Ce) } else { departure.ecn };
        Some((ms(20), ecn))
    });
    pair.download(500_000);
    pair.run(ms(1_000));
    let (verdicts, acks) = (diary.verdicts(), diary.acks());
    assert!(verdicts.iter().all(|verdict| verdict.kind == VerdictKind::Mark && verdict.bytes == Bytes::ZERO));
    assert_eq!(diary.lost().len(), 0);
    assert_eq!(pair.server.core().stats().path.lost, Bytes::ZERO);
    // Once per ACK frame that reports new marks, whatever their number; every data packet was marked.
    let departures: BTreeSet<Instant> = diary.sent().iter().map(|sent| sent.now).collect();
    assert!(verdicts.len() > 10 && verdicts.len() <= acks.len(), "{} {}", verdicts.len(), acks.len());
    let mut at = verdicts.iter().map(|verdict| verdict.now).collect::<Vec<_>>();
    at.dedup();
    assert_eq!(at.len(), verdicts.len());
    assert!(verdicts.iter().all(|verdict| departures.contains(&verdict.newest)));
    assert!(verdicts.iter().all(|verdict| verdict.newest >= marked_from));
}

#[test]
fn packets_are_ect0_and_stay_so_while_marks_come_back() {
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), fixed(Rate::mbps(50)));
    let mut count = 0;
    pair.fate = Box::new(move |departure| {
        count += u64::from(is_bulk(departure));
        let is_marked = is_bulk(departure) && count % 50 == 0;
        Some((ms(20), if is_marked { Some(EcnCodepoint::Ce) } else { departure.ecn }))
    });
    pair.download(1_000_000);
    pair.run(ms(1_000));
    let bulk: Vec<_> = pair.departures.iter().filter(|departure| is_bulk(departure)).collect();
    assert!(!bulk.is_empty() && bulk.iter().all(|departure| departure.ecn == Some(EcnCodepoint::Ect0)));
}

/// Delays the server's 50th data packet so that it arrives after `by` later ones, which leave at this
/// `spacing`; how many losses the law was told.
fn losses_when_overtaken(spacing: Duration, by: u32) -> usize {
    let diary = Diary::new(Bytes::new(FULL) / spacing, Bytes::mb(64));
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
    diary.clear();
    let mut count = 0;
    pair.fate = Box::new(move |departure| {
        count += u64::from(is_bulk(departure));
        let is_late = is_bulk(departure) && count == 50;
        let extra = if is_late { spacing * by + spacing / 2 } else { Duration::ZERO };
        Some((ms(20) + extra, departure.ecn))
    });
    pair.download(300_000);
    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
    diary.lost().len()
}

#[test]
fn a_packet_overtaken_by_two_is_not_lost() {
    // At the lower rate the tenth packet, which an ACK is due for, comes after the time threshold of
    // 9/8 RTT: the gap itself must be told at once.
    assert_eq!(losses_when_overtaken(us(250), 2), 0);
    assert_eq!(losses_when_overtaken(ms(1), 2), 0);
}

#[test]
fn a_packet_overtaken_by_128_is_lost() {
    // 150 packets take 3.8 ms, the time threshold allows 5 ms.
    assert_eq!(losses_when_overtaken(us(25), 115), 0);
    assert_eq!(losses_when_overtaken(us(25), 150), 1);
}

#[test]
fn a_packet_overtaken_for_an_eighth_of_a_round_trip_is_lost() {
    assert_eq!(losses_when_overtaken(us(250), 14), 0);
    assert_eq!(losses_when_overtaken(us(250), 24), 1);
}
