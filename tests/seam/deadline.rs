//! A law's own deadlines: `Plan::until` reaches it through the core's timeout.

use std::time::Instant;

use warprate::cc::{PathStart, RateLaw};
use warprate::conn::Law;
use warprate::signal::Plan;
use warprate::units::{Bytes, Rate};

use crate::common::pair::{ms, setup};
use crate::{fixed, settled};

/// Sends at 1 kB/s until the instant that it names, and then at 100 Mbit/s.
#[derive(Debug, Clone)]
struct Sleeper {
    wakes: Instant,
    is_awake: bool,
}

impl RateLaw for Sleeper {
    fn on_deadline(&mut self, now: Instant) {
        self.is_awake |= now >= self.wakes;
    }

    fn plan(&self, _now: Instant) -> Plan {
        let rate = if self.is_awake { Rate::mbps(100) } else { Rate::kbps(8) };
        let until = (!self.is_awake).then_some(self.wakes);
        Plan { until, ..Plan::new(rate, Bytes::mb(64)) }
    }

    fn state(&self) -> &'static str {
        if self.is_awake { "awake" } else { "asleep" }
    }
}

/// Asks to be asked at an instant that has always passed.
#[derive(Debug, Clone)]
struct Impatient(Instant);

impl RateLaw for Impatient {
    fn plan(&self, _now: Instant) -> Plan {
        Plan { until: Some(self.0), ..Plan::new(Rate::mbps(100), Bytes::mb(64)) }
    }

    fn state(&self) -> &'static str {
        "impatient"
    }
}

#[test]
fn a_law_is_asked_at_the_instant_that_it_named() {
    let law = Law::custom(|start: PathStart| Sleeper { wakes: start.now + ms(6_000), is_awake: false });
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(law));
    pair.download(100_000);
    let asleep = pair.start + ms(6_000) - pair.now;
    pair.run(asleep);
    assert_eq!(pair.server.core().stats().path.state, "asleep");
    assert!(pair.client.received < 10_000);
    // 20 ms late at most: the law's time began when the first datagram reached the server.
    assert!(pair.run_until(ms(100), |pair| pair.client.is_finished));
    assert_eq!(pair.server.core().stats().path.state, "awake");
}

#[test]
fn a_law_that_names_the_past_does_not_stop_time() {
    let law = Law::custom(|start: PathStart| Impatient(start.now));
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(law));
    pair.download(1_000_000);
    assert!(pair.run_until(ms(1_000), |pair| pair.client.is_finished));
}
