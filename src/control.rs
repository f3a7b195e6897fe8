//! THE LOOP: feedback -> ledger -> law -> pacer. Read [`Control::on_feedback`] first.
//!
//! *What it decides:* nothing of its own; it passes words from module to module in a fixed order.
//! *In:* [`Feedback`] of one path. *Out:* a [`Release`]. *May import:* everything above `conn`.

use std::time::Instant;

use crate::cc::RateLaw;
use crate::loss::{Classifier, Ledger, Losses};
use crate::pacer::Pacer;
use crate::signal::{DeliverySample, Feedback, PacketNumber, Plan, Release, Undo};
use crate::units::{Bytes, Rate};

/// One path's control: what became of its packets, the law, and the send clock.
#[derive(Debug, Clone)]
pub struct Control {
    ledger: Ledger,
    classifier: Classifier,
    mind: Mind,
    plan: Plan,
    pacer: Pacer,
    datagram: Bytes,
    /// What the path did, for those who ask.
    delivery: Option<DeliverySample>,
    losses: Losses,
}

/// Who answers with plans.
#[derive(Debug, Clone)]
enum Mind {
    Law(Box<dyn RateLaw>),
    /// A foreign controller, which lives in the transport and is asked there.
    Foreign(&'static str),
}

impl Control {
    /// Control of a path taken up at `now` under `law`, paced within `anchor`.
    pub fn new(now: Instant, law: Box<dyn RateLaw>, anchor: Rate, datagram: Bytes) -> Self {
        let plan = law.plan(now);
        Self::with_mind(now, Mind::Law(law), plan, anchor, datagram)
    }

    /// Control of a path whose plans come from outside through [`follow`](Self::follow).
    pub fn foreign(now: Instant, name: &'static str, plan: Plan, anchor: Rate, datagram: Bytes) -> Self {
        Self::with_mind(now, Mind::Foreign(name), plan, anchor, datagram)
    }

    fn with_mind(now: Instant, mind: Mind, plan: Plan, anchor: Rate, datagram: Bytes) -> Self {
        let mut pacer = Pacer::new(now, anchor, datagram);
        pacer.follow(now, &plan);
        Self {
            ledger: Ledger::new(now),
            classifier: Classifier::default(),
            mind,
            plan,
            pacer,
            datagram,
            delivery: None,
            losses: Losses::default(),
        }
    }

    /// The same law and send clock on a path that takes up no packets of the former one.
    pub fn rebound(&self, now: Instant) -> Self {
        Self { ledger: self.ledger.rebound(now), delivery: None, ..self.clone() }
    }

    /// Takes in one event.
    pub fn on_feedback(&mut self, feedback: &Feedback) {
        let now = match *feedback {
            Feedback::Sent { sent, bytes, purpose, number } => {
                if let Some(departure) = self.ledger.on_sent(sent, bytes, purpose, number) {
                    self.pacer.on_sent(sent, bytes);
                    self.tell(|law| law.on_sent(&departure));
                }
                sent
            }
            Feedback::Copied { now, sent, bytes } => {
                self.ledger.on_copied(sent);
                return self.pacer.on_sent(now, bytes);
            }
            Feedback::AckRange { now, first, last } => {
                if !self.undo_losses(now, first, last) {
                    return;
                }
                now
            }
            Feedback::Acked { sent, bytes } => return self.ledger.on_acked(sent, bytes),
            Feedback::AckEnd { now, in_flight } => {
                if let Some(ack) = self.ledger.on_ack_end(now, in_flight) {
                    self.delivery = ack.sample.or(self.delivery);
                    self.classifier.on_ack(&ack);
                    self.tell(|law| law.on_ack(&ack));
                }
                now
            }
            Feedback::Lost { now, newest, bytes, persistent } => {
                let loss = self.ledger.on_lost(now, newest, bytes, persistent);
                let verdict = self.classifier.on_loss(&loss);
                if let Mind::Law(law) = &mut self.mind {
                    law.on_loss(&loss);
                    if let Some(verdict) = &verdict {
                        law.on_verdict(verdict);
                    }
                }
                verdict.iter().for_each(|verdict| self.losses.on_verdict(verdict));
                now
            }
            Feedback::Marked { now, newest, packets } => {
                let verdict = self.classifier.on_mark(now, newest, packets);
                self.losses.on_verdict(&verdict);
                self.tell(|law| law.on_verdict(&verdict));
                now
            }
            Feedback::ProbeLost { now } => {
                self.ledger.on_probe_lost();
                now
            }
            Feedback::Mtu(datagram) => {
                self.datagram = datagram;
                self.pacer.on_mtu(datagram);
                return self.tell(|law| law.on_mtu(datagram));
            }
        };
        self.replan(now);
    }

    /// Whether a datagram may leave: is there room, and is it time?
    pub fn release(&mut self, now: Instant) -> Release {
        self.on_deadline(now);
        let room = self.plan.window - self.ledger.in_flight();
        if room < self.datagram {
            self.pacer.rest(now);
            return Release::OnAck;
        }
        match self.pace(now) {
            Release::Now { bytes } => Release::Now { bytes: bytes.min(room) },
            later => later,
        }
    }

    /// Whether it is time for a datagram, for those who count by themselves what is in flight.
    pub fn release_by_time(&mut self, now: Instant) -> Release {
        self.on_deadline(now);
        self.pace(now)
    }

    /// Whether a datagram may leave twice: the law lets it, the peer has answered on this path, and what
    /// the path loses it loses by chance.
    pub fn may_copy(&self, now: Instant) -> bool {
        self.plan.copies && self.ledger.rtt().is_some() && self.classifier.expects_chance(now)
    }

