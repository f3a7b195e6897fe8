//! "When?" A plan and a clock make a [`Release`].
//!
//! *What it decides:* the instant at which the next burst may leave, and its size. *In:* the law's
//! rate, the anchor (the line rate of the interface), departures. *Out:* a [`Release`].
//! *May import:* `units` and `signal`.
//!
//! The model, with debt D in bytes:
//! ```text
//! D grows by the size of what leaves and falls by rate · time, where rate = min(plan, anchor)
//! a burst may leave when D <= 0; it is at most one quantum
//! quantum = clamp(rate · 250 us, one datagram, 64 KB)
//! ```
//! So what has left is never ahead of `rate · time + quantum`. A wake-up that comes late leaves D
//! below zero; the shortfall is made up, but never in one burst: in quanta at most twice as frequent as
//! the plan's, of which a late one counts half a quantum's time as waited, and no more than 5 ms of it.
//! What a stalled host missed beyond that is not the network's to bear: it is forgiven, and counted.
//! Time in which there was nothing to send, or no room in the window, earns nothing.

use std::time::{Duration, Instant};

use crate::signal::{Plan, Release};
use crate::units::{Bytes, Gain, Rate};

/// The send clock of one path.
#[derive(Debug, Clone)]
pub struct Pacer {
    anchor: Rate,
    rate: Rate,
    quantum: Bytes,
    datagram: Bytes,
    debt: Debt,
    /// Falls at [`CATCH_UP`] times the rate: the spacing of bursts while a shortfall is made up.
    spacing: Debt,
    /// Nothing was waiting to leave, so the time since then earns nothing.
    is_resting: bool,
    /// Shortfall that is not made up, in 10⁻⁹ bytes.
    missed: i128,
}

impl Pacer {
    /// A pacer that never exceeds `anchor` and sends datagrams of size `datagram`.
    ///
    /// It releases nothing before the first [`follow`](Self::follow).
    pub fn new(now: Instant, anchor: Rate, datagram: Bytes) -> Self {
        Self {
            anchor,
            rate: Rate::ZERO,
            quantum: datagram,
            datagram,
            debt: Debt { byte_nanos: 0, at: now },
            spacing: Debt { byte_nanos: 0, at: now },
            is_resting: true,
            missed: 0,
        }
    }

    /// Takes up a law's plan; what has left so far keeps its weight in bytes.
    pub fn follow(&mut self, now: Instant, plan: &Plan) {
        let rate = plan.rate.min(self.anchor);
        self.quantum = plan.quantum.min(quantum(rate)).max(self.datagram);
        if rate != self.rate {
            self.settle(now);
            self.rate = rate;
        }
    }

    /// The interface now has this line rate; it bounds the plans that follow.
    pub fn set_anchor(&mut self, anchor: Rate) {
        self.anchor = anchor;
    }

    /// The path now carries datagrams of this size.
    pub fn on_mtu(&mut self, datagram: Bytes) {
        self.datagram = datagram;
        self.quantum = self.quantum.max(datagram);
    }

    /// Whether a burst may leave.
    pub fn release(&mut self, now: Instant) -> Release {
        if self.rate.is_zero() {
            return Release::OnAck;
        }
        self.settle(now);
        self.is_resting = false;
        let at = self.debt.paid_at(self.rate).max(self.spacing.paid_at(self.rate * CATCH_UP));
        if at <= now { Release::Now { bytes: self.quantum } } else { Release::At(at) }
    }

    /// Books a departure, released or not: acknowledgements that had to leave early and probes owe
    /// their bytes to the packets after them.
    pub fn on_sent(&mut self, now: Instant, bytes: Bytes) {
        self.settle(now);
        self.debt.add(bytes);
        self.spacing.add(bytes);
    }

    /// There is nothing to send, or no room for it: from now until the next release nothing is earned.
    pub fn rest(&mut self, now: Instant) {
        self.settle(now);
        self.is_resting = true;
    }

    /// Bytes that left ahead of the plan.
    pub fn debt(&self) -> Bytes {
        self.debt.bytes()
    }

    /// Bytes that the plan allowed, and that the host came too late to send.
    pub fn missed(&self) -> Bytes {
        whole(self.missed)
    }

    /// What it never exceeds.
    pub fn anchor(&self) -> Rate {
        self.anchor
    }

