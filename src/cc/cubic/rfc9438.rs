//! What RFC 9438 demands of a sender, by section.

use super::*;
use crate::test_clock::{ms, t0};

const SEGMENT: Bytes = Bytes::new(1000);
const RTT: Duration = ms(100);

/// A sender in congestion avoidance (or where `slow_start` says) with a window of so many segments.
struct Sender {
    law: Cubic,
    now: Instant,
}

impl Sender {
    fn new(segments: u64) -> Self {
        Self::with_increase(segments, Increase::PerByte)
    }

    fn with_increase(segments: u64, increase: Increase) -> Self {
        let mut law = Cubic::with_increase(PathStart::new(t0(), SEGMENT), increase);
        law.curve.window = SEGMENT.times(segments);
        Self { law, now: t0() + ms(1000) }
    }

    fn window(&self) -> Bytes {
        self.law.plan(self.now).window
    }

    /// The window in thousandths of a segment.
    fn segments(&self) -> f64 {
        self.window().get() as f64 / 1000.0
    }

    fn after(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        self
    }

    fn packet(&self, is_app_limited: bool) -> Snapshot {
        Snapshot {
            sent: self.now - RTT,
            bytes: SEGMENT,
            tx_in_flight: self.window(),
            delivered: Bytes::ZERO,
            delivered_at: self.now - RTT,
            first_sent: self.now - RTT,
            lost: Bytes::ZERO,
            app_limited: is_app_limited,
            round: 0,
        }
    }

    fn ack_from(&mut self, segments: u64, is_app_limited: bool) {
        let rtt = Rtt { latest: RTT, min: RTT, smoothed: RTT, deviation: Duration::ZERO };
        self.law.on_ack(&Ack {
            now: self.now,
            bytes: SEGMENT.times(segments),
            packets: u32::try_from(segments).unwrap(),
            in_flight: Bytes::ZERO,
            newest: self.packet(is_app_limited),
            rtt,
            delay: crate::signal::Delay::default(),
            sample: None,
            delivered: Bytes::ZERO,
            lost: Bytes::ZERO,
            round: 0,
            round_start: false,
        });
    }

    fn ack(&mut self, segments: u64) -> &mut Self {
        self.ack_from(segments, false);
        self
    }

    /// Has a window acknowledged at one instant, `every` segments per ACK.
    fn ack_window(&mut self, every: u64) -> &mut Self {
        let segments = self.window().get() / SEGMENT.get();
        for _ in 0..segments / every {
            self.ack(every);
        }
        self
    }

    fn lose(&mut self) -> Snapshot {
        let packet = self.packet(false);
        self.lose_packet(packet, false);
        packet
    }

    fn lose_packet(&mut self, packet: Snapshot, persistent: bool) {
        self.law.on_loss(&Loss {
            now: self.now,
            packets: &[packet],
            bytes: packet.bytes,
            in_flight: Bytes::ZERO,
            lost: packet.bytes,
            persistent,
        });
    }

    fn mark(&mut self) {
        let kind = crate::signal::VerdictKind::Mark;
        let newest = self.now - RTT;
        self.law.on_verdict(&Verdict {
            now: self.now,
            kind,
            newest,
            packets: 1,
            bytes: Bytes::ZERO,
            queue: Duration::ZERO,
        });
    }

    /// A sender that was reduced from 100 segments and then begins avoidance: W_max = 100, W = 70.
    fn after_a_loss_at_100() -> Self {
        let mut sender = Self::new(100);
        sender.lose();
        sender.after(RTT + ms(1)).ack(0);
        sender
    }
}

fn close(actual: f64, expected: f64, tolerance: f64) {
    assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected} ± {tolerance}");
}

#[test]
fn s4_1_the_constants_are_those_of_the_rfc() {
    assert_eq!((BETA, C_NUM * 10, ALPHA), (Gain::percent(70), C_DEN * 4, (9, 17)));
}

