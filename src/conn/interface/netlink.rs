//! Routes, links and queueing disciplines through rtnetlink. The kernel answers within the call that asks.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable, Nla,
};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{self, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType};
use nix::sys::time::{TimeVal, TimeValLike};

use super::carrier::{Link, carrier, queues};
use super::ethtool::speed;
use super::{Anchor, Etf, Interface, Qdisc, wifi};

/// How an interface is called.
#[derive(Debug, Clone, Copy)]
pub enum Key<'a> {
    Name(&'a str),
    Index(u32),
}

/// What is known of an interface; `None` if there is no such.
pub fn look_up(key: Key<'_>) -> io::Result<Option<Interface>> {
    let socket = open(SockProtocol::NetlinkRoute, 0)?;
    let links = links(&socket)?;
    let is_meant = |link: &&Link| match key {
        Key::Name(name) => link.name == name,
        Key::Index(index) => link.index == index,
    };
    let Some(link) = links.iter().find(is_meant) else { return Ok(None) };
    let is_hardware = link.kind.is_none();
    let anchor = carrier(&links, &speed, link.index)
        .map(|carrier| Anchor::of_line(carrier.name, carrier.rate))
        .or_else(|| wifi::bit_rate(link.index).filter(|_| is_hardware).map(Anchor::of_wifi))
        .unwrap_or(Anchor::FALLBACK);
    let qdiscs = qdiscs(&socket)?;
    let mut found = queues(&links, link.index).into_iter().map(|index| root_qdisc(&qdiscs, index));
    let own = found.next().expect("an interface is among its own queues");
    let qdisc = if own.kind == NO_QUEUE { found.find(|qdisc| qdisc.kind != NO_QUEUE) } else { None };
    let qdisc = qdisc.unwrap_or(own);
    Ok(Some(Interface { name: link.name.clone(), index: link.index, anchor, qdisc }))
}

/// The interface that the kernel's routes choose for `remote`.
pub fn route(remote: SocketAddr, local: Option<IpAddr>) -> io::Result<u32> {
    let ip = remote.ip().to_canonical();
    let mut question = RouteMessage::default();
    question.header.address_family = if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    question.header.destination_prefix_length = if ip.is_ipv4() { 32 } else { 128 };
    question.attributes.push(RouteAttribute::Destination(RouteAddress::from(ip)));
    if let Some(local) = local.filter(|local| local.is_ipv4() == ip.is_ipv4()) {
        question.header.source_prefix_length = question.header.destination_prefix_length;
        question.attributes.push(RouteAttribute::Source(RouteAddress::from(local)));
    }
    if let SocketAddr::V6(remote) = remote
        && remote.scope_id() != 0
    {
        question.attributes.push(RouteAttribute::Oif(remote.scope_id()));
    }
    let mut found = None;
    ask(&open(SockProtocol::NetlinkRoute, 0)?, RouteNetlinkMessage::GetRoute(question), 0, |answer| {
        if let RouteNetlinkMessage::NewRoute(route) = answer {
            found = route.attributes.into_iter().find_map(|attribute| match attribute {
                RouteAttribute::Oif(index) => Some(index),
                _ => None,
            });
        }
    })?;
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the kernel's route names no interface"))
}

/// A netlink socket that hears of changes in these groups.
pub fn open(protocol: SockProtocol, groups: u32) -> io::Result<OwnedFd> {
    let family = socket::AddressFamily::Netlink;
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(family, SockType::Raw, flags, protocol)?;
    socket::bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(socket)
}

/// Asks one question and passes on every answer that can be read.
pub fn ask<M>(socket: &OwnedFd, question: M, flags: u16, mut on_answer: impl FnMut(M)) -> io::Result<()>
where
    M: NetlinkSerializable + NetlinkDeserializable,
{
    socket::setsockopt(socket, ReceiveTimeout, &TimeVal::milliseconds(LONGEST_ANSWER_MS))?;
    let mut message = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::InnerMessage(question));
    message.header.flags = NLM_F_REQUEST | flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket::send(socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
    let is_dump = flags & NLM_F_DUMP == NLM_F_DUMP;
    let mut inbox = vec![0; LARGEST_ANSWER];
    loop {
        let len = socket::recv(socket.as_raw_fd(), &mut inbox, MsgFlags::empty())?;
        let mut rest = &inbox[..len];
        while let Ok(frame) = NetlinkBuffer::new_checked(rest) {
            let len = usize::try_from(frame.length()).unwrap_or(usize::MAX);
            // What a newer kernel words in a way that we do not understand is not about the basics.
            if let Ok(message) = NetlinkMessage::<M>::deserialize(&rest[..len]) {
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(answer) => on_answer(answer),
                    _ => {}
                }
            }
            // Messages are padded to four bytes.
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        if !is_dump {
            return Ok(());
        }
    }
}

fn links(socket: &OwnedFd) -> io::Result<Vec<Link>> {
    let mut links = Vec::new();
    let question = RouteNetlinkMessage::GetLink(LinkMessage::default());
    ask(socket, question, NLM_F_DUMP, |answer| {
        if let RouteNetlinkMessage::NewLink(message) = answer {
            links.push(to_link(message));
        }
    })?;
    Ok(links)
}

