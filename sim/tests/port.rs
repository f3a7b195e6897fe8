//! A port with a FIFO queue is warplink's link: the same packets meet the same fates.

use std::time::Duration;

use proptest::prelude::*;
use warplink::{Fate, Jitter, Link, Order, Probability, Profile, Span, Time};
use warpsim::packet::{Body, Packet, RouteId};
use warpsim::port::Port;
use warpsim::queue::{Fifo, Limit};
use warpunits::{Bytes, Rate};

/// A packet that says which one it is.
fn packet(number: usize, size: u64) -> Packet {
    Packet { route: RouteId(number), hop: 0, wire: Bytes::new(size), ecn: None, body: Body::Filler }
}

/// Runs the port's own events before `until`; who arrived when.
fn run(port: &mut Port, until: Time, arrivals: &mut Vec<(Time, usize)>) {
    loop {
        let now = port.next_event();
        if now >= until {
            return;
        }
        let mut arrived = Vec::new();
        port.advance(now, &mut arrived);
        arrivals.extend(arrived.iter().map(|packet| (now, packet.route.0)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_fifo_port_is_a_link(
        offers in prop::collection::vec((0u64..300, 40u64..1600, any::<bool>()), 1..200),
        kbps in 500u64..100_000,
        delay_us in 0u64..20_000,
        buffer in 0u64..20_000,
        loss in 0u32..40,
        sigma_us in prop::sample::select(vec![0u64, 0, 100, 5_000]),
        order in prop::sample::select(vec![Order::Fifo, Order::Reorder]),
        slots_us in prop::sample::select(vec![0u64, 0, 500]),
        outage_us in 0u64..20_000,
        seed in any::<u64>(),
    ) {
        let us = Duration::from_micros;
        let profile = Profile::new(Rate::kbps(kbps), us(delay_us), Bytes::new(buffer)).expect("a link")
            .with_loss(Probability::percent(loss))
            .with_jitter(Jitter::new(us(sigma_us), order).expect("jitter"))
            .with_slots(us(slots_us)).expect("slots")
            .with_rate_steps(vec![(us(9_000), Rate::kbps(kbps * 2))]).expect("steps")
            .with_outages(vec![(us(5_000), us(outage_us))]).expect("outages")
            .with_delay_steps(vec![(us(7_000), us(delay_us / 3))]).expect("steps");
        let mut link = Link::new(profile.clone(), seed);
        let mut port = Port::new(profile, Box::new(Fifo::new(Limit::Bytes(Bytes::new(buffer)))), seed);
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        let mut now = Time::START;
        for (number, (gap_us, size, is_watched)) in offers.into_iter().enumerate() {
            now += Span::from(us(gap_us));
            run(&mut port, now, &mut found);
            if is_watched {
                // Looking changes nothing.
                port.stats(now);
            }
            if let Fate::Delivered { at, .. } = link.offer(now, Bytes::new(size)) {
                expected.push((at, number));
            }
            port.offer(now, packet(number, size));
        }
        run(&mut port, Time::NEVER, &mut found);
        // Those that arrive together come in the order in which they departed.
        expected.sort();
        prop_assert_eq!(found, expected);
        let stats = port.stats(Time::from(Duration::from_secs(1000)));
        prop_assert_eq!(stats.offered, stats.departed + stats.overflow_drops);
        prop_assert_eq!(port.queued(Time::from(Duration::from_secs(1000))), Bytes::ZERO);
    }
}
