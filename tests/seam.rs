//! The quinn-proto facts on which the design stands, one test per line of `docs/seam.md`.
#![allow(clippy::disallowed_methods, reason = "virtual time needs an origin")]

mod common;

use common::pair::{Pair, ms, setup};
use warprate::conn::Law;
use warprate::units::{Bytes, Rate};

fn fixed(rate: Rate) -> Law {
    Law::fixed(rate, Bytes::mb(64))
}

#[test]
fn a_fixed_rate_fills_its_link() {
    let mut pair = Pair::connected(ms(20), setup(Law::default()), setup(fixed(Rate::mbps(100))));
    pair.download(10_000_000);
    let start = pair.now;
    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
    let took = pair.now - start;
    println!("{took:?} {:#?}", pair.server.core().stats());
    assert_eq!(pair.client.received, 10_000_000);
}
