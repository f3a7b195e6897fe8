//! A UDP relay that puts two [`Link`](crate::Link)s between real programs, without privileges.
//!
//! *What it decides:* nothing that the links do not; it holds datagrams until their time. *In:*
//! datagrams from clients (sent to [`UdpRelay::local_addr`]) and from the server. *Out:* the same
//! datagrams with the same ECN codepoints, later or never, and [`RelayStats`]. *May import:* all of
//! this crate; it alone reads the clock.
//!
//! ```text
//! client ──▶ listening socket ─▶ to_server: Link ─▶ departures ─▶ one upstream socket per client ──▶ server
//! client ◀── listening socket ◀─ departures ◀─ to_client: Link ◀─ (the same upstream socket)   ◀── server
//! ```
//! All clients share the two links, as users share a bottleneck, and the server sees each of them
//! at an address of its own. One operating system thread does everything, in [`worker`].
//!
//! How exact it is: a datagram never leaves early; how late it leaves is measured in
//! [`DirectionStats::lateness`]. The links see a datagram when the relay's thread reads it, some tens
//! of microseconds after the kernel got it, and what came in during a pause of the thread as one
//! burst: figures from a run whose lateness reaches the buffer's depth say more about the machine
//! than about the path. What the kernel drops is counted apart from what the links drop.

mod departures;
mod socket;
mod stats;
mod worker;

use std::io::{self, PipeWriter};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

pub use stats::{DirectionStats, Lateness, RelayStats};

use crate::path::PathProfile;
use socket::Socket;
use stats::Shared;
use worker::Worker;

/// A running relay; dropping it stops it.
#[derive(Debug)]
pub struct UdpRelay {
    local_addr: SocketAddr,
    shared: Arc<Shared>,
    /// The thread stops when this end of the pipe closes.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl UdpRelay {
    /// Starts a relay from `listen` (port 0 picks a free one) to `server`: what clients send
    /// passes `path.forward`, what the server sends passes `path.reverse`.
    ///
    /// The relay holds what the links hold: at most their buffers and what their delays store.
    /// Wire bytes are counted for the IP version of `server`. The seed decides which datagrams are
    /// lost and how jitter falls, by the order in which they reach the relay. The schedules of the links
    /// and their slots count from this call.
    ///
    /// # Errors
    /// When `server` cannot be sent to, or a socket or the thread cannot be had.
    pub fn start(
        listen: SocketAddr,
        server: SocketAddr,
        path: &PathProfile,
        seed: u64,
    ) -> Result<Self, RelayError> {
        if server.port() == 0 || server.ip().is_unspecified() {
            return Err(RelayError::Server { server });
        }
        let bind_error = |source| RelayError::Bind { listen, source };
        let socket = Arc::new(Socket::bind(listen).map_err(bind_error)?);
        let local_addr = socket.local_addr().map_err(bind_error)?;
        let shared = Arc::new(Shared::new(socket.inode()));
        let (stopped, stop) = io::pipe().map_err(|source| RelayError::Thread { source })?;
        let worker = Worker::new(stopped, socket, server, path.links(seed), Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("warplink-relay".to_owned())
            .spawn(move || worker.run())
            .map_err(|source| RelayError::Thread { source })?;
        Ok(Self { local_addr, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Where clients send to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// What has happened so far.
    pub fn stats(&self) -> RelayStats {
        self.shared.snapshot()
    }
}

/// Stops the thread and waits for it; datagrams still on their way are dropped.
impl Drop for UdpRelay {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; a second one while dropping would abort.
            let _ = thread.join();
        }
    }
}

/// Why a relay did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The server's address is not one that datagrams can be sent to.
    #[error("cannot relay to {server}: a server needs an address and a port")]
    Server {
        /// The address that was given.
        server: SocketAddr,
    },
    /// The listening socket could not be had.
    #[error("cannot bind relay on {listen}: {source}")]
    Bind {
        /// Where the relay was to listen.
        listen: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// The relay's thread, or the pipe that stops it, could not be had.
    #[error("cannot start the relay's thread: {source}")]
    Thread {
        /// What the operating system said.
        source: io::Error,
    },
}
