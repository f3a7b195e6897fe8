//! No sequence of ACK frames makes the ledger, the classifier or a law panic, or lose count.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/hostile/feedback.rs"]
mod feedback;

fuzz_target!(|steps: Vec<feedback::Step>| feedback::feed(&steps));