#[test]
fn s4_2_k_is_the_cube_root_of_the_depth_over_c() {
    // ∛(0.3 · 100 / 0.4) = ∛75 = 4.217163 s.
    assert_eq!(time_to_plateau(SEGMENT.times(30), SEGMENT), Duration::from_micros(4_217_163));
    assert_eq!(time_to_plateau(Bytes::ZERO, SEGMENT), Duration::ZERO);
}

#[test]
fn s4_2_the_curve_is_concave_flat_and_convex() {
    let sender = Sender::after_a_loss_at_100();
    let epoch = sender.law.curve.epoch.as_ref().expect("avoidance has begun");
    let at = |t| epoch.window_at(t, SEGMENT).get() as f64 / 1000.0;
    close(at(Duration::ZERO), 70.0, 0.002);
    // C · (2 − 4.217163)³ = −4.3597.
    close(at(ms(2000)), 95.640, 0.002);
    close(at(epoch.k), 100.0, 0.001);
    close(at(epoch.k * 2), 130.0, 0.002);
}

#[test]
fn s4_2_the_target_is_at_most_one_and_a_half_windows() {
    let mut sender = Sender::after_a_loss_at_100();
    // Long after K the curve is far above: one window of ACKs raises the window by a half, no more.
    sender.after(Duration::from_secs(60)).ack_window(1);
    close(sender.segments(), 105.0, 0.2);
}

#[test]
fn s4_2_time_in_which_the_application_limits_does_not_count() {
    let mut without_pause = Sender::after_a_loss_at_100();
    without_pause.after(ms(1000)).ack_window(1);
    let mut with_pause = Sender::after_a_loss_at_100();
    with_pause.ack_from(1, true);
    with_pause.after(Duration::from_secs(60)).ack_from(1, true);
    // The limit ends now; a second later the curve is where it is without a pause.
    with_pause.ack(0);
    with_pause.after(ms(1000)).ack_window(1);
    assert_eq!(with_pause.window(), without_pause.window());
}

#[test]
fn s4_3_the_estimate_grows_like_reno_with_the_same_average() {
    // At a window of 10 and 100 ms the curve is below Reno's estimate: W_est += 9/17 per round trip.
    let mut sender = Sender::new(10);
    sender.lose();
    sender.after(RTT + ms(1)).ack(0);
    close(sender.segments(), 7.0, 0.001);
    let k = sender.law.curve.epoch.as_ref().expect("avoidance").k;
    assert!(k > ms(1900), "the curve stays low: K = {k:?}");
    sender.after(ms(1)).ack_window(1);
    close(sender.segments(), 7.0 + 9.0 / 17.0, 0.03);
}

#[test]
fn s4_3_once_the_estimate_has_reached_the_prior_window_it_grows_by_one() {
    let mut sender = Sender::after_a_loss_at_100();
    let curve = &mut sender.law.curve;
    let epoch = curve.epoch.as_mut().expect("avoidance");
    epoch.estimate = curve.prior;
    let before = epoch.estimate;
    epoch.estimate_reno(curve.window, curve.window, curve.prior, SEGMENT);
    assert_eq!(epoch.estimate, before + SEGMENT);
}

#[test]
fn s4_4_growth_does_not_depend_on_how_often_the_receiver_acknowledges() {
    let grown = |every| {
        let mut sender = Sender::after_a_loss_at_100();
        // A huge plateau pins the target at 1.5 windows.
        sender.law.curve.epoch.as_mut().expect("avoidance").origin = SEGMENT.times(1_000_000);
        sender.law.curve.window = SEGMENT.times(100);
        sender.ack_window(every).segments()
    };
    for every in [1, 2, 10, 50] {
        close(grown(every), 150.0, 0.01);
    }
}

