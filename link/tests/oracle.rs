//! The reactive oracle against closed forms.

use std::time::Duration;

use warplink::{Fate, Jitter, Order, PathProfile, Probability, Time, Transfer, oracle};
use warpunits::{Bytes, Rate};

/// 1518 wire bytes at 100 Mbit/s.
const SERIALISATION: Duration = Duration::from_nanos(121_440);
const RTT: Duration = Duration::from_millis(40);
const ONE_WAY: Duration = Duration::from_millis(20);
const PER_DATAGRAM: u64 = 1400;

fn path() -> PathProfile {
    PathProfile::symmetric(Rate::mbps(100), RTT).expect("valid")
}

/// A transfer that fills `n` datagrams.
fn datagrams(n: u64) -> Transfer {
    Transfer {
        bytes: Bytes::new(n * PER_DATAGRAM),
        datagram: Bytes::new(1452),
        stream_per_datagram: Bytes::new(PER_DATAGRAM),
    }
}

fn times(duration: Duration, n: u64) -> Duration {
    duration * u32::try_from(n).expect("a test's count")
}

#[test]
fn a_clean_path_takes_serialisation_and_one_delay() {
    for n in [1, 2, 1000] {
        assert_eq!(oracle(&path(), &datagrams(n), 1), times(SERIALISATION, n) + ONE_WAY);
    }
}

#[test]
fn the_last_datagram_is_only_as_long_as_it_must_be() {
    let transfer = Transfer { bytes: Bytes::new(1401), ..datagrams(2) };
    // The second carries one stream byte: 52 + 1 + 66 wire bytes take 9.52 us.
    assert_eq!(oracle(&path(), &transfer, 1), SERIALISATION + Duration::from_nanos(9_520) + ONE_WAY);
}

#[test]
fn what_never_ends_is_for_ever() {
    let lost = path().with_data_loss(Probability::ONE);
    assert_eq!(oracle(&lost, &datagrams(1), 1), Duration::MAX);
    let hollow = Transfer { stream_per_datagram: Bytes::ZERO, ..datagrams(1) };
    assert_eq!(oracle(&path(), &hollow, 1), Duration::MAX);
}

#[test]
fn nothing_takes_no_time() {
    let lost = path().with_data_loss(Probability::ONE);
    assert_eq!(oracle(&lost, &datagrams(0), 1), Duration::ZERO);
}

#[test]
fn a_single_datagram_is_repeated_every_round_trip_until_it_arrives() {
    let path = path().with_data_loss(Probability::percent(50));
    let mut most = 0;
    for seed in 0..200 {
        let (mut link, _) = path.links(seed);
        let is_lost = |fate| matches!(fate, Fate::Lost(_));
        let losses = (0..).take_while(|_| is_lost(link.offer(link.idle_at(), Bytes::new(1518)))).count();
        most = most.max(losses);
        let expected = times(RTT + SERIALISATION, losses as u64) + SERIALISATION + ONE_WAY;
        assert_eq!(oracle(&path, &datagrams(1), seed), expected, "{losses} losses");
    }
    assert!(most >= 3, "the seeds hold runs of losses");
}

#[test]
fn losses_cost_their_repetition() {
    // The link stays busy: n / (1 - p) transmissions. Then the last losses' repairs, one RTT apart.
    let n = 100_000;
    for percent in [1, 5, 20] {
        let p = f64::from(percent) / 100.0;
        let lossy = path().with_data_loss(Probability::percent(percent));
        let took = oracle(&lossy, &datagrams(n), 7).as_secs_f64();
        let sends = n as f64 / (1.0 - p);
        let spread = 4.5 * (n as f64 * p).sqrt() / (1.0 - p);
        let busy = |sends: f64| sends * SERIALISATION.as_secs_f64() + ONE_WAY.as_secs_f64();
        assert!(took >= busy(sends - spread), "{percent} %: {took} s");
        assert!(took <= busy(sends + spread) + 8.0 * RTT.as_secs_f64(), "{percent} %: {took} s");
    }
}

#[test]
fn a_loss_at_the_tail_costs_a_round_trip() {
    let lossy = path().with_data_loss(Probability::percent(10));
    let clean = oracle(&path(), &datagrams(20), 0);
    let (mut tails, mut unharmed) = (0, 0);
    for seed in 0..300 {
        let (mut link, _) = lossy.links(seed);
        let lost: Vec<bool> =
            (0..20).map(|_| matches!(link.offer(link.idle_at(), Bytes::new(1518)), Fate::Lost(_))).collect();
        let took = oracle(&lossy, &datagrams(20), seed);
        if lost[19] {
            tails += 1;
            assert!(took >= clean + RTT, "seed {seed}: {took:?}");
        } else if !lost.contains(&true) {
            unharmed += 1;
            assert_eq!(took, clean);
        }
    }
    assert!(tails > 10 && unharmed > 10, "both cases occur: {tails} and {unharmed}");
}

#[test]
fn a_repair_goes_before_new_data() {
    // With 2000 datagrams (243 ms) and one loss early on, the repair leaves after 40 ms, in the
    // middle of the data: the transfer is exactly one serialisation longer.
    let lossy = path().with_data_loss(Probability::parts_per_billion(500_000).expect("valid"));
    let clean = oracle(&path(), &datagrams(2000), 0);
    let mut found = 0;
    for seed in 0..100 {
        let (mut link, _) = lossy.links(seed);
        let lost: Vec<usize> = (0..2001)
            .filter(|_| matches!(link.offer(link.idle_at(), Bytes::new(1518)), Fate::Lost(_)))
            .collect();
        if let [early] = lost[..]
            && early < 1500
        {
            found += 1;
            assert_eq!(oracle(&lossy, &datagrams(2000), seed), clean + SERIALISATION);
        }
    }
    assert!(found > 5, "{found} seeds have one early loss");
}

