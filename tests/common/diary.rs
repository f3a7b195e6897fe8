//! A law that keeps a diary of what it is told, under a plan that the test sets.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use warprate::cc::{PathStart, RateLaw};
use warprate::conn::Law;
use warprate::signal::{Ack, Loss, Plan, Sent, Snapshot, Undo, Verdict};
use warprate::units::{Bytes, Rate};

/// One thing that a law was told.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "a diary is short")]
pub enum Told {
    Sent(Sent),
    Ack(Ack),
    Loss { now: Instant, packets: Vec<Snapshot>, bytes: Bytes, in_flight: Bytes },
    Verdict(Verdict),
    Undo(Undo),
    Anchor(Rate),
    Mtu(Bytes),
}

/// The diary of all laws that one connection made, and the plan that they answer.
#[derive(Debug, Clone)]
pub struct Diary {
    pages: Arc<Mutex<Vec<Page>>>,
    plan: Arc<Mutex<Plan>>,
    laws: Arc<Mutex<u32>>,
}

/// What was told, and which law it was told: they are numbered in the order in which they were first
/// told something, since a law may also be made just to ask what it takes.
#[derive(Debug, Clone)]
pub struct Page {
    pub law: u32,
    /// How many ACKs this law had been told before. A clone counts on.
    pub acks_before: u64,
    pub told: Told,
}

#[derive(Debug, Clone)]
struct Writer {
    diary: Diary,
    number: Option<u32>,
    acks: u64,
}

impl Diary {
    pub fn new(rate: Rate, window: Bytes) -> Self {
        Self {
            pages: Arc::default(),
            plan: Arc::new(Mutex::new(Plan::new(rate, window))),
            laws: Arc::default(),
        }
    }

    /// A law for a connection that writes into this diary.
    pub fn law(&self) -> Law {
        let diary = self.clone();
        Law::custom(move |_: PathStart| Writer { diary: diary.clone(), number: None, acks: 0 }).paced()
    }

    /// The plan from the next event on.
    pub fn set_plan(&self, rate: Rate, window: Bytes) {
        *lock(&self.plan) = Plan::new(rate, window);
    }

    /// The plan lets a flight's last datagrams leave twice.
    pub fn set_copies(&self) {
        lock(&self.plan).copies = true;
    }

    /// How many laws were told something.
    pub fn laws(&self) -> u32 {
        *lock(&self.laws)
    }

    pub fn pages(&self) -> Vec<Page> {
        lock(&self.pages).clone()
    }

    pub fn clear(&self) {
        lock(&self.pages).clear();
    }

    pub fn sent(&self) -> Vec<Sent> {
        self.pick(|told| match told {
            Told::Sent(sent) => Some(*sent),
            _ => None,
        })
    }

    pub fn acks(&self) -> Vec<Ack> {
        self.pick(|told| match told {
            Told::Ack(ack) => Some(*ack),
            _ => None,
        })
    }

    pub fn lost(&self) -> Vec<Snapshot> {
        let losses = self.pick(|told| match told {
            Told::Loss { packets, .. } => Some(packets.clone()),
            _ => None,
        });
        losses.into_iter().flatten().collect()
    }

    pub fn verdicts(&self) -> Vec<Verdict> {
        self.pick(|told| match told {
            Told::Verdict(verdict) => Some(*verdict),
            _ => None,
        })
    }

    pub fn undone(&self) -> Vec<Snapshot> {
        self.pick(|told| match told {
            Told::Undo(undo) => Some(undo.packet),
            _ => None,
        })
    }

    fn pick<T>(&self, which: impl Fn(&Told) -> Option<T>) -> Vec<T> {
        lock(&self.pages).iter().filter_map(|page| which(&page.told)).collect()
    }
}

impl Writer {
    fn write(&mut self, told: Told) {
        let law = *self.number.get_or_insert_with(|| {
            let mut laws = lock(&self.diary.laws);
            *laws += 1;
            *laws - 1
        });
        lock(&self.diary.pages).push(Page { law, acks_before: self.acks, told });
    }
}

impl RateLaw for Writer {
    fn on_sent(&mut self, sent: &Sent) {
        self.write(Told::Sent(*sent));
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.write(Told::Ack(*ack));
        self.acks += 1;
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.write(Told::Loss {
            now: loss.now,
            packets: loss.packets.to_vec(),
            bytes: loss.bytes,
            in_flight: loss.in_flight,
        });
    }

    fn on_verdict(&mut self, verdict: &Verdict) {
        self.write(Told::Verdict(*verdict));
    }

    fn on_undo(&mut self, undo: &Undo) {
        self.write(Told::Undo(*undo));
    }

    fn on_anchor(&mut self, anchor: Rate) {
        self.write(Told::Anchor(anchor));
    }

    fn on_mtu(&mut self, datagram: Bytes) {
        self.write(Told::Mtu(datagram));
    }

    fn plan(&self, _now: Instant) -> Plan {
        *lock(&self.diary.plan)
    }

    fn state(&self) -> &'static str {
        "diary"
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no test thread panicked while it held the lock")
}
