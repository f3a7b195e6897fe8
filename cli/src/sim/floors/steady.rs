//! Steady states: who shares a bottleneck of 100 Mbit/s, and what is asked of them.

use std::time::Duration;

use warpsim::dumbbell::{Dumbbell, Flow};
use warpsim::topology::text::{Buffer, Multiple};
use warpsim::topology::{HostKind, LawSpec};
use warpunits::{Bytes, Rate};

use super::bound::Bound::{self, AtLeast, AtMost, Within};
use super::measure::Measure::{self, Jain, Loss, OurShare, Queue, TheirShare, Utilisation};

/// Flows over a bottleneck, the last two thirds of a minute of which count.
pub struct Steady {
    pub name: &'static str,
    /// What waits at most, in percent of the [`BDP`].
    pub buffer_percent: u64,
    pub flows: &'static [Sender],
    pub lines: Lines,
}

/// What is measured, its floor and its goal.
pub type Lines = &'static [(Measure, Option<Bound>, Option<Bound>)];

/// A flow of it.
pub struct Sender {
    /// Its law; without it, the law under test.
    pub law: Option<&'static str>,
    pub rtt_ms: u64,
    pub start_s: u64,
}

impl Steady {
    /// The bottleneck's rate.
    pub fn rate(&self) -> Rate {
        RATE
    }

    /// It with `law` in the place of the law under test.
    pub fn dumbbell(&self, law: &LawSpec) -> Dumbbell {
        let flows = self.flows.iter().map(|sender| Flow {
            law: sender.law.unwrap_or(law.name()),
            host: HostKind::Quic,
            rtt: Duration::from_millis(sender.rtt_ms),
            start: Duration::from_secs(sender.start_s),
            ack_every: None,
            ack_jitter: Duration::ZERO,
        });
        Dumbbell {
            name: self.name.to_owned(),
            rate: RATE,
            buffer: Buffer::Bytes(Multiple::millionths(self.buffer_percent * 10_000).of_bytes(BDP)),
            duration: DURATION,
            measured_from: DURATION / 3,
            flows: flows.collect(),
        }
    }
}

const fn ours(rtt_ms: u64, start_s: u64) -> Sender {
    Sender { law: None, rtt_ms, start_s }
}

const fn theirs(law: &'static str, start_s: u64) -> Sender {
    Sender { law: Some(law), rtt_ms: 40, start_s }
}

pub const STEADY: &[Steady] = &[
    Steady { name: "one-flow-0.25bdp", buffer_percent: 25, flows: ONE, lines: ALONE },
    Steady { name: "one-flow-0.5bdp", buffer_percent: 50, flows: ONE, lines: ALONE },
    Steady { name: "one-flow-1bdp", buffer_percent: 100, flows: ONE, lines: ALONE },
    Steady { name: "one-flow-2bdp", buffer_percent: 200, flows: ONE, lines: ALONE },
    Steady { name: "one-flow-4bdp", buffer_percent: 400, flows: ONE, lines: ALONE },
    Steady {
        name: "eight-flows",
        buffer_percent: 100,
        flows: EIGHT,
        lines: &[
            (Jain, Some(AtLeast(0.95)), Some(AtLeast(0.998))),
            (Queue, Some(AtMost(10.0)), Some(AtMost(6.0))),
        ],
    },
    Steady {
        name: "rtt-10-40-100ms",
        buffer_percent: 100,
        flows: THREE_RTTS,
        lines: &[(Jain, Some(AtLeast(0.9)), Some(AtLeast(0.98)))],
    },
    Steady { name: "cubic-second-0.5bdp", buffer_percent: 50, flows: CUBIC_SECOND, lines: BESIDE_CUBIC },
    Steady { name: "cubic-first-0.5bdp", buffer_percent: 50, flows: CUBIC_FIRST, lines: BESIDE_CUBIC },
    Steady { name: "cubic-second-1bdp", buffer_percent: 100, flows: CUBIC_SECOND, lines: BESIDE_CUBIC },
    Steady { name: "cubic-first-1bdp", buffer_percent: 100, flows: CUBIC_FIRST, lines: BESIDE_CUBIC },
    Steady { name: "cubic-second-4bdp", buffer_percent: 400, flows: CUBIC_SECOND, lines: BESIDE_CUBIC },
    Steady { name: "cubic-first-4bdp", buffer_percent: 400, flows: CUBIC_FIRST, lines: BESIDE_CUBIC },
    // What `LAW.md` failed at, for the record.
    Steady { name: "bbr3-second-1bdp", buffer_percent: 100, flows: BBR3_SECOND, lines: REPORTED_SHARES },
    Steady { name: "bbr3-first-1bdp", buffer_percent: 100, flows: BBR3_FIRST, lines: REPORTED_SHARES },
    Steady { name: "incast-8", buffer_percent: 100, flows: INCAST, lines: REPORTED_CROWD },
    Steady { name: "rtt-10-20-40-70-100ms", buffer_percent: 100, flows: FIVE_RTTS, lines: REPORTED_CROWD },
];

const ONE: &[Sender] = &[ours(40, 0)];
const EIGHT: &[Sender] =
    &[ours(40, 0), ours(40, 1), ours(40, 2), ours(40, 3), ours(40, 4), ours(40, 5), ours(40, 6), ours(40, 7)];
const THREE_RTTS: &[Sender] = &[ours(10, 0), ours(40, 0), ours(100, 0)];
const FIVE_RTTS: &[Sender] = &[ours(10, 0), ours(20, 0), ours(40, 0), ours(70, 0), ours(100, 0)];
const INCAST: &[Sender] = &[const { ours(40, 0) }; 8];
const CUBIC_SECOND: &[Sender] = &[ours(40, 0), theirs("cubic", SECOND_STARTS)];
const CUBIC_FIRST: &[Sender] = &[theirs("cubic", 0), ours(40, SECOND_STARTS)];
const BBR3_SECOND: &[Sender] = &[ours(40, 0), theirs("bbr3", SECOND_STARTS)];
const BBR3_FIRST: &[Sender] = &[theirs("bbr3", 0), ours(40, SECOND_STARTS)];

const ALONE: Lines =
    &[(Utilisation, Some(AtLeast(0.97)), Some(AtLeast(0.99))), (Queue, Some(AtMost(5.0)), Some(AtMost(2.0)))];
const BESIDE_CUBIC: Lines = &[
    (OurShare, Some(Within(0.25, 0.65)), Some(Within(0.45, 0.55))),
    (TheirShare, Some(AtLeast(0.35)), Some(AtLeast(0.45))),
];
const REPORTED_SHARES: Lines = &[(OurShare, None, None), (TheirShare, None, None)];
const REPORTED_CROWD: Lines = &[(Jain, None, None), (Queue, None, None), (Loss, None, None)];

/// Late enough for the first flow to have the link, and early enough to be settled when the measured part
/// begins.
const SECOND_STARTS: u64 = 5;

const DURATION: Duration = Duration::from_secs(60);
const RATE: Rate = Rate::mbps(100);
/// Of [`RATE`] and 40 ms; buffers are parts of it also where round trips are longer.
const BDP: Bytes = Bytes::kb(500);
