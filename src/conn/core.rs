//! The core of a connection: `quinn-proto`'s state machine under our control loop, without a socket
//! and without a clock.
//!
//! *What it decides:* when a datagram may leave, as [`Control`] says, and what was learned from it.
//! *In:* events, timeouts, and `now`. *Out:* batches of datagrams.
//!
//! Four verbs, as in `quinn-proto`: [`handle_event`](Core::handle_event),
//! [`handle_timeout`](Core::handle_timeout), [`poll_transmit`](Core::poll_transmit) and
//! [`poll_timeout`](Core::poll_timeout); and [`handle_datagram`](Core::handle_datagram), which puts datagrams in
//! order where they come late. Call `poll_transmit` until it returns nothing after each that begins with
//! `handle`, after `poll_timeout`'s instant, and after the application has written or read.
//!
//! Every datagram is polled by itself, with a departure of its own that is at least a nanosecond after
//! the one before. That makes the departure its identity, and the ledger exact.

mod arrivals;
mod paths;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::{
    ConnectError, ConnectionError, ConnectionEvent, ConnectionHandle, EndpointEvent, Event, Incoming,
    Transmit, VarInt,
};

use self::paths::new_control;
use super::ack_debt::AckDebt;
use super::batch::{Batch, BatchLimits};
use super::config::{ClientHandshake, Law, LawKind, TransportConfig};
use super::crypto::TappedServer;
use super::limits::{Limit, Limits};
use super::resequencer::Resequencer;
use super::stats::{CongestionState, ConnectionStats, Tally};
use super::tail::{Name, Tail};
use super::tap::{Entry, Shared, foreign_plan};
use crate::control::Control;
use crate::loss::{RecoveryClock, Waiting};
use crate::signal::{Feedback, PathId, Plan, Purpose, Release};
use crate::units::{Bytes, Rate};

/// How a connection is to behave.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The congestion controller.
    pub law: Law,
    /// Most that the connection may ever send at: the line rate of its interface.
    pub anchor: Rate,
    /// Windows, timeouts and limits.
    pub transport: TransportConfig,
}

/// A connection without a socket.
pub struct Core {
    inner: quinn_proto::Connection,
    tap: Arc<Shared>,
    resequencer: Resequencer<ConnectionEvent>,
    /// Datagrams that have come since the last full one.
    since_full: u32,
    setup: Setup,
    path: PathId,
    control: Control,
    /// The last path that proved valid, restored if the present one fails its validation.
    previous: Option<(PathId, Control)>,
    recovery: RecoveryClock,
    ack_debt: AckDebt,
    tail: Tail,
    limits: Limits,
    tally: Tally,
    /// When the state machine was last told something whose consequences are still in the log.
    told_at: Option<Instant>,
    /// Departure of the first datagram that the peer has answered with nothing.
    unanswered_since: Option<Instant>,
    /// When a client's handshake has taken too long.
    handshake_until: Option<Instant>,
    /// Why we have given the connection up, until the application is told.
    lost: Option<ConnectionError>,
    is_write_blocked: bool,
    /// The application uses the connection before its handshake is complete.
    is_early: bool,
    /// The handshake may want to answer, and must not wait behind what the application sends early.
    owes_handshake: bool,
    /// Departure of the newest datagram.
    last_sent: Instant,
    /// When the newest feedback was noticed.
    heard_at: Instant,
    log: Vec<Entry>,
    /// Departure of the last batch's first datagram.
    departure: Instant,
    /// The send window in force.
    pub(super) send_window: Bytes,
    /// The datagram polled last; it stays here when it did not fit the batch.
    datagram: Vec<u8>,
    held: Option<Transmit>,
    /// Its name, if it may leave twice.
    name: Option<Name>,
}

/// Starts a connection from `endpoint` to `remote`.
pub fn connect(
    endpoint: &mut quinn_proto::Endpoint,
    now: Instant,
    handshake: &ClientHandshake,
    setup: &Setup,
    remote: SocketAddr,
    server_name: &str,
) -> Result<(ConnectionHandle, Core), ConnectError> {
    let tap = Shared::new();
    let mut config = handshake.to_proto(tap.clone());
    config.transport_config(Arc::new(setup.transport.to_proto(&setup.law, tap.clone())));
    let (handle, inner) = endpoint.connect(now, config, remote, server_name)?;
    Ok((handle, Core::new(inner, tap, setup.clone(), now)))
}

