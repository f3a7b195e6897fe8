//! How large the socket's buffers should be: what goes out, and what comes in, within a round trip.
//!
//! *In:* bytes and round-trip times as the driver sees them. *Out:* the sizes to ask the system for. They grow
//! and never shrink: the system charges what is in a buffer, not its size.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use crate::units::Bytes;

/// The two buffers of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    pub send: Bytes,
    pub receive: Bytes,
}

/// Measures pace · RTT, each way.
#[derive(Debug)]
pub(super) struct Sizing {
    asked: Sizes,
    most: Bytes,
    since: Instant,
    sent: Bytes,
    received: Bytes,
    /// The longest of the connections that were active.
    rtt: Duration,
}

impl Sizing {
    /// Of buffers that begin with the least of [`SOCKET_BUFFERS`]; `fixed` stay at that.
    pub fn new(now: Instant, fixed: Option<Bytes>) -> Self {
        let size = fixed.unwrap_or(*SOCKET_BUFFERS.start());
        Self {
            asked: Sizes { send: size, receive: size },
            most: fixed.unwrap_or(*SOCKET_BUFFERS.end()),
            since: now,
            sent: Bytes::ZERO,
            received: Bytes::ZERO,
            rtt: Duration::ZERO,
        }
    }

    pub fn on_sent(&mut self, bytes: Bytes) {
        self.sent += bytes;
    }

    pub fn on_received(&mut self, bytes: Bytes) {
        self.received += bytes;
    }

    /// An active connection's round-trip time.
    pub fn on_rtt(&mut self, rtt: Duration) {
        self.rtt = self.rtt.max(rtt);
    }

    /// What to ask the system for.
    pub fn asked(&self) -> Sizes {
        self.asked
    }

    /// At the end of a period, what to ask for if that is more than before.
    pub fn poll(&mut self, now: Instant) -> Option<Sizes> {
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed < PERIOD {
            return None;
        }
        let rtt = std::mem::take(&mut self.rtt);
        let need = |bytes: Bytes| (bytes / elapsed) * rtt;
        let before = self.asked;
        self.asked = Sizes {
            send: self.grown(before.send, need(self.sent)),
            receive: self.grown(before.receive, need(self.received)),
        };
        (self.sent, self.received, self.since) = (Bytes::ZERO, Bytes::ZERO, now);
        (self.asked != before).then_some(self.asked)
    }

    /// By doubling, so that the system is asked seldom.
    fn grown(&self, mut size: Bytes, need: Bytes) -> Bytes {
        while size < need && size < self.most {
            size = size.times(2).min(self.most);
        }
        size
    }
}

/// The system granted less than was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shortage {
    pub asked: Sizes,
    pub granted: Sizes,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, granted } = self;
        write!(
            f,
            "the system grants a send buffer of {} and a receive buffer of {}",
            granted.send, granted.receive
        )?;
        write!(
            f,
            " where {} and {} were asked for, so a busy host may lose datagrams; ",
            asked.send, asked.receive
        )?;
        f.write_str("to raise its limits:")?;
        for (limit, asked, granted) in
            [("wmem_max", asked.send, granted.send), ("rmem_max", asked.receive, granted.receive)]
        {
            if granted < asked {
                write!(f, " sysctl -w net.core.{limit}={}", asked.get())?;
            }
        }
        Ok(())
    }
}

/// The socket buffers that an endpoint asks the system for, each way, unless it is
/// [told](super::EndpointConfig::socket_buffer): what moves in a round trip, within these limits. The least is
/// 16 ms at 1 Gbit/s, as long as a busy host may keep the driver from the socket; the most is 134 ms of it, since
/// more would only delay.
pub const SOCKET_BUFFERS: RangeInclusive<Bytes> = Bytes::mib(2)..=Bytes::mib(16);

/// Long enough to average over bursts.
const PERIOD: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::{ms, t0};
    use crate::units::Rate;

    fn after_a_period(sizing: &mut Sizing, sent: Rate, received: Rate, rtt: Duration) -> Option<Sizes> {
        sizing.on_sent(sent * ms(100));
        sizing.on_received(received * ms(100));
        sizing.on_rtt(rtt);
        assert_eq!(sizing.poll(sizing.since + ms(99)), None, "not before its end");
        sizing.poll(sizing.since + ms(100))
    }

    #[test]
    fn buffers_hold_a_round_trip_of_what_moves() {
        let mut sizing = Sizing::new(t0(), None);
        assert_eq!(sizing.asked(), Sizes { send: Bytes::mib(2), receive: Bytes::mib(2) });
        // 100 Mbit/s · 40 ms = 500 kB.
        assert_eq!(after_a_period(&mut sizing, Rate::mbps(100), Rate::mbps(100), ms(40)), None);
        // 1 Gbit/s · 40 ms = 5 MB, and little in the other direction.
        let grown = Sizes { send: Bytes::mib(8), receive: Bytes::mib(2) };
        assert_eq!(after_a_period(&mut sizing, Rate::gbps(1), Rate::mbps(1), ms(40)), Some(grown));
        assert_eq!(after_a_period(&mut sizing, Rate::gbps(1), Rate::mbps(1), ms(40)), None, "once");
        let limits = Sizes { send: Bytes::mib(16), receive: Bytes::mib(16) };
        assert_eq!(after_a_period(&mut sizing, Rate::gbps(9), Rate::gbps(9), ms(900)), Some(limits));
        assert_eq!(after_a_period(&mut sizing, Rate::mbps(1), Rate::mbps(1), ms(1)), None, "none shrinks");
    }

    #[test]
    fn a_size_that_was_given_stays() {
        for size in [Bytes::ZERO, Bytes::kb(64), Bytes::MAX] {
            let mut sizing = Sizing::new(t0(), Some(size));
            assert_eq!(sizing.asked(), Sizes { send: size, receive: size });
            assert_eq!(after_a_period(&mut sizing, Rate::gbps(9), Rate::gbps(9), ms(900)), None, "{size}");
        }
    }

    #[test]
    fn a_shortage_names_the_limits_to_raise() {
        let asked = Sizes { send: Bytes::mib(2), receive: Bytes::mib(2) };
        let granted = Sizes { send: Bytes::mib(2), receive: Bytes::new(212_992) };
        let text = Shortage { asked, granted }.to_string();
        assert!(text.ends_with("to raise its limits: sysctl -w net.core.rmem_max=2097152"), "{text}");
        let granted = Sizes { send: Bytes::new(212_992), ..granted };
        let text = Shortage { asked, granted }.to_string();
        assert!(text.contains("net.core.wmem_max=2097152 sysctl -w net.core.rmem_max=2097152"), "{text}");
    }
}
