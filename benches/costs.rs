//! What a datagram costs besides time: allocations, wake-ups and system calls, ours beside stock quinn.
//!
//! `cargo bench --bench costs [-- --bytes 200000000]`
//!
//! Allocations are counted per thread by an allocator that passes them on. System calls are counted by `strace`, if
//! that is installed: each stack runs in a process of its own under it, which slows it down and changes how much each
//! call finds to do; ratios tell more than figures.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "loopback/stacks.rs"]
mod stacks;

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets};
use stacks::{Certificate, MTU, Stack, transfer};

#[derive(Parser)]
struct Options {
    /// Bytes of one transfer.
    #[arg(long, default_value_t = 200_000_000)]
    bytes: u64,
    /// One transfer of this stack, and nothing else.
    #[arg(long, hide = true)]
    only: Option<String>,
    /// Cargo's own.
    #[arg(long, hide = true)]
    bench: bool,
}

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static ALLOCATED: AtomicU64 = AtomicU64::new(0);

#[expect(unsafe_code, reason = "an allocator is one by contract")]
// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        ALLOCATED.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        ALLOCATED.fetch_add(size as u64, Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const STACKS: [Stack; 3] = [Stack::Quinn, Stack::Ours, Stack::Fixed];

fn main() {
    let options = Options::parse();
    let certificate = Certificate::new();
    if let Some(name) = &options.only {
        let stack = STACKS.into_iter().find(|stack| stack.name() == name).expect("a stack of ours or theirs");
        transfer(stack, options.bytes, &certificate);
        return;
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header([
        "stack",
        "allocations per datagram",
        "allocated per payload byte",
        "system calls per GB",
        "the most frequent",
    ]);
    for stack in STACKS {
        let before = (ALLOCATIONS.load(Ordering::Relaxed), ALLOCATED.load(Ordering::Relaxed));
        transfer(stack, options.bytes, &certificate);
        let count = ALLOCATIONS.load(Ordering::Relaxed) - before.0;
        let size = ALLOCATED.load(Ordering::Relaxed) - before.1;
        let datagrams = options.bytes as f64 / f64::from(MTU);
        let (calls, frequent) = system_calls(stack, options.bytes);
        table.add_row([
            stack.name().to_owned(),
            format!("{:.2}", count as f64 / datagrams),
            format!("{:.2}", size as f64 / options.bytes as f64),
            calls,
            frequent,
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}

/// How many per gigabyte, and which.
fn system_calls(stack: Stack, bytes: u64) -> (String, String) {
    let this = std::env::current_exe().expect("it runs");
    let size = bytes.to_string();
    let traced = Command::new("strace")
        .args(["-f", "-c", "-U", "calls,name", "-S", "calls"])
        .arg(this)
        .args(["--only", stack.name(), "--bytes", &size])
        .output();
    let Ok(output) = traced else { return ("(no strace)".into(), String::new()) };
    let text = String::from_utf8_lossy(&output.stderr);
    let counts: Vec<(u64, &str)> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?))
        })
        .collect();
    let per_gb = |calls: u64| calls as f64 * 1e9 / bytes as f64;
    let total: u64 = counts.iter().filter(|(_, name)| *name != "total").map(|(calls, _)| calls).sum();
    let first = counts.iter().take(4).map(|(calls, name)| format!("{name} {:.0}", per_gb(*calls)));
    (format!("{:.0}", per_gb(total)), first.collect::<Vec<_>>().join(", "))
}
