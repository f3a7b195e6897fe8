//! The draft's "Example Test Cases" by their numbers, as runs against the [test bed](crate::cc::testbed).
#![cfg(test)]

use std::time::Duration;

use super::constants::{
    DEFAULT_CWND_GAIN, DOWN_PACING_GAIN, DRAIN_PACING_GAIN, PACING_MARGIN, PROBE_RTT_CWND_GAIN,
    PROBE_RTT_DURATION,
};
use super::{Bbr3, Phase, State};
use crate::cc::PathStart;
use crate::cc::testbed::{Bed, DATAGRAM, Path, Policer, Source, is_within};
use crate::test_clock::{ms, t0, us};
use crate::units::{Bytes, Gain, Rate};

const MIN_PIPE: Bytes = DATAGRAM.times(4);

fn law(start: PathStart) -> Bbr3 {
    Bbr3::new(start, 7)
}

/// 10 Mbit/s, 40 ms, a deep buffer: no losses.
fn deep() -> Path {
    let path = Path::new(Rate::mbps(10), ms(40));
    let buffer = path.bdp().times(5);
    path.with_buffer(buffer)
}

/// 20 Mbit/s, 40 ms, and a buffer of a third of the path: Startup ends in losses.
fn shallow() -> Path {
    let path = Path::new(Rate::mbps(20), ms(40));
    let buffer = path.bdp() * Gain::ratio(1, 3);
    path.with_buffer(buffer)
}

/// A flow that has reached `state`.
fn in_state(state: &str, path: Path) -> Bed<Bbr3> {
    let mut bed = Bed::new(path, law);
    assert!(bed.run_to(state, secs(20)), "{state} is never reached: {:?}", bed.trace());
    bed
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// The states entered since `from` entries of the trace.
fn since(bed: &Bed<Bbr3>, from: usize) -> Vec<&'static str> {
    bed.trace()[from..].iter().map(|(_, state)| *state).collect()
}

fn longterm(bed: &Bed<Bbr3>) -> Bytes {
    bed.law(|law| law.bounds.inflight_longterm)
}

fn max_bw(bed: &Bed<Bbr3>) -> Rate {
    bed.law(|law| law.max_bw.get())
}

#[test]
fn a01_exiting_startup_on_bandwidth_plateau() {
    let paths = [
        (Rate::kbps(64), ms(1000)),
        (Rate::kbps(64), us(500)),
        (Rate::mbps(1), ms(600)),
        (Rate::mbps(10), ms(40)),
        (Rate::mbps(100), us(500)),
        (Rate::gbps(1), ms(10)),
        (Rate::gbps(10), us(500)),
        (Rate::gbps(10), ms(20)),
        (Rate::mbps(100), ms(1000)),
    ];
    for (rate, delay) in paths {
        let path = Path::new(rate, delay);
        let buffer = path.bdp().times(5).max(DATAGRAM.times(100));
        let mut bed = Bed::new(path.with_buffer(buffer), law);
        let is_full = |bed: &mut Bed<Bbr3>| bed.law(|law| law.full_pipe.full_bw_reached);
        assert!(bed.run_until(secs(60), is_full), "{rate} {delay:?}: {:?}", bed.trace());
        println!("{rate} {delay:?}: {} after {:?}", max_bw(&bed), bed.now() - t0());
        assert!(is_within(max_bw(&bed), 2, rate), "{rate} {delay:?}: {}", max_bw(&bed));
        bed.law(|law| {
            assert_eq!(law.full_pipe.full_bw_count, 3);
            assert!(law.full_pipe.full_bw_now && law.full_pipe.full_bw_reached);
        });
        assert_eq!(bed.sent_and_dropped().1, 0);
        // A path of a few datagrams has nothing to drain, and where rounds take seconds, ProbeRTT may be due
        // at once and drains in Drain's stead; both within the same ACK.
        let is_usual = bed.path.bdp() > DATAGRAM.times(20) && delay < ms(600);
        assert!(bed.state() == "drain" || !is_usual && bed.state() != "startup", "{}", bed.state());
    }
}

