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
    /// The same once a step of it arrived without being spread, so that no slow bottleneck is in the way: 10 ms
    /// at 1 Gbit/s.
    blind_unspread: Bytes = Bytes::new(1_250_000);
    /// While the first reading is awaited, each delivered byte lets so many more be in flight: a path whose
    /// jitter delays the reading is not held back for long, and one that delivers nothing gets nothing. With 6,
    /// a newcomer on a slow path with jitter overflows twice as much.
    start_growth: u32 = 3;
    /// Jitter whose lumps are longer than a sixteenth of it is met with what arrives.
    longest_start: Duration = Duration::from_secs(3);
    /// An epoch is this many times its longest silence: the error of a rate read from it is 1/16 at most.
    epoch_over_lump: u32 = 16;
    /// Shorter epochs hold too few ACK frames on any path.
    shortest_epoch: Duration = Duration::from_millis(2);
    /// Epochs that the delivery rate is read from: their noise halves, and 8 round trips are not waited for. An
    /// epoch has as many steps between ACK frames at least, and a slow-down is watched for as many epochs.
    evidence_epochs: u32 = 4;
    /// The queue to keep at 25 Mbit/s; it falls with the root of the rate, so that slower flows keep more
    /// and grow, and N flows together keep sqrt(N) times that of one.
    target_queue: Duration = Duration::from_millis(4);
    /// Half of the queue's error is mended per this time, so that flows of all round trips move alike; a
    /// shorter silence is no sign of anything.
    longest_response: Duration = Duration::from_millis(40);
    /// Most that one epoch takes off the rate, and what a probe adds to it. Less than a step apart, pace and
    /// arrival may be the same, and a queue of less than a step of the target is empty.
    step: Gain = Gain::percent(25);
    /// Most that one epoch adds to the rate, and what a probe adds after failures.
    growth: Gain = Gain::percent(10);
    /// Taken off the delivery rate when a queue overflows: between CUBIC's 30 % and the 10 % with which the
    /// overflow would go on.
    cut: Gain = Gain::percent(15);
    /// An effect shows if all of what was expected is seen but for this part, and is absent if less than it is.
    doubt: Gain = Gain::ratio(1, 3);
    /// What is sent of the rate while a queue is to empty.
    drained: Gain = Gain::percent(25);
    /// Epochs of cruising before a probe.
    probe_every: u32 = 7;
    /// Times longer that cruising lasts after as many failures of probes, at most.
    patience: u32 = 3;
    /// Time between two looks at the floor, at the others in the queue, or at what loss follows.
    interval: Duration = Duration::from_secs(5);
    /// A slow-down is watched this long before others are blamed for the queue: flows of 300 ms answer in it.
    shortest_test: Duration = Duration::from_millis(600);
    /// Losses that tell whether loss follows the rate: an eighth of their number is chance, and half is asked for.
    tested_losses: u32 = 64;
    /// Less loss than this is not worth a slower spell.
    least_loss: Gain = Gain::percent(1);
}

impl Tuning {
    /// A step below the rate: what a step more would make it again.
    pub(super) fn slower(&self) -> Gain {
        Gain::ONE / (Gain::ONE + self.step)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_twenty_numbers_at_most_each_by_its_own_name() {
        let mut tuning = Tuning::default();
        let names: std::collections::BTreeSet<_> =
            tuning.numbers().into_iter().map(|(name, _)| name).collect();
        assert!(names.len() <= 20, "{}", names.len());
        assert_eq!(names.len(), tuning.numbers().len());
    }

    #[test]
    fn a_number_that_is_changed_by_name_is_changed() {
        let mut tuning = Tuning::default();
        for (name, number) in tuning.numbers() {
            if let ("blind", Number::Bytes(bytes)) = (name, number) {
                *bytes = Bytes::mb(12);
            }
        }
        assert_eq!(tuning, Tuning { blind: Bytes::mb(12), ..Tuning::default() });
    }
}
