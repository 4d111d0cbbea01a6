//! Neighbor discovery's two messages about neighbors (RFC 4861, sections 4.3 and 4.4).
//!
//! ```text
//!  0      1   2          4          8        24
//! +------+---+----------+----------+--------+------------------------------------
//! | type | 0 | checksum | R,S,O, 0 | target | options: type, length in 8 bytes, ..
//! +------+---+----------+----------+--------+------------------------------------
//! ```

use super::{EtherAddress, Icmpv6Header, Icmpv6Packet, Icmpv6Type, Value, WireError};
use core::net::Ipv6Addr;

/// Length of a message without options.
const FIXED: usize = 24;
/// Length of an option with an Ethernet address.
const LINK_OPTION: usize = 8;

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// A neighbor solicitation or advertisement, but for the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighborMessage {
    /// [`Icmpv6Type::NEIGHBOR_SOLICITATION`] or [`Icmpv6Type::NEIGHBOR_ADVERTISEMENT`].
    pub icmp_type: Icmpv6Type,
    /// Advertisement: the sender is a router.
    pub router: bool,
    /// Advertisement: it answers a solicitation.
    pub solicited: bool,
    /// Advertisement: it overrides an existing entry.
    pub replaces: bool,
    /// The address that it is about.
    pub target: Ipv6Addr,
    /// Solicitation: the sender's Ethernet address; advertisement: the target's.
    pub link: Option<EtherAddress>,
}

impl NeighborMessage {
    /// The longest message that [`emit`](Self::emit) writes.
    pub const LEN_MAX: usize = FIXED + LINK_OPTION;

    /// A solicitation of `target`'s link address, with the sender's own address `link`.
    pub fn solicitation(link: EtherAddress, target: Ipv6Addr) -> Self {
        NeighborMessage {
            icmp_type: Icmpv6Type::NEIGHBOR_SOLICITATION,
            router: false,
            solicited: false,
            replaces: false,
            target,
            link: Some(link),
        }
    }

    /// A router's answer: `target` is at `link`.
    pub fn advertisement(link: EtherAddress, target: Ipv6Addr) -> Self {
        NeighborMessage {
            icmp_type: Icmpv6Type::NEIGHBOR_ADVERTISEMENT,
            router: true,
            solicited: true,
            ..NeighborMessage::solicitation(link, target)
        }
    }

    /// Reads a message. Does not look at the checksum; options other than the link-layer address
    /// are passed over.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under 24 bytes, [`WireError::Kind`] if the message is of
    /// another type or its code is not 0, [`WireError::OptionLength`] for an option without length
    /// or with one past the end of the message.
    pub fn parse(message: &[u8]) -> Result<Self, WireError> {
        let icmp = Icmpv6Packet::new_checked(message)?;
        let icmp_type = icmp.icmp_type();
        let wanted = match icmp_type {
            Icmpv6Type::NEIGHBOR_SOLICITATION => 1,
            Icmpv6Type::NEIGHBOR_ADVERTISEMENT => 2,
            _ => return Err(WireError::Kind),
        };
        if icmp.code() != 0 {
            return Err(WireError::Kind);
        }
        let target = message.get(8..FIXED).ok_or(WireError::Truncated)?;
        let [flags, ..] = icmp.rest();
        Ok(NeighborMessage {
            icmp_type,
            router: flags & ROUTER != 0,
            solicited: flags & SOLICITED != 0,
            replaces: flags & OVERRIDE != 0,
            target: Ipv6Addr::read(target),
            link: link_option(message, wanted)?,
        })
    }

    /// Length of the message, in bytes.
    pub fn length(&self) -> usize {
        FIXED + self.link.map_or(0, |_| LINK_OPTION)
    }

