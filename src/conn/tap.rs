//! The tap: what `quinn-proto` takes for a congestion controller.
//!
//! *What it decides:* nothing. It is the **gate** through which [`Core`](super::core::Core) lets
//! datagrams out, and the **event log** from which the core learns what became of them. A second tap
//! writes in the same log: the one on the TLS session, in [`crypto`](super::crypto).
//!
//! In driver mode `window()` has two answers. Open (2³²) lets `poll_transmit` build a datagram
//! whenever asked, and is large enough that `quinn-proto`'s own token bucket stands aside (it does so
//! above `u32::MAX`). Shut (1) lets only loss probes out, and pure acknowledgements when nothing else
//! is queued. A value between would wake that second pacer.
//!
//! A foreign controller (quinn's own, or a third party's) lives inside the tap and sees every call
//! verbatim, since it needs `quinn-proto`'s round-trip estimator; its answer is read back through
//! `metrics()`. Foreign controllers may seed themselves and use the platform's floating point, so
//! runs with them cannot be replayed.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{
    BbrConfig, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig,
};
use quinn_proto::crypto::HeaderKey;

use crate::signal::{Feedback, PacketNumber, PathId, Plan};
use crate::units::{Bytes, Gain, Rate};

/// One line of the event log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// The connection took up a path; `from` names the path whose controller was cloned for it.
    PathOpened { path: PathId, from: Option<PathId> },
    /// An ACK frame was opened, which names these packets; what it changes follows.
    AckRange { first: PacketNumber, last: PacketNumber },
    /// Something became of earlier packets.
    Feedback { path: PathId, feedback: Feedback },
}

/// What taps and core share.
pub(super) struct Shared {
    is_open: AtomicBool,
    log: Mutex<Vec<Entry>>,
    /// Most datagrams that are polled leave nothing in the log, which is then not locked.
    has_entries: AtomicBool,
    paths: AtomicU64,
    /// The path that the datagram polled last carries data of, until it is taken.
    polled: Latest,
    /// Number of the 1-RTT packet sealed last, until it is taken.
    sealed: Latest,
    /// Number of the 1-RTT packet opened last, until it is taken.
    opened: Latest,
    /// Reads the headers of the peer's 1-RTT packets, once its handshake has come that far.
    header_key: OnceLock<Arc<dyn HeaderKey>>,
    /// The peer's newest count of congestion-experienced packets, and what it was at the last mark.
    ce_count: AtomicU64,
    ce_count_at_mark: AtomicU64,
    /// The plan in force, for `metrics()`: window in bytes and rate in bits per second.
    plan_window: AtomicU64,
    plan_rate_bps: AtomicU64,
}

