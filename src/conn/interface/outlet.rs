//! Where each of an endpoint's connections leaves, as far as its driver needs to know.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::{Anchor, AnchorSource, Interface, Key, SendClock, look_up};
use crate::conn::txtime::ReleaseTime;
use crate::egress::LinkId;
use crate::units::Rate;

/// Where a connection's datagrams leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlet {
    /// Number of the interface; 0 is an unknown one.
    pub link: LinkId,
    /// Most that may leave there.
    pub anchor: Rate,
    /// Who holds them until they leave.
    pub clock: SendClock,
    /// How far ahead a departure must be planned at least.
    pub margin: Duration,
    /// How long before the time that it is told the queue lets a datagram go.
    pub early: Duration,
    /// The anchor moves without a notice: a radio's.
    pub is_fickle: bool,
}

/// The outlets of an endpoint, and what it was told to make of them.
#[derive(Debug)]
pub struct Outlets {
    anchor: Option<Rate>,
    seat: Mutex<Seat>,
    known: Mutex<FxHashMap<u32, Outlet>>,
    /// A connection's peer has another address.
    pub moved: Notify,
}

/// A socket, as far as routes depend on it.
#[derive(Debug, Clone, Copy)]
struct Seat {
    local: IpAddr,
    clock: SendClock,
}

impl Outlet {
    /// Where nothing is known.
    pub fn unknown(anchor: Option<Rate>) -> Self {
        let anchor = anchor.unwrap_or(Anchor::FALLBACK.rate);
        let (margin, early) = (Duration::ZERO, Duration::ZERO);
        Self { link: 0, anchor, clock: SendClock::Timer, margin, early, is_fickle: false }
    }

    /// What the kernel is to be told of a batch that departs at `departure`, if it keeps release times.
    pub fn release_if_kept(&self, departure: Instant) -> Option<ReleaseTime> {
        (self.clock != SendClock::Timer).then(|| self.release(departure))
    }

    /// The same where it does.
    pub fn release(&self, departure: Instant) -> ReleaseTime {
        ReleaseTime { at: departure + self.early, ahead: self.margin + self.early }
    }
}

impl Outlets {
    /// Of a socket at `local` that can use `clock` besides the timer; `anchor` overrides what the kernel
    /// knows.
    pub fn new(local: IpAddr, anchor: Option<Rate>, clock: SendClock) -> Self {
        let seat = Mutex::new(Seat { local, clock });
        Self { anchor, seat, known: Mutex::default(), moved: Notify::new() }
    }

    /// The endpoint has moved to another socket.
    pub fn move_to(&self, local: IpAddr, clock: SendClock) {
        *self.seat.lock().unwrap_or_else(PoisonError::into_inner) = Seat { local, clock };
        self.forget();
    }

    /// What was demanded of all anchors.
    pub fn anchor(&self) -> Option<Rate> {
        self.anchor
    }

    /// The outlet towards `remote`. A look-up that fails leads to the unknown one: the datagrams may get
    /// through all the same.
    pub fn towards(&self, remote: SocketAddr) -> Outlet {
        let index = match Interface::index_towards(remote, Some(self.seat().local)) {
            Ok(index) => index,
            Err(error) => {
                tracing::debug!(%error, "the interface is not known");
                return Outlet::unknown(self.anchor);
            }
        };
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&index).copied();
        known.unwrap_or_else(|| self.learn(index))
    }

    /// When the kernel is to let a datagram of the endpoint itself go. `etf` drops whatever has no release time;
    /// `fq` lets it through at once.
    pub fn release_for_stranger(&self, remote: SocketAddr, now: Instant) -> Option<ReleaseTime> {
        let is_etf = self.seat().clock == SendClock::Etf;
        is_etf.then(|| self.towards(remote)).and_then(|outlet| outlet.release_if_kept(now))
    }

    /// Something has changed: what was known is looked up anew.
    pub fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn seat(&self) -> Seat {
        *self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any anchor may have moved without a notice.
    pub fn are_fickle(&self) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().any(|outlet| outlet.is_fickle)
    }

    fn learn(&self, index: u32) -> Outlet {
        let interface = match look_up(Key::Index(index)) {
            Ok(Some(interface)) => interface,
            Ok(None) => return Outlet::unknown(self.anchor),
            Err(error) => {
                tracing::debug!(%error, index, "the interface cannot be looked up");
                return Outlet::unknown(self.anchor);
            }
        };
        let outlet = self.outlet(&interface);
        tracing::debug!(
            interface = interface.name,
            anchor = %interface.anchor,
            qdisc = %interface.qdisc,
            clock = %outlet.clock,
            "an outlet"
        );
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(index, outlet);
        outlet
    }

    fn outlet(&self, interface: &Interface) -> Outlet {
        let offered = interface.qdisc.send_clock();
        let clock = if offered == self.seat().clock { offered } else { SendClock::Timer };
        let (margin, early) = match (clock, interface.qdisc.etf) {
            (SendClock::Etf, Some(etf)) if etf.is_offloaded => (etf.delta + ETF_SLACK, Duration::ZERO),
            (SendClock::Etf, Some(etf)) => (ETF_SLACK, etf.delta),
            _ => (Duration::ZERO, Duration::ZERO),
        };
        Outlet {
            link: interface.index,
            anchor: self.anchor.unwrap_or(interface.anchor.rate),
            clock,
            margin,
            early,
            is_fickle: self.anchor.is_none() && matches!(interface.anchor.source, AnchorSource::Wifi { .. }),
        }
    }
}

