//! The paths with published figures: the reference grid as topologies.
//!
//! *What it decides:* which topology stands for a cell of `sim/reference/cells.json`, and which
//! published figure stands beside it. *Out:* JSON text, so that a cell takes the same way as any file;
//! `sim/scenarios/` holds these texts as presets, beside those of [`WRITTEN`].

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use warplink::{Probability, RandomStream};
use warpunits::{Bytes, Rate};

use crate::topology::text::decimal;
use crate::topology::{LawSpec, Topology};

/// A cell: one path and one transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Its name, which is also its preset's.
    pub id: String,
    /// Rate of both directions.
    pub rate: Rate,
    /// Base two-way delay.
    pub rtt: Duration,
    /// Stream bytes.
    pub bytes: Bytes,
    /// Buffer of both directions in thousandths of a BDP.
    pub buffer_milli_bdp: u64,
    /// Loss of data.
    pub loss_data: Probability,
    /// Loss of acknowledgements.
    pub loss_ack: Probability,
    /// Jitter of data.
    pub sigma_data: Duration,
    /// Jitter of acknowledgements.
    pub sigma_ack: Duration,
    /// Whether packets overtake each other.
    pub reorders: bool,
    /// Slots of data and acknowledgements.
    pub slots: Option<Duration>,
    /// The sender's interface, if it is not as fast as the link.
    pub nic: Option<Rate>,
    note: String,
}

/// All cells: those of `cells.json`, and before them the published ones that it leaves out.
pub fn cells() -> Vec<Cell> {
    let grid: Grid<Raw> = serde_json::from_str(CELLS).expect("the reference grid is well formed");
    let extra = EXTRA.iter().map(|(id, loss_data, loss_ack)| Raw {
        id: (*id).to_owned(),
        loss_data: Some(*loss_data),
        loss_ack: Some(*loss_ack),
        ..Raw::default()
    });
    extra.chain(grid.cells).map(Cell::from).collect()
}

/// The text of the preset of this name.
pub fn preset(name: &str) -> Option<String> {
    let written = WRITTEN.iter().find(|(written, _)| *written == name);
    written.map(|(_, text)| (*text).to_owned()).or_else(|| {
        let cells = cells();
        cells.iter().find(|cell| cell.id == name).map(Cell::to_json)
    })
}

/// Presets that are no cell of the grid, by name: written by hand, not by `warp sim presets`.
pub const WRITTEN: &[(&str, &str)] = &[
    ("capacity-100m-20m-100m", include_str!("../scenarios/capacity-100m-20m-100m.json")),
    ("outages-3x200ms", include_str!("../scenarios/outages-3x200ms.json")),
    ("clean-100m-40ms-240MB", include_str!("../scenarios/clean-100m-40ms-240MB.json")),
    ("request-staircase-14480", include_str!("../scenarios/request-staircase-14480.json")),
    ("request-staircase-14481", include_str!("../scenarios/request-staircase-14481.json")),
    ("picoquic/satellite-250-3", include_str!("../scenarios/picoquic/satellite-250-3.json")),
    ("picoquic/satellite-250-3-loss", include_str!("../scenarios/picoquic/satellite-250-3-loss.json")),
    ("picoquic/satellite-250-3-jitter", include_str!("../scenarios/picoquic/satellite-250-3-jitter.json")),
    ("picoquic/satellite-50-10", include_str!("../scenarios/picoquic/satellite-50-10.json")),
    ("picoquic/satellite-10-2", include_str!("../scenarios/picoquic/satellite-10-2.json")),
    ("picoquic/performance-100m-10ms", include_str!("../scenarios/picoquic/performance-100m-10ms.json")),
    ("picoquic/performance-1g-4ms", include_str!("../scenarios/picoquic/performance-1g-4ms.json")),
    ("picoquic/slow-1m-300ms", include_str!("../scenarios/picoquic/slow-1m-300ms.json")),
    ("picoquic/outage-10m-15ms", include_str!("../scenarios/picoquic/outage-10m-15ms.json")),
    ("picoquic/wifi-suspended-once", include_str!("../scenarios/picoquic/wifi-suspended-once.json")),
    ("picoquic/wifi-suspended-6-times", include_str!("../scenarios/picoquic/wifi-suspended-6-times.json")),
    ("picoquic/drop-and-back", include_str!("../scenarios/picoquic/drop-and-back.json")),
    ("picoquic/black-hole", include_str!("../scenarios/picoquic/black-hole.json")),
    ("picoquic/asymmetric-10-1", include_str!("../scenarios/picoquic/asymmetric-10-1.json")),
    ("bbr2/simple", include_str!("../scenarios/bbr2/simple.json")),
    ("bbr2/small-buffer", include_str!("../scenarios/bbr2/small-buffer.json")),
    ("bbr2/ack-aggregation", include_str!("../scenarios/bbr2/ack-aggregation.json")),
    ("bbr2/bandwidth-increase", include_str!("../scenarios/bbr2/bandwidth-increase.json")),
    ("bbr2/bandwidth-decrease", include_str!("../scenarios/bbr2/bandwidth-decrease.json")),
];

