//! What is simulated: the links and flows of one JSON file.
//!
//! *What it decides:* which files make sense. *In:* JSON text, units in strings, as
//! `sim/topology.schema.json` describes it. *Out:* a [`Topology`] that the rest need not doubt, or a
//! [`TopologyError`] that names the file, the place within it and the form expected there.
//!
//! ```
//! use warpsim::topology::Topology;
//!
//! let text = r#"{
//!     "name": "lossy",
//!     "links": {
//!         "bottleneck": { "rate": "1 Gbit/s", "delay": "1 ms", "loss": "5 %" },
//!         "return": { "rate": "1 Gbit/s", "delay": "1 ms" }
//!     },
//!     "flows": [{ "law": "fixed", "bytes": "10 MB", "forward": ["bottleneck"], "reverse": ["return"] }]
//! }"#;
//! let topology = Topology::read("lossy.json", text)?;
//! assert_eq!(topology.flows[0].law.as_ref().map(|law| law.name()), Some("fixed"));
//! let error = Topology::read("lossy.json", &text.replace("1 ms", "1 Mbit/s")).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "lossy.json: links.bottleneck.delay: invalid value: string \"1 Mbit/s\", \
//!      expected a time of at most a day such as `40 ms` at line 4 column 63"
//! );
//! # Ok::<(), warpsim::topology::TopologyError>(())
//! ```

mod check;
mod law;
mod links;
pub mod text;
mod yardstick;

use std::time::Duration;

use serde::Deserialize;
use warplink::{Losses, Order, Probability};
use warpunits::{Bytes, Rate};

pub use law::{FixedSpec, LawSpec};
pub use links::Links;
pub use text::{Buffer, Multiple, Pace, Window};
pub use yardstick::Yardstick;

/// The published JSON Schema of topologies.
pub const SCHEMA: &str = include_str!("../../topology.schema.json");

/// Links, and the flows over them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// What it is called in reports.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub about: String,
    /// When the run ends unless all flows have ended before. Default 60 s.
    #[serde(default = "default_duration", deserialize_with = "text::required")]
    pub duration: Duration,
    /// The links in the file's order, which numbers their random draws.
    pub links: Links,
    /// The flows in the file's order, which numbers their random draws.
    pub flows: Vec<Flow>,
    /// What laws have to reach on the first flow. Default nothing.
    #[serde(default)]
    pub yardsticks: Vec<Yardstick>,
}

/// One direction of a link: a queue, a transmitter and a wire.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Wire bytes per second.
    #[serde(deserialize_with = "text::required")]
    pub rate: Rate,
    /// One-way delay after the transmitter.
    #[serde(deserialize_with = "text::required")]
    pub delay: Duration,
    /// What may wait, apart from the packet in transmission. Default `4 BDP`.
    #[serde(default = "default_buffer", deserialize_with = "text::required")]
    pub buffer: Buffer,
    /// Which packet leaves next. Default `fifo`.
    #[serde(default)]
    pub queue: Discipline,
    /// Which packets are lost after the transmitter. Default none.
    #[serde(default = "no_loss", deserialize_with = "text::required")]
    pub loss: Losses,
    /// Gaussian variation of the delay. Default none.
    #[serde(default, deserialize_with = "links::present")]
    pub jitter: Option<Jitter>,
    /// Later rates, delays and losses.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// When the transmitter stands still.
    #[serde(default)]
    pub outages: Vec<Outage>,
    /// Packets reach the far end only at multiples of this time. Default: at any time.
    #[serde(default, deserialize_with = "text::optional")]
    pub slots: Option<Duration>,
}

/// Queue disciplines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// First in, first out; what does not fit is dropped on arrival.
    #[default]
    Fifo,
}

/// Gaussian variation of the delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// Standard deviation before clipping and ordering.
    #[serde(deserialize_with = "text::required")]
    pub sigma: Duration,
    /// Whether packets may overtake each other.
    #[serde(deserialize_with = "links::order")]
    pub order: Order,
}

