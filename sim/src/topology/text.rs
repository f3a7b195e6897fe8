//! Quantities as people write them: a number and its unit, in a string.
//!
//! *What it decides:* which texts are quantities. Exact decimal arithmetic, no float: `0.1 ms` is
//! 100,000 ns on every machine. A text that is none is refused together with the form it should have.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use warplink::{Losses, Probability};
use warpunits::{Bytes, Rate};

/// A quantity that is read from a string.
pub trait Text: Sized {
    /// The form that the text must have, for error messages.
    const EXPECTED: &'static str;

    /// The quantity, if the text is one.
    fn from_text(text: &str) -> Option<Self>;
}

/// Reads a quantity, for `#[serde(deserialize_with)]`.
pub fn required<'de, D: Deserializer<'de>, T: Text>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_str(TextVisitor(PhantomData))
}

/// Reads a quantity where the field is there, for `#[serde(default, deserialize_with)]`.
pub fn optional<'de, D: Deserializer<'de>, T: Text>(deserializer: D) -> Result<Option<T>, D::Error> {
    required(deserializer).map(Some)
}

struct TextVisitor<T>(PhantomData<T>);

impl<T: Text> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl Text for Rate {
    const EXPECTED: &'static str = "a rate above zero such as `100 Mbit/s`";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().filter(|rate: &Self| !rate.is_zero())
    }
}

impl Text for Bytes {
    const EXPECTED: &'static str = "a size above zero such as `10 MB`";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().filter(|bytes: &Self| !bytes.is_zero())
    }
}

impl Text for Duration {
    const EXPECTED: &'static str = "a time of at most a day such as `40 ms`";

    fn from_text(text: &str) -> Option<Self> {
        let units =
            [("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), ("s", SECOND), ("min", 60 * SECOND)];
        scaled(text, &units).map(Self::from_nanos).filter(|time| *time <= DAY)
    }
}

impl Text for Probability {
    const EXPECTED: &'static str = "a probability from `0 %` to `100 %`";

    fn from_text(text: &str) -> Option<Self> {
        let billionths = scaled(text, &[("%", 10_000_000)])?;
        Self::parts_per_billion(u32::try_from(billionths).ok()?).ok()
    }
}

impl Text for Losses {
    const EXPECTED: &'static str = "a probability from `0 %` to `100 %`, or `1 in 64` for every 64th packet";

    fn from_text(text: &str) -> Option<Self> {
        match text.strip_prefix("1 in ") {
            Some(period) => period.parse().ok().map(Self::Every),
            None => Probability::from_text(text).map(Self::Random),
        }
    }
}

/// A multiple of a reference quantity, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multiple(u64);

impl Multiple {
    /// So many millionths.
    pub const fn millionths(n: u64) -> Self {
        Self(n)
    }

    /// This many times `bytes`, rounded down.
    pub fn of_bytes(self, bytes: Bytes) -> Bytes {
        Bytes::new(self.scale(bytes.get()))
    }

    /// This many times `rate`, rounded down.
    pub fn of_rate(self, rate: Rate) -> Rate {
        Rate::bytes_per_sec(self.scale(rate.as_bytes_per_sec()))
    }

    fn scale(self, n: u64) -> u64 {
        u64::try_from(u128::from(n) * u128::from(self.0) / 1_000_000).unwrap_or(u64::MAX)
    }
}

/// What a queue holds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// Multiples of the bandwidth-delay product.
    Bdp(Multiple),
    /// Wire bytes.
    Bytes(Bytes),
    /// Packets.
    Packets(usize),
}

/// As it is read.
impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bdp(Multiple(millionths)) => write!(f, "{} BDP", decimal(*millionths, 1_000_000)),
            Self::Bytes(bytes) => write!(f, "{} B", bytes.get()),
            Self::Packets(packets) => write!(f, "{packets} packets"),
        }
    }
}

impl Text for Buffer {
    const EXPECTED: &'static str = "a buffer such as `4 BDP`, `500 kB` or `100 packets`";

    fn from_text(text: &str) -> Option<Self> {
        if let Some(millionths) = scaled(text, &[("BDP", 1_000_000)]) {
            return Some(Self::Bdp(Multiple(millionths)));
        }
        if let Some(packets) = scaled(text, &[("packets", 1), ("packet", 1)]) {
            return usize::try_from(packets).ok().map(Self::Packets);
        }
        text.parse().ok().map(Self::Bytes)
    }
}

/// How fast an unyielding sender sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// A part of the bottleneck's payload rate.
    Share(Multiple),
    /// UDP payload per second.
    Rate(Rate),
}

impl Text for Pace {
    const EXPECTED: &'static str =
        "a rate such as `95 Mbit/s`, or a part of the bottleneck's payload rate such as `97 %`";

