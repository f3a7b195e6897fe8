//! The ledger: a record of each datagram from departure to its fate.
//!
//! `quinn-proto` names an acknowledged packet by its departure only, and a loss by the newest
//! departure and a byte count. Departures are unique (the core spaces them by a nanosecond at least),
//! so a departure *is* the packet's identity, and the lost set is exact: every outstanding packet
//! sent no later than the newest lost one. [`Audit`] counts where that could not be confirmed.
//!
//! Delivery samples follow draft-ietf-ccwg-bbr-06 §4.1, rounds §5.5.1, round-trip times RFC 9002 §5.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::delay::DelayFilter;
use super::missing::Missing;
use crate::signal::{Ack, Delay, DeliverySample, Loss, PacketNumber, Purpose, Rtt, Sent, Snapshot};
use crate::units::Bytes;

/// Send-time records and path totals of one path.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// In order of departure; a record stays until everything before it has met its fate.
    records: VecDeque<Record>,
    /// Where the record after the one acknowledged last is: most acknowledgements name the next one.
    after_acked: usize,
    /// Sum of `Record::outstanding`.
    outstanding: Bytes,
    /// Bytes in flight as the transport counts them, carried forward between its reports.
    in_flight: Bytes,
    delivered: Bytes,
    delivered_at: Instant,
    first_sent: Instant,
    lost: Bytes,
    spurious: Bytes,
    missing: Missing,
    /// The application, or the host, limits the sender until `delivered` exceeds this.
    app_limited_until: Option<Bytes>,
    round: u64,
    /// A round ends with the first acknowledgement of a packet sent after this much was delivered.
    next_round_delivered: Bytes,
    rtt: Option<Rtt>,
    delay: DelayFilter,
    /// Departure of the newest packet ever acknowledged.
    newest_acked: Option<Instant>,
    frame: AckFrame,
    lost_packets: Vec<Snapshot>,
    audit: Audit,
}

#[derive(Debug, Clone)]
struct Record {
    snapshot: Snapshot,
    /// What is still neither acknowledged nor lost; a datagram may hold several packets.
    outstanding: Bytes,
    purpose: Purpose,
    number: Option<PacketNumber>,
    /// Left twice: an acknowledgement does not tell which of the two arrived.
    is_copied: bool,
}

/// The ACK frame that is being read.
#[derive(Debug, Clone, Default)]
struct AckFrame {
    bytes: Bytes,
    packets: u32,
    newest: Option<Snapshot>,
}

/// How often the transport's report did not match the records. Nothing is added once the handshake is
/// over, unless the connection migrates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Audit {
    /// Acknowledgements of packets that are not on record (sent on an earlier path).
    pub unknown_acks: u64,
    /// Losses whose size differed from that of the records found, such as that of a datagram which had
    /// been taken for a forgotten one.
    pub inexact_losses: u64,
    /// Datagrams that vanished from the transport's own count without a report: it drops the
    /// handshake's packet number spaces, and withholds reports while it validates a path.
    pub forgotten: u64,
}

impl Ledger {
    /// An empty ledger for a path taken up at `now`.
    pub fn new(now: Instant) -> Self {
        Self {
            records: VecDeque::new(),
            after_acked: 0,
            outstanding: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            delivered: Bytes::ZERO,
            delivered_at: now,
            first_sent: now,
            lost: Bytes::ZERO,
            spurious: Bytes::ZERO,
            missing: Missing::default(),
            app_limited_until: None,
            round: 0,
            next_round_delivered: Bytes::ZERO,
            rtt: None,
            delay: DelayFilter::default(),
            newest_acked: None,
            frame: AckFrame::default(),
            lost_packets: Vec::new(),
            audit: Audit::default(),
        }
    }

    /// Totals and rounds go on, so that a law that goes on never sees them fall; packets are those of `now` on.
    pub fn rebound(&self, now: Instant) -> Self {
        let Self { delivered, lost, spurious, round, next_round_delivered, .. } = *self;
        Self { delivered, lost, spurious, round, next_round_delivered, ..Self::new(now) }
    }

    /// Books a departure. `None` for a datagram of acknowledgements alone, which is not in flight.
    pub fn on_sent(
        &mut self,
        sent: Instant,
        bytes: Bytes,
        purpose: Purpose,
        number: Option<PacketNumber>,
    ) -> Option<Sent> {
        if purpose == Purpose::AckOnly {
            return None;
        }
        if self.in_flight.is_zero() {
            self.first_sent = sent;
            self.delivered_at = sent;
        }
        self.in_flight += bytes;
        self.outstanding += bytes;
        if let Some(last) = self.records.back_mut().filter(|last| last.snapshot.sent == sent) {
            // Stock quinn sends several datagrams at one instant: they share a record, and a sample.
            last.snapshot.bytes += bytes;
            last.snapshot.tx_in_flight = self.in_flight;
            last.outstanding += bytes;
            let app_limited = last.snapshot.app_limited;
            return Some(Sent { now: sent, bytes, in_flight: self.in_flight, app_limited });
        }
        let snapshot = Snapshot {
            sent,
            bytes,
            tx_in_flight: self.in_flight,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            lost: self.lost,
            app_limited: self.app_limited_until.is_some(),
            round: self.round,
        };
        debug_assert!(self.records.back().is_none_or(|last| last.snapshot.sent < sent));
        self.records.push_back(Record { snapshot, outstanding: bytes, purpose, number, is_copied: false });
        Some(Sent { now: sent, bytes, in_flight: self.in_flight, app_limited: snapshot.app_limited })
    }