/// From a moment on, another rate, delay or loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Since the start of the run.
    #[serde(deserialize_with = "text::required")]
    pub at: Duration,
    /// The rate from then on.
    #[serde(default, deserialize_with = "text::optional")]
    pub rate: Option<Rate>,
    /// The delay from then on.
    #[serde(default, deserialize_with = "text::optional")]
    pub delay: Option<Duration>,
    /// The losses from then on.
    #[serde(default, deserialize_with = "text::optional")]
    pub loss: Option<Losses>,
}

/// A time during which the transmitter stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Since the start of the run.
    #[serde(deserialize_with = "text::required")]
    pub at: Duration,
    /// How long it lasts.
    #[serde(rename = "for", deserialize_with = "text::required")]
    pub length: Duration,
}

/// A transfer from a sender to a receiver.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// What it is called in reports. Default `flow` and its number.
    #[serde(default)]
    pub name: String,
    /// What kind of hosts its ends are. Default `quic`.
    #[serde(default)]
    pub host: HostKind,
    /// The sender's law. Default `warprate`, as in the library.
    #[serde(default, deserialize_with = "links::present")]
    pub law: Option<LawSpec>,
    /// How much is sent; absent means without end.
    #[serde(default, deserialize_with = "text::optional")]
    pub bytes: Option<Bytes>,
    /// An exchange in the place of a plain transfer (`bare` and `tcp`): the receiver opens the connection
    /// and sends so much, and the sender answers with `bytes` once it has read all of it. Both ends run the
    /// law. The report's `exchange_ns` is what it cost; its other figures are the answer's alone.
    #[serde(default, deserialize_with = "text::optional")]
    pub request: Option<Bytes>,
    /// Which end opens the connection (`quic`). Default the receiver: a download. The sender's data leaves
    /// half a round trip earlier when it is the client.
    #[serde(default)]
    pub client: End,
    /// When it begins. Default at once.
    #[serde(default, deserialize_with = "text::required")]
    pub start: Duration,
    /// The links that data passes.
    pub forward: Vec<String>,
    /// The links that acknowledgements and requests pass; none for `udp`.
    #[serde(default)]
    pub reverse: Vec<String>,
    /// When the receiver acknowledges. Default: as its kind of host does.
    #[serde(default, deserialize_with = "links::present")]
    pub receiver: Option<Receiver>,
    /// How packets are protected. Default `null`: nothing depends on it but the wall time of a run.
    #[serde(default)]
    pub cipher: Cipher,
    /// Line rate of the sender's interface, in wire bytes. Default 10 Gbit/s.
    #[serde(default = "default_nic", deserialize_with = "text::required")]
    pub nic: Rate,
    /// UDP payload of a full datagram, known from the start. Default 1452.
    #[serde(default = "default_mtu")]
    pub mtu: u16,
    /// Wire bytes per second of a `udp` sender.
    #[serde(default, deserialize_with = "text::optional")]
    pub rate: Option<Rate>,
    /// When a `udp` sender is silent. Default never.
    #[serde(default, deserialize_with = "links::present")]
    pub on_off: Option<OnOff>,
    /// When a `udp` sender ends. Default with the run.
    #[serde(default, deserialize_with = "text::optional")]
    pub stop: Option<Duration>,
}

/// When a receiver acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receiver {
    /// After so many packets (`bare` and `tcp`).
    #[serde(default, deserialize_with = "links::present")]
    pub ack_every: Option<u32>,
    /// At the latest so long after the first of them (`bare` and `tcp`).
    #[serde(default, deserialize_with = "text::optional")]
    pub ack_delay: Option<Duration>,
    /// Arrivals are handed over only at multiples of this time, as by receive offload.
    #[serde(default, deserialize_with = "text::optional")]
    pub batch: Option<Duration>,
}