    fn from_text(text: &str) -> Option<Self> {
        match scaled(text, &[("%", 10_000)]) {
            Some(millionths) => (millionths > 0).then_some(Self::Share(Multiple(millionths))),
            None => Rate::from_text(text).map(Self::Rate),
        }
    }
}

/// How much an unyielding sender has in flight at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// As the measured round-trip times demand.
    Measured,
    /// Multiples of the bandwidth-delay product.
    Bdp(Multiple),
    /// UDP payload.
    Bytes(Bytes),
}

impl Text for Window {
    const EXPECTED: &'static str = "a window such as `2 BDP` or `1 MB`, or `measured`";

    fn from_text(text: &str) -> Option<Self> {
        if text == "measured" {
            return Some(Self::Measured);
        }
        if let Some(millionths) = scaled(text, &[("BDP", 1_000_000)]) {
            return (millionths > 0).then_some(Self::Bdp(Multiple(millionths)));
        }
        Bytes::from_text(text).map(Self::Bytes)
    }
}

/// Reads `number unit` with the unit's scale from `units`. `None` where it is neither, or has a part
/// that is not whole at this scale.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(unit_at);
    let unit = unit.trim_start();
    let &(_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || number.ends_with('.') || fraction.len() > MAX_FRACTION_DIGITS {
        return None;
    }
    let mantissa: u128 = format!("{whole}{fraction}").parse().ok()?;
    let tenths = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let product = mantissa.checked_mul(u128::from(scale))?;
    if product % tenths != 0 {
        return None;
    }
    u64::try_from(product / tenths).ok()
}

/// Writes `value / scale` exactly, as quantities are read: `decimal(1_500, 1_000)` is `1.5`.
///
/// # Panics
/// When `scale` is not a power of ten.
pub fn decimal(value: u64, scale: u64) -> String {
    let digits = scale.ilog10() as usize;
    assert_eq!(10u64.pow(scale.ilog10()), scale, "a power of ten");
    let fraction = format!("{:0digits$}", value % scale);
    let fraction = if digits == 0 { "" } else { fraction.trim_end_matches('0') };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction}", value / scale)
}

/// A quantity with more digits is a typo.
const MAX_FRACTION_DIGITS: usize = 9;

const SECOND: u64 = 1_000_000_000;

/// Longer delays and runs are numbers in the wrong unit.
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        assert_eq!(Duration::from_text("0.1 ms"), Some(Duration::from_micros(100)));
        assert_eq!(Duration::from_text("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(Duration::from_text("2 min"), Some(Duration::from_secs(120)));
        assert_eq!(Duration::from_text("0.5 ns"), None);
        for wrong in ["", "5", "ms", "1. ms", ".5 ms", "-1 ms", "1 hour", "1e3 ms", "86401 s", "1 MS"] {
            assert_eq!(Duration::from_text(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn probabilities_end_at_one() {
        assert_eq!(Probability::from_text("0.5 %"), Probability::parts_per_billion(5_000_000).ok());
        assert_eq!(Probability::from_text("100 %"), Some(Probability::ONE));
        for wrong in ["100.1 %", "0.05", "-1 %", "500 %", "99999999999 %"] {
            assert_eq!(Probability::from_text(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn losses_are_random_or_periodic() {
        let every = std::num::NonZeroU32::new(64).map(Losses::Every);
        assert_eq!(Losses::from_text("1 in 64"), every);
        assert_eq!(Losses::from_text("5 %"), Some(Losses::Random(Probability::percent(5))));
        for wrong in ["1 in 0", "1 in", "1 in -2", "2 in 64", "0.05", "1 in 4294967296"] {
            assert_eq!(Losses::from_text(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn buffers_come_in_three_kinds() {
        assert_eq!(Buffer::from_text("0.25 BDP"), Some(Buffer::Bdp(Multiple(250_000))));
        assert_eq!(Buffer::from_text("500 kB"), Some(Buffer::Bytes(Bytes::kb(500))));
        assert_eq!(Buffer::from_text("100 packets"), Some(Buffer::Packets(100)));
        assert_eq!(Buffer::from_text("10 ms"), None);
        for text in ["0.25 BDP", "500 B", "100 packets"] {
            assert_eq!(Buffer::from_text(text).map(|buffer| buffer.to_string()), Some(text.to_owned()));
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (value, scale, text) in
            [(1_500, 1_000, "1.5"), (7, 1, "7"), (0, 1_000, "0"), (1, 1_000_000, "0.000001"), (20, 10, "2")]
        {
            assert_eq!(decimal(value, scale), text);
            assert_eq!(scaled(&format!("{text} x"), &[("x", scale)]), Some(value));
        }
    }
}
