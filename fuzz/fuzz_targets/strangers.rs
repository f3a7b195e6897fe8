//! No datagram of a stranger makes an endpoint panic, or ends another's connection.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod common;
#[path = "../../tests/hostile/strangers.rs"]
mod strangers;

fuzz_target!(|strangers: Vec<strangers::Stranger>| strangers::meet(&strangers));
