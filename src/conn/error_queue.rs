//! What the kernel tells of single datagrams afterwards, on a socket's error queue: departures that were asked
//! for (SO_TIMESTAMPING), and release times that were not kept.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use nix::libc;
use nix::sys::socket::sockopt::Timestamping;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, TimestampingFlag, recvmsg, setsockopt};

/// One entry of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// When a datagram went into the interface's queue, on CLOCK_REALTIME, and its number among those of its
    /// socket that were stamped.
    Queued(Duration, u32),
    /// When its driver passed it to the device.
    Left(Duration, u32),
    /// `etf` dropped it because its time had passed.
    Missed,
    /// `etf` did not take it because its time, or its clock, was wrong.
    Refused,
}

/// Which stamps the datagrams get that are sent from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stamps {
    None,
    /// As they leave.
    Left,
    /// As they enter the interface's queue, too.
    QueuedAndLeft,
}

pub(super) fn ask(socket: &impl AsFd, stamps: Stamps) -> io::Result<()> {
    let flags = match stamps {
        Stamps::None => NUMBERED,
        Stamps::Left => LEFT,
        Stamps::QueuedAndLeft => QUEUED.union(LEFT),
    };
    Ok(setsockopt(socket, Timestamping, &flags)?)
}

/// Reads what has come, stamps too, of which none are asked for afterwards.
pub(super) fn read_with_stamps<S: AsFd + AsRawFd>(socket: &S, on_report: impl FnMut(Report)) {
    if setsockopt(socket, Timestamping, &TELL).is_ok() {
        read(socket, on_report);
        // Cannot fail: the same option was just set.
        let _ = ask(socket, Stamps::None);
    }
}

/// Reads what has come, but no more than some hundred entries: the rest waits for the next call.
pub(super) fn read(socket: &impl AsRawFd, mut on_report: impl FnMut(Report)) {
    let mut space = nix::cmsg_space!([libc::timespec; 3], libc::sock_extended_err, libc::sockaddr_in6);
    let mut payload = [0; 1];
    for _ in 0..MOST_REPORTS {
        let mut contents = [IoSliceMut::new(&mut payload)];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let Ok(message) = recvmsg::<()>(socket.as_raw_fd(), &mut contents, Some(&mut space), flags) else {
            return;
        };
        let Ok(messages) = message.cmsgs() else { continue };
        let (mut stamp, mut error) = (None, None);
        for message in messages {
            match message {
                ControlMessageOwned::ScmTimestampsns(stamps) => stamp = Some(Duration::from(stamps.system)),
                ControlMessageOwned::Ipv4RecvErr(found, _) | ControlMessageOwned::Ipv6RecvErr(found, _) => {
                    error = Some(found);
                }
                _ => {}
            }
        }
        let Some(error) = error else { continue };
        match (error.ee_origin, error.ee_code, error.ee_info, stamp) {
            (ORIGIN_TXTIME, CODE_MISSED, ..) => on_report(Report::Missed),
            (ORIGIN_TXTIME, ..) => on_report(Report::Refused),
            (ORIGIN_TIMESTAMPING, _, STAMP_QUEUED, Some(at)) => on_report(Report::Queued(at, error.ee_data)),
            (ORIGIN_TIMESTAMPING, _, STAMP_LEFT, Some(at)) => on_report(Report::Left(at, error.ee_data)),
            _ => {}
        }
    }
}

/// Reports come without the datagram and with its number, which begins anew when this is not set for a while.
const NUMBERED: TimestampingFlag =
    TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY.union(TimestampingFlag::SOF_TIMESTAMPING_OPT_ID);

/// While these are set, datagrams are stamped.
const LEFT: TimestampingFlag = NUMBERED.union(TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE);
const QUEUED: TimestampingFlag = NUMBERED.union(TimestampingFlag::from_bits_retain(TX_SCHED));

/// Only while this is set does the error queue tell the stamps that it holds. On a socket that receives it must
/// not stay: whenever any program on the host asks for stamps of received datagrams, ours would have them too,
/// and no room in their control messages for what else we need to know.
const TELL: TimestampingFlag = NUMBERED.union(TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE);

/// `SOF_TIMESTAMPING_TX_SCHED` of linux/net_tstamp.h, which `nix` does not name.
const TX_SCHED: libc::c_uint = 1 << 8;

/// `SO_EE_ORIGIN_TIMESTAMPING`, `SO_EE_ORIGIN_TXTIME`, `SO_EE_CODE_TXTIME_MISSED`, `SCM_TSTAMP_SND` and
/// `SCM_TSTAMP_SCHED` of linux/errqueue.h.
const ORIGIN_TIMESTAMPING: u8 = 4;
const ORIGIN_TXTIME: u8 = 6;
const CODE_MISSED: u8 = 2;
const STAMP_LEFT: u32 = 0;
const STAMP_QUEUED: u32 = 1;

/// Entries that are read at once.
const MOST_REPORTS: usize = 256;
