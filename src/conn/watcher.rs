//! Keeps an endpoint's outlets up to date: a task of its own, so that no datagram waits for a look-up.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use super::interface::{Outlets, Watch};
use super::shard::Shard;

/// Calls `look_up`, which may block, whenever links, routes or queueing disciplines have changed, and when a peer
/// has moved; until it says that nobody is there any more. Without the system's notices the outlets stay as they are.
pub(super) async fn watch(outlets: Arc<Outlets>, look_up: impl Fn(&Outlets) -> bool + Send + Sync + 'static) {
    if let Err(error) = follow(outlets, Arc::new(look_up)).await {
        tracing::debug!(%error, "changes of interfaces are not noticed");
    }
}

async fn follow(
    outlets: Arc<Outlets>,
    look_up: Arc<impl Fn(&Outlets) -> bool + Send + Sync + 'static>,
) -> io::Result<()> {
    let mut notices = Watch::new()?;
    loop {
        let next = next_change(&mut notices, &outlets);
        let change = if outlets.are_fickle() {
            tokio::time::timeout(FICKLE, next).await.unwrap_or(Ok(Change::Anything))?
        } else {
            next.await?
        };
        if change == Change::Anything {
            tokio::time::sleep(SETTLING).await;
            outlets.forget();
        }
        let (outlets, look_up) = (outlets.clone(), look_up.clone());
        let look_up = tokio::task::spawn_blocking(move || look_up(&outlets));
        if !look_up.await.map_err(io::Error::other)? {
            return Ok(());
        }
    }
}

/// Looks up where every connection of a shard leaves; whether the shard is there still.
pub(super) fn look_up_connections(shard: &Weak<Shard>, outlets: &Outlets) -> bool {
    let Some(shard) = shard.upgrade() else { return false };
    let connections: Vec<_> = shard.endpoint().connections().cloned().collect();
    for connection in connections {
        let remote = connection.lock().core.inner().remote_address();
        let outlet = outlets.towards(remote);
        connection.lock().set_outlet(outlet);
    }
    true
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Of a link, a route or a queue: what is known of them is worth nothing any more.
    Anything,
    /// Of a peer's address.
    Peer,
}

async fn next_change(notices: &mut Watch, outlets: &Outlets) -> io::Result<Change> {
    let mut moved = pin!(outlets.moved.notified());
    poll_fn(|cx| match (notices.poll_changed(cx), moved.as_mut().poll(cx)) {
        (Poll::Ready(noticed), _) => Poll::Ready(noticed.map(|()| Change::Anything)),
        (Poll::Pending, Poll::Ready(())) => Poll::Ready(Ok(Change::Peer)),
        (Poll::Pending, Poll::Pending) => Poll::Pending,
    })
    .await
}

/// Routing daemons and link flaps change many things within moments; one look at the end is enough.
const SETTLING: Duration = Duration::from_millis(20);

/// A radio's bit rate follows the air, and an idle radio's is low: it is looked at as often as this while there
/// are such interfaces in use.
const FICKLE: Duration = Duration::from_secs(1);
