//! A deterministic network simulator that runs warprate's real code.
//!
//! A run is a pure function of one topology and one seed: time is integer picoseconds, events have a
//! total order, and every random draw is numbered, so traces reproduce byte for byte on every machine.
//!
//! ```text
//! Host -packets-> World -> Port (queue, transmitter, wire) -> … -> Host
//! ```
#![forbid(unsafe_code)]

pub mod host;
pub mod packet;
pub mod port;
pub mod queue;
pub mod world;