#[test]
fn s4_4_the_published_increase_depends_on_it() {
    let grown = |every| {
        let mut sender = Sender::with_increase(100, Increase::Literal);
        sender.lose();
        sender.after(RTT + ms(1)).ack(0);
        sender.law.curve.epoch.as_mut().expect("avoidance").origin = SEGMENT.times(1_000_000);
        sender.law.curve.window = SEGMENT.times(100);
        sender.ack_window(every).segments() - 100.0
    };
    // Per ACK frame half a segment.
    close(grown(1), 50.0, 0.01);
    close(grown(2), 25.0, 0.01);
    close(grown(10), 5.0, 0.01);
}

#[test]
fn s4_5_an_ack_never_lowers_the_window() {
    let mut sender = Sender::after_a_loss_at_100();
    let mut last = sender.window();
    for _ in 0..2_000 {
        sender.after(ms(7)).ack(1);
        assert!(sender.window() >= last);
        last = sender.window();
    }
}

#[test]
fn s4_6_a_loss_and_a_mark_leave_seven_tenths() {
    let mut sender = Sender::new(100);
    sender.lose();
    assert_eq!((sender.window(), sender.law.curve.ssthresh), (SEGMENT.times(70), SEGMENT.times(70)));
    let mut sender = Sender::new(100);
    sender.mark();
    assert_eq!(sender.window(), SEGMENT.times(70));
}

#[test]
fn s4_6_the_window_never_falls_below_two_segments() {
    let mut sender = Sender::new(10);
    for _ in 0..20 {
        sender.lose();
        sender.after(RTT * 2);
    }
    assert_eq!(sender.window(), SEGMENT.times(2));
}

#[test]
fn s4_6_one_round_trip_is_answered_once() {
    let mut sender = Sender::new(100);
    sender.lose();
    sender.after(ms(50));
    sender.lose();
    sender.mark();
    assert_eq!(sender.window(), SEGMENT.times(70));
    sender.after(RTT);
    sender.lose();
    assert_eq!(sender.window(), SEGMENT.times(49));
}

#[test]
fn s4_7_a_flow_that_lost_ground_gives_some_more() {
    let mut sender = Sender::new(100);
    sender.lose();
    sender.after(RTT * 2);
    sender.lose();
    // 70 < 100: W_max = 70 · 0.85, and the curve starts from the true window of 49.
    assert_eq!(sender.law.curve.max, Some(SEGMENT.times(70) * FAST_CONVERGENCE));
    sender.after(RTT + ms(1)).ack(0);
    let epoch = sender.law.curve.epoch.as_ref().expect("avoidance");
    assert_eq!(epoch.origin, Bytes::new(59_500));
    // ∛((59.5 − 49) / 0.4) = ∛26.25 = 2.97196 s.
    close(epoch.k.as_secs_f64(), 2.971_96, 0.000_01);
}

#[test]
fn s4_7_a_flow_that_gained_ground_keeps_its_plateau() {
    let mut sender = Sender::after_a_loss_at_100();
    sender.law.curve.window = SEGMENT.times(120);
    sender.after(RTT);
    sender.lose();
    assert_eq!(sender.law.curve.max, Some(SEGMENT.times(120)));
}

#[test]
fn s4_8_persistent_congestion_starts_anew_and_then_with_a_flat_curve() {
    let mut sender = Sender::new(100);
    let packet = sender.packet(false);
    sender.lose_packet(packet, true);
    assert_eq!((sender.window(), sender.law.state()), (SEGMENT.times(2), "slow start"));
    // Slow start back to 0.7 of the window, without HyStart++, which is for the initial one only.
    while sender.window() < SEGMENT.times(70) {
        sender.after(RTT).ack(1);
    }
    let begun = sender.window();
    sender.ack(0);
    let epoch = sender.law.curve.epoch.as_ref().expect("avoidance");
    assert_eq!((epoch.k, epoch.origin, epoch.estimate), (Duration::ZERO, begun, begun));
}

