//! Assembles datagrams that were polled one by one into GSO batches.

use quinn_proto::Transmit;

use crate::units::Bytes;

/// Bounds of one batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchLimits {
    /// Most bytes.
    pub bytes: Bytes,
    /// Most datagrams.
    pub segments: usize,
}

/// A batch under construction in the caller's buffer.
pub(super) struct Batch<'a> {
    buf: &'a mut Vec<u8>,
    limits: BatchLimits,
    transmit: Option<Transmit>,
    /// A datagram shorter than the others ends a batch.
    is_closed: bool,
}

impl<'a> Batch<'a> {
    pub fn new(buf: &'a mut Vec<u8>, limits: BatchLimits) -> Self {
        buf.clear();
        Self { buf, limits, transmit: None, is_closed: false }
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.transmit.is_none()
    }

    /// Whether one more datagram of the batch's size may be added.
    pub fn has_room(&self) -> bool {
        let Some(first) = &self.transmit else { return true };
        let segment = first.segment_size.unwrap_or(first.size);
        let segments = self.buf.len().div_ceil(segment.max(1));
        !self.is_closed
            && segments < self.limits.segments
            && Bytes::of_len(self.buf.len() + segment) <= self.limits.bytes
    }

    /// Adds a datagram; `false` leaves it to the next batch because it goes elsewhere, is marked
    /// differently, or is longer than the ones before it.
    pub fn push(&mut self, transmit: &Transmit, datagram: &[u8]) -> bool {
        let Some(first) = &mut self.transmit else {
            self.buf.extend_from_slice(datagram);
            self.transmit = Some(Transmit { segment_size: None, ..copy(transmit) });
            return true;
        };
        let segment = first.segment_size.unwrap_or(first.size);
        let is_alike = transmit.destination == first.destination
            && transmit.ecn == first.ecn
            && transmit.src_ip == first.src_ip
            && datagram.len() <= segment;
        if is_alike {
            self.buf.extend_from_slice(datagram);
            first.segment_size = Some(segment);
            first.size = self.buf.len();
            self.is_closed = datagram.len() < segment;
        }
        is_alike
    }

    /// The batch, if there is one.
    pub fn finish(self) -> Option<Transmit> {
        self.transmit
    }
}

/// `Transmit` is plain data without `Clone`.
fn copy(transmit: &Transmit) -> Transmit {
    Transmit {
        destination: transmit.destination,
        ecn: transmit.ecn,
        size: transmit.size,
        segment_size: transmit.segment_size,
        src_ip: transmit.src_ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(len: usize, port: u16) -> (Transmit, Vec<u8>) {
        let transmit = Transmit {
            destination: ([127, 0, 0, 1], port).into(),
            ecn: None,
            size: len,
            segment_size: None,
            src_ip: None,
        };
        (transmit, vec![7; len])
    }

    /// Offers datagrams of these lengths; how many were taken, and the batch.
    fn assemble(limits: BatchLimits, lengths: &[usize]) -> (usize, Transmit) {
        let mut buf = Vec::new();
        let mut batch = Batch::new(&mut buf, limits);
        let mut taken = 0;
        for &len in lengths {
            let (transmit, data) = datagram(len, 1);
            if !batch.has_room() || !batch.push(&transmit, &data) {
                break;
            }
            taken += 1;
        }
        let transmit = batch.finish().expect("at least one datagram was offered");
        assert_eq!(buf.len(), transmit.size);
        (taken, transmit)
    }

    const LIMITS: BatchLimits = BatchLimits { bytes: Bytes::new(65_507), segments: 64 };

    #[test]
    fn equal_datagrams_share_a_batch_and_a_shorter_one_ends_it() {
        let (taken, transmit) = assemble(LIMITS, &[1452, 1452, 300, 300]);
        assert_eq!((taken, transmit.size, transmit.segment_size), (3, 3204, Some(1452)));
    }

    #[test]
    fn a_longer_datagram_waits_for_the_next_batch() {
        let (taken, transmit) = assemble(LIMITS, &[40, 1452]);
        assert_eq!((taken, transmit.size, transmit.segment_size), (1, 40, None));
    }

    #[test]
    fn limits_hold() {
        let lengths = [1452; 100];
        assert_eq!(assemble(LIMITS, &lengths).0, 45);
        assert_eq!(assemble(BatchLimits { segments: 10, ..LIMITS }, &lengths).0, 10);
        assert_eq!(assemble(BatchLimits { bytes: Bytes::new(3125), ..LIMITS }, &lengths).0, 2);
    }

    #[test]
    fn a_batch_has_one_destination() {
        let mut buf = Vec::new();
        let mut batch = Batch::new(&mut buf, LIMITS);
        let (first, data) = datagram(100, 1);
        let (other, _) = datagram(100, 2);
        assert!(batch.push(&first, &data) && !batch.push(&other, &data));
    }
}
