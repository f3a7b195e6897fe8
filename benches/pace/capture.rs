//! When datagrams reached the interface, by the kernel's clock, whoever receives them afterwards.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::sockopt::{RcvBufForce, ReceiveTimeout, ReceiveTimestampns};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, recvmsg, setsockopt,
    socket,
};
use nix::sys::time::{TimeVal, TimeValLike};

use warprate::units::Bytes;

use super::receiver::{RECEIVER, SENDER};
use super::senders::DATAGRAM;

/// A datagram that came in.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// On CLOCK_REALTIME.
    pub at: Duration,
    pub size: Bytes,
}

/// A socket that sees what comes in over IPv4.
pub struct Capture(OwnedFd);

impl Capture {
    pub fn new() -> nix::Result<Self> {
        let socket =
            socket(AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, SockProtocol::EthIp)?;
        setsockopt(&socket, ReceiveTimestampns, &true)?;
        // A second of datagrams at 1 Gbit/s, each charged 2 KB.
        setsockopt(&socket, RcvBufForce, &(200 << 20))?;
        setsockopt(&socket, ReceiveTimeout, &TimeVal::milliseconds(20))?;
        Ok(Self(socket))
    }

    /// Adds to `arrivals`, until nothing comes for 20 ms.
    pub fn read(&self, arrivals: &mut Vec<Arrival>) {
        let mut space = nix::cmsg_space!(nix::libc::timespec);
        loop {
            let mut header = [0; 28];
            let mut contents = [IoSliceMut::new(&mut header)];
            let message =
                match recvmsg::<()>(self.0.as_raw_fd(), &mut contents, Some(&mut space), MsgFlags::empty()) {
                    Ok(message) => message,
                    Err(Errno::EAGAIN | Errno::EINTR) => return,
                    Err(error) => panic!("the capture fails: {error}"),
                };
            let stamp = message.cmsgs().expect("there is room").find_map(|message| match message {
                ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
                _ => None,
            });
            let Some(at) = stamp else { continue };
            // Segments of one batch arrive together.
            let mut left = payload(&header);
            while !left.is_zero() {
                let size = left.min(DATAGRAM);
                arrivals.push(Arrival { at, size });
                left -= size;
            }
        }
    }
}

/// Length of what an IPv4 packet from the sender to the receiver carries in UDP, or 0.
fn payload(header: &[u8; 28]) -> Bytes {
    let is_meant =
        header[9] == 17 && header[12..16] == SENDER.octets() && header[16..20] == RECEIVER.octets();
    let total = Bytes::new(u16::from_be_bytes([header[2], header[3]]).into());
    if is_meant { total - Bytes::new(28) } else { Bytes::ZERO }
}