    /// The rate at which packets leave: the law's, bounded by the anchor.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Brings the debt up to `now`.
    fn settle(&mut self, now: Instant) {
        self.debt.pay(now, self.rate);
        if self.is_resting {
            self.debt.floor(Bytes::ZERO);
        } else {
            let forgiven = self.debt.floor((self.rate * MOST_LAG).max(self.quantum));
            self.missed = self.missed.saturating_add(forgiven);
        }
        self.spacing.pay(now, self.rate * CATCH_UP);
        let prepaid = if self.is_resting { Bytes::ZERO } else { self.quantum * MOST_PREPAID };
        self.spacing.floor(prepaid);
    }
}

/// What the clock can place: [`GRAIN`] of the rate, at most a GSO batch.
fn quantum(rate: Rate) -> Bytes {
    (rate * GRAIN).min(LARGEST_BURST)
}

/// Bytes owed, in units that lose nothing to rounding however often they are settled: 10⁻⁹ bytes.
#[derive(Debug, Clone)]
struct Debt {
    byte_nanos: i128,
    at: Instant,
}

impl Debt {
    fn add(&mut self, bytes: Bytes) {
        self.byte_nanos += i128::from(bytes.get()) * NANOS;
    }

    fn pay(&mut self, now: Instant, rate: Rate) {
        let nanos = now.saturating_duration_since(self.at).as_nanos();
        let paid = u128::from(rate.as_bytes_per_sec()).saturating_mul(nanos);
        self.byte_nanos = self.byte_nanos.saturating_sub(i128::try_from(paid).unwrap_or(i128::MAX));
        self.at = self.at.max(now);
    }

    /// Limits what may be made up later; how much of it that takes away, in 10⁻⁹ bytes.
    fn floor(&mut self, credit: Bytes) -> i128 {
        let floor = -i128::from(credit.get()) * NANOS;
        let excess = floor.saturating_sub(self.byte_nanos).max(0);
        self.byte_nanos = self.byte_nanos.max(floor);
        excess
    }

    fn bytes(&self) -> Bytes {
        whole(self.byte_nanos)
    }

    fn paid_at(&self, rate: Rate) -> Instant {
        let Ok(owed) = u128::try_from(self.byte_nanos) else { return self.at };
        let nanos = owed.div_ceil(u128::from(rate.as_bytes_per_sec()));
        self.at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(LONGEST_GAP)
    }
}

fn whole(byte_nanos: i128) -> Bytes {
    Bytes::new(u64::try_from(byte_nanos.max(0) / NANOS).unwrap_or(u64::MAX))
}

const NANOS: i128 = 1_000_000_000;

/// Burst length in time. A timerfd on a plain host fires 43 us late at the median and 115 us at the
/// 99th percentile, so 250 us keep the clock ahead of its own error; ten of them fit the 2.5 ms that
/// a gigabit switch port with a shallow buffer holds.
const GRAIN: Duration = Duration::from_micros(250);

/// The largest UDP GSO batch.
const LARGEST_BURST: Bytes = Bytes::new(65_507);

/// How much more often than planned bursts may leave while a shortfall is made up. At 5/4, wake-ups that
/// are 100 us late each time, as on a busy host, would cost a sixth of the rate: there must be room for
/// the lateness within a burst's time.
const CATCH_UP: Gain = Gain::ratio(2, 1);

/// How much of the spacing a late wake-up may have waited already.
const MOST_PREPAID: Gain = Gain::ratio(1, 2);

/// Most time whose shortfall is made up: a scheduler's slice or two.
const MOST_LAG: Duration = Duration::from_millis(5);

