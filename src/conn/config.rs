//! What a user may choose for a connection, and its translation into `quinn-proto`'s terms.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::{
    AckFrequencyConfig, ConnectionId, IdleTimeout, TokenMemoryCache, TokenStore, VarInt, crypto,
};

use super::crypto::TappedClient;
#[cfg(feature = "quinn")]
use super::drop_in::{DropIn, PaceSlot};
#[cfg(feature = "quinn")]
use super::tap::Factory;
use super::tap::{Foreign, Shared, TapFactory};
use crate::cc::{Bbr3, Cubic, Fixed, LawFactory, NewReno, PathStart, WarpRate, seeded};
use crate::units::{Bytes, Gain, Rate};

/// Which congestion controller a connection uses, and how each new path gets a fresh one.
#[derive(Clone)]
pub struct Law {
    pub(super) kind: LawKind,
    is_paced: bool,
}

#[derive(Clone)]
pub(super) enum LawKind {
    Own(Arc<dyn LawFactory>),
    Foreign(Foreign),
}

impl Law {
    /// WarpRATE, the default: a rate that random loss and jitter leave alone, and that a queue of its own
    /// brings down. Experimental: no standard describes it, and RFC 9743 asks for care with such laws on
    /// paths that are shared; [`cubic`](Self::cubic) is the standard's choice.
    ///
    /// Its probes are spread at random: each path takes the next seed, from `seed` on.
    pub fn warprate(seed: u64) -> Self {
        Self::custom(seeded(seed, WarpRate::new)).paced()
    }

    /// An explicit pacing rate (UDP payload) under an explicit window. No good citizen: for paths on
    /// which that rate is reserved, and for tests.
    pub fn fixed(rate: Rate, window: Bytes) -> Self {
        Self::custom(move |_: PathStart| Fixed::new(rate, window)).paced()
    }

    /// CUBIC (RFC 9438) with HyStart++, counted in bytes.
    pub fn cubic() -> Self {
        Self::custom(Cubic::new)
    }

    /// NewReno as RFC 9002 has it.
    pub fn new_reno() -> Self {
        Self::custom(NewReno::new)
    }

    /// BBRv3 (draft-ietf-ccwg-bbr-06). Its probes are spread at random: each path takes the next seed, from
    /// `seed` on.
    pub fn bbr3(seed: u64) -> Self {
        Self::custom(seeded(seed, Bbr3::new))
    }

    /// A law of your own, made by `factory` for each path. Closures from
    /// [`PathStart`] to a [`RateLaw`](crate::cc::RateLaw) will do.
    pub fn custom(factory: impl LawFactory + 'static) -> Self {
        Self { kind: LawKind::Own(Arc::new(factory)), is_paced: false }
    }

    /// For a law that sends at a rate of its own. Its packets may be overtaken by 128 others before they
    /// count as lost, not by 3, so that jitter is not taken for loss; the time threshold of 9/8 round trips
    /// holds. And it asks the peer for one acknowledgement per ten packets, which saves CPU at both ends.
    ///
    /// A law that waits for acknowledgements to open its window needs them as they come, since a window of
    /// fewer than ten packets would wait for the ACK delay, and must answer a loss at once.
    #[must_use]
    pub fn paced(self) -> Self {
        Self { is_paced: true, ..self }
    }

    /// `quinn-proto`'s CUBIC, its default controller, paced by us at 1.25 · window / srtt.
    pub fn quinn_cubic() -> Self {
        Self::foreign(Foreign::cubic())
    }

    /// `quinn-proto`'s NewReno, paced by us at 1.25 · window / srtt.
    pub fn quinn_new_reno() -> Self {
        Self::foreign(Foreign::new_reno())
    }

    /// `quinn-proto`'s experimental BBRv1, paced by us at 1.25 · window / srtt, as quinn does.
    pub fn quinn_bbr() -> Self {
        Self::foreign(Foreign::bbr())
    }

    /// What it asks of a transport, whoever drives that.
    pub(super) fn set_acknowledgements(&self, transport: &mut quinn_proto::TransportConfig) {
        let threshold = if self.is_paced { PACED_PACKET_THRESHOLD } else { PACKET_THRESHOLD };
        transport.packet_threshold(threshold).ack_frequency_config(self.is_paced.then(sparse_acks));
    }

    /// Makes controllers of quinn whose packets leave through a socket of ours. Foreign ones are paced by quinn.
    #[cfg(feature = "quinn")]
    pub(super) fn controllers(&self, slot: Arc<dyn PaceSlot>) -> Factory {
        match &self.kind {
            LawKind::Own(factory) => Arc::new(DropIn::paced(factory.clone(), slot)),
            LawKind::Foreign(foreign) => foreign.factory(),
        }
    }