impl Shared {
    /// An open gate and an empty log.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            is_open: AtomicBool::new(true),
            log: Mutex::default(),
            has_entries: AtomicBool::new(false),
            paths: AtomicU64::new(0),
            polled: Latest::default(),
            sealed: Latest::default(),
            opened: Latest::default(),
            header_key: OnceLock::new(),
            ce_count: AtomicU64::new(0),
            ce_count_at_mark: AtomicU64::new(0),
            plan_window: AtomicU64::new(0),
            plan_rate_bps: AtomicU64::new(0),
        })
    }

    /// Opens or shuts the gate for the next poll.
    pub fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
    }

    /// Publishes the plan in force.
    pub fn publish(&self, plan: &Plan, pacing_rate: Rate) {
        self.plan_window.store(plan.window.get(), Ordering::Relaxed);
        self.plan_rate_bps.store(pacing_rate.as_bits_per_sec(), Ordering::Relaxed);
    }

    /// Swaps the log's lines for the cleared `into`.
    pub fn drain(&self, into: &mut Vec<Entry>) {
        into.clear();
        if self.has_entries.load(Ordering::Relaxed) {
            std::mem::swap(&mut *self.lock(), into);
            self.has_entries.store(false, Ordering::Relaxed);
        }
    }

    /// The path that the datagram just polled carries data of, if it does.
    pub fn take_polled(&self) -> Option<PathId> {
        self.polled.take().map(PathId)
    }

    /// Notes a 1-RTT packet that is being sealed.
    pub fn set_sealed(&self, number: PacketNumber) {
        self.sealed.set(number.0);
    }

    /// The 1-RTT packet with which the datagram just polled ends, if it ends with one.
    pub fn take_sealed(&self) -> Option<PacketNumber> {
        self.sealed.take().map(PacketNumber)
    }

    /// Notes a 1-RTT packet that was opened, and so is the peer's.
    pub fn set_opened(&self, number: PacketNumber) {
        self.opened.set(number.0);
    }

    /// The 1-RTT packet in the datagram just handed on, if there is an authentic one.
    pub fn take_opened(&self) -> Option<PacketNumber> {
        self.opened.take().map(PacketNumber)
    }

    /// The key of the peer's 1-RTT headers, given once.
    pub fn set_header_key(&self, key: Arc<dyn HeaderKey>) {
        let _ = self.header_key.set(key);
    }

    pub fn header_key(&self) -> Option<&dyn HeaderKey> {
        self.header_key.get().map(|key| &**key)
    }

    fn push(&self, entry: Entry) {
        self.append(|log| log.push(entry));
    }

    /// Lets `append` write several lines at once.
    pub fn append<T>(&self, append: impl FnOnce(&mut Vec<Entry>) -> T) -> T {
        self.has_entries.store(true, Ordering::Relaxed);
        append(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the peer's count of congestion-experienced packets, as the ACK frame being read has it.
    pub fn set_ce_count(&self, count: u64) {
        self.ce_count.store(count, Ordering::Relaxed);
    }

    /// How many packets were marked since the last call: one at least, since a mark was reported. The
    /// handshake's marks are not counted.
    fn take_marks(&self) -> u32 {
        let count = self.ce_count.load(Ordering::Relaxed);
        let before = self.ce_count_at_mark.swap(count, Ordering::Relaxed);
        u32::try_from(count.saturating_sub(before)).unwrap_or(u32::MAX).max(1)
    }

    fn next_path(&self) -> PathId {
        PathId(self.paths.fetch_add(1, Ordering::Relaxed))
    }
}

pub(super) type Factory = Arc<dyn ControllerFactory + Send + Sync>;

/// A congestion controller written for `quinn-proto`.
#[derive(Clone)]
pub struct Foreign {
    name: &'static str,
    factory: Factory,
}

impl Foreign {
    /// The controllers that `factory` builds, under a name for traces.
    pub fn new(name: &'static str, factory: Arc<dyn ControllerFactory + Send + Sync>) -> Self {
        Self { name, factory }
    }

    /// `quinn-proto`'s CUBIC with its default configuration.
    pub fn cubic() -> Self {
        Self::new("quinn-cubic", Arc::new(CubicConfig::default()))
    }

    /// `quinn-proto`'s NewReno with its default configuration.
    pub fn new_reno() -> Self {
        Self::new("quinn-newreno", Arc::new(NewRenoConfig::default()))
    }

    /// `quinn-proto`'s BBR with its default configuration.
    pub fn bbr() -> Self {
        Self::new("quinn-bbr", Arc::new(BbrConfig::default()))
    }

    /// Its name in traces.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn factory(&self) -> Factory {
        self.factory.clone()
    }
}

/// The answer of the foreign controller inside `connection`'s tap: its window, paced as quinn paces it,
/// at 1.25 · window / srtt (RFC 9002 §7.7). quinn does not read `metrics().pacing_rate`, so neither do we:
/// its BBR, held to the rate that it reports, gets 3 Mbit/s where it gets 136 in stock quinn.
pub(super) fn foreign_plan(connection: &quinn_proto::Connection, srtt: Duration) -> Plan {
    let window = Bytes::new(connection.congestion_state().metrics().congestion_window);
    Plan::new((window / srtt) * PACING_GAIN, window)
}

