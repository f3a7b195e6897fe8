//! Every number of the law, with its reason. `docs/warprate.md` has the experiments.

use std::time::Duration;

use crate::units::{Bytes, Gain, Rate};

/// Leaves before anything is known about the path: a request of 100 KB in 1200-byte datagrams, whole.
pub const BLIND: Bytes = Bytes::new(106_000);
/// The same once 32 KB of it arrived without being spread, so that no slow bottleneck is in the way: 10 ms
/// at 1 Gbit/s.
pub const BLIND_UNSPREAD: Bytes = Bytes::new(1_250_000);
/// While the first reading is awaited, each delivered byte lets so many more be in flight: a path whose
/// jitter delays the reading is not held back for long, and one that delivers nothing gets nothing.
pub const START_GROWTH: u64 = 6;
/// Steps between ACK frames that tell even arrivals from uneven ones.
pub const LEAST_POINTS: usize = 4;
/// An epoch is this many times its longest silence: the error of a rate read from it is 1/16 at most.
pub const EPOCH_OVER_LUMP: u32 = 16;
/// Shorter epochs hold too few ACK frames on any path.
pub const SHORTEST_EPOCH: Duration = Duration::from_millis(2);
/// Epochs that the delivery rate is read from: their noise halves, and 8 round trips are not waited for.
pub const EVIDENCE_EPOCHS: usize = 4;
/// The queue to keep at [`TARGET_AT`]; it falls with the root of the rate, so that slower flows keep more
/// and grow, and N flows together keep sqrt(N) times that of one.
pub const TARGET_QUEUE: Duration = Duration::from_millis(4);
/// See [`TARGET_QUEUE`].
pub const TARGET_AT: Rate = Rate::mbps(25);
/// Half of the queue's error is mended per this time, so that flows of all round trips move alike.
pub const LONGEST_RESPONSE: Duration = Duration::from_millis(40);
/// Most that one epoch takes off the rate, and adds to it, in thousandths.
pub const STEPS: (i64, i64) = (-250, 100);
/// What remains of the delivery rate when a queue overflows: between CUBIC's 0.7 and the 0.9 of which
/// the overflow would go on.
pub const CONGESTION_GAIN: Gain = Gain::percent(85);
/// Lost bytes that count as arrived, at most, as a share of those that did.
pub const MOST_CREDIT: Gain = Gain::percent(25);
/// A slow-down is watched this long before others are blamed for the queue: flows of 300 ms answer in it.
pub const SHORTEST_TEST: Duration = Duration::from_millis(600);
/// And for this many epochs; half of either if others were there lately.
pub const TEST_EPOCHS: u32 = 4;
/// How long others are remembered: a cycle of CUBIC at 1 Gbit/s and 100 ms.
pub const RIVALS_REMEMBERED: Duration = Duration::from_secs(20);
/// The floor is looked for so often while the connection is young, and then a fifth as often.
pub const FLOOR_INTERVAL: Duration = Duration::from_secs(1);
/// Silence that is no evidence, at least.
pub const LEAST_SILENCE: Duration = Duration::from_millis(30);
/// Losses that tell whether loss follows the rate: an eighth of their number is chance, and two fifths are
/// asked for.
pub const TESTED_LOSSES: u64 = 64;