    /// A controller written for `quinn-proto`, forwarded verbatim. Runs with it cannot be replayed.
    pub fn foreign(controller: Foreign) -> Self {
        Self { kind: LawKind::Foreign(controller), is_paced: false }
    }
}

impl std::fmt::Debug for Law {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            LawKind::Own(_) => f.write_str("Law::custom"),
            LawKind::Foreign(foreign) => write!(f, "Law::foreign({})", foreign.name()),
        }
    }
}

/// Transport parameters of a connection. The defaults suit bulk transfers on any path up to
/// 1 Gbit/s × 200 ms and bound a connection's memory.
///
/// # What a connection keeps
/// | what | at most |
/// |---|---|
/// | a connection that is idle | 64 KiB |
/// | each open stream | 1 KiB, and 512 KiB if all that came has gaps between single bytes: above 1024 gaps the connection ends |
/// | what has come and was not read | two and a half times [`receive_window`](Self::receive_window), if it came in the worst of pieces |
/// | what was written and is not acknowledged | [`send_window`](Self::send_window) and the last piece that was written |
/// | datagrams of the application | their two buffers |
/// | packets on their way, and those lost | 1 KiB for each of what the law wants in flight, and for 4096 lost |
/// | copies of the last packets | 190 KB on a path that loses some |
/// | datagrams that overtook others | 4096, for [`longest_hold`](Self::longest_hold): 33 MB, if each was the only one kept of its buffer |
///
/// A peer has up to [`max_concurrent_uni_streams`](Self::max_concurrent_uni_streams) and
/// [`max_concurrent_bidi_streams`](Self::max_concurrent_bidi_streams) of its own, so a server of strangers
/// that do not deserve 128 MiB each says so here. How many connections there are is the application's to say:
/// [`Endpoint::open_connections`](super::Endpoint::open_connections) counts them,
/// [`Incoming::refuse`](super::Incoming::refuse) turns the next away. What those cost who are not connected
/// yet, [`ServerConfig`](super::ServerConfig) tells.
#[derive(Debug, Clone)]
pub struct TransportConfig {
    stream_receive_window: Bytes,
    receive_window: Bytes,
    send_window: Bytes,
    max_concurrent_uni_streams: VarInt,
    max_concurrent_bidi_streams: VarInt,
    max_idle_timeout: Option<IdleTimeout>,
    keep_alive_interval: Option<Duration>,
    dead_link_timeout: Option<Duration>,
    send_fairness: bool,
    datagram_receive_buffer: Option<Bytes>,
    datagram_send_buffer: Bytes,
    initial_mtu: u16,
    time_threshold: Gain,
    longest_hold: Duration,
    #[cfg(feature = "qlog")]
    qlog: Option<super::qlog::Qlog>,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            stream_receive_window: STREAM_WINDOW,
            receive_window: CONNECTION_WINDOW,
            send_window: STREAM_WINDOW,
            max_concurrent_uni_streams: VarInt::from_u32(100),
            max_concurrent_bidi_streams: VarInt::from_u32(100),
            max_idle_timeout: Some(VarInt::from_u32(30_000).into()),
            keep_alive_interval: None,
            dead_link_timeout: None,
            send_fairness: true,
            datagram_receive_buffer: Some(DATAGRAM_BUFFER),
            datagram_send_buffer: DATAGRAM_BUFFER,
            initial_mtu: 1200,
            time_threshold: TIME_THRESHOLD,
            longest_hold: LONGEST_HOLD,
            #[cfg(feature = "qlog")]
            qlog: None,
        }
    }
}

impl TransportConfig {
    /// Most bytes that the peer may have sent on one stream ahead of the application's reads.
    ///
    /// Default 96 MiB: the 31 MB of 10 Gbit/s × 25 ms three times, since what follows a lost packet waits
    /// for its repair, and a repair may be lost.
    /// Values above 2⁶²−1 mean 2⁶²−1.
    pub fn stream_receive_window(&mut self, window: Bytes) -> &mut Self {
        self.stream_receive_window = window;
        self
    }

    /// Most bytes that the peer may have sent on all streams together ahead of the application's
    /// reads: the bound on a connection's receive memory. Default 128 MiB: one full stream, and room for others.
    pub fn receive_window(&mut self, window: Bytes) -> &mut Self {
        self.receive_window = window;
        self
    }

    /// Most bytes that writes may have handed over and the peer has not acknowledged: the bound on a
    /// connection's send memory. Default 96 MiB. No more is taken than four times what the law wants in
    /// flight, and 1 MiB at least, so that a slow path costs little memory.
    pub fn send_window(&mut self, window: Bytes) -> &mut Self {
        self.send_window = window;
        self
    }

    /// Unidirectional streams that the peer may have open at a time. Default 100.
    pub fn max_concurrent_uni_streams(&mut self, count: VarInt) -> &mut Self {
        self.max_concurrent_uni_streams = count;
        self
    }

