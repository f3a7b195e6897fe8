//! Two CUBIC flows over large buffers until they come to rest, packet by packet.
//!
//! The hosts are `bare`: a `tcp` sender holds 4 MB at most, and two of them never fill a buffer of eight BDPs.

use std::error::Error;
use std::fmt;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use warplink::RandomStream;
use warprate::cc::cubic::Increase;
use warprate::cc::{Cubic, PathStart};
use warpsim::dumbbell::{Dumbbell, Flow};
use warpsim::laws::Made;
use warpsim::topology::HostKind;
use warpsim::topology::text::{Buffer, Multiple};
use warpunits::Rate;

/// What both flows do.
#[derive(Clone, Copy)]
struct Setting {
    increase: Increase,
    /// In BDPs.
    buffer: u64,
}

type Failure = Box<dyn Error + Send + Sync>;

impl Setting {
    /// The other flow's part of the goodput in percent, part by part, if acknowledged on every so many packets.
    fn shares(&self, every: u32, seed: u64) -> Result<Vec<f64>, Failure> {
        let draws = RandomStream::new(seed, STARTS);
        let flow = |index, every| Flow {
            law: "cubic",
            host: HostKind::Bare,
            rtt: Duration::from_millis(80),
            start: Duration::from_micros(draws.below(index, 1_000_000)),
            ack_every: Some(every),
            // A packet's time, against phase effects.
            ack_jitter: Duration::from_micros(123),
        };
        let dumbbell = Dumbbell {
            name: "at rest".to_owned(),
            rate: Rate::mbps(100),
            buffer: Buffer::Bdp(Multiple::millionths(self.buffer * 1_000_000)),
            duration: PART * PARTS,
            measured_from: Duration::ZERO,
            flows: vec![flow(0, 1), flow(1, every)],
        };
        let increase = self.increase;
        let law = Made::own(move |start: PathStart| Cubic::with_increase(start, increase));
        let moments: Vec<_> = (0..=PARTS).map(|part| PART * part).collect();
        let parts = dumbbell.run_parts(seed, &moments, |_, _| law.clone())?;
        Ok(parts.iter().map(|part| 100.0 * part.flows[1].of_all).collect())
    }
}

pub fn print() -> Result<(), Failure> {
    let minutes = |time: Duration| time.as_secs() / 60;
    println!(
        "share of the other flow in percent, packet by packet, over the last third of {} min;\n\
         mean of {SEEDS} seeds (least to largest)\nincrease   buffer{}",
        minutes(PART * PARTS),
        RATIOS.map(|every| format!("{:>24}", format!("ACK {every}"))).concat()
    );
    let mut all = Vec::new();
    for setting in SETTINGS {
        let runs: Vec<_> =
            RATIOS.iter().flat_map(|every| (1..=SEEDS).map(move |seed| (setting, *every, seed))).collect();
        let series = in_parallel(&runs)?;
        let per_ratio = series.chunks(series.len() / RATIOS.len());
        println!("{setting}{}", per_ratio.map(|runs| format!("{:>24}", at_rest(runs))).collect::<String>());
        all.extend(runs.into_iter().zip(series));
    }
    println!("the literal increase over each {} min, seed 1", minutes(PART));
    all.retain(|((setting, every, seed), _)| {
        setting.increase == Increase::Literal && *every > 1 && *seed == 1
    });
    for ((setting, every, _), parts) in all {
        let parts: String = parts.iter().map(|part| format!("{part:6.1}")).collect();
        println!("{setting}    ACK {every:2} {parts}");
    }
    Ok(())
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let increase = match self.increase {
            Increase::PerByte => "per byte",
            Increase::Literal => "literal",
        };
        write!(f, "{increase:8} {:4} BDP", self.buffer)
    }
}

/// Mean and range of what these runs had in their last thirds.
fn at_rest(runs: &[Vec<f64>]) -> String {
    let last = runs.iter().map(|parts| mean(&parts[2 * parts.len() / 3..]));
    let shares: Vec<f64> = last.collect();
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = shares.iter().copied().fold(0.0, f64::max);
    format!("{:.1} ({least:.1} to {largest:.1})", mean(&shares))
}

fn mean(shares: &[f64]) -> f64 {
    shares.iter().sum::<f64>() / shares.len() as f64
}

/// The series of all runs, one run per core at a time: a run of large buffers takes a hundred megabytes.
fn in_parallel(runs: &[(Setting, u32, u64)]) -> Result<Vec<Vec<f64>>, Failure> {
    let next = Mutex::new(runs.iter().enumerate());
    let work = || {
        let mut done = Vec::new();
        loop {
            let Some((place, (setting, every, seed))) = next.lock().expect("runs do not panic").next() else {
                return Ok::<_, Failure>(done);
            };
            done.push((place, setting.shares(*every, *seed)?));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut done = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("runs do not panic"))
            .collect::<Result<Vec<_>, _>>()
    })?
    .concat();
    done.sort_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, series)| series).collect())
}

const SETTINGS: [Setting; 5] = [
    Setting { increase: Increase::Literal, buffer: 16 },
    Setting { increase: Increase::Literal, buffer: 32 },
    Setting { increase: Increase::Literal, buffer: 36 },
    Setting { increase: Increase::PerByte, buffer: 16 },
    Setting { increase: Increase::PerByte, buffer: 36 },
];
const RATIOS: [u32; 3] = [1, 2, 10];
const SEEDS: u64 = 3;
const PART: Duration = Duration::from_secs(300);
const PARTS: u32 = 6;

/// Purpose of the draws of start times.
const STARTS: u64 = 0x7374_6172_7473;
