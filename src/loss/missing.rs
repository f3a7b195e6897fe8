//! Lost packets that may yet turn up: a packet that was only late was no loss.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::signal::{PacketNumber, Rtt, Snapshot};

/// The packets of one path that were lost lately, by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Missing {
    packets: BTreeMap<PacketNumber, Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    snapshot: Snapshot,
    lost_at: Instant,
}

impl Missing {
    /// Adds a lost packet.
    pub fn insert(&mut self, now: Instant, number: PacketNumber, snapshot: Snapshot) {
        if self.packets.len() == MOST_PACKETS {
            self.packets.pop_first();
        }
        self.packets.insert(number, Entry { snapshot, lost_at: now });
    }

    /// Takes out one of the packets from `first` to `last`. Costs a look-up, however long the range.
    pub fn take(&mut self, first: PacketNumber, last: PacketNumber) -> Option<Snapshot> {
        if first > last {
            return None;
        }
        let (&number, _) = self.packets.range(first..=last).next()?;
        self.packets.remove(&number).map(|entry| entry.snapshot)
    }

    /// Forgets what has been missing for so long that it will not come any more.
    pub fn forget(&mut self, now: Instant, rtt: Option<Rtt>) {
        let Some(rtt) = rtt else { return };
        // Lower numbers are lost no later than higher ones.
        while let Some(oldest) = self.packets.first_entry() {
            if now.saturating_duration_since(oldest.get().lost_at) <= patience(&rtt) {
                break;
            }
            oldest.remove();
        }
    }
}

/// Four probe timeouts in a row, each twice as long as the one before (RFC 9002 §6.2.1): persistent congestion
/// is declared after three, and that is what a delay of a moment looks like.
fn patience(rtt: &Rtt) -> Duration {
    (rtt.smoothed + (rtt.deviation * 4).max(GRANULARITY) + MAX_ACK_DELAY) * (1 + 2 + 4 + 8)
}

/// Bounds a connection's memory to half a megabyte.
const MOST_PACKETS: usize = 4096;

/// RFC 9002 §6.1.2.
const GRANULARITY: Duration = Duration::from_millis(1);

/// RFC 9000 §18.2, the default.
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::{ms, t0};
    use crate::units::Bytes;

    const RTT: Rtt = Rtt { latest: ms(40), min: ms(40), smoothed: ms(40), deviation: ms(5) };

    /// Packets of these numbers, number n sent at n ms, all lost at `t0`.
    fn missing(numbers: impl IntoIterator<Item = u64>) -> Missing {
        let mut missing = Missing::default();
        for number in numbers {
            missing.insert(t0(), PacketNumber(number), packet(number));
        }
        missing
    }

    fn packet(number: u64) -> Snapshot {
        Snapshot {
            sent: t0() + ms(number),
            bytes: Bytes::new(1000),
            tx_in_flight: Bytes::new(1000),
            delivered: Bytes::ZERO,
            delivered_at: t0(),
            first_sent: t0(),
            lost: Bytes::ZERO,
            app_limited: false,
            round: 0,
        }
    }

    fn take(missing: &mut Missing, first: u64, last: u64) -> Vec<Snapshot> {
        std::iter::from_fn(|| missing.take(PacketNumber(first), PacketNumber(last))).collect()
    }

    #[test]
    fn a_range_takes_what_it_names_once() {
        let mut missing = missing([3, 5, 9]);
        assert_eq!(take(&mut missing, 4, 8), [packet(5)]);
        assert_eq!(take(&mut missing, 0, u64::MAX), [packet(3), packet(9)]);
        assert!(take(&mut missing, 0, u64::MAX).is_empty());
    }

    #[test]
    fn a_range_upside_down_takes_nothing() {
        assert!(take(&mut missing([3, 5, 9]), 9, 3).is_empty());
    }

    #[test]
    fn four_probe_timeouts_are_waited_for() {
        // 15 · (40 + 4 · 5 + 25) ms.
        let mut missing = missing([3, 5]);
        missing.insert(t0() + ms(100), PacketNumber(7), packet(7));
        missing.forget(t0() + ms(1275), Some(RTT));
        assert_eq!(missing.packets.len(), 3);
        missing.forget(t0() + ms(1276), Some(RTT));
        assert_eq!(take(&mut missing, 0, 9), [packet(7)]);
    }

    #[test]
    fn memory_is_bounded_and_the_newest_are_kept() {
        let most = MOST_PACKETS as u64;
        let mut missing = missing(0..most + 10);
        assert_eq!(missing.packets.len(), MOST_PACKETS);
        assert!(take(&mut missing, 0, 9).is_empty());
        assert_eq!(take(&mut missing, most + 9, most + 9).len(), 1);
    }
}
