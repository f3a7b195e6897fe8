//! `warp`: the warprate toolbox. Thin: each subcommand reads its arguments, calls a library and prints.
#![forbid(unsafe_code)]

mod sim;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The warprate toolbox: simulate, compare and explain congestion controllers.
#[derive(Parser)]
#[command(name = "warp", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the library's own code on simulated networks.
    #[command(subcommand)]
    Sim(sim::Command),
}

fn main() -> ExitCode {
    let Cli { command: Command::Sim(command) } = Cli::parse();
    match command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("warp: {error:#}");
            ExitCode::FAILURE
        }
    }
}
