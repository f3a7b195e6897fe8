//! Hears of changes of links, routes and queueing disciplines.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::task::{Context, Poll, ready};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, SockProtocol, recv};
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
        let socket = netlink::open(SockProtocol::NetlinkRoute, GROUPS)?;
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    use nix::sched::{CloneFlags, unshare};
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn a_change_is_noticed_once() {
        let test = || {
            if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
                eprintln!("SKIPPED: no network namespace can be made: {error}; run as root");
                return;
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut watch = Watch::new().unwrap();
                let mut changed =
                    async |patience| timeout(patience, pin!(poll_fn(|cx| watch.poll_changed(cx)))).await;
                assert!(changed(Duration::from_millis(20)).await.is_err(), "nothing has changed");
                let output = Command::new("ip").args(["link", "set", "lo", "up"]).output().unwrap();
                assert!(output.status.success());
                changed(Duration::from_secs(5)).await.expect("a link is up").unwrap();
                // Addresses and routes of `lo` may follow within moments; then there is silence again.
                while changed(Duration::from_millis(200)).await.is_ok() {}
            });
        };
        thread::spawn(test).join().unwrap();
    }
}
