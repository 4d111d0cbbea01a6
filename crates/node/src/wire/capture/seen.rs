//! A captured Linux network, before it becomes a wire.

use ipnet::IpNet;
use switch::lookup::Mac;
use switch::netlink::KernelRoute;

/// One network namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenNamespace {
    /// Its name; none for the namespace that the capture runs in.
    pub name: Option<String>,
    /// Whether it forwards IP packets between its interfaces.
    pub forwards: bool,
    /// Its interfaces.
    pub interfaces: Vec<SeenInterface>,
    /// The configured routes of its main table.
    pub routes: Vec<KernelRoute>,
    /// What of its routing a wire has no counterpart of, a phrase each: rules, routes of other
    /// tables, routes that lead nowhere or by several gateways, sources and MTUs of routes.
    pub policies: Vec<String>,
}

/// One interface.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenInterface {
    /// Its number in its namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: InterfaceKind,
    /// Whether it is up.
    pub up: bool,
    /// Its Ethernet address.
    pub mac: Option<Mac>,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// The bridge or bond that it is a port of.
    pub master: Option<u32>,
    /// Its addresses, except the kernel's automatic ones.
    pub addresses: Vec<IpNet>,
    /// The VLAN of untagged frames on a port of a bridge that filters VLANs.
    pub pvid: Option<u16>,
    /// The name of the namespace that its other end is in, of one end of a pair whose other end is
    /// not among those looked at.
    pub beyond: Option<String>,
    /// The tagged VLANs there.
    pub tagged: Vec<u16>,
    /// The shaping of its egress by its queueing discipline.
    pub shaping: Shaping,
    /// What of its queueing a VNIC has no counterpart of, a phrase each.
    pub queueing: Vec<String>,
}

/// The kind of an interface.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum InterfaceKind {
    /// The loopback.
    Loopback,
    /// A NIC: of no kind that Linux makes in software.
    #[default]
    Device,
    /// A bridge.
    Bridge {
        /// Whether it tells VLANs apart.
        vlans: bool,
        /// Seconds until it forgets an address.
        aging: u32,
        /// Whether it runs the spanning tree protocol.
        spanning_tree: bool,
    },
    /// One end of a pair; the other one is interface `index` in the namespace at `namespace` of
    /// the capture's list, if that is among those looked at.
    Veth {
        /// Its number there.
        index: u32,
        /// Where.
        namespace: Option<usize>,
    },
    /// A VLAN on another interface of the same namespace.
    Vlan {
        /// 1 to 4094.
        id: u16,
        /// The interface below.
        below: u32,
    },
    /// A TAP device of some program's.
    Tap,
    /// Anything else, by the kernel's word for it.
    Other(String),
}

/// The effects of a queueing discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shaping {
    /// Bits a second.
    pub rate: Option<u64>,
    /// Microseconds.
    pub delay: u64,
    /// Microseconds, either way.
    pub jitter: u64,
    /// Share of frames that are lost, 0 to 1.
    pub loss: f64,
}

impl SeenNamespace {
    /// The interface with a number.
    pub fn interface(&self, index: u32) -> Option<&SeenInterface> {
        self.interfaces.iter().find(|it| it.index == index)
    }

    /// How a note calls it.
    pub fn called(&self) -> &str {
        self.name.as_deref().unwrap_or("the host")
    }
}
