//! Bit rates of Wi-Fi interfaces: nl80211, in generic netlink. Needs no privilege.
//!
//! ```text
//! nlctrl:  GETFAMILY "nl80211"           -> the family's number
//! nl80211: GET_STATION dump, by index    -> STA_INFO { TX_BITRATE { BITRATE32 in 100 kbit/s } }
//! ```

use std::convert::Infallible;
use std::io;

use netlink_packet_core::{
    DefaultNla, Emitable, NLA_HEADER_SIZE, NLM_F_DUMP, NetlinkDeserializable, NetlinkHeader,
    NetlinkSerializable, NlasIterator,
};
use nix::sys::socket::SockProtocol;

use super::netlink::{ask, open};
use crate::units::Rate;

/// The rate at which the interface now sends to its access point, as the radio counts it; of several stations
/// the fastest's. `None` if it is no Wi-Fi interface, or speaks with nobody.
pub fn bit_rate(index: u32) -> Option<Rate> {
    match look_up(index) {
        Ok(rate) => rate,
        Err(error) => {
            tracing::debug!(%error, index, "nl80211 tells no bit rate");
            None
        }
    }
}

fn look_up(index: u32) -> io::Result<Option<Rate>> {
    let socket = open(SockProtocol::NetlinkGeneric, 0)?;
    let mut family = None;
    let name = [(CTRL_ATTR_FAMILY_NAME, b"nl80211\0".to_vec())];
    let found = ask(&socket, Generic::new(CTRL, CTRL_GETFAMILY, &name), 0, |answer: Generic| {
        family = family.or(answer.attribute(CTRL_ATTR_FAMILY_ID).and_then(u16_of));
    });
    match found {
        // A kernel without Wi-Fi.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    }
    let Some(family) = family else { return Ok(None) };
    let mut fastest = None;
    let interface = [(ATTR_IFINDEX, index.to_ne_bytes().to_vec())];
    let question = Generic::new(family, GET_STATION, &interface);
    ask(&socket, question, NLM_F_DUMP, |answer: Generic| {
        fastest = fastest.max(sending_rate(&answer.attributes))
    })?;
    Ok(fastest)
}

/// The rate at which a station is sent to, of the attributes of a NEW_STATION message.
fn sending_rate(attributes: &[u8]) -> Option<Rate> {
    let station = find(attributes, ATTR_STA_INFO)?;
    let rate = find(station, STA_INFO_TX_BITRATE)?;
    let wide = find(rate, RATE_INFO_BITRATE32).and_then(u32_of);
    let narrow = || find(rate, RATE_INFO_BITRATE).and_then(u16_of).map(u32::from);
    let hundred_kbps = wide.or_else(narrow).filter(|rate| *rate > 0)?;
    Some(Rate::kbps(u64::from(hundred_kbps) * 100))
}

/// The value of the first attribute of this kind.
fn find(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    let nla = NlasIterator::new(attributes).map_while(Result::ok).find(|nla| nla.kind() == kind)?;
    let len = usize::from(nla.length());
    nla.into_inner().get(NLA_HEADER_SIZE..len)
}

fn u16_of(value: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(value.try_into().ok()?))
}

fn u32_of(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.try_into().ok()?))
}

/// A message of generic netlink: `struct genlmsghdr` and attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Generic {
    family: u16,
    command: u8,
    attributes: Vec<u8>,
}

impl Generic {
    fn new(family: u16, command: u8, attributes: &[(u16, Vec<u8>)]) -> Self {
        let nlas: Vec<_> =
            attributes.iter().map(|(kind, value)| DefaultNla::new(*kind, value.clone())).collect();
        let mut attributes = vec![0; nlas.as_slice().buffer_len()];
        nlas.as_slice().emit(&mut attributes);
        Self { family, command, attributes }
    }

    fn attribute(&self, kind: u16) -> Option<&[u8]> {
        find(&self.attributes, kind)
    }
}

impl NetlinkSerializable for Generic {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        HEADER + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let (header, attributes) = buffer.split_at_mut(HEADER);
        header.copy_from_slice(&[self.command, VERSION, 0, 0]);
        attributes.copy_from_slice(&self.attributes);
    }
}

impl NetlinkDeserializable for Generic {
    type Error = Infallible;