    /// Writes the message to the start of `buffer`, its checksum zero; nothing if there is less
    /// room than its [`length`](Self::length).
    pub fn emit(&self, buffer: &mut [u8]) {
        let Some(buffer) = buffer.get_mut(..self.length()) else {
            return;
        };
        let flag = |set, bit| if set { bit } else { 0 };
        let flags = flag(self.router, ROUTER)
            | flag(self.solicited, SOLICITED)
            | flag(self.replaces, OVERRIDE);
        let header = Icmpv6Header {
            icmp_type: self.icmp_type,
            code: 0,
            rest: [flags, 0, 0, 0],
        };
        header.emit(&mut Icmpv6Packet::new_unchecked(&mut *buffer));
        self.target.write(&mut buffer[8..]);
        if let Some(link) = self.link {
            let solicits = self.icmp_type == Icmpv6Type::NEIGHBOR_SOLICITATION;
            let kind = if solicits { 1 } else { 2 };
            [kind, 1].write(&mut buffer[FIXED..]);
            link.0.write(&mut buffer[FIXED + 2..]);
        }
    }
}

/// The Ethernet address in the option of kind `wanted`.
fn link_option(message: &[u8], wanted: u8) -> Result<Option<EtherAddress>, WireError> {
    let (mut at, mut link) = (FIXED, None);
    while let Some(rest @ [kind, units, ..]) = message.get(at..) {
        let length = usize::from(*units) * 8;
        let bad = WireError::OptionLength { at: at as u16 };
        let option = rest.get(..length).filter(|_| length > 0).ok_or(bad)?;
        if *kind == wanted
            && let [_, 1, address @ ..] = option
        {
            link = link.or(Some(EtherAddress(Value::read(address))));
        }
        at += length;
    }
    Ok(link)
}

/// The group that all solicitations for `target` go to (RFC 4291, section 2.7.1).
pub fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = target.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

/// The Ethernet group of an IPv6 multicast address (RFC 2464, section 7).
pub fn ether_group(group: Ipv6Addr) -> EtherAddress {
    let [.., a, b, c, d] = group.octets();
    EtherAddress([0x33, 0x33, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const TARGET: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0x2a0, 0xc9ff, 0xfe9c, 0xfd9e);

    #[test]
    fn groups_follow_the_last_bytes() {
        assert_eq!(
            solicited_node(TARGET),
            "ff02::1:ff9c:fd9e".parse::<Ipv6Addr>().unwrap()
        );
        let group = ether_group(solicited_node(TARGET));
        assert_eq!(group, EtherAddress([0x33, 0x33, 0xff, 0x9c, 0xfd, 0x9e]));
    }

    #[test]
    fn other_options_are_passed_over_and_bad_ones_refused() {
        let link = EtherAddress([2; 6]);
        let mut message = [0; 48];
        NeighborMessage::advertisement(link, TARGET).emit(&mut message);
        // A nonce of two units in front of the address.
        let option: [u8; 8] = message[24..32].try_into().unwrap();
        message[24..26].copy_from_slice(&[14, 2]);
        message[40..].copy_from_slice(&option);
        assert_eq!(NeighborMessage::parse(&message).unwrap().link, Some(link));
        for units in [0, 4] {
            message[25] = units;
            let error = NeighborMessage::parse(&message).unwrap_err();
            assert_eq!(error, WireError::OptionLength { at: 24 });
        }
        assert_eq!(
            NeighborMessage::parse(&message[..23]),
            Err(WireError::Truncated)
        );
        message[0] = 134;
        assert_eq!(NeighborMessage::parse(&message), Err(WireError::Kind));
    }

    proptest! {
        #[test]
        fn messages_round_trip(
            solicits: bool, router: bool, solicited: bool, replaces: bool,
            target: [u8; 16], link: Option<[u8; 6]>,
        ) {
            let message = NeighborMessage {
                icmp_type: if solicits {
                    Icmpv6Type::NEIGHBOR_SOLICITATION
                } else {
                    Icmpv6Type::NEIGHBOR_ADVERTISEMENT
                },
                router,
                solicited,
                replaces,
                target: target.into(),
                link: link.map(EtherAddress),
            };
            let mut bytes = [0xff; NeighborMessage::LEN_MAX];
            message.emit(&mut bytes);
            prop_assert_eq!(NeighborMessage::parse(&bytes[..message.length()]), Ok(message));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(kind in 134u8..138, rest: Vec<u8>) {
            let mut bytes = std::vec![kind, 0];
            bytes.extend(rest);
            let _ = NeighborMessage::parse(&bytes);
        }
    }
}
