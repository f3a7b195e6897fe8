//! What a server of many small answers sees of the default law.

use warprate::Law;

use crate::common::pair::{Pair, ms, setup};

#[test]
fn small_answers_with_pauses_take_one_round_trip_each() {
    let mut pair = Pair::connected(ms(20), setup(Law::warprate(99)), setup(Law::warprate(1)));
    for number in 0..40 {
        let asked = pair.now;
        pair.download(20_000);
        assert!(pair.run_until(ms(10_000), |pair| pair.client.is_finished), "answer {number}");
        let took = pair.now - asked;
        assert!(took <= ms(40), "answer {number} took {took:?}");
        pair.run(ms(300));
    }
}
