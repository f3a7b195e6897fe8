//! What no single field can tell: names that must agree, and schedules that must go forward.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Flow, Link, Topology};

/// The place within the document, and what is wrong there.
type Problem = (String, String);

impl Topology {
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.name.is_empty() {
            return problem("name", "an empty name");
        }
        if self.duration.is_zero() {
            return problem("duration", "a run of no length");
        }
        for (name, link) in self.links.iter() {
            link.check(&format!("links.{name}"))?;
        }
        if self.flows.is_empty() {
            return problem("flows", "no flow");
        }
        let mut names = BTreeSet::new();
        for (index, flow) in self.flows.iter().enumerate() {
            self.check_flow(&format!("flows[{index}]"), flow)?;
            if !names.insert(&flow.name) {
                return problem(format!("flows[{index}].name"), format!("duplicate flow `{}`", flow.name));
            }
        }
        Ok(())
    }

    fn check_flow(&self, at: &str, flow: &Flow) -> Result<(), Problem> {
        for (direction, route) in [("forward", &flow.forward), ("reverse", &flow.reverse)] {
            if route.is_empty() {
                return problem(format!("{at}.{direction}"), "no link, expected at least one");
            }
            for (index, name) in route.iter().enumerate() {
                let known: Vec<_> = self.links.iter().map(|(name, _)| format!("`{name}`")).collect();
                if self.links.get(name).is_none() {
                    let what = format!("no link is called `{name}`, expected one of {}", known.join(", "));
                    return problem(format!("{at}.{direction}[{index}]"), what);
                }
                if route[..index].contains(name) {
                    let what = format!("link `{name}` twice on one way");
                    return problem(format!("{at}.{direction}[{index}]"), what);
                }
            }
        }
        if flow.start >= self.duration {
            return problem(
                format!("{at}.start"),
                "not before the end of the run, expected less than `duration`",
            );
        }
        if !DATAGRAMS.contains(&flow.mtu) {
            let what = format!("{}, expected a datagram of {DATAGRAMS:?} bytes", flow.mtu);
            return problem(format!("{at}.mtu"), what);
        }
        Ok(())
    }
}

impl Link {
    fn check(&self, at: &str) -> Result<(), Problem> {
        let mut last = None;
        for (index, step) in self.steps.iter().enumerate() {
            let at = format!("{at}.steps[{index}]");
            if step.rate.is_none() && step.delay.is_none() {
                return problem(at, "a step that changes nothing, expected `rate`, `delay` or both");
            }
            if last.is_some_and(|last| last >= step.at) {
                return problem(format!("{at}.at"), "not later than the step before it");
            }
            last = Some(step.at);
        }
        let mut end = Duration::ZERO;
        for (index, outage) in self.outages.iter().enumerate() {
            if outage.at < end {
                return problem(
                    format!("{at}.outages[{index}].at"),
                    "before the end of the outage before it",
                );
            }
            end = outage.at.saturating_add(outage.length);
        }
        if self.slots == Some(Duration::ZERO) {
            return problem(format!("{at}.slots"), "slots of no length");
        }
        Ok(())
    }
}

fn problem<T>(at: impl Into<String>, what: impl Into<String>) -> Result<T, Problem> {
    Err((at.into(), what.into()))
}

/// RFC 9000 §14 asks for 1200; 1472 fill an Ethernet frame over IPv4.
const DATAGRAMS: std::ops::RangeInclusive<u16> = 1200..=1472;
