//! What the relay counts, and how a caller reads it while the relay runs.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::link::{Fate, Loss};
use crate::time::Span;

/// What a relay has done so far.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RelayStats {
    /// What clients sent.
    pub to_server: DirectionStats,
    /// What the server sent.
    pub to_client: DirectionStats,
    /// Clients that have an upstream socket now.
    pub clients: usize,
    /// Clients that lost their upstream socket to a newer client.
    pub evicted_clients: u64,
    /// Datagrams dropped because their client could not be given an upstream socket.
    pub clientless: u64,
}

/// What became of one direction's datagrams.
///
/// `offered` is the sum of the five after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectionStats {
    /// Datagrams that were offered to the link.
    pub offered: u64,
    /// Datagrams that left the relay.
    pub delivered: u64,
    /// Datagrams that the link's full buffer dropped.
    pub overflow_drops: u64,
    /// Datagrams that the link lost at random.
    pub random_losses: u64,
    /// Datagrams that the kernel would not send: its buffer stayed full, or it said no.
    pub kernel_refused: u64,
    /// Datagrams that wait for their time.
    pub in_flight: u64,
    /// Datagrams that never reached the relay because its receive buffers were full, counted by the
    /// kernel for the sockets that are open now. `None` where the system does not tell.
    pub receive_drops: Option<u64>,
    /// How much later than planned datagrams left.
    pub lateness: Lateness,
}

/// Send call returned minus planned departure, over all delivered datagrams.
///
/// The quantiles are read from a histogram: at most 1/8 (or 1 µs) too high, never too low.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lateness {
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The largest.
    pub max: Duration,
}

/// The counters, shared between the relay's thread and its owner.
#[derive(Debug)]
pub(super) struct Shared(Mutex<Counters>);

#[derive(Debug)]
pub(super) struct Counters {
    pub(super) to_server: DirectionCounters,
    pub(super) to_client: DirectionCounters,
    pub(super) evicted_clients: u64,
    pub(super) clientless: u64,
    listen_inode: Option<u64>,
    /// Of the clients' upstream sockets.
    pub(super) upstream_inodes: Vec<Option<u64>>,
}

#[derive(Debug, Default)]
pub(super) struct DirectionCounters {
    offered: u64,
    delivered: u64,
    overflow_drops: u64,
    random_losses: u64,
    kernel_refused: u64,
    lateness: Histogram,
}

impl Shared {
    pub(super) fn new(listen_inode: Option<u64>) -> Self {
        Self(Mutex::new(Counters {
            to_server: DirectionCounters::default(),
            to_client: DirectionCounters::default(),
            evicted_clients: 0,
            clientless: 0,
            listen_inode,
            upstream_inodes: Vec::new(),
        }))
    }

    /// Held for a few additions at a time. Counters are valid at every step, so a poisoned lock
    /// is as good as any.
    pub(super) fn lock(&self) -> MutexGuard<'_, Counters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn snapshot(&self) -> RelayStats {
        let (stats, listen, upstream) = {
            let counters = self.lock();
            let stats = RelayStats {
                to_server: counters.to_server.snapshot(),
                to_client: counters.to_client.snapshot(),
                clients: counters.upstream_inodes.len(),
                evicted_clients: counters.evicted_clients,
                clientless: counters.clientless,
            };
            (stats, counters.listen_inode, counters.upstream_inodes.clone())
        };
        let table = kernel_socket_table();
        let drops = |inodes: &[Option<u64>]| receive_drops(table.as_deref()?, inodes);
        let to_server = DirectionStats { receive_drops: drops(&[listen]), ..stats.to_server };
        let to_client = DirectionStats { receive_drops: drops(&upstream), ..stats.to_client };
        RelayStats { to_server, to_client, ..stats }
    }
}

impl DirectionCounters {
    pub(super) fn count_offered(&mut self, fate: Fate) {
        self.offered += 1;
        match fate {
            Fate::Delivered { .. } => {}
            Fate::Lost(Loss::Overflow) => self.overflow_drops += 1,
            Fate::Lost(Loss::Random) => self.random_losses += 1,
        }
    }

    pub(super) fn count_delivered(&mut self, late: Span) {
        self.delivered += 1;
        self.lateness.add(late.into());
    }

    pub(super) fn count_refused(&mut self) {
        self.kernel_refused += 1;
    }

