//! The control of each measurement: what the booted kernel can do by itself before and after it, without a queue and
//! without release times. A kernel whose own timers are late, because the host is busy or slow, or that needs half of
//! the gap for sending a datagram, cannot show how exact release times are.
#![expect(clippy::disallowed_methods, reason = "the test times timers")]

use std::fmt;
use std::time::{Duration, Instant};

use rustix::io::read;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::runtime::Runtime;
use warprate::conn::{SendClock, measure_departures};

/// A measurement and its control.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Controlled<T> {
    pub of: T,
    pub kernel: Pace,
}

/// What the kernel took.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Pace {
    /// From one datagram to the next, sent one after the other, with stamps but no queue.
    datagram_us: f64,
    /// From when a timer is due until its process runs; the median.
    late_us: f64,
}

/// Measures between two looks at the kernel, of which the worse counts.
pub fn controlled<T>(runtime: &Runtime, measure: impl FnOnce() -> T) -> Controlled<T> {
    let before = Pace::measure(runtime);
    let of = measure();
    let after = Pace::measure(runtime);
    Controlled { of, kernel: before.with(after, f64::max) }
}

impl Pace {
    fn measure(runtime: &Runtime) -> Self {
        let (clock, gap) = (SendClock::Timer, Duration::ZERO);
        let remote = UNQUEUED.parse().unwrap();
        let (_, departures) = runtime.block_on(measure_departures(remote, clock, gap, DATAGRAMS)).unwrap();
        let left = || departures.iter().filter_map(|departure| departure.left);
        let took = left().max().unwrap() - left().min().unwrap();
        Self {
            datagram_us: us(took) / f64::from(DATAGRAMS),
            late_us: median((0..TIMERS).map(|_| lateness())),
        }
    }

    /// The better of each.
    pub fn better(self, other: Self) -> Self {
        self.with(other, f64::min)
    }

    fn with(self, other: Self, choose: fn(f64, f64) -> f64) -> Self {
        Self {
            datagram_us: choose(self.datagram_us, other.datagram_us),
            late_us: choose(self.late_us, other.late_us),
        }
    }

    /// Whether what was measured meanwhile counts, if datagrams are `gap_us` apart in it.
    pub fn is_fit(&self, gap_us: f64) -> bool {
        self.datagram_us < gap_us / 2.0 && self.late_us < LATEST_US
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a datagram took {:.0} us, and timers were {:.0} us late", self.datagram_us, self.late_us)
    }
}

fn lateness() -> f64 {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty()).unwrap();
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let once = Itimerspec { it_interval: zero, it_value: Duration::from_millis(1).try_into().unwrap() };
    let due = Instant::now() + Duration::from_millis(1);
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once).unwrap();
    read(&timer, &mut [0; 8]).unwrap();
    us(due.elapsed())
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Of figures; NaN if there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Of whole numbers; 0 if there are none.
pub fn median_count<N: Ord + Copy + Default>(values: impl IntoIterator<Item = N>) -> N {
    let mut values: Vec<N> = values.into_iter().collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Behind a `veth` without a queue.
const UNQUEUED: &str = "10.7.3.2:9";

const DATAGRAMS: u32 = 100;
const TIMERS: usize = 50;

/// Release times are to be kept within 120 µs: a kernel whose bare timers take two thirds of that leaves too little.
const LATEST_US: f64 = 80.0;
