//! Datagrams that wait for their time, and how those that are due leave in batches.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use quinn_udp::EcnCodepoint;

use super::socket::{Outgoing, Socket};
use crate::time::Time;

/// Through which socket and to whom a datagram leaves.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) socket: Arc<Socket>,
    pub(super) destination: SocketAddr,
    /// The address to send from, where the socket has several.
    pub(super) source: Option<IpAddr>,
}

impl Route {
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.socket, &other.socket)
            && self.destination == other.destination
            && self.source == other.source
    }
}

/// The waiting datagrams of one direction, the earliest first.
#[derive(Default)]
pub(super) struct Departures {
    heap: BinaryHeap<Waiting>,
    pushed: u64,
}

struct Waiting {
    due: Time,
    /// Keeps datagrams that are due together in their order of arrival.
    sequence: u64,
    route: Route,
    ecn: Option<EcnCodepoint>,
    contents: Box<[u8]>,
}

impl Departures {
    pub(super) fn push(&mut self, due: Time, route: Route, ecn: Option<EcnCodepoint>, contents: &[u8]) {
        let sequence = self.pushed;
        self.pushed += 1;
        self.heap.push(Waiting { due, sequence, route, ecn, contents: contents.into() });
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.heap.peek().map(|first| first.due)
    }

    /// Moves the first datagram that is due by `now` into `batch`, with those behind it that can
    /// leave in the same call: due as well, same route and codepoint, same size (the last may be shorter).
    /// The result says whether there was one.
    pub(super) fn take_due(&mut self, now: Time, batch: &mut Batch) -> bool {
        batch.clear();
        while let Some(next) = self.heap.peek() {
            if next.due > now || !batch.has_room_for(next) {
                break;
            }
            batch.add(self.heap.pop().expect("just peeked"));
        }
        !batch.due.is_empty()
    }
}

/// The reverse of (due, sequence): [`BinaryHeap`] puts the greatest on top.
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.sequence).cmp(&(self.due, self.sequence))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

/// Datagrams that leave in one call.
#[derive(Default)]
pub(super) struct Batch {
    route: Option<(Route, Option<EcnCodepoint>)>,
    segment: usize,
    contents: Vec<u8>,
    /// When each was due.
    due: Vec<Time>,
}

impl Batch {
    fn clear(&mut self) {
        self.route = None;
        self.contents.clear();
        self.due.clear();
    }

    fn has_room_for(&self, next: &Waiting) -> bool {
        let Some((route, ecn)) = &self.route else {
            return true;
        };
        let all_full = self.contents.len() == self.segment * self.due.len();
        all_full
            && self.due.len() < route.socket.max_segments()
            && (1..=self.segment).contains(&next.contents.len())
            && self.contents.len() + next.contents.len() <= MAX_BATCH_BYTES
            && *ecn == next.ecn
            && route.is_same(&next.route)
    }

    fn add(&mut self, waiting: Waiting) {
        if self.route.is_none() {
            self.segment = waiting.contents.len();
            self.route = Some((waiting.route, waiting.ecn));
        }
        self.contents.extend_from_slice(&waiting.contents);
        self.due.push(waiting.due);
    }

    /// Sends what was taken; tells for each datagram when it was due and whether the kernel took it.
    pub(super) fn send(&self) -> impl Iterator<Item = (Time, bool)> {
        let refused = self.route.as_ref().map_or(Vec::new(), |(route, ecn)| {
            route.socket.send(&Outgoing {
                destination: route.destination,
                source: route.source,
                ecn: *ecn,
                contents: &self.contents,
                segment: self.segment,
            })
        });
        self.due.iter().enumerate().map(move |(index, due)| (*due, !refused.contains(&index)))
    }
}

/// A UDP payload with IP and UDP headers must fit the 16-bit length of an IP packet, GSO or not.
const MAX_BATCH_BYTES: usize = 65_535 - 48;

#[cfg(test)]
mod tests {
    use super::*;

    fn route() -> Route {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Route {
            socket: Arc::new(Socket::bind(address).expect("loopback exists")),
            destination: SocketAddr::from(([127, 0, 0, 1], 9)),
            source: None,
        }
    }

    fn at(micros: u64) -> Time {
        Time::from_picos(micros * 1_000_000)
    }

    /// Pushes (due in µs, size), takes all that is due at 100 µs, and returns the sizes per batch.
    fn batches(datagrams: &[(u64, usize)]) -> Vec<Vec<usize>> {
        let (route, mut departures, mut batch) = (route(), Departures::default(), Batch::default());
        for &(due, size) in datagrams {
            departures.push(at(due), route.clone(), None, &vec![0; size]);
        }
        let mut found = Vec::new();
        while departures.take_due(at(100), &mut batch) {
            let chunks = batch.contents.chunks(batch.segment.max(1)).map(<[u8]>::len).collect::<Vec<_>>();
            found.push(if chunks.is_empty() { vec![0] } else { chunks });
        }
        found
    }

    #[test]
    fn what_is_not_due_stays() {
        assert_eq!(batches(&[(101, 10), (100, 10), (99, 10)]), [[10, 10]]);
    }

    #[test]
    fn a_shorter_datagram_ends_a_batch_and_a_longer_one_begins_the_next() {
        assert_eq!(
            batches(&[(1, 10), (2, 10), (3, 4), (4, 4), (5, 10)]),
            [vec![10, 10, 4], vec![4], vec![10]]
        );
    }

    #[test]
    fn empty_datagrams_travel_alone() {
        assert_eq!(batches(&[(1, 0), (2, 0), (3, 10), (4, 0)]), [[0], [0], [10], [0]]);
    }

    #[test]
    fn a_batch_fits_an_ip_packet() {
        let sizes = batches(&[(1, 30_000); 5]);
        assert_eq!(sizes.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    }

    #[test]
    fn codepoints_and_routes_do_not_mix() {
        let (route, other, mut departures) = (route(), route(), Departures::default());
        let ect0 = Some(EcnCodepoint::Ect0);
        departures.push(at(1), route.clone(), None, &[1]);
        departures.push(at(1), route.clone(), ect0, &[2]);
        departures.push(at(1), other, ect0, &[3]);
        let mut batch = Batch::default();
        for expected in [[1], [2], [3]] {
            assert!(departures.take_due(at(1), &mut batch));
            assert_eq!(batch.contents, expected);
        }
        assert_eq!(departures.next_due(), None);
    }
}