#[test]
fn a02_exiting_startup_on_loss_when_application_limited() {
    let mut bed = Bed::new(Path::new(Rate::mbps(100), ms(40)), law);
    bed.set_steady(Rate::mbps(40));
    bed.run_for(secs(1));
    assert_eq!(bed.state(), "startup");
    bed.path.lose_every = Some(10);
    // What an application limits leaves no queue, so Drain is over with the same ACK.
    assert!(bed.run_until(ms(500), |bed| bed.state() != "startup"));
    bed.law(|law| {
        assert!(law.full_pipe.full_bw_now && law.full_pipe.full_bw_reached);
        assert!(law.is_in_a_probe_bw_state() && law.in_flight <= law.inflight(law.bw));
        assert_ne!(law.full_pipe.full_bw_count, 3, "it was the loss, not a plateau");
        assert!(law.bounds.has_longterm());
    });
}

#[test]
fn a03_exiting_drain_based_on_inflight() {
    let mut bed = in_state("drain", deep());
    assert_eq!(bed.law(Bbr3::pacing_gain), DRAIN_PACING_GAIN);
    assert_eq!(bed.plan().rate, (bed.law(|law| law.bw) * Gain::ratio(1, 2)) * PACING_MARGIN);
    let start_round = bed.law(|law| law.rounds.count);
    assert!(bed.in_flight() > bed.law(|law| law.inflight(law.bw)));
    assert!(bed.run_until(secs(2), |bed| bed.state() != "drain"));
    assert!(bed.law(|law| law.rounds.count) <= start_round + 3);
    // DOWN's aim is met as well.
    assert_eq!(since(&bed, 0)[..3], ["startup", "drain", "probe_bw_cruise"]);
    assert!(bed.in_flight() <= bed.law(|law| law.inflight(law.bw)));
}

/// A tenth less, as the draft has it, is drained in a round at half the pace; so it is six tenths here.
#[test]
fn a04_exiting_drain_based_on_time() {
    let mut bed = in_state("drain", deep());
    let start_round = bed.law(|law| law.rounds.count);
    bed.path.rate = Rate::mbps(4);
    let left = bed.run_until(secs(5), |bed| {
        let is_above = bed.law(|law| law.in_flight > law.inflight(law.bw));
        let is_in_drain = bed.state() == "drain";
        assert!(is_above || !is_in_drain);
        !is_in_drain
    });
    assert!(left, "Drain goes on");
    assert_eq!(bed.law(|law| law.rounds.count), start_round + 4);
    assert!(bed.law(|law| law.in_flight > law.inflight(law.bw)));
    assert_eq!(bed.state(), "probe_bw_down");
}

#[test]
fn a05_exiting_probe_up_on_bandwidth_plateau() {
    let mut bed = in_state("probe_bw_up", deep());
    let start_round = bed.law(|law| law.rounds.count);
    assert!(bed.run_until(secs(2), |bed| bed.state() != "probe_bw_up"));
    assert_eq!(bed.state(), "probe_bw_down");
    bed.law(|law| {
        assert!(law.full_pipe.full_bw_now);
        assert_eq!(law.full_pipe.full_bw_count, 3);
        assert!(law.rounds.count >= start_round + 3);
    });
    assert_eq!(bed.sent_and_dropped().1, 0);
}

/// UP of a flow whose application makes half of what the path carries.
fn limited_up() -> Bed<Bbr3> {
    let path = Path::new(Rate::mbps(100), ms(40));
    let mut bed = in_state("probe_bw_refill", path);
    bed.set_steady(Rate::mbps(50));
    assert!(bed.run_to("probe_bw_up", secs(1)));
    bed.run_for(ms(200));
    assert_eq!(bed.state(), "probe_bw_up");
    bed
}

#[test]
fn a06_exiting_probe_up_on_loss_when_application_limited() {
    let mut bed = limited_up();
    let before = longterm(&bed);
    bed.path.lose_every = Some(10);
    assert!(bed.run_until(ms(200), |bed| bed.state() != "probe_bw_up"));
    assert_eq!(bed.state(), "probe_bw_down");
    assert!(bed.law(|law| law.cycle.prev_probe_too_high));
    // What an application left in flight is no bound of the path.
    assert_eq!(longterm(&bed), before);
}

