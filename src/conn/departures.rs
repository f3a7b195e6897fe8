//! When datagrams really leave: asked of the network driver, which stamps them (SO_TIMESTAMPING).

use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::socket::sockopt::Timestamping;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, TimestampingFlag, recvmsg, setsockopt};
use nix::time::ClockId;
use quinn_udp::UdpSocketState;

use super::alarm::Alarm;
use super::clock;
use super::driver::LEAD;
use super::interface::{Outlets, SendClock};
use super::txtime::TxTime;

/// One datagram's departure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// When it was to leave.
    pub planned: Instant,
    /// When the driver passed it to the device; `None` if the queue dropped it, or the driver does not tell.
    pub left: Option<Instant>,
}

/// Sends `count` datagrams of 1200 bytes to `remote`, `gap` apart, and asks when they left. Send only to
/// whoever expects it.
///
/// `clock` is used if the interface that leads there keeps it; the one in use comes first in the answer.
/// Must be called within a tokio runtime with I/O enabled.
pub async fn measure_departures(
    remote: SocketAddr,
    clock: SendClock,
    gap: Duration,
    count: u32,
) -> io::Result<(SendClock, Vec<Departure>)> {
    let local = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(local, 0))?;
    let state = UdpSocketState::new((&socket).into())?;
    socket.set_nonblocking(true)?;
    let wanted = TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
    setsockopt(&socket, Timestamping, &wanted)?;
    let outlet = Outlets::new(local, None, clock).towards(remote);
    let mut txtime = match outlet.clock {
        SendClock::Timer => None,
        clock => Some(TxTime::enable(&socket, clock)?),
    };
    let lead = txtime.as_ref().map_or(Duration::ZERO, |_| LEAD);
    let mut alarm = Alarm::new()?;
    let mut now = clock::now();
    let start = now + lead + Duration::from_millis(10);
    let mut stamps = vec![None; usize::try_from(count).unwrap_or_default()];
    for i in 0..count {
        let planned = start + gap * i;
        // As the driver does: several at once, half the lead before the first of them is due.
        if planned > now + lead {
            poll_fn(|cx| alarm.poll(cx, clock::now(), planned - lead / 2)).await?;
            now = clock::now();
        }
        let transmit = quinn_udp::Transmit {
            destination: remote,
            ecn: None,
            contents: &[0; 1200],
            segment_size: None,
            src_ip: None,
        };
        match &mut txtime {
            Some(txtime) => txtime.send(&socket, &transmit, outlet.release(planned))?,
            None => state.try_send((&socket).into(), &transmit)?,
        }
        if i % STAMPS_THAT_WAIT == 0 {
            read_stamps(&socket, &mut stamps)?;
        }
    }
    let end = start + gap * count + LAST_STAMP;
    poll_fn(|cx| alarm.poll(cx, clock::now(), end)).await?;
    read_stamps(&socket, &mut stamps)?;
    // Stamps are on CLOCK_REALTIME.
    let (now, present) = clock::now_with(ClockId::CLOCK_REALTIME)?;
    let departure = |(i, stamp): (u32, Option<Duration>)| Departure {
        planned: start + gap * i,
        left: stamp.map(|stamp| now - present.saturating_sub(stamp)),
    };
    Ok((outlet.clock, (0..count).zip(stamps).map(departure).collect()))
}

/// Reads the stamps that have come; the kernel counts a socket's datagrams from zero.
fn read_stamps(socket: &UdpSocket, stamps: &mut [Option<Duration>]) -> io::Result<()> {
    let mut space = nix::cmsg_space!([libc::timespec; 3], libc::sock_extended_err, libc::sockaddr_in6);
    let mut payload = [0; 1];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    loop {
        let mut contents = [IoSliceMut::new(&mut payload)];
        let Ok(message) = recvmsg::<()>(socket.as_raw_fd(), &mut contents, Some(&mut space), flags) else {
            return Ok(());
        };
        let (mut stamp, mut number) = (None, None);
        for message in message.cmsgs()? {
            match message {
                ControlMessageOwned::ScmTimestampsns(stamps) => stamp = Some(stamps.system),
                ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _)
                    if error.ee_origin == ORIGIN_TIMESTAMPING =>
                {
                    number = usize::try_from(error.ee_data).ok();
                }
                _ => {}
            }
        }
        if let Some(entry) = number.and_then(|number| stamps.get_mut(number)) {
            *entry = stamp.map(Duration::from);
        }
    }
}

/// `SO_EE_ORIGIN_TIMESTAMPING` of linux/errqueue.h.
const ORIGIN_TIMESTAMPING: u8 = 4;

/// A stamp is readable some microseconds after the departure.
const LAST_STAMP: Duration = Duration::from_millis(20);

/// Stamps fill the receive buffer: this many take some 50 KB of it.
const STAMPS_THAT_WAIT: u32 = 64;
