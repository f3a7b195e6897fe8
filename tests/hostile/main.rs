//! Hostile input to the sans-IO core. The fuzz targets of `fuzz/` use the same doors.

#[path = "../common/mod.rs"]
mod common;

mod feedback;
mod strangers;

use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn whatever_strangers_send_the_peer_is_served(
        strangers in vec((any::<bool>(), 0_u8..5, 0_u8..40, 0_u16..1500, vec(any::<u8>(), 0..50)), 0..30),
    ) {
        strangers::meet(&strangers);
    }

    #[test]
    fn no_ack_frame_stops_a_law_or_unbalances_the_books(
        steps in vec((any::<u8>(), any::<u64>(), prop_oneof![any::<u64>(), 0_u64..1000]), 0..200),
    ) {
        feedback::feed(&steps);
    }
}
