//! Rounding directions, saturation and reading of the units, as properties and as worked examples.

use std::time::Duration;

use proptest::prelude::*;
use warpunits::{Bytes, Gain, Rate};

#[test]
fn a_packet_takes_its_serialisation_time() {
    // 1518 bytes on the wire at 100 Mbit/s: 1518 * 8 / 10^8 s = 121.44 us.
    assert_eq!(Bytes::new(1518) / Rate::mbps(100), Duration::from_nanos(121_440));
    // 1 byte at 3 bytes/s: a third of a second, rounded up to the next nanosecond.
    assert_eq!(Bytes::new(1) / Rate::bytes_per_sec(3), Duration::from_nanos(333_333_334));
}

#[test]
fn a_rate_moves_whole_bytes_only() {
    assert_eq!(Rate::mbps(100) * Duration::from_millis(40), Bytes::new(500_000));
    assert_eq!(Rate::bytes_per_sec(3) * Duration::from_nanos(333_333_333), Bytes::ZERO);
    assert_eq!(Rate::bits_per_sec(15), Rate::bytes_per_sec(1));
}

#[test]
fn a_zero_rate_means_never() {
    assert_eq!(Bytes::new(1) / Rate::ZERO, Duration::MAX);
    assert_eq!(Bytes::ZERO / Rate::ZERO, Duration::ZERO);
    assert_eq!(Rate::ZERO * Duration::MAX, Bytes::ZERO);
}

#[test]
fn no_time_at_all_is_an_unbounded_rate() {
    assert_eq!(Bytes::new(1) / Duration::ZERO, Rate::MAX);
    assert_eq!(Bytes::ZERO / Duration::ZERO, Rate::ZERO);
}

#[test]
fn the_ends_saturate() {
    assert_eq!(Bytes::MAX + Bytes::new(1), Bytes::MAX);
    assert_eq!(Bytes::new(1) - Bytes::new(2), Bytes::ZERO);
    assert_eq!(Rate::MAX * Duration::MAX, Bytes::MAX);
    assert_eq!(Rate::MAX + Rate::mbps(1), Rate::MAX);
    assert_eq!(Rate::MAX * Gain::ratio(2, 1), Rate::MAX);
    assert_eq!(Bytes::MAX / Duration::from_nanos(1), Rate::MAX);
    assert_eq!(Rate::gbps(u64::MAX), Rate::MAX);
    assert_eq!(Bytes::MAX.times(2), Bytes::MAX);
}

#[test]
fn gains_are_exact_ratios() {
    assert_eq!(Rate::mbps(100) * Gain::ratio(277, 100), Rate::mbps(277));
    assert_eq!(Bytes::new(100) * Gain::percent(85), Bytes::new(85));
    assert_eq!(Bytes::new(3) * Gain::ratio(1, 2), Bytes::new(1));
    assert_eq!(Gain::ratio(2, 4), Gain::percent(50));
}

#[test]
fn gains_add_up_exactly() {
    let (half, third) = (Gain::ratio(1, 2), Gain::ratio(1, 3));
    assert_eq!(half + third, Gain::ratio(5, 6));
    assert_eq!(half - third, Gain::ratio(1, 6));
    assert_eq!(third - half, Gain::ratio(0, 1));
    assert_eq!(half * third, Gain::ratio(1, 6));
    assert_eq!(half / third, Gain::ratio(3, 2));
    assert_eq!(Gain::ONE / (Gain::ONE + Gain::percent(25)), Gain::percent(80));
    assert!(third < half && half < Gain::ONE);
    assert_eq!(Duration::from_millis(3) * third, Duration::from_millis(1));
    assert_eq!(Gain::ratio(7, 8).thousandths(), 875);
}

#[test]
fn gains_beyond_32_bits_keep_their_size() {
    let near_one = Gain::ratio(u32::MAX, u32::MAX - 1);
    assert_eq!((near_one * near_one).thousandths(), 1000);
    assert_eq!((near_one + near_one).thousandths(), 2000);
    assert_eq!(Duration::MAX * Gain::ratio(2, 1), Duration::from_nanos(u64::MAX));
}