/// Keeps instants representable at rates near zero.
const LONGEST_GAP: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_clock::{ms, t0, us};

    const DATAGRAM: Bytes = Bytes::new(1452);

    fn pacer(rate: Rate) -> Pacer {
        let mut pacer = Pacer::new(t0(), Rate::gbps(10), DATAGRAM);
        pacer.follow(t0(), &Plan::new(rate, Bytes::MAX));
        pacer
    }

    /// Sends whole datagrams up to the burst that `release` grants; the bytes that left.
    fn send_burst(pacer: &mut Pacer, now: Instant) -> Bytes {
        let Release::Now { bytes } = pacer.release(now) else { return Bytes::ZERO };
        let datagrams = bytes.get() / DATAGRAM.get();
        for _ in 0..datagrams {
            pacer.on_sent(now, DATAGRAM);
        }
        DATAGRAM.times(datagrams)
    }

    /// Sends for `time`, woken `late(i)` after the i-th release; every burst.
    fn run(
        pacer: &mut Pacer,
        time: Duration,
        mut late: impl FnMut(u64) -> Duration,
    ) -> Vec<(Instant, Bytes)> {
        let mut now = t0();
        let mut bursts = Vec::new();
        for i in 0.. {
            match pacer.release(now) {
                Release::Now { .. } => bursts.push((now, send_burst(pacer, now))),
                Release::At(at) => now = at + late(i),
                Release::OnAck => unreachable!("the rate is not zero"),
            }
            if now > t0() + time {
                break;
            }
        }
        bursts
    }

    fn total(bursts: &[(Instant, Bytes)]) -> Bytes {
        bursts.iter().map(|&(_, bytes)| bytes).sum()
    }

    #[test]
    fn the_mean_rate_holds_within_a_percent_over_a_second() {
        for rate in [Rate::mbps(1), Rate::mbps(10), Rate::mbps(95), Rate::gbps(1), Rate::gbps(10)] {
            let expected = (rate * ms(1000)).get();
            let sent = total(&run(&mut pacer(rate), ms(1000), |_| Duration::ZERO)).get();
            // A second ends within a burst, so one burst is allowed for.
            let allowed = expected / 100 + quantum(rate).max(DATAGRAM).get();
            assert!(sent.abs_diff(expected) <= allowed, "{rate}: {sent} of {expected}");
        }
    }

    #[test]
    fn late_wake_ups_cost_no_rate() {
        // Late as a timerfd is on a busy host: 100 us usually, 200 us at times, and a stall of 4 ms every
        // second or so.
        let late = |i: u64| match i {
            i if i % 4000 == 999 => ms(4),
            i if i % 50 == 0 => us(200),
            _ => us(100),
        };
        for rate in [Rate::mbps(10), Rate::mbps(95), Rate::gbps(1)] {
            let expected = (rate * ms(1000)).get();
            let sent = total(&run(&mut pacer(rate), ms(1000), late)).get();
            assert!(sent.abs_diff(expected) <= expected / 100, "{rate}: {sent} of {expected}");
        }
    }

    #[test]
    fn a_long_stall_is_not_made_up_in_a_burst() {
        let rate = Rate::mbps(100);
        let mut pacer = pacer(rate);
        send_burst(&mut pacer, t0());
        let bursts = {
            let mut bursts = Vec::new();
            let mut now = t0() + ms(500);
            while now < t0() + ms(510) {
                match pacer.release(now) {
                    Release::Now { .. } => bursts.push((now, send_burst(&mut pacer, now))),
                    Release::At(at) => now = at,
                    Release::OnAck => unreachable!("the rate is not zero"),
                }
            }
            bursts
        };
        // 10 ms at twice the rate at most, of which 5 ms are made up, and no burst above 250 us.
        assert!(total(&bursts) <= rate * ms(15) + quantum(rate));
        assert!(bursts.iter().all(|&(_, bytes)| bytes <= quantum(rate)));
    }

    #[test]
    fn rest_earns_nothing() {
        let rate = Rate::mbps(100);
        let mut pacer = pacer(rate);
        send_burst(&mut pacer, t0());
        pacer.rest(t0());
        assert_eq!(send_burst(&mut pacer, t0() + ms(100)), DATAGRAM.times(2));
        assert!(matches!(pacer.release(t0() + ms(100)), Release::At(_)));
    }

    #[test]
    fn the_anchor_bounds_every_plan() {
        let mut pacer = Pacer::new(t0(), Rate::mbps(100), DATAGRAM);
        pacer.follow(t0(), &Plan::new(Rate::MAX, Bytes::MAX));
        assert_eq!(pacer.rate(), Rate::mbps(100));
        assert!(total(&run(&mut pacer, ms(1000), |_| Duration::ZERO)) <= Bytes::new(12_500_000 + 3125));
    }

    #[test]
    fn an_anchor_that_moves_bounds_the_next_plan() {
        let mut pacer = Pacer::new(t0(), Rate::mbps(100), DATAGRAM);
        let plan = Plan::new(Rate::mbps(80), Bytes::MAX);
        for (anchor, rate) in [(10, 10), (1000, 80)] {
            pacer.set_anchor(Rate::mbps(anchor));
            pacer.follow(t0(), &plan);
            assert_eq!(pacer.rate(), Rate::mbps(rate));
        }
    }

    #[test]
    fn a_rate_of_zero_waits_for_feedback() {
        assert_eq!(pacer(Rate::ZERO).release(t0() + ms(1000)), Release::OnAck);
    }

    #[test]
    fn the_quantum_is_a_datagram_at_least_and_a_gso_batch_at_most() {
        let burst = |rate| match pacer(rate).release(t0()) {
            Release::Now { bytes } => bytes,
            other => panic!("the first burst leaves at once, not {other:?}"),
        };
        assert_eq!(burst(Rate::mbps(1)), DATAGRAM);
        assert_eq!(burst(Rate::mbps(100)), Bytes::new(3125));
        assert_eq!(burst(Rate::gbps(10)), LARGEST_BURST);
    }

    #[test]
    fn a_faster_plan_shortens_the_wait_in_proportion() {
        let mut pacer = pacer(Rate::mbps(1));
        send_burst(&mut pacer, t0());
        assert_eq!(pacer.release(t0()), Release::At(t0() + us(11_616)));
        pacer.follow(t0(), &Plan::new(Rate::mbps(2), Bytes::MAX));
        assert_eq!(pacer.release(t0()), Release::At(t0() + us(5_808)));
    }

    #[test]
    fn what_left_under_a_tiny_rate_does_not_hold_back_a_large_one() {
        for tiny in [Rate::ZERO, Rate::bytes_per_sec(1)] {
            let mut pacer = pacer(tiny);
            pacer.on_sent(t0(), DATAGRAM);
            pacer.follow(t0(), &Plan::new(Rate::mbps(1), Bytes::MAX));
            assert_eq!(pacer.release(t0()), Release::At(t0() + us(11_616)), "{tiny}");
        }
    }

    #[test]
    fn what_left_early_is_owed() {
        let mut pacer = pacer(Rate::mbps(1));
        send_burst(&mut pacer, t0());
        pacer.on_sent(t0(), DATAGRAM);
        assert_eq!(pacer.release(t0()), Release::At(t0() + us(2 * 11_616)));
    }

    proptest! {
        /// Whatever the wake-ups: no burst above the quantum, never ahead of the plan by more than a
        /// quantum, and in no window more than twice the plan plus a quantum and a half.
        #[test]
        fn bursts_stay_bounded(
            mbps in 1u64..2000,
            late in prop::collection::vec(0u64..20_000, 1..60),
        ) {
            let rate = Rate::mbps(mbps);
            let quantum = quantum(rate).max(DATAGRAM);
            let mut pacer = pacer(rate);
            let bursts = run(&mut pacer, ms(50), |i| us(late[usize::try_from(i).unwrap() % late.len()]));
            let mut sent = Bytes::ZERO;
            for (i, &(at, bytes)) in bursts.iter().enumerate() {
                prop_assert!(bytes <= quantum);
                sent += bytes;
                prop_assert!(sent <= rate * (at - t0()) + quantum);
                let recent: Bytes = bursts[..=i].iter().rev().take(8).map(|&(_, bytes)| bytes).sum();
                let since = at - bursts[i.saturating_sub(7)].0;
                prop_assert!(recent <= (rate * CATCH_UP) * since + quantum * Gain::ratio(3, 2) + Bytes::new(8));
            }
        }

        /// Arbitrary calls never panic.
        #[test]
        fn the_pacer_is_total(ops in prop::collection::vec((0u8..5, any::<u64>(), 0u64..1 << 40), 0..100)) {
            let mut pacer = Pacer::new(t0(), Rate::MAX, DATAGRAM);
            let mut now = t0();
            for (op, x, nanos) in ops {
                now += Duration::from_nanos(nanos);
                match op {
                    0 => pacer.follow(now, &Plan::new(Rate::bytes_per_sec(x), Bytes::new(x))),
                    1 => { pacer.release(now); }
                    2 => pacer.on_sent(now, Bytes::new(x)),
                    3 => pacer.rest(now),
                    _ => pacer.on_mtu(Bytes::new(x % 65_536)),
                }
            }
        }
    }
}
