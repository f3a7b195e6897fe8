//! Tests of the parts, and runs that the draft's appendix does not have.
#![cfg(test)]

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::constants::{PACING_MARGIN, PROBE_WAIT_BASE, PROBE_WAIT_SPREAD, STARTUP_PACING_GAIN};
use super::loss::{Bounds, LossRound};
use super::model::{ExtraAcked, MaxBw, SelfLimit};
use super::{Bbr3, Phase, State};
use crate::cc::random::Random;
use crate::cc::testbed::{Bed, DATAGRAM, Path, Source, is_within};
use crate::cc::{PathStart, RateLaw};
use crate::signal::{Ack, DeliverySample, Loss, Rtt, Sent, Snapshot, Undo, Verdict, VerdictKind};
use crate::test_clock::{ms, t0};
use crate::units::{Bytes, Gain, Rate};

fn law() -> Bbr3 {
    Bbr3::new(PathStart::new(t0(), DATAGRAM), 1)
}

/// The n-th datagram of a path on which none is yet delivered; `lost` of those before it were.
fn packet(n: u64, lost: u64) -> Snapshot {
    Snapshot {
        sent: t0() + ms(n),
        bytes: DATAGRAM,
        tx_in_flight: DATAGRAM.times(n + 1 - lost),
        delivered: Bytes::ZERO,
        delivered_at: t0(),
        first_sent: t0(),
        lost: DATAGRAM.times(lost),
        app_limited: false,
        round: 0,
    }
}

fn rtt_of(rtt: Duration) -> Rtt {
    Rtt { latest: rtt, min: rtt, smoothed: rtt, deviation: Duration::ZERO }
}

/// An ACK of `newest` with all the rest derived from it.
fn ack_of(newest: Snapshot, now: Instant, rate: Rate, delivered: Bytes) -> Ack {
    let interval = now.saturating_duration_since(newest.sent);
    Ack {
        now,
        bytes: newest.bytes,
        packets: 1,
        in_flight: Bytes::ZERO,
        newest,
        rtt: rtt_of(interval),
        delay: crate::signal::Delay::default(),
        sample: Some(DeliverySample {
            rate,
            delivered,
            lost: Bytes::ZERO,
            interval,
            app_limited: newest.app_limited,
        }),
        delivered: newest.delivered + delivered,
        lost: newest.lost,
        round: 0,
        round_start: true,
    }
}

#[test]
fn the_first_plan_is_the_initial_window_in_a_millisecond() {
    let plan = law().plan(t0());
    assert_eq!(plan.window, DATAGRAM.times(10));
    assert_eq!(plan.rate, (DATAGRAM.times(10) / ms(1)) * STARTUP_PACING_GAIN);
    assert_eq!(plan.quantum, plan.rate * ms(1));
}

#[test]
fn the_first_round_trip_replaces_the_guess_of_a_millisecond() {
    let mut law = law();
    law.on_ack(&ack_of(packet(0, 0), t0() + ms(100), Rate::bytes_per_sec(1), DATAGRAM));
    assert_eq!(law.plan(t0()).rate, (DATAGRAM.times(10) / ms(100)) * STARTUP_PACING_GAIN);
}

#[test]
fn max_bw_remembers_this_cycle_and_the_last() {
    let mut filter = MaxBw::default();
    let insert = |filter: &mut MaxBw, mbps| filter.insert(Rate::mbps(mbps));
    insert(&mut filter, 10);
    filter.advance();
    insert(&mut filter, 4);
    assert_eq!(filter.get(), Rate::mbps(10));
    filter.advance();
    assert_eq!(filter.get(), Rate::mbps(4));
    // A cycle without a sample displaces nothing.
    filter.advance();
    filter.advance();
    assert_eq!(filter.get(), Rate::mbps(4));
}

