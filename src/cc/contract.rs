//! What every law owes, under random operations: no panic, a positive rate, a window of two datagrams,
//! the same plans for the same events, and no growth while the application limits a window law.
//!
//! To add a law, add its line to [`LAWS`].
#![cfg(test)]

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{Bbr3, Cubic, Fixed, NewReno, PathStart, RateLaw};
use crate::loss::Ledger;
use crate::signal::{Plan, Purpose, Snapshot, Undo, Verdict, VerdictKind};
use crate::test_clock::{ms, t0};
use crate::units::{Bytes, Rate};

/// How a law bounds what is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// By a window that grows with what is acknowledged.
    Window,
    /// By a model of the path, which limited samples may feed as well.
    Model,
}

struct Entry {
    name: &'static str,
    kind: Kind,
    build: fn(PathStart, u64) -> Box<dyn RateLaw>,
}

/// The laws under contract.
const LAWS: &[Entry] = &[
    Entry {
        name: "fixed",
        kind: Kind::Window,
        build: |_, _| Box::new(Fixed::new(Rate::mbps(10), Bytes::mb(1))),
    },
    Entry { name: "newreno", kind: Kind::Window, build: |start, _| Box::new(NewReno::new(start)) },
    Entry { name: "cubic", kind: Kind::Window, build: |start, _| Box::new(Cubic::new(start)) },
    Entry { name: "bbr3", kind: Kind::Model, build: |start, seed| Box::new(Bbr3::new(start, seed)) },
    Entry {
        name: "bbr3 with Linux's ECN",
        kind: Kind::Model,
        build: |start, seed| Box::new(Bbr3::new(start, seed).with_linux_ecn()),
    },
];

/// One thing that happens on a path.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Wait(Duration),
    Send(u8),
    /// Acknowledges so many of the oldest outstanding packets after skipping some.
    Ack {
        skip: u8,
        count: u8,
    },
    /// Declares so many of the oldest outstanding packets lost.
    Lose {
        count: u8,
        persistent: bool,
    },
    /// The packet declared lost last turns out to have arrived.
    Undo,
    Mark,
    AppLimited,
    Mtu(u16),
    Deadline,
}

/// Silences last up to 30 s: a connection that hears nothing for longer is given up.
fn operation() -> impl Strategy<Value = Operation> {
    let wait = prop_oneof![
        4 => (0u64..2_000_000).prop_map(Duration::from_nanos),
        4 => (0u64..400).prop_map(Duration::from_millis),
        1 => (0u64..30).prop_map(Duration::from_secs),
    ];
    prop_oneof![
        6 => wait.prop_map(Operation::Wait),
        8 => (1u8..40).prop_map(Operation::Send),
        8 => (0u8..4, 1u8..40).prop_map(|(skip, count)| Operation::Ack { skip, count }),
        2 => (1u8..20, any::<bool>()).prop_map(|(count, often)| Operation::Lose { count, persistent: often }),
        1 => Just(Operation::Undo),
        1 => Just(Operation::Mark),
        1 => Just(Operation::AppLimited),
        1 => (1200u16..9000).prop_map(Operation::Mtu),
        1 => Just(Operation::Deadline),
    ]
}

/// A law and its ledger, without a path: the operations are the path.
#[derive(Clone)]
struct Stand {
    law: Box<dyn RateLaw>,
    ledger: Ledger,
    now: Instant,
    datagram: Bytes,
    outstanding: Vec<(Instant, Bytes)>,
    lost: Vec<Snapshot>,
    newest_was_limited: bool,
}

impl Stand {
    fn new(law: Box<dyn RateLaw>) -> Self {
        Self {
            law,
            ledger: Ledger::new(t0()),
            now: t0(),
            datagram: Bytes::new(1452),
            outstanding: Vec::new(),
            lost: Vec::new(),
            newest_was_limited: false,
        }
    }

    fn apply(&mut self, operation: Operation) {
        self.now += Duration::from_nanos(1);
        match operation {
            Operation::Wait(time) => self.now += time,
            Operation::Send(count) => (0..count).for_each(|_| self.send()),
            Operation::Ack { skip, count } => self.ack(skip.into(), count.into()),
            Operation::Lose { count, persistent } => self.lose(count.into(), persistent),
            Operation::Undo => {
                if let Some(packet) = self.lost.pop() {
                    self.law.on_undo(&Undo { now: self.now, packet });
                }
            }
            Operation::Mark => self.law.on_verdict(&Verdict {
                now: self.now,
                kind: VerdictKind::Mark,
                newest: self.now,
                packets: 1,
                bytes: Bytes::ZERO,
                queue: Duration::ZERO,
            }),
            Operation::AppLimited => self.ledger.mark_app_limited(),
            Operation::Mtu(size) => {
                self.datagram = Bytes::new(size.into());
                self.law.on_mtu(self.datagram);
            }
            Operation::Deadline => self.law.on_deadline(self.now),
        }
    }

