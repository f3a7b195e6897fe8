//! When each flow is to be looked at: one clock for all of an endpoint's connections.

use std::collections::BTreeSet;
use std::time::Instant;

use super::Flow;

/// At most one deadline per flow; setting one and taking the next are O(log n).
#[derive(Debug, Default)]
pub struct Deadlines {
    in_order: BTreeSet<(Instant, Flow)>,
    /// The same by flow.
    of: Vec<Option<Instant>>,
}

impl Deadlines {
    /// `flow` is to be looked at then, and not when it was to be before; `None` for never.
    pub fn set(&mut self, flow: Flow, at: Option<Instant>) {
        if self.of.len() <= flow {
            self.of.resize(flow + 1, None);
        }
        let before = std::mem::replace(&mut self.of[flow], at);
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.in_order.remove(&(before, flow));
        }
        if let Some(at) = at {
            self.in_order.insert((at, flow));
        }
    }

    /// Takes the flow whose deadline came first, if it has come.
    pub fn take_due(&mut self, now: Instant) -> Option<Flow> {
        let &(_, flow) = self.in_order.first().filter(|(at, _)| *at <= now)?;
        self.in_order.pop_first();
        self.of[flow] = None;
        Some(flow)
    }

    /// The next deadline.
    pub fn next(&self) -> Option<Instant> {
        self.in_order.first().map(|&(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_clock::{ms, t0};

    #[test]
    fn flows_come_in_the_order_of_their_deadlines_once() {
        let mut deadlines = Deadlines::default();
        for (flow, at) in [(0, 3), (1, 1), (2, 2), (0, 1), (3, 9)] {
            deadlines.set(flow, Some(t0() + ms(at)));
        }
        deadlines.set(2, None);
        deadlines.set(7, None);
        assert_eq!(deadlines.next(), Some(t0() + ms(1)));
        assert_eq!(deadlines.take_due(t0()), None);
        let mut due = || deadlines.take_due(t0() + ms(5));
        assert_eq!([due(), due(), due()], [Some(0), Some(1), None]);
        assert_eq!(deadlines.next(), Some(t0() + ms(9)));
    }

    proptest! {
        /// Against a plain list that is searched from end to end.
        #[test]
        fn they_are_what_a_list_of_all_flows_says(
            ops in prop::collection::vec((0usize..20, 0u64..30, any::<bool>()), 1..200),
        ) {
            let mut deadlines = Deadlines::default();
            let mut list = [None; 20];
            for (flow, at, is_set) in ops {
                let at = t0() + ms(at);
                if is_set {
                    deadlines.set(flow, Some(at));
                    list[flow] = Some(at);
                } else {
                    let due = deadlines.take_due(at);
                    let first = (0..20).filter_map(|flow| Some((list[flow]?, flow))).min();
                    prop_assert_eq!(due, first.filter(|(first, _)| *first <= at).map(|(_, flow)| flow));
                    if let Some(due) = due {
                        list[due] = None;
                    }
                }
                prop_assert_eq!(deadlines.next(), list.iter().flatten().min().copied());
            }
        }
    }
}