    /// Books that the datagram of this departure has left once more.
    pub fn on_copied(&mut self, sent: Instant) {
        if let Some(index) = self.find(sent) {
            self.records[index].is_copied = true;
        }
    }

    /// Books one newly acknowledged packet of the ACK frame at hand.
    pub fn on_acked(&mut self, sent: Instant, bytes: Bytes) {
        let Some(index) = self.find(sent) else {
            self.audit.unknown_acks += 1;
            return;
        };
        self.after_acked = index + 1;
        let record = &mut self.records[index];
        let bytes = bytes.min(record.outstanding);
        record.outstanding -= bytes;
        self.outstanding -= bytes;
        self.delivered += bytes;
        self.frame.bytes += bytes;
        self.frame.packets += 1;
        // What a copy may have brought says nothing about time.
        if !record.is_copied && self.frame.newest.is_none_or(|newest| newest.sent < sent) {
            self.frame.newest = Some(record.snapshot);
        }
    }

    /// Closes the ACK frame: what it says about the path, or `None` if it acknowledged nothing here, or
    /// nothing but copied packets, which are told with the next frame.
    pub fn on_ack_end(&mut self, now: Instant, in_flight: Bytes) -> Option<Ack> {
        self.in_flight = in_flight;
        self.reconcile();
        let newest = self.frame.newest?;
        let AckFrame { bytes, packets, .. } = std::mem::take(&mut self.frame);
        self.delivered_at = now;
        self.first_sent = newest.sent;
        let (rtt, delay) = self.measure_rtt(now, newest.sent);
        let round_start = newest.delivered >= self.next_round_delivered;
        if round_start {
            self.next_round_delivered = self.delivered;
            self.round += 1;
        }
        if self.app_limited_until.is_some_and(|until| self.delivered > until) {
            self.app_limited_until = None;
        }
        Some(Ack {
            now,
            bytes,
            packets,
            in_flight,
            newest,
            rtt,
            delay,
            sample: self.sample(now, &newest, rtt.min),
            delivered: self.delivered,
            lost: self.lost,
            round: self.round,
            round_start,
        })
    }

