//! Flows: which frames are one's, and what it may do. Names are flowadm(8)'s.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::text::{self, PropertyError, read};
use super::units::{Bandwidth, IpPrefix, Unfit};
use super::{Priority, Written};

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
    type Err = Unfit;

    fn from_str(text: &str) -> Result<Self, Unfit> {
        let named = Self::NAMES.iter().find(|(name, _)| *name == text);
        match named {
            Some(&(_, transport)) => Ok(transport),
            None => text.parse().map(Transport).map_err(|_| {
                Unfit::new("a transport is tcp, udp, sctp, icmp, icmpv6 or a number up to 255")
            }),
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
    type Err = Unfit;

    fn from_str(text: &str) -> Result<Self, Unfit> {
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
        field.ok_or_else(|| {
            Unfit::new("a DS field is a byte as in 0xb8, or with the bits that count, 0xb8:0xfc")
        })
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

/// Which frames are a flow's: those for which every attribute given is so.
///
/// "Local" is the side of the VNIC that the flow is on: a frame from it has the local address as
/// its source, a frame to it as its destination. On a domain a flow counts both ways, too: local
/// is then either end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlowAttributes {
    /// The local IP address or prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_ip: Option<IpPrefix>,
    /// The remote IP address or prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_ip: Option<IpPrefix>,
    /// The transport protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// The local TCP, UDP or SCTP port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_port: Option<u16>,
    /// The remote TCP, UDP or SCTP port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_port: Option<u16>,
    /// The differentiated services field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dsfield: Option<DsField>,
}

impl FlowAttributes {
    /// The attributes' names.
    pub const NAMES: [&str; 6] = [
        "local_ip",
        "remote_ip",
        "transport",
        "local_port",
        "remote_port",
        "dsfield",
    ];

    fn set(&mut self, name: &str, value: &str) -> Result<(), PropertyError> {
        let port = || {
            let port = value.parse().ok().filter(|&port| port > 0);
            port.ok_or_else(|| {
                PropertyError::value(name, value, "a port is a number from 1 to 65535")
            })
        };
        match name {
            "local_ip" => self.local_ip = Some(read(name, value)?),
            "remote_ip" => self.remote_ip = Some(read(name, value)?),
            "transport" => self.transport = Some(read(name, value)?),
            "local_port" => self.local_port = Some(port()?),
            "remote_port" => self.remote_port = Some(port()?),
            "dsfield" => self.dsfield = Some(read(name, value)?),
            _ => return Err(PropertyError::unknown(name, &Self::NAMES)),
        }
        Ok(())
    }

    /// Whether the attributes go together: at least one, addresses of one family, ports with a
    /// transport that has them.
    pub fn check(&self) -> Result<(), PropertyError> {
        let together = |why: &str| Err(PropertyError::Together(why.into()));
        if *self == FlowAttributes::default() {
            return together("a flow needs an attribute that says which frames are its own");
        }
        if let (Some(local), Some(remote)) = (self.local_ip, self.remote_ip)
            && local.address().is_ipv4() != remote.address().is_ipv4()
        {
            return together("local_ip and remote_ip are of one family: both IPv4 or both IPv6");
        }
        let ports = self.local_port.is_some() || self.remote_port.is_some();
        if ports && !self.transport.is_some_and(Transport::has_ports) {
            return together("a port needs transport=tcp, udp or sctp beside it");
        }
        Ok(())
    }
}

impl FromStr for FlowAttributes {
    type Err = PropertyError;

    fn from_str(text: &str) -> Result<Self, PropertyError> {
        let mut attributes = FlowAttributes::default();
        text::for_each(text, |name, value| attributes.set(name, value))?;
        attributes.check()?;
        Ok(attributes)
    }
}

impl fmt::Display for FlowAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = Written::new(f);
        written.some("local_ip", self.local_ip)?;
        written.some("remote_ip", self.remote_ip)?;
        written.some("transport", self.transport)?;
        written.some("local_port", self.local_port)?;
        written.some("remote_port", self.remote_port)?;
        written.some("dsfield", self.dsfield)
    }
}

/// What a flow may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlowProperties {
    /// Its highest rate, both directions together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maxbw: Option<Bandwidth>,
    /// Its priority; the port's if none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
}

impl FlowProperties {
    /// The properties' names.
    pub const NAMES: [&str; 2] = ["maxbw", "priority"];
}

impl FromStr for FlowProperties {
    type Err = PropertyError;

    fn from_str(text: &str) -> Result<Self, PropertyError> {
        let mut properties = FlowProperties::default();
        text::for_each(text, |name, value| {
            match name {
                "maxbw" => properties.maxbw = Some(read(name, value)?),
                "priority" => properties.priority = Some(read(name, value)?),
                _ => return Err(PropertyError::unknown(name, &Self::NAMES)),
            }
            Ok(())
        })?;
        Ok(properties)
    }
}

impl fmt::Display for FlowProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = Written::new(f);
        written.some("maxbw", self.maxbw)?;
        written.some("priority", self.priority)
    }
}

macro_rules! as_text {
    ($($type:ty),*) => { $(
        impl TryFrom<String> for $type {
            type Error = Unfit;
            fn try_from(text: String) -> Result<Self, Unfit> {
                text.parse()
            }
        }
        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )* };
}
as_text!(Transport, DsField);
