//! The paths of a connection: each has a law of its own.

use std::time::Instant;

use super::{Core, Setup};
use crate::cc::PathStart;
use crate::conn::config::LawKind;
use crate::conn::tap::foreign_plan;
use crate::control::Control;
use crate::signal::PathId;
use crate::units::Bytes;

impl Core {
    /// The connection moves to another path. A rebinding within one address keeps the law, as the
    /// state machine keeps its controller; any other move starts afresh.
    pub(super) fn open_path(&mut self, now: Instant, path: PathId, from: Option<PathId>) {
        if path == self.path {
            return;
        }
        let control = match from {
            Some(from) if from == self.path => self.control.rebound(now),
            _ => new_control(&self.setup, &self.inner, now),
        };
        let old = std::mem::replace(&mut self.control, control);
        // No ACK is reported before a path is validated, and an invalid one is never returned to.
        if self.previous.is_none() || !old.ledger().delivered().is_zero() {
            self.previous = Some((self.path, old));
        }
        self.leave_path(path);
    }

    /// Only the present path has anything to tell: if it is another than we took it for, the state
    /// machine has returned to it because the one after it failed its validation.
    pub(super) fn restore_path(&mut self, now: Instant, path: PathId) {
        if path == self.path {
            return;
        }
        self.control = match self.previous.take() {
            Some((previous, control)) if previous == path => control,
            // It was validated, but left before anything that it carried was acknowledged.
            _ => new_control(&self.setup, &self.inner, now),
        };
        self.leave_path(path);
    }

    fn leave_path(&mut self, next: PathId) {
        self.path = next;
        self.tail.clear();
        self.name = None;
    }
}

/// The control of a new path.
pub(super) fn new_control(setup: &Setup, inner: &quinn_proto::Connection, now: Instant) -> Control {
    let datagram = Bytes::new(inner.current_mtu().into());
    match &setup.law.kind {
        LawKind::Own(factory) => {
            let start = PathStart::new(now, datagram).with_anchor(setup.anchor);
            Control::new(now, factory.build(start), setup.anchor, datagram)
        }
        LawKind::Foreign(foreign) => {
            Control::foreign(now, foreign.name(), foreign_plan(inner, inner.rtt()), setup.anchor, datagram)
        }
    }
}