#[test]
fn acknowledgement_loss_does_not_matter_and_jitter_does() {
    let acks_lost = path().with_ack_loss(Probability::percent(50));
    assert_eq!(oracle(&acks_lost, &datagrams(100), 1), oracle(&path(), &datagrams(100), 1));
    let jitter = Jitter::new(Duration::from_millis(5), Order::Reorder).expect("valid");
    let varied = path().with_jitter(jitter);
    let (mut link, _) = varied.links(1);
    let arrivals = (0..100).map(|_| match link.offer(link.idle_at(), Bytes::new(1518)) {
        Fate::Delivered { at, .. } => at,
        Fate::Lost(_) => Time::NEVER,
    });
    let last = arrivals.max().expect("a hundred").since_start();
    assert_eq!(oracle(&varied, &datagrams(100), 1), last);
}

#[test]
fn the_oracle_needs_no_buffer() {
    let lossy = path().with_data_loss(Probability::percent(20));
    let bufferless = lossy.clone().with_buffer(Bytes::ZERO);
    for seed in 0..20 {
        assert_eq!(oracle(&bufferless, &datagrams(1000), seed), oracle(&lossy, &datagrams(1000), seed));
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn a_changing_rate_takes_its_parts() {
    // 500 datagrams at 100 Mbit/s, then 500 at half of that.
    let halved = vec![(times(SERIALISATION, 500), Rate::mbps(50))];
    let forward = path().forward.with_rate_steps(halved).expect("valid");
    let took = oracle(&PathProfile { forward, ..path() }, &datagrams(1000), 1);
    assert_eq!(took, times(SERIALISATION, 1500) + ONE_WAY);
}

#[test]
fn an_outage_costs_its_length_and_slots_the_wait_for_the_last() {
    let forward = path().forward.with_outages(vec![(ms(50), ms(100))]).expect("valid");
    let clean = oracle(&path(), &datagrams(1000), 1);
    let out = PathProfile { forward: forward.clone(), ..path() };
    assert_eq!(oracle(&out, &datagrams(1000), 1), clean + ms(100));
    // 241.44 ms, of which the next multiple of 7 is 245.
    let slotted = PathProfile { forward: forward.with_slots(ms(7)).expect("valid"), ..path() };
    assert_eq!(oracle(&slotted, &datagrams(1000), 1), ms(245));
}

#[test]
fn a_repair_waits_for_the_round_trip_of_its_moment() {
    let lossy = path().with_data_loss(Probability::percent(50));
    let changing = PathProfile {
        forward: lossy.forward.with_delay_steps(vec![(ms(30), ms(50))]).expect("valid"),
        reverse: lossy.reverse.with_delay_steps(vec![(ms(75), ms(5))]).expect("valid"),
    };
    // Lost at first: known after 20 + 20 ms. Lost again: sent after 40 ms, known after 50 + 5 ms more.
    let expected = [
        SERIALISATION + ms(20),
        times(SERIALISATION, 2) + ms(20 + 20 + 50),
        times(SERIALISATION, 3) + ms(20 + 20 + 50 + 5 + 50),
    ];
    let mut seen = [0; 3];
    for seed in 0..50 {
        let (mut link, _) = changing.links(seed);
        let is_lost = |fate| matches!(fate, Fate::Lost(_));
        let losses = (0..).take_while(|_| is_lost(link.offer(link.idle_at(), Bytes::new(1518)))).count();
        if let Some(&expected) = expected.get(losses) {
            seen[losses] += 1;
            assert_eq!(oracle(&changing, &datagrams(1), seed), expected, "{losses} losses");
        }
    }
    assert!(seen.iter().all(|seen| *seen > 2), "{seen:?}");
}

#[test]
fn a_repair_that_is_known_first_goes_first() {
    // The delay shrinks from 200 to 10 ms: of one loss before and one after the step, the later is
    // known and repaired 190 ms before the earlier.
    let steps = vec![(ms(0), ms(200)), (ms(10), ms(10))];
    let path = path()
        .with_data_loss(Probability::percent(1))
        .with_jitter(Jitter::new(Duration::ZERO, Order::Reorder).expect("valid"));
    let path = PathProfile { forward: path.forward.with_delay_steps(steps).expect("valid"), ..path };
    let mut found = 0;
    for seed in 0..200 {
        let (mut link, _) = path.links(seed);
        let lost: Vec<u64> = (0..152)
            .filter(|_| matches!(link.offer(link.idle_at(), Bytes::new(1518)), Fate::Lost(_)))
            .collect();
        // 82 datagrams depart before the step.
        if let [early, late] = lost[..]
            && (early < 82 && (82..150).contains(&late))
        {
            found += 1;
            let known = times(SERIALISATION, early + 1) + ms(200) + ONE_WAY;
            assert_eq!(oracle(&path, &datagrams(150), seed), known + SERIALISATION + ms(10));
        }
    }
    assert!(found > 5, "{found} seeds lose one before and one after the step");
}
