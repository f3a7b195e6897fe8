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