#[test]
fn a07_never_exiting_when_application_limited_without_loss() {
    let mut bed = limited_up();
    let from = bed.trace().len();
    // ProbeRTT alone ends it, as it does any state.
    bed.run_until(secs(20), |bed| bed.state() != "probe_bw_up");
    assert_eq!(since(&bed, from), ["probe_rtt"]);

    let mut bed = Bed::new(Path::new(Rate::mbps(100), ms(40)), law);
    bed.set_steady(Rate::mbps(40));
    bed.run_for(secs(30));
    assert!(since(&bed, 0).iter().all(|state| ["startup", "probe_rtt"].contains(state)), "{:?}", bed.trace());
}

#[test]
fn a08_exiting_probe_down_on_inflight() {
    for path in [deep(), shallow()] {
        let mut bed = in_state("probe_bw_up", path);
        assert!(bed.run_to("probe_bw_down", secs(2)));
        assert_eq!(bed.law(Bbr3::pacing_gain), DOWN_PACING_GAIN);
        assert!(bed.run_until(secs(2), |bed| bed.state() != "probe_bw_down"));
        assert_eq!(bed.state(), "probe_bw_cruise");
        let trace = bed.trace();
        let (down, cruise) = (trace[trace.len() - 2].0, trace[trace.len() - 1].0);
        assert!(cruise - down < secs(2), "it was the queue, not the clock");
    }
}

#[test]
fn a09_exiting_probe_down_after_max_time() {
    // A path of more than 63 datagrams whose rounds are so long that the clock decides; and a cycle that
    // ProbeRTT does not cut short, which is a matter of luck.
    let path = Path::new(Rate::mbps(50), ms(60));
    let buffer = path.bdp().times(5);
    let path = path.with_buffer(buffer);
    let is_uncut = |seed: &u64| {
        let mut bed = Bed::new(path.clone(), |start| Bbr3::new(start, *seed));
        bed.run_for(secs(6));
        bed.run_to("probe_bw_down", secs(4))
            && bed.law(|law| law.cycle.bw_probe_wait < ms(2300))
            && bed.now() < t0() + ms(7850)
    };
    let seed = (0..100).find(is_uncut).expect("one in a hundred");
    let mut bed = Bed::new(path.clone(), |start| Bbr3::new(start, seed));
    bed.run_for(secs(6));
    assert!(bed.run_to("probe_bw_down", secs(4)));
    let (start, wait) = bed.law(|law| (law.cycle.cycle_stamp, law.cycle.bw_probe_wait));
    bed.path.rate = bed.path.rate * Gain::percent(90);
    assert!(bed.run_until(secs(4), |bed| bed.state() != "probe_bw_down"));
    assert_eq!(bed.state(), "probe_bw_refill");
    assert!(bed.now() > start + wait && bed.now() < start + wait + ms(100));
}

#[test]
fn a10_entering_and_exiting_probe_rtt() {
    let mut bed = in_state("probe_bw_cruise", deep());
    bed.run_for(ms(1500));
    // From now on, others keep a queue that is never empty.
    bed.path.delay = ms(80);
    let mut before = None;
    let entered = bed.run_until(secs(10), |bed| {
        let is_in = bed.state() == "probe_rtt";
        if !is_in {
            before = bed.law(|law| Some((law.min_rtt.min_rtt, law.bdp(law.bw))));
        }
        is_in
    });
    assert!(entered, "{:?}", bed.trace());
    let (min_rtt, bdp) = before.expect("it was in another state before");
    assert!(min_rtt.expect("measured") < ms(45));
    assert_eq!(bed.law(Bbr3::cwnd_gain), PROBE_RTT_CWND_GAIN);
    let target = (bdp * PROBE_RTT_CWND_GAIN).max(MIN_PIPE);
    assert_eq!(bed.law(|law| law.min_rtt.probe_rtt_cwnd), target);
    assert!(bed.plan().window <= target);
    let start = bed.now();
    let left = bed.run_until(secs(2), |bed| {
        assert_eq!(bed.law(|law| law.min_rtt.probe_rtt_cwnd), target);
        bed.state() != "probe_rtt"
    });
    assert!(left && bed.now() > start + PROBE_RTT_DURATION);
    assert_eq!(bed.state(), "probe_bw_cruise");
    assert!(bed.plan().window > target);
    assert!(is_within(bed.measure(secs(2)), 10, Rate::mbps(10)));
}

