//! What losses were found to mean, summed up.

use crate::signal::{Verdict, VerdictKind};
use crate::units::Bytes;

/// The losses of a path by what each was found to mean when it was declared, and its marks. One that turns out
/// to be none stays where it was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Losses {
    /// Loss that does not follow the queue.
    pub scatter: Lost,
    /// Many losses together without a queue.
    pub burst: Lost,
    /// A queue overflowed.
    pub congestion: Lost,
    /// Nothing arrived during three probe timeouts (RFC 9002 §7.6).
    pub persistent: Lost,
    /// Packets that a queue marked instead of dropping them (ECN), as the peer counts them.
    pub marked: u64,
}

/// Losses of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// How many packets.
    pub packets: u64,
    /// Their size.
    pub bytes: Bytes,
}

impl Losses {
    /// Books a finding.
    pub fn on_verdict(&mut self, verdict: &Verdict) {
        let packets = u64::from(verdict.packets);
        let kind = match verdict.kind {
            VerdictKind::Mark => return self.marked += packets,
            VerdictKind::Scatter => &mut self.scatter,
            VerdictKind::Burst => &mut self.burst,
            VerdictKind::Congestion => &mut self.congestion,
            VerdictKind::Persistent => &mut self.persistent,
        };
        kind.packets += packets;
        kind.bytes += verdict.bytes;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::test_clock::t0;

    fn verdict(kind: VerdictKind, packets: u32, bytes: u64) -> Verdict {
        Verdict { now: t0(), kind, newest: t0(), packets, bytes: Bytes::new(bytes), queue: Duration::ZERO }
    }

    #[test]
    fn each_kind_has_its_own_sum_and_marks_have_no_size() {
        let mut losses = Losses::default();
        for (kind, packets, bytes) in [
            (VerdictKind::Scatter, 1, 1_452),
            (VerdictKind::Burst, 20, 29_040),
            (VerdictKind::Congestion, 3, 4_356),
            (VerdictKind::Scatter, 2, 2_904),
            (VerdictKind::Persistent, 7, 8_400),
            (VerdictKind::Mark, 5, 0),
            (VerdictKind::Mark, 6, 0),
        ] {
            losses.on_verdict(&verdict(kind, packets, bytes));
        }
        let lost = |packets, bytes| Lost { packets, bytes: Bytes::new(bytes) };
        assert_eq!((losses.scatter, losses.burst), (lost(3, 4_356), lost(20, 29_040)));
        assert_eq!((losses.congestion, losses.persistent), (lost(3, 4_356), lost(7, 8_400)));
        assert_eq!(losses.marked, 11);
    }
}
