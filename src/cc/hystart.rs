//! HyStart++ (RFC 9406): leaving slow start before the queue overflows.
//!
//! ```text
//! slow start           W += N           until a round's least RTT exceeds the last round's by
//!                                       clamp(last / 8, 4 ms, 16 ms), with 8 samples or more
//! conservative (CSS)   W += N / 4       5 rounds, then congestion avoidance; back to slow start if
//!                                       the RTT falls below the one at entry
//! ```
//! N is not bounded by L segments, because the sender is paced (RFC 9406 §4.3: L = ∞ when paced).
//! Rounds come from the ledger: one ends when a packet sent after its start is acknowledged, which is
//! the RFC's `windowEnd` for packet numbers.

use std::time::Duration;

use crate::signal::Ack;
use crate::units::Bytes;

/// The state of a connection's initial slow start.
#[derive(Debug, Clone)]
pub(super) struct HyStart {
    phase: Phase,
    last_round_min: Option<Duration>,
    this_round_min: Option<Duration>,
    samples: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    SlowStart,
    /// Conservative slow start: the RTT at entry, and the rounds so far, the partial one included.
    Conservative {
        baseline: Duration,
        rounds: u32,
    },
}

/// What an ACK means for the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// It grows by this much.
    By(Bytes),
    /// Slow start is over: congestion avoidance begins at the present window.
    Done,
}

impl HyStart {
    pub fn new() -> Self {
        Self { phase: Phase::SlowStart, last_round_min: None, this_round_min: None, samples: 0 }
    }

    /// Takes in an ACK of data that was not limited by the application.
    pub fn on_ack(&mut self, ack: &Ack) -> Growth {
        if ack.round_start && self.begin_round() {
            return Growth::Done;
        }
        self.this_round_min = Some(self.this_round_min.map_or(ack.rtt.latest, |min| min.min(ack.rtt.latest)));
        self.samples += 1;
        if self.samples >= MIN_SAMPLES {
            self.judge();
        }
        Growth::By(match self.phase {
            Phase::SlowStart => ack.bytes,
            Phase::Conservative { .. } => Bytes::new(ack.bytes.get() / CSS_GROWTH_DIVISOR),
        })
    }

    /// Name of the phase, for traces.
    pub fn name(&self) -> &'static str {
        match self.phase {
            Phase::SlowStart => "slow start",
            Phase::Conservative { .. } => "conservative slow start",
        }
    }

    /// Begins a round; whether conservative slow start has run its rounds.
    fn begin_round(&mut self) -> bool {
        self.last_round_min = self.this_round_min.take();
        self.samples = 0;
        match &mut self.phase {
            Phase::SlowStart => false,
            Phase::Conservative { rounds, .. } => {
                *rounds += 1;
                *rounds > CSS_ROUNDS
            }
        }
    }

    fn judge(&mut self) {
        let (Some(last), Some(this)) = (self.last_round_min, self.this_round_min) else { return };
        match self.phase {
            Phase::SlowStart => {
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if this >= last + threshold {
                    self.phase = Phase::Conservative { baseline: this, rounds: 1 };
                }
            }
            // The rise was noise.
            Phase::Conservative { baseline, .. } if this < baseline => self.phase = Phase::SlowStart,
            Phase::Conservative { .. } => {}
        }
    }
}

// RFC 9406 §4.3.
const MIN_SAMPLES: u32 = 8;
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

#[cfg(test)]
mod rfc9406;
