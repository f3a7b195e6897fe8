//! What a connection did: the public [`ConnectionStats`], and the counters from which the core reads
//! what the state machine does not report.

use quinn_proto::FrameStats;

use super::config::Law;
use super::limits::{Blocked, Limit};
use super::resequencer::ArrivalOrder;
use super::tail::Copies;
use crate::control::Control;
use crate::loss::{Audit, Losses};
use crate::signal::{Delay, DeliverySample, Plan, Purpose, Rtt};
use crate::units::{Bytes, Rate};

/// A connection's statistics.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// The present path.
    pub path: PathStats,
    /// For how long the sender was held back, by what held it, when the connection was last polled.
    pub blocked: Blocked,
    /// What left twice, on all paths. The state machine does not count it.
    pub copies: Copies,
    /// In which order the peer's datagrams have come.
    pub order: ArrivalOrder,
    /// The state machine's own counters. Its `path.cwnd` is the gate, not a window; see
    /// [`PathStats::window`].
    pub proto: quinn_proto::ConnectionStats,
}

/// What is known of the present path.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PathStats {
    /// Round-trip times, once measured.
    pub rtt: Option<Rtt>,
    /// Least round-trip time of late, how much it varies by itself, and the queue that stands above both.
    pub delay: Delay,
    /// Rate at which packets leave: the law's, bounded by the anchor. Counts UDP payload.
    pub pacing_rate: Rate,
    /// How fast the path delivered at the last acknowledgement that proves it. If `app_limited`, what it can
    /// do is more.
    pub delivery: Option<DeliverySample>,
    /// Bound on bytes in flight.
    #[doc(alias = "cwnd")]
    pub window: Bytes,
    /// Bytes in flight.
    pub in_flight: Bytes,
    /// Bytes acknowledged.
    pub delivered: Bytes,
    /// Bytes declared lost.
    pub lost: Bytes,
    /// What the losses were found to mean, and how many packets were marked.
    pub losses: Losses,
    /// Bytes of them that arrived after all: packets overtaken by others, or delayed.
    pub spurious: Bytes,
    /// Bytes that the plan allowed and the host was too late to send, and that were not made up: its processors
    /// were busy, its send buffer full, or other connections had the interface. The law does not take it for
    /// the path's doing.
    pub missed: Bytes,
    /// Size of a full datagram.
    pub datagram: Bytes,
    /// What holds the sender back.
    pub limit: Limit,
    /// The law's present state.
    pub state: &'static str,
    /// How well the state machine's reports matched our records.
    pub audit: Audit,
}

/// A connection's congestion controller.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CongestionState {
    /// The law that was chosen.
    pub law: Law,
    /// Its present state.
    pub state: &'static str,
    /// How fast and how much in flight it wants the path to be used.
    pub plan: Plan,
}

impl ConnectionStats {
    pub(super) fn new(
        control: &Control,
        (limit, blocked): (Limit, Blocked),
        (copies, order): (Copies, ArrivalOrder),
        proto: quinn_proto::ConnectionStats,
    ) -> Self {
        let ledger = control.ledger();
        let path = PathStats {
            rtt: ledger.rtt(),
            delay: ledger.delay(),
            pacing_rate: control.pacing_rate(),
            delivery: control.delivery(),
            window: control.plan().window,
            in_flight: ledger.in_flight(),
            delivered: ledger.delivered(),
            lost: ledger.lost(),
            losses: control.losses(),
            spurious: ledger.spurious(),
            missed: control.missed(),
            datagram: control.datagram(),
            limit,
            state: control.state(),
            audit: ledger.audit(),
        };
        Self { path, blocked, copies, order, proto }
    }
}

/// The state machine's counters that tell what a datagram was.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    eliciting_sent: u64,
    pings_sent: u64,
    acks_sent: u64,
    challenges_sent: u64,
    probes_sent: u64,
    probes_lost: u64,
    eliciting_received: u64,
    acks_received: u64,
}

impl Tally {
    pub fn read(connection: &quinn_proto::Connection) -> Self {
        let stats = connection.stats();
        Self {
            eliciting_sent: ack_eliciting(&stats.frame_tx),
            pings_sent: stats.frame_tx.ping,
            acks_sent: stats.frame_tx.acks,
            challenges_sent: stats.frame_tx.path_challenge,
            probes_sent: stats.path.sent_plpmtud_probes,
            probes_lost: stats.path.lost_plpmtud_probes,
            eliciting_received: ack_eliciting(&stats.frame_rx),
            acks_received: stats.frame_rx.acks,
        }
    }

    /// Ack-eliciting frames received so far.
    pub fn received(&self) -> u64 {
        self.eliciting_received
    }

    /// What the datagram polled since `before` was for.
    ///
    /// A challenge to the path before the present one is the only ack-eliciting datagram that the
    /// state machine does not track.
    pub fn purpose_since(&self, before: &Self, is_on_path: bool) -> Purpose {
        if self.probes_sent > before.probes_sent {
            Purpose::MtuProbe
        } else if self.eliciting_sent == before.eliciting_sent
            || (!is_on_path && self.challenges_sent > before.challenges_sent)
        {
            Purpose::AckOnly
        } else {
            Purpose::Data
        }
    }

    /// Whether the peer has said anything since `before`.
    pub fn heard_since(&self, before: &Self) -> bool {
        self.eliciting_received > before.eliciting_received || self.acks_received > before.acks_received
    }

    /// Whether a ping has left since `before`.
    pub fn has_pinged_since(&self, before: &Self) -> bool {
        self.pings_sent > before.pings_sent
    }

    /// Whether acknowledgements have left since `before`.
    pub fn acknowledged_since(&self, before: &Self) -> bool {
        self.acks_sent > before.acks_sent
    }

    /// Whether a path MTU probe was declared lost since `before`.
    pub fn lost_probe_since(&self, before: &Self) -> bool {
        self.probes_lost > before.probes_lost
    }
}

/// Frames other than ACK and CONNECTION_CLOSE elicit an acknowledgement (RFC 9002 §2).
fn ack_eliciting(frames: &FrameStats) -> u64 {
    frames.ack_frequency
        + frames.crypto
        + frames.data_blocked
        + frames.datagram
        + u64::from(frames.handshake_done)
        + frames.immediate_ack
        + frames.max_data
        + frames.max_stream_data
        + frames.max_streams_bidi
        + frames.max_streams_uni
        + frames.new_connection_id
        + frames.new_token
        + frames.path_challenge
        + frames.path_response
        + frames.ping
        + frames.reset_stream
        + frames.retire_connection_id
        + frames.stream_data_blocked
        + frames.streams_blocked_bidi
        + frames.streams_blocked_uni
        + frames.stop_sending
        + frames.stream
}
