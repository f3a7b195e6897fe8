//! The interface by which datagrams leave: how fast it is, and whether its queue keeps release times.
//!
//! *In:* a remote address, or an interface's name. *Out:* an [`Interface`]. Every look-up asks the kernel
//! anew and needs no privilege; none waits for anything but the kernel.
//!
//! ```text
//! remote --route--> interface --carrier--> line rate -> Anchor
//!                             --qdisc----> Qdisc     -> SendClock
//! ```
//! On systems other than Linux nothing is known: the anchor is the fallback, and the timer serves.

#[cfg(target_os = "linux")]
mod carrier;
#[cfg(target_os = "linux")]
mod ethtool;
#[cfg(target_os = "linux")]
mod netlink;
mod outlet;
#[cfg(not(target_os = "linux"))]
mod unknown;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(target_os = "linux")]
mod wifi;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

#[cfg(target_os = "linux")]
use netlink::{Key, look_up, route};
#[cfg(not(target_os = "linux"))]
pub(super) use unknown::Watch;
#[cfg(not(target_os = "linux"))]
use unknown::{Key, look_up, route};
#[cfg(target_os = "linux")]
pub(super) use watch::Watch;

pub(super) use outlet::{Outlet, Outlets};

#[cfg(target_os = "linux")]
use crate::units::Gain;
use crate::units::Rate;

/// An interface as it is at present.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interface {
    /// Its name in this network namespace, such as `eth0`.
    pub name: String,
    /// Its number in this network namespace.
    pub index: u32,
    /// How fast datagrams may leave.
    pub anchor: Anchor,
    /// What holds them until they leave.
    pub qdisc: Qdisc,
}

/// The rate that no sender on an interface exceeds, and how it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Anchor {
    /// UDP payload in full datagrams.
    pub rate: Rate,
    /// Where it comes from.
    pub source: AnchorSource,
}

/// How an anchor is known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnchorSource {
    /// The kernel reports this line rate for the interface that carries the datagrams in the end: itself,
    /// what is below a VLAN, or the fastest running port of a bond or bridge.
    Line {
        /// Name of that interface.
        carrier: String,
        /// Its speed as Ethernet counts it.
        rate: Rate,
    },
    /// The radio of a Wi-Fi interface sends at this rate at present. The anchor is seven tenths of it: what
    /// preambles, gaps, block acknowledgements and contention leave of it to UDP on a quiet channel, at most.
    Wifi {
        /// The bit rate as nl80211 tells it.
        rate: Rate,
    },
    /// The kernel does not know (`lo`, virtio without a speed, tunnels, a `veth` whose other end
    /// is out of sight): 10 Gbit/s, the usual speed of virtual interfaces. State the rate with
    /// [`EndpointConfig::anchor`](super::EndpointConfig::anchor) if you know better.
    Fallback,
}

/// The queueing discipline at the root of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Qdisc {
    /// Its kind, such as `pfifo_fast`.
    pub kind: String,
    /// Kinds of the children of `mq`, one for each hardware queue, or of those of `mqprio` that serve the queues
    /// of datagrams without a priority; else empty.
    pub children: Vec<String>,
    /// The parameters of `etf`, if it or its children are that: of several the longest delta, and held by the
    /// device only if all are.
    pub etf: Option<Etf>,
}

/// How `etf` was set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Etf {
    /// How long before its release time it takes a datagram out.
    pub delta: Duration,
    /// The device then holds the datagram until its time; otherwise it leaves at once, by the delta early.
    pub is_offloaded: bool,
}

/// Who holds a datagram until its departure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendClock {
    /// We do: each batch is handed over when it is to leave, by a timer.
    Timer,
    /// The kernel's `fq`, told the release time through SO_TXTIME. Needs no privilege.
    #[default]
    Fq,
    /// The kernel's `etf`, with release times on CLOCK_TAI. Needs CAP_NET_ADMIN. It drops what comes late
    /// and whatever has no release time, other programs' datagrams and ARP too: for links of their own.
    Etf,
}

impl Interface {
    /// The interface of this name. The error names it.
    pub fn named(name: &str) -> io::Result<Self> {
        look_up(Key::Name(name))?.ok_or_else(|| {
            let message = format!("there is no network interface `{name}`: see `ip link` for their names");
            io::Error::new(io::ErrorKind::NotFound, message)
        })
    }

    /// The interface by which datagrams leave for `remote`, from a socket bound to `local` if that is an
    /// address of its own. The error names `remote`.
    pub fn towards(remote: SocketAddr, local: Option<IpAddr>) -> io::Result<Self> {
        let index = Self::index_towards(remote, local)?;
        look_up(Key::Index(index))?.ok_or_else(|| {
            let message = format!("the interface that leads to {} has just vanished", remote.ip());
            io::Error::new(io::ErrorKind::NotFound, message)
        })
    }

    /// Its number alone: the route, without what is known of the interface.
    pub(super) fn index_towards(remote: SocketAddr, local: Option<IpAddr>) -> io::Result<u32> {
        route(remote, local.filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_canonical())).map_err(|error| {
            let message = format!("no interface leads to {}: {error}", remote.ip());
            io::Error::new(error.kind(), message)
        })
    }
}

impl Anchor {
    /// What is assumed where the kernel does not know.
    pub const FALLBACK: Self = Self { rate: Rate::gbps(10), source: AnchorSource::Fallback };

    /// The share of a line that full datagrams of UDP payload get.
    #[cfg(target_os = "linux")]
    fn of_line(carrier: String, rate: Rate) -> Self {
        Self { rate: rate * PAYLOAD_OF_WIRE, source: AnchorSource::Line { carrier, rate } }
    }