/// Makes the taps of one connection: one per path.
pub(super) struct TapFactory {
    pub shared: Arc<Shared>,
    pub foreign: Option<Factory>,
}

impl ControllerFactory for TapFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let path = self.shared.next_path();
        self.shared.push(Entry::PathOpened { path, from: None });
        let foreign = self.foreign.clone().map(|factory| factory.build(now, current_mtu));
        Box::new(Tap { path, shared: self.shared.clone(), foreign })
    }
}

/// One path's tap.
struct Tap {
    path: PathId,
    shared: Arc<Shared>,
    foreign: Option<Box<dyn Controller>>,
}

impl Tap {
    fn log(&self, feedback: Feedback) {
        self.shared.push(Entry::Feedback { path: self.path, feedback });
    }
}

impl Controller for Tap {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.shared.polled.set(self.path.0);
        if let Some(foreign) = &mut self.foreign {
            foreign.on_sent(now, bytes, last_packet_number);
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.log(Feedback::Acked { sent, bytes: Bytes::new(bytes) });
        if let Some(foreign) = &mut self.foreign {
            foreign.on_ack(now, sent, bytes, app_limited, rtt);
        }
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.log(Feedback::AckEnd { now, in_flight: Bytes::new(in_flight) });
        if let Some(foreign) = &mut self.foreign {
            foreign.on_end_acks(now, in_flight, app_limited, largest);
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost_bytes: u64) {
        self.log(match lost_bytes {
            0 => Feedback::Marked { now, newest: sent, packets: self.shared.take_marks() },
            bytes => Feedback::Lost { now, newest: sent, bytes: Bytes::new(bytes), persistent },
        });
        if let Some(foreign) = &mut self.foreign {
            foreign.on_congestion_event(now, sent, persistent, lost_bytes);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.log(Feedback::Mtu(Bytes::new(new_mtu.into())));
        if let Some(foreign) = &mut self.foreign {
            foreign.on_mtu_update(new_mtu);
        }
    }

    fn window(&self) -> u64 {
        if self.shared.is_open.load(Ordering::Relaxed) { OPEN } else { SHUT }
    }

    fn metrics(&self) -> ControllerMetrics {
        if let Some(foreign) = &self.foreign {
            return foreign.metrics();
        }
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.shared.plan_window.load(Ordering::Relaxed);
        metrics.pacing_rate = Some(self.shared.plan_rate_bps.load(Ordering::Relaxed));
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let path = self.shared.next_path();
        self.shared.push(Entry::PathOpened { path, from: Some(self.path) });
        let foreign = self.foreign.as_ref().map(|foreign| foreign.clone_box());
        Box::new(Self { path, shared: self.shared.clone(), foreign })
    }

    fn initial_window(&self) -> u64 {
        OPEN
    }

    fn into_any(mut self: Box<Self>) -> Box<dyn Any> {
        match self.foreign.take() {
            Some(foreign) => foreign.into_any(),
            None => self,
        }
    }
}

/// Any number of datagrams may be polled.
const OPEN: u64 = 1 << 32;
/// Only loss probes leave, and pure acknowledgements when nothing else is queued.
pub(super) const SHUT: u64 = 1;

/// The number noted last, until it is taken. Taps and core take turns, so that no lock is needed.
struct Latest(AtomicU64);

impl Latest {
    fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    fn take(&self) -> Option<u64> {
        let number = self.0.load(Ordering::Relaxed);
        self.0.store(NONE, Ordering::Relaxed);
        (number != NONE).then_some(number)
    }
}

impl Default for Latest {
    fn default() -> Self {
        Self(AtomicU64::new(NONE))
    }
}

/// No packet number, which are below 2⁶² (RFC 9000 §12.3), and no path.
const NONE: u64 = u64::MAX;

/// RFC 9002 §7.7: pace at N · window / srtt, N = 1.25.
const PACING_GAIN: Gain = Gain::ratio(5, 4);
