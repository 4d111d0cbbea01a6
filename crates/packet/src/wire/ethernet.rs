//! Ethernet II frames (IEEE Std 802.3, clause 3; RFC 894).
//!
//! ```text
//!  0              6              12     14
//! +--------------+--------------+------+----------
//! | destination  | source       | type | payload
//! +--------------+--------------+------+----------
//! ```

use super::WireError;
use core::fmt;
use core::str::FromStr;

/// The header's fields.
mod field {
    use super::{EtherAddress, EtherType};
    use crate::wire::Field;
    pub const DESTINATION: Field<0, EtherAddress> = Field::NEW;
    pub const SOURCE: Field<6, EtherAddress> = Field::NEW;
    pub const TYPE: Field<12, EtherType> = Field::NEW;
}

numbers! {
    /// The protocol of a frame's payload (IANA, "IEEE 802 Numbers"). Below 0x0600 it is a length
    /// instead.
    EtherType(u16, 2) {
        /// IPv4.
        IPV4 = 0x0800,
        /// ARP.
        ARP = 0x0806,
        /// A customer VLAN tag (IEEE Std 802.1Q).
        VLAN = 0x8100,
        /// IPv6.
        IPV6 = 0x86dd,
        /// MAC control, such as pause (IEEE Std 802.3, annex 31A).
        MAC_CONTROL = 0x8808,
        /// MPLS, unicast (RFC 5332).
        MPLS = 0x8847,
        /// PPPoE discovery (RFC 2516).
        PPPOE_DISCOVERY = 0x8863,
        /// PPPoE session (RFC 2516).
        PPPOE_SESSION = 0x8864,
        /// A service VLAN tag, the outer of two (IEEE Std 802.1ad).
        SERVICE_VLAN = 0x88a8,
        /// The link layer discovery protocol (IEEE Std 802.1AB).
        LLDP = 0x88cc,
    }
}

impl EtherType {
    /// Whether a VLAN tag comes next.
    #[inline(always)]
    pub const fn is_vlan(self) -> bool {
        matches!(self, EtherType::VLAN | EtherType::SERVICE_VLAN)
    }

    /// Whether this is in truth the length of an IEEE 802.3 frame's payload.
    #[inline(always)]
    pub const fn is_length(self) -> bool {
        self.0 < 0x0600
    }
}

/// As `0x0800`.
impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

/// A 48-bit MAC address, in the order of transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct EtherAddress(pub [u8; 6]);

value! {
    EtherAddress, 6, EtherAddress, |address: EtherAddress| address.0;
}

impl EtherAddress {
    /// `00-00-00-00-00-00`.
    pub const ZERO: EtherAddress = EtherAddress([0; 6]);
    /// `FF-FF-FF-FF-FF-FF`.
    pub const BROADCAST: EtherAddress = EtherAddress([0xff; 6]);

    /// Whether all stations are meant.
    #[inline(always)]
    pub fn is_broadcast(self) -> bool {
        self == EtherAddress::BROADCAST
    }

    /// Whether a group of stations is meant: multicast or broadcast.
    #[inline(always)]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether the address was assigned by an administrator, not a manufacturer.
    #[inline(always)]
    pub const fn is_local(self) -> bool {
        self.0[0] & 2 != 0
    }

    /// Whether all bits are zero: no address.
    #[inline(always)]
    pub fn is_zero(self) -> bool {
        self == EtherAddress::ZERO
    }

    /// The address as a number of 48 bits, first byte highest: a key for tables.
    #[inline(always)]
    pub const fn to_bits(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        // Two numbers: eight bytes in one, two of them zeros, become a chain of masks and shifts.
        let (high, low) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]));
        (high as u64) << 16 | low as u64
    }

    /// The address in the low 48 bits of `bits`.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> EtherAddress {
        let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
        EtherAddress([a, b, c, d, e, f])
    }
}

/// As `00-50-BA-85-84-A9`, the IEEE's form and Click's; with `{:#}` as `00:50:ba:85:84:a9`, the
/// form of Linux tools.
impl fmt::Display for EtherAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        if f.alternate() {
            write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
        } else {
            write!(f, "{a:02X}-{b:02X}-{c:02X}-{d:02X}-{e:02X}-{g:02X}")
        }
    }
}

/// The text is not an Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an Ethernet address: write six hexadecimal bytes with colons or dashes between, as in 00-50-BA-85-84-A9"
)]
pub struct ParseEtherAddressError;

