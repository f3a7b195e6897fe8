//! What a law has to reach on a path: the external yardsticks.

use std::time::Duration;

use serde::Deserialize;
use warplink::Probability;

use super::{LawSpec, text};

/// A limit that someone else set for a law on this path. It has one of `done`, `rtt` and `startup`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Yardstick {
    /// The law, in the place of the first flow's.
    pub law: LawSpec,
    /// When the last byte has to be there.
    #[serde(default, deserialize_with = "text::optional")]
    pub done: Option<Duration>,
    /// What `done` counts from. Default the flow's start, so that the handshake counts.
    #[serde(default, deserialize_with = "text::required")]
    pub since: Duration,
    /// The largest smoothed round-trip time at the end.
    #[serde(default, deserialize_with = "text::optional")]
    pub rtt: Option<Duration>,
    /// BBR: startup ends after three rounds without growth and without a loss, and the bandwidth found is
    /// no farther than this from what the bottleneck carries.
    #[serde(default, deserialize_with = "text::optional")]
    pub startup: Option<Probability>,
}