    /// The sender had a release and nothing to send.
    pub fn on_app_limited(&mut self, now: Instant) {
        self.ledger.mark_app_limited();
        self.pacer.rest(now);
    }

    /// Takes up a foreign controller's answer.
    pub fn follow(&mut self, now: Instant, plan: Plan) {
        self.plan = plan;
        self.pacer.follow(now, &plan);
    }

    /// The interface has another line rate, or another interface leads to the peer. The pacer keeps to it at
    /// once, and the law is told.
    pub fn set_anchor(&mut self, now: Instant, anchor: Rate) {
        if anchor == self.pacer.anchor() {
            return;
        }
        self.pacer.set_anchor(anchor);
        self.tell(|law| law.on_anchor(anchor));
        self.replan(now);
        self.pacer.follow(now, &self.plan);
    }

    /// When the law wants to be asked again though nothing happened.
    pub fn deadline(&self) -> Option<Instant> {
        self.plan.until
    }

    /// The plan in force.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// The rate at which packets leave: the plan's, bounded by the anchor.
    pub fn pacing_rate(&self) -> Rate {
        self.pacer.rate()
    }

    /// Bytes that left ahead of the plan.
    pub fn debt(&self) -> Bytes {
        self.pacer.debt()
    }

    /// Bytes that the plan allowed and that the host was too late to send; they are not made up.
    pub fn missed(&self) -> Bytes {
        self.pacer.missed()
    }

    /// The path's records.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The newest delivery rate.
    pub fn delivery(&self) -> Option<DeliverySample> {
        self.delivery
    }

    /// The losses and marks by what they mean.
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// Size of the path's datagrams.
    pub fn datagram(&self) -> Bytes {
        self.datagram
    }

    /// Name of the law's present state.
    pub fn state(&self) -> &'static str {
        match &self.mind {
            Mind::Law(law) => law.state(),
            Mind::Foreign(name) => name,
        }
    }

    fn pace(&mut self, now: Instant) -> Release {
        let missed = self.pacer.missed();
        let release = self.pacer.release(now);
        if self.pacer.missed() > missed {
            // The host was too busy, or its send buffer full: what arrives now shows the host, not the path.
            self.ledger.mark_app_limited();
        }
        release
    }

    fn on_deadline(&mut self, now: Instant) {
        if self.plan.until.is_some_and(|until| until <= now) {
            self.tell(|law| law.on_deadline(now));
            self.replan(now);
            // A law that still names the past is asked with the next event; asking at once would never end.
            self.plan.until = self.plan.until.filter(|until| *until > now);
        }
    }

    /// Tells the law of each lost packet that has arrived after all; whether there was one.
    fn undo_losses(&mut self, now: Instant, first: PacketNumber, last: PacketNumber) -> bool {
        let mut has_undone = false;
        while let Some(packet) = self.ledger.take_late(now, first, last) {
            self.tell(|law| law.on_undo(&Undo { now, packet }));
            has_undone = true;
        }
        has_undone
    }

    fn tell(&mut self, event: impl FnOnce(&mut dyn RateLaw)) {
        if let Mind::Law(law) = &mut self.mind {
            event(law.as_mut());
        }
    }

    fn replan(&mut self, now: Instant) {
        if let Mind::Law(law) = &self.mind {
            let plan = law.plan(now);
            if plan != self.plan {
                self.plan = plan;
                self.pacer.follow(now, &plan);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::{PathStart, WarpRate};
    use crate::signal::Purpose;
    use crate::test_clock::{ms, t0, us};

    const PACKET: Bytes = Bytes::new(1000);
    /// Packets in flight, which leave every 100 µs.
    const FLIGHT: u64 = 100;

    /// 10 MB/s over 10 ms, in these ten-thousandths of a second; acknowledged is what left in them.
    fn flow(control: &mut Control, span: std::ops::Range<u64>) {
        let at = |i| t0() + us(100 * i);
        for i in span.clone() {
            let purpose = Purpose::Data;
            control.on_feedback(&Feedback::Sent { sent: at(i), bytes: PACKET, purpose, number: None });
            if i >= span.start + FLIGHT {
                control.on_feedback(&Feedback::Acked { sent: at(i - FLIGHT), bytes: PACKET });
                control.on_feedback(&Feedback::AckEnd { now: at(i), in_flight: PACKET.times(FLIGHT) });
            }
        }
    }

    #[test]
    fn a_law_that_is_rebound_does_not_forget_what_was_delivered() {
        let anchor = Rate::gbps(1);
        let law = WarpRate::new(PathStart::new(t0(), PACKET).with_anchor(anchor), 1);
        let mut control = Control::new(t0(), Box::new(law), anchor, PACKET);
        flow(&mut control, 0..20_000);
        let before = control.ledger().delivered();
        let mut control = control.rebound(t0() + ms(2000));
        flow(&mut control, 20_000..20_600);
        assert_eq!(control.ledger().delivered(), before + PACKET.times(500));
        // A mark takes 15 % off what is delivered: 10 MB/s, of four epochs of 10 ms at least one of which may be
        // the silence after the move.
        let now = t0() + ms(2060);
        control.on_feedback(&Feedback::Marked { now, newest: now - ms(10), packets: 1 });
        let rate = control.plan().rate;
        assert!(rate >= Rate::mbps(80 * 3 / 4 * 85 / 100) && rate <= Rate::mbps(80), "{rate}");
    }
}
