//! Downloads the same bytes over the same impaired path under several congestion controllers.
//!
//! ```text
//! cargo run --release --example bulk_download
//! cargo run --release --example bulk_download -- --loss 5% --law fixed,bbr3 --json results.json
//! ```
//! Server, client and path live in this process: nothing needs privileges. `--help` says what is
//! measured and how. With a command it moves files over hq-interop (HTTP/0.9 over QUIC) instead:
//!
//! ```text
//! cargo run --release --example bulk_download -- serve DIR
//! cargo run --release --example bulk_download -- get https://127.0.0.1:4433/file --pin SHA256
//! ```
//!
//! | module     | what it is for |
//! |------------|----------------|
//! | `options`  | the command line, checked |
//! | `plan`     | which rows run together, deadlines, the oracle |
//! | `row`      | one row: its thread, its relay, its clocks |
//! | `driver`   | a download through `warprate`: read this to learn the API |
//! | `stock`    | the same through stock `quinn` |
//! | `rtt`      | listening to round trips inside the controllers |
//! | `pattern`  | the bytes |
//! | `tls`      | the certificate, and sizes that all rows share |
//! | `progress` | what is shown meanwhile |
//! | `report`   | what is shown afterwards |
//! | `hq`       | files over hq-interop: `serve` and `get` |
#![allow(clippy::disallowed_methods, reason = "it measures real time")]
#![allow(missing_docs, reason = "a program, not an interface")]

#[cfg(not(unix))]
fn main() {
    eprintln!("bulk_download needs the relay of warplink, and that needs Unix");
}

#[cfg(unix)]
mod driver;
#[cfg(unix)]
mod hq;
#[cfg(unix)]
mod options;
#[cfg(unix)]
mod pattern;
#[cfg(unix)]
mod plan;
#[cfg(unix)]
mod progress;
#[cfg(unix)]
mod report;
#[cfg(unix)]
mod row;
#[cfg(unix)]
mod rtt;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod stock;
#[cfg(unix)]
mod tls;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    run::main()
}
