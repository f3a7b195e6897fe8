//! The reactive oracle: what a sender that knows the path could reach.
//!
//! *What it decides:* the time that a transfer takes "for a sender that paces at the bottleneck
//! from the first instant and repairs each lost packet one RTT after it was sent". *In:* the path, the
//! transfer and the seed. *Out:* a duration to divide others' times by. It runs the same forward
//! [`Link`] with the same seed that a simulation would. *May import:* `link`, `path`, `time`.
//!
//! It never fills the queue, always knows after one base RTT (the two-way delay of the moment plus a
//! full packet's own serialisation) that a packet was lost, and never loses an acknowledgement. It
//! sends nothing twice in advance, so a sender that adds redundancy at the tail can beat it; so
//! can one that waits for a delay to shrink. Outages and slots of the reverse link do not hold its
//! knowledge up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use warpunits::Bytes;

use crate::link::{Fate, Link, wire_bytes};
use crate::path::PathProfile;
use crate::time::Time;

/// What the oracle is to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Stream bytes in all.
    pub bytes: Bytes,
    /// UDP payload of a full datagram; it travels over IPv4.
    pub datagram: Bytes,
    /// Stream bytes in a full datagram; the rest of it is the protocol's overhead, which the last,
    /// shorter datagram carries too.
    pub stream_per_datagram: Bytes,
}

/// The time from the departure of the first datagram to the moment when the last byte is readable
/// at the receiver, that is, when every datagram has arrived.
///
/// [`Duration::MAX`] when that never happens: the path loses everything or datagrams hold no data.
pub fn oracle(path: &PathProfile, transfer: &Transfer, seed: u64) -> Duration {
    let datagrams = datagrams(transfer);
    match datagrams {
        Some(0) => return Duration::ZERO,
        Some(count) if path.forward.loss() < crate::Probability::ONE => {
            run(path.links(seed).0, path, transfer, count)
        }
        _ => Time::NEVER,
    }
    .since_start()
}

/// How many datagrams the transfer needs; `None` when no number of them is enough.
fn datagrams(transfer: &Transfer) -> Option<u64> {
    match (transfer.bytes.get(), transfer.stream_per_datagram.get()) {
        (0, _) => Some(0),
        (_, 0) => None,
        (bytes, per_datagram) => Some(bytes.div_ceil(per_datagram)),
    }
}

/// Sends `count` datagrams and returns when the last arrives.
fn run(mut link: Link, path: &PathProfile, transfer: &Transfer, count: u64) -> Time {
    let full = wire_bytes(transfer.datagram, false);
    let last_stream_bytes = transfer.bytes - transfer.stream_per_datagram.times(count - 1);
    let last = full - (transfer.stream_per_datagram - last_stream_bytes);
    let size = |index| if index + 1 == count { last } else { full };
    // When the sender knows of the loss of what it began to send at `now`.
    let known = |now| {
        let departed = path.forward.finish(now, full);
        let arrived = departed + path.forward.delay_at(departed).into();
        arrived + path.reverse.delay_at(arrived).into()
    };

    let mut next_fresh = 0;
    // Lost datagrams by the moment when the sender knows, then in the order of sending. A delay that
    // shrinks lets it know of a later one first.
    let mut repairs: BinaryHeap<Reverse<(Time, u64, u64)>> = BinaryHeap::new();
    let mut lost = 0;
    let mut finished = Time::START;
    loop {
        let idle = link.idle_at();
        let (now, index) = match (repairs.peek().copied(), next_fresh < count) {
            (Some(Reverse((known, _, index))), more) if known <= idle || !more => {
                repairs.pop();
                (known.max(idle), index)
            }
            (_, true) => {
                next_fresh += 1;
                (idle, next_fresh - 1)
            }
            (_, false) => return finished,
        };
        match link.offer(now, size(index)) {
            Fate::Delivered { at, .. } => finished = finished.max(at),
            Fate::Lost(_) => {
                repairs.push(Reverse((known(now), lost, index)));
                lost += 1;
            }
        }
    }
}
