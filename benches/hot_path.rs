//! What one packet costs in our own code: `cargo bench --bench hot_path`.
#![allow(clippy::disallowed_methods, reason = "a benchmark needs an origin of time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use warprate::cc::{Bbr3, Cubic, Fixed, NewReno, PathStart, RateLaw, WarpRate};
use warprate::control::Control;
use warprate::egress::Deadlines;
use warprate::signal::{Feedback, PacketNumber, Purpose};
use warprate::units::{Bytes, Rate};

const DATAGRAM: Bytes = Bytes::new(1452);
const IN_FLIGHT: u64 = 3_000;

fn departure(start: Instant, i: u64) -> Instant {
    start + Duration::from_micros(12 * i)
}

/// A control with 3000 packets in flight: 1 Gbit/s over 36 ms.
fn full_pipe(start: Instant) -> Control {
    let law = Box::new(Fixed::new(Rate::gbps(1), Bytes::mb(16)));
    let mut control = Control::new(start, law, Rate::gbps(10), DATAGRAM);
    for i in 0..IN_FLIGHT {
        control.on_feedback(&sent(start, i));
    }
    control
}

fn sent(start: Instant, i: u64) -> Feedback {
    Feedback::Sent {
        sent: departure(start, i),
        bytes: DATAGRAM,
        purpose: Purpose::Data,
        number: Some(PacketNumber(i)),
    }
}

fn control(c: &mut Criterion) {
    let start = Instant::now();
    let now = departure(start, IN_FLIGHT);
    c.bench_function("one ACK frame of 2 packets through control", |b| {
        b.iter_batched_ref(
            || full_pipe(start),
            |control| {
                let (first, last) = (PacketNumber(0), PacketNumber(1));
                control.on_feedback(&Feedback::AckRange { now, first, last });
                for i in 0..2 {
                    control.on_feedback(&Feedback::Acked { sent: departure(start, i), bytes: DATAGRAM });
                }
                control.on_feedback(&Feedback::AckEnd { now, in_flight: DATAGRAM.times(IN_FLIGHT - 2) });
            },
            BatchSize::LargeInput,
        );
    });
    c.bench_function("one departure through control", |b| {
        let mut control = full_pipe(start);
        let mut i = IN_FLIGHT;
        b.iter(|| {
            i += 1;
            control.on_feedback(&sent(start, i));
        });
    });
    c.bench_function("one release decision", |b| {
        let mut control = full_pipe(start);
        b.iter(|| control.release(black_box(now)));
    });
}

/// One Gbit/s: a datagram takes 11.6 us, a thousand of them a round trip of 11.6 ms.
const SPACING_NANOS: u64 = 11_616;
const LAW_IN_FLIGHT: u64 = 1_000;
/// ACK frames between two looks at the clock; with 2 packets each they leave most of the flight.
const FRAMES: u64 = 32;

/// A steady flow: packet n leaves at n spacings and arrives when a thousand later ones have left.
struct Flow {
    start: Instant,
    control: Control,
    sent: u64,
    acked: u64,
}

impl Flow {
    /// Past the start of every law.
    fn new(law: Box<dyn RateLaw>) -> Self {
        let start = Instant::now();
        let control = Control::new(start, law, Rate::gbps(10), DATAGRAM);
        let mut flow = Self { start, control, sent: 0, acked: 0 };
        for _ in 0..2_000 {
            flow.fill();
            flow.acknowledge();
        }
        flow
    }

    fn departure(&self, n: u64) -> Instant {
        self.start + Duration::from_nanos(SPACING_NANOS * n)
    }

    fn fill(&mut self) {
        while self.sent < self.acked + LAW_IN_FLIGHT {
            self.control.on_feedback(&Feedback::Sent {
                sent: self.departure(self.sent),
                bytes: DATAGRAM,
                purpose: Purpose::Data,
                number: Some(PacketNumber(self.sent)),
            });
            self.sent += 1;
        }
    }

    fn acknowledge(&mut self) {
        for _ in 0..FRAMES {
            let first = self.acked;
            let now = self.departure(first + LAW_IN_FLIGHT + 1);
            let (from, to) = (PacketNumber(first), PacketNumber(first + 1));
            self.control.on_feedback(&Feedback::AckRange { now, first: from, last: to });
            for n in [first, first + 1] {
                self.control.on_feedback(&Feedback::Acked { sent: self.departure(n), bytes: DATAGRAM });
            }
            self.acked += 2;
            let in_flight = DATAGRAM.times(self.sent - self.acked);
            self.control.on_feedback(&Feedback::AckEnd { now, in_flight });
        }
    }
}

/// Epochs, rounds and probes come as often as they would: their cost is in the mean.
fn laws(c: &mut Criterion) {
    let start = PathStart::new(Instant::now(), DATAGRAM).with_anchor(Rate::gbps(10));
    let laws: [(&str, Box<dyn RateLaw>); 5] = [
        ("fixed", Box::new(Fixed::new(Rate::gbps(1), Bytes::mb(16)))),
        ("newreno", Box::new(NewReno::new(start))),
        ("cubic", Box::new(Cubic::new(start))),
        ("bbr3", Box::new(Bbr3::new(start, 1))),
        ("warprate", Box::new(WarpRate::new(start, 1))),
    ];
    let mut group = c.benchmark_group("one ACK frame of 2 packets at 1000 in flight");
    for (name, law) in laws {
        let mut flow = Flow::new(law);
        group.bench_function(name, |b| {
            b.iter_custom(|frames| {
                let mut spent = Duration::ZERO;
                let batches = frames.div_ceil(FRAMES);
                for _ in 0..batches {
                    flow.fill();
                    let begin = Instant::now();
                    flow.acknowledge();
                    spent += begin.elapsed();
                }
                spent.mul_f64(frames as f64 / (batches * FRAMES) as f64)
            });
        });
    }
    group.finish();
}

/// One clock for all of an endpoint's connections: what it costs to move one deadline among n, O(log n).
fn deadlines(c: &mut Criterion) {
    let start = Instant::now();
    let mut group = c.benchmark_group("one deadline moved and the next one asked for");
    for flows in [1, 100, 10_000, 1_000_000] {
        let mut deadlines = Deadlines::default();
        for flow in 0..flows {
            deadlines.set(flow, Some(departure(start, flow as u64)));
        }
        let mut i = 0;
        group.bench_function(format!("{flows} flows"), |b| {
            b.iter(|| {
                // 7919 is prime to each count: every flow has its turn, far from the one before.
                i += 7919;
                deadlines.set(i % flows, Some(departure(start, (flows + i) as u64)));
                deadlines.next()
            });
        });
    }
    group.finish();
}

fn units(c: &mut Criterion) {
    c.bench_function("Bytes / Rate", |b| b.iter(|| black_box(DATAGRAM) / black_box(Rate::mbps(95))));
    c.bench_function("Rate * Duration", |b| {
        b.iter(|| black_box(Rate::mbps(95)) * black_box(Duration::from_micros(250)));
    });
}

criterion_group!(benches, control, laws, deadlines, units);
criterion_main!(benches);
