//! What the tests of the sans-IO core share.
#![allow(dead_code, reason = "the targets use a part of it")]

#[path = "../../../tests/common/pair.rs"]
pub mod pair;
#[path = "../../../tests/common/tls.rs"]
mod tls;

pub use tls::{tls, tls_made_once, tls_of_two_servers};