#[test]
fn extra_acked_is_what_exceeds_the_bandwidth_and_fades_with_rounds() {
    let mut extra = ExtraAcked::new(t0());
    let bw = Rate::bytes_per_sec(1_000_000);
    // A clump of 50 kB where 10 kB were expected starts an interval.
    let excess = extra.excess(t0() + ms(10), bw, Bytes::kb(50));
    extra.insert(1, excess, 10);
    assert_eq!(extra.value, Bytes::kb(50));
    // 20 ms later, another: 100 kB where 20 kB were expected.
    let excess = extra.excess(t0() + ms(30), bw, Bytes::kb(50));
    extra.insert(2, excess, 10);
    assert_eq!(extra.value, Bytes::kb(80));
    // The clump is over when the interval's mean is down to the bandwidth.
    let excess = extra.excess(t0() + ms(200), bw, Bytes::kb(1));
    extra.insert(3, excess, 10);
    assert_eq!((excess, extra.value), (Bytes::kb(1), Bytes::kb(80)));
    extra.insert(12, Bytes::kb(2), 10);
    assert_eq!(extra.value, Bytes::kb(80));
    extra.insert(13, Bytes::kb(2), 10);
    assert_eq!(extra.value, Bytes::kb(2));
}

#[test]
fn packets_sent_while_the_law_holds_back_are_limited() {
    let mut limit = SelfLimit::default();
    limit.mark(t0() + ms(10), Bytes::kb(5));
    limit.on_delivered(t0() + ms(20), Bytes::kb(5));
    assert!(limit.is_active());
    limit.on_delivered(t0() + ms(30), Bytes::kb(6));
    assert!(!limit.is_active());
    let covered = [9, 10, 30, 31].map(|at| limit.covers(t0() + ms(at)));
    assert_eq!(covered, [false, true, true, false]);
}

#[test]
fn adjacent_lost_packets_are_one_hole() {
    let mut round = LossRound::default();
    for n in [3, 4, 5, 8, 9, 20] {
        round.note_range(&packet(n, 0));
    }
    assert_eq!(round.lost_ranges, 3);
}

#[test]
fn two_percent_of_what_is_in_flight_may_be_lost() {
    assert!(!super::loss::is_inflight_too_high(DATAGRAM.times(2), DATAGRAM.times(100)));
    assert!(super::loss::is_inflight_too_high(DATAGRAM.times(2), DATAGRAM.times(99)));
    // The third lost of 120 crosses it, and a part of it was still safe.
    let packet = packet(119, 0);
    let at_loss = super::loss::inflight_at_loss(&packet, DATAGRAM.times(3));
    // (0.02 · 119 − 2) / 0.98 = 0.3878 packets of the last.
    assert_eq!(at_loss.get(), 119 * 1452 + 562);
    // Where packets before it had crossed the threshold already, nothing of it was safe.
    assert_eq!(super::loss::inflight_at_loss(&packet, DATAGRAM.times(30)), DATAGRAM.times(119));
}

#[test]
fn losses_of_one_call_are_summed_up_one_by_one() {
    let mut law = law();
    law.state = State::ProbeBw(Phase::Up);
    law.full_pipe.full_bw_reached = true;
    law.cycle.is_bw_probe_sample = true;
    // Five packets in one call.
    let packets: Vec<_> = [90, 92, 94, 96, 98].map(|n| packet(n, 0)).to_vec();
    law.on_loss(&Loss {
        now: t0() + ms(200),
        packets: &packets,
        bytes: DATAGRAM.times(5),
        in_flight: DATAGRAM.times(95),
        lost: DATAGRAM.times(5),
        persistent: false,
    });
    // The second crosses the threshold: 2 > 0.02 · 93. Before it, 92 were in flight and one was lost, so
    // that (0.02 · 92 − 1) / 0.98 of it were safe.
    assert_eq!(law.bounds.inflight_longterm.get(), 92 * 1452 + 1243);
    assert_eq!(law.state, State::ProbeBw(Phase::Down));
    assert!(law.loss_round.is_loss_in_round, "the rest counts for the round that follows");
}

