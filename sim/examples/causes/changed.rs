//! A law of ours that differs in one respect or several.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warprate::cc::{LawFactory, PathStart, RateLaw};
use warprate::signal::{Ack, DeliverySample, Loss, Plan, Sent, Undo, Verdict};
use warprate::units::{Bytes, Rate};
use warpsim::host::tcp;
use warpsim::laws::Made;

/// What is taken away.
#[derive(Debug, Clone, Copy, Default)]
pub struct Removed {
    /// A start that doubles. In its place picoquic's: where the round trip exceeds 100 ms, the window is as
    /// many times larger as the round trip is longer, and grows by as many times what is acknowledged.
    pub short_start: bool,
    /// Not knowing the bandwidth. picoquic takes it from the spacing of the ACKs of unpaced bursts, and from the
    /// first round trip on its window is half of what the path carries in one; here the law is told the rate.
    pub unknown_rate: bool,
    /// Losses. picoquic's CUBIC answers them above a smoothed rate that one packet in 64 does not reach, and its
    /// BBR has 20 % in the place of 2 % as a probe's threshold.
    pub losses: bool,
    /// BBR's PROBE_RTT, where the window is halved every 5 s.
    pub probe_rtt: bool,
    /// An acknowledgement for every second packet. In its place one for ten.
    pub dense_acks: bool,
    /// The lone sample at the start of a round, by which the draft (section 5.3.1.2) sees whether bandwidth
    /// grows. In its place the largest of the round before, as Linux' BBRv3 looks at each.
    pub lone_samples: bool,
    /// Round trips shorter than the mean: BBR's model has the least one of 10 s, which jitter makes a
    /// fraction of what packets take.
    pub short_rtts: bool,
    /// Round trips that rise: HyStart++ (RFC 9406) leaves slow start at them, jitter or not.
    pub rises: bool,
    /// Growth in the first round of a recovery. In its place packet conservation, which BBRv1 and the drafts up to
    /// draft-cardwell-iccrg-bbr-congestion-control-02 have, and later ones do not.
    pub free_recovery: bool,
    /// The draft's least window over QUIC, a burst of a millisecond. In its place that of Linux' BBRv3 with offload:
    /// three bursts, each of a millisecond and of 64 KB halved for every 512 µs of round trip. There the bounds that
    /// losses taught lie below it; here they do not, so with losses it is an upper bound.
    pub small_bursts: bool,
    /// Growth in the later rounds of a recovery, too, which BBRv1 and all others have.
    pub late_growth: bool,
    /// Pacing until the law has found the path's capacity.
    pub paced_start: bool,
}

/// The law without what is `removed`, on a path that carries so much payload.
pub fn without(removed: Removed, rate: Rate, law: Made) -> Made {
    match law {
        Made::Own { factory: inner, .. } => {
            Made::Own { factory: Arc::new(Factory { inner, removed, rate }), is_paced: removed.dense_acks }
        }
        foreign => foreign,
    }
}

struct Factory {
    inner: Arc<dyn LawFactory>,
    removed: Removed,
    rate: Rate,
}

impl LawFactory for Factory {
    fn build(&self, start: PathStart) -> Box<dyn RateLaw> {
        let inner = self.inner.build(start);
        let initial = inner.plan(start.now).window;
        Box::new(Changed {
            inner,
            removed: self.removed,
            rate: self.rate,
            initial,
            start: None,
            has_started: false,
            peak: None,
            kept: None,
            conservation: Conservation::default(),
            least_rtt: None,
        })
    }
}

/// One of our laws without what has been taken away.
#[derive(Clone)]
struct Changed {
    inner: Box<dyn RateLaw>,
    removed: Removed,
    /// What the path carries.
    rate: Rate,
    initial: Bytes,
    /// The window of the long start, and the round trip that it is paced by.
    start: Option<(Bytes, Duration)>,
    /// Whether the law has found the path's capacity.
    has_started: bool,
    /// The largest delivery sample of this round.
    peak: Option<DeliverySample>,
    /// The plan before PROBE_RTT.
    kept: Option<Plan>,
    conservation: Conservation,
    /// The least round trip so far.
    least_rtt: Option<Duration>,
}

/// The window of a sender that conserves packets for a round when a recovery begins.
#[derive(Debug, Clone, Copy, Default)]
struct Conservation {
    window: Bytes,
    prior: Bytes,
    /// When the recovery began, and when its first round ended.
    recovery: Option<(Instant, Option<Instant>)>,
}

impl Conservation {
    fn on_loss(&mut self, loss: &Loss<'_>) {
        match self.recovery {
            Some(_) => self.window -= loss.bytes,
            None => {
                self.prior = self.window;
                self.window = loss.in_flight;
                self.recovery = Some((loss.now, None));
            }
        }
    }

    /// The window is `bound` at most; where `is_long`, the later rounds conserve, too.
    fn on_ack(&mut self, ack: &Ack, bound: Bytes, is_long: bool) {
        match self.recovery {
            Some((start, None)) if ack.newest.sent <= start => {
                self.window = self.window.max(ack.in_flight + ack.bytes);
            }
            Some((start, None)) => self.recovery = Some((start, Some(ack.now))),
            // What was lost in the first round and sent again in the second has arrived.
            Some((_, Some(end))) if ack.newest.sent > end => {
                self.window = self.window.max(self.prior);
                self.recovery = None;
            }
            _ if is_long => self.window = self.window.max(ack.in_flight + ack.bytes),
            _ => self.window += ack.bytes,
        }
        self.window = self.window.min(bound);
    }
}