    fn send(&mut self) {
        self.now += Duration::from_nanos(1);
        self.outstanding.push((self.now, self.datagram));
        if let Some(sent) = self.ledger.on_sent(self.now, self.datagram, Purpose::Data, None) {
            self.law.on_sent(&sent);
        }
    }

    fn ack(&mut self, skip: usize, count: usize) {
        let from = skip.min(self.outstanding.len());
        let to = (from + count).min(self.outstanding.len());
        for (sent, bytes) in self.outstanding.drain(from..to) {
            self.ledger.on_acked(sent, bytes);
        }
        let in_flight = self.outstanding.iter().map(|&(_, bytes)| bytes).sum();
        if let Some(ack) = self.ledger.on_ack_end(self.now, in_flight) {
            self.newest_was_limited = ack.newest.app_limited;
            self.law.on_ack(&ack);
        }
    }

    fn lose(&mut self, count: usize, persistent: bool) {
        let lost: Vec<_> = self.outstanding.drain(..count.min(self.outstanding.len())).collect();
        let Some(&(newest, _)) = lost.last() else { return };
        let bytes = lost.iter().map(|&(_, bytes)| bytes).sum();
        let loss = self.ledger.on_lost(self.now, newest, bytes, persistent);
        self.lost.extend(loss.packets);
        self.law.on_loss(&loss);
    }

    fn plan(&self) -> Plan {
        self.law.plan(self.now)
    }
}

fn start() -> PathStart {
    PathStart::new(t0(), Bytes::new(1452))
}

proptest! {
    #[test]
    fn every_plan_lets_the_flow_move(ops in prop::collection::vec(operation(), 1..300), seed: u64) {
        for law in LAWS {
            let mut stand = Stand::new((law.build)(start(), seed));
            for &op in &ops {
                stand.apply(op);
                let plan = stand.plan();
                prop_assert!(!plan.rate.is_zero(), "{}: no rate after {op:?}", law.name);
                let least = if law.name == "fixed" { Bytes::new(2944) } else { stand.datagram.times(2) };
                prop_assert!(plan.window >= least, "{}: {plan:?} after {op:?}", law.name);
                prop_assert!(plan.quantum >= stand.datagram, "{}: {plan:?} after {op:?}", law.name);
            }
        }
    }

    #[test]
    fn the_same_events_give_the_same_plans(ops in prop::collection::vec(operation(), 2..200), seed: u64) {
        for law in LAWS {
            let mut stand = Stand::new((law.build)(start(), seed));
            let (before, after) = ops.split_at(ops.len() / 2);
            before.iter().for_each(|&op| stand.apply(op));
            let mut copy = stand.clone();
            for &op in after {
                stand.apply(op);
                copy.apply(op);
                prop_assert_eq!(stand.plan(), copy.plan(), "{} after {:?}", law.name, op);
                prop_assert_eq!(stand.law.state(), copy.law.state());
            }
        }
    }

    #[test]
    fn a_limited_application_earns_a_window_law_nothing(
        ops in prop::collection::vec(operation(), 0..100),
        rounds in 1u8..30,
    ) {
        for law in LAWS.iter().filter(|law| law.kind == Kind::Window) {
            let mut stand = Stand::new((law.build)(start(), 1));
            ops.iter().for_each(|&op| stand.apply(op));
            // All that is outstanding leaves, so that what follows is the application's doing alone.
            stand.ack(0, usize::MAX / 2);
            for round in 0..rounds {
                stand.apply(Operation::AppLimited);
                stand.apply(Operation::Send(1));
                stand.apply(Operation::Wait(ms(20)));
                let before = stand.plan().window;
                stand.apply(Operation::Ack { skip: 0, count: 1 });
                prop_assert!(stand.newest_was_limited);
                // The window may have been in full use until two round trips ago.
                prop_assert!(round < 2 || stand.plan().window <= before, "{}", law.name);
            }
        }
    }
}

#[test]
fn a_law_is_valid_before_anything_happens() {
    for law in LAWS {
        let plan = (law.build)(start(), 0).plan(t0());
        assert!(!plan.rate.is_zero() && plan.window >= Bytes::new(2904), "{}: {plan:?}", law.name);
    }
}
