//! Properties of ports, domains and applications, and attributes and properties of flows.
//!
//! Their names and values are dladm's and flowadm's where those have them. One form serves
//! everywhere: on the command line `maxbw=100M,priority=high,cpus=0,share=200`, in output the same;
//! in messages and files the same names and values, one field each. A property that is not given
//! has its default. [`table`] describes the parts of a property.

mod declare;
mod domain;
mod flow;
mod port;
mod prefix;
mod quantity;
mod socket;
mod table;
mod text;
mod units;
mod values;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use quantity::{Quantity, bounded};

pub use domain::{DomainProperties, LookupKind};
pub use flow::{DsField, FlowAttributes, FlowProperties, Transport};
pub use port::{MTU_MIN, PortProperties, cpus_here, rate_for};
pub use prefix::IpPrefix;
pub use quantity::Invalid;
pub use socket::{ApplicationProperties, NsmProperties};
pub use table::Property;
pub use text::PropertyError;
pub use units::{Bandwidth, Loss, Micros, Vlan};
pub use values::ValueType;

/// Most entries of a list of addresses or CPUs.
pub const LIST_MAX: usize = 64;

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

/// Whether a guest may settle flows: see [`settled`](crate::settled).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Settle {
    /// It may: the kernel passes their packets on.
    On,
    /// All packets go to the guest.
    #[default]
    Off,
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
    ($Type:ident: $must:literal, $($name:literal = $value:ident),*) => {
        impl Quantity for $Type {
            const MUST: &'static str = $must;
            const CHOICES: &'static [&'static str] = &[$($name),*];
        }

        impl FromStr for $Type {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                match text {
                    $($name => Ok($Type::$value),)*
                    _ => Err(Invalid::new(Self::MUST)),
                }
            }
        }

        impl fmt::Display for $Type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $($Type::$value => $name,)*
                })
            }
        }
    };
}
names!(Priority: "a priority is low, medium or high",
    "low" = Low, "medium" = Medium, "high" = High);
names!(Settle: "settle is on or off", "on" = On, "off" = Off);
names!(Protection: "a protection is mac-nospoof, ip-nospoof, dhcp-nospoof or restricted",
    "mac-nospoof" = MacNospoof, "ip-nospoof" = IpNospoof, "dhcp-nospoof" = DhcpNospoof,
    "restricted" = Restricted);

bounded! {
    /// A port's weight among those of its domain that have frames: 1 to 1000.
    Share, 1..=1000, "a share is a number from 1 to 1000"
}

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

#[cfg(test)]
mod tests;
