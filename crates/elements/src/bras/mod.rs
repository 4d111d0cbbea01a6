//! Broadband remote access: subscribers' sessions by PPP over Ethernet, and RADIUS.
//!
//! [`frame`] and [`control`] are what is on the wire; [`automaton`], [`layer`] and [`ppp`] a session of
//! PPP without a network around it; [`table`] and [`sessions`] what a concentrator keeps of sessions.

use crate::prelude::*;

pub mod authority;
pub mod automaton;
pub mod control;
pub mod frame;
mod ip6;
pub mod layer;
pub mod lcp;
pub mod network;
pub mod ppp;
pub mod radius;
mod secrets;
mod sessions;
mod table;
pub mod users;

crate::elements! {
    pppoe_decap: PPPoEDecap;
    pppoe_encap: PPPoEEncap;
    pppoe_server: PPPoEServer;
    radius_client: RADIUSClient;
}

/// An element that knows the sessions of packets.
pub trait SessionTable {
    /// Takes the headers off session frames: each leaves by output 0 as a packet of IPv4, by output 1 as it
    /// is, or by output 2 as a packet of IPv6, or is dropped.
    fn take_off(&mut self, batch: &mut Batch, outputs: &mut [u32; BATCH]);

    /// Puts headers in front of packets: each leaves by output 0, or by output 1 if no session has its
    /// destination.
    fn put_on(&mut self, batch: &mut Batch, outputs: &mut [u32; BATCH]);
}

impl Interface for dyn SessionTable {
    const NAME: &'static str = "PPPoESessions";
}
