//! What no single field can tell: names that must agree, and schedules that must go forward.

use std::collections::BTreeSet;
use std::time::Duration;

use warplink::Probability;

use super::{Flow, HostKind, Link, Topology, Yardstick, text};
use crate::laws;

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
        for (index, yardstick) in self.yardsticks.iter().enumerate() {
            yardstick.check(&format!("yardsticks[{index}]"), &self.flows[0])?;
        }
        Ok(())
    }

    fn check_flow(&self, at: &str, flow: &Flow) -> Result<(), Problem> {
        for (direction, route) in [("forward", &flow.forward), ("reverse", &flow.reverse)] {
            let is_one_way = flow.host == HostKind::Udp && direction == "reverse";
            if route.is_empty() && !is_one_way {
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
            let delays = route.iter().filter_map(|name| self.links.get(name)).map(|link| link.delay);
            if delays.sum::<Duration>() > text::DAY {
                let what = "delays of more than a day together, expected at most a day";
                return problem(format!("{at}.{direction}"), what);
            }
        }
        if flow.start >= self.duration {
            return problem(
                format!("{at}.start"),
                "not before the end of the run, expected less than `duration`",
            );
        }
        flow.check(at)
    }
}

impl Flow {
    /// Fields that must fit the kind of host.
    fn check(&self, at: &str) -> Result<(), Problem> {
        if !DATAGRAMS.contains(&self.mtu) {
            let what = format!("{}, expected a datagram of {DATAGRAMS:?} bytes", self.mtu);
            return problem(format!("{at}.mtu"), what);
        }
        let receiver = self.receiver.unwrap_or_default();
        if receiver.ack_every == Some(0) {
            return problem(format!("{at}.receiver.ack_every"), "0, expected a number of packets above zero");
        }
        let kind = self.host;
        let is_udp = kind == HostKind::Udp;
        let is_quic = kind == HostKind::Quic;
        let is_foreign =
            self.law.as_ref().and_then(|law| laws::find(law.name())).is_some_and(laws::Entry::is_foreign);
        let misfits = [
            ("law", is_udp && self.law.is_some()),
            ("law", !is_udp && !is_quic && (is_foreign || self.law.is_none())),
            ("bytes", is_udp && self.bytes.is_some()),
            ("request", (is_udp || is_quic) && self.request.is_some()),
            ("client", !is_quic && self.client != Default::default()),
            ("receiver", is_udp && self.receiver.is_some()),
            ("receiver.ack_every", is_quic && receiver.ack_every.is_some()),
            ("receiver.ack_delay", is_quic && receiver.ack_delay.is_some()),
            ("cipher", !is_quic && self.cipher != Default::default()),
            ("mtu", (kind == HostKind::Bare || kind == HostKind::Tcp) && self.mtu != super::default_mtu()),
            ("rate", !is_udp && self.rate.is_some()),
            ("on_off", !is_udp && self.on_off.is_some()),
            ("stop", !is_udp && self.stop.is_some()),
        ];
        if let Some((field, _)) = misfits.iter().find(|(_, is_misfit)| *is_misfit) {
            let what = match *field {
                "law" if !is_udp => {
                    format!(
                        "expected a law of warprate's on a host of the kind `{}`, since quinn's need quinn",
                        kind.name()
                    )
                }
                _ => format!("a host of the kind `{}` has no such choice", kind.name()),
            };
            return problem(format!("{at}.{field}"), what);
        }
        if is_udp && self.rate.is_none() {
            return problem(format!("{at}.rate"), "missing, expected the rate of the `udp` sender");
        }
        if self.request.is_some() && self.bytes.is_none() {
            return problem(format!("{at}.bytes"), "missing, expected the size of the answer to `request`");
        }
        Ok(())
    }
}

impl Yardstick {
    fn check(&self, at: &str, flow: &Flow) -> Result<(), Problem> {
        let limits = [self.done.is_some(), self.rtt.is_some(), self.startup.is_some()];
        if limits.iter().filter(|is_given| **is_given).count() != 1 {
            return problem(at, "expected one of `done`, `rtt` and `startup`");
        }
        if !self.since.is_zero() && self.done.is_none() {
            return problem(format!("{at}.since"), "nothing to count, expected it beside `done`");
        }
        if flow.bytes.is_none() {
            return problem("flows[0].bytes", "missing, expected how much the law of `yardsticks` sends");
        }
        if laws::find(self.law.name()).is_some_and(laws::Entry::is_foreign) {
            return problem(format!("{at}.law"), "one of quinn's, expected a law of warprate's");
        }
        Ok(())
    }
}

impl Link {
    fn check(&self, at: &str) -> Result<(), Problem> {
        let mut last = None;
        for (index, step) in self.steps.iter().enumerate() {
            let at = format!("{at}.steps[{index}]");
            if step.rate.is_none() && step.delay.is_none() && step.loss.is_none() {
                return problem(at, "a step that changes nothing, expected `rate`, `delay` or `loss`");
            }
            if last.is_some_and(|last| last >= step.at) {
                return problem(format!("{at}.at"), "not later than the step before it");
            }
            last = Some(step.at);
        }
        let mut losses = self.steps.iter().enumerate().filter_map(|(index, step)| Some((index, step.loss?)));
        if let Some((index, _)) = losses.next_back().filter(|(_, last)| last.share() == Probability::ONE) {
            return problem(
                format!("{at}.steps[{index}].loss"),
                "for ever, expected a step with less after it",
            );
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
