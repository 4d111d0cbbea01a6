//! Views of packets for programs.

use super::headers::{Headers, View};
use crate::prelude::*;

/// A view of an IP packet: its headers.
#[derive(Clone, Copy)]
pub struct IpView<'p>(pub &'p Packet);

impl<'p> View<'p> for IpView<'p> {
    #[inline(always)]
    fn headers(self) -> Headers<'p> {
        headers(self.0)
    }

    #[inline(always)]
    fn front(self) -> &'p [u8] {
        self.0.mac_header().unwrap_or(&[])
    }

    #[inline(always)]
    fn plain_ip<const N: usize>(self) -> Option<&'p [u8; N]> {
        self.0.plain_ip()
    }
}

/// A view of a packet: its data.
#[derive(Clone, Copy)]
pub struct DataView<'p>(pub &'p Packet);

impl<'p> View<'p> for DataView<'p> {
    #[inline(always)]
    fn headers(self) -> Headers<'p> {
        Headers::data(self.0.data())
    }

    #[inline(always)]
    fn front(self) -> &'p [u8] {
        self.0.data()
    }
}

/// An IP packet as programs look at it.
#[inline]
pub fn headers(packet: &Packet) -> Headers<'_> {
    let network = packet.network_header().unwrap_or(&[]);
    let mac = packet.mac_header().unwrap_or(&[]);
    Headers::ip(network, packet.network_header_len()).with_mac(mac)
}