    /// The share of a radio's bit rate that UDP payload gets.
    #[cfg(target_os = "linux")]
    fn of_wifi(rate: Rate) -> Self {
        Self { rate: rate * PAYLOAD_OF_RADIO, source: AnchorSource::Wifi { rate } }
    }
}

impl Etf {
    /// What must be reckoned with where a datagram may wait in either.
    #[cfg(target_os = "linux")]
    fn or_worse(self, other: Self) -> Self {
        Self { delta: self.delta.max(other.delta), is_offloaded: self.is_offloaded && other.is_offloaded }
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            AnchorSource::Line { carrier, rate } => {
                write!(f, "{} of UDP payload ({carrier} runs at {rate})", self.rate)
            }
            AnchorSource::Wifi { rate } => {
                write!(f, "{} of UDP payload (the radio sends at {rate} at present)", self.rate)
            }
            AnchorSource::Fallback => write!(f, "{} (fallback: the kernel knows no line rate)", self.rate),
        }
    }
}

impl Qdisc {
    /// The best send clock that this queue keeps. Others than these ignore release times without a word.
    pub fn send_clock(&self) -> SendClock {
        let are_all = |wanted| !self.children.is_empty() && self.children.iter().all(|kind| kind == wanted);
        match self.kind.as_str() {
            "fq" => SendClock::Fq,
            "mq" | "mqprio" if are_all("fq") => SendClock::Fq,
            "etf" => SendClock::Etf,
            "mq" | "mqprio" if are_all("etf") => SendClock::Etf,
            _ => SendClock::Timer,
        }
    }
}

impl fmt::Display for Qdisc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        let mut kinds: Vec<_> = self.children.iter().map(String::as_str).collect();
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.is_empty() { Ok(()) } else { write!(f, " of {}", kinds.join(", ")) }
    }
}

impl fmt::Display for SendClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timer => "timer",
            Self::Fq => "fq (SO_TXTIME, CLOCK_MONOTONIC)",
            Self::Etf => "etf (SO_TXTIME, CLOCK_TAI)",
        })
    }
}

/// A full datagram of 1452 bytes is 1518 bytes of Ethernet time over IPv4: UDP 8, IP 20, Ethernet with
/// preamble and gap 38. Over IPv6 it is 1538, which the rate exceeds by 1.3 %.
#[cfg(target_os = "linux")]
const PAYLOAD_OF_WIRE: Gain = Gain::ratio(1452, 1518);

/// Measurements of UDP over 802.11ac and ax find 0.5 to 0.7 of the bit rate. The anchor is what nobody exceeds,
/// so the most: what is too much of it the law finds out, what is too little nobody gets back.
#[cfg(target_os = "linux")]
const PAYLOAD_OF_RADIO: Gain = Gain::ratio(7, 10);

#[cfg(test)]
mod tests {
    use super::*;

    fn qdisc(kind: &str, children: &[&str]) -> Qdisc {
        Qdisc { kind: kind.into(), children: children.iter().map(|&kind| kind.into()).collect(), etf: None }
    }

    #[test]
    fn only_fq_and_etf_keep_release_times() {
        assert_eq!(qdisc("fq", &[]).send_clock(), SendClock::Fq);
        assert_eq!(qdisc("etf", &[]).send_clock(), SendClock::Etf);
        for kind in ["pfifo_fast", "fq_codel", "noqueue", "cake", "mq", "htb"] {
            assert_eq!(qdisc(kind, &[]).send_clock(), SendClock::Timer, "{kind}");
        }
    }

    #[test]
    fn mq_is_as_good_as_the_worst_of_its_children() {
        assert_eq!(qdisc("mq", &["fq", "fq"]).send_clock(), SendClock::Fq);
        assert_eq!(qdisc("mq", &["fq", "fq_codel"]).send_clock(), SendClock::Timer);
        assert_eq!(qdisc("mqprio", &["fq", "fq"]).send_clock(), SendClock::Fq);
        for kind in ["mq", "mqprio"] {
            assert_eq!(qdisc(kind, &["etf", "etf"]).send_clock(), SendClock::Etf, "{kind}");
            assert_eq!(qdisc(kind, &["etf", "fq"]).send_clock(), SendClock::Timer, "{kind}");
        }
        assert_eq!(qdisc("taprio", &["etf"]).send_clock(), SendClock::Timer, "it has gates of its own");
        assert_eq!(qdisc("mq", &["fq", "fq_codel", "fq"]).to_string(), "mq of fq, fq_codel");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_anchor_is_what_full_datagrams_get_of_the_line() {
        // 1452 / 1518 of 1 Gbit/s = 125 000 000 bytes/s * 0.956521... = 119 565 217 bytes/s.
        let anchor = Anchor::of_line("eth0".into(), Rate::gbps(1));
        assert_eq!(anchor.rate, Rate::bytes_per_sec(119_565_217));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_radios_anchor_is_seven_tenths_of_its_bit_rate() {
        let anchor = Anchor::of_wifi(Rate::kbps(866_700));
        assert_eq!(anchor.rate, Rate::kbps(606_690));
        assert!(anchor.to_string().ends_with("(the radio sends at 866.7 Mbit/s at present)"), "{anchor}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn loopback_is_found_by_name_and_by_address_and_has_the_fallback() {
        let by_name = Interface::named("lo").unwrap();
        for remote in ["127.0.0.1:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(Interface::towards(remote.parse().unwrap(), None).unwrap(), by_name, "{remote}");
        }
        assert_eq!(by_name.anchor, Anchor::FALLBACK);
        assert_eq!(by_name.qdisc.send_clock(), SendClock::Timer);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_unknown_name_is_told() {
        let error = Interface::named("nosuch0").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("`nosuch0`"), "{error}");
    }
}
