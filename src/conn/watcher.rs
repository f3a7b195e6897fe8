//! Keeps an endpoint's outlets up to date: a task of its own, so that no datagram waits for a look-up.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::interface::{Outlets, Watch};
use super::shard::Shard;

/// Looks up where every connection leaves whenever links, routes or queueing disciplines have changed.
/// Without the system's notices the outlets stay as they are.
pub(super) async fn watch(shard: Weak<Shard>, outlets: Arc<Outlets>) {
    if let Err(error) = follow(shard, outlets).await {
        tracing::debug!(%error, "changes of interfaces are not noticed");
    }
}

async fn follow(shard: Weak<Shard>, outlets: Arc<Outlets>) -> io::Result<()> {
    let mut notices = Watch::new()?;
    loop {
        poll_fn(|cx| notices.poll_changed(cx)).await?;
        tokio::time::sleep(SETTLING).await;
        let Some(shard) = shard.upgrade() else { return Ok(()) };
        let outlets = outlets.clone();
        tokio::task::spawn_blocking(move || look_up_all(&shard, &outlets)).await.map_err(io::Error::other)?;
    }
}

fn look_up_all(shard: &Shard, outlets: &Outlets) {
    outlets.forget();
    let connections: Vec<_> = shard.endpoint().connections().cloned().collect();
    for connection in connections {
        let remote = connection.lock().core.inner().remote_address();
        let outlet = outlets.towards(remote);
        connection.lock().set_outlet(outlet);
    }
}

/// Routing daemons and link flaps change many things within moments; one look at the end is enough.
const SETTLING: Duration = Duration::from_millis(20);