#[test]
fn an_undo_needs_every_packet_of_the_episode_and_restores_what_was_before_it() {
    let mut law = law();
    law.state = State::ProbeBw(Phase::Up);
    law.full_pipe.full_bw_reached = true;
    law.cycle.is_bw_probe_sample = true;
    let packets: Vec<_> = (10..20).map(|n| packet(n, 0)).collect();
    law.on_loss(&Loss {
        now: t0() + ms(200),
        packets: &packets,
        bytes: DATAGRAM.times(10),
        in_flight: DATAGRAM.times(10),
        lost: DATAGRAM.times(10),
        persistent: false,
    });
    assert_ne!(law.bounds, Bounds::UNBOUNDED);
    for packet in &packets[..9] {
        law.on_undo(&Undo { now: t0() + ms(210), packet: *packet });
    }
    assert_eq!(law.state, State::ProbeBw(Phase::Down));
    law.on_undo(&Undo { now: t0() + ms(211), packet: packets[9] });
    assert_eq!(law.bounds, Bounds::UNBOUNDED);
    assert_eq!(law.state, State::ProbeBw(Phase::Refill));
    // What arrives twice undoes nothing.
    law.on_undo(&Undo { now: t0() + ms(212), packet: packets[9] });
}

#[test]
fn probe_waits_differ_by_seed_and_stay_between_two_and_three_seconds() {
    let waits = |seed| {
        let mut random = Random::new(seed);
        [(); 64].map(|()| PROBE_WAIT_BASE + random.below(PROBE_WAIT_SPREAD))
    };
    assert_eq!(waits(5), waits(5));
    assert_ne!(waits(5), waits(6));
    let all: Vec<_> = (0..50).flat_map(waits).collect();
    assert!(all.iter().all(|wait| (ms(2000)..ms(3000)).contains(wait)));
    let mean = all.iter().sum::<Duration>() / 3200;
    assert!(mean.abs_diff(ms(2500)) < ms(20), "{mean:?}");
}

#[test]
fn a_path_of_100_gbit_and_a_second_overflows_nothing() {
    let mut law = law();
    let mut newest = packet(0, 0);
    let bw = Rate::gbps(100);
    let bdp = bw * Duration::from_secs(1);
    for round in 1..200u32 {
        newest.bytes = bdp;
        newest.tx_in_flight = bdp;
        let ack = ack_of(newest, newest.sent + Duration::from_secs(1), bw, bdp);
        law.on_ack(&ack);
        newest.sent = ack.now;
        newest.delivered = bdp.times(round.into());
    }
    assert_eq!(law.bw, bw);
    assert!(law.is_in_a_probe_bw_state() || law.is_in_probe_rtt(), "{}", law.state());
    let most = bdp.times(3) + Bytes::mb(1);
    assert!(law.plan(t0()).window <= most, "{:?}", law.plan(t0()));
    assert!(law.plan(t0()).rate <= bw * Gain::percent(125));
}

#[test]
fn the_window_holds_a_flow_at_any_ack_ratio() {
    for ack_every in [1, 2, 10, 50] {
        let mut path = Path::new(Rate::mbps(100), ms(40));
        path.ack_every = ack_every;
        let mut bed = Bed::new(path, |start| Bbr3::new(start, 3));
        bed.run_for(Duration::from_secs(5));
        let rate = bed.measure(Duration::from_secs(20));
        // A hundredth is the pacing margin, two are ProbeRTT's.
        assert!(rate >= Rate::mbps(100) * Gain::percent(95), "{ack_every}: {rate}");
        assert!(bed.queue() <= bed.path.bdp());
    }
}

#[test]
fn a_probe_after_a_lossy_one_stops_at_the_old_ceiling_and_goes_on_if_that_is_safe() {
    let path = Path::new(Rate::mbps(50), ms(40));
    let buffer = path.bdp() * Gain::ratio(1, 3);
    let mut bed = Bed::new(path.with_buffer(buffer), |start| Bbr3::new(start, 3));
    assert!(bed.run_until(Duration::from_secs(9), |bed| bed.law(|law| law.cycle.prev_probe_too_high)));
    // The path has more room from now on, so the old ceiling proves safe.
    bed.path.rate = Rate::mbps(100);
    bed.path.buffer = bed.path.bdp();
    let is_careful = |bed: &mut Bed<Bbr3>| bed.law(|law| law.cycle.prev_probe_precautionary);
    assert!(bed.run_until(Duration::from_secs(5), is_careful), "{:?}", bed.trace());
    assert_eq!(bed.state(), "probe_bw_down");
    // A round of feedback later it probes again, and stays until it knows.
    let stopped = bed.now();
    assert!(bed.run_to("probe_bw_up", ms(300)), "{:?}", bed.trace());
    assert!(bed.law(|law| !law.cycle.prev_probe_too_high));
    let (longterm, start) = (bed.law(|law| law.bounds.inflight_longterm), bed.now());
    assert!(start - stopped < ms(200));
    assert!(bed.run_until(Duration::from_secs(2), |bed| bed.state() != "probe_bw_up"));
    assert!(bed.now() - start > ms(100) && bed.law(|law| law.bounds.inflight_longterm) > longterm);
}

