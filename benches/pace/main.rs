//! How evenly datagrams leave: our send clock beside stock quinn's pacer and beside tokio's sleeps, over `veth`.
//!
//! `cargo bench --bench pace [-- --seconds 5 --mbps 100 --mbps 1000 --json FILE]`
//!
//! Each sends 1452-byte datagrams at a given rate from a thread of its own into another network namespace, one
//! after the other, in one run. Timestamps are the receiving kernel's (`capture`). A *gap error* is how far the
//! distance of two datagrams is from a datagram's time at that rate; datagrams of one batch are 0 apart. CPU is
//! the sending thread's.
//!
//! The two QUIC senders speak to the same stock quinn, which delays its acknowledgements so that a round trip takes
//! 10 ms. `quinn` runs under our `DropIn` of a fixed rate: its window is rate · srtt, which is the only way to
//! have quinn's pacer send at a rate; `quinn, paced` is quinn on our socket (`stock`). `tokio` sleeps until each datagram's time, and sends what is overdue at once.
//!
//! Needs root, for the namespaces.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../tests/common/namespace.rs"]
mod namespace;
#[cfg(target_os = "linux")]
mod receiver;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod senders;

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("SKIPPED: network namespaces are Linux's");
}

#[cfg(target_os = "linux")]
fn main() {
    use clap::Parser;
    let options = options::Options::parse();
    let thread = std::thread::spawn(move || {
        if let Err(error) = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET) {
            eprintln!("SKIPPED: no network namespace can be made: {error}; run as root");
            return;
        }
        options.run();
    });
    thread.join().expect("the measurement does not panic");
}

#[cfg(target_os = "linux")]
mod options {
    use std::path::PathBuf;
    use std::time::Duration;

    use warprate::units::Rate;

    use super::receiver::Receiver;
    use super::report::{Row, print};
    use super::senders::SENDERS;

    #[derive(clap::Parser)]
    pub struct Options {
        /// Length of each measurement, in seconds.
        #[arg(long, default_value_t = 5)]
        seconds: u64,
        /// Rates, in Mbit/s of UDP payload.
        #[arg(long, default_values_t = [100, 1000])]
        mbps: Vec<u64>,
        /// Writes the rows here.
        #[arg(long)]
        json: Option<PathBuf>,
        /// Cargo's own.
        #[arg(long, hide = true)]
        bench: bool,
    }

    impl Options {
        pub fn run(self) {
            let time = Duration::from_secs(self.seconds);
            let receiver = Receiver::start();
            let mut rows = Vec::new();
            for rate in self.mbps.into_iter().map(Rate::mbps) {
                for sender in SENDERS {
                    receiver.begin();
                    let cpu = sender.run(rate, time, receiver.address(sender), &receiver.certificate);
                    rows.push(Row::new(sender.name(), rate, time, cpu, &receiver.end()));
                }
            }
            print(&rows);
            if let Some(path) = self.json {
                let json = serde_json::to_string_pretty(&rows).expect("plain data");
                std::fs::write(&path, json)
                    .unwrap_or_else(|error| panic!("cannot write --json {}: {error}", path.display()));
            }
        }
    }
}
