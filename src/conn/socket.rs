//! The UDP socket: batches in (recvmmsg and UDP_GRO), batches out (UDP_SEGMENT), ECN and local address
//! with every datagram. `quinn-udp` does the system calls.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSocketState};
use tokio::io::Interest;

use crate::units::Bytes;

pub(super) struct Socket {
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
}

impl Socket {
    /// Takes over a bound socket. Buffers are asked for; the system may grant less.
    pub fn new(socket: std::net::UdpSocket, buffer: Bytes) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        for set in [UdpSocketState::set_send_buffer_size, UdpSocketState::set_recv_buffer_size] {
            if let Err(error) = set(&state, (&socket).into(), buffer.as_len()) {
                tracing::debug!(%error, "the system refuses a socket buffer of {buffer}");
            }
        }
        socket.set_nonblocking(true)?;
        Ok(Self { io: tokio::net::UdpSocket::from_std(socket)?, state })
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

    /// Sends a batch; `false` if the send buffer is full. `quinn-udp` logs the network's other errors and
    /// returns success: what they drop counts as lost on the way, as it would a hop further on.
    pub fn try_send(&self, transmit: &Transmit, contents: &[u8]) -> io::Result<bool> {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: &contents[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        match self.io.try_io(Interest::WRITABLE, || self.state.send((&self.io).into(), &transmit)) {
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

/// The congestion mark of a received message.
pub(super) fn ecn(meta: &RecvMeta) -> Option<EcnCodepoint> {
    meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8))
}
