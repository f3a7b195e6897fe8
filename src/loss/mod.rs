//! "What became of what we sent?"
//!
//! *What it decides:* which packets are outstanding, delivered or lost, what that says about the
//! path, and when to ask the path for a sign of life. *In:* departures, acknowledgements and losses
//! as the transport reports them. *Out:* the [`Ack`](crate::signal::Ack) and
//! [`Loss`](crate::signal::Loss) that laws read, and the packets whose loss proved spurious. *May import:* `units` and `signal`.

mod classifier;
mod delay;
mod ledger;
mod losses;
mod missing;
mod recovery;

pub use classifier::Classifier;
pub use ledger::{Audit, Ledger};
pub use losses::{Losses, Lost};
pub use recovery::{RecoveryClock, Waiting};
