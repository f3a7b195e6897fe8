//! Line rates through the ethtool ioctl, ETHTOOL_GLINKSETTINGS. Needs no privilege.

use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::units::Rate;

/// The speed that the driver of `name` reports; `None` if it has no notion of one, or no cable.
pub fn speed(name: &str) -> Option<Rate> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).ok()?;
    let mut settings = LinkSettings { cmd: GLINKSETTINGS, ..LinkSettings::EMPTY };
    // The kernel answers the first call with the length of its masks, negated, and the second in full.
    ask(&socket, name, &mut settings)?;
    let words = settings.link_mode_masks_nwords.checked_neg().filter(|words| *words > 0)?;
    settings = LinkSettings { cmd: GLINKSETTINGS, link_mode_masks_nwords: words, ..LinkSettings::EMPTY };
    ask(&socket, name, &mut settings)?;
    // SPEED_UNKNOWN is all ones; 0 is what a port without a cable says.
    let is_known = settings.speed != u32::MAX && settings.speed != 0;
    is_known.then(|| Rate::mbps(settings.speed.into()))
}

fn ask(socket: &OwnedFd, name: &str, settings: &mut LinkSettings) -> Option<()> {
    if name.len() >= libc::IFNAMSIZ {
        return None;
    }
    #[expect(unsafe_code, reason = "plain old data")]
    // SAFETY: `ifreq` is integers, arrays and a union of such; all zeros are a value of it.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_data = ptr::from_mut(settings).cast();
    #[expect(unsafe_code, reason = "the ioctl writes through the request's pointer")]
    // SAFETY: the socket is open, `request` is an `ifreq` with a terminated name, and its pointer leads to
    // a `LinkSettings`, which has room for the longest answer (see there).
    unsafe { ethtool(socket.as_raw_fd(), &raw mut request) }.ok()?;
    Some(())
}

mod ioctl {
    use super::libc;
    nix::ioctl_readwrite_bad!(ethtool, 0x8946, libc::ifreq);
}
use ioctl::ethtool;

/// `struct ethtool_link_settings` of linux/ethtool.h, with its masks.
#[repr(C)]
struct LinkSettings {
    cmd: u32,
    /// Mbit/s.
    speed: u32,
    duplex: u8,
    port: u8,
    phy_address: u8,
    autoneg: u8,
    mdio_support: u8,
    eth_tp_mdix: u8,
    eth_tp_mdix_ctrl: u8,
    link_mode_masks_nwords: i8,
    transceiver: u8,
    master_slave_cfg: u8,
    master_slave_state: u8,
    rate_matching: u8,
    reserved: [u32; 7],
    /// Three masks of `link_mode_masks_nwords` words each, of which an `i8` counts 127 at most.
    link_mode_masks: [u32; 3 * 127],
}

impl LinkSettings {
    const EMPTY: Self = Self {
        cmd: 0,
        speed: 0,
        duplex: 0,
        port: 0,
        phy_address: 0,
        autoneg: 0,
        mdio_support: 0,
        eth_tp_mdix: 0,
        eth_tp_mdix_ctrl: 0,
        link_mode_masks_nwords: 0,
        transceiver: 0,
        master_slave_cfg: 0,
        master_slave_state: 0,
        rate_matching: 0,
        reserved: [0; 7],
        link_mode_masks: [0; 3 * 127],
    };
}

/// ETHTOOL_GLINKSETTINGS of linux/ethtool.h.
const GLINKSETTINGS: u32 = 0x4c;

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use nix::sched::{CloneFlags, unshare};

    use super::*;

    #[test]
    fn loopback_and_what_is_not_there_have_no_speed() {
        for name in ["lo", "nosuch0", "a-name-that-is-too-long-for-an-interface", ""] {
            assert_eq!(speed(name), None, "{name}");
        }
    }

    #[test]
    fn the_speed_that_a_driver_reports_is_read() {
        let test = || {
            if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
                eprintln!("SKIPPED: no network namespace can be made: {error}; run as root");
                return;
            }
            let add = ["link", "add", "va", "type", "veth", "peer", "name", "vb"];
            assert!(Command::new("ip").args(add).output().unwrap().status.success());
            // SPEED_10000 of drivers/net/veth.c, whatever the machine.
            assert_eq!(speed("va"), Some(Rate::gbps(10)));
        };
        thread::spawn(test).join().unwrap();
    }
}