/// Bursts and silences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnOff {
    /// Length of a burst.
    #[serde(deserialize_with = "text::required")]
    pub on: Duration,
    /// Length of a silence.
    #[serde(deserialize_with = "text::required")]
    pub off: Duration,
    /// Whether lengths are drawn from exponential distributions of these means.
    #[serde(default)]
    pub random: bool,
}

/// Kinds of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostKind {
    /// The library's own core over `quinn-proto`.
    #[default]
    Quic,
    /// A law under the library's control loop without QUIC: for large grids.
    Bare,
    /// SACK, a retransmission timeout of at least 200 ms, 4 MB of send buffer.
    Tcp,
    /// Cross traffic that heeds nobody.
    Udp,
}

impl HostKind {
    /// As the file spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quic => "quic",
            Self::Bare => "bare",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// An end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Where its data goes.
    #[default]
    Receiver,
    /// Where its data comes from.
    Sender,
}

/// How packets are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cipher {
    /// TLS handshake, no cost per packet.
    #[default]
    Null,
    /// TLS 1.3 with AES-128-GCM.
    Tls,
}

impl Topology {
    /// Reads the text of `file`, whose name is for error messages only.
    ///
    /// # Errors
    /// When the text is no topology.
    pub fn read(file: &str, text: &str) -> Result<Self, TopologyError> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let mut topology: Self =
            serde_path_to_error::deserialize(&mut deserializer).map_err(|error| TopologyError {
                file: file.to_owned(),
                path: error.path().to_string(),
                problem: error.inner().to_string(),
            })?;
        let in_file =
            |(path, problem): (String, String)| TopologyError { file: file.to_owned(), path, problem };
        deserializer.end().map_err(|error| in_file((".".into(), error.to_string())))?;
        topology.name_flows();
        topology.check().map_err(in_file)?;
        Ok(topology)
    }

    /// The base two-way delay of a flow.
    pub fn rtt(&self, flow: &Flow) -> Duration {
        flow.forward
            .iter()
            .chain(&flow.reverse)
            .filter_map(|name| self.links.get(name))
            .map(|l| l.delay)
            .sum()
    }

    /// The slowest link that a flow's data passes, by its first rate; the first of several.
    pub fn bottleneck<'a>(&'a self, flow: &Flow) -> (usize, &'a Link) {
        let links = flow.forward.iter().filter_map(|name| self.links.place(name));
        links.min_by_key(|(place, link)| (link.rate, *place)).expect("a flow passes a link: it was checked")
    }

    /// The bandwidth-delay product of a link: its first rate times the longest base two-way delay of
    /// the flows over it.
    pub fn bdp(&self, link: &str) -> Bytes {
        let passes = |flow: &&Flow| flow.forward.iter().chain(&flow.reverse).any(|name| name == link);
        let rtt = self.flows.iter().filter(passes).map(|flow| self.rtt(flow)).max().unwrap_or_default();
        self.links.get(link).map_or(Bytes::ZERO, |link| warplink::bdp(link.rate, rtt))
    }

    fn name_flows(&mut self) {
        for (index, flow) in self.flows.iter_mut().enumerate() {
            if flow.name.is_empty() {
                flow.name = format!("flow{index}");
            }
        }
    }
}

/// A text that is no topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {path}: {problem}")]
pub struct TopologyError {
    file: String,
    path: String,
    problem: String,
}

impl TopologyError {
    /// The place within the document, such as `links.bottleneck.rate`; `.` is the document itself.
    pub fn path(&self) -> &str {
        &self.path
    }
}

fn default_duration() -> Duration {
    Duration::from_secs(60)
}

/// The published cells' buffer.
fn default_buffer() -> Buffer {
    Buffer::Bdp(Multiple::millionths(4_000_000))
}

fn no_loss() -> Losses {
    Probability::ZERO.into()
}

fn default_nic() -> Rate {
    Rate::gbps(10)
}

fn default_mtu() -> u16 {
    1452
}
