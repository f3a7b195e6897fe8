//! A network link as a pure function, and an unprivileged UDP relay that runs it on real sockets.
//!
//! Read the modules in this order:
//!
//! | module     | question |
//! |------------|----------|
//! | `time`     | what is a moment, and which way does it round? |
//! | `random`   | what is the n-th random number of this link? |
//! | `schedule` | what is the rate now, and when has a packet left? |
//! | `profile`  | what is a link like? |
//! | `wire`     | when does what has left the transmitter arrive? |
//! | `link`     | what becomes of a packet that is offered now? |
//! | `path`     | which two links make up a path? |
//! | `oracle`   | how fast could a transfer over this path be? |
//! | `relay`    | how do real UDP programs meet these links? (Unix) |
//!
//! A simulator drives a [`Link`] with its own clock:
//! ```
//! use std::time::Duration;
//! use warplink::{Fate, Link, Profile, Probability, Time, wire_bytes};
//! use warpunits::{Bytes, Rate};
//!
//! let profile = Profile::new(Rate::mbps(100), Duration::from_millis(20), Bytes::kb(500))?
//!     .with_loss(Probability::percent(1));
//! let mut link = Link::new(profile, 42);
//! let size = wire_bytes(Bytes::new(1452), false);
//! match link.offer(Time::START, size) {
//!     Fate::Delivered { at, .. } => assert_eq!(at.since_start(), Duration::from_nanos(20_121_440)),
//!     Fate::Lost(why) => println!("lost: {why:?}"),
//! }
//! # Ok::<(), warplink::ProfileError>(())
//! ```
#![forbid(unsafe_code)]

mod link;
mod normal_table;
mod oracle;
mod path;
mod profile;
mod random;
#[cfg(unix)]
mod relay;
mod schedule;
mod time;
mod wire;

pub use link::{Fate, Link, Loss, Queue, wire_bytes};
pub use oracle::{Transfer, oracle};
pub use path::{PathProfile, bdp};
pub use profile::{Jitter, Losses, Order, Probability, Profile, ProfileError};
pub use random::{RandomStream, link_seed};
#[cfg(unix)]
pub use relay::{DirectionStats, Lateness, RelayError, RelayStats, UdpRelay};
pub use schedule::serialisation;
pub use time::{Span, Time};
pub use wire::Wire;
