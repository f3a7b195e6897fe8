//! Systems of whose interfaces we know nothing.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use super::Interface;

/// How an interface is called.
pub enum Key<'a> {
    Name(&'a str),
    Index(u32),
}

/// No interface is known.
pub fn look_up(_key: Key<'_>) -> io::Result<Option<Interface>> {
    Ok(None)
}

/// No route is known.
pub fn route(_remote: SocketAddr, _local: Option<IpAddr>) -> io::Result<u32> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "routes are read on Linux only"))
}

/// Nothing is ever told.
pub struct Watch;

impl Watch {
    pub fn new() -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "interfaces are watched on Linux only"))
    }

    pub fn poll_changed(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}
