//! The clock. Nothing else in the library reads one.

use std::time::Instant;

/// The present.
pub(super) fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the tokio side is where `now` comes from")]
    Instant::now()
}
