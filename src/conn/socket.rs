//! The UDP socket: batches in (recvmmsg and UDP_GRO), batches out (UDP_SEGMENT), ECN and local address
//! with every datagram. `quinn-udp` does the system calls, but for batches with a release time.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSocketState};
use tokio::io::Interest;

#[cfg(target_os = "linux")]
use super::error_queue::{self, Stamps};
use super::interface::SendClock;
use super::sizing::{Shortage, Sizes};
use super::txtime::{ReleaseTime, TxTime};
use crate::units::Bytes;

#[derive(Debug)]
pub(super) struct Socket {
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
    /// Takes release times, on the clock of the second.
    txtime: Option<(Mutex<TxTime>, SendClock)>,
    /// The system's limits have been told.
    is_shortage_told: bool,
}

/// A batch on its way to the network.
pub(super) struct Outgoing {
    pub transmit: Transmit,
    /// When the kernel is to let it go.
    pub release: Option<ReleaseTime>,
    /// When it was to leave, if the pacer had held it back.
    pub planned: Option<Instant>,
}

impl Socket {
    /// Takes over a bound socket. Buffers are asked for; the system may grant less. Release times too, but
    /// `etf` is insisted on.
    pub fn new(socket: std::net::UdpSocket, buffers: Sizes, clock: SendClock) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        socket.set_nonblocking(true)?;
        let txtime = match (clock, TxTime::enable(&socket, clock)) {
            (SendClock::Timer, _) => None,
            (clock, Ok(txtime)) => Some((Mutex::new(txtime), clock)),
            (SendClock::Fq, Err(error)) => {
                tracing::debug!(%error, "the system refuses release times: the timer serves");
                None
            }
            (SendClock::Etf, Err(error)) => return Err(etf_refused(&error)),
        };
        let io = tokio::net::UdpSocket::from_std(socket)?;
        let mut socket = Self { io, state, txtime, is_shortage_told: false };
        socket.ask_buffers(buffers);
        Ok(socket)
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Whether path MTU discovery can work: datagrams must not be fragmented.
    pub fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    /// Most datagrams in one send.
    pub fn max_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Most datagrams in one received message.
    #[cfg(feature = "quinn")]
    pub fn max_received_segments(&self) -> usize {
        self.state.gro_segments()
    }

    /// Receives into as many of the buffers as there are messages waiting.
    pub fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            match self.io.try_io(Interest::READABLE, || self.state.recv((&self.io).into(), bufs, meta)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// The clock on which release times are taken; the timer, if they are not.
    pub fn clock(&self) -> SendClock {
        self.txtime.as_ref().map_or(SendClock::Timer, |(_, clock)| *clock)
    }

    /// Asks the system for buffers; if it does not grant them, that is told once, and no failure.
    pub fn ask_buffers(&mut self, asked: Sizes) {
        let (state, io) = (&self.state, &self.io);
        let len = |size: Bytes| size.min(LARGEST_BUFFER).as_len();
        let refused = [
            state.set_send_buffer_size(io.into(), len(asked.send)),
            state.set_recv_buffer_size(io.into(), len(asked.receive)),
        ];
        for error in refused.into_iter().filter_map(Result::err) {
            tracing::debug!(%error, "the system refuses a socket buffer");
        }
        let granted = self.buffers();
        let is_short = granted.send < asked.send || granted.receive < asked.receive;
        if is_short && !std::mem::replace(&mut self.is_shortage_told, true) {
            tracing::warn!("{}", Shortage { asked, granted });
        }
    }

    /// The buffers that the system granted.
    pub fn buffers(&self) -> Sizes {
        let size = |len: io::Result<usize>| len.map_or(Bytes::ZERO, |len| Bytes::of_len(len / CHARGED));
        Sizes {
            send: size(self.state.send_buffer_size((&self.io).into())),
            receive: size(self.state.recv_buffer_size((&self.io).into())),
        }
    }

    /// Bytes that may wait in the kernel for their time: half of the send buffer, to which the kernel
    /// charges a datagram of any size with its own overhead, until it is released.
    pub fn room_ahead(&self) -> Bytes {
        Bytes::new(self.buffers().send.get() / 2)
    }

    /// Sends a batch, at once or at its release time; `false` if the send buffer is full. The network's
    /// other errors are logged and no failure: what they drop counts as lost on the way, as it would a hop
    /// further on.
    pub fn try_send(&self, outgoing: &Outgoing, contents: &[u8]) -> io::Result<bool> {
        let &Outgoing { ref transmit, release, .. } = outgoing;
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: &contents[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        match self.send(&transmit, release) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The same; a full send buffer is the error [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn send(&self, transmit: &quinn_udp::Transmit<'_>, release: Option<ReleaseTime>) -> io::Result<()> {
        let (io, state) = (&self.io, &self.state);
        let send = || match (&self.txtime, release) {
            (Some((txtime, _)), Some(release)) => {
                let mut txtime = txtime.lock().unwrap_or_else(PoisonError::into_inner);
                match txtime.send(io, transmit, release) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                        // A device that cannot segment, an interface that is gone: `quinn-udp` knows what to do.
                        tracing::debug!(%error, "a release time was refused");
                        state.send(io.into(), transmit)
                    }
                    result => result,
                }
            }
            _ => state.send(io.into(), transmit),
        };
        io.try_io(Interest::WRITABLE, send)
    }

    /// The same, and the kernel notes when it entered the interface's queue and when it left.
    #[cfg(target_os = "linux")]
    pub fn try_send_stamped(&self, outgoing: &Outgoing, contents: &[u8]) -> io::Result<bool> {
        let asked = error_queue::ask(&self.io, Stamps::QueuedAndLeft);
        let sent = self.try_send(outgoing, contents);
        if asked.is_ok() {
            error_queue::ask(&self.io, Stamps::None)?;
        }
        sent
    }

    /// What the kernel has told of single datagrams since the last call; of those that were stamped, too, if
    /// any were.
    #[cfg(target_os = "linux")]
    pub fn read_reports(&self, are_stamped: bool, on_report: impl FnMut(error_queue::Report)) {
        if are_stamped {
            error_queue::read_with_stamps(&self.io, on_report);
        } else {
            error_queue::read(&self.io, on_report);
        }
    }

    /// Ready when the send buffer has room again; or when it only seems to have, since the error queue has
    /// something.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_send_ready(cx)
    }

    /// The same for any number of tasks.
    #[cfg(feature = "quinn")]
    pub async fn writable(&self) -> io::Result<()> {
        self.io.writable().await
    }
}

fn etf_refused(error: &io::Error) -> io::Error {
    let message = format!(
        "the system refuses release times for `SendClock::Etf`: {error}; they need CAP_NET_ADMIN, \
         `SendClock::Fq` does not"
    );
    io::Error::new(error.kind(), message)
}

/// The congestion mark of a received message.
pub(super) fn ecn(meta: &RecvMeta) -> Option<EcnCodepoint> {
    meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8))
}

/// What Linux takes of the size that it is asked for (socket(7)): it doubles that, and tells the double.
const CHARGED: usize = if cfg!(target_os = "linux") { 2 } else { 1 };

/// The option takes an `int`.
const LARGEST_BUFFER: Bytes = Bytes::new(0x7fff_ffff);