    /// Books a loss of `bytes`, the newest of them sent at `newest`; the lost packets, oldest first.
    ///
    /// The set is a prefix of what is outstanding, because both of `quinn-proto`'s loss thresholds
    /// are monotone in the packet number. Walking back from the newest until the bytes are found
    /// keeps it right during the handshake too, when other packet number spaces are outstanding.
    pub fn on_lost(&mut self, now: Instant, newest: Instant, bytes: Bytes, persistent: bool) -> Loss<'_> {
        self.lost_packets.clear();
        let mut found = Bytes::ZERO;
        let end = self.records.partition_point(|record| record.snapshot.sent <= newest);
        for record in self.records.range_mut(..end).rev() {
            if found >= bytes {
                break;
            }
            if record.outstanding.is_zero() || record.purpose == Purpose::MtuProbe {
                continue;
            }
            // The handshake's datagrams hold several packets, which are lost one by one.
            let lost = record.outstanding.min(bytes - found);
            found += lost;
            record.outstanding -= lost;
            self.lost_packets.push(record.snapshot);
            // Of a copied packet the copy may arrive, though the loss was none the less real.
            if let Some(number) = record.number.filter(|_| !record.is_copied) {
                self.missing.insert(now, number, record.snapshot);
            }
        }
        self.lost_packets.reverse();
        // The probe of a search that was given up is lost like other packets, and says as little as ever.
        let probe = if found < bytes { self.take_probe() } else { Bytes::ZERO };
        self.audit.inexact_losses += u64::from(found + probe != bytes);
        self.outstanding -= found;
        self.in_flight -= found;
        self.lost += found;
        self.forget_settled();
        Loss {
            now,
            packets: &self.lost_packets,
            bytes: found,
            in_flight: self.in_flight,
            lost: self.lost,
            persistent,
        }
    }

    /// A lost packet of these numbers that has arrived after all, each once.
    pub fn take_late(&mut self, now: Instant, first: PacketNumber, last: PacketNumber) -> Option<Snapshot> {
        self.missing.forget(now, self.rtt);
        let packet = self.missing.take(first, last)?;
        self.spurious += packet.bytes;
        Some(packet)
    }

    /// Takes the outstanding path MTU probe off the books: its loss is no sign of congestion.
    pub fn on_probe_lost(&mut self) {
        self.take_probe();
        self.forget_settled();
    }

    /// The application has nothing to send, or the host comes too late to send it: samples of what is in
    /// flight are lower bounds only.
    pub fn mark_app_limited(&mut self) {
        self.app_limited_until = Some((self.delivered + self.in_flight).max(Bytes::new(1)));
    }

    /// Whether samples of what leaves now will be lower bounds only.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }

    /// Bytes in flight.
    pub fn in_flight(&self) -> Bytes {
        self.in_flight
    }

    /// Bytes delivered so far.
    pub fn delivered(&self) -> Bytes {
        self.delivered
    }

    /// Bytes declared lost so far.
    pub fn lost(&self) -> Bytes {
        self.lost
    }

    /// Bytes of them that arrived after all.
    pub fn spurious(&self) -> Bytes {
        self.spurious
    }

    /// Round-trip times, once measured.
    pub fn rtt(&self) -> Option<Rtt> {
        self.rtt
    }

    /// What round-trip times say about queues.
    pub fn delay(&self) -> Delay {
        self.delay.get()
    }

    /// Departure of the oldest datagram in flight.
    pub fn oldest(&self) -> Option<Instant> {
        self.records.front().map(|record| record.snapshot.sent)
    }

    /// How well reports and records matched.
    pub fn audit(&self) -> Audit {
        self.audit
    }

    fn find(&self, sent: Instant) -> Option<usize> {
        match self.records.get(self.after_acked) {
            Some(record) if record.snapshot.sent == sent => Some(self.after_acked),
            _ => self.records.binary_search_by_key(&sent, |record| record.snapshot.sent).ok(),
        }
    }

    /// Takes the outstanding path MTU probe off the books; its size.
    fn take_probe(&mut self) -> Bytes {
        let probe = self
            .records
            .iter_mut()
            .find(|record| record.purpose == Purpose::MtuProbe && !record.outstanding.is_zero());
        let bytes = probe.map_or(Bytes::ZERO, |record| std::mem::take(&mut record.outstanding));
        self.outstanding -= bytes;
        self.in_flight -= bytes;
        bytes
    }

    fn measure_rtt(&mut self, now: Instant, sent: Instant) -> (Rtt, Delay) {
        let latest = now.saturating_duration_since(sent);
        // RFC 9002 §5.1: only an ACK that newly acknowledges the largest packet gives a sample.
        let is_newest = self.newest_acked.is_none_or(|newest| newest < sent);
        let rtt = match self.rtt {
            Some(rtt) if !is_newest => rtt,
            Some(rtt) => Rtt {
                latest,
                min: rtt.min.min(latest),
                smoothed: (rtt.smoothed * 7 + latest) / 8,
                deviation: (rtt.deviation * 3 + rtt.smoothed.abs_diff(latest)) / 4,
            },
            None => Rtt { latest, min: latest, smoothed: latest, deviation: latest / 2 },
        };
        self.rtt = Some(rtt);
        if !is_newest {
            return (rtt, self.delay.get());
        }
        self.newest_acked = Some(sent);
        (rtt, self.delay.on_sample(sent, latest))
    }

    /// draft-ietf-ccwg-bbr-06 §4.1.2.3: the slower of sending and acknowledging, so that compressed
    /// ACKs do not inflate the rate; shorter than the least round trip proves nothing.
    fn sample(&self, now: Instant, newest: &Snapshot, min_rtt: Duration) -> Option<DeliverySample> {
        let send_elapsed = newest.sent.saturating_duration_since(newest.first_sent);
        let ack_elapsed = now.saturating_duration_since(newest.delivered_at);
        let interval = send_elapsed.max(ack_elapsed);
        if interval < min_rtt || interval.is_zero() {
            return None;
        }
        let delivered = self.delivered - newest.delivered;
        Some(DeliverySample {
            rate: delivered / interval,
            delivered,
            lost: self.lost - newest.lost,
            interval,
            app_limited: newest.app_limited,
        })
    }

    /// Takes off the books what the transport no longer counts, oldest first: it lets the handshake's
    /// spaces go without a report, and those are the oldest datagrams.
    fn reconcile(&mut self) {
        let mut excess = self.outstanding - self.in_flight;
        for record in &mut self.records {
            if excess.is_zero() {
                break;
            }
            if record.outstanding.is_zero() {
                continue;
            }
            let gone = record.outstanding.min(excess);
            record.outstanding -= gone;
            self.outstanding -= gone;
            excess -= gone;
            self.audit.forgotten += 1;
        }
        self.forget_settled();
    }

    fn forget_settled(&mut self) {
        while self.records.front().is_some_and(|record| record.outstanding.is_zero()) {
            self.records.pop_front();
            self.after_acked = self.after_acked.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
