//! Hosts: what sends and receives.

mod null_crypto;
pub mod quic;

use std::any::Any;

use warplink::Time;

use crate::packet::Packet;

/// Something at the end of a route.
pub trait Host: Any {
    /// Its moment has come.
    fn wake(&mut self, cx: &mut Context<'_>);

    /// A packet has arrived.
    fn receive(&mut self, packet: Packet, cx: &mut Context<'_>);

    /// When it wants to be woken; [`Time::NEVER`] if only a packet can move it.
    fn next_wake(&mut self) -> Time;

    /// Whether it has done what it is there for. A run ends when every host says so.
    fn is_finished(&self) -> bool;
}

/// What a host may do.
pub struct Context<'a> {
    /// The present.
    pub now: Time,
    /// Packets that leave now, in this order.
    pub outbox: &'a mut Vec<Packet>,
}
