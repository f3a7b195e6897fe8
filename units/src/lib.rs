//! Units as types: [`Rate`], [`Bytes`] and [`Gain`], with all their arithmetic and rounding.
//!
//! *What it decides:* how quantities combine and which way they round. *In and out:* integers; no
//! floating point, so a result is the same on every machine. *May import:* nothing.
//!
//! Only what physics allows is implemented:
//!
//! | expression         | gives      | rounding |
//! |--------------------|------------|----------|
//! | `Bytes / Duration` | `Rate`     | down     |
//! | `Rate * Duration`  | `Bytes`    | down     |
//! | `Bytes / Rate`     | `Duration` | **up**: a sender that waits this long is never early |
//! | `Rate * Gain`, `Bytes * Gain` | same unit | down |
//!
//! Intermediate values are 128 bits wide and results saturate at the ends of their type, so no
//! operation panics or wraps. A zero rate means *never*: `Bytes / Rate::ZERO == Duration::MAX`
//! (except for zero bytes, which take no time at all).
//!
//! The crate stands below both the library and the link model because both speak of rates, and two
//! `Rate` types that differ by a factor of eight are the classic bug of this field.
#![forbid(unsafe_code)]

mod bytes;
mod gain;
mod parse;
mod rate;

pub use bytes::Bytes;
pub use gain::Gain;
pub use parse::ParseUnitError;
pub use rate::Rate;

/// Nanoseconds in a second, the resolution of [`std::time::Duration`].
const NANOS_PER_SEC: u128 = 1_000_000_000;

/// Narrows a 128-bit intermediate to 64 bits, saturating.
fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// The duration of `nanos` nanoseconds, [`std::time::Duration::MAX`] when it does not fit.
fn duration_from_nanos(nanos: u128) -> std::time::Duration {
    match u64::try_from(nanos / NANOS_PER_SEC) {
        Ok(secs) => std::time::Duration::new(secs, (nanos % NANOS_PER_SEC) as u32),
        Err(_) => std::time::Duration::MAX,
    }
}
