//! What one packet costs in our own code: `cargo bench --bench hot_path`.
#![allow(clippy::disallowed_methods, reason = "a benchmark needs an origin of time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use warprate::cc::Fixed;
use warprate::control::Control;
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

fn units(c: &mut Criterion) {
    c.bench_function("Bytes / Rate", |b| b.iter(|| black_box(DATAGRAM) / black_box(Rate::mbps(95))));
    c.bench_function("Rate * Duration", |b| {
        b.iter(|| black_box(Rate::mbps(95)) * black_box(Duration::from_micros(250)));
    });
}

criterion_group!(benches, control, units);
criterion_main!(benches);
