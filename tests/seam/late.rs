//! Line 7: what the tap on the TLS session sees: lost packets that arrive after all, and the count of marks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quinn_proto::EcnCodepoint;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use warprate::cc::{Cubic, PathStart, RateLaw};
use warprate::conn::Law;
use warprate::signal::{Ack, Loss, Plan, Sent, Undo};
use warprate::units::{Bytes, Gain, Rate};

use crate::common::diary::{Diary, Told};
use crate::common::fate::rough;
use crate::common::pair::{Departure, Fate, Pair, ms, setup, us};
use crate::{FULL, fixed, settled, unordered};

/// Whether it is a datagram with stream data of the server's download.
fn is_bulk(departure: &Departure) -> bool {
    !departure.from_client && departure.data.len() > 1_000
}

/// Delivers after 20 ms, and the `which`-th data packet so much later.
fn delaying(which: u64, extra: Duration) -> Fate {
    let mut count = 0;
    Box::new(move |departure| {
        count += u64::from(is_bulk(departure));
        let is_late = is_bulk(departure) && count == which;
        Some((ms(20) + if is_late { extra } else { Duration::ZERO }, departure.ecn))
    })
}

#[test]
fn a_packet_that_was_only_overtaken_is_undone_once_and_as_it_was_sent() {
    let diary = Diary::new(Bytes::new(FULL) / us(250), Bytes::mb(64));
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
    diary.clear();
    // 24 others overtake it.
    pair.fate = delaying(50, us(250) * 24);
    pair.download(1_000_000);
    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
    pair.run(ms(1_000));
    let fiftieth = diary.sent().into_iter().filter(|sent| sent.bytes.get() > 1_000).nth(49).expect("sent");
    let lost = diary.lost();
    assert_eq!(lost.iter().map(|packet| packet.sent).collect::<Vec<_>>(), [fiftieth.now]);
    assert_eq!(diary.undone(), lost);
    let path = pair.server.core().stats().path;
    assert_eq!((path.lost, path.spurious), (fiftieth.bytes, fiftieth.bytes));
}

/// What became of a download of 3 MB: the packets that were dropped, declared lost, and taken back.
struct Outcome {
    dropped: Vec<Instant>,
    lost: Vec<Instant>,
    undone: Vec<Instant>,
}

/// Loses and delays packets at random, so that up to `jitter` they overtake each other; ACKs are lost too.
fn outcome(seed: u64, loss: f64, jitter: Duration) -> Outcome {
    let diary = Diary::new(Rate::mbps(50), Bytes::mb(64));
    let mut pair = settled(ms(20), unordered(fixed(Rate::mbps(10))), setup(diary.law()));
    diary.clear();
    let mut rng = StdRng::seed_from_u64(seed);
    let dropped = Rc::new(RefCell::new(Vec::new()));
    let (note, mut count) = (dropped.clone(), 0_usize);
    pair.fate = Box::new(move |departure| {
        let is_lost = rng.random_bool(loss);
        if is_bulk(departure) {
            if is_lost {
                note.borrow_mut().push(count);
            }
            count += 1;
        }
        let extra = jitter.mul_f64(rng.random_range(0.0..1.0));
        (!is_lost).then_some((ms(20) + extra, departure.ecn))
    });
    pair.download(3_000_000);
    assert!(pair.run_until(ms(60_000), |pair| pair.client.is_finished), "seed {seed}");
    pair.run(ms(1_000));
    let bulk: Vec<Instant> =
        diary.sent().iter().filter(|sent| sent.bytes.get() > 1_000).map(|sent| sent.now).collect();
    let large = |packets: Vec<warprate::signal::Snapshot>| {
        let mut sent: Vec<_> =
            packets.iter().filter(|packet| packet.bytes.get() > 1_000).map(|packet| packet.sent).collect();
        sent.sort();
        sent
    };
    let dropped = dropped.borrow().iter().map(|&number| bulk[number]).collect();
    Outcome { dropped, lost: large(diary.lost()), undone: large(diary.undone()) }
}

#[test]
fn packets_that_were_dropped_are_never_undone() {
    for seed in 0..5 {
        let Outcome { dropped, lost, undone } = outcome(seed, 0.03, Duration::ZERO);
        assert!(dropped.len() > 30 && lost == dropped, "seed {seed}");
        assert!(undone.is_empty(), "seed {seed}: {}", undone.len());
    }
}

#[test]
fn what_was_lost_and_not_dropped_is_undone() {
    for seed in 0..5 {
        // An eighth of a round trip, 5 ms, makes a packet late.
        let Outcome { dropped, lost, undone } = outcome(seed, 0.03, ms(8));
        let late: Vec<_> = lost.into_iter().filter(|sent| !dropped.contains(sent)).collect();
        assert!(late.len() > 30, "seed {seed}: {} were late", late.len());
        assert_eq!(undone, late, "seed {seed}");
    }
}

#[test]
fn every_undo_follows_a_loss_from_the_first_packet_on() {
    // Datagrams of the handshake hold several packets, of which only one may be lost.
    for seed in 0..20 {
        let diary = Diary::new(Rate::mbps(50), Bytes::mb(64));
        let mut pair = Pair::new(ms(20), unordered(fixed(Rate::mbps(10))), setup(diary.law()));
        pair.fate = rough(seed, ms(20), 0.1, ms(5));
        assert!(
            pair.run_until(ms(20_000), |pair| { pair.client.has_connected() && pair.server.has_connected() })
        );
        pair.download(500_000);
        assert!(pair.run_until(ms(60_000), |pair| pair.client.is_finished), "seed {seed}");
        pair.run(ms(1_000));
        each_undo_follows_its_loss(&diary);
        assert!(!diary.undone().is_empty(), "seed {seed}");
    }
}