#[test]
fn a_mark_in_cruise_lowers_the_short_term_bounds() {
    let path = Path::new(Rate::mbps(20), ms(40)).with_buffer(Bytes::mb(1));
    let mut bed = Bed::new(path, |start| Bbr3::new(start, 3));
    assert!(bed.run_to("probe_bw_cruise", Duration::from_secs(5)));
    bed.run_for(ms(200));
    assert_eq!(bed.law(|law| law.bounds.bw_shortterm), Rate::MAX);
    // Less than the flow sends: a queue, and marks.
    bed.path.mark_above = DATAGRAM.times(3);
    bed.path.rate = Rate::mbps(10);
    bed.run_for(ms(1000));
    assert!(bed.law(|law| law.bounds.bw_shortterm) < Rate::mbps(13));
    assert!(bed.law(|law| law.bounds.inflight_shortterm) < bed.path.bdp().times(3));
    assert_eq!(bed.sent_and_dropped().1, 0);
}

#[test]
fn marks_end_startup_and_probes() {
    let mut path = Path::new(Rate::mbps(20), ms(40));
    path.buffer = path.bdp().times(8);
    path.mark_above = path.bdp() * Gain::ratio(1, 4);
    let mut bed = Bed::new(path, |start| Bbr3::new(start, 3));
    assert!(bed.run_until(Duration::from_secs(2), |bed| bed.law(|law| law.full_pipe.full_bw_reached)));
    assert!(bed.law(|law| law.bounds.has_longterm()), "it was the marks");
    bed.path.mark_above = DATAGRAM.times(4);
    assert!(bed.run_to("probe_bw_up", Duration::from_secs(9)));
    assert!(bed.run_to("probe_bw_down", ms(200)));
    assert!(bed.law(|law| law.cycle.prev_probe_too_high || law.cycle.prev_probe_precautionary));
    let rate = bed.measure(Duration::from_secs(20));
    assert!(rate > Rate::mbps(15), "{rate}");
}

#[test]
fn linuxs_answer_to_marks_keeps_a_short_path_busy_and_its_queue_short() {
    let mut path = Path::new(Rate::mbps(500), ms(2));
    path.buffer = path.bdp().times(8);
    path.mark_above = DATAGRAM.times(10);
    let mut bed = Bed::new(path, |start| Bbr3::new(start, 3).with_linux_ecn());
    bed.run_for(Duration::from_secs(2));
    let rate = bed.measure(Duration::from_secs(4));
    assert!(rate > Rate::mbps(400), "{rate}");
    assert_eq!(bed.sent_and_dropped().1, 0);
}

#[test]
fn linuxs_answer_weighs_the_packets_that_were_marked() {
    let mut law = law().with_linux_ecn();
    let ack =
        Ack { bytes: DATAGRAM.times(10), ..ack_of(packet(0, 0), t0() + ms(2), Rate::mbps(50), DATAGRAM) };
    law.on_ack(&ack);
    let mark = |packets| Verdict {
        now: ack.now,
        kind: VerdictKind::Mark,
        newest: ack.newest.sent,
        packets,
        bytes: Bytes::ZERO,
        queue: Duration::ZERO,
    };
    law.on_verdict(&mark(3));
    // The ACK ended a round without marks: alpha = (15/16)² + 3/10 / 16 = 58828 / 2^16; a third is cut.
    assert_eq!(law.ecn.end_round(), Some(Gain::ratio(65_536 - 19_609, 65_536)));
}

