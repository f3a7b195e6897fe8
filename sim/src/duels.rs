//! Duels: two laws share a FIFO bottleneck.
//!
//! *What it decides:* which duels there are, and which figures of theirs are to be expected: from theory or
//! published results where those say something, and otherwise those of the snapshot
//! `sim/reference/duels.json`, which `warp sim duels --json` writes. *In:* names of laws. *Out:* [`Figures`],
//! and what departs from expectation in words.
//!
//! 20 Mbit/s for 60 s, of which the last two thirds count; `quic` hosts, since only they run every law. Equal
//! round trips are of 40 ms, unequal ones of 10 and 100. Each figure is the mean of two runs: in the first the
//! first flow begins half a second before the second, in the second after it. Acknowledgements have a
//! packet's time of jitter, so that no phase decides whose packets a full queue drops.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use warpunits::Rate;

use crate::dumbbell::{Dumbbell, DumbbellError, Flow, Shares};
use crate::laws;
use crate::topology::HostKind;
use crate::topology::text::{Buffer, Multiple};

/// Two laws on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duel {
    /// Who.
    pub laws: [&'static str; 2],
    /// Their base two-way delays.
    pub rtts: [Duration; 2],
    /// What may wait at the bottleneck, in BDPs of the longer round trip.
    pub buffer: Multiple,
}

/// What came of a duel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The first flow's part of both flows' goodput.
    pub share: f64,
    /// Jain's index of the goodputs.
    pub jain: f64,
    /// Of the bottleneck.
    pub utilisation: f64,
    /// Time-averaged queue.
    pub queue_ms: f64,
    /// 95th percentile of packets' waiting time.
    pub queue_p95_ms: f64,
    /// Overflow drops per packet sent, of either flow.
    pub loss: [f64; 2],
}

/// Figures by [`Duel::name`].
pub type Snapshot = BTreeMap<String, Figures>;

/// The figures that were found when the snapshot was taken.
///
/// # Panics
/// Never: the snapshot is a part of the program, and a test reads it.
pub fn snapshot() -> Snapshot {
    serde_json::from_str(SNAPSHOT).expect("the snapshot is well formed")
}

/// The laws that meet each other: all but `fixed`, which yields to nobody.
pub fn contenders() -> Vec<&'static str> {
    laws::ALL.iter().map(|law| law.name).filter(|name| *name != "fixed").collect()
}

