//! Views of protocol headers: names for the bytes of a packet.
//!
//! Each protocol has a view, a struct around anything that gives bytes (`&[u8]`, `&mut [u8]`, an
//! array): `new_checked` looks once whether the header is there and consistent, and accessors read
//! and write single fields from then on. A view never copies and never allocates. Beside the view
//! stands, where that is natural, a plain value with `parse` and `emit`.
//!
//! No accessor can panic. Field offsets are checked against the header's length when the code is
//! compiled. If a buffer is shorter than its header (a view made by `new_unchecked`, or over a type
//! whose bytes shrink), reads give zeros and writes do nothing. Where the compiler sees the check
//! of `new_checked`, an accessor is one load or store.
//!
//! Numbers are given and taken in the machine's byte order. Lengths and offsets are in bytes unless
//! a method says otherwise, also where the unit on the wire differs.
#![forbid(unsafe_code)]

#[macro_use]
mod field;
mod arp;
mod ethernet;
#[macro_use]
mod icmp;
mod icmpv4;
mod icmpv6;
mod ip;
mod ipv4;
mod ipv6;
mod ndp;
mod tcp;
mod udp;
mod vlan;

#[cfg(test)]
mod tests;

pub use arp::{ArpMessage, ArpOperation, ArpPacket};
pub use ethernet::{
    EtherAddress, EtherType, EthernetFrame, EthernetHeader, ParseEtherAddressError,
};
pub use field::{Field, Value};
pub use icmpv4::{Icmpv4Header, Icmpv4Packet, Icmpv4Type, Icmpv4Unreachable};
pub use icmpv6::{Icmpv6Header, Icmpv6Packet, Icmpv6Type};
pub use ip::{Ecn, IpProtocol, ports};
pub(crate) use ipv4::after_hop;
pub use ipv4::{
    Ipv4Header, Ipv4Option, Ipv4OptionKind, Ipv4OptionWalk, Ipv4Options, Ipv4Packet, PointerOption,
    TimestampFlag,
};
pub use ipv6::{
    Extension, Extensions, Fragment, Ipv6Header, Ipv6Packet, MAX_EXTENSIONS, UpperLayer,
};
pub use ndp::{NeighborMessage, ether_group, solicited_node};
pub use tcp::{TcpFlags, TcpHeader, TcpOption, TcpOptions, TcpPacket, TcpSequence};
pub use udp::{UdpHeader, UdpPacket};
pub use vlan::{MAX_TAGS, VlanPacket, VlanTag, skip_tags};

/// An error of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum WireError {
    /// Fewer bytes than the protocol's fixed header takes.
    #[error("the packet ends inside the fixed header: capture or send it whole")]
    Truncated,
    /// An IP version other than the view's.
    #[error("the version field names another protocol: view the packet as that one")]
    Version,
    /// A header length below the fixed header, or past the end of the packet.
    #[error(
        "the header length is below the fixed header's or past the end of the packet: drop the packet"
    )]
    HeaderLength,
    /// A packet length that does not cover the header, or past the end of the packet.
    #[error(
        "the length field is below the header's length or past the end of the packet: drop the packet"
    )]
    Length,
    /// An ARP packet for hardware other than Ethernet or a protocol other than IPv4.
    #[error("the ARP packet is not about IPv4 addresses on Ethernet: drop the packet")]
    AddressFormat,
    /// A message of another kind than the one that is read.
    #[error("the message's type and code name another message: read it as that one")]
    Kind,
    /// An option or extension header with an impossible length.
    #[error(
        "the option at byte {at} has a length below its minimum or past the end of the header: drop the packet"
    )]
    OptionLength {
        /// Where the option starts, in bytes from the start of the view's header.
        at: u16,
    },
    /// More IPv6 extension headers than [`MAX_EXTENSIONS`].
    #[error("more extension headers in a row than any real packet has: drop the packet")]
    TooManyExtensions,
}
