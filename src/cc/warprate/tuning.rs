//! The numbers of the law, each with its reason. `docs/warprate.md` has the experiments.

use std::time::Duration;

use crate::units::{Bytes, Gain, Rate};

/// A struct, its defaults and the list of its fields.
macro_rules! table {
    ($($(#[doc = $reason:literal])+ $name:ident: $type:ty = $value:expr;)+) => {
        /// The numbers that the law was tuned by. Its users have none to turn; experimenters hand others to
        /// [`WarpRate::tuned`](super::WarpRate::tuned).
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Tuning {
            $($(#[doc = $reason])+ pub $name: $type,)+
        }

        impl Tuning {
            /// All of them by name, to be changed.
            pub fn numbers(&mut self) -> Vec<(&'static str, Number<'_>)> {
                vec![$((stringify!($name), (&mut self.$name).into()),)+]
            }
        }

        impl Default for Tuning {
            fn default() -> Self {
                Self { $($name: $value,)+ }
            }
        }
    };
}

table! {
    /// Leaves before anything is known about the path: a request of 100 KB in 1200-byte datagrams, whole.
    blind: Bytes = Bytes::new(106_000);
    /// The same once 32 KB of it arrived without being spread, so that no slow bottleneck is in the way: 10 ms
    /// at 1 Gbit/s.
    blind_unspread: Bytes = Bytes::new(1_250_000);
    /// Bytes whose delay does not grow: they were not spread.
    unspread: Bytes = Bytes::new(32_000);
    /// While the first reading is awaited, each delivered byte lets so many more be in flight: a path whose
    /// jitter delays the reading is not held back for long, and one that delivers nothing gets nothing.
    start_growth: u32 = 6;
    /// The start is no faster than this many times the mean of what arrived: a lump of ACK frames that were held
    /// up looks as fast as any.
    mean_gain: Gain = Gain::percent(400);
    /// Jitter whose lumps are longer than a sixteenth of it is met with what arrives.
    longest_start: Duration = Duration::from_secs(3);
    /// Datagrams that make a train.
    train: u32 = 10;
    /// A longer pause than this ends what is no train.
    least_gap: Duration = Duration::from_millis(1);
    /// Steps between ACK frames that tell even arrivals from uneven ones.
    least_points: u32 = 4;
    /// An epoch is this many times its longest silence: the error of a rate read from it is 1/16 at most.
    epoch_over_lump: u32 = 16;
    /// Shorter epochs hold too few ACK frames on any path.
    shortest_epoch: Duration = Duration::from_millis(2);
    /// Epochs that the delivery rate is read from: their noise halves, and 8 round trips are not waited for.
    evidence_epochs: u32 = 4;
    /// The queue to keep at 25 Mbit/s; it falls with the root of the rate, so that slower flows keep more
    /// and grow, and N flows together keep sqrt(N) times that of one.
    target_queue: Duration = Duration::from_millis(4);
    /// Half of the queue's error is mended per this time, so that flows of all round trips move alike.
    longest_response: Duration = Duration::from_millis(40);
    /// Most that one epoch takes off the rate.
    step: Gain = Gain::percent(25);
    /// Most that one epoch adds to the rate.
    growth: Gain = Gain::percent(10);
    /// What remains of the delivery rate when a queue overflows: between CUBIC's 0.7 and the 0.9 of which
    /// the overflow would go on.
    congestion_gain: Gain = Gain::percent(85);
    /// Lost bytes that count as arrived, at most, as a share of those that did.
    most_credit: Gain = Gain::percent(25);
    /// A slow-down is watched this long before others are blamed for the queue: flows of 300 ms answer in it.
    shortest_test: Duration = Duration::from_millis(600);
    /// And for this many epochs; half of either if others were there lately.
    test_epochs: u32 = 4;
    /// How long others are remembered: a cycle of CUBIC at 1 Gbit/s and 100 ms.
    rivals_remembered: Duration = Duration::from_secs(20);
    /// The floor is looked for so often while the connection is young, and then a fifth as often.
    floor_interval: Duration = Duration::from_secs(1);
    /// Silence that is no evidence, at least.
    least_silence: Duration = Duration::from_millis(30);
    /// Losses that tell whether loss follows the rate: an eighth of their number is chance, and two fifths are
    /// asked for.
    tested_losses: u32 = 64;
}

/// Where the target queue is [`Tuning::target_queue`]: a unit, since queue² · rate is one number.
pub(super) const TARGET_AT: Rate = Rate::mbps(25);

/// A number of the table, to be changed.
#[derive(Debug)]
pub enum Number<'a> {
    /// A volume.
    Bytes(&'a mut Bytes),
    /// A time.
    Time(&'a mut Duration),
    /// A part or a multiple.
    Gain(&'a mut Gain),
    /// How many.
    Count(&'a mut u32),
}

impl<'a> From<&'a mut Bytes> for Number<'a> {
    fn from(bytes: &'a mut Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a mut Duration> for Number<'a> {
    fn from(time: &'a mut Duration) -> Self {
        Self::Time(time)
    }
}

impl<'a> From<&'a mut Gain> for Number<'a> {
    fn from(gain: &'a mut Gain) -> Self {
        Self::Gain(gain)
    }
}

impl<'a> From<&'a mut u32> for Number<'a> {
    fn from(count: &'a mut u32) -> Self {
        Self::Count(count)
    }
}