impl Changed {
    /// Whether the law still looks for the path's capacity.
    fn is_starting(&self) -> bool {
        matches!(self.inner.state(), "startup" | "slow start")
    }

    /// The plan with the window that keeps offload on both ends busy.
    fn with_offload(&self, plan: Plan) -> Plan {
        let Some(rtt) = self.least_rtt.filter(|_| self.inner.state() != "probe_rtt") else { return plan };
        let halvings = u32::try_from(rtt.as_micros() / 512).unwrap_or(u32::MAX);
        let of_rtt = Bytes::new(MOST_BURST.get().checked_shr(halvings).unwrap_or(0));
        let of_rate = plan.rate.min(Rate::gbps(10)) * Duration::from_millis(1);
        let burst = (of_rate + of_rtt).clamp(tcp::MSS.times(2), MOST_BURST);
        Plan { window: plan.window.max(burst.times(3)), quantum: plan.quantum.max(burst), ..plan }
    }

    fn lengthen(&mut self, ack: &Ack) {
        let times = ack.rtt.min.as_secs_f64() / STANDARD_RTT.as_secs_f64();
        let Removed { short_start, unknown_rate, .. } = self.removed;
        if !(short_start || unknown_rate) || times <= 1.0 || self.has_started {
            self.start = None;
            return;
        }
        let times = if short_start { times } else { 1.0 };
        let before = self.start.map_or(scaled(self.initial, times), |(window, _)| window);
        let least = if unknown_rate { scaled(self.rate * ack.rtt.min, 0.5) } else { Bytes::ZERO };
        self.start = Some(((before + scaled(ack.bytes, times)).max(least), ack.rtt.smoothed));
    }
}

impl RateLaw for Changed {
    fn on_sent(&mut self, sent: &Sent) {
        self.inner.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &Ack) {
        let mut seen = *ack;
        if let Some(sample) = ack.sample.filter(|_| self.removed.lone_samples) {
            let peak = self.peak.filter(|peak| peak.rate > sample.rate).unwrap_or(sample);
            self.peak = Some(if ack.round_start { sample } else { peak });
            seen.sample = Some(if ack.round_start { peak } else { sample });
        }
        if self.removed.losses {
            seen.lost = ack.newest.lost;
        }
        if self.removed.rises {
            seen.rtt.latest = seen.rtt.min;
        }
        if self.removed.short_rtts {
            let latest = ack.now.saturating_duration_since(ack.newest.sent);
            seen.newest.sent = ack.now - latest.max(ack.rtt.smoothed);
        }
        self.inner.on_ack(&seen);
        self.least_rtt = Some(ack.rtt.min);
        self.has_started |= !self.is_starting();
        if self.removed.free_recovery {
            self.conservation.on_ack(ack, self.inner.plan(ack.now).window, self.removed.late_growth);
        }
        self.lengthen(ack);
        self.kept =
            if self.inner.state() == "probe_rtt" { self.kept } else { Some(self.inner.plan(ack.now)) };
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        if self.removed.free_recovery {
            self.conservation.on_loss(loss);
        }
        if !self.removed.losses {
            self.inner.on_loss(loss);
        }
    }

    fn on_verdict(&mut self, verdict: &Verdict) {
        self.inner.on_verdict(verdict);
    }

    fn on_undo(&mut self, undo: &Undo) {
        self.inner.on_undo(undo);
    }

    fn on_deadline(&mut self, now: Instant) {
        self.inner.on_deadline(now);
    }

    fn on_mtu(&mut self, datagram: Bytes) {
        self.inner.on_mtu(datagram);
    }

    fn plan(&self, now: Instant) -> Plan {
        let plan = self.inner.plan(now);
        if let Some((window, rtt)) = self.start {
            let rate = (window + window) / rtt;
            return Plan { rate: plan.rate.max(rate), window: plan.window.max(window), ..plan };
        }
        if self.removed.free_recovery && self.conservation.recovery.is_some() {
            let window = plan.window.min(self.conservation.window.max(LEAST_WINDOW));
            return Plan { window, ..plan };
        }
        let plan = if self.removed.small_bursts { self.with_offload(plan) } else { plan };
        let is_unpaced = self.removed.paced_start && !self.has_started;
        let plan = if is_unpaced { Plan::new(Rate::MAX, plan.window) } else { plan };
        match self.kept.filter(|_| self.removed.probe_rtt && self.inner.state() == "probe_rtt") {
            Some(kept) => Plan { until: plan.until, ..kept },
            None => plan,
        }
    }

    fn state(&self) -> &'static str {
        self.inner.state()
    }
}

impl fmt::Debug for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

fn scaled(bytes: Bytes, times: f64) -> Bytes {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and saturates")]
    Bytes::new((bytes.get() as f64 * times) as u64)
}

/// What a network card cuts into segments at most.
const MOST_BURST: Bytes = Bytes::kib(64);

/// Four segments, BBR's least.
const LEAST_WINDOW: Bytes = Bytes::new(4 * 1448);

/// The round trip up to which picoquic starts as everyone does.
const STANDARD_RTT: Duration = Duration::from_millis(100);
