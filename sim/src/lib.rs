//! A deterministic network simulator that runs warprate's real code.
//!
//! A run is a pure function of one topology and one seed: time is integer picoseconds, events have a
//! total order, and every random draw is numbered, so traces reproduce byte for byte on every machine.
//!
//! ```text
//! topology -> scenario -> World: Host -packets-> Port (queue, transmitter, wire) -> … -> Host
//!                      -> metrics -> Report
//! ```
//!
//! | module       | its question |
//! |--------------|--------------|
//! | `topology`   | what is simulated? |
//! | `laws`       | which controllers are at hand? |
//! | `scenario`   | how does a topology with a seed become a run? |
//! | `metrics`    | how well did it go? |
//! | `dumbbell`   | how do flows share a bottleneck? |
//! | `ack_ratio`  | does it matter how often a receiver acknowledges? |
//! | `duels`      | how do two laws share a bottleneck? |
//! | `trace`      | what happened in between? |
//! | `quinn_bbr`  | what slows quinn's BBR? |
//! | `published`  | which paths have published figures? |
//! | `world`, `host`, `port`, `queue`, `packet` | the machinery |
#![forbid(unsafe_code)]

pub mod ack_ratio;
pub mod duels;
pub mod dumbbell;
pub mod histogram;
pub mod host;
pub mod laws;
pub mod metrics;
pub mod packet;
pub mod port;
pub mod published;
pub mod queue;
pub mod quinn_bbr;
pub mod scenario;
pub mod topology;
pub mod trace;
pub mod world;
pub mod yardstick;