/// `etf` drops what is late, and what is due before a datagram that it has taken out, which it does by its
/// delta ahead. This much is for the way from the clock's reading to the queue.
const ETF_SLACK: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    use super::super::{Etf, Qdisc};
    use super::*;

    const DELTA: Duration = Duration::from_micros(300);

    fn interface(qdisc: &str) -> Interface {
        let etf = (qdisc == "etf").then_some(Etf { delta: DELTA, is_offloaded: false });
        let qdisc = Qdisc { kind: qdisc.into(), children: Vec::new(), etf };
        Interface { name: "eth0".into(), index: 2, anchor: Anchor::FALLBACK, qdisc }
    }

    fn outlets(clock: SendClock) -> Outlets {
        Outlets::new(IpAddr::from([0, 0, 0, 0]), None, clock)
    }

    #[test]
    fn a_clock_is_used_where_it_was_asked_for_and_is_kept() {
        let clock = |asked, qdisc| outlets(asked).outlet(&interface(qdisc)).clock;
        assert_eq!(clock(SendClock::Fq, "fq"), SendClock::Fq);
        assert_eq!(clock(SendClock::Etf, "etf"), SendClock::Etf);
        assert_eq!(clock(SendClock::Fq, "pfifo_fast"), SendClock::Timer);
        assert_eq!(clock(SendClock::Fq, "etf"), SendClock::Timer);
        assert_eq!(clock(SendClock::Etf, "fq"), SendClock::Timer);
        assert_eq!(clock(SendClock::Timer, "fq"), SendClock::Timer);
    }

    #[test]
    fn etf_is_told_a_time_at_which_the_datagram_leaves_when_it_is_to() {
        let times = |interface: &Interface, clock| {
            let outlet = outlets(clock).outlet(interface);
            (outlet.margin.as_micros(), outlet.early.as_micros())
        };
        let mut etf = interface("etf");
        assert_eq!(times(&etf, SendClock::Etf), (200, 300));
        etf.qdisc.etf = Some(Etf { delta: DELTA, is_offloaded: true });
        assert_eq!(times(&etf, SendClock::Etf), (500, 0), "the device holds it until its time");
        assert_eq!(times(&interface("fq"), SendClock::Fq), (0, 0));
    }

    #[test]
    fn a_radio_is_asked_again_unless_its_anchor_was_given() {
        let anchor = Anchor { rate: Rate::mbps(70), source: AnchorSource::Wifi { rate: Rate::mbps(100) } };
        let radio = Interface { anchor, ..interface("noqueue") };
        assert!(outlets(SendClock::Fq).outlet(&radio).is_fickle);
        assert!(!outlets(SendClock::Fq).outlet(&interface("noqueue")).is_fickle);
        let given = Outlets::new(IpAddr::from([0, 0, 0, 0]), Some(Rate::mbps(7)), SendClock::Fq);
        assert!(!given.outlet(&radio).is_fickle);
        assert!(!given.are_fickle(), "none is known");
    }

    #[test]
    fn an_anchor_that_was_given_overrides_what_is_known() {
        let outlets = Outlets::new(IpAddr::from([0, 0, 0, 0]), Some(Rate::mbps(7)), SendClock::Fq);
        assert_eq!(outlets.outlet(&interface("fq")).anchor, Rate::mbps(7));
        // 240.0.0.1 is no address of anybody: no route, or one that we know nothing of.
        assert_eq!(outlets.towards("240.0.0.1:1".parse().unwrap()).anchor, Rate::mbps(7));
    }
}
