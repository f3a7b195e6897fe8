//! What a peer can make the transport tell the control loop: ACK frames of any shape, at any time.

use std::time::{Duration, Instant};

use warprate::cc::{Bbr3, Cubic, Fixed, NewReno, PathStart, RateLaw, WarpRate};
use warprate::control::Control;
use warprate::signal::{Feedback, PacketNumber, Purpose, Release};
use warprate::units::{Bytes, Rate};

/// What happens (its remainder by the number of kinds), and two numbers which are the peer's choice.
pub type Step = (u8, u64, u64);

const PACKET: Bytes = Bytes::new(1200);
const ANCHOR: Rate = Rate::gbps(1);

fn laws(now: Instant) -> [Box<dyn RateLaw>; 5] {
    let start = PathStart::new(now, PACKET).with_anchor(ANCHOR);
    [
        Box::new(Fixed::new(Rate::mbps(10), Bytes::mb(1))),
        Box::new(Cubic::new(start)),
        Box::new(NewReno::new(start)),
        Box::new(Bbr3::new(start, 1)),
        Box::new(WarpRate::new(start, 1)),
    ]
}

/// A sender as honest as the transport, whose peer is not.
struct Sender {
    now: Instant,
    control: Control,
    /// Departures that are neither acknowledged nor lost, oldest first.
    outstanding: Vec<Instant>,
    sent: u64,
}

impl Sender {
    fn send(&mut self) {
        while self.outstanding.len() < 1000 {
            let Release::Now { .. } = self.control.release(self.now) else { break };
            self.now += Duration::from_nanos(1);
            let number = Some(PacketNumber(self.sent));
            let purpose = Purpose::Data;
            self.control.on_feedback(&Feedback::Sent { sent: self.now, bytes: PACKET, purpose, number });
            self.outstanding.push(self.now);
            self.sent += 1;
        }
    }

    fn in_flight(&self) -> Bytes {
        PACKET.times(self.outstanding.len() as u64)
    }

    fn step(&mut self, (kind, a, b): Step) {
        let now = self.now;
        let some = |n: u64| usize::try_from(n % self.outstanding.len().max(1) as u64).expect("an index");
        match kind % 6 {
            0 => self.now += Duration::from_nanos(a % 10_u64.pow((b % 11) as u32)),
            1 => {
                let (from, to) = (some(a), some(b));
                let acked: Vec<_> = self.outstanding.drain(from.min(to)..from.max(to)).collect();
                for sent in acked {
                    self.control.on_feedback(&Feedback::Acked { sent, bytes: PACKET });
                }
                self.control.on_feedback(&Feedback::AckEnd { now, in_flight: self.in_flight() });
            }
            2 => {
                let (first, last) = (PacketNumber(a), PacketNumber(b));
                self.control.on_feedback(&Feedback::AckRange { now, first, last });
            }
            3 => {
                let packets = u32::try_from(a.max(1)).unwrap_or(u32::MAX);
                if let Some(newest) = self.outstanding.get(some(b)).copied() {
                    self.control.on_feedback(&Feedback::Marked { now, newest, packets });
                }
            }
            4 => {
                let lost: Vec<_> = self.outstanding.drain(..some(a)).collect();
                if let Some(newest) = lost.last().copied() {
                    let bytes = PACKET.times(lost.len() as u64);
                    let persistent = b.is_multiple_of(8);
                    self.control.on_feedback(&Feedback::Lost { now, newest, bytes, persistent });
                }
            }
            _ => self.control.on_app_limited(now),
        }
    }
}

/// Every law takes it, and no law stops sending for good or keeps more in flight than it was told of.
pub fn feed(steps: &[Step]) {
    #[expect(clippy::disallowed_methods, reason = "virtual time needs an origin")]
    let start = Instant::now();
    for law in laws(start) {
        let control = Control::new(start, law, ANCHOR, PACKET);
        let mut sender = Sender { now: start, control, outstanding: vec![], sent: 0 };
        for step in steps {
            sender.send();
            sender.step(*step);
            let plan = sender.control.plan();
            assert!(!plan.rate.is_zero() && plan.window >= PACKET, "{plan:?} of {}", sender.control.state());
            assert_eq!(sender.control.ledger().in_flight(), sender.in_flight());
        }
    }
}
