//! How often a receiver acknowledges must not matter to CUBIC.

use std::time::Duration;

use warprate::cc::cubic::Increase;
use warpsim::ack_ratio::{Setting, mean_and_deviation, settings};
use warpsim::topology::text::{Buffer, Multiple};

/// Shares of the other flow in shorter runs with the seeds 1 to 6.
fn shares(every: u32, increase: Increase) -> Vec<f64> {
    let setting = Setting {
        buffer: Multiple::millionths(1_000_000),
        every,
        increase,
        has_jitter: true,
        duration: Duration::from_secs(60),
    };
    (1..=6).map(|seed| setting.run(seed).expect("it runs")).collect()
}

#[test]
fn with_bytes_counted_rare_acknowledgements_cost_little() {
    // A minute shows the start, too, and bursts that a full queue meets: `warp sim ack-ratio` has the whole
    // experiment.
    for every in [1, 2, 10] {
        let shares = shares(every, Increase::PerByte);
        let (mean, deviation) = mean_and_deviation(&shares);
        let of_mean = deviation / (shares.len() as f64).sqrt();
        assert!(of_mean < 0.02, "{shares:?} say nothing");
        assert!((mean - 0.5).abs() < 0.05, "every {every}: {mean} ± {of_mean}");
    }
}

#[test]
fn the_experiment_is_the_specified_one() {
    let rows = settings();
    assert!(rows.iter().all(|row| row.duration == Duration::from_secs(120)));
    for increase in [Increase::PerByte, Increase::Literal] {
        for buffer in ["0.5 BDP", "1 BDP", "2 BDP"] {
            let of_these = rows
                .iter()
                .filter(|row| row.increase == increase && Buffer::Bdp(row.buffer).to_string() == buffer);
            assert_eq!(of_these.map(|row| row.every).collect::<Vec<_>>(), [1, 2, 10]);
        }
    }
}
