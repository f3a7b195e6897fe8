//! No frame of a peer that knows the keys makes its connection panic, spin, or stay for ever.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod common;
#[path = "../../tests/hostile/established.rs"]
#[allow(dead_code, reason = "the tests use all of it")]
mod established;
#[path = "../../sim/src/host/null_crypto.rs"]
mod null_crypto;

fuzz_target!(|bytes: &[u8]| established::meet(&established::payloads(bytes)));
