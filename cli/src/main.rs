//! `warp`: the warprate toolbox. Thin: each subcommand reads its arguments, calls a library and prints.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod pace;
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
    /// Show how fast datagrams may leave by an interface, who keeps their times, and how to do better.
    #[cfg(target_os = "linux")]
    Pace(pace::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Sim(command) => command.run(),
        #[cfg(target_os = "linux")]
        Command::Pace(args) => args.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("warp: {error:#}");
            ExitCode::FAILURE
        }
    }
}
