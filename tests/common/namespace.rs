//! Network namespaces that tests make, and what is in them. Needs root.

use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, unshare};

/// Runs `test` in a network namespace of its own; says so if it cannot.
pub fn in_namespace(test: fn()) {
    if let Err(error) = Command::new("ip").arg("-V").output() {
        eprintln!("SKIPPED: `ip` cannot be run: {error}; install iproute2");
        return;
    }
    let thread = thread::spawn(move || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("SKIPPED: no network namespace can be made: {error}; run as root");
            return;
        }
        run("ip link set lo up");
        test();
    });
    thread.join().expect("the test passes");
}

/// Runs a command in the thread's namespace; what it printed.
pub fn run(line: &str) -> String {
    let words: Vec<_> = line.split_whitespace().collect();
    let output =
        Command::new(words[0]).args(&words[1..]).output().unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
