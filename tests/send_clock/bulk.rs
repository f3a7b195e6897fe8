//! A transfer whose datagrams wait in the kernel for their time, between two network namespaces.
#![expect(clippy::disallowed_methods, reason = "the test times a transfer")]

use std::fmt;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use nix::unistd::gettid;
use tokio::runtime::Runtime;
use warprate::conn::{ReleaseReports, SendClock};
use warprate::units::{Bytes, Rate};
use warprate::{Connection, Endpoint, EndpointConfig, Law, ServerConfig, VarInt};

use super::common::configs;
use super::common::namespace::run;
use super::control::{median, median_count};

/// What a transfer came to, as it crosses the console.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Transfer {
    pub qdisc: String,
    pub seconds: f64,
    pub datagrams: u64,
    pub lost: u64,
    /// Least and smoothed round-trip time.
    pub rtt_min_us: f64,
    pub rtt_us: f64,
    /// Datagrams that `fq` made wait.
    pub throttled: u64,
    pub missed: u64,
    pub refused: u64,
}

/// The medians of several transfers.
#[derive(Debug)]
pub struct Row {
    of: Transfer,
    counted: usize,
    measured: usize,
}

impl Row {
    /// Of those that count; `None` if none does.
    pub fn new(counted: &[&Transfer], measured: usize) -> Option<Self> {
        let of = |figure: fn(&Transfer) -> f64| median(counted.iter().map(|transfer| figure(transfer)));
        let whole =
            |figure: fn(&Transfer) -> u64| median_count(counted.iter().map(|transfer| figure(transfer)));
        let typical = Transfer {
            seconds: of(|transfer| transfer.seconds),
            datagrams: whole(|transfer| transfer.datagrams),
            lost: whole(|transfer| transfer.lost),
            rtt_min_us: of(|transfer| transfer.rtt_min_us),
            rtt_us: of(|transfer| transfer.rtt_us),
            throttled: whole(|transfer| transfer.throttled),
            missed: whole(|transfer| transfer.missed),
            refused: whole(|transfer| transfer.refused),
            ..Transfer::clone(counted.first()?)
        };
        Some(Self { of: typical, counted: counted.len(), measured })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<11} transfer: {} of {} datagrams lost, {} waited in fq, RTT min {:.0} us; \
             etf missed {}, refused {} ({} of {} transfers)",
            self.of.qdisc,
            self.of.lost,
            self.of.datagrams,
            self.of.throttled,
            self.of.rtt_min_us,
            self.of.missed,
            self.of.refused,
            self.counted,
            self.measured
        )
    }
}

/// Sends [`SIZE`] at [`RATE`] from another namespace, through `qdisc` there.
pub fn transfer(runtime: &Runtime, qdisc: &str, options: &str, clock: SendClock) -> Transfer {
    let (tell, told) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let (server_config, client_config) = configs(&Law::fixed(RATE, Bytes::mb(4)));
    let replace = format!("tc qdisc replace dev cb root {qdisc} {options}");
    let sender = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        tell.send(gettid()).unwrap();
        gone.recv().unwrap();
        run("ip link set lo up");
        run("ip addr add 10.7.2.2/24 dev cb");
        run("ip link set cb up");
        // `etf` drops whatever has no release time, ARP too.
        run("ip neigh replace 10.7.2.1 lladdr 02:00:00:00:00:03 dev cb nud permanent");
        // `fq` comes when the connection is there already: it must be noticed. `etf` is there from the start.
        let later = if clock == SendClock::Etf {
            run(&replace);
            None
        } else {
            Some(replace)
        };
        send(server_config, clock, later, || tell.send(gettid()).unwrap())
    });
    let other = told.recv().unwrap();
    run("ip link add ca address 02:00:00:00:00:03 type veth peer name cb address 02:00:00:00:00:04");
    run(&format!("ip link set cb netns {other}"));
    run("ip addr add 10.7.2.1/24 dev ca");
    run("ip link set ca up");
    run("ip neigh replace 10.7.2.2 lladdr 02:00:00:00:00:04 dev ca nud permanent");
    go.send(()).unwrap();
    told.recv().unwrap();
    let seconds = runtime.block_on(async {
        let client = Endpoint::client("10.7.2.1:0".parse().unwrap()).unwrap();
        let connection =
            client.connect_with(client_config.clone(), "10.7.2.2:4433".parse().unwrap(), "localhost");
        let connection = connection.unwrap().await.unwrap();
        let mut stream = connection.accept_uni().await.unwrap();
        let start = Instant::now();
        let data = stream.read_to_end(SIZE.as_len()).await.unwrap();
        assert_eq!(data.len(), SIZE.as_len());
        let seconds = start.elapsed().as_secs_f64();
        client.close(VarInt::from_u32(0), b"");
        client.wait_idle().await;
        seconds
    });
    let (connection, reports, tc) = sender.join().unwrap();
    // It goes with the other namespace, at the latest.
    let _ = Command::new("ip").args(["link", "del", "ca"]).output();
    let stats = connection.stats();
    let rtt = stats.path.rtt.unwrap();
    Transfer {
        qdisc: qdisc.into(),
        seconds,
        datagrams: stats.proto.path.sent_packets,
        lost: stats.proto.path.lost_packets,
        rtt_min_us: rtt.min.as_secs_f64() * 1e6,
        rtt_us: rtt.smoothed.as_secs_f64() * 1e6,
        throttled: number_after(&tc, "throttled "),
        missed: reports.missed,
        refused: reports.refused,
    }
}

