//! Flows: their attributes, which select frames, and their properties. Names are flowadm(8)'s.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Priority;
use super::declare::properties;
use super::prefix::IpPrefix;
use super::quantity::{Invalid, Quantity, as_text};
use super::table;
use super::text::PropertyError;
use super::units::Bandwidth;
use super::values::Range;

/// A transport protocol by its IP protocol number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Transport(pub u8);

impl Transport {
    /// ICMP for IPv4.
    pub const ICMP: Transport = Transport(1);
    /// TCP.
    pub const TCP: Transport = Transport(6);
    /// UDP.
    pub const UDP: Transport = Transport(17);
    /// ICMP for IPv6.
    pub const ICMPV6: Transport = Transport(58);
    /// SCTP.
    pub const SCTP: Transport = Transport(132);

    const NAMES: [(&str, Transport); 5] = [
        ("icmp", Self::ICMP),
        ("tcp", Self::TCP),
        ("udp", Self::UDP),
        ("icmpv6", Self::ICMPV6),
        ("sctp", Self::SCTP),
    ];

    /// Whether its header begins with two ports.
    pub fn has_ports(self) -> bool {
        matches!(self, Self::TCP | Self::UDP | Self::SCTP)
    }
}

impl FromStr for Transport {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let named = Self::NAMES.iter().find(|(name, _)| *name == text);
        match named {
            Some(&(_, transport)) => Ok(transport),
            None => {
                let number = text.parse().map(Transport);
                number.map_err(|_| Invalid::new(Self::MUST))
            }
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(_, transport)| transport == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

/// The differentiated services field (RFC 2474: the upper six bits are the code point), and which
/// of its bits count: `0xb8`, `46:0xfc`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DsField {
    value: u8,
    mask: u8,
}

impl DsField {
    /// The field's bits in `mask` are those of `value`; `None` if no bit counts or `value` has
    /// bits that do not.
    pub fn new(value: u8, mask: u8) -> Option<DsField> {
        (mask != 0 && value & !mask == 0).then_some(DsField { value, mask })
    }

    /// The bits looked for.
    pub const fn value(self) -> u8 {
        self.value
    }

    /// The bits that count.
    pub const fn mask(self) -> u8 {
        self.mask
    }
}

impl FromStr for DsField {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let byte = |text: &str| match text.strip_prefix("0x") {
            Some(digits) => u8::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        let (value, mask) = match text.split_once(':') {
            Some((value, mask)) => (byte(value), byte(mask)),
            None => (byte(text), Some(0xff)),
        };
        let field = value
            .zip(mask)
            .and_then(|(value, mask)| DsField::new(value, mask));
        field.ok_or_else(|| Invalid::new(Self::MUST))
    }
}

impl fmt::Display for DsField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:02x}", self.value)?;
        if self.mask != 0xff {
            write!(f, ":0x{:02x}", self.mask)?;
        }
        Ok(())
    }
}

as_text! {
    Transport: "a transport is tcp, udp, sctp, icmp, icmpv6 or a number up to 255";
    DsField: "a DS field is a byte as in 0xb8, or with the bits that count, 0xb8:0xfc";
}

properties! {
    /// The attributes of a flow's frames. A frame belongs to the flow if it matches every attribute
    /// given.
    ///
    /// "Local" is the side of the VNIC that the flow is on: a frame from it has the local address
    /// as its source, a frame to it as its destination. On a domain a flow counts both ways, too:
    /// local is then either end.
    #[derive(Copy, Hash)]
    pub struct FlowAttributes, all by check {
        /// Local IP address or prefix.
        local_ip: Option<IpPrefix> = "local_ip";
        /// Remote IP address or prefix.
        remote_ip: Option<IpPrefix> = "remote_ip";
        /// Transport protocol.
        transport: Option<Transport> = "transport";
        /// Local TCP, UDP or SCTP port.
        local_port: Option<u16> = "local_port", in PORTS;
        /// Remote TCP, UDP or SCTP port.
        remote_port: Option<u16> = "remote_port", in PORTS;
        /// Differentiated services field.
        dsfield: Option<DsField> = "dsfield";
    }
}

const PORTS: Range = Range {
    least: 1,
    most: u16::MAX as u64,
    must: "a port is a number from {}",
    unit: "",
};

impl FlowAttributes {
    /// Whether the attributes go together: at least one, addresses of one family, ports with a
    /// transport that has them.
    pub fn check(&self) -> Result<(), PropertyError> {
        let together = |why: &str| Err(PropertyError::Together(why.into()));
        if *self == FlowAttributes::default() {
            return together("a flow needs an attribute that selects its frames");
        }
        if let (Some(local), Some(remote)) = (self.local_ip, self.remote_ip)
            && local.address().is_ipv4() != remote.address().is_ipv4()
        {
            return together("local_ip and remote_ip are both IPv4 or both IPv6");
        }
        table::check(Self::ROWS, self)?;
        let ports = self.local_port.is_some() || self.remote_port.is_some();
        if ports && !self.transport.is_some_and(Transport::has_ports) {
            return together("a port needs transport=tcp, udp or sctp");
        }
        Ok(())
    }
}

properties! {
    /// What a flow may do.
    #[derive(Copy)]
    pub struct FlowProperties {
        /// Highest rate, both directions together; default: no limit.
        maxbw: Option<Bandwidth> = "maxbw";
        /// Level of the flow's frames; default: the port's.
        priority: Option<Priority> = "priority";
    }
}
