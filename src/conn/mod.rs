//! Connections: the state machine, its seam to our control, and the tokio side.

mod ack_debt;
mod batch;
mod config;
pub mod core;
mod stats;
mod tap;

pub use batch::BatchLimits;
pub use config::{Law, TransportConfig};
pub use stats::{ConnectionStats, Limit, PathStats};
pub use tap::Foreign;
