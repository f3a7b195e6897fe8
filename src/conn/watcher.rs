//! Keeps an endpoint's outlets up to date: a task of its own, so that no datagram waits for a look-up.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use super::interface::{Outlets, Watch};
use super::shard::Shard;

/// Looks up where every connection leaves whenever links, routes or queueing disciplines have changed, and when
/// a peer has moved. Without the system's notices the outlets stay as they are.
pub(super) async fn watch(shard: Weak<Shard>, outlets: Arc<Outlets>) {
    if let Err(error) = follow(shard, outlets).await {
        tracing::debug!(%error, "changes of interfaces are not noticed");
    }
}

async fn follow(shard: Weak<Shard>, outlets: Arc<Outlets>) -> io::Result<()> {
    let mut notices = Watch::new()?;
    loop {
        let next = next_change(&mut notices, &outlets);
        let change = if outlets.are_fickle() {
            tokio::time::timeout(FICKLE, next).await.unwrap_or(Ok(Change::Anything))?
        } else {
            next.await?
        };
        let Some(shard) = shard.upgrade() else { return Ok(()) };
        if change == Change::Anything {
            tokio::time::sleep(SETTLING).await;
            outlets.forget();
        }
        let outlets = outlets.clone();
        tokio::task::spawn_blocking(move || look_up_all(&shard, &outlets)).await.map_err(io::Error::other)?;
    }
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

fn look_up_all(shard: &Shard, outlets: &Outlets) {
    let connections: Vec<_> = shard.endpoint().connections().cloned().collect();
    for connection in connections {
        let remote = connection.lock().core.inner().remote_address();
        let outlet = outlets.towards(remote);
        connection.lock().set_outlet(outlet);
    }
}

/// Routing daemons and link flaps change many things within moments; one look at the end is enough.
const SETTLING: Duration = Duration::from_millis(20);

/// A radio's bit rate follows the air, and an idle radio's is low: it is looked at as often as this while there
/// are such interfaces in use.
const FICKLE: Duration = Duration::from_secs(1);
