//! A host that is too busy to keep the plan is no narrow path, and the laws are told so.
#![cfg(test)]

use super::testbed::{Bed, Path, is_within};
use super::{Bbr3, Cubic, Fixed, PathStart, RateLaw, WarpRate};
use crate::test_clock::ms;
use crate::units::{Bytes, Gain, Rate};

const LINE: Rate = Rate::mbps(100);

fn bed<L: RateLaw + Clone + 'static>(build: impl FnOnce(PathStart) -> L) -> Bed<L> {
    Bed::new(Path::new(LINE, ms(20)), |start| build(start.with_anchor(Rate::gbps(1))))
}

/// Runs a law on a path that it knows, then on a host that lets it send one burst in 20 ms, a tenth of the
/// rate at most; its rate before and after.
fn before_and_after_a_busy_host<L: RateLaw + Clone + 'static>(mut bed: Bed<L>) -> (Rate, Rate) {
    bed.run_for(ms(3000));
    let before = bed.plan().rate;
    bed.host_slot = ms(20);
    bed.run_for(ms(100));
    assert!(bed.measure(ms(2900)) < LINE * Gain::percent(10), "the host is the bottleneck");
    (before, bed.plan().rate)
}

#[test]
fn what_arrives_from_a_busy_host_is_no_evidence_of_the_path() {
    let mut bed = bed(|_| Fixed::new(Rate::mbps(80), Bytes::mb(1)));
    bed.run_for(ms(500));
    assert_eq!(bed.missed(), Bytes::ZERO);
    assert!(!bed.is_app_limited());
    bed.host_slot = ms(20);
    bed.run_for(ms(500));
    assert!(bed.is_app_limited(), "samples are marked");
    // 80 Mbit/s for half a second, less the 5 ms that may be made up, and what left in 25 bursts.
    let planned = Rate::mbps(80) * ms(495);
    assert!(bed.missed() > planned * Gain::percent(85) && bed.missed() < planned, "{}", bed.missed());
    bed.host_slot = ms(0);
    bed.run_for(ms(500));
    assert!(!bed.is_app_limited(), "and no longer than the host is busy");
}

#[test]
fn a_host_that_is_late_by_a_little_is_not_the_bottleneck() {
    let mut bed = bed(|_| Fixed::new(Rate::mbps(1), Bytes::mb(1)));
    bed.host_slot = ms(2);
    bed.run_for(ms(2000));
    assert_eq!(bed.missed(), Bytes::ZERO, "a datagram per 11.6 ms can be made up");
    assert!(!bed.is_app_limited());
    assert!(is_within(bed.measure(ms(2000)), 1, Rate::mbps(1)));
}

#[test]
fn warprate_keeps_its_rate_on_a_busy_host() {
    let (before, after) = before_and_after_a_busy_host(bed(|start| WarpRate::new(start, 1)));
    assert!(after >= before * Gain::percent(80), "{before} became {after}");
}

#[test]
fn bbr3_keeps_its_rate_on_a_busy_host() {
    let (before, after) = before_and_after_a_busy_host(bed(|start| Bbr3::new(start, 1)));
    assert!(after >= before * Gain::percent(80), "{before} became {after}");
}

/// What bbr3 would take for a full pipe.
#[test]
fn a_busy_start_does_not_end_the_search_for_capacity() {
    let mut bed = bed(|start| Bbr3::new(start, 1));
    bed.host_slot = ms(20);
    bed.run_for(ms(1000));
    assert_eq!(bed.state(), "startup");
    bed.host_slot = ms(0);
    bed.run_for(ms(500));
    assert!(bed.plan().rate >= LINE * Gain::percent(80), "{}", bed.plan().rate);
}

#[test]
fn cubic_grows_no_window_that_a_busy_host_does_not_fill() {
    let mut bed = bed(Cubic::new);
    bed.run_for(ms(3000));
    let before = bed.plan().window;
    bed.host_slot = ms(20);
    bed.run_for(ms(10_000));
    let after = bed.plan().window;
    assert!(after <= before + Bytes::kb(50), "{before} became {after}");
}
