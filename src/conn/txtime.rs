//! Datagrams with a release time: SO_TXTIME. The kernel's `fq` or `etf` keeps them until then; other
//! queues send them at once, without a word, so whoever calls this has looked first.
//!
//! `quinn-udp` has no such control message; the others that it writes are written here too.

use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
pub(super) use imp::TxTime;
#[cfg(not(target_os = "linux"))]
pub(super) use none::TxTime;

/// When a batch is to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReleaseTime {
    /// What the kernel is told, unless that is too soon.
    pub at: Instant,
    /// How far ahead it must be when the kernel is told. `fq` takes the past for the present; `etf` drops
    /// what is late.
    pub ahead: Duration,
}

/// What became of release times, as the kernel reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReleaseReports {
    /// Datagrams, or batches of them, that `etf` dropped because their time had passed.
    pub missed: u64,
    /// Such as it did not take because their time, or their clock, was wrong.
    pub refused: u64,
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io::{self, IoSlice};
    use std::net::IpAddr;
    use std::os::fd::{AsFd, AsRawFd};
    use std::time::{Duration, Instant};

    use nix::errno::Errno;
    use nix::libc;
    use nix::sys::socket::sockopt::TxTime as TxTimeOption;
    use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg, setsockopt};
    use nix::time::ClockId;
    use quinn_udp::Transmit;

    use super::super::clock;
    use super::super::interface::SendClock;
    use super::ReleaseTime;

    /// A socket's release times.
    #[derive(Debug)]
    pub struct TxTime {
        clock: ClockId,
        /// One instant, read on both clocks.
        origin: (Instant, Duration),
    }

    impl TxTime {
        /// Allows release times on a socket. `etf` needs CAP_NET_ADMIN, `fq` nothing.
        pub fn enable(socket: &impl AsFd, clock: SendClock) -> io::Result<Self> {
            let kernel = match clock {
                SendClock::Etf => ClockId::from_raw(libc::CLOCK_TAI),
                SendClock::Fq | SendClock::Timer => ClockId::CLOCK_MONOTONIC,
            };
            let request =
                libc::sock_txtime { clockid: kernel.as_raw(), flags: libc::SOF_TXTIME_REPORT_ERRORS };
            setsockopt(socket, TxTimeOption, &request)?;
            Ok(Self { clock: kernel, origin: clock::now_with(kernel)? })
        }

        /// Sends a batch that is to leave at `release`.
        pub fn send(
            &mut self,
            socket: &impl AsRawFd,
            transmit: &Transmit<'_>,
            release: ReleaseTime,
        ) -> io::Result<()> {
            let release = self.on_clock(release)?;
            let destination = SockaddrStorage::from(transmit.destination);
            let segment = u16::try_from(transmit.segment_size.unwrap_or_default()).unwrap_or_default();
            let ecn = transmit.ecn.map_or(0, |ecn| ecn as u8);
            let (tos, class) = (ecn, i32::from(ecn));
            let (v4, v6);
            let mut messages = vec![ControlMessage::TxTime(&release)];
            if transmit.destination.ip().to_canonical().is_ipv4() {
                messages.push(ControlMessage::Ipv4Tos(&tos));
            } else {
                messages.push(ControlMessage::Ipv6TClass(&class));
            }
            if segment > 0 {
                messages.push(ControlMessage::UdpGsoSegments(&segment));
            }
            match transmit.src_ip {
                Some(IpAddr::V4(ip)) => {
                    let s_addr = u32::from_ne_bytes(ip.octets());
                    let ipi_spec_dst = libc::in_addr { s_addr };
                    let ipi_addr = libc::in_addr { s_addr: 0 };
                    v4 = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr };
                    messages.push(ControlMessage::Ipv4PacketInfo(&v4));
                }
                Some(IpAddr::V6(ip)) => {
                    let ipi6_addr = libc::in6_addr { s6_addr: ip.octets() };
                    v6 = libc::in6_pktinfo { ipi6_addr, ipi6_ifindex: 0 };
                    messages.push(ControlMessage::Ipv6PacketInfo(&v6));
                }
                None => {}
            }
            let contents = [IoSlice::new(transmit.contents)];
            let flags = MsgFlags::MSG_DONTWAIT;
            sendmsg(socket.as_raw_fd(), &contents, &messages, flags, Some(&destination))?;
            Ok(())
        }

        /// Nanoseconds on the kernel's clock.
        fn on_clock(&mut self, release: ReleaseTime) -> io::Result<u64> {
            let mut at = release.at;
            if !release.ahead.is_zero() {
                let now = clock::now();
                at = at.max(now + release.ahead);
                if now.saturating_duration_since(self.origin.0) > FRESH {
                    self.origin = clock::now_with(self.clock)?;
                }
            }
            let (instant, reading) = self.origin;
            let later = at.saturating_duration_since(instant);
            let sooner = instant.saturating_duration_since(at);
            u64::try_from((reading + later).saturating_sub(sooner).as_nanos())
                .map_err(|_| Errno::ERANGE.into())
        }
    }

    /// `Instant` is CLOCK_MONOTONIC, and CLOCK_TAI is a fixed distance from it until somebody sets the clock.
    const FRESH: Duration = Duration::from_millis(100);
}

#[cfg(not(target_os = "linux"))]
mod none {
    use super::super::interface::SendClock;
    use super::ReleaseTime;
    use std::convert::Infallible;
    use std::io;

    /// Never made.
    #[derive(Debug)]
    pub struct TxTime(Infallible);

    impl TxTime {
        pub fn enable<S>(_socket: &S, _clock: SendClock) -> io::Result<Self> {
            Err(io::Error::new(io::ErrorKind::Unsupported, "SO_TXTIME is Linux's"))
        }

        pub fn send<S>(
            &mut self,
            _socket: &S,
            _transmit: &quinn_udp::Transmit<'_>,
            _release: ReleaseTime,
        ) -> io::Result<()> {
            match self.0 {}
        }
    }
}