#[test]
fn a11_skipping_probe_rtt_due_to_application_limited_sending() {
    let mut bed = in_state("probe_bw_cruise", deep());
    bed.run_for(secs(1));
    bed.source = Source::Silent;
    bed.run_for(secs(12));
    assert_eq!(bed.in_flight(), Bytes::ZERO);
    let (from, delivered) = (bed.trace().len(), bed.delivered());
    bed.set_bulk();
    assert!(bed.run_until(ms(10), |bed| bed.law(|law| law.is_idle_restart)));
    // At the path's bandwidth, neither more nor less.
    assert_eq!(bed.plan().rate, bed.law(|law| law.bw) * PACING_MARGIN);
    bed.run_for(secs(2));
    assert!(!since(&bed, from).contains(&"probe_rtt"), "{:?}", bed.trace());
    assert!(bed.delivered() > delivered && !bed.law(|law| law.is_idle_restart));
}

#[test]
fn a12_achieving_expected_startup_bandwidth_on_a_link_with_aggregation() {
    let mut path = Path::new(Rate::mbps(40), ms(40));
    path.buffer = path.bdp().times(5);
    path.ack_slot = ms(20);
    let bdp = path.bdp();
    let mut bed = Bed::new(path, law);
    let mut most = (Bytes::ZERO, Bytes::ZERO);
    assert!(bed.run_until(secs(5), |bed| {
        let now = bed.law(|law| (law.extra_acked.value, law.output.cwnd));
        most = (most.0.max(now.0), most.1.max(now.1));
        bed.state() == "drain"
    }));
    assert!(most.0 >= (Rate::mbps(40) * ms(20)) * Gain::ratio(1, 2), "extra_acked {}", most.0);
    assert!(most.1 > bdp * DEFAULT_CWND_GAIN, "cwnd {}", most.1);
    assert!(is_within(max_bw(&bed), 5, Rate::mbps(40)), "{}", max_bw(&bed));
}

#[test]
fn a13_achieving_expected_cruise_bandwidth_on_a_link_with_aggregation() {
    let mut bed = in_state("probe_bw_cruise", Path::new(Rate::mbps(40), ms(40)).with_buffer(Bytes::mb(1)));
    assert!(bed.law(|law| law.extra_acked.value) < DATAGRAM.times(40));
    bed.path.ack_slot = ms(40);
    bed.run_for(ms(500));
    assert_eq!(bed.state(), "probe_bw_cruise");
    let (extra, cwnd, bdp) = bed.law(|law| (law.extra_acked.value, law.output.cwnd, law.bdp(law.bw)));
    assert!(extra >= (Rate::mbps(40) * ms(40)) * Gain::ratio(1, 2), "extra_acked {extra}");
    assert!(cwnd > bdp * DEFAULT_CWND_GAIN, "cwnd {cwnd} bdp {bdp}");
    let rate = bed.measure(ms(1000));
    assert!(rate >= Rate::mbps(40) * Gain::percent(95), "{rate}");
}

#[test]
fn a14_correctly_managing_sub_packet_bdps() {
    for (rate, delay) in [(Rate::mbps(1), ms(1)), (Rate::kbps(64), ms(10)), (Rate::mbps(10), us(200))] {
        let mut bed = in_state("probe_bw_cruise", Path::new(rate, delay));
        assert!(bed.path.bdp() < DATAGRAM);
        bed.run_for(secs(3));
        let window = bed.plan().window;
        assert!(window >= MIN_PIPE && window <= MIN_PIPE.times(3), "{rate}: {window}");
        let bw = bed.law(|law| law.bw);
        assert!(is_within(bw, 5, rate), "{rate}: {bw}");
        let goodput = bed.measure(secs(20));
        assert!(goodput >= rate * Gain::percent(93), "{rate}: {goodput}");
    }
}

