//! Hostile peers. What reads bytes goes through the doors of the fuzz targets (`strangers`, `established`,
//! `feedback`, and `seeds`, which replays what the fuzzers keep). The rest are peers that follow the letter: `floods`
//! of clients in virtual time, `acks` that lie, what a peer may `hoard`, and the `door` on a real socket.

#[path = "../common/mod.rs"]
mod common;

mod acks;
mod crowd;
mod door;
mod established;
mod feedback;
mod floods;
mod hoard;
#[path = "../../sim/src/host/null_crypto.rs"]
mod null_crypto;
mod seeds;
mod strangers;

use proptest::collection::vec;
use proptest::prelude::*;

/// Of all types, those of ACK frames more often; fields small or of any size.
fn frame() -> impl Strategy<Value = established::Frame> {
    let kind = prop_oneof![0_u8..0x20, 2_u8..4, any::<u8>()];
    let field = prop_oneof![0_u64..8, 0_u64..2000, any::<u64>()];
    (kind, vec(field, 0..8), vec(any::<u8>(), 0..30))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn whatever_strangers_send_the_peer_is_served(
        strangers in vec((any::<bool>(), 0_u8..5, 0_u8..40, 0_u16..1500, vec(any::<u8>(), 0..50)), 0..30),
    ) {
        strangers::meet(&strangers);
    }

    #[test]
    fn whatever_a_peer_says_its_connection_ends_or_goes_on(
        packets in vec(vec(frame(), 0..4), 0..20),
    ) {
        let payloads: Vec<_> = packets.iter().map(|frames| established::payload(frames)).collect();
        established::meet(&payloads);
    }

    #[test]
    fn no_ack_frame_stops_a_law_or_unbalances_the_books(
        steps in vec((any::<u8>(), any::<u64>(), prop_oneof![any::<u64>(), 0_u64..1000]), 0..200),
    ) {
        feedback::feed(&steps);
    }
}