/// Published cells that `cells.json` does not list: id, loss of data, loss of acknowledgements.
const EXTRA: &[(&str, f64, f64)] =
    &[("clean-1g-2ms", 0.0, 0.0), ("loss-ack-5pct", 0.0, 0.05), ("loss-both-5pct", 0.05, 0.05)];

const CELLS: &str = include_str!("../reference/cells.json");
const FIGURES: &str = include_str!("../reference/published-results.json");

#[derive(Deserialize)]
struct Grid<C> {
    cells: Vec<C>,
}

/// A cell as the reference spells it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    id: String,
    link_mbps: Option<u64>,
    rtt_ms: Option<u64>,
    transfer_bytes: Option<u64>,
    buffer_bdp: Option<f64>,
    loss_data: Option<f64>,
    loss_ack: Option<f64>,
    jitter_sigma_ms: Option<f64>,
    jitter_data_sigma_ms: Option<f64>,
    jitter_ack_sigma_ms: Option<f64>,
    jitter_order: Option<String>,
    medium: Option<String>,
    nic_mbps: Option<u64>,
    note: Option<String>,
}

impl From<Raw> for Cell {
    fn from(raw: Raw) -> Self {
        let medium = raw.medium.as_deref();
        let slots = MEDIA.iter().find(|(name, _)| medium == Some(*name)).map(|(_, slots)| *slots);
        let gaussian = (medium == Some("Gaussian 5 ms")).then_some(5.0);
        let both = raw.jitter_sigma_ms.or(gaussian);
        let sigma = |ms: Option<f64>| Duration::from_nanos(scaled(ms.or(both).unwrap_or(0.0), 1e6));
        let loss = |p: Option<f64>| Probability::fraction(p.unwrap_or(0.0)).expect("a probability");
        Self {
            id: raw.id,
            rate: Rate::mbps(raw.link_mbps.unwrap_or(1000)),
            rtt: Duration::from_millis(raw.rtt_ms.unwrap_or(2)),
            bytes: Bytes::new(raw.transfer_bytes.unwrap_or(10_000_000)),
            buffer_milli_bdp: scaled(raw.buffer_bdp.unwrap_or(4.0), 1e3),
            loss_data: loss(raw.loss_data),
            loss_ack: loss(raw.loss_ack),
            sigma_data: sigma(raw.jitter_data_sigma_ms),
            sigma_ack: sigma(raw.jitter_ack_sigma_ms),
            reorders: raw.jitter_order.as_deref() == Some("reorder"),
            slots,
            nic: raw.nic_mbps.map(Rate::mbps),
            note: raw.note.unwrap_or_default(),
        }
    }
}

/// Media that send in turns.
const MEDIA: &[(&str, Duration)] = &[
    ("WiFi TXOP 2 ms", Duration::from_millis(2)),
    ("LTE subframe 1 ms", Duration::from_millis(1)),
    ("5G NR slot 0.5 ms", Duration::from_micros(500)),
];

/// A decimal of the reference as a whole number of its parts.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "figures of our own file")]
fn scaled(value: f64, parts: f64) -> u64 {
    (value * parts).round() as u64
}

impl Cell {
    /// What the path is like, in a line.
    pub fn about(&self) -> String {
        let mut about = format!(
            "{}, RTT {:?}, {}, buffer {} BDP",
            self.rate,
            self.rtt,
            self.bytes,
            decimal(self.buffer_milli_bdp, 1000)
        );
        for (what, loss) in [("data", self.loss_data), ("ACKs", self.loss_ack)] {
            if loss > Probability::ZERO {
                about += &format!(", {what} lost {} %", percent(loss));
            }
        }
        for (what, sigma) in [("data", self.sigma_data), ("ACKs", self.sigma_ack)] {
            if !sigma.is_zero() {
                about += &format!(", {what} jitter {sigma:?} {}", self.order());
            }
        }
        if let Some(slots) = self.slots {
            about += &format!(", slots {slots:?}");
        }
        if let Some(nic) = self.nic {
            about += &format!(", interface {nic}");
        }
        about
    }

    /// Settings other than the path's, which a row must show.
    pub fn flags(&self) -> Vec<String> {
        self.nic.iter().map(|nic| format!("nic={nic}")).collect()
    }

    /// The cell as the text of a topology file.
    pub fn to_json(&self) -> String {
        let bottleneck = self.link_json(self.loss_data, self.sigma_data);
        let back = self.link_json(self.loss_ack, self.sigma_ack);
        let about =
            if self.note.is_empty() { self.about() } else { format!("{}: {}", self.note, self.about()) };
        let bits = |rate: Rate| decimal(rate.as_bits_per_sec(), 1_000_000);
        format!(
            "{{\n  \"name\": {:?},\n  \"about\": {about:?},\n  \"duration\": \"{} s\",\n  \"links\": {{\n    \
             \"bottleneck\": {bottleneck},\n    \"return\": {back}\n  }},\n  \"flows\": [\n    {{\n      \
             \"law\": \"fixed\",\n      \"bytes\": \"{} MB\",\n      \"nic\": \"{} Mbit/s\",\n      \
             \"forward\": [\"bottleneck\"],\n      \"reverse\": [\"return\"]\n    }}\n  ]\n}}\n",
            self.id,
            LIMIT.as_secs(),
            decimal(self.bytes.get(), 1_000_000),
            bits(self.nic.unwrap_or(self.rate)),
        )
    }