/// Each packet is undone once at most, after it was lost, and by the law that was told so.
fn each_undo_follows_its_loss(diary: &Diary) {
    let mut lost = BTreeMap::new();
    for page in diary.pages() {
        match page.told {
            Told::Loss { packets, .. } => {
                lost.extend(packets.into_iter().map(|packet| ((page.law, packet.sent), packet)));
            }
            Told::Undo(undo) => assert_eq!(lost.remove(&(page.law, undo.packet.sent)), Some(undo.packet)),
            _ => {}
        }
    }
}

#[test]
fn a_law_hears_nothing_of_packets_that_another_path_lost() {
    for seed in 0..5 {
        let diary = Diary::new(Rate::mbps(20), Bytes::mb(64));
        let mut pair = settled(ms(20), unordered(fixed(Rate::mbps(10))), setup(diary.law()));
        diary.clear();
        pair.fate = rough(seed, ms(20), 0.01, ms(10));
        pair.download(5_000_000);
        pair.run(ms(500));
        pair.move_client((Ipv4Addr::LOCALHOST, 77).into());
        pair.run(ms(500));
        pair.move_client((Ipv4Addr::new(192, 0, 2, 1), 1).into());
        assert!(pair.run_until(ms(60_000), |pair| pair.client.is_finished), "seed {seed}");
        pair.run(ms(1_000));
        assert_eq!(diary.laws(), 2);
        each_undo_follows_its_loss(&diary);
        for law in 0..2 {
            let is_undo = |told: &Told| matches!(told, Told::Undo(_));
            assert!(diary.pages().iter().any(|page| page.law == law && is_undo(&page.told)), "law {law}");
        }
    }
}

/// What a law was told, and its window before and after.
type Note = (&'static str, Bytes, Bytes);

/// CUBIC, noting each loss and undo.
#[derive(Debug, Clone)]
struct Noting {
    law: Cubic,
    notes: Arc<Mutex<Vec<Note>>>,
}

impl Noting {
    fn note(&mut self, event: &'static str, now: Instant, tell: impl FnOnce(&mut Cubic)) {
        let before = self.law.plan(now).window;
        tell(&mut self.law);
        let after = self.law.plan(now).window;
        self.notes.lock().expect("no test panicked in a law").push((event, before, after));
    }
}

impl RateLaw for Noting {
    fn on_sent(&mut self, sent: &Sent) {
        self.law.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.law.on_ack(ack);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.note("loss", loss.now, |law| law.on_loss(loss));
    }

    fn on_undo(&mut self, undo: &Undo) {
        self.note("undo", undo.now, |law| law.on_undo(undo));
    }

    fn on_mtu(&mut self, datagram: Bytes) {
        self.law.on_mtu(datagram);
    }

    fn plan(&self, now: Instant) -> Plan {
        self.law.plan(now)
    }

    fn state(&self) -> &'static str {
        self.law.state()
    }
}

#[test]
fn cubic_takes_a_spurious_reduction_back() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let noted = notes.clone();
    let law = Law::custom(move |start: PathStart| Noting { law: Cubic::new(start), notes: noted.clone() });
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(law));
    // In the first round trip, where ten packets leave within half of it.
    pair.fate = delaying(3, ms(25));
    pair.download(1_000_000);
    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
    let notes = notes.lock().expect("no test panicked in a law").clone();
    let [("loss", full, reduced), ("undo", before, restored)] = notes[..] else { panic!("{notes:?}") };
    // RFC 9438 §4.6, and §4.9.2.
    assert_eq!((reduced, before, restored), (full * Gain::ratio(7, 10), reduced, full));
}

#[test]
fn a_mark_counts_its_packets_also_when_their_acks_were_lost() {
    let diary = Diary::new(Rate::mbps(50), Bytes::mb(64));
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
    diary.clear();
    let mut count = 0;
    pair.fate = Box::new(move |departure| {
        count += u64::from(is_bulk(departure));
        let is_marked = is_bulk(departure) && [101, 102, 110].contains(&count);
        // No ACK arrives from the first mark on until all are made.
        let is_lost = departure.from_client && (90..300).contains(&count);
        (!is_lost).then_some((ms(20), if is_marked { Some(EcnCodepoint::Ce) } else { departure.ecn }))
    });
    pair.download(1_000_000);
    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
    let counts: Vec<u32> = diary.verdicts().iter().map(|verdict| verdict.packets).collect();
    assert_eq!(counts, [3]);
}

#[test]
fn all_marks_together_are_the_packets_that_were_marked() {
    for seed in 0..5 {
        let diary = Diary::new(Rate::mbps(50), Bytes::mb(64));
        let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(diary.law()));
        diary.clear();
        let mut rng = StdRng::seed_from_u64(seed);
        let marked = Rc::new(RefCell::new(0_u32));
        let note = marked.clone();
        pair.fate = Box::new(move |departure| {
            let is_marked = is_bulk(departure) && rng.random_bool(0.2);
            *note.borrow_mut() += u32::from(is_marked);
            let is_lost = departure.from_client && rng.random_bool(0.2);
            let extra = if departure.from_client { ms(3).mul_f64(rng.random_range(0.0..1.0)) } else { us(0) };
            let ecn = if is_marked { Some(EcnCodepoint::Ce) } else { departure.ecn };
            (!is_lost).then_some((ms(20) + extra, ecn))
        });
        pair.download(1_000_000);
        pair.run(ms(3_000));
        let told: u32 = diary.verdicts().iter().map(|verdict| verdict.packets).sum();
        assert!(*marked.borrow() > 100);
        assert_eq!(told, *marked.borrow(), "seed {seed}");
    }
}
