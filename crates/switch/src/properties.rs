//! Properties of ports and domains, and attributes and properties of flows.
//!
//! Their names and values are dladm's and flowadm's where those have them. One form serves
//! everywhere: on the command line `maxbw=100M,priority=high,cpus=0,share=200`, which is also how
//! they are shown; in messages and files the same names and values, one field each. A property
//! that is not given is as it would be without.

#[macro_use]
mod text;
mod domain;
mod flow;
mod port;
mod units;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use domain::{DomainProperties, LookupKind};
pub use flow::{DsField, FlowAttributes, FlowProperties, Transport};
pub use port::{LIST_MAX, MTU_MIN, PortProperties, cpus_here, rate_for};
pub use text::PropertyError;
pub use units::{Bandwidth, IpPrefix, Loss, Micros, Unfit, Vlan};

/// Which of two ports goes first when both have frames: the one of the higher level, always.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// After all others.
    Low,
    /// Unless told otherwise.
    #[default]
    Medium,
    /// Before all others.
    High,
}

/// One of the link protections of a port: what it must not send. Dropped and counted if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// Frames from another Ethernet address than the port's own, or ARP and neighbour discovery
    /// that claim another.
    MacNospoof,
    /// IPv4 and IPv6 packets, ARP and neighbour discovery that claim another IP address than those
    /// of `allowed-ips`.
    IpNospoof,
    /// DHCP requests for another Ethernet address than the port's own, and a DHCP server's
    /// messages.
    DhcpNospoof,
    /// Anything but IPv4, IPv6 and ARP.
    Restricted,
}

/// The names of an enumeration's values, for reading and showing.
macro_rules! names {
    ($type:ident: $must:literal, $($name:literal = $value:ident),*) => {
        impl FromStr for $type {
            type Err = Unfit;
            fn from_str(text: &str) -> Result<Self, Unfit> {
                match text {
                    $($name => Ok($type::$value),)*
                    _ => Err(Unfit::new($must)),
                }
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $($type::$value => $name,)*
                })
            }
        }
    };
}
names!(Priority: "a priority is low, medium or high",
    "low" = Low, "medium" = Medium, "high" = High);
names!(Protection: "a protection is mac-nospoof, ip-nospoof, dhcp-nospoof or restricted",
    "mac-nospoof" = MacNospoof, "ip-nospoof" = IpNospoof, "dhcp-nospoof" = DhcpNospoof,
    "restricted" = Restricted);

/// A port's weight among those of its domain that have frames: 1 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Share(u16);

impl Share {
    /// The weight.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl Default for Share {
    fn default() -> Self {
        Share(100)
    }
}

impl TryFrom<u16> for Share {
    type Error = Unfit;

    fn try_from(weight: u16) -> Result<Self, Unfit> {
        match weight {
            1..=1000 => Ok(Share(weight)),
            _ => Err(Unfit::new("a share is a number from 1 to 1000")),
        }
    }
}

impl From<Share> for u16 {
    fn from(share: Share) -> u16 {
        share.0
    }
}

impl FromStr for Share {
    type Err = Unfit;

    fn from_str(text: &str) -> Result<Self, Unfit> {
        Share::try_from(text.parse().unwrap_or(0))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// `name=value` by commas, being written.
struct Written<'a, 'b> {
    to: &'a mut fmt::Formatter<'b>,
    any: bool,
}

impl<'a, 'b> Written<'a, 'b> {
    fn new(to: &'a mut fmt::Formatter<'b>) -> Self {
        Written { to, any: false }
    }

    fn some<T: fmt::Display>(&mut self, name: &str, value: Option<T>) -> fmt::Result {
        let Some(value) = value else {
            return Ok(());
        };
        let comma = if self.any { "," } else { "" };
        self.any = true;
        write!(self.to, "{comma}{name}={value}")
    }
}

#[cfg(test)]
mod tests;