fn to_link(message: LinkMessage) -> Link {
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        kind: None,
        lower: None,
        master: None,
        is_running: message.header.flags.contains(LinkFlags::Running),
    };
    // `lo` has no kind, and no carrier either: it is itself, without a speed.
    let mut is_elsewhere = false;
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::Link(lower) => link.lower = Some(lower),
            LinkAttribute::Controller(master) => link.master = Some(master),
            LinkAttribute::LinkNetNsId(_) => is_elsewhere = true,
            LinkAttribute::LinkInfo(infos) => link.kind = infos.into_iter().find_map(to_kind),
            _ => {}
        }
    }
    link.lower = link.lower.filter(|lower| !is_elsewhere && *lower != 0);
    link
}

fn to_kind(info: LinkInfo) -> Option<InfoKind> {
    match info {
        LinkInfo::Kind(kind) => Some(kind),
        _ => None,
    }
}

fn qdiscs(socket: &OwnedFd) -> io::Result<Vec<TcMessage>> {
    let mut qdiscs = Vec::new();
    let question = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
    ask(socket, question, NLM_F_DUMP, |answer| {
        if let RouteNetlinkMessage::NewQueueDiscipline(message) = answer {
            qdiscs.push(message);
        }
    })?;
    Ok(qdiscs)
}

fn root_qdisc(qdiscs: &[TcMessage], index: u32) -> Qdisc {
    let own = || qdiscs.iter().filter(|message| i64::from(message.header.index) == i64::from(index));
    let Some(root) = own().find(|message| message.header.parent == TcHandle::ROOT) else {
        return Qdisc { kind: NO_QUEUE.into(), children: Vec::new(), etf: None };
    };
    let kind = kind_of(root);
    let queues = match kind.as_str() {
        "mq" => 1..=u16::MAX,
        "mqprio" => queues_of_plain_datagrams(options(root)),
        _ => RangeInclusive::new(1, 0),
    };
    let is_child = |message: &&TcMessage| {
        let parent = message.header.parent;
        parent.major == root.header.handle.major && parent != TcHandle::ROOT && queues.contains(&parent.minor)
    };
    let children: Vec<_> = own().filter(is_child).collect();
    let etf =
        children.iter().copied().chain([root]).filter(|message| kind_of(message) == "etf").filter_map(to_etf);
    Qdisc { kind, etf: etf.reduce(Etf::or_worse), children: children.into_iter().map(kind_of).collect() }
}

/// The hardware queues, counted from 1 as their handles are, that `mqprio` gives to datagrams of priority 0,
/// which is what a socket sends unless told otherwise. `struct tc_mqprio_qopt` of linux/pkt_sched.h: the number
/// of classes, the class of each of 16 priorities, a flag, and for each class how many queues it has and which
/// is the first.
fn queues_of_plain_datagrams(options: Vec<u8>) -> RangeInclusive<u16> {
    let class = options.get(1).copied().unwrap_or(u8::MAX);
    let half_word = |at: usize| {
        let at = at + 2 * usize::from(class);
        Some(u16::from_ne_bytes(options.get(at..at + 2)?.try_into().ok()?)).filter(|_| class < MQPRIO_CLASSES)
    };
    match (half_word(MQPRIO_COUNTS), half_word(MQPRIO_OFFSETS)) {
        (Some(count), Some(first)) => first.saturating_add(1)..=first.saturating_add(count),
        _ => RangeInclusive::new(1, 0),
    }
}

/// TCA_OPTIONS.
fn options(message: &TcMessage) -> Vec<u8> {
    let options = message.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Options(options) => options.first(),
        _ => None,
    });
    let Some(TcOption::Other(options)) = options else { return Vec::new() };
    let mut bytes = vec![0; options.value_len()];
    options.emit_value(&mut bytes);
    bytes
}

fn kind_of(message: &TcMessage) -> String {
    let kind = message.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Kind(kind) => Some(kind.clone()),
        _ => None,
    });
    kind.unwrap_or_default()
}

/// `struct tc_etf_qopt` of linux/pkt_sched.h, within TCA_OPTIONS and TCA_ETF_PARMS: three words, the delta in
/// nanoseconds, the clock, and flags.
fn to_etf(message: &TcMessage) -> Option<Etf> {
    let bytes = options(message);
    // The header of TCA_ETF_PARMS takes four bytes.
    let word = |at: usize| Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let delta = Duration::from_nanos(word(4)?.try_into().ok()?);
    Some(Etf { delta, is_offloaded: word(12)? & ETF_OFFLOAD_ON != 0 })
}

/// Where the counts and the first queues of the classes are in `struct tc_mqprio_qopt`.
const MQPRIO_COUNTS: usize = 18;
const MQPRIO_OFFSETS: usize = 50;
const MQPRIO_CLASSES: u8 = 16;

/// `TC_ETF_OFFLOAD_ON`.
const ETF_OFFLOAD_ON: i32 = 1 << 1;

/// What the kernel calls a device that sends at once.
const NO_QUEUE: &str = "noqueue";

