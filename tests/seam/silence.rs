//! A peer that says nothing: the dead-link timeout, apart from idle timeout and keep-alive.

use std::time::Duration;

use quinn_proto::{ConnectionError, VarInt};
use warprate::conn::TransportConfig;
use warprate::conn::core::Setup;
use warprate::units::Rate;

use crate::common::fate::losing;
use crate::common::pair::{Pair, ms};
use crate::{fixed, settled};

const DELAY: Duration = Duration::from_millis(20);

/// Gives up after two seconds without an answer, and never for lack of traffic.
fn with_budget(change: impl FnOnce(&mut TransportConfig)) -> Setup {
    let mut setup = fixed(Rate::mbps(10));
    setup.transport.max_idle_timeout(None).dead_link_timeout(Some(ms(2_000)));
    change(&mut setup.transport);
    setup
}

/// The client is told nothing and does not time out by itself.
fn pair(server: Setup) -> Pair {
    let mut client = fixed(Rate::mbps(10));
    client.transport.max_idle_timeout(None);
    settled(DELAY, client, server)
}

/// How long the server, cut off now, takes to give up.
fn until_given_up(pair: &mut Pair, patience: Duration) -> Option<Duration> {
    pair.fate = losing(DELAY, |_| true);
    let start = pair.now;
    pair.run_until(patience, |pair| pair.server.lost().is_some()).then(|| pair.now - start)
}

#[test]
fn a_dead_path_is_given_up_when_the_budget_is_spent() {
    let mut pair = pair(with_budget(|_| {}));
    pair.download(50_000_000);
    pair.run(ms(1_000));
    let took = until_given_up(&mut pair, ms(60_000)).expect("it gives up");
    // The last answers were on their way when it was cut off.
    assert!(took >= ms(2_000) && took <= ms(2_000) + DELAY + ms(1), "{took:?}");
    assert_eq!(pair.server.lost(), Some(&ConnectionError::TimedOut));
    assert!(pair.server.core().inner().is_closed());
}

#[test]
fn silence_that_nobody_broke_is_no_dead_path() {
    let mut pair = pair(with_budget(|_| {}));
    assert_eq!(until_given_up(&mut pair, ms(600_000)), None);
}

#[test]
fn a_keep_alive_asks_on_behalf_of_a_silent_application() {
    let mut pair = pair(with_budget(|transport| {
        transport.keep_alive_interval(Some(ms(5_000)));
    }));
    let took = until_given_up(&mut pair, ms(60_000)).expect("it gives up");
    assert!(took >= ms(2_000) && took <= ms(7_000), "{took:?}");
}

#[test]
fn an_outage_shorter_than_the_budget_is_borne() {
    let mut pair = pair(with_budget(|_| {}));
    pair.download(3_000_000);
    pair.run(ms(500));
    assert_eq!(until_given_up(&mut pair, ms(1_500)), None);
    pair.fate = losing(DELAY, |_| false);
    assert!(pair.run_until(ms(30_000), |pair| pair.client.is_finished));
    assert_eq!(pair.client.received, 3_000_000);
}

#[test]
fn the_idle_timeout_holds_by_itself() {
    let mut setup = fixed(Rate::mbps(10));
    setup.transport.max_idle_timeout(Some(VarInt::from_u32(1_000).into()));
    let pair = settled(DELAY, fixed(Rate::mbps(10)), setup);
    assert_eq!(pair.server.lost(), Some(&ConnectionError::TimedOut), "it was idle for five seconds");
}
