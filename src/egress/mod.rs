//! "Whose turn?" The connections of an endpoint share its interfaces.
//!
//! *What it decides:* which connection may send next, and that all of those on one interface together
//! never exceed its anchor. *In:* who has something to send, and what left. *Out:* a [`Turn`].
//! *May import:* `units` and `signal`.
//!
//! Plain round robin: a flow that wants to send joins the end of its interface's line, sends one batch, and
//! joins again; interfaces take turns too. The per-flow fair queueing discipline takes this place later.
//!
//! Where the kernel releases datagrams at their time, batches are handed over up to a *lead* before the
//! interface is free for them, and told when it will be.

mod deadlines;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub use deadlines::Deadlines;

use crate::units::{Bytes, Rate};

/// Flow key: the caller's name of a connection.
pub type Flow = usize;

/// The caller's name of an interface. Flows that were not [assigned](Egress::assign) are on number 0.
pub type LinkId = u32;

/// Round robin over flows, under one aggregate rate per interface.
#[derive(Debug)]
pub struct Egress {
    links: Vec<Link>,
    /// Place in `links`, by flow.
    link_of: Vec<usize>,
    /// Whether a flow stands in line, by flow.
    in_line: Vec<bool>,
    /// Place of the link that is asked first.
    first: usize,
}

#[derive(Debug)]
struct Link {
    id: LinkId,
    anchor: Rate,
    lead: Duration,
    /// When the interface will have sent all that was handed to it.
    free_at: Option<Instant>,
    line: VecDeque<Flow>,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// This flow may send one batch.
    Send {
        /// The flow.
        flow: Flow,
        /// When the interface is free for it: now, or later within the lead.
        at: Instant,
    },
    /// The interface is busy; ask again then.
    Busy(Instant),
    /// Nobody wants to send.
    Idle,
}

impl Egress {
    /// No flows. Link 0 has the line rate `anchor`, and no lead.
    pub fn new(anchor: Rate) -> Self {
        let link = Link { id: 0, anchor, lead: Duration::ZERO, free_at: None, line: VecDeque::new() };
        Self { links: vec![link], link_of: Vec::new(), in_line: Vec::new(), first: 0 }
    }

    /// `flow` leaves by the interface `id`, whose line rate is `anchor` and which takes batches `lead`
    /// before their time.
    pub fn assign(&mut self, flow: Flow, id: LinkId, anchor: Rate, lead: Duration) {
        self.make_room(flow);
        let place = self.links.iter().position(|link| link.id == id).unwrap_or_else(|| {
            self.links.push(Link { id, anchor, lead, free_at: None, line: VecDeque::new() });
            self.links.len() - 1
        });
        self.links[place].anchor = anchor;
        self.links[place].lead = lead;
        if place != self.link_of[flow] {
            let waits = self.in_line[flow];
            self.leave(flow);
            self.link_of[flow] = place;
            if waits {
                self.join(flow);
            }
        }
    }

    /// The longest batch that `flow` may hand over at once, so that no other waits long for its turn:
    /// 250 us of the line, at least one datagram and at most a UDP GSO batch.
    pub fn longest_batch(&self, flow: Flow) -> Bytes {
        (self.link(flow).anchor * LONGEST_TURN).clamp(SMALLEST_BATCH, LARGEST_BATCH)
    }

    /// `flow` has, or may have, something to send. Joins the line once however often it is said.
    pub fn join(&mut self, flow: Flow) {
        self.make_room(flow);
        if !std::mem::replace(&mut self.in_line[flow], true) {
            self.links[self.link_of[flow]].line.push_back(flow);
        }
    }

    /// `flow` has ended.
    pub fn leave(&mut self, flow: Flow) {
        if self.in_line.get(flow).is_some_and(|&waits| waits) {
            self.in_line[flow] = false;
            self.links[self.link_of[flow]].line.retain(|&other| other != flow);
        }
    }

    /// Whose turn it is; that flow leaves the line.
    pub fn turn(&mut self, now: Instant) -> Turn {
        let mut answer = Turn::Idle;
        let places = (self.first..self.links.len()).chain(0..self.first);
        for place in places {
            let link = &mut self.links[place];
            let Some(&flow) = link.line.front() else { continue };
            let at = link.free_at.map_or(now, |free_at| free_at.max(now));
            if at <= now + link.lead {
                link.line.pop_front();
                self.in_line[flow] = false;
                self.first = (place + 1) % self.links.len();
                return Turn::Send { flow, at };
            }
            // Half the lead later a batch of turns is possible at once, and half is left to be late in.
            let again = at - link.lead / 2;
            answer = match answer {
                Turn::Busy(sooner) => Turn::Busy(sooner.min(again)),
                _ => Turn::Busy(again),
            };
        }
        answer
    }