    /// Bidirectional streams that the peer may have open at a time. Default 100.
    pub fn max_concurrent_bidi_streams(&mut self, count: VarInt) -> &mut Self {
        self.max_concurrent_bidi_streams = count;
        self
    }

    /// Silence after which the connection is given up; the lower of both ends' holds. Default 30 s
    /// (RFC 9308 §3.2). `None` waits for ever; a server still gives up a handshake after 30 s. Made from a
    /// [`Duration`] with `try_into`, which fails above 2⁶² ms.
    pub fn max_idle_timeout(&mut self, timeout: Option<IdleTimeout>) -> &mut Self {
        self.max_idle_timeout = timeout;
        self
    }

    /// Sends a packet after this much silence to keep the connection alive. Default: never.
    pub fn keep_alive_interval(&mut self, interval: Option<Duration>) -> &mut Self {
        self.keep_alive_interval = interval;
        self
    }

    /// Gives the connection up, with [`ConnectionError::TimedOut`](crate::ConnectionError::TimedOut), when the
    /// peer has answered nothing for this long though something was sent that it must answer. Default: never,
    /// so that only the idle timeout does. It notices a dead path while the idle timeout is long, or none;
    /// with a [`keep_alive_interval`](Self::keep_alive_interval) also while the application is silent. It
    /// holds for the handshake, too.
    pub fn dead_link_timeout(&mut self, timeout: Option<Duration>) -> &mut Self {
        self.dead_link_timeout = timeout;
        self
    }

    /// Whether streams of one priority take turns, packet by packet. Otherwise each goes on until it has
    /// nothing more to say, which packs short ones better. Default: they do.
    pub fn send_fairness(&mut self, is_fair: bool) -> &mut Self {
        self.send_fairness = is_fair;
        self
    }

    /// What datagrams of the application may wait to be read, the oldest being dropped; `None` tells the peer
    /// that we take none. Default 1 MiB.
    pub fn datagram_receive_buffer_size(&mut self, size: Option<Bytes>) -> &mut Self {
        self.datagram_receive_buffer = size;
        self
    }

    /// What datagrams of the application may wait to be sent. Default 1 MiB.
    pub fn datagram_send_buffer_size(&mut self, size: Bytes) -> &mut Self {
        self.datagram_send_buffer = size;
        self
    }

    /// Size of the first datagrams in bytes, at least 1200; larger ones are looked for up to 1452.
    /// Raise it only where the path is known to carry it. Default 1200 (RFC 9000 §14).
    pub fn initial_mtu(&mut self, bytes: u16) -> &mut Self {
        self.initial_mtu = bytes.max(1200);
        self
    }

    /// Round trips that a packet may lag behind later ones before it counts as lost (RFC 9002 §6.1.2): at least
    /// one. Default 9/8. The round trip is that of the newest packets, which on a path that reorders are the
    /// fastest ones: where packets are known to be late by more, a higher threshold repeats fewer of them in
    /// vain, and every lost tail is repaired as much later.
    pub fn time_threshold(&mut self, round_trips: Gain) -> &mut Self {
        self.time_threshold = round_trips.max(Gain::ONE);
        self
    }

    /// Longest time that a datagram of bulk data which overtook others is held back, so that they come in order. It happens
    /// only where packets do come late, and lasts as long as they are late. Zero hands everything on as it comes,
    /// which suits an application of datagrams that makes its own order. Default 100 ms.
    pub fn longest_hold(&mut self, time: Duration) -> &mut Self {
        self.longest_hold = time;
        self
    }

    /// Writes a qlog of the connection. One log tells of one connection: give each its own.
    #[cfg(feature = "qlog")]
    pub fn qlog(&mut self, log: super::qlog::Qlog) -> &mut Self {
        self.qlog = Some(log);
        self
    }

    pub(super) fn hold(&self) -> Duration {
        self.longest_hold
    }

    pub(super) fn dead_link_after(&self) -> Option<Duration> {
        self.dead_link_timeout
    }

    /// What writes may have handed over while a law wants `window` in flight.
    pub(super) fn send_window_for(&self, window: Bytes) -> Bytes {
        window.times(4).max(LEAST_SEND_WINDOW).min(self.send_window)
    }

