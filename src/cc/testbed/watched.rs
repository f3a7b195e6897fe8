//! A law under observation.
#![cfg(test)]

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use crate::cc::RateLaw;
use crate::signal::{Ack, Loss, Plan, Sent, Undo, Verdict, VerdictKind};
use crate::test_clock::t0;
use crate::units::{Bytes, Rate};

/// A law shared between `Control` and the test, which notes its states.
#[derive(Debug)]
pub(super) struct Watched<L>(Arc<Mutex<Seen<L>>>);

#[derive(Debug)]
pub(super) struct Seen<L> {
    pub law: L,
    pub trace: Vec<(Instant, &'static str)>,
    pub steps: Vec<Step>,
}

/// What a law was told when it changed its pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Sent,
    Ack,
    Loss,
    Verdict(VerdictKind),
    Undo,
    Deadline,
}

/// A change of pace.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub cause: Cause,
    pub to: Rate,
}

impl<L> Clone for Watched<L> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<L: RateLaw> Watched<L> {
    pub fn new(law: L) -> Self {
        let trace = vec![(t0(), law.state())];
        Self(Arc::new(Mutex::new(Seen { law, trace, steps: Vec::new() })))
    }

    pub fn lock(&self) -> MutexGuard<'_, Seen<L>> {
        self.0.lock().expect("no test panics inside a law and goes on")
    }

    fn tell(&self, now: Instant, cause: Cause, event: impl FnOnce(&mut L)) {
        let mut seen = self.lock();
        let from = seen.law.plan(now).rate;
        event(&mut seen.law);
        let (state, to) = (seen.law.state(), seen.law.plan(now).rate);
        if from != to {
            seen.steps.push(Step { cause, to });
        }
        if seen.trace.last().is_none_or(|(_, last)| *last != state) {
            seen.trace.push((now, state));
        }
    }
}

impl<L: RateLaw + 'static> RateLaw for Watched<L> {
    fn on_sent(&mut self, sent: &Sent) {
        self.tell(sent.now, Cause::Sent, |law| law.on_sent(sent));
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.tell(ack.now, Cause::Ack, |law| law.on_ack(ack));
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.tell(loss.now, Cause::Loss, |law| law.on_loss(loss));
    }

    fn on_undo(&mut self, undo: &Undo) {
        self.tell(undo.now, Cause::Undo, |law| law.on_undo(undo));
    }

    fn on_verdict(&mut self, verdict: &Verdict) {
        self.tell(verdict.now, Cause::Verdict(verdict.kind), |law| law.on_verdict(verdict));
    }

    fn on_deadline(&mut self, now: Instant) {
        self.tell(now, Cause::Deadline, |law| law.on_deadline(now));
    }

    fn on_mtu(&mut self, datagram: Bytes) {
        self.lock().law.on_mtu(datagram);
    }

    fn plan(&self, now: Instant) -> Plan {
        self.lock().law.plan(now)
    }

    fn state(&self) -> &'static str {
        self.lock().law.state()
    }
}