    /// Books what was handed over, acknowledgements included: they take the interface's time too. Answers
    /// to strangers have no flow, and are booked on link 0.
    ///
    /// A batch is booked when it is handed over, not when it is released: the interface's time until then
    /// is for the others. So the sum keeps to the anchor over any time that is long against the lead, and
    /// within it the interface's own queue does.
    pub fn on_sent(&mut self, flow: Option<Flow>, now: Instant, bytes: Bytes) {
        let place = flow.map_or(0, |flow| self.link_of.get(flow).copied().unwrap_or(0));
        let link = &mut self.links[place];
        let start = link.free_at.map_or(now, |free_at| free_at.max(now));
        link.free_at = Some(start + (bytes / link.anchor).min(LONGEST_WAIT));
    }

    fn link(&self, flow: Flow) -> &Link {
        &self.links[self.link_of.get(flow).copied().unwrap_or(0)]
    }

    fn make_room(&mut self, flow: Flow) {
        if self.in_line.len() <= flow {
            self.in_line.resize(flow + 1, false);
            self.link_of.resize(flow + 1, 0);
        }
    }
}

/// Keeps instants representable at rates near zero.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// As long as a pacer's burst.
const LONGEST_TURN: Duration = Duration::from_micros(250);

/// One datagram of any usual size.
const SMALLEST_BATCH: Bytes = Bytes::new(1500);

/// The largest UDP payload over IPv4.
const LARGEST_BATCH: Bytes = Bytes::new(65_507);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::{t0, us};

    #[test]
    fn flows_take_turns() {
        let mut egress = Egress::new(Rate::MAX);
        for flow in [0, 1, 2, 1] {
            egress.join(flow);
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            let Turn::Send { flow, .. } = egress.turn(t0()) else { panic!("three flows wait") };
            order.push(flow);
            egress.join(flow);
        }
        assert_eq!(order, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn all_flows_together_keep_to_the_anchor() {
        // 1250 bytes at 10 Mbit/s are a millisecond.
        let mut egress = Egress::new(Rate::mbps(10));
        egress.join(0);
        egress.join(1);
        assert_eq!(egress.turn(t0()), Turn::Send { flow: 0, at: t0() });
        egress.on_sent(Some(0), t0(), Bytes::new(1250));
        assert_eq!(egress.turn(t0()), Turn::Busy(t0() + us(1000)));
        assert_eq!(egress.turn(t0() + us(1000)), Turn::Send { flow: 1, at: t0() + us(1000) });
        assert_eq!(egress.turn(t0() + us(1000)), Turn::Idle);
    }

    #[test]
    fn a_flow_that_ended_gets_no_turn() {
        let mut egress = Egress::new(Rate::MAX);
        egress.join(3);
        egress.leave(3);
        egress.leave(9);
        assert_eq!(egress.turn(t0()), Turn::Idle);
    }

    #[test]
    fn a_busy_interface_holds_up_no_other() {
        let mut egress = Egress::new(Rate::MAX);
        egress.assign(0, 2, Rate::mbps(10), Duration::ZERO);
        egress.assign(1, 3, Rate::mbps(20), Duration::ZERO);
        for flow in [0, 1] {
            egress.join(flow);
            assert_eq!(egress.turn(t0()), Turn::Send { flow, at: t0() });
            egress.on_sent(Some(flow), t0(), Bytes::new(1250));
            egress.join(flow);
        }
        assert_eq!(egress.turn(t0()), Turn::Busy(t0() + us(500)));
        assert_eq!(egress.turn(t0() + us(500)), Turn::Send { flow: 1, at: t0() + us(500) });
        assert_eq!(egress.longest_batch(1), Bytes::new(1500));
    }

    #[test]
    fn within_the_lead_a_batch_is_handed_over_for_when_the_interface_is_free() {
        // 1250 bytes at 10 Mbit/s are a millisecond; the lead is two.
        let mut egress = Egress::new(Rate::MAX);
        egress.assign(0, 2, Rate::mbps(10), us(2000));
        for ahead in [0, 1000, 2000] {
            egress.join(0);
            assert_eq!(egress.turn(t0()), Turn::Send { flow: 0, at: t0() + us(ahead) });
            egress.on_sent(Some(0), t0(), Bytes::new(1250));
        }
        egress.join(0);
        assert_eq!(egress.turn(t0()), Turn::Busy(t0() + us(2000)), "3 ms, less half the lead");
    }

    #[test]
    fn a_flow_in_line_moves_to_its_new_interface() {
        let mut egress = Egress::new(Rate::mbps(10));
        egress.join(0);
        egress.on_sent(None, t0(), Bytes::new(1250));
        assert_eq!(egress.turn(t0()), Turn::Busy(t0() + us(1000)));
        egress.assign(0, 2, Rate::mbps(10), Duration::ZERO);
        assert_eq!(egress.turn(t0()), Turn::Send { flow: 0, at: t0() });
        assert_eq!(egress.turn(t0() + us(5000)), Turn::Idle);
    }
}
