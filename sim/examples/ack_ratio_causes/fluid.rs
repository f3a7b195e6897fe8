//! Two CUBIC flows as a fluid: windows in segments, losses at the same moment, the literal increase.
//!
//! ```text
//! dW/dt = rate / n · (clamp(W(t + RTT), W, 1.5 W) − W) / W      an ACK for every n-th segment
//! loss when W1 + W2 = BDP + buffer:   W_max = W, or 0.85 W below the last (fast convergence); W = 0.7 W
//! ```
//! The Reno-friendly region plays no part at 80 ms.

/// What the other flow has of the goodput over the last two thirds, in percent.
fn share(every: f64, buffer: f64, is_convergence_fast: bool, seconds: f64) -> f64 {
    let mut flows = [1.0, every].map(|every| Flow::new(every, BDP * (1.0 + buffer) / 2.0));
    let mut now = 0.0;
    while now < seconds {
        let queued: f64 = flows.iter().map(|flow| flow.window).sum();
        let rtt = (queued / BDP).max(1.0) * RTT;
        for flow in &mut flows {
            flow.advance(now, rtt, now >= seconds / 3.0);
        }
        now += STEP;
        if flows.iter().map(|flow| flow.window).sum::<f64>() > BDP * (1.0 + buffer) {
            flows.iter_mut().for_each(|flow| flow.reduce(now, is_convergence_fast));
        }
    }
    100.0 * flows[1].sent / (flows[0].sent + flows[1].sent)
}

struct Flow {
    every: f64,
    window: f64,
    max: f64,
    epoch: f64,
    k: f64,
    sent: f64,
}

impl Flow {
    fn new(every: f64, max: f64) -> Self {
        let mut flow = Self { every, window: max, max, epoch: 0.0, k: 0.0, sent: 0.0 };
        flow.reduce(0.0, false);
        flow
    }

    fn advance(&mut self, now: f64, rtt: f64, is_counted: bool) {
        let sent = self.window / rtt * STEP;
        self.sent += if is_counted { sent } else { 0.0 };
        let curve = C * (now - self.epoch + rtt - self.k).powi(3) + self.max;
        let target = curve.clamp(self.window, 1.5 * self.window);
        self.window += sent / self.every * (target - self.window) / self.window;
    }

    fn reduce(&mut self, now: f64, is_convergence_fast: bool) {
        let is_below = is_convergence_fast && self.window < self.max;
        self.max = if is_below { 0.85 * self.window } else { self.window };
        self.window *= 0.7;
        self.epoch = now;
        self.k = ((self.max - self.window) / C).cbrt();
    }
}

pub fn print() {
    println!("share of the other flow in percent, literal increase, as a fluid");
    println!("fast convergence   buffer    40 min: ACK 2   ACK 10     2 h: ACK 2   ACK 10");
    for is_fast in [true, false] {
        for buffer in [1.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0] {
            let of = |every, seconds| share(every, buffer, is_fast, seconds);
            println!(
                "{:16} {buffer:4} BDP {:17.1} {:8.1} {:14.1} {:8.1}",
                if is_fast { "yes" } else { "no" },
                of(2.0, 2_400.0),
                of(10.0, 2_400.0),
                of(2.0, 7_200.0),
                of(10.0, 7_200.0)
            );
        }
    }
}

const C: f64 = 0.4;
const RTT: f64 = 0.08;
/// 100 Mbit/s in segments of 1538 wire bytes.
const BDP: f64 = 100e6 / 8.0 / 1538.0 * RTT;
const STEP: f64 = 0.008;