#[test]
fn linuxs_answer_is_for_short_paths_only() {
    let run = |linux: bool| {
        let mut path = Path::new(Rate::mbps(20), ms(40)).with_buffer(Bytes::mb(1));
        path.mark_above = DATAGRAM.times(5);
        let law = move |start| match linux {
            true => Bbr3::new(start, 3).with_linux_ecn(),
            false => Bbr3::new(start, 3),
        };
        let mut bed = Bed::new(path, law);
        bed.run_for(Duration::from_secs(5));
        (bed.trace(), bed.delivered())
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_silence_is_followed_by_the_paths_pace() {
    let mut bed = Bed::new(Path::new(Rate::mbps(10), ms(40)), |start| Bbr3::new(start, 3));
    assert!(bed.run_to("probe_bw_up", Duration::from_secs(9)));
    bed.source = Source::Silent;
    bed.run_for(ms(500));
    bed.set_bulk();
    assert!(bed.run_until(ms(10), |bed| bed.law(|law| law.is_idle_restart)));
    assert_eq!(bed.plan().rate, bed.law(|law| law.bw) * PACING_MARGIN);
    bed.run_for(ms(500));
    assert!(is_within(bed.measure(Duration::from_secs(1)), 5, Rate::mbps(10)));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut path = Path::new(Rate::mbps(30), ms(20));
        path.lose_every = Some(97);
        let mut bed = Bed::new(path, |start| Bbr3::new(start, seed));
        bed.run_for(Duration::from_secs(8));
        (bed.trace(), bed.delivered(), bed.plan())
    };
    assert_eq!(run(4), run(4));
    assert_ne!(run(4).0, run(5).0);
}

fn any_instant() -> impl Strategy<Value = Instant> {
    (0u64..u64::MAX / 4).prop_map(|nanos| t0() + Duration::from_nanos(nanos))
}

fn any_bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![0u64..100_000, any::<u64>()].prop_map(Bytes::new)
}

fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let instants = (any_instant(), any_instant(), any_instant());
    let bytes = (any_bytes(), any_bytes(), any_bytes(), any_bytes());
    (instants, bytes, any::<bool>()).prop_map(|((sent, at, first), (bytes, flight, delivered, lost), app)| {
        Snapshot {
            sent,
            bytes,
            tx_in_flight: flight,
            delivered,
            delivered_at: at,
            first_sent: first,
            lost,
            app_limited: app,
            round: 0,
        }
    })
}

proptest! {
    /// Events that no path could produce: no panic, and a plan that lets the flow move.
    #[test]
    fn the_law_is_total(
        events in prop::collection::vec((0u8..7, any_instant(), any_snapshot(), any::<u64>(), any_bytes()), 1..80),
        ecn: bool,
    ) {
        let mut law = if ecn { law().with_linux_ecn() } else { law() };
        for (kind, now, packet, rate, bytes) in events {
            match kind {
                0 => law.on_sent(&Sent { now, bytes, in_flight: packet.tx_in_flight, app_limited: packet.app_limited }),
                1 | 2 => {
                    let mut ack = ack_of(packet, now, Rate::bytes_per_sec(rate), bytes);
                    ack.in_flight = packet.lost;
                    law.on_ack(&ack);
                }
                3 => law.on_loss(&Loss {
                    now,
                    packets: &[packet, packet],
                    bytes: packet.bytes,
                    in_flight: bytes,
                    lost: bytes,
                    persistent: rate % 2 == 0,
                }),
                4 => law.on_undo(&Undo { now, packet }),
                5 => law.on_mtu(Bytes::new(1200 + rate % 60_000)),
                _ => law.on_verdict(&Verdict { now, kind: VerdictKind::Mark, newest: packet.sent, packets: 1, bytes: Bytes::ZERO, queue: Duration::ZERO }),
            }
            let plan = law.plan(now);
            prop_assert!(!plan.rate.is_zero() && plan.window >= law.datagram.times(2), "{plan:?}");
        }
    }
}