/// Six groups of one or two hexadecimal digits, with `:` between all or `-` between all.
impl FromStr for EtherAddress {
    type Err = ParseEtherAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut groups = text.split(separator);
        let mut address = EtherAddress::ZERO;
        for byte in &mut address.0 {
            let group = groups.next().ok_or(ParseEtherAddressError)?;
            // from_str_radix alone would let a sign pass.
            let digits = group.bytes().all(|digit| digit.is_ascii_hexdigit());
            if !digits || group.len() > 2 {
                return Err(ParseEtherAddressError);
            }
            *byte = u8::from_str_radix(group, 16).map_err(|_| ParseEtherAddressError)?;
        }
        match groups.next() {
            Some(_) => Err(ParseEtherAddressError),
            None => Ok(address),
        }
    }
}

view! {
    /// A view of an Ethernet frame, without preamble and frame check sequence.
    EthernetFrame, 14
}

impl<T: AsRef<[u8]>> EthernetFrame<T> {
    /// A view of `buffer`.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under 14 bytes.
    #[inline(always)]
    pub fn new_checked(buffer: T) -> Result<Self, WireError> {
        if buffer.as_ref().len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        Ok(EthernetFrame { buffer })
    }

    /// Who the frame is for.
    #[inline(always)]
    pub fn destination(&self) -> EtherAddress {
        field::DESTINATION.get(self.header())
    }

    /// Who sent it.
    #[inline(always)]
    pub fn source(&self) -> EtherAddress {
        field::SOURCE.get(self.header())
    }

    /// The protocol of the payload.
    #[inline(always)]
    pub fn ethertype(&self) -> EtherType {
        field::TYPE.get(self.header())
    }

    /// The payload, padding included.
    #[inline(always)]
    pub fn payload(&self) -> &[u8] {
        self.bytes().get(Self::HEADER_LEN..).unwrap_or_default()
    }
}

impl<T: AsMut<[u8]>> EthernetFrame<T> {
    /// Sets who the frame is for.
    #[inline(always)]
    pub fn set_destination(&mut self, address: EtherAddress) {
        field::DESTINATION.put(self.header_mut(), address);
    }

    /// Sets who sent it.
    #[inline(always)]
    pub fn set_source(&mut self, address: EtherAddress) {
        field::SOURCE.put(self.header_mut(), address);
    }

    /// Sets the payload's protocol.
    #[inline(always)]
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        field::TYPE.put(self.header_mut(), ethertype);
    }

    /// Sets the whole header, as made by [`EthernetHeader::to_bytes`], in two stores.
    #[inline(always)]
    pub fn set_header(&mut self, header: &[u8; 14]) {
        if let Some(place) = self.header_mut() {
            *place = *header;
        }
    }

    /// Sends the frame back where it came from: exchanges destination and source.
    #[inline(always)]
    pub fn swap_addresses(&mut self) {
        if let Some(header) = self.header_mut() {
            let (destination, source) = (field::DESTINATION.get(header), field::SOURCE.get(header));
            field::DESTINATION.set(header, source);
            field::SOURCE.set(header, destination);
        }
    }

    /// The payload, mutable.
    #[inline(always)]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let bytes = self.buffer.as_mut();
        bytes.get_mut(Self::HEADER_LEN..).unwrap_or_default()
    }
}

/// The values of an Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetHeader {
    /// Who the frame is for.
    pub destination: EtherAddress,
    /// Who sent it.
    pub source: EtherAddress,
    /// The protocol of the payload.
    pub ethertype: EtherType,
}

impl EthernetHeader {
    /// Reads a frame's header.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(frame: &EthernetFrame<T>) -> Self {
        EthernetHeader {
            destination: frame.destination(),
            source: frame.source(),
            ethertype: frame.ethertype(),
        }
    }

    /// Writes a frame's header.
    #[inline]
    pub fn emit<T: AsMut<[u8]>>(&self, frame: &mut EthernetFrame<T>) {
        frame.set_header(&self.to_bytes());
    }

    /// The header as it goes on the wire.
    #[inline]
    pub fn to_bytes(&self) -> [u8; 14] {
        let mut bytes = [0; 14];
        field::DESTINATION.set(&mut bytes, self.destination);
        field::SOURCE.set(&mut bytes, self.source);
        field::TYPE.set(&mut bytes, self.ethertype);
        bytes
    }
}
