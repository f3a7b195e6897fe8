//! The UDP socket: batches in (recvmmsg and UDP_GRO), batches out (UDP_SEGMENT), ECN and local address
//! with every datagram. `quinn-udp` does the system calls, but for batches with a release time.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSocketState};
use tokio::io::Interest;

use super::interface::SendClock;
use super::txtime::{ReleaseReports, ReleaseTime, TxTime};
use crate::units::Bytes;

pub(super) struct Socket {
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
    /// Takes release times, on the clock of the second.
    txtime: Option<(TxTime, SendClock)>,
}

impl Socket {
    /// Takes over a bound socket. Buffers are asked for; the system may grant less. Release times too, but
    /// `etf` is insisted on.
    pub fn new(socket: std::net::UdpSocket, buffer: Bytes, clock: SendClock) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        for set in [UdpSocketState::set_send_buffer_size, UdpSocketState::set_recv_buffer_size] {
            if let Err(error) = set(&state, (&socket).into(), buffer.as_len()) {
                tracing::debug!(%error, "the system refuses a socket buffer of {buffer}");
            }
        }
        socket.set_nonblocking(true)?;
        let txtime = match (clock, TxTime::enable(&socket, clock)) {
            (SendClock::Timer, _) => None,
            (clock, Ok(txtime)) => Some((txtime, clock)),
            (SendClock::Fq, Err(error)) => {
                tracing::debug!(%error, "the system refuses release times: the timer serves");
                None
            }
            (SendClock::Etf, Err(error)) => return Err(etf_refused(&error)),
        };
        Ok(Self { io: tokio::net::UdpSocket::from_std(socket)?, state, txtime })
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
        self.txtime.as_ref().map_or(SendClock::Timer, |&(_, clock)| clock)
    }

    /// What the kernel reports of release times since the last call.
    pub fn release_reports(&self) -> ReleaseReports {
        self.txtime.as_ref().map(|(txtime, _)| txtime.reports(&self.io)).unwrap_or_default()
    }

    /// Bytes that may wait in the kernel for their time: a quarter of the send buffer, to which the kernel
    /// charges a datagram of any size with its own overhead, until it is released.
    pub fn room_ahead(&self) -> Bytes {
        self.state.send_buffer_size((&self.io).into()).map_or(Bytes::ZERO, |len| Bytes::of_len(len / 4))
    }

    /// Sends a batch, at once or at its release time; `false` if the send buffer is full. The network's
    /// other errors are logged and no failure: what they drop counts as lost on the way, as it would a hop
    /// further on.
    pub fn try_send(
        &mut self,
        transmit: &Transmit,
        contents: &[u8],
        release: Option<ReleaseTime>,
    ) -> io::Result<bool> {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: &contents[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        let (txtime, io, state) = (&mut self.txtime, &self.io, &self.state);
        let send = || match (txtime, release) {
            (Some((txtime, _)), Some(release)) => match txtime.send(io, &transmit, release) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    // A device that cannot segment, an interface that is gone: `quinn-udp` knows what to do.
                    tracing::debug!(%error, "a release time was refused");
                    state.send(io.into(), &transmit)
                }
                result => result,
            },
            _ => state.send(io.into(), &transmit),
        };
        match self.io.try_io(Interest::WRITABLE, send) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ready when the send buffer has room again.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_send_ready(cx)
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
