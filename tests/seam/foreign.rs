//! Controllers written for quinn-proto inside the tap.

use warprate::conn::Law;
use warprate::units::Rate;

use crate::common::fate::rough;
use crate::common::pair::{ms, setup};
use crate::{fixed, settled};

fn foreign() -> [Law; 3] {
    [Law::quinn_cubic(), Law::quinn_new_reno(), Law::quinn_bbr()]
}

#[test]
fn quinns_controllers_complete_a_transfer_with_a_percent_of_loss() {
    for law in foreign() {
        let name = format!("{law:?}");
        for seed in 0..3 {
            let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(law.clone()));
            pair.fate = rough(seed, ms(20), 0.01, ms(0));
            pair.download(3_000_000);
            let is_done = pair.run_until(ms(60_000), |pair| pair.client.is_finished);
            assert!(is_done, "{name} seed {seed}: {} bytes", pair.client.received);
            assert_eq!(pair.client.received, 3_000_000);
        }
    }
}

#[test]
fn a_foreign_window_and_rate_are_followed_through_metrics() {
    let mut pair = settled(ms(20), fixed(Rate::mbps(10)), setup(Law::quinn_cubic()));
    pair.download(10_000_000);
    for _ in 0..400 {
        pair.run(ms(1));
        let stats = pair.server.core().stats();
        let metrics = pair.server.core().inner().congestion_state().metrics();
        // The plan follows at the next poll, and every poll follows the ACKs at once.
        assert_eq!(stats.path.window.get(), metrics.congestion_window);
        assert!(stats.path.in_flight <= stats.path.window, "{:?}", stats.path);
        assert!([1, 1 << 32].contains(&stats.proto.path.cwnd));
        // RFC 9002 §7.7: 1.25 · window / srtt, unless the anchor is lower.
        let srtt = stats.path.rtt.expect("measured").smoothed.as_secs_f64();
        let rate = 1.25 * metrics.congestion_window as f64 * 8.0 / srtt / 1e6;
        let ratio = stats.path.pacing_rate.as_mbps_f64() / rate;
        assert!((0.99..1.01).contains(&ratio), "{:?}", stats.path);
    }
    assert!(pair.server.core().stats().path.window.get() > 1_000_000, "slow start grew the window");
}

#[test]
fn a_foreign_controller_starts_at_once_on_a_short_path() {
    // Before the first sample quinn-proto guesses 333 ms; what left under that guess must not count.
    let mut pair = crate::Pair::connected(ms(1), fixed(Rate::mbps(10)), setup(Law::quinn_cubic()));
    let start = pair.now;
    pair.download(100_000);
    assert!(pair.run_until(ms(5_000), |pair| pair.client.is_finished));
    // Ten datagrams, twenty, forty: four round trips and some delayed ACKs.
    assert!(pair.now - start < ms(40), "{:?}", pair.now - start);
}
