//! When datagrams really leave: asked of the network driver, which stamps them (SO_TIMESTAMPING).

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nix::time::ClockId;
use quinn_udp::UdpSocketState;

use super::alarm::Alarm;
use super::clock;
use super::driver::{FULL_BUFFER, LEAD};
use super::error_queue::{self, Report, Stamps};
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
    error_queue::ask(&socket, Stamps::Left)?;
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
        let mut send = || match &mut txtime {
            Some(txtime) => txtime.send(&socket, &transmit, outlet.release(planned)),
            None => state.try_send((&socket).into(), &transmit),
        };
        // After a pause many are overdue at once, and the send buffer may be full.
        while let Err(error) = send() {
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error);
            }
            let again = clock::now() + FULL_BUFFER;
            poll_fn(|cx| alarm.poll(cx, clock::now(), again)).await?;
        }
        if i % STAMPS_THAT_WAIT == 0 {
            read_stamps(&socket, &mut stamps);
            error_queue::ask(&socket, Stamps::Left)?;
        }
    }
    let end = start + gap * count + LAST_STAMP;
    poll_fn(|cx| alarm.poll(cx, clock::now(), end)).await?;
    read_stamps(&socket, &mut stamps);
    // Stamps are on CLOCK_REALTIME.
    let (now, present) = clock::now_with(ClockId::CLOCK_REALTIME)?;
    let departure = |(i, stamp): (u32, Option<Duration>)| Departure {
        planned: start + gap * i,
        left: stamp.map(|stamp| now - present.saturating_sub(stamp)),
    };
    Ok((outlet.clock, (0..count).zip(stamps).map(departure).collect()))
}

/// Reads the stamps that have come; the kernel counts a socket's datagrams from zero.
fn read_stamps(socket: &UdpSocket, stamps: &mut [Option<Duration>]) {
    error_queue::read_with_stamps(socket, |report| {
        if let Report::Left(at, number) = report
            && let Some(entry) = usize::try_from(number).ok().and_then(|number| stamps.get_mut(number))
        {
            *entry = Some(at);
        }
    });
}

/// A stamp is readable some microseconds after the departure.
const LAST_STAMP: Duration = Duration::from_millis(20);

/// Stamps fill the receive buffer: this many take some 50 KB of it.
const STAMPS_THAT_WAIT: u32 = 64;
