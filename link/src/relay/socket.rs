//! A non-blocking UDP socket that receives and sends in batches.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

#[derive(Debug)]
pub(super) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
}

/// Datagrams of equal size (the last may be shorter) for one address, back to back.
pub(super) struct Outgoing<'a> {
    pub(super) destination: SocketAddr,
    pub(super) source: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) contents: &'a [u8],
    pub(super) segment: usize,
}

impl Socket {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let io = UdpSocket::bind(address)?;
        let state = UdpSocketState::new((&io).into())?;
        ask_for_buffers(&io);
        Ok(Self { io, state })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// The number by which the kernel's tables name the socket.
    pub(super) fn inode(&self) -> Option<u64> {
        rustix::fs::fstat(&self.io).ok().map(|stat| stat.st_ino)
    }

    /// The most segments that one [`send`](Self::send) can carry.
    pub(super) fn max_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Receives what is there, up to the inbox's size, and returns how many buffers were filled.
    /// Errors count as nothing there: a dead peer's ICMP messages surface as such.
    pub(super) fn receive(&self, inbox: &mut Inbox) -> usize {
        let mut buffers: [IoSliceMut<'_>; INBOX_SLOTS] = {
            let mut chunks = inbox.storage.chunks_exact_mut(SLOT_BYTES);
            std::array::from_fn(|_| {
                IoSliceMut::new(chunks.next().expect("the storage has a chunk for every slot"))
            })
        };
        self.state.recv((&self.io).into(), &mut buffers, &mut inbox.meta).unwrap_or(0)
    }

    /// Sends datagrams and returns the indices of those that the kernel did not take.
    pub(super) fn send(&self, outgoing: &Outgoing<'_>) -> Vec<usize> {
        let is_one = outgoing.contents.len() <= outgoing.segment;
        if !is_one && self.try_send(outgoing, outgoing.contents, Some(outgoing.segment)).is_ok() {
            return Vec::new();
        }
        // One datagram, or the kernel would not take them as one: then one by one.
        let datagrams = split(outgoing.contents, outgoing.segment).enumerate();
        datagrams.filter(|(_, datagram)| !self.send_one(outgoing, datagram)).map(|(index, _)| index).collect()
    }

    /// A full buffer is given some milliseconds to drain. A refused connection is the news that
    /// an *earlier* datagram found no one; the kernel has forgotten it by the second attempt.
    fn send_one(&self, outgoing: &Outgoing<'_>, datagram: &[u8]) -> bool {
        match self.try_send(outgoing, datagram, None) {
            Ok(()) => return true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait_until_writable(),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(_) => return false,
        }
        self.try_send(outgoing, datagram, None).is_ok()
    }

    fn try_send(
        &self,
        outgoing: &Outgoing<'_>,
        contents: &[u8],
        segment_size: Option<usize>,
    ) -> io::Result<()> {
        let transmit = Transmit {
            destination: outgoing.destination,
            ecn: outgoing.ecn,
            contents,
            segment_size,
            src_ip: outgoing.source,
        };
        self.state.try_send((&self.io).into(), &transmit)
    }

    fn wait_until_writable(&self) {
        // The outcome does not matter: the caller tries again and looks.
        let _ = poll(&mut [PollFd::new(&self.io, PollFlags::OUT)], Some(&SEND_BUFFER_PATIENCE));
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

/// Room for what one receive call brings in.
pub(super) struct Inbox {
    storage: Vec<u8>,
    meta: [RecvMeta; INBOX_SLOTS],
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self { storage: vec![0; INBOX_SLOTS * SLOT_BYTES], meta: [RecvMeta::default(); INBOX_SLOTS] }
    }

    /// The first `filled` buffers: where each came from, and its datagrams.
    pub(super) fn batches(
        &self,
        filled: usize,
    ) -> impl Iterator<Item = (&RecvMeta, impl Iterator<Item = &[u8]>)> {
        let filled_slots = self.meta.iter().zip(self.storage.chunks_exact(SLOT_BYTES)).take(filled);
        filled_slots.map(|(meta, slot)| (meta, split(&slot[..meta.len], meta.stride)))
    }
}

/// Cuts a buffer into its datagrams; an empty buffer is one empty datagram.
fn split(contents: &[u8], stride: usize) -> impl Iterator<Item = &[u8]> {
    let empty = contents.is_empty().then_some(contents);
    empty.into_iter().chain(contents.chunks(stride.max(1)))
}

/// Asks for deep buffers, so that a pause of the relay's thread costs delay and not datagrams.
/// Whoever may not have them gets what the system allows.
fn ask_for_buffers(io: &UdpSocket) {
    #[cfg(target_os = "linux")]
    if sockopt::set_socket_recv_buffer_size_force(io, BUFFER_BYTES).is_ok()
        && sockopt::set_socket_send_buffer_size_force(io, BUFFER_BYTES).is_ok()
    {
        return;
    }
    let _ = sockopt::set_socket_recv_buffer_size(io, BUFFER_BYTES);
    let _ = sockopt::set_socket_send_buffer_size(io, BUFFER_BYTES);
}

/// 60 ms of 1 Gbit/s.
const BUFFER_BYTES: usize = 8 << 20;
/// Receive calls return at most this many buffers; more would keep departures waiting for too long.
const INBOX_SLOTS: usize = 8;
/// The largest unit that GRO builds.
const SLOT_BYTES: usize = 64 << 10;
/// Longer than a send buffer of 8 MB takes to drain into any local receiver.
const SEND_BUFFER_PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