    /// In `quinn-proto`'s terms, with the tap as its congestion controller.
    pub(super) fn to_proto(&self, law: &Law, shared: Arc<Shared>) -> quinn_proto::TransportConfig {
        let varint = |bytes: Bytes| VarInt::from_u64(bytes.get()).unwrap_or(VarInt::MAX);
        let foreign = match &law.kind {
            LawKind::Own(_) => None,
            LawKind::Foreign(foreign) => Some(foreign.factory()),
        };
        let mut proto = quinn_proto::TransportConfig::default();
        proto
            .stream_receive_window(varint(self.stream_receive_window))
            .receive_window(varint(self.receive_window))
            .send_window(self.send_window.get())
            .max_concurrent_uni_streams(self.max_concurrent_uni_streams)
            .max_concurrent_bidi_streams(self.max_concurrent_bidi_streams)
            .max_idle_timeout(self.max_idle_timeout)
            .keep_alive_interval(self.keep_alive_interval)
            .initial_mtu(self.initial_mtu)
            .time_threshold(self.time_threshold.thousandths() as f32 / 1000.0)
            .send_fairness(self.send_fairness)
            .datagram_receive_buffer_size(self.datagram_receive_buffer.map(Bytes::as_len))
            .datagram_send_buffer_size(self.datagram_send_buffer.as_len())
            .congestion_controller_factory(Arc::new(TapFactory { shared, foreign }));
        law.set_acknowledgements(&mut proto);
        #[cfg(feature = "qlog")]
        proto.qlog_stream(self.qlog.as_ref().map(super::qlog::Qlog::stream));
        proto
    }
}

/// What a client begins its handshakes with. (`quinn-proto`'s own `ClientConfig` does not let its parts be
/// read, and the core taps the first of them.)
#[derive(Clone)]
pub struct ClientHandshake {
    /// TLS.
    pub crypto: Arc<dyn crypto::ClientConfig>,
    /// Keeps the tokens by which servers recognise an address that they have validated before.
    pub tokens: Arc<dyn TokenStore>,
    /// Makes the server's first connection ids: eight bytes at least, unpredictable (RFC 9000 §7.2).
    /// `None` draws 20 random bytes.
    pub initial_cids: Option<Arc<dyn Fn() -> ConnectionId + Send + Sync>>,
}

impl ClientHandshake {
    /// With this TLS configuration, a memory of tokens of its own and random connection ids.
    pub fn new(crypto: Arc<dyn crypto::ClientConfig>) -> Self {
        Self { crypto, tokens: Arc::new(TokenMemoryCache::default()), initial_cids: None }
    }

    /// In `quinn-proto`'s terms, with a tap on the TLS session.
    pub(super) fn to_proto(&self, shared: Arc<Shared>) -> quinn_proto::ClientConfig {
        let inner = self.crypto.clone();
        let mut proto = quinn_proto::ClientConfig::new(Arc::new(TappedClient { inner, shared }));
        proto.token_store(self.tokens.clone());
        if let Some(initial_cids) = &self.initial_cids {
            proto.initial_dst_cid_provider(initial_cids.clone());
        }
        proto
    }
}

/// Asks the peer for one acknowledgement per ten packets: both ends save CPU. The request is fixed when
/// the connection is made, so it depends on the law alone. Any gap is acknowledged at once, as without
/// the extension: otherwise a lost last packet would need two pings, and a packet that was overtaken
/// could look lost before the next ACK tells of it.
///
/// The delay stays the peer's own, capped by `quinn-proto` at the larger of 25 ms and the RTT.
fn sparse_acks() -> AckFrequencyConfig {
    let mut config = AckFrequencyConfig::default();
    config.ack_eliciting_threshold(VarInt::from_u32(ACK_EVERY - 1));
    config.reordering_threshold(VarInt::from_u32(1));
    config
}

/// Packets per acknowledgement: 3530 ACKs become 643 for 10 MB, at the same goodput.
const ACK_EVERY: u32 = 10;

/// Packets that may overtake one before it counts as lost (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u32 = 3;

/// The same under a paced law. DEVIATES from the recommended 3; RFC 9002 §6.1.1 allows more where packets
/// are reordered. Jitter of a millisecond reorders by a hundred packets at 1 Gbit/s, and each would be
/// repeated in vain: σ = 1 ms, 182 against 795 Mbit/s. A paced law does not hurry to answer a loss, and the
/// time threshold finds one an eighth of a round trip later at most. No more than 128: what arrives further
/// behind is dropped by the receiver.
const PACED_PACKET_THRESHOLD: u32 = 128;

/// RFC 9002 §6.1.2.
const TIME_THRESHOLD: Gain = Gain::ratio(9, 8);

/// What people take for at once, and probe timers of most paths outlast.
const LONGEST_HOLD: Duration = Duration::from_millis(100);

/// 10 Gbit/s × 25 ms = 31 MB, three times.
const STREAM_WINDOW: Bytes = Bytes::mib(96);

/// A second of speech and pictures, or a millisecond at 10 Gbit/s.
const DATAGRAM_BUFFER: Bytes = Bytes::mib(1);

/// A few writes of bulk data.
const LEAST_SEND_WINDOW: Bytes = Bytes::mib(1);

/// A full stream, and a third on top.
const CONNECTION_WINDOW: Bytes = Bytes::mib(128);
