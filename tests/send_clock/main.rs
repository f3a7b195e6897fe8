//! Release times kept by a kernel: `fq` and `etf`, over `veth`.
//!
//! A plain machine's kernel may have neither, so the test boots Debian's `user-mode-linux`, an ordinary
//! process that is up in two seconds, and runs itself in there. It installs the package if it may.
//!
//! A busy or slow host makes a whole kernel late. Whether a measurement counts is decided by what the kernel
//! does [by itself](control) before and after it; of all that count the medians are judged.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "the test times sleeps and a transfer")]

mod bulk;
#[path = "../common/mod.rs"]
mod common;
mod control;
mod series;

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bulk::Transfer;
use common::namespace::run;
use control::{Controlled, Pace, controlled};
use nix::kmod::{ModuleInitFlags, finit_module};
use series::Series;
use warprate::conn::{Interface, SendClock};

/// What crosses the console.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
enum Line {
    Series(Controlled<Series>),
    Transfer(Controlled<Transfer>),
}

/// What was measured in one way, of all kernels.
#[derive(Default)]
struct Kind {
    series: Vec<Controlled<Series>>,
    transfers: Vec<Controlled<Transfer>>,
}

#[test]
fn a_kernel_keeps_release_times_and_the_timer_serves_where_it_does_not() {
    if !is_installed() || !runs_here() {
        return;
    }
    let mut kinds: Vec<Kind> = Vec::new();
    for boot_number in 1..=BOOTS {
        for (i, line) in measure().into_iter().enumerate() {
            let place = i / REPEATS;
            kinds.resize_with(kinds.len().max(place + 1), Kind::default);
            match line {
                Line::Series(series) => kinds[place].series.push(series),
                Line::Transfer(transfer) => kinds[place].transfers.push(transfer),
            }
        }
        println!("\nkernel {boot_number}:");
        kinds.iter().for_each(|kind| println!("{kind}"));
        // How often is decided by the controls alone.
        if kinds.iter().all(|kind| kind.counted() >= ENOUGH) {
            break;
        }
    }
    let failures: Vec<_> = kinds.iter().filter_map(|kind| kind.check().err()).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

impl Kind {
    fn counted_series(&self) -> Vec<&Series> {
        let counted = self.series.iter().filter(|series| series.kernel.is_fit(series.of.gap_us));
        counted.map(|series| &series.of).collect()
    }

    fn counted_transfers(&self) -> Vec<&Transfer> {
        let counted = self.transfers.iter().filter(|transfer| transfer.kernel.is_fit(bulk::gap_us()));
        counted.map(|transfer| &transfer.of).collect()
    }

    fn counted(&self) -> usize {
        self.counted_series().len() + self.counted_transfers().len()
    }

    fn measured(&self) -> usize {
        self.series.len() + self.transfers.len()
    }

    fn best_control(&self) -> Pace {
        let controls = self.series.iter().map(|series| series.kernel);
        let controls = controls.chain(self.transfers.iter().map(|transfer| transfer.kernel));
        controls.reduce(Pace::better).expect("something was measured")
    }

    /// The medians of what counts, unless that is too little.
    fn rows(&self) -> (Option<series::Row>, Option<bulk::Row>) {
        if self.counted() < ENOUGH {
            return (None, None);
        }
        (
            series::Row::new(&self.counted_series(), self.measured()),
            bulk::Row::new(&self.counted_transfers(), self.measured()),
        )
    }

    /// What does not count is not judged.
    fn check(&self) -> Result<(), String> {
        let (series, transfers) = self.rows();
        series.map_or(Ok(()), |row| row.check())?;
        transfers.map_or(Ok(()), |row| bulk::check(&row))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows() {
            (Some(row), _) => row.fmt(f),
            (_, Some(row)) => row.fmt(f),
            (None, None) => {
                let (counted, measured) = (self.counted(), self.measured());
                write!(
                    f,
                    "*** NOT JUDGED: the kernel was too slow by itself: {counted} of {measured} count; at its best \
                     {}",
                    self.best_control()
                )
            }
        }
    }
}

/// The other half, which the kernel's first process calls.
#[test]
#[ignore = "runs in the kernel that the other test boots"]
fn inside() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    set_up();
    for (qdisc, options, clock) in [
        ("fq", "", SendClock::Fq),
        ("etf", ETF, SendClock::Etf),
        ("pfifo_fast", "", SendClock::Fq),
        ("mqprio", MQPRIO, SendClock::Etf),
    ] {
        let handle = if qdisc == "mqprio" { "handle 100:" } else { "" };
        run(&format!("tc qdisc replace dev va root {handle} {qdisc} {options}"));
        if qdisc == "mqprio" {
            // Its queues begin with `pfifo_fast`; that of datagrams without a priority is the first.
            assert_eq!(Interface::named("va").unwrap().qdisc.send_clock(), SendClock::Timer);
            run(&format!("tc qdisc replace dev va parent 100:1 etf {ETF}"));
        }
        assert_eq!(Interface::named("va").unwrap().qdisc.kind, qdisc);
        for gap in [Duration::from_millis(1), Duration::from_micros(100)] {
            for _ in 0..REPEATS {
                let measure = || series::measure(&runtime, qdisc, clock, gap);
                tell(&Line::Series(controlled(&runtime, measure)));
            }
        }
        for _ in 0..REPEATS {
            if qdisc != "mqprio" {
                let measure = || bulk::transfer(&runtime, qdisc, options, clock);
                tell(&Line::Transfer(controlled(&runtime, measure)));
            }
        }
    }
}

