//! What the host did to the kernel while something was measured in it: how long the kernel's processes were ready
//! to run and had to wait for a processor, as the host's scheduler counts it (`/proc/PID/schedstat`). It knows
//! nothing of what was measured.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// What a process started, and what that did, when they were looked at.
#[derive(Debug)]
pub struct Host {
    at: Instant,
    waited: HashMap<u32, Duration>,
}

/// The part of the time in which one of the kernel's processes waited for a processor.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Waiting(f64);

impl Host {
    pub fn look(ancestor: u32) -> Self {
        let processes = fs::read_dir("/proc").expect("Linux has it").flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let parents: HashMap<u32, u32> = ids.filter_map(|id| Some((id, parent_of(id)?))).collect();
        let descends = |id: &u32| {
            let line = std::iter::successors(Some(*id), |id| parents.get(id).copied());
            line.skip(1).any(|id| id == ancestor)
        };
        let waited = parents.keys().copied().filter(descends).filter_map(|id| Some((id, waited(id)?)));
        Self { waited: waited.collect(), at: Instant::now() }
    }

    /// Since `before`.
    pub fn since(&self, before: &Self) -> Waiting {
        assert!(!self.waited.is_empty(), "a kernel that prints runs");
        let new = |(id, waited): (&u32, &Duration)| {
            waited.saturating_sub(before.waited.get(id).copied().unwrap_or_default())
        };
        let waited: Duration = self.waited.iter().map(new).sum();
        Waiting(waited.as_secs_f64() / (self.at - before.at).as_secs_f64())
    }
}

impl Waiting {
    /// Whether what was measured meanwhile counts: gaps that are to be right to a fiftieth cannot be so in a kernel
    /// that had no processor for more of the time.
    pub fn is_short(&self) -> bool {
        self.0 < 0.02
    }

    pub fn percent(self) -> f64 {
        self.0 * 100.0
    }
}

/// `None` for a process that is gone.
fn waited(id: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{id}/schedstat")).ok()?;
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// The second field behind the name, which stands in parentheses.
fn parent_of(id: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
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
