//! Hosts: what sends and receives.

pub mod bare;
mod batched;
mod flow;
mod null_crypto;
pub mod quic;
mod stats;
pub mod tcp;
pub mod udp;

pub use batched::Batched;
pub use flow::{AckPolicy, FlowHost, FlowOptions, Traffic};
pub use stats::{FlowStats, Progress, RttSummary};

use std::any::Any;

use warplink::Time;

use crate::packet::Packet;

/// Something at the end of a route.
pub trait Host: Any {
    /// Its moment has come.
    fn wake(&mut self, cx: &mut Context<'_>);

    /// A packet has arrived.
    fn receive(&mut self, packet: Packet, cx: &mut Context<'_>);

    /// Packets have arrived together, in this order: a host that answers once for all of them does so
    /// here. Leaves `packets` empty.
    fn receive_all(&mut self, packets: &mut Vec<Packet>, cx: &mut Context<'_>) {
        for packet in packets.drain(..) {
            self.receive(packet, cx);
        }
    }

    /// When it wants to be woken; [`Time::NEVER`] if only a packet can move it.
    fn next_wake(&mut self) -> Time;

    /// Whether it has done what it is there for. A run ends when every host says so.
    fn is_finished(&self) -> bool;

    /// What its application saw, if it has one.
    fn progress(&self) -> Option<Progress> {
        None
    }

    /// What its sending side went through, if it has one.
    fn stats(&self) -> Option<FlowStats> {
        None
    }
}

/// What a host may do.
pub struct Context<'a> {
    /// The present.
    pub now: Time,
    /// Packets that leave now, in this order.
    pub outbox: &'a mut Vec<Packet>,
}