fn tell(line: &Line) {
    println!("{MARK}{}", serde_json::to_string(line).unwrap());
}

/// A `veth` pair, whose other end need not answer: its address is known for good.
fn set_up() {
    for module in ["veth", "sch_fq", "sch_etf", "sch_mqprio"] {
        load(&find_below(Path::new(MODULES), &format!("{module}.ko")).unwrap());
    }
    run("ip link set lo up");
    run("ip link add va numtxqueues 4 numrxqueues 4 type veth peer name vb numtxqueues 4 numrxqueues 4");
    run("ip link set vb address 02:00:00:00:00:02");
    run("ip addr add 10.7.1.1/24 dev va");
    run("ip link set vb up");
    run("ip link set va up");
    run("ip neigh replace 10.7.1.2 lladdr 02:00:00:00:00:02 dev va nud permanent");
    // And one without a queue, as `veth` is by itself.
    run("ip link add vc type veth peer name vd address 02:00:00:00:00:05");
    run("ip addr add 10.7.3.1/24 dev vc");
    run("ip link set vd up");
    run("ip link set vc up");
    run("ip neigh replace 10.7.3.2 lladdr 02:00:00:00:00:05 dev vc nud permanent");
}

fn load(module: &Path) {
    let file = File::open(module).unwrap();
    finit_module(&file, c"", ModuleInitFlags::empty())
        .unwrap_or_else(|error| panic!("{}: {error}", module.display()));
}

fn find_below(dir: &Path, name: &str) -> Option<PathBuf> {
    let entries: Vec<_> = fs::read_dir(dir).ok()?.map(|entry| entry.unwrap().path()).collect();
    entries
        .iter()
        .find(|path| path.ends_with(name))
        .cloned()
        .or_else(|| entries.iter().filter(|path| path.is_dir()).find_map(|path| find_below(path, name)))
}

/// Whether the kernel is there, after an attempt to install it.
fn is_installed() -> bool {
    let is_there = || Path::new(KERNEL).exists() && Path::new("/usr/sbin/tc").exists();
    if !is_there() {
        let install = "apt-get update && apt-get install -y --no-install-recommends user-mode-linux iproute2";
        let result = Command::new("sh").args(["-c", install]).stdin(Stdio::null()).output();
        if !is_there() {
            eprintln!("\n*** SKIPPED: release times were NOT tested: `{install}` failed: {result:?}\n");
        }
    }
    is_there()
}

/// Whether the kernel comes up at all. That of Debian 12 does not on processors with larger registers than it
/// has room for (AMX).
fn runs_here() -> bool {
    let console = boot(&format!("echo '{MARK}'"));
    let is_up = console.lines().any(|text| text.starts_with(MARK));
    if !is_up {
        eprintln!("\n*** SKIPPED: release times were NOT tested: the kernel does not run here: {console}\n");
    }
    is_up
}

/// Boots the kernel with [`inside`] as its work, and collects what it measures.
fn measure() -> Vec<Line> {
    let test = std::env::current_exe().unwrap();
    let console = boot(&format!("'{}' inside --exact --ignored --nocapture 2>&1", test.display()));
    let measured = console.lines().filter_map(|text| text.split_once(MARK));
    let lines: Vec<_> = measured.map(|(_, json)| serde_json::from_str(json).unwrap()).collect();
    assert_eq!(lines.len(), LINES, "the kernel said:\n{console}");
    lines
}

/// Boots the kernel, lets it do `work` as a shell does, and returns what it prints.
fn boot(work: &str) -> String {
    let dir = std::env::temp_dir().join(format!("warprate-send-clock-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let init = dir.join("init");
    let script = format!(
        "#!/bin/sh\nexport PATH=/usr/sbin:/usr/bin:/sbin:/bin RUST_BACKTRACE=1\n\
         mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t tmpfs tmpfs /run\n\
         {work}\necho o > /proc/sysrq-trigger\nsleep 9\n"
    );
    fs::write(&init, script).unwrap();
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).unwrap();
    let init = format!("init={}", init.display());
    // Ahead of what else the machine does, where that is allowed.
    let arguments = [
        "-n",
        "-20",
        "timeout",
        "150",
        KERNEL,
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        "mem=512M",
        &init,
        "con=null",
        "con0=fd:0,fd:1",
        "quiet",
    ];
    let mut kernel = Command::new("nice")
        .args(arguments)
        .env("HOME", &dir)
        .env("TMPDIR", &dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut console = Vec::new();
    kernel.stdout.take().expect("a pipe").read_to_end(&mut console).unwrap();
    kernel.wait().unwrap();
    fs::remove_dir_all(&dir).unwrap();
    String::from_utf8_lossy(&console).into_owned()
}

const BOOTS: usize = 3;

/// Measurements of a kind in one kernel, and how many must count for a judgement. While too few do, another
/// kernel is booted.
const REPEATS: usize = 5;
const ENOUGH: usize = 3;

/// Three queues, each with two gaps and a transfer, and one with two gaps.
const LINES: usize = 11 * REPEATS;

const ETF: &str = "clockid CLOCK_TAI delta 200000";
const MQPRIO: &str = "num_tc 2 map 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 queues 1@0 3@1 hw 0";

const KERNEL: &str = "/usr/bin/linux.uml";
const MODULES: &str = "/usr/lib/uml/modules";

/// Begins a line of the console that is for us.
const MARK: &str = "measured: ";
