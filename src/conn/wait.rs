//! Waiting for what another task changes behind a lock.

use std::pin::pin;

use tokio::sync::Notify;

/// Asks `ready` until it has an answer, again after each notification of all of `events`' waiters.
///
/// A change between the question and the wait is not missed, and a future that is dropped leaves nothing
/// behind.
pub(super) async fn until<T>(events: &Notify, mut ready: impl FnMut() -> Option<T>) -> T {
    loop {
        let mut notified = pin!(events.notified());
        notified.as_mut().enable();
        if let Some(value) = ready() {
            return value;
        }
        notified.await;
    }
}