    /// A message without a header says nothing.
    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Infallible> {
        Ok(Self {
            family: header.message_type,
            command: payload.first().copied().unwrap_or_default(),
            attributes: payload.get(HEADER..).unwrap_or_default().to_vec(),
        })
    }
}

/// `GENL_HDRLEN`, and the version that both families ignore.
const HEADER: usize = 4;
const VERSION: u8 = 1;

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID` and `CTRL_ATTR_FAMILY_NAME` of
/// linux/genetlink.h.
const CTRL: u16 = 0x10;
const CTRL_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// `NL80211_CMD_GET_STATION`, `NL80211_ATTR_IFINDEX`, `NL80211_ATTR_STA_INFO`, `NL80211_STA_INFO_TX_BITRATE`,
/// `NL80211_RATE_INFO_BITRATE` and `NL80211_RATE_INFO_BITRATE32` of linux/nl80211.h.
const GET_STATION: u8 = 17;
const ATTR_IFINDEX: u16 = 3;
const ATTR_STA_INFO: u16 = 21;
const STA_INFO_TX_BITRATE: u16 = 8;
const RATE_INFO_BITRATE: u16 = 1;
const RATE_INFO_BITRATE32: u16 = 5;

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
    use proptest::prelude::*;

    use super::*;

    /// An attribute as the kernel writes it: length, kind, value, padding.
    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(value.len() + 4).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    const NESTED: u16 = 0x8000;

    /// A station that is sent to at 866.7 Mbit/s: 80 MHz, two streams, VHT-MCS 9, short guard interval.
    fn station(rate: &[u8]) -> Vec<u8> {
        let info = [
            attribute(1, &120_u32.to_ne_bytes()),
            attribute(7, &[0xc4]),
            attribute(STA_INFO_TX_BITRATE | NESTED, rate),
        ];
        let address = attribute(6, &[2, 0, 0, 0, 0, 1]);
        [
            attribute(ATTR_IFINDEX, &3_u32.to_ne_bytes()),
            address,
            attribute(ATTR_STA_INFO | NESTED, &info.concat()),
        ]
        .concat()
    }

    #[test]
    fn a_stations_rate_is_read() {
        let both = [attribute(1, &8667_u16.to_ne_bytes()), attribute(5, &8667_u32.to_ne_bytes())].concat();
        assert_eq!(sending_rate(&station(&both)), Some(Rate::kbps(866_700)));
        // An old kernel has the narrow field alone; at 9.6 Gbit/s there is only the wide one.
        assert_eq!(sending_rate(&station(&attribute(1, &540_u16.to_ne_bytes()))), Some(Rate::mbps(54)));
        assert_eq!(sending_rate(&station(&attribute(5, &96_000_u32.to_ne_bytes()))), Some(Rate::mbps(9600)));
        assert_eq!(sending_rate(&station(&attribute(5, &0_u32.to_ne_bytes()))), None, "nothing sent yet");
        assert_eq!(sending_rate(&station(&[])), None);
        assert_eq!(sending_rate(&[]), None);
    }

    #[test]
    fn a_question_is_worded_as_the_kernel_expects() {
        let question = Generic::new(0x1c, GET_STATION, &[(ATTR_IFINDEX, 3_u32.to_ne_bytes().to_vec())]);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_DUMP;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(question.clone()));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        // struct nlmsghdr: length 28, type, flags, sequence, port; struct genlmsghdr; one attribute.
        let mut expected = 28_u32.to_ne_bytes().to_vec();
        expected.extend([0x1c_u16, NLM_F_DUMP].into_iter().flat_map(u16::to_ne_bytes));
        expected.extend([0; 8]);
        expected.extend([17, 1, 0, 0]);
        expected.extend(attribute(3, &3_u32.to_ne_bytes()));
        assert_eq!(bytes, expected);
        let read = NetlinkMessage::<Generic>::deserialize(&bytes).unwrap();
        assert_eq!(read.payload, NetlinkPayload::InnerMessage(question));
    }

    #[test]
    fn an_interface_without_a_radio_has_no_bit_rate() {
        for index in [1, u32::MAX, 0] {
            assert_eq!(bit_rate(index), None, "{index}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            sending_rate(&bytes);
            sending_rate(&station(&bytes));
            let _ = NetlinkMessage::<Generic>::deserialize(&bytes);
        }
    }
}
