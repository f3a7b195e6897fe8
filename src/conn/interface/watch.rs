//! Hears of changes of links, routes and queueing disciplines.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::task::{Context, Poll, ready};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use tokio::io::unix::AsyncFd;

use super::netlink;

/// A subscription to the kernel's notices. Which one it was is not told: they are rare, and a look-up is
/// cheaper than understanding them.
pub struct Watch {
    fd: AsyncFd<OwnedFd>,
}

impl Watch {
    /// Must be called within a tokio runtime with I/O enabled.
    pub fn new() -> io::Result<Self> {
        let socket = netlink::open(GROUPS)?;
        #[expect(unsafe_code, reason = "tokio's registration of a file descriptor")]
        // SAFETY: an `OwnedFd` stays open, and the same, until the `AsyncFd` that owns it is dropped.
        let fd = unsafe { AsyncFd::register(socket) }.map_err(io::Error::other)?;
        Ok(Self { fd })
    }

    /// Ready when something has changed since the last call; all notices that are waiting count as one.
    pub fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut has_changed = false;
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(cx))?;
            let mut notice = [0; 1];
            match recv(self.fd.get_ref().as_raw_fd(), &mut notice, MsgFlags::MSG_DONTWAIT) {
                // Too many notices for the socket's buffer are a notice too.
                Ok(_) | Err(Errno::ENOBUFS) => has_changed = true,
                Err(Errno::EAGAIN) if has_changed => return Poll::Ready(Ok(())),
                Err(Errno::EAGAIN) => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

/// `RTMGRP_LINK`, `RTMGRP_TC`, `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV4_RULE`, `RTMGRP_IPV6_ROUTE` of
/// linux/rtnetlink.h, and the bit of `RTNLGRP_IPV6_RULE`.
const GROUPS: u32 = 0x1 | 0x8 | 0x40 | 0x80 | 0x400 | 1 << 18;
