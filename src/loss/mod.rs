//! "What became of what we sent?"
//!
//! *What it decides:* which packets are outstanding, delivered or lost, and what that says about the
//! path. *In:* departures, acknowledgements and losses as the transport reports them. *Out:* the
//! [`Ack`](crate::signal::Ack) and [`Loss`](crate::signal::Loss) that laws read.
//! *May import:* `units` and `signal`.

mod ledger;

pub use ledger::{Audit, Ledger};