/// Every duel between these laws, with themselves, too.
pub fn all(laws: &[&'static str]) -> Vec<Duel> {
    let mut duels = Vec::new();
    for (index, first) in laws.iter().enumerate() {
        for second in &laws[index..] {
            // With equal laws the short round trip against the long one is the same the other way round.
            let short_and_long = [[SHORT, LONG], [LONG, SHORT]];
            let unequal = if first == second { &short_and_long[..1] } else { &short_and_long };
            for rtts in std::iter::once(&[EQUAL, EQUAL]).chain(unequal) {
                duels.extend(BUFFERS.map(|buffer| Duel { laws: [*first, *second], rtts: *rtts, buffer }));
            }
        }
    }
    duels
}

impl Duel {
    /// Fights it.
    ///
    /// # Errors
    /// When a law cannot be run.
    pub fn run(&self) -> Result<Figures, DumbbellError> {
        let runs = [[Duration::ZERO, HEAD_START], [HEAD_START, Duration::ZERO]].into_iter().zip(1..);
        let runs = runs.map(|(starts, seed)| self.dumbbell(starts).run(seed));
        let runs = runs.collect::<Result<Vec<_>, _>>()?;
        let mean = |figure: &dyn Fn(&Shares) -> f64| runs.iter().map(figure).sum::<f64>() / runs.len() as f64;
        Ok(Figures {
            share: mean(&|run| run.flows[0].of_all),
            jain: mean(&|run| run.jain),
            utilisation: mean(&|run| run.utilisation),
            queue_ms: mean(&|run| run.queue_mean.as_secs_f64() * 1e3),
            queue_p95_ms: mean(&|run| run.queue_p95.as_secs_f64() * 1e3),
            loss: [0, 1].map(|flow| mean(&|run| run.flows[flow].self_inflicted_loss)),
        })
    }

    /// How it is called.
    pub fn name(&self) -> String {
        let [first, second] = [0, 1].map(|flow| format!("{} {:?}", self.laws[flow], self.rtts[flow]));
        format!("{first}, {second}, {}", Buffer::Bdp(self.buffer))
    }

    /// The share that theory gives the first flow, given the queue that was found, and who says so.
    pub fn expected_share(&self, found: &Figures) -> Option<(RangeInclusive<f64>, &'static str)> {
        let kinds = self.laws.map(|law| law.trim_start_matches("quinn-"));
        if self.rtts[0] == self.rtts[1] {
            return match kinds {
                _ if self.laws[0] == self.laws[1] => Some((FAIR, "equal flows")),
                ["cubic", "newreno"] => Some((0.45..=1.0, "RFC 9438 §4.3")),
                _ => None,
            };
        }
        // In the deepest buffer NewReno needs 200 round trips of 0.4 s from one loss to the next: in so
        // short a run nothing settles.
        let is_settled = self.buffer != DEEPEST;
        match kinds {
            ["newreno", "newreno"] if is_settled => {
                Some((self.shares_by_rtt(found, 1..=2), "1/RTT to 1/RTT², Lakshman and Madhow 1997"))
            }
            ["cubic", "cubic"] if is_settled => {
                Some((self.shares_by_rtt(found, 0..=2), "equal to 1/RTT², RFC 9438 §3.3, §3.4"))
            }
            ["bbr3", "bbr3"] | ["bbr", "bbr"] if self.rtts[0] < self.rtts[1] => {
                Some((0.0..=0.5, "the longer round trip wins, Hock et al. 2017"))
            }
            _ => None,
        }
    }

    /// What of the figures is not as expected.
    pub fn departures(&self, found: &Figures, snapshot: &Snapshot) -> Vec<String> {
        let mut departures = Vec::new();
        let mut check = |what: &str, found: f64, expected: RangeInclusive<f64>, source: &str| {
            if !expected.contains(&found) {
                let (least, most) = expected.into_inner();
                departures.push(format!("{what} {found:.3}, expected {least:.3} to {most:.3} ({source})"));
            }
        };
        if let Some((expected, source)) = self.expected_share(found) {
            check("share", found.share, expected, source);
        }
        // The packet in transmission comes on top of the buffer.
        let buffer_ms = self.buffer_time().as_secs_f64() * 1e3;
        check("queue", found.queue_p95_ms, 0.0..=buffer_ms + PACKET_TIME.as_secs_f64() * 1e3, "the buffer");
        if let Some(then) = snapshot.get(&self.name()) {
            let around = |then: f64, band: f64| then - band..=then + band;
            check("share", found.share, around(then.share, SHARE_BAND), "snapshot");
            check("queue", found.queue_ms, around(then.queue_ms, QUEUE_BAND * buffer_ms), "snapshot");
            check("utilisation", found.utilisation, around(then.utilisation, USE_BAND), "snapshot");
            for flow in 0..2 {
                let band = (then.loss[flow] * LOSS_BAND).max(LEAST_LOSS_BAND);
                check(
                    &format!("loss of {}", self.laws[flow]),
                    found.loss[flow],
                    around(then.loss[flow], band),
                    "snapshot",
                );
            }
        }
        departures
    }

    /// How long a full buffer takes to leave.
    fn buffer_time(&self) -> Duration {
        let longest = self.rtts[0].max(self.rtts[1]);
        self.buffer.of_bytes(warplink::bdp(RATE, longest)) / RATE
    }

    /// The first flow's shares where rates go with 1 / RTTⁿ, queue included, for n from least to most.
    fn shares_by_rtt(&self, found: &Figures, exponents: RangeInclusive<i32>) -> RangeInclusive<f64> {
        let [first, second] = self.rtts.map(|rtt| rtt.as_secs_f64() * 1e3 + found.queue_ms);
        let share = |exponent: &i32| 1.0 / (1.0 + (first / second).powi(*exponent));
        let (least, most) = (share(exponents.start()), share(exponents.end()));
        least.min(most)..=least.max(most)
    }

    fn dumbbell(&self, starts: [Duration; 2]) -> Dumbbell {
        let flow = |flow: usize| Flow {
            law: self.laws[flow],
            host: HostKind::Quic,
            rtt: self.rtts[flow],
            start: starts[flow],
            ack_every: None,
            ack_jitter: PACKET_TIME,
        };
        Dumbbell {
            name: self.name(),
            rate: RATE,
            buffer: Buffer::Bdp(self.buffer),
            duration: DURATION,
            measured_from: DURATION / 3,
            flows: vec![flow(0), flow(1)],
        }
    }
}

const SNAPSHOT: &str = include_str!("../reference/duels.json");

const RATE: Rate = Rate::mbps(20);

/// 1518 bytes at [`RATE`].
const PACKET_TIME: Duration = Duration::from_micros(607);
const DURATION: Duration = Duration::from_secs(60);
const HEAD_START: Duration = Duration::from_millis(500);
const EQUAL: Duration = Duration::from_millis(40);
const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_millis(100);
const BUFFERS: [Multiple; 3] = [Multiple::millionths(500_000), Multiple::millionths(1_000_000), DEEPEST];
const DEEPEST: Multiple = Multiple::millionths(4_000_000);

/// Flows of one law and one round trip: 50 % within a tenth of the link.
const FAIR: RangeInclusive<f64> = 0.4..=0.6;

// How far figures may move from the snapshot's: in parts of the link, of the buffer, of the link, and of
// the loss itself but at least so much. Two runs of a law that seeds itself differ by half of that.
const SHARE_BAND: f64 = 0.1;
const QUEUE_BAND: f64 = 0.1;
const USE_BAND: f64 = 0.05;
const LOSS_BAND: f64 = 0.5;
const LEAST_LOSS_BAND: f64 = 0.005;
