//! What the host did to the kernel while something was measured: asked of sleeps that nothing else depends on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How late a thread woke up that slept for a millisecond at a time.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Control {
    pub median_us: f64,
    pub worst_us: f64,
}

impl Control {
    /// Whether what was measured meanwhile counts. The send clock bears wake-ups that are late by half its lead of
    /// 2 ms; and a kernel whose own sleeps are later than the bounds of the test cannot keep them.
    pub fn is_quiet(&self) -> bool {
        self.median_us < 100.0 && self.worst_us < 1000.0
    }
}

/// Watches until the function that it returns is called.
pub fn watch() -> impl FnOnce() -> Control {
    let is_over = Arc::new(AtomicBool::new(false));
    let end = is_over.clone();
    let thread = thread::spawn(move || {
        // A thread's timers may be late by 50 us otherwise, for the sake of fewer wake-ups.
        nix::sys::prctl::set_timerslack(1).expect("any thread may");
        let mut late = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let due = Instant::now() + Duration::from_millis(1);
            thread::sleep(Duration::from_millis(1));
            late.push(due.elapsed().as_secs_f64() * 1e6);
        }
        late
    });
    move || {
        end.store(true, Ordering::Relaxed);
        let late = thread.join().expect("it only sleeps");
        let worst_us = late.iter().copied().fold(0.0, f64::max);
        Control { median_us: median(late), worst_us }
    }
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
