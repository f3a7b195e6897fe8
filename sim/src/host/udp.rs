//! UDP cross traffic: constant-rate and on/off senders, and a sink.
//!
//! Timing is exact: the n-th packet of a burst leaves at the burst's start + n · size / rate, rounded
//! up once to 1 ps, so no error adds up. Rates and sizes count wire bytes, as links do: half the rate
//! of a link takes half of the link.

use warplink::{RandomStream, Span, Time, serialisation};
use warpunits::{Bytes, Rate};

use super::{Context, FlowStats, Host, Progress};
use crate::packet::{Body, Packet, RouteId};

/// What a UDP sender sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpOptions {
    /// Wire bytes per second while it sends.
    pub rate: Rate,
    /// Wire bytes of each packet.
    pub packet: Bytes,
    /// When it sends.
    pub pattern: Pattern,
    /// When its first packet leaves.
    pub start: Time,
    /// Nothing leaves from then on; [`Time::NEVER`] for no end.
    pub stop: Time,
    /// Where its packets go.
    pub route: RouteId,
}

/// When a UDP sender sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Always.
    Constant,
    /// Bursts of the first length with silences of the second between them, beginning with a burst.
    OnOff(Span, Span),
    /// The same with lengths drawn from exponential distributions of these means, from this seed.
    RandomOnOff(Span, Span, u64),
}

/// A sender that heeds nobody.
#[derive(Debug)]
pub struct UdpSender {
    options: UdpOptions,
    burst: Burst,
    /// Bursts begun.
    bursts: u64,
    sent: u64,
    first_sent: Option<Time>,
}

/// The burst at hand.
#[derive(Debug, Clone, Copy)]
struct Burst {
    start: Time,
    end: Time,
    /// Packets of it that have left.
    sent: u64,
}

impl UdpSender {
    /// A sender that is silent before its start.
    pub fn new(options: UdpOptions) -> Self {
        let burst = Burst { start: options.start, end: Time::NEVER, sent: 0 };
        let mut sender = Self { options, burst, bursts: 0, sent: 0, first_sent: None };
        sender.begin_burst(options.start);
        sender
    }

    fn begin_burst(&mut self, start: Time) {
        let (on, _) = self.lengths(self.bursts);
        self.bursts += 1;
        self.burst = Burst { start, end: start + on, sent: 0 };
    }

    /// Lengths of the n-th burst and of the silence after it.
    fn lengths(&self, n: u64) -> (Span, Span) {
        match self.options.pattern {
            Pattern::Constant => (Span::MAX, Span::ZERO),
            Pattern::OnOff(on, off) => (on, off),
            Pattern::RandomOnOff(on, off, seed) => (
                exponential(RandomStream::new(seed, BURSTS).bits(n), on),
                exponential(RandomStream::new(seed, SILENCES).bits(n), off),
            ),
        }
    }

    /// When the next packet leaves. Bursts too short for a single packet have one, since each begins
    /// with a packet; a sender whose bursts and silences have no length sends all the time.
    fn next_departure(&mut self) -> Time {
        loop {
            let elapsed = serialisation(self.options.packet.times(self.burst.sent), self.options.rate);
            let at = self.burst.start + elapsed;
            if self.burst.sent == 0 || at < self.burst.end {
                return if at < self.options.stop { at } else { Time::NEVER };
            }
            let (_, off) = self.lengths(self.bursts - 1);
            // Never faster than the rate, however short the burst was.
            let next = (self.burst.end + off).max(at);
            self.begin_burst(next);
        }
    }
}

impl Host for UdpSender {
    fn wake(&mut self, cx: &mut Context<'_>) {
        while self.next_departure() <= cx.now {
            self.burst.sent += 1;
            self.sent += 1;
            self.first_sent.get_or_insert(cx.now);
            let Self { options: UdpOptions { route, packet, .. }, .. } = *self;
            cx.outbox.push(Packet { route, hop: 0, wire: packet, ecn: None, body: Body::Filler });
        }
    }

