//! The ACK-ratio experiment: does it matter to CUBIC how often its receiver acknowledges?
//!
//! Two CUBIC flows over 100 Mbit/s and 80 ms, one acknowledged on every packet, the other on every n-th, for
//! 120 s of which the last two thirds count. Each flow begins within the first second, as the seed draws, and
//! every seed runs twice, with the two starts exchanged, so that what the first to come gains cancels.
//!
//! *What it decides:* the runs. *In:* a [`Setting`] and a seed. *Out:* the share of the flow that is
//! acknowledged less often.

use std::time::Duration;

use warplink::RandomStream;
use warprate::cc::cubic::Increase;
use warprate::cc::{Cubic, PathStart};
use warpunits::Rate;

use crate::dumbbell::{Dumbbell, DumbbellError, Flow};
use crate::laws::Made;
use crate::topology::HostKind;
use crate::topology::text::{Buffer, Multiple};

/// A row of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// What may wait at the bottleneck, in BDPs.
    pub buffer: Multiple,
    /// The other flow is acknowledged on every so many packets.
    pub every: u32,
    /// How an ACK raises the window.
    pub increase: Increase,
    /// Whether acknowledgements have a packet's time of jitter. Without it the phase of a full queue decides
    /// whose packets are dropped (Floyd and Jacobson 1992), which is no matter of the law.
    pub has_jitter: bool,
    /// When a run ends.
    pub duration: Duration,
}

/// The rows of the experiment as it is specified.
pub fn settings() -> Vec<Setting> {
    let mut settings = Vec::new();
    for increase in [Increase::PerByte, Increase::Literal] {
        for buffer in BUFFERS {
            settings.extend(RATIOS.map(|every| Setting {
                buffer,
                every,
                increase,
                has_jitter: true,
                duration: DURATION,
            }));
        }
    }
    settings
}

impl Setting {
    /// The other flow's part of both flows' goodput: the mean of the seed's two runs.
    ///
    /// # Errors
    /// When the dumbbell cannot be run.
    pub fn run(&self, seed: u64) -> Result<f64, DumbbellError> {
        let increase = self.increase;
        self.run_law(seed, &Made::own(move |start: PathStart| Cubic::with_increase(start, increase)))
    }

    /// The same with another law for both flows, whatever the increase.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_law(&self, seed: u64, law: &Made) -> Result<f64, DumbbellError> {
        let draws = RandomStream::new(seed, STARTS);
        let [first, second] = [0, 1].map(|flow| Duration::from_micros(draws.below(flow, LATEST_START)));
        let share = |starts| {
            let shares = self.dumbbell(starts).run_with(seed, |_, _| law.clone())?;
            Ok::<_, DumbbellError>(shares.flows[1].of_all)
        };
        Ok((share([first, second])? + share([second, first])?) / 2.0)
    }

    fn dumbbell(&self, starts: [Duration; 2]) -> Dumbbell {
        let flow = |start, every| Flow {
            law: "cubic",
            host: HostKind::Tcp,
            rtt: RTT,
            start,
            ack_every: Some(every),
            ack_jitter: if self.has_jitter { PACKET_TIME } else { Duration::ZERO },
        };
        Dumbbell {
            name: format!("ack-ratio 1 and {}, {}", self.every, Buffer::Bdp(self.buffer)),
            rate: RATE,
            buffer: Buffer::Bdp(self.buffer),
            duration: self.duration,
            measured_from: self.duration / 3,
            flows: vec![flow(starts[0], 1), flow(starts[1], self.every)],
        }
    }
}

/// The mean of some shares and their standard deviation.
pub fn mean_and_deviation(shares: &[f64]) -> (f64, f64) {
    let count = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / count;
    let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0).max(1.0)).sqrt())
}

const BUFFERS: [Multiple; 3] =
    [Multiple::millionths(500_000), Multiple::millionths(1_000_000), Multiple::millionths(2_000_000)];
const RATIOS: [u32; 3] = [1, 2, 10];
const RATE: Rate = Rate::mbps(100);
const RTT: Duration = Duration::from_millis(80);
const DURATION: Duration = Duration::from_secs(120);

/// 1538 bytes at [`RATE`].
const PACKET_TIME: Duration = Duration::from_micros(123);

/// A second, in microseconds.
const LATEST_START: u64 = 1_000_000;

/// Purpose of the draws of start times.
const STARTS: u64 = 0x7374_6172_7473;