    fn link_json(&self, loss: Probability, sigma: Duration) -> String {
        let mut fields = vec![
            format!("\"rate\": \"{} Mbit/s\"", decimal(self.rate.as_bits_per_sec(), 1_000_000)),
            format!("\"delay\": \"{} ms\"", millis(self.rtt / 2)),
            format!("\"buffer\": \"{} BDP\"", decimal(self.buffer_milli_bdp, 1000)),
        ];
        if loss > Probability::ZERO {
            fields.push(format!("\"loss\": \"{} %\"", percent(loss)));
        }
        if !sigma.is_zero() {
            let order = self.order();
            fields.push(format!(
                "\"jitter\": {{ \"sigma\": \"{} ms\", \"order\": \"{order}\" }}",
                millis(sigma)
            ));
        }
        if let Some(slots) = self.slots {
            fields.push(format!("\"slots\": \"{} ms\"", millis(slots)));
        }
        format!("{{ {} }}", fields.join(", "))
    }

    /// The cell as a topology.
    ///
    /// # Panics
    /// Never: cells make topologies.
    pub fn topology(&self) -> Topology {
        Topology::read(&self.id, &self.to_json()).expect("cells make topologies")
    }

    /// The `n`-th path around this one: rate, RTT, size, loss and jitter between half and twice as much,
    /// each drawn on its own; as often less as more.
    #[must_use]
    pub fn around(&self, seed: u64, n: u64) -> Self {
        let stream = RandomStream::new(seed, AROUND);
        let scale = |axis: u64, value: u64| {
            let thousandths = u128::from(1000 + stream.below(n * AXES + axis, 1001));
            let value = u128::from(value);
            let is_more = stream.below((n * AXES + axis) | 1 << 63, 2) == 1;
            let scaled = if is_more { value * thousandths / 1000 } else { value * 1000 / thousandths };
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        let time = |axis, time: Duration| {
            Duration::from_nanos(scale(axis, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
        };
        let loss = |axis, loss: Probability| {
            let ppb = scale(axis, loss.as_parts_per_billion().into()).min(1_000_000_000);
            Probability::parts_per_billion(u32::try_from(ppb).expect("at most a billion"))
                .expect("at most a billion")
        };
        let rate = |rate: Rate| Rate::bits_per_sec(scale(0, rate.as_bits_per_sec()));
        Self {
            id: format!("{}~{n}", self.id),
            rate: rate(self.rate),
            rtt: time(1, self.rtt),
            loss_data: loss(2, self.loss_data),
            loss_ack: loss(3, self.loss_ack),
            sigma_data: time(4, self.sigma_data),
            sigma_ack: time(5, self.sigma_ack),
            bytes: Bytes::new(scale(6, self.bytes.get())),
            ..self.clone()
        }
    }

    /// The figure that was published for this cell and law.
    pub fn published(&self, law: &LawSpec) -> Option<Figure> {
        self.published_as(crate::laws::find(law.name())?.published_as?)
    }

    /// The figure that was published for this cell and the law that the reference calls `published_as`.
    pub fn published_as(&self, published_as: &str) -> Option<Figure> {
        let figures: Grid<Value> = serde_json::from_str(FIGURES).expect("the figures are well formed");
        let plain = self.id.trim_end_matches("-fifo").trim_end_matches("-reorder");
        let cell = figures.cells.iter().find(|cell| cell["id"] == self.id || cell["id"] == plain)?;
        if let Some(mbps) = cell[published_as].as_f64() {
            return Some(Figure { mbps: Some(mbps), text: format!("{mbps}") });
        }
        if let Some(below) = cell[format!("{published_as}_below")].as_f64() {
            return Some(Figure { mbps: None, text: format!("< {below}") });
        }
        let range = cell.get(format!("{published_as}_range")).or_else(|| cell.get("all_range"))?;
        Some(Figure { mbps: None, text: format!("{} to {}", range[0], range[1]) })
    }

    fn order(&self) -> &'static str {
        if self.reorders { "reorder" } else { "fifo" }
    }
}

/// A published goodput.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// In Mbit/s, where it is a number.
    pub mbps: Option<f64>,
    /// As published: a number, a bound or a range.
    pub text: String,
}

fn millis(time: Duration) -> String {
    decimal(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), 1_000_000)
}

fn percent(loss: Probability) -> String {
    decimal(loss.as_parts_per_billion().into(), 10_000_000)
}

/// Ten times what the slowest published transfer took.
const LIMIT: Duration = Duration::from_secs(600);

/// Purpose of the draws of neighbouring paths.
const AROUND: u64 = 0x6172_6f75_6e64;
const AXES: u64 = 8;
