//! Which hosts stand at the ends of a flow.

use std::time::Instant;

use warplink::Time;
use warprate::conn::core::Setup;
use warprate::conn::{Qlog, TransportConfig};

use super::payload_rate;
use crate::host::quic::{Protection, QuicHost, QuicOptions, Role, Side};
use crate::host::udp::{Pattern, Sink, UdpOptions, UdpSender};
use crate::host::{AckPolicy, Batched, FlowHost, FlowOptions, Host, Traffic, bare, tcp};
use crate::laws::Made;
use crate::packet::RouteId;
use crate::topology::{Cipher, End, Flow, HostKind};

/// What is the same for all hosts of a run.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The instant that stands for time zero.
    pub origin: Instant,
    /// Transport parameters of the QUIC hosts.
    pub transport: &'a TransportConfig,
}

/// A flow's receiver and sender; `routes`, `seeds` and `qlogs` are theirs in this order.
pub fn ends(
    flow: &Flow,
    law: Made,
    routes: [RouteId; 2],
    seeds: [u64; 2],
    qlogs: [Option<Qlog>; 2],
    setting: Setting<'_>,
) -> (Box<dyn Host>, Box<dyn Host>) {
    match flow.host {
        HostKind::Quic => quic_ends(flow, law, routes, seeds, qlogs, setting),
        HostKind::Bare | HostKind::Tcp => flow_ends(flow, law, routes, setting.origin),
        HostKind::Udp => udp_ends(flow, routes, seeds),
    }
}

fn quic_ends(
    flow: &Flow,
    law: Made,
    routes: [RouteId; 2],
    seeds: [u64; 2],
    qlogs: [Option<Qlog>; 2],
    Setting { origin, transport }: Setting<'_>,
) -> (Box<dyn Host>, Box<dyn Host>) {
    let law = law.into_law();
    let setup = |end: usize| {
        let mut transport = transport.clone();
        // Flows are streams: what an unused extension adds to the handshake would move every trace.
        transport.initial_mtu(flow.mtu).datagram_receive_buffer_size(None);
        if let Some(log) = &qlogs[end] {
            transport.qlog(log.clone());
        }
        Setup { law: law.clone(), anchor: payload_rate(flow.nic, flow.mtu), transport }
    };
    let protection = match flow.cipher {
        Cipher::Null => Protection::Null,
        Cipher::Tls => Protection::Tls,
    };
    let start = Time::from(flow.start);
    let options = |end: usize| QuicOptions {
        setup: setup(end),
        protection,
        seed: seeds[end],
        route: routes[end],
        origin,
        start,
    };
    let [at_receiver, at_sender] = match flow.client {
        End::Receiver => [Side::Client, Side::Server],
        End::Sender => [Side::Server, Side::Client],
    };
    let receiver = QuicHost::new(Role::Receive, at_receiver, options(0));
    let sender = QuicHost::new(Role::Send(flow.bytes), at_sender, options(1));
    match flow.receiver.and_then(|receiver| receiver.batch) {
        Some(batch) => (Box::new(Batched::new(receiver, batch)), Box::new(sender)),
        None => (Box::new(receiver), Box::new(sender)),
    }
}

fn flow_ends(
    flow: &Flow,
    law: Made,
    routes: [RouteId; 2],
    origin: Instant,
) -> (Box<dyn Host>, Box<dyn Host>) {
    let Made::Own { factory: law, .. } = law else { unreachable!("the topology was checked") };
    let law = crate::laws::Shared(law);
    type Kind = (fn(Traffic, FlowOptions) -> FlowHost, AckPolicy, u16);
    let (make, standard, datagram): Kind = match flow.host {
        HostKind::Tcp => (tcp::host, AckPolicy::TCP, 1448),
        _ => (bare::host, AckPolicy::QUIC, 1452),
    };
    let receiver = flow.receiver.unwrap_or_default();
    let acks = AckPolicy {
        every: receiver.ack_every.unwrap_or(standard.every),
        delay: receiver.ack_delay.unwrap_or(standard.delay),
        batch: receiver.batch,
    };
    let options = |end: usize| {
        let basis = bare::options(law.clone(), routes[end], origin);
        let (acks, peer) = if end == 0 { (acks, standard) } else { (standard, acks) };
        FlowOptions {
            anchor: payload_rate(flow.nic, datagram),
            acks,
            peer_ack_delay: peer.delay,
            start: Time::from(flow.start),
            ..basis
        }
    };
    let (at_receiver, at_sender) = match (flow.request, flow.bytes) {
        (Some(request), Some(answer)) => (Traffic::Request(request), Traffic::Respond(answer)),
        _ => (Traffic::Receive, Traffic::Send(flow.bytes)),
    };
    (make(at_receiver, options(0)).into_host(), make(at_sender, options(1)).into_host())
}

fn udp_ends(flow: &Flow, routes: [RouteId; 2], seeds: [u64; 2]) -> (Box<dyn Host>, Box<dyn Host>) {
    let pattern = match flow.on_off {
        None => Pattern::Constant,
        Some(cycle) if cycle.random => Pattern::RandomOnOff(cycle.on.into(), cycle.off.into(), seeds[1]),
        Some(cycle) => Pattern::OnOff(cycle.on.into(), cycle.off.into()),
    };
    let sender = UdpSender::new(UdpOptions {
        rate: flow.rate.expect("the topology was checked"),
        packet: warplink::wire_bytes(warpunits::Bytes::new(flow.mtu.into()), false),
        pattern,
        start: flow.start.into(),
        stop: flow.stop.map_or(Time::NEVER, Time::from),
        route: routes[1],
    });
    (Box::new(Sink::new()), Box::new(sender))
}
