//! Which law a flow runs: a name of the registry, or `fixed` with its rate and window.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};

use super::text::{self, Multiple, Pace, Window};
use crate::laws;

/// A law by name, or with parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LawSpec {
    /// A law of the registry.
    Named(&'static str),
    /// An explicit rate under an explicit window.
    Fixed(FixedSpec),
}

/// The parameters of `fixed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedSpec {
    /// Default `97 %`.
    #[serde(default = "default_pace", deserialize_with = "text::required")]
    pub rate: Pace,
    /// Default `measured`.
    #[serde(default = "default_window", deserialize_with = "text::required")]
    pub window: Window,
}

impl Default for FixedSpec {
    fn default() -> Self {
        Self { rate: default_pace(), window: default_window() }
    }
}

impl LawSpec {
    /// The law of this name.
    pub fn named(name: &str) -> Option<Self> {
        if name == FIXED {
            return Some(Self::Fixed(FixedSpec::default()));
        }
        laws::ALL.iter().find(|law| law.name == name).map(|law| Self::Named(law.name))
    }

    /// The law's name in the registry.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Named(name) => name,
            Self::Fixed(_) => FIXED,
        }
    }
}

/// The library's default.
impl Default for LawSpec {
    fn default() -> Self {
        Self::Named("warprate")
    }
}

impl fmt::Display for LawSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<'de> Deserialize<'de> for LawSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LawVisitor)
    }
}

struct LawVisitor;

impl<'de> Visitor<'de> for LawVisitor {
    type Value = LawSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a law: ")?;
        for law in laws::ALL {
            write!(f, "`{}`, ", law.name)?;
        }
        f.write_str("or `{\"fixed\": {\"rate\": …, \"window\": …}}`")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<LawSpec, E> {
        LawSpec::named(name).ok_or_else(|| E::invalid_value(Unexpected::Str(name), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LawSpec, A::Error> {
        let Some(name) = map.next_key::<String>()? else {
            return Err(A::Error::invalid_value(Unexpected::Map, &self));
        };
        if name != FIXED {
            return Err(A::Error::invalid_value(Unexpected::Str(&name), &self));
        }
        let spec = map.next_value()?;
        match map.next_key::<String>()? {
            Some(second) => Err(A::Error::unknown_field(&second, &[])),
            None => Ok(LawSpec::Fixed(spec)),
        }
    }
}

/// A little less than the link carries, so that its queue stays empty.
fn default_pace() -> Pace {
    Pace::Share(Multiple::millionths(970_000))
}

fn default_window() -> Window {
    Window::Measured
}

const FIXED: &str = "fixed";