    fn snapshot(&self) -> DirectionStats {
        let settled = self.delivered + self.overflow_drops + self.random_losses + self.kernel_refused;
        DirectionStats {
            offered: self.offered,
            delivered: self.delivered,
            overflow_drops: self.overflow_drops,
            random_losses: self.random_losses,
            kernel_refused: self.kernel_refused,
            in_flight: self.offered - settled,
            receive_drops: None,
            lateness: self.lateness.snapshot(),
        }
    }
}

/// The kernel's table of UDP sockets, one line each; `None` where there is none.
fn kernel_socket_table() -> Option<String> {
    let v4 = std::fs::read_to_string("/proc/self/net/udp").ok()?;
    let v6 = std::fs::read_to_string("/proc/self/net/udp6").unwrap_or_default();
    Some(v4 + &v6)
}

/// The sum of these sockets' drops, by the table's columns `inode` (tenth) and `drops` (last).
fn receive_drops(table: &str, inodes: &[Option<u64>]) -> Option<u64> {
    let drops_of = |inode: u64| {
        table.lines().find_map(|line| {
            let mut columns = line.split_ascii_whitespace();
            let found: u64 = columns.nth(9)?.parse().ok()?;
            (found == inode).then(|| columns.last()?.parse::<u64>().ok())?
        })
    };
    inodes.iter().map(|inode| drops_of((*inode)?)).sum()
}

/// Counts durations in buckets of whole microseconds, eight to an octave.
#[derive(Debug)]
struct Histogram {
    buckets: [u64; BUCKETS],
    count: u64,
    max: Duration,
}

impl Histogram {
    fn add(&mut self, value: Duration) {
        self.buckets[bucket(value)] += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    /// The upper end of the bucket that holds the value with this rank from below.
    fn percentile(&self, percent: u64) -> Duration {
        let rank = (self.count * percent).div_ceil(100);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank && seen > 0 {
                return upper_end(index).min(self.max);
            }
        }
        Duration::ZERO
    }

    fn snapshot(&self) -> Lateness {
        Lateness { p50: self.percentile(50), p99: self.percentile(99), max: self.max }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], count: 0, max: Duration::ZERO }
    }
}

/// Below 8 µs a bucket holds 1 µs; from there on an octave has eight buckets.
fn bucket(value: Duration) -> usize {
    let micros = usize::try_from(value.as_micros()).unwrap_or(usize::MAX);
    if micros < STEPS {
        return micros;
    }
    let shift = micros.ilog2() - STEPS.ilog2();
    (shift as usize * STEPS + (micros >> shift)).min(BUCKETS - 1)
}

/// Where the next bucket begins.
fn upper_end(bucket: usize) -> Duration {
    let (octave, step) =
        ((bucket / STEPS).max(1) - 1, if bucket < STEPS { bucket } else { bucket % STEPS + STEPS });
    Duration::from_micros(((step + 1) as u64) << octave)
}

const STEPS: usize = 8;
/// Up to 2²⁷ µs, two minutes; what is later goes into the last bucket.
const BUCKETS: usize = 25 * STEPS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_below_its_buckets_upper_end() {
        for micros in (0..2_000).chain([5_000, 70_000, 1_000_000, 60_000_000]) {
            let (value, found) = (Duration::from_micros(micros), bucket(Duration::from_micros(micros)));
            assert!(value < upper_end(found), "{micros} us in bucket {found}");
            assert!(found == 0 || value >= upper_end(found - 1), "{micros} us in bucket {found}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.snapshot(), Lateness::default());
        for micros in 0..1000 {
            histogram.add(Duration::from_micros(micros));
        }
        let Lateness { p50, p99, max } = histogram.snapshot();
        assert!((500..=563).contains(&p50.as_micros()), "{p50:?}");
        assert!((990..=1000).contains(&p99.as_micros()), "{p99:?}");
        assert_eq!(max, Duration::from_micros(999));
    }

    #[test]
    fn outliers_stay_in_the_last_bucket() {
        let mut histogram = Histogram::default();
        histogram.add(Duration::MAX);
        assert_eq!(histogram.max, Duration::MAX);
        assert_eq!(histogram.buckets[BUCKETS - 1], 1);
    }

    #[test]
    fn the_kernels_table_yields_the_drops_of_our_sockets() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  10: 0100007F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4242 2 0000000000000000 17
  11: 0100007F:1F91 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4243 2 0000000000000000 3
";
        assert_eq!(receive_drops(table, &[Some(4242)]), Some(17));
        assert_eq!(receive_drops(table, &[Some(4242), Some(4243)]), Some(20));
        assert_eq!(receive_drops(table, &[]), Some(0));
        assert_eq!(receive_drops(table, &[Some(1)]), None);
    }
}
