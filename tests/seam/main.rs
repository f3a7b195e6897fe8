//! The quinn-proto facts on which the design stands, as `docs/seam.md` numbers them: two endpoints in
//! virtual time, joined by a wire that the tests disturb.

#[path = "../common/mod.rs"]
mod common;

mod acks;
mod chaos;
mod datagrams;
mod deadline;
mod early;
mod foreign;
mod handshake;
mod identity;
mod late;
mod migration;
mod order;
mod pacing;
mod recovery;
mod requests;
mod silence;
mod stats;
mod storm;
mod tail;

use common::pair::{Pair, ms, setup};
use warprate::conn::{Law, core::Setup};
use warprate::units::{Bytes, Rate};

/// An explicit rate without a bound on what is in flight.
fn fixed(rate: Rate) -> Setup {
    setup(Law::fixed(rate, Bytes::mb(64)))
}

/// The same, which takes datagrams in the order in which they come.
fn unordered(mut setup: Setup) -> Setup {
    setup.transport.longest_hold(std::time::Duration::ZERO);
    setup
}

/// A connected pair that has ended its MTU discovery and paid its handshake's debt: from here on both
/// ends are silent until a stream is opened.
fn settled(delay: std::time::Duration, client: Setup, server: Setup) -> Pair {
    let mut pair = Pair::connected(delay, client, server);
    pair.run(ms(5_000));
    pair.departures.clear();
    pair
}

/// The size of a full datagram once MTU discovery has ended.
const FULL: u64 = 1452;
