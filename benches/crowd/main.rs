//! A thousand downloads at once through one endpoint, beside stock `quinn`: time, CPU and memory of the server.
//!
//! `cargo bench --bench crowd [-- --clients 1000 --bytes 100000 --rounds 9]`
//!
//! The server is a process of its own, and one thread; its clients are stock quinn's in each case, in the
//! other process. All connect, then ask at once, and stay connected. Stacks take turns, in another order each
//! round; the table has medians. Time is from the first request to the last byte; CPU is the server's, with the
//! handshakes. Memory is what its thread has allocated, divided by the number of clients: the most at any time,
//! and what is left when all are served and still connected.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod clients;
mod servers;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use clients::Crowd;
use servers::{Cost, Stack};

fn main() {
    let options = Options::parse();
    if let Some(stack) = options.serve {
        return servers::serve(stack, options.crowd);
    }
    let Options { crowd, rounds, .. } = options;
    let mut costs = Stack::ALL.map(|_| Vec::new());
    for round in 0..rounds {
        for turn in 0..Stack::ALL.len() {
            let place = (round + turn) % Stack::ALL.len();
            let cost = measure(Stack::ALL[place], crowd);
            eprintln!("  round {}, {}: {cost:?}", round + 1, Stack::ALL[place].name());
            costs[place].push(cost);
        }
    }
    println!(
        "{} downloads of {} bytes at once, {rounds} alternating rounds, medians",
        crowd.clients, crowd.bytes
    );
    println!("{:<24} {:>8} {:>8} {:>15} {:>15}", "", "time", "CPU", "KB per client", "KB per client");
    println!("{:<24} {:>8} {:>8} {:>15} {:>15}", "server", "ms", "ms", "at most", "when served");
    for (stack, costs) in Stack::ALL.iter().zip(&costs) {
        let median = |figure: fn(&(Duration, Cost)) -> f64| {
            let mut figures: Vec<_> = costs.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        println!(
            "{:<24} {:>8.0} {:>8.0} {:>15.1} {:>15.1}",
            stack.name(),
            median(|(time, _)| time.as_secs_f64() * 1e3),
            median(|(_, cost)| cost.cpu_ms),
            median(|(_, cost)| cost.most_bytes) / crowd.clients as f64 / 1e3,
            median(|(_, cost)| cost.kept_bytes) / crowd.clients as f64 / 1e3,
        );
    }
}

/// One round of one stack.
fn measure(stack: Stack, crowd: Crowd) -> (Duration, Cost) {
    let mut server = Command::new(std::env::current_exe().expect("we run"))
        .args(["--serve", stack.name()])
        .args(["--clients", &crowd.clients.to_string(), "--bytes", &crowd.bytes.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut lines = BufReader::new(server.stdout.take().expect("piped")).lines();
    let mut line = || lines.next().expect("the server has a word to say").expect("it is text");
    let served = clients::download(crowd, line().parse().expect("an address"));
    let cost = serde_json::from_str(&line()).expect("its own words");
    server.wait().expect("the server ends");
    (served.time, cost)
}

struct Options {
    crowd: Crowd,
    rounds: usize,
    serve: Option<Stack>,
}

impl Options {
    fn parse() -> Self {
        let mut options = Self { crowd: Crowd { clients: 1000, bytes: 100_000 }, rounds: 9, serve: None };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
            let number =
                |value: String| value.parse().unwrap_or_else(|_| panic!("{value} is no whole number"));
            match arg.as_str() {
                "--clients" => options.crowd.clients = number(value()),
                "--bytes" => options.crowd.bytes = number(value()),
                "--rounds" => options.rounds = number(value()),
                "--serve" => options.serve = Some(Stack::named(&value())),
                // Cargo's own.
                "--bench" => {}
                other => panic!("unknown option {other}; known are --clients, --bytes and --rounds"),
            }
        }
        options
    }
}
