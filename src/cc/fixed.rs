//! `fixed`: an explicit rate under an explicit window. The tutorial for authors of laws.
//!
//! ```text
//! rate(t)   = R      given
//! window(t) = W      given; R · RTT fills a path, more keeps it full while losses are repaired; or
//!           = max over all ACKs so far of R · (srtt + 4 · rttvar), at least 1.25 MB ("measured")
//! ```
//!
//! It has one state, answers no event and is right exactly where somebody has reserved R for the
//! flow. Elsewhere it is no good citizen: it does not yield to anybody. Its use is to show what the
//! machinery around the laws can do, since under it the machinery alone decides the result.
//!
//! To write a law of your own, copy this file; keep state in the struct; change it in the `on_*`
//! methods of [`RateLaw`]; derive the plan from it. Use integers and [`crate::units`], so that a run
//! can be replayed on any machine. `examples/custom_law.rs` goes on from here.

use std::time::Instant;

use super::RateLaw;
use crate::signal::{Ack, Plan};
use crate::units::{Bytes, Rate};

/// An explicit rate and window.
#[derive(Debug, Clone)]
pub struct Fixed {
    rate: Rate,
    window: Bytes,
    is_measured: bool,
}

impl Fixed {
    /// Sends at `rate` (UDP payload) while less than `window` is in flight.
    ///
    /// The window is raised to two full datagrams where it is less (RFC 9002 §7.2), so that the flow
    /// can always move.
    pub fn new(rate: Rate, window: Bytes) -> Self {
        Self { rate, window: window.max(MIN_WINDOW), is_measured: false }
    }

    /// Sends at `rate` (UDP payload) under a window that holds what this rate has in flight during
    /// all but the rarest round trips, as they are measured.
    pub fn measured(rate: Rate) -> Self {
        Self { rate, window: FIRST_WINDOW, is_measured: true }
    }
}

impl RateLaw for Fixed {
    fn on_ack(&mut self, ack: &Ack) {
        if self.is_measured {
            let longest = ack.rtt.smoothed + 4 * ack.rtt.deviation;
            self.window = self.window.max(self.rate * longest);
        }
    }

    fn plan(&self, _now: Instant) -> Plan {
        Plan { copies: true, ..Plan::new(self.rate, self.window) }
    }

    fn state(&self) -> &'static str {
        "fixed"
    }
}

/// 10 ms at 1 Gbit/s, until round trips are measured.
const FIRST_WINDOW: Bytes = Bytes::kb(1_250);

/// Two datagrams of the largest usual size: 1472 bytes fill an Ethernet frame over IPv4.
const MIN_WINDOW: Bytes = Bytes::new(2 * 1472);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::t0;

    #[test]
    fn the_plan_is_what_was_given() {
        let law = Fixed::new(Rate::mbps(95), Bytes::mb(1));
        let plan = Plan::new(Rate::mbps(95), Bytes::mb(1));
        assert_eq!(law.plan(t0()), Plan { copies: true, ..plan });
    }

    #[test]
    fn the_window_admits_two_datagrams() {
        let law = Fixed::new(Rate::mbps(1), Bytes::ZERO);
        assert_eq!(law.plan(t0()).window, Bytes::new(2944));
    }
}
