//! No request of hq-interop makes the server panic, or leads out of its directory.
#![no_main]

use std::path::Component;

use libfuzzer_sys::fuzz_target;

#[path = "../../examples/bulk_download/hq/request.rs"]
#[allow(dead_code, reason = "the server's part")]
mod request;

fuzz_target!(|bytes: &[u8]| {
    let Ok(path) = request::requested(bytes) else { return };
    assert!(path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)));
});