/// The kernel answers at once; a second is for ever.
const LONGEST_ANSWER_MS: i64 = 1000;

/// The kernel sends dumps in pieces of up to 32 KiB.
const LARGEST_ANSWER: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use netlink_packet_core::{DefaultNla, Parseable};
    use proptest::prelude::*;

    use super::super::SendClock;
    use super::*;

    fn message(index: i32, handle: u32, parent: u32, kind: &str) -> TcMessage {
        let mut message = TcMessage::with_index(index);
        message.header.handle = handle.into();
        message.header.parent = parent.into();
        message.attributes.push(TcAttribute::Kind(kind.into()));
        message
    }

    const ROOT: u32 = u32::MAX;

    #[test]
    fn the_root_and_the_children_of_mq_are_told_apart() {
        let mut qdiscs = vec![message(2, 0, ROOT, "mq"), message(3, 0, ROOT, "pfifo_fast")];
        qdiscs.push(message(2, 0, 1, "fq"));
        qdiscs.push(message(2, 0, 2, "fq_codel"));
        qdiscs.push(message(2, 0xffff_0000, 0xffff_fff1, "ingress"));
        let root = root_qdisc(&qdiscs, 2);
        assert_eq!((root.kind.as_str(), root.children), ("mq", vec!["fq".to_owned(), "fq_codel".to_owned()]));
        assert_eq!(root_qdisc(&qdiscs, 3).kind, "pfifo_fast");
        assert_eq!(root_qdisc(&qdiscs, 4).kind, "noqueue");
    }

    fn with_options(mut message: TcMessage, options: &[u8]) -> TcMessage {
        let mut bytes = u16::try_from(options.len() + 4).unwrap().to_ne_bytes().to_vec();
        bytes.extend(2_u16.to_ne_bytes());
        bytes.extend(options);
        let nla = netlink_packet_core::NlaBuffer::new_checked(bytes.as_slice()).unwrap();
        let options = TcOption::Other(DefaultNla::parse(&nla).unwrap());
        message.attributes.push(TcAttribute::Options(vec![options]));
        message
    }

    /// TCA_ETF_PARMS: delta in ns, CLOCK_TAI, flags.
    fn etf_options(delta: i32, flags: i32) -> Vec<u8> {
        let mut bytes = vec![16, 0, 1, 0];
        bytes.extend([delta, 11, flags].into_iter().flat_map(i32::to_ne_bytes));
        bytes
    }

    /// Four queues: the first two for class 0, the third for class 1, the fourth for class 2. Priority 0 is of
    /// `class`.
    fn mqprio(class: u8) -> TcMessage {
        let mut options = vec![3];
        options.extend([class, 2, 1, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
        options.push(0);
        for words in [[2_u16, 1, 1], [0, 2, 3]] {
            options.extend(words.into_iter().flat_map(u16::to_ne_bytes));
            options.resize(options.len() + 2 * 13, 0);
        }
        assert_eq!(options.len(), 82, "sizeof(struct tc_mqprio_qopt)");
        with_options(message(2, 0x0100_0000, ROOT, "mqprio"), &options)
    }

    #[test]
    fn the_children_of_mqprio_that_count_are_those_for_priority_0() {
        let qdiscs = |class| {
            let etf = |queue: u32, delta| {
                with_options(
                    message(2, 0x8000_0000 + queue, 0x0100_0000 + queue, "etf"),
                    &etf_options(delta, 0),
                )
            };
            vec![
                mqprio(class),
                etf(1, 100_000),
                etf(2, 300_000),
                message(2, 0, 0x0100_0003, "fq"),
                message(2, 0, 0x0100_0004, "pfifo_fast"),
            ]
        };
        let clock = |class| root_qdisc(&qdiscs(class), 2).send_clock();
        assert_eq!([clock(0), clock(1), clock(2)], [SendClock::Etf, SendClock::Fq, SendClock::Timer]);
        // Classes that do not exist, or have no queue.
        assert_eq!([clock(3), clock(200)], [SendClock::Timer, SendClock::Timer]);
        let etf = root_qdisc(&qdiscs(0), 2).etf.unwrap();
        assert_eq!(etf.delta, Duration::from_micros(300), "the longest");
        let cut = with_options(message(2, 0x0100_0000, ROOT, "mqprio"), &[3, 0, 2, 1]);
        assert_eq!(root_qdisc(&[cut], 2).send_clock(), SendClock::Timer);
    }

    proptest! {
        #[test]
        fn whatever_options_come_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            for kind in ["etf", "mqprio", "mq"] {
                root_qdisc(&[with_options(message(2, 0x0100_0000, ROOT, kind), &bytes)], 2);
            }
        }
    }

    #[test]
    fn the_parameters_of_etf_are_read() {
        for (flags, is_offloaded) in [(0, false), (1, false), (2, true), (3, true)] {
            let etf = with_options(message(2, 0, ROOT, "etf"), &etf_options(200_000, flags));
            let expected = Etf { delta: Duration::from_micros(200), is_offloaded };
            assert_eq!(root_qdisc(&[etf], 2).etf, Some(expected), "flags {flags}");
        }
    }
}