/// Takes up a connection that a client has begun. What must be answered on failure is left in `buf`.
#[expect(clippy::result_large_err, reason = "the error is quinn-proto's")]
pub fn accept(
    endpoint: &mut quinn_proto::Endpoint,
    now: Instant,
    mut config: quinn_proto::ServerConfig,
    setup: &Setup,
    incoming: Incoming,
    buf: &mut Vec<u8>,
) -> Result<(ConnectionHandle, Core), quinn_proto::AcceptError> {
    let tap = Shared::new();
    config.transport_config(Arc::new(setup.transport.to_proto(&setup.law, tap.clone())));
    config.crypto = Arc::new(TappedServer { inner: config.crypto, shared: tap.clone() });
    let (handle, inner) = endpoint.accept(incoming, now, buf, Some(Arc::new(config)))?;
    let mut core = Core::new(inner, tap, setup.clone(), now);
    core.handshake_until = Some(now + LONGEST_HANDSHAKE);
    Ok((handle, core))
}

impl Core {
    fn new(inner: quinn_proto::Connection, tap: Arc<Shared>, setup: Setup, now: Instant) -> Self {
        let control = new_control(&setup, &inner, now);
        let mut core = Self {
            inner,
            tap,
            resequencer: Resequencer::new(setup.transport.hold()),
            since_full: 0,
            setup,
            path: PathId(0),
            control,
            previous: None,
            recovery: RecoveryClock::new(now),
            ack_debt: AckDebt::default(),
            tail: Tail::default(),
            limits: Limits::new(now),
            tally: Tally::default(),
            told_at: Some(now),
            unanswered_since: None,
            handshake_until: None,
            lost: None,
            is_write_blocked: false,
            is_early: false,
            owes_handshake: false,
            last_sent: now,
            heard_at: now,
            log: Vec::new(),
            departure: now,
            send_window: Bytes::ZERO,
            datagram: Vec::new(),
            held: None,
            name: None,
        };
        core.tap.publish(&core.control.plan(), core.control.pacing_rate());
        core.absorb();
        core
    }

    /// The socket is another one, and the peer is to learn of it. If the path is another one too, nothing
    /// that was known of the former holds for it.
    pub fn on_rebound(&mut self, now: Instant, is_other_path: bool) {
        self.inner.local_address_changed();
        if is_other_path {
            self.inner.path_changed(now);
        }
        self.told_at = Some(now);
    }

    /// Takes in an event of the endpoint, or a datagram as it has come.
    pub fn handle_event(&mut self, now: Instant, event: ConnectionEvent) {
        self.owes_handshake |= self.is_early && self.inner.is_handshaking();
        self.inner.handle_event(event);
        self.told_at = Some(now);
    }