    fn receive(&mut self, _packet: Packet, _cx: &mut Context<'_>) {}

    fn next_wake(&mut self) -> Time {
        self.next_departure()
    }

    /// Cross traffic keeps no run going.
    fn is_finished(&self) -> bool {
        true
    }

    fn progress(&self) -> Option<Progress> {
        Some(Progress { connected: self.first_sent, first_sent: self.first_sent, ..Progress::default() })
    }

    fn stats(&self) -> Option<FlowStats> {
        Some(FlowStats { datagrams_sent: self.sent, ..FlowStats::default() })
    }
}

/// Counts what arrives, in wire bytes.
#[derive(Debug, Default)]
pub struct Sink {
    packets: u64,
    progress: Progress,
}

impl Sink {
    /// A sink that has got nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Packets that arrived.
    pub fn packets(&self) -> u64 {
        self.packets
    }
}

impl Host for Sink {
    fn wake(&mut self, _cx: &mut Context<'_>) {}

    fn receive(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.packets += 1;
        self.progress.received += packet.wire;
        self.progress.last_received = Some(cx.now);
    }

    fn next_wake(&mut self) -> Time {
        Time::NEVER
    }

    fn is_finished(&self) -> bool {
        true
    }

    /// `received` counts wire bytes here.
    fn progress(&self) -> Option<Progress> {
        Some(self.progress)
    }
}

/// An exponentially distributed length: −mean · ln(u) with u = (bits + 1) / 2⁶⁴, in integers.
fn exponential(bits: u64, mean: Span) -> Span {
    const LN_2: u128 = 0xb172_17f7; // ln 2 in units of 2⁻³².
    let nats = (u128::from(minus_log2(bits)) * LN_2) >> 32;
    let picos = (u128::from(mean.as_picos()) * nats) >> 32;
    Span::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
}

/// −log₂((bits + 1) / 2⁶⁴) in units of 2⁻³²; at most 64.
///
/// The whole part is the number of leading zeros; each squaring of the mantissa gives one binary digit
/// of the rest.
fn minus_log2(bits: u64) -> u64 {
    let Some(u) = bits.checked_add(1) else { return 0 };
    let zeros = u64::from(u.leading_zeros());
    // In [1, 2) with 63 fractional bits.
    let mut mantissa = u << zeros;
    let mut log = 0u64;
    for _ in 0..LOG_DIGITS {
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        let digit = u64::from(square >= 1 << 64);
        log = (log << 1) | digit;
        mantissa = u64::try_from(square >> digit).expect("the digit says whether it needs a shift");
    }
    ((zeros + 1) << LOG_DIGITS) - log
}

const LOG_DIGITS: u32 = 32;

/// The purposes of a sender's random streams.
const BURSTS: u64 = 1;
const SILENCES: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_exact_to_the_last_digits() {
        for bits in [0, 1, 2, 1 << 20, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX, 0x1234_5678_9abc_def0]
        {
            let expected = 64.0 - ((bits as f64) + 1.0).log2();
            let found = minus_log2(bits) as f64 / 2f64.powi(32);
            assert!((found - expected).abs() < 1e-8, "{bits}: {found} instead of {expected}");
        }
    }

    #[test]
    fn lengths_have_the_mean_and_spread_of_an_exponential() {
        let stream = RandomStream::new(7, 1);
        let mean = 1_000_000.0;
        let lengths: Vec<f64> = (0..20_000)
            .map(|n| exponential(stream.bits(n), Span::from_picos(1_000_000)).as_picos() as f64 / mean)
            .collect();
        let sum: f64 = lengths.iter().sum();
        let squares: f64 = lengths.iter().map(|x| x * x).sum();
        // One standard deviation of the mean is 0.007, of the mean square 0.03.
        assert!((sum / 20_000.0 - 1.0).abs() < 0.03, "{}", sum / 20_000.0);
        assert!((squares / 20_000.0 - 2.0).abs() < 0.13, "{}", squares / 20_000.0);
    }
}
