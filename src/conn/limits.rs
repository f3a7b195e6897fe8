//! What holds the sender back, and for how long it has.

use std::time::{Duration, Instant};

/// What holds the sender back at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Nothing: it has not tried to send since something happened.
    Nothing,
    /// The pacer, until then.
    Pacing(Instant),
    /// The window is full.
    Window,
    /// Everything that may be sent has been, and writers wait: for the peer to allow more, or for room in a send
    /// window that was set too small for the path.
    FlowControl,
    /// The application has nothing to send.
    Application,
}

/// For how long the sender was held back since the connection began, by what held it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Blocked {
    /// By the pacer, between two departures. At the rate of the law that is nearly all the time.
    pub pacing: Duration,
    /// By a full window.
    pub window: Duration,
    /// By the peer's flow control, or by a send window that was set too small for the path.
    pub flow_control: Duration,
    /// By the application, which had nothing to send.
    pub application: Duration,
}

/// The present limit, and the times of those before it.
#[derive(Debug)]
pub(super) struct Limits {
    present: Limit,
    since: Instant,
    blocked: Blocked,
}

impl Limits {
    /// Nothing holds the sender back as of `now`.
    pub fn new(now: Instant) -> Self {
        Self { present: Limit::Nothing, since: now, blocked: Blocked::default() }
    }

    /// From `now` on it is `limit` that does.
    pub fn set(&mut self, now: Instant, limit: Limit) {
        let lasted = now.saturating_duration_since(self.since);
        match self.present {
            Limit::Nothing => {}
            Limit::Pacing(_) => self.blocked.pacing += lasted,
            Limit::Window => self.blocked.window += lasted,
            Limit::FlowControl => self.blocked.flow_control += lasted,
            Limit::Application => self.blocked.application += lasted,
        }
        // A departure that was planned ahead is later than the present.
        self.since = self.since.max(now);
        self.present = limit;
    }

    pub fn present(&self) -> Limit {
        self.present
    }

    /// Up to the last change.
    pub fn blocked(&self) -> Blocked {
        self.blocked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::{ms, t0};

    #[test]
    fn each_limit_is_charged_for_its_time() {
        let mut limits = Limits::new(t0());
        for (at, limit) in [
            (1, Limit::Pacing(t0() + ms(3))),
            (3, Limit::Nothing),
            (4, Limit::Window),
            (9, Limit::Application),
            (20, Limit::FlowControl),
            (50, Limit::Nothing),
        ] {
            limits.set(t0() + ms(at), limit);
        }
        let blocked = limits.blocked();
        assert_eq!((blocked.pacing, blocked.window), (ms(2), ms(5)));
        assert_eq!((blocked.application, blocked.flow_control), (ms(11), ms(30)));
    }

    #[test]
    fn what_was_planned_ahead_is_charged_once() {
        let mut limits = Limits::new(t0());
        limits.set(t0() + ms(2), Limit::Window);
        limits.set(t0() + ms(1), Limit::Window);
        limits.set(t0() + ms(5), Limit::Nothing);
        assert_eq!(limits.blocked().window, ms(3));
    }
}