/// The sender's side, and what its queue tells in the end.
fn send(
    config: ServerConfig,
    clock: SendClock,
    replace: Option<String>,
    on_ready: impl FnOnce(),
) -> (Connection, ReleaseReports, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let socket = UdpSocket::bind("10.7.2.2:4433").unwrap();
        let mut endpoint = EndpointConfig::default();
        endpoint.send_clock(clock);
        let server = Endpoint::new(endpoint, Some(config), socket).unwrap();
        on_ready();
        let connection = server.accept().await.unwrap().await.unwrap();
        if let Some(replace) = replace {
            run(&replace);
            tokio::time::sleep(NOTICED).await;
        }
        let mut stream = connection.open_uni().await.unwrap();
        stream.write_chunk(vec![7; SIZE.as_len()].into()).await.unwrap();
        stream.finish().unwrap();
        connection.closed().await;
        (connection, server.send_clock_stats().releases, run("tc -s qdisc show dev cb"))
    })
}

/// The number behind the last mention of `word`.
fn number_after(text: &str, word: &str) -> u64 {
    let Some((_, rest)) = text.rsplit_once(word) else { return 0 };
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// From one datagram to the next.
pub fn gap_us() -> f64 {
    (Bytes::new(1452) / RATE).as_secs_f64() * 1e6
}

/// What a transfer must come to.
pub fn check(Row { of: transfer, .. }: &Row) -> Result<(), String> {
    let demand =
        |is_met: bool, what: &str| if is_met { Ok(()) } else { Err(format!("{what}: {transfer:?}")) };
    // Stream data are a little less than datagrams.
    let planned = (SIZE / RATE).as_secs_f64();
    demand(transfer.seconds > planned * 0.97, "not faster than planned")?;
    demand(transfer.seconds < planned * 1.5, "nor much slower")?;
    // `etf` drops what comes late because the kernel's one processor was busy with the other end.
    let most = if transfer.qdisc == "etf" { transfer.datagrams / 10 } else { 0 };
    demand(transfer.lost <= most, "lost in the queue")?;
    if transfer.qdisc == "pfifo_fast" {
        return demand(transfer.throttled == 0, "nothing waits in the kernel");
    }
    demand(
        transfer.qdisc != "fq" || transfer.throttled > transfer.datagrams / 8,
        "datagrams wait in the kernel",
    )?;
    // The lead is 2 ms: round trips that began at the hand-over would be longer than half of it.
    let least = Duration::from_millis(1).as_secs_f64() * 1e6;
    demand(transfer.rtt_min_us > 0.0 && transfer.rtt_min_us < least, "round trips begin at the release")
}

/// The one processor of the kernel that the test boots has both ends to serve.
const RATE: Rate = Rate::mbps(10);
const SIZE: Bytes = Bytes::kb(500);

/// Ten times what the endpoint waits for the dust to settle.
const NOTICED: Duration = Duration::from_millis(200);