#[test]
fn a15_increasing_bandwidth_tenfold() {
    // Startup ends in losses, so that there is an inflight_longterm to grow.
    let path = Path::new(Rate::mbps(10), ms(40));
    let buffer = path.bdp() * Gain::ratio(1, 3);
    let mut bed = in_state("probe_bw_cruise", path.with_buffer(buffer));
    bed.run_for(ms(500));
    let before = longterm(&bed);
    assert_ne!(before, Bytes::MAX);
    bed.path = Path::new(Rate::mbps(100), ms(40));
    assert!(bed.run_to("probe_bw_up", secs(5)));
    let (start, mut last, mut steps) = (bed.law(|law| law.rounds.count), 0, Vec::new());
    let found = bed.run_until(secs(20), |bed| {
        let (round, longterm) = bed.law(|law| (law.rounds.count, law.bounds.inflight_longterm));
        if round != last {
            (last, steps) = (round, [steps.as_slice(), &[longterm]].concat());
        }
        max_bw(bed) > Rate::mbps(95)
    });
    let rounds = bed.law(|law| law.rounds.count) - start;
    assert!(found, "{} after {rounds} rounds: {steps:?}", max_bw(&bed));
    assert!(longterm(&bed) > before);
    println!("95 of 100 Mbit/s after {rounds} rounds; inflight_longterm by round {steps:?}");
    assert!(rounds < 60, "{rounds} rounds");
}

#[test]
fn a16_decreasing_bandwidth_tenfold() {
    let mut bed = in_state("probe_bw_cruise", Path::new(Rate::mbps(100), ms(40)));
    bed.run_for(ms(200));
    assert!(is_within(max_bw(&bed), 3, Rate::mbps(100)));
    bed.path.rate = Rate::mbps(10);
    bed.path.buffer = bed.path.bdp();
    assert!(bed.run_until(secs(2), |bed| bed.law(|law| law.bounds.bw_shortterm) < Rate::mbps(20)));
    let start = bed.now();
    assert!(bed.run_until(secs(30), |bed| max_bw(bed) < Rate::mbps(11)), "{}", max_bw(&bed));
    println!("max_bw fits after {:?}", bed.now() - start);
    let mut probes = 0;
    let trace = bed.trace();
    for (at, state) in trace {
        probes += u32::from(at > start && state == "probe_bw_up");
    }
    assert!(probes <= 2, "{probes} probes");
    bed.run_for(secs(2));
    assert!(is_within(bed.measure(secs(5)), 10, Rate::mbps(10)));
}

#[test]
fn a17_handling_token_bucket_policers() {
    let mut bed = in_state("probe_bw_cruise", Path::new(Rate::mbps(50), ms(20)));
    bed.path.policer = Some(Policer::new(bed.now(), Rate::mbps(5), Bytes::kb(100)));
    let is_bounded = |law: &Bbr3| {
        law.bounds.bw_shortterm < Rate::mbps(50) && law.bounds.inflight_shortterm < Bytes::kb(250)
    };
    assert!(bed.run_until(secs(2), |bed| bed.law(is_bounded)));
    bed.run_for(secs(15));
    let before = bed.sent_and_dropped();
    let rate = bed.measure(secs(30));
    let after = bed.sent_and_dropped();
    let per_mille = (after.1 - before.1) * 1000 / (after.0 - before.0);
    println!("{rate} of 5 Mbit/s with {per_mille} per mille lost");
    assert!(rate >= Rate::mbps(5) * Gain::percent(85), "{rate}");
    assert!(per_mille < 100, "{per_mille} per mille lost");
}

