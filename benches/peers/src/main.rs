//! Loopback bulk over other QUIC stacks beside ours, and over kernel TCP with TLS as the ceiling: one stream, 1 MB
//! chunks, one thread with a current-thread runtime per end, 1452-byte datagrams where a stack lets them be chosen.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml [-- --bytes 1000000000 --rounds 9]`
//!
//! Each round runs every stack once, the next beginning with another one. Ratios are to stock quinn in the same round,
//! and the table has their medians. s2n-quic and quiche use their own TLS libraries (rustls on aws-lc, BoringSSL), the
//! others rustls on ring; all of them their default congestion controller.

mod noq;
mod quiche;
mod s2n;
#[path = "../../loopback/stacks.rs"]
mod stacks;
mod tcp;

use std::panic::catch_unwind;

use clap::{Parser, ValueEnum};
use comfy_table::{CellAlignment, Table, presets};
use stacks::{Certificate, Cost, Stack, transfer};

#[derive(Parser)]
struct Options {
    /// Bytes of one transfer.
    #[arg(long, default_value_t = 1_000_000_000)]
    bytes: u64,
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Only these.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Option<Vec<Peer>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    Warprate,
    Quinn,
    Noq,
    S2n,
    Quiche,
    Tcp,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Warprate => "warprate",
            Self::Quinn => "quinn",
            Self::Noq => "noq",
            Self::S2n => "s2n-quic",
            Self::Quiche => "tokio-quiche",
            Self::Tcp => "kernel TCP, rustls",
        }
    }

    fn transfer(self, bytes: u64, certificate: &Certificate) -> Cost {
        match self {
            Self::Warprate => transfer(Stack::Ours, bytes, certificate),
            Self::Quinn => transfer(Stack::Quinn, bytes, certificate),
            Self::Noq => noq::transfer(bytes, certificate),
            Self::S2n => s2n::transfer(bytes, certificate),
            Self::Quiche => quiche::transfer(bytes, certificate),
            Self::Tcp => tcp::transfer(bytes, certificate),
        }
    }
}

fn main() {
    let options = Options::parse();
    let certificate = Certificate::new();
    let peers = options.only.unwrap_or_else(|| Peer::value_variants().to_vec());
    let mut costs: Vec<Vec<Option<Cost>>> = vec![Vec::new(); peers.len()];
    for round in 0..options.rounds {
        for i in 0..peers.len() {
            let i = (i + round) % peers.len();
            // A stack that gives a transfer up has said why.
            let cost = catch_unwind(|| peers[i].transfer(options.bytes, &certificate)).ok();
            let told = cost.map(|cost| format!("{:.2?}, {:.2?} CPU", cost.wall, cost.cpu));
            eprintln!("  round {}, {}: {}", round + 1, peers[i].name(), told.as_deref().unwrap_or("failed"));
            costs[i].push(cost);
        }
    }
    let quinn = peers.iter().position(|peer| *peer == Peer::Quinn);
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["stack", "Gbit/s", "CPU s/GB", "wall / quinn's", "CPU / quinn's", "failed"]);
    for (peer, own) in peers.iter().zip(&costs) {
        let ratio = |figure: fn(&Cost) -> f64| {
            let Some(quinn) = quinn else { return String::new() };
            let pairs = own
                .iter()
                .zip(&costs[quinn])
                .filter_map(|(own, quinn)| Some((own.as_ref()?, quinn.as_ref()?)));
            format!("{:.3}", median(pairs.map(|(own, quinn)| figure(own) / figure(quinn))))
        };
        let wall = median(own.iter().flatten().map(|cost| cost.wall.as_secs_f64()));
        let cpu = median(own.iter().flatten().map(|cost| cost.cpu.as_secs_f64()));
        table.add_row([
            peer.name().to_owned(),
            format!("{:.2}", options.bytes as f64 * 8e-9 / wall),
            format!("{:.2}", cpu / (options.bytes as f64 / 1e9)),
            ratio(|cost| cost.wall.as_secs_f64()),
            ratio(|cost| cost.cpu.as_secs_f64()),
            format!("{} of {}", own.iter().filter(|cost| cost.is_none()).count(), options.rounds),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