#[test]
fn quantities_print_in_their_natural_unit() {
    assert_eq!(Rate::kbps(12_500).to_string(), "12.5 Mbit/s");
    assert_eq!(Rate::gbps(10).to_string(), "10 Gbit/s");
    assert_eq!(Rate::ZERO.to_string(), "0 bit/s");
    assert_eq!(Bytes::new(1_452).to_string(), "1.452 kB");
    assert_eq!(format!("{:>8}", Bytes::mb(10)), "   10 MB");
}

#[test]
fn quantities_are_read_with_their_unit() {
    for text in ["100 Mbit/s", "100Mbps", "0.1 Gbit/s", "100_000 kbit/s", " 100000000 bit/s "] {
        assert_eq!(text.parse(), Ok(Rate::mbps(100)), "{text}");
    }
    assert_eq!("10 MB".parse(), Ok(Bytes::mb(10)));
    assert_eq!("1.5MiB".parse(), Ok(Bytes::kib(1536)));
    assert_eq!("1452".parse(), Ok(Bytes::new(1452)));
}

#[test]
fn what_is_no_quantity_says_what_was_expected() {
    for text in
        ["", "100", "fast", "-1 Mbit/s", "1e3 Mbit/s", ".5 Mbit/s", "1..2 Mbit/s", "NaN bit/s", "100 MBps"]
    {
        let error = text.parse::<Rate>().unwrap_err().to_string();
        assert_eq!(error, format!("`{text}` is not a rate with its unit such as `100 Mbit/s`"));
    }
    assert!("99999999999999999999 GB".parse::<Bytes>().is_err());
    assert!("-1".parse::<Bytes>().is_err());
    // Bits are not bytes.
    assert!("10 Mb".parse::<Bytes>().is_err());
}

proptest! {
    /// Waiting `bytes / rate` is never early: by then the rate has earned all of the bytes. And it
    /// is late by less than the nanosecond it was rounded to.
    #[test]
    fn waiting_is_never_early(bytes in 1u64..1 << 40, rate in 1u64..1 << 40) {
        let (bytes, rate) = (Bytes::new(bytes), Rate::bytes_per_sec(rate));
        let wait = bytes / rate;
        prop_assert!(rate * wait >= bytes);
        prop_assert!(rate * (wait - Duration::from_nanos(1)) < bytes);
    }

    /// `bytes / time` never promises more than was moved.
    #[test]
    fn a_measured_rate_is_never_too_high(bytes in 0u64..1 << 50, nanos in 1u64..1 << 50) {
        let (bytes, time) = (Bytes::new(bytes), Duration::from_nanos(nanos));
        prop_assert!((bytes / time) * time <= bytes);
    }

    /// No operation panics or wraps, whatever the operands.
    #[test]
    fn arithmetic_is_total(a: u64, b: u64, secs: u64, nanos in 0u32..1_000_000_000, num: u32, den in 1u32..) {
        let (x, y) = (Bytes::new(a), Bytes::new(b));
        let (r, t, g) = (Rate::bytes_per_sec(b), Duration::new(secs, nanos), Gain::ratio(num, den));
        prop_assert!(x + y >= x && x - y <= x);
        prop_assert!(num <= den || x * g >= x);
        let _ = (x / r, x / t, r * t, r * g, r + r, r - r, x.times(b));
    }

    /// Every byte count and every rate in whole kbit/s survives being written out and read again.
    #[test]
    fn written_units_read_back(n in 0u64..1 << 50) {
        prop_assert_eq!(format!("{n} B").parse(), Ok(Bytes::new(n)));
        prop_assert_eq!(format!("{n} kbit/s").parse(), Ok(Rate::kbps(n)));
    }

    /// Reading never panics.
    #[test]
    fn reading_is_total(text in ".{0,24}") {
        let _ = (text.parse::<Rate>(), text.parse::<Bytes>());
    }
}
