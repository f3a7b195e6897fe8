//! Acknowledgements that wait behind the gate.
//!
//! `quinn-proto` sends a pure acknowledgement only while nothing ack-eliciting is queued. Behind a
//! shut gate with data waiting, the peer's packets would stay unacknowledged for as long as our own
//! pacing or window takes. So when the peer's data has arrived and the gate has been shut for a quarter
//! of the maximum ACK delay, one datagram is let out, and the pacer books it as debt.
//!
//! The leak is bounded: one datagram per quarter of the ACK delay, none while more than two are owed
//! (then the acknowledgement rides on the next paced datagram), and at most four beyond the window.

use std::time::{Duration, Instant};

use crate::units::Bytes;

/// Since when the peer has been waiting.
#[derive(Debug, Default)]
pub(super) struct AckDebt {
    owed_since: Option<Instant>,
    /// Ack-eliciting frames received when acknowledgements were last sent.
    acknowledged: u64,
}

impl AckDebt {
    /// The peer has sent `received` ack-eliciting frames so far.
    pub fn on_received(&mut self, now: Instant, received: u64) {
        if received > self.acknowledged {
            self.owed_since.get_or_insert(now);
        }
    }

    /// Acknowledgements left, for all that was received.
    pub fn on_acknowledged(&mut self, received: u64) {
        self.acknowledged = received;
        self.owed_since = None;
    }

    /// The gate is open for a datagram. Should it not take the acknowledgements along, then
    /// `quinn-proto` does not find them due yet, and patience starts anew.
    pub fn on_opened(&mut self, now: Instant) {
        if let Some(since) = &mut self.owed_since {
            *since = now;
        }
    }

    /// When one datagram may pass the shut gate, if any may.
    ///
    /// `paced` is what the pacer is owed, `beyond` what is in flight above the window.
    pub fn due(&self, datagram: Bytes, paced: Bytes, beyond: Bytes) -> Option<Instant> {
        let is_bounded =
            paced <= datagram.times(MOST_OWED) && beyond + datagram <= datagram.times(MOST_BEYOND);
        self.owed_since.filter(|_| is_bounded).map(|since| since + PATIENCE)
    }
}

/// A quarter of the maximum ACK delay that `quinn-proto` announces (25 ms, RFC 9000 §18.2).
const PATIENCE: Duration = Duration::from_micros(6_250);

/// Datagrams that the pacer may be owed when one more is let out.
const MOST_OWED: u64 = 2;

/// Datagrams that may be in flight above the window.
const MOST_BEYOND: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::{ms, t0, us};

    const DATAGRAM: Bytes = Bytes::new(1452);

    #[test]
    fn the_peer_waits_a_quarter_of_its_ack_delay() {
        let mut debt = AckDebt::default();
        assert_eq!(debt.due(DATAGRAM, Bytes::ZERO, Bytes::ZERO), None);
        debt.on_received(t0(), 3);
        debt.on_received(t0() + ms(5), 4);
        assert_eq!(debt.due(DATAGRAM, Bytes::ZERO, Bytes::ZERO), Some(t0() + us(6_250)));
        debt.on_acknowledged(4);
        debt.on_received(t0() + ms(7), 4);
        assert_eq!(debt.due(DATAGRAM, Bytes::ZERO, Bytes::ZERO), None);
    }

    #[test]
    fn the_leak_is_bounded() {
        let mut debt = AckDebt::default();
        debt.on_received(t0(), 1);
        assert_eq!(debt.due(DATAGRAM, DATAGRAM.times(3), Bytes::ZERO), None);
        assert_eq!(debt.due(DATAGRAM, Bytes::ZERO, DATAGRAM.times(4)), None);
    }

    #[test]
    fn an_open_gate_starts_patience_anew() {
        let mut debt = AckDebt::default();
        debt.on_opened(t0());
        assert_eq!(debt.due(DATAGRAM, Bytes::ZERO, Bytes::ZERO), None);
        debt.on_received(t0(), 1);
        debt.on_opened(t0() + ms(5));
        assert_eq!(debt.due(DATAGRAM, Bytes::ZERO, Bytes::ZERO), Some(t0() + us(11_250)));
    }
}
