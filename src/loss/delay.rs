//! What round-trip times say about queues: the floor of the path, its noise, and what is left.
//!
//! ```text
//! floor = least RTT of 30 s
//! noise = mean fall of the RTT from a peak to the trough after it, where it fell as fast as no queue
//!         drains: a packet held back arrives together with those sent after it, so the RTT falls by as
//!         much as later they left. A queue falls so only while nothing arrives at it.
//! queue = least RTT of the last samples - floor - noise, at least zero
//! ```
//! Samples are those of the newest packet of each ACK frame: older ones waited for it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::signal::Delay;

/// Running estimates of a path's delay.
#[derive(Debug, Clone, Default)]
pub(super) struct DelayFilter {
    /// Least RTT per second, each larger than all before it: the front is the floor.
    floors: VecDeque<Sample>,
    recent: VecDeque<Sample>,
    last: Option<Sample>,
    /// Highest RTT since the last trough, and the fall from there so far.
    peak: Duration,
    trough: Duration,
    noise: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    sent: Instant,
    rtt: Duration,
}

impl DelayFilter {
    /// Takes in the RTT of a packet sent later than all before it.
    pub fn on_sample(&mut self, sent: Instant, rtt: Duration) -> Delay {
        let sample = Sample { sent, rtt };
        self.note_floor(sample);
        self.note_noise(sample);
        self.recent.push_back(sample);
        self.last = Some(sample);
        self.forget();
        self.get()
    }

    /// The present estimates.
    pub fn get(&self) -> Delay {
        let floor = self.floor();
        let least = self.recent.iter().map(|sample| sample.rtt).min().unwrap_or(floor);
        Delay { floor, noise: self.noise, queue: least.saturating_sub(floor + self.noise) }
    }

    fn floor(&self) -> Duration {
        self.floors.front().map_or(Duration::ZERO, |floor| floor.rtt)
    }

    fn forget(&mut self) {
        let floor = self.floor();
        let keep = if self.noise > floor / 16 { NOISY_SAMPLES } else { CALM_SAMPLES };
        while self.recent.len() > keep {
            self.recent.pop_front();
        }
        let newest = self.last.map(|last| last.sent);
        while self.recent.len() > 1
            && self.recent.front().map(|first| first.sent + floor.max(SHORTEST_WINDOW).max(self.noise * 4))
                < newest
        {
            self.recent.pop_front();
        }
    }

    fn note_floor(&mut self, sample: Sample) {
        while self.floors.back().is_some_and(|back| back.rtt >= sample.rtt) {
            self.floors.pop_back();
        }
        let is_new_second = self.floors.back().is_none_or(|back| back.sent + BUCKET <= sample.sent);
        if is_new_second {
            self.floors.push_back(sample);
        }
        while self.floors.len() > 1 && self.floors[0].sent + FLOOR_MEMORY < sample.sent {
            self.floors.pop_front();
        }
    }

    fn note_noise(&mut self, sample: Sample) {
        let Some(last) = self.last else {
            (self.peak, self.trough) = (sample.rtt, sample.rtt);
            return;
        };
        let elapsed = sample.sent.saturating_duration_since(last.sent);
        let fall = last.rtt.saturating_sub(sample.rtt);
        if fall * 2 > elapsed {
            self.trough = sample.rtt;
            return;
        }
        // The fall has ended.
        let depth = self.peak.saturating_sub(self.trough);
        if !depth.is_zero() && self.trough < self.peak {
            self.noise = (self.noise * 7 + depth) / 8;
        } else if sample.rtt > last.rtt {
            self.noise = self.noise * 255 / 256;
        }
        (self.peak, self.trough) = (sample.rtt, sample.rtt);
    }
}

/// How long the floor is remembered.
const FLOOR_MEMORY: Duration = Duration::from_secs(30);
const BUCKET: Duration = Duration::from_secs(1);
/// Samples whose least stands for the present; more where it is noisy.
const CALM_SAMPLES: usize = 8;
const NOISY_SAMPLES: usize = 32;
/// Samples older than the floor say nothing about the present; on short paths two ACK delays may pass.
const SHORTEST_WINDOW: Duration = Duration::from_millis(2);