/// What leaves the link for some `time` in UP arrives late; what holds when the losses are declared, and
/// when they are taken back.
fn spurious(time: Duration, extra: Duration, is_persistent: bool) {
    let mut bed = in_state("probe_bw_up", deep());
    bed.run_for(ms(10));
    let saved = bed.law(|law| law.bounds);
    bed.path.detour = Some((bed.now() + time, extra));
    assert!(bed.run_until(secs(3), |bed| bed.state() == "probe_bw_down"), "{:?}", bed.trace());
    let down = bed.now();
    assert!(bed.law(|law| law.bounds.has_longterm() && law.recovery.is_active()));
    let collapsed = (bed.in_flight() + DATAGRAM).max(DATAGRAM.times(2));
    assert_eq!(bed.plan().window == collapsed, is_persistent, "{:?}", bed.plan());
    let is_undone = |bed: &mut Bed<Bbr3>| bed.law(|law| law.recovery.is_forgotten());
    assert!(bed.run_until(extra, is_undone), "{:?}", bed.law(|law| law.recovery.clone()));
    assert_eq!(bed.law(|law| law.bounds), saved);
    bed.law(|law| {
        assert!(!law.cycle.prev_probe_too_high && !law.loss_round.is_loss_in_round);
        // The collapsed window lets the Reno rule start the next probe at once, before the undo.
        assert!(law.state == State::ProbeBw(Phase::Refill) || is_persistent);
    });
    assert!(bed.now() - down < secs(1));
    assert!(bed.run_to("probe_bw_up", secs(1)), "the probe goes on: {:?}", bed.trace());
}

#[test]
fn a18_handling_spurious_fast_recovery() {
    spurious(ms(4), ms(30), false);
}

#[test]
fn a19_handling_spurious_rto_recovery() {
    spurious(ms(500), ms(800), true);
}

#[test]
fn a20_entering_and_exiting_probe_rtt_during_startup() {
    let mut bed = Bed::new(Path::new(Rate::mbps(100), ms(40)), law);
    bed.set_steady(Rate::mbps(40));
    assert!(bed.run_to("probe_rtt", secs(6)), "{:?}", bed.trace());
    assert!(!bed.law(|law| law.full_pipe.full_bw_reached));
    let start = bed.now();
    assert!(bed.run_until(secs(1), |bed| bed.state() != "probe_rtt"));
    assert!(bed.now() > start + PROBE_RTT_DURATION);
    assert_eq!(bed.state(), "startup");
    // It goes on to find what the path carries.
    bed.set_bulk();
    assert!(bed.run_to("drain", secs(2)));
    assert!(is_within(max_bw(&bed), 3, Rate::mbps(100)), "{}", max_bw(&bed));
}

#[test]
fn a21_handling_loss_during_probe_up_after_inflight_longterm_is_set() {
    let mut bed = in_state("probe_bw_up", shallow());
    let before = longterm(&bed);
    assert_ne!(before, Bytes::MAX);
    bed.path.lose_every = Some(8);
    let mut target = Bytes::ZERO;
    assert!(bed.run_until(secs(1), |bed| {
        if bed.state() == "probe_bw_up" {
            target = bed.law(Bbr3::target_inflight);
        }
        bed.state() != "probe_bw_up"
    }));
    assert_eq!(bed.state(), "probe_bw_down");
    assert!(bed.law(|law| law.cycle.prev_probe_too_high && !law.cycle.is_bw_probe_sample));
    assert!(longterm(&bed) < before, "{} -> {}", before, longterm(&bed));
    assert!(longterm(&bed) >= target * Gain::percent(70));
}

#[test]
fn a22_handling_application_limited_sending_during_probe_refill() {
    let mut bed = in_state("probe_bw_refill", deep());
    let before = max_bw(&bed);
    bed.set_steady(Rate::mbps(2));
    assert!(bed.run_to("probe_bw_up", secs(1)));
    bed.run_for(ms(200));
    assert_eq!(bed.law(|law| law.state), State::ProbeBw(Phase::Up));
    assert_eq!(max_bw(&bed), before);
    bed.set_bulk();
    let from = bed.trace().len();
    assert!(bed.run_to("probe_bw_cruise", secs(3)), "{:?}", bed.trace());
    assert_eq!(since(&bed, from), ["probe_bw_down", "probe_bw_cruise"]);
    assert!(is_within(max_bw(&bed), 2, Rate::mbps(10)));
}
