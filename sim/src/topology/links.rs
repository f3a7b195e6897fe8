//! Reading of a topology's links: names in the file's order, each once.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use warplink::Order;

use super::Link;

/// Links by name, in the file's order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Links(Vec<(String, Link)>);

impl Links {
    /// The link of this name.
    pub fn get(&self, name: &str) -> Option<&Link> {
        self.place(name).map(|(_, link)| link)
    }

    /// The link of this name and its place in the file.
    pub fn place(&self, name: &str) -> Option<(usize, &Link)> {
        self.0
            .iter()
            .enumerate()
            .find(|(_, (known, _))| known == name)
            .map(|(place, (_, link))| (place, link))
    }

    /// All links, in the file's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Link)> {
        self.0.iter().map(|(name, link)| (name.as_str(), link))
    }
}

impl<'de> Deserialize<'de> for Links {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LinksVisitor)
    }
}

struct LinksVisitor;

impl<'de> Visitor<'de> for LinksVisitor {
    type Value = Links;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of links by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Links, A::Error> {
        let mut links = Links::default();
        while let Some(name) = map.next_key::<String>()? {
            if links.get(&name).is_some() {
                return Err(A::Error::custom(format_args!("duplicate link `{name}`")));
            }
            let link = map.next_value()?;
            links.0.push((name, link));
        }
        Ok(links)
    }
}

/// Reads a field that may be absent but not `null`.
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads `fifo` or `reorder`.
pub fn order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Order, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Name {
        Fifo,
        Reorder,
    }
    Ok(match Name::deserialize(deserializer)? {
        Name::Fifo => Order::Fifo,
        Name::Reorder => Order::Reorder,
    })
}