#[test]
fn s4_9_a_spurious_reduction_is_undone_entirely() {
    let mut sender = Sender::after_a_loss_at_100();
    sender.after(ms(500)).ack_window(1);
    let before = sender.law.curve.clone();
    let packet = sender.lose();
    sender.after(ms(10));
    sender.law.on_undo(&Undo { now: sender.now, packet });
    let after = &sender.law.curve;
    assert_eq!(
        (after.window, after.ssthresh, after.max, after.prior),
        (before.window, before.ssthresh, before.max, before.prior)
    );
    assert_eq!(after.epoch.as_ref().map(|epoch| epoch.k), before.epoch.as_ref().map(|epoch| epoch.k));
}

#[test]
fn s4_9_a_reduction_stands_while_any_of_its_losses_stands() {
    let mut sender = Sender::new(100);
    let packet = sender.lose();
    let mut other = packet;
    other.sent += ms(1);
    sender.lose_packet(other, false);
    sender.law.on_undo(&Undo { now: sender.now, packet });
    assert_eq!(sender.window(), SEGMENT.times(70));
    sender.law.on_undo(&Undo { now: sender.now, packet: other });
    assert_eq!(sender.window(), SEGMENT.times(100));
}

#[test]
fn s4_9_a_mark_is_never_undone() {
    let mut sender = Sender::new(100);
    let packet = sender.packet(false);
    sender.mark();
    sender.law.on_undo(&Undo { now: sender.now, packet });
    assert_eq!(sender.window(), SEGMENT.times(70));
}

#[test]
fn s4_10_slow_start_counts_bytes() {
    for every in [1, 2, 10] {
        let mut sender = Sender::new(10);
        sender.ack_window(every);
        assert_eq!(sender.window(), SEGMENT.times(20), "every {every}");
    }
}

#[test]
fn s4_10_leaving_slow_start_without_a_loss_begins_a_flat_curve() {
    let mut sender = Sender::new(50);
    sender.law.curve.ssthresh = SEGMENT.times(50);
    sender.ack(0);
    let curve = &sender.law.curve;
    let epoch = curve.epoch.as_ref().expect("avoidance");
    assert_eq!(
        (curve.max, curve.prior, epoch.k),
        (Some(SEGMENT.times(50)), SEGMENT.times(50), Duration::ZERO)
    );
}

#[test]
fn s5_8_a_window_that_is_not_used_does_not_grow_and_does_not_jump_after() {
    let mut sender = Sender::after_a_loss_at_100();
    let before = sender.window();
    sender.ack_from(5, true);
    for _ in 0..100 {
        sender.after(ms(1000)).ack_from(5, true);
    }
    assert_eq!(sender.window(), before);
    // The curve stands where it stood, at t = 0, and one window of ACKs counts for Reno's estimate only.
    sender.ack_window(1);
    close(sender.segments(), 70.0 + 9.0 / 17.0, 0.01);
}

#[test]
fn s5_8_a_whole_window_after_a_pause_counts_at_once() {
    let mut sender = Sender::new(10);
    sender.law.on_sent(&Sent {
        now: sender.now,
        bytes: SEGMENT,
        in_flight: SEGMENT.times(10),
        app_limited: true,
    });
    sender.ack_from(10, true);
    assert_eq!(sender.window(), SEGMENT.times(20));
}

#[test]
fn large_windows_do_not_overflow() {
    // 100 Gbit/s over 1 s: 12.5 GB in segments of 1000 bytes.
    let mut sender = Sender::new(12_500_000);
    sender.lose();
    sender.after(RTT + ms(1)).ack(0);
    let before = sender.window();
    sender.after(Duration::from_secs(86_400)).ack(10_000);
    assert!(sender.window() > before && sender.window() < before * Gain::ratio(3, 2));
}

#[test]
fn the_cube_root_is_exact() {
    for root in [0u64, 1, 2, 4_217_163, 1 << 40] {
        let cube = u128::from(root).pow(3);
        assert_eq!(cube_root(cube), root);
        if root > 1 {
            assert_eq!((cube_root(cube - 1), cube_root(cube + 1)), (root - 1, root));
        }
    }
}
