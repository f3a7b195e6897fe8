//! The command line that all peers have (docs/peers.md), and hq-interop's request.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser};

pub const ALPN: &[u8] = b"hq-interop";

/// Bytes after which a client moves, in the midst of a transfer.
pub const MOVES_AFTER: u64 = 2_000_000;

/// Between key updates: three probe timeouts (RFC 9001 §6.5).
pub const BETWEEN_UPDATES: Duration = Duration::from_secs(1);

#[derive(Parser)]
pub enum Command {
    Serve(Serve),
    Get(Get),
}

#[derive(Args)]
pub struct Serve {
    pub directory: PathBuf,
    #[arg(long)]
    pub listen: SocketAddr,
    #[arg(long)]
    pub cert: PathBuf,
    #[arg(long)]
    pub key: PathBuf,
    #[arg(long)]
    pub retry: bool,
}

#[derive(Args)]
pub struct Get {
    /// `https://ADDRESS:PORT/FILE`, all from one server.
    #[arg(required = true)]
    pub urls: Vec<String>,
    #[arg(long)]
    pub ca: PathBuf,
    #[arg(long)]
    pub output: PathBuf,
    #[arg(long)]
    pub resume: bool,
    #[arg(long = "0rtt")]
    pub early: bool,
    #[arg(long)]
    pub key_update: bool,
    #[arg(long)]
    pub migrate: bool,
}

impl Get {
    /// The server's address and the paths.
    pub fn targets(&self) -> Option<(SocketAddr, Vec<String>)> {
        let mut parts = self.urls.iter().map(|url| url.strip_prefix("https://")?.split_once('/'));
        let (address, first) = parts.next()??;
        let mut paths = vec![format!("/{first}")];
        for part in parts {
            paths.push(format!("/{}", part?.1));
        }
        Some((address.parse().ok()?, paths))
    }

    /// Where a path's file goes.
    pub fn file(&self, path: &str) -> PathBuf {
        self.output.join(path.rsplit('/').next().unwrap_or_default())
    }
}

impl Serve {
    /// Says that the server listens.
    pub fn announce(&self, address: SocketAddr) {
        println!("serving on {address}");
    }

    /// The file that is asked for.
    pub fn file(&self, request: &[u8]) -> Option<PathBuf> {
        let name = std::str::from_utf8(request).ok()?.trim().strip_prefix("GET /")?;
        let is_plain =
            Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        is_plain.then(|| self.directory.join(name))
    }
}

/// Ends the process as the runner understands it: this cannot be asked of this library.
pub fn cannot(what: &str) -> ! {
    eprintln!("{what}");
    std::process::exit(127);
}