    /// The instant that [`poll_timeout`](Self::poll_timeout) named has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.hand_on(now);
        self.inner.handle_timeout(now);
        self.told_at = Some(now);
        for (end, why) in
            [(self.dead_at(), "the path is dead"), (self.handshake_ends(), "the handshake takes too long")]
        {
            if end.is_some_and(|end| end <= now) && !self.inner.is_closed() {
                self.inner.close(now, VarInt::from_u32(0), why.into());
                self.lost = Some(ConnectionError::TimedOut);
            }
        }
    }

    /// Whether writers wait for room: if there is nothing to send then, flow control holds them back.
    pub fn set_write_blocked(&mut self, is_blocked: bool) {
        self.is_write_blocked = is_blocked;
    }

    /// The interface that leads to the peer has another line rate, or another interface does so now. Say it again
    /// whenever the peer's address changes: an earlier path keeps the anchor that it had.
    pub fn set_anchor(&mut self, now: Instant, anchor: Rate) {
        self.setup.anchor = anchor;
        self.control.set_anchor(now, anchor);
    }

    /// From now on at most `window` may have been handed over and not acknowledged.
    pub fn set_send_window(&mut self, window: Bytes) {
        self.setup.transport.send_window(window);
        self.fit_send_window();
    }

    /// The application sends before the handshake is complete: it is paced then, too.
    pub fn begin_early_data(&mut self) {
        self.is_early = true;
    }

    /// Builds the next batch in `buf`, if one may leave now. Departures count from `now`, which may be
    /// the instant at which the caller plans to send.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        limits: BatchLimits,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.absorb();
        let mut allowance = self.permit(now);
        let may_send = !allowance.is_zero();
        let mut batch = Batch::new(buf, limits);
        while batch.has_room() {
            let transmit = match self.held.take() {
                Some(held) => held,
                // The burst is spent. What may leave through the shut gate does so at the next poll.
                None if may_send && self.is_spent(allowance) && !batch.is_empty() => break,
                None => {
                    let data = self.poll_datagram(now, &mut allowance);
                    match data.or_else(|| self.poll_copy(now, &mut allowance)) {
                        Some(transmit) => transmit,
                        None => break,
                    }
                }
            };
            if batch.is_empty() {
                self.departure = self.last_sent;
            }
            if !batch.push(&transmit, &self.datagram) {
                self.held = Some(transmit);
                break;
            }
            if let Some(name) = self.name.take() {
                self.tail.keep(name, transmit, &mut self.datagram);
            }
        }
        batch.finish()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and [`poll_transmit`](Self::poll_transmit)
    /// if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.absorb();
        [
            self.poll_timer(),
            self.next_release(),
            self.ack_due(),
            self.ping_due(),
            self.control.deadline(),
            self.dead_at(),
            self.handshake_ends(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The same without what only this connection's turn to send can settle: its timers go on however long it
    /// waits for that.
    #[must_use]
    pub fn poll_timer(&mut self) -> Option<Instant> {
        self.inner.poll_timeout().into_iter().chain(self.resequencer.deadline()).min()
    }

    /// The departure on which the books have the first datagram of the last batch. A caller that plans
    /// ahead must not send it sooner: the round trip would seem to be shorter than it is.
    #[must_use]
    pub fn departure(&self) -> Instant {
        self.departure
    }

    /// When the pacer, which held the sender back at the last poll, lets the next burst go.
    #[must_use]
    pub fn next_release(&self) -> Option<Instant> {
        match self.limits.present() {
            Limit::Pacing(at) => Some(at),
            _ => None,
        }
    }

    /// Next event for the application.
    #[must_use]
    pub fn poll(&mut self) -> Option<Event> {
        match self.lost.take() {
            Some(reason) => Some(Event::ConnectionLost { reason }),
            None => self.inner.poll(),
        }
    }

    /// Next event for the endpoint.
    #[must_use]
    pub fn poll_endpoint_events(&mut self) -> Option<EndpointEvent> {
        let event = self.inner.poll_endpoint_events()?;
        if event.is_drained() {
            self.resequencer.clear();
        }
        Some(event)
    }

    /// The state machine, for streams and for what it knows.
    pub fn inner(&mut self) -> &mut quinn_proto::Connection {
        &mut self.inner
    }

    /// What the connection did, and what it knew of its path when it was last polled.
    pub fn stats(&self) -> ConnectionStats {
        let limits = (self.limits.present(), self.limits.blocked());
        ConnectionStats::new(
            &self.control,
            limits,
            (self.tail.copies(), self.resequencer.order()),
            self.inner.stats(),
        )
    }

    /// The congestion controller and what it has decided.
    pub fn congestion_state(&self) -> CongestionState {
        CongestionState {
            law: self.setup.law.clone(),
            state: self.control.state(),
            plan: self.control.plan(),
        }
    }

    /// How much may leave through the gate, and what holds the sender back if nothing may.
    fn permit(&mut self, now: Instant) -> Bytes {
        if matches!(self.setup.law.kind, LawKind::Foreign(_)) {
            let plan = self.foreign_plan();
            self.control.follow(now, plan);
        }
        self.tap.publish(&self.control.plan(), self.control.pacing_rate());
        let owes_handshake = std::mem::take(&mut self.owes_handshake);
        let mut is_ping_due = self.ping_due().is_some_and(|due| due <= now);
        let release = self.control.release(now);
        self.limits.set(
            now,
            match release {
                Release::Now { .. } => Limit::Nothing,
                Release::At(at) => Limit::Pacing(at),
                Release::OnAck => Limit::Window,
            },
        );
        // A pacer that holds data back lets it go soon enough without a ping.
        is_ping_due &= self.tail.is_copying() || !matches!(release, Release::At(_));
        if is_ping_due {
            self.ping(now);
        }
        match release {
            Release::Now { bytes } => bytes,
            _ if is_ping_due || owes_handshake => self.control.datagram(),
            _ if self.ack_due().is_some_and(|due| due <= now) => {
                self.ack_debt.on_opened(now);
                self.control.datagram()
            }
            _ => Bytes::ZERO,
        }
    }

    /// Whether the gate is to be shut. A handshake and a close are not held back: RFC 9002 §7 exempts
    /// CONNECTION_CLOSE, and quinn-proto does so only while no data is queued. A handshake is, if the
    /// application sends at the same time.
    fn is_spent(&self, allowance: Bytes) -> bool {
        let carries_data = (self.is_early || !self.inner.is_handshaking()) && !self.inner.is_closed();
        carries_data && allowance < self.control.datagram()
    }

    /// Polls one datagram into `self.datagram` and books its departure.
    fn poll_datagram(&mut self, now: Instant, allowance: &mut Bytes) -> Option<Transmit> {
        let is_open = !self.is_spent(*allowance);
        self.tap.set_open(is_open);
        self.datagram.clear();
        let sent = now.max(self.last_sent + Duration::from_nanos(1));
        let Some(transmit) = self.inner.poll_transmit(sent, 1, &mut self.datagram) else {
            if is_open {
                self.control.on_app_limited(now);
            }
            if is_open && !self.inner.is_handshaking() {
                let by = if self.is_write_blocked { Limit::FlowControl } else { Limit::Application };
                self.limits.set(now, by);
            }
            return None;
        };
        self.last_sent = sent;
        let is_on_path = self.read_log(now);
        let before = std::mem::replace(&mut self.tally, Tally::read(&self.inner));
        let purpose = self.tally.purpose_since(&before, is_on_path);
        if self.tally.acknowledged_since(&before) {
            self.ack_debt.on_acknowledged(self.tally.received());
        } else if is_open {
            self.ack_debt.on_opened(sent);
        }
        let number = self.tap.take_sealed().filter(|_| is_one_packet(&self.datagram));
        let bytes = Bytes::of_len(transmit.size);
        if purpose == Purpose::Data {
            self.unanswered_since.get_or_insert(sent);
            *allowance -= bytes;
            if !self.tally.has_pinged_since(&before) {
                self.recovery.on_sent(sent);
                self.tail.on_sent(bytes);
                let number = number.filter(|_| is_on_path && self.control.may_copy(now));
                self.name = number.map(|number| Name { sent, number });
            }
        }
        self.control.on_feedback(&Feedback::Sent { sent, bytes, purpose, number });
        Some(transmit)
    }

    /// Takes the datagram that is to leave once more, if there is nothing else to send, and books it.
    fn poll_copy(&mut self, now: Instant, allowance: &mut Bytes) -> Option<Transmit> {
        let is_idle = self.limits.present() == Limit::Application && !self.inner.is_closed();
        if !is_idle || *allowance < self.control.datagram() || !self.control.may_copy(now) {
            return None;
        }
        let (sent, transmit) = self.tail.take(self.control.ledger().in_flight(), &mut self.datagram)?;
        self.last_sent = now.max(self.last_sent + Duration::from_nanos(1));
        let bytes = Bytes::of_len(transmit.size);
        *allowance -= bytes;
        self.control.on_feedback(&Feedback::Copied { now: self.last_sent, sent, bytes });
        Some(transmit)
    }

    /// Reads the log after events, once for all that came together; what the state machine counts but
    /// does not report is looked up.
    fn absorb(&mut self) {
        let Some(now) = self.told_at.take() else { return };
        self.read_log(now);
        let before = std::mem::replace(&mut self.tally, Tally::read(&self.inner));
        if self.tally.lost_probe_since(&before) {
            self.control.on_feedback(&Feedback::ProbeLost { now });
        }
        if self.tally.heard_since(&before) {
            self.unanswered_since = None;
        }
        self.ack_debt.on_received(now, self.tally.received());
        self.fit_send_window();
    }

    /// Lets writes fill what the law wants in flight, and little more.
    fn fit_send_window(&mut self) {
        let window = self.setup.transport.send_window_for(self.control.plan().window);
        if window != self.send_window {
            self.send_window = window;
            self.inner.set_send_window(window.get());
        }
    }

    /// Passes the log on to the paths it concerns; whether it told of a departure on the present one.
    fn read_log(&mut self, now: Instant) -> bool {
        let mut log = std::mem::take(&mut self.log);
        self.tap.drain(&mut log);
        for entry in &log {
            match *entry {
                Entry::PathOpened { path, from } => self.open_path(now, path, from),
                // Packets of earlier paths are not on the present path's books.
                Entry::AckRange { first, last } => {
                    self.control.on_feedback(&Feedback::AckRange { now, first, last });
                }
                Entry::Feedback { path, feedback } => {
                    self.restore_path(now, path);
                    // What has waited for its turn is noticed now, and time does not go back.
                    let feedback = feedback_at(&mut self.heard_at, feedback);
                    match feedback {
                        Feedback::Acked { sent, .. } => self.tail.on_acked(sent),
                        Feedback::AckEnd { now, .. } => self.recovery.on_ack(now),
                        Feedback::Lost { newest, .. } => self.tail.on_lost(newest),
                        _ => {}
                    }
                    self.control.on_feedback(&feedback);
                }
            }
        }
        // A peer may fill it with thousands of acknowledgements at once, which none needs to keep room for.
        log.clear();
        log.shrink_to(LOG_KEPT);
        self.log = log;
        // That was the last thing of all.
        let polled = self.tap.take_polled();
        polled.into_iter().for_each(|path| self.restore_path(now, path));
        polled.is_some()
    }

    /// When one datagram may pass the shut gate because the peer waits for acknowledgements.
    fn ack_due(&self) -> Option<Instant> {
        let is_late = |due: &Instant| match self.limits.present() {
            Limit::Pacing(at) => at > *due,
            Limit::Window => true,
            Limit::Application | Limit::FlowControl | Limit::Nothing => false,
        };
        let beyond = self.control.ledger().in_flight() - self.control.plan().window;
        self.ack_debt.due(self.control.datagram(), self.control.debt(), beyond).filter(is_late)
    }

    /// When the peer's silence is to count as the end.
    fn dead_at(&self) -> Option<Instant> {
        let timeout = self.setup.transport.dead_link_after()?;
        self.unanswered_since.filter(|_| !self.inner.is_closed()).map(|since| since + timeout)
    }

    /// When a client's handshake that is under way has taken too long: one that says a word now and then would
    /// never be silent for long enough to time out.
    fn handshake_ends(&self) -> Option<Instant> {
        self.handshake_until.filter(|_| self.inner.is_handshaking() && !self.inner.is_closed())
    }

    /// When the path is to be asked for a sign of life.
    fn ping_due(&self) -> Option<Instant> {
        let waiting = match self.limits.present() {
            Limit::Application | Limit::FlowControl => Waiting::Tail,
            Limit::Pacing(_) if self.tail.is_copying() => Waiting::Tail,
            Limit::Window => Waiting::Blocked,
            Limit::Pacing(_) | Limit::Nothing => return None,
        };
        let is_alive = !self.inner.is_handshaking() && !self.inner.is_closed();
        let ledger = self.control.ledger();
        ledger.oldest().filter(|oldest| is_alive && self.recovery.awaits_data(*oldest))?;
        let rtt = ledger.rtt()?;
        Some(self.recovery.deadline(&rtt, waiting))
    }

    fn ping(&mut self, now: Instant) {
        self.inner.ping();
        // Booked at once, so that a ping that cannot leave is not asked for again and again.
        self.recovery.on_ping(now);
    }

    fn foreign_plan(&self) -> Plan {
        let srtt = self.control.ledger().rtt().map_or_else(|| self.inner.rtt(), |rtt| rtt.smoothed);
        foreign_plan(&self.inner, srtt)
    }
}

/// The same, noticed at `at` if it seems to have been earlier; otherwise `at` is when it was.
fn feedback_at(at: &mut Instant, mut feedback: Feedback) -> Feedback {
    if let Feedback::AckEnd { now, .. } | Feedback::Lost { now, .. } | Feedback::Marked { now, .. } =
        &mut feedback
    {
        *now = (*at).max(*now);
        *at = *now;
    }
    feedback
}

/// Whether a datagram holds a single 1-RTT packet. The highest bit of its first byte tells (RFC 9000 §17.3):
/// the packets of a handshake have it set, and a 1-RTT packet can only be the last of a datagram (§12.2).
fn is_one_packet(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0x80 == 0)
}

/// How long a client may take for its handshake: as long as it may be silent by default, six attempts or so on a
/// path that loses most of them.
const LONGEST_HANDSHAKE: Duration = Duration::from_secs(30);

/// Lines of the event log for which there is always room: a flight that is acknowledged at once.
const LOG_KEPT: usize = 256;
