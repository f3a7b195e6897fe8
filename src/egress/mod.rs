//! "Whose turn?" The connections of an endpoint share one interface.
//!
//! *What it decides:* which connection may send next, and that all of them together never exceed the
//! anchor. *In:* who has something to send, and what left. *Out:* a [`Turn`]. *May import:* `units`
//! and `signal`.
//!
//! Plain round robin: a flow that wants to send joins the end of the line, sends one batch, and joins
//! again. The per-flow fair queueing discipline takes this place later.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::units::{Bytes, Rate};

/// Flow key: the caller's name of a connection.
pub type Flow = usize;

/// Round robin over flows, under one aggregate rate.
#[derive(Debug)]
pub struct Egress {
    anchor: Rate,
    /// When the interface will have sent all that was handed to it.
    free_at: Option<Instant>,
    line: VecDeque<Flow>,
    /// Whether a flow stands in line, by flow.
    in_line: Vec<bool>,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// This flow may send one batch.
    Send(Flow),
    /// The interface is busy until then.
    Busy(Instant),
    /// Nobody wants to send.
    Idle,
}

impl Egress {
    /// No flows, under the line rate `anchor`.
    pub fn new(anchor: Rate) -> Self {
        Self { anchor, free_at: None, line: VecDeque::new(), in_line: Vec::new() }
    }

    /// The aggregate line rate.
    pub fn anchor(&self) -> Rate {
        self.anchor
    }

    /// The longest batch that may be handed over at once, so that no flow waits long for its turn:
    /// 250 us of the line, at least one datagram and at most a UDP GSO batch.
    pub fn longest_batch(&self) -> Bytes {
        (self.anchor * LONGEST_TURN).clamp(SMALLEST_BATCH, LARGEST_BATCH)
    }

    /// `flow` has, or may have, something to send. Joins the line once however often it is said.
    pub fn join(&mut self, flow: Flow) {
        if self.in_line.len() <= flow {
            self.in_line.resize(flow + 1, false);
        }
        if !std::mem::replace(&mut self.in_line[flow], true) {
            self.line.push_back(flow);
        }
    }

    /// `flow` has ended.
    pub fn leave(&mut self, flow: Flow) {
        if self.in_line.get(flow).is_some_and(|&waits| waits) {
            self.in_line[flow] = false;
            self.line.retain(|&other| other != flow);
        }
    }

    /// Whose turn it is; that flow leaves the line.
    pub fn turn(&mut self, now: Instant) -> Turn {
        if self.line.is_empty() {
            return Turn::Idle;
        }
        match self.free_at {
            Some(free_at) if free_at > now => Turn::Busy(free_at),
            _ => {
                let flow = self.line.pop_front().expect("the line was found not to be empty");
                self.in_line[flow] = false;
                Turn::Send(flow)
            }
        }
    }

    /// Books what left, acknowledgements included: they take the interface's time too.
    pub fn on_sent(&mut self, now: Instant, bytes: Bytes) {
        let start = self.free_at.map_or(now, |free_at| free_at.max(now));
        self.free_at = Some(start + (bytes / self.anchor).min(LONGEST_WAIT));
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
            let Turn::Send(flow) = egress.turn(t0()) else { panic!("three flows wait") };
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
        assert_eq!(egress.turn(t0()), Turn::Send(0));
        egress.on_sent(t0(), Bytes::new(1250));
        assert_eq!(egress.turn(t0()), Turn::Busy(t0() + us(1000)));
        assert_eq!(egress.turn(t0() + us(1000)), Turn::Send(1));
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
}
