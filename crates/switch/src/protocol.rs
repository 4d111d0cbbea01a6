//! The protocol of a switch's control socket, a `SOCK_SEQPACKET` Unix socket. Each request and each
//! reply is one message: JSON, at most [`MESSAGE_MAX`] bytes, with descriptors beside it.

mod socket;

use serde::{Deserialize, Serialize};

use crate::counters::LaneStats;
use crate::ids::LaneIndex;
use crate::lookup::{Answer, Command};
use crate::mac::Mac;
use crate::port::LinkRecord;
pub use crate::port::PortKind;
use crate::properties::{DomainProperties, FlowAttributes, FlowProperties, PortProperties};
use crate::qos::flow::FlowStats;
use crate::settled::SettledFlow;

pub use socket::ExchangeError;
pub(crate) use socket::{receive, send};

/// The version of this protocol. Each side refuses any other.
pub const VERSION: u32 = 11;
/// Longest message, in bytes: what 32 interfaces with all their properties need.
pub const MESSAGE_MAX: usize = 192 * 1024;
/// Most descriptors with a message.
pub const DESCRIPTORS_MAX: usize = crate::port::FILES_MAX;
/// Longest name of a port, in bytes: a guest's name (64), a dot, and its interface's (31).
pub const NAME_MAX: usize = 96;
/// Most ports in one reply.
pub const PORTS_PER_REPLY: usize = 32;
/// Most ports in a reply that says whose connections are over.
pub const PORTS_OVER_MAX: usize = 1024;
/// Most flows in one reply.
pub const FLOWS_PER_REPLY: usize = 128;
/// Most addresses in one reply.
pub const ADDRESSES_PER_REPLY: usize = 512;

/// Names a port of a switch for as long as it is attached; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PortId {
    /// Its slot, by which its counters are found.
    pub(crate) slot: u16,
    /// Tells ports apart that had the same slot one after the other.
    pub(crate) generation: u32,
}

impl PortId {
    /// Its slot among the ports of its switch, by which its counters are found.
    pub fn slot(self) -> u16 {
        self.slot
    }
}

/// One interface of a guest, in the order of its data region.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuestInterface {
    /// The port's name, as users see it.
    pub name: String,
    /// The number of the domain (the L2 segment) that it joins.
    pub domain: u32,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// The guest's address there, if it keeps to one.
    pub mac: Option<Mac>,
    /// What else is asked of the port.
    #[serde(default)]
    pub properties: PortProperties,
    /// The attached port that gets these rings instead of its own, if there is one: it keeps its properties and its
    /// counters, and frames that are left in the old rings follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<PortId>,
    /// The port of the same domain behind which it stands, if it does: each new TCP connection to that port goes to one
    /// behind it that has none. It has no address, name or limits of its own in the domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<PortId>,
}

/// One end of a patch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PatchEnd {
    /// The port's name, as users see it.
    pub name: String,
    /// The number of the domain that it joins.
    pub domain: u32,
    /// What else is asked of the port.
    #[serde(default)]
    pub properties: PortProperties,
}

/// Whether a port passes frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortState {
    /// It does.
    Open,
    /// It does not: its interface is gone, or its guest broke the ring's rules too often.
    Closed,
}

/// What a switch is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Say hello. The reply comes with the file of the counters, and the pipe of [calls](crate::port::waiting).
    Hello,
    /// Attach all interfaces of a guest. With the data region's file and the doorbell.
    AttachGuest {
        slots: u32,
        interfaces: Vec<GuestInterface>,
        /// What guests with the same doorbell call it, if several have it.
        shared: Option<u64>,
        /// The number by which the switch calls for the guest at its first frame, if it does not run yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waits: Option<u64>,
    },
    /// Attach a host link. With its descriptors.
    AttachLink {
        record: LinkRecord,
        name: String,
        domain: u32,
        mtu: u16,
        /// The address of the machine behind it, if there is one alone.
        #[serde(default)]
        mac: Option<Mac>,
        #[serde(default)]
        properties: PortProperties,
    },
    /// Change what the record of a host link says, which stays attached.
    SetLink { port: PortId, record: LinkRecord },
    /// Join two domains.
    AttachPatch { ends: [PatchEnd; 2] },
    /// Replace a port's properties by these.
    SetProperties {
        port: PortId,
        properties: PortProperties,
    },
    /// Replace a domain's properties by these. It need have no port yet.
    SetDomain {
        domain: u32,
        properties: DomainProperties,
    },
    /// Add a flow.
    AddFlow {
        name: String,
        on: FlowOn,
        attributes: FlowAttributes,
        #[serde(default)]
        properties: FlowProperties,
    },
    /// Remove a flow by its name.
    RemoveFlow { name: String },
    /// Tell of the flows behind the one with this name, in the order of their names,
    /// [`FLOWS_PER_REPLY`] at most.
    Flows { after: Option<String> },
    /// Let guests settle flows. With the files of [`Programs`](crate::settled::Programs).
    BeginSettling,
    /// Let the kernel pass settled flows on that come by the interface of a host link: its index, and MTU in bytes. With
    /// what keeps the program there.
    AddPassage {
        port: PortId,
        interface: u32,
        mtu: u16,
    },
    /// Take back what the guests of these ports have settled.
    TakeBack { ports: Vec<PortId> },
    /// Tell how many flows are settled.
    Settled,
    /// Tell of the flows of which guests said that they are settled, from this place of the list on.
    SettledFlows { from: u32 },
    /// Detach ports.
    Detach { ports: Vec<PortId> },
    /// Tell the domains' other ports that the addresses behind these ports are here.
    Announce { ports: Vec<PortId> },
    /// Deliver frames by a port, past its limits. With a file of them ([`late`](crate::late)).
    Deliver { port: PortId },
    /// Name the ports behind a port whose connections are over for `grace` milliseconds, or had no segment for `idle`,
    /// [`PORTS_OVER_MAX`] at most.
    Over {
        front: PortId,
        grace: u32,
        idle: u32,
    },
    /// Forget the learned entries of a domain.
    Flush { domain: u32 },
    /// Tell of the ports from slot `from` on, [`PORTS_PER_REPLY`] at most.
    Ports { from: u16 },
    /// Name the closed ports from slot `from` on, [`PORTS_PER_REPLY`] at most.
    ClosedPorts { from: u16 },
    /// Tell of the addresses that a domain knows, from the `from`-th on, [`ADDRESSES_PER_REPLY`]
    /// at most. Those from 0 on are as of now, the others as of when 0 was last asked for.
    Table { domain: u32, from: u32 },
    /// Ask something of a domain's lookup function.
    Lookup {
        domain: u32,
        command: Command<PortId>,
    },
    /// Bring the counters up to date that the kernel keeps for a port.
    CatchUp { port: PortId },
    /// Give copies of the descriptors of a host link's queues, if another switch can go on with
    /// them.
    Files { port: PortId },
    /// Tell what each lane does.
    Lanes,
    /// End.
    Stop,
}

/// What a switch answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub(crate) enum Reply {
    /// Hello, with the file of the counters and the pipe of calls.
    Welcome {
        /// Number of lanes.
        lanes: u16,
    },
    /// These ports were attached, in the order asked for.
    Attached {
        ports: Vec<PortId>,
        /// What the user should know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warning: Option<String>,
    },
    /// What each lane does.
    Lanes { lanes: Vec<LaneStats> },
    /// Done.
    Done,
    /// The ports asked for.
    Over { ports: Vec<PortId> },
    /// The ports asked about, and where the next ones start.
    Ports {
        ports: Vec<PortDescription>,
        next: Option<u16>,
    },
    /// The names of closed ports, and where the next ones start.
    ClosedPorts {
        names: Vec<String>,
        next: Option<u16>,
    },
    /// The addresses asked about, and where the next ones start.
    Table {
        addresses: Vec<AddressEntry>,
        next: Option<u32>,
    },
    /// The flows asked about, and whether there are more behind them.
    Flows {
        flows: Vec<FlowDescription>,
        more: bool,
    },
    /// How many flows are settled.
    Settled { flows: u64 },
    /// The flows asked about, and the place of the next ones.
    SettledFlows {
        flows: Vec<SettledFlow<PortId>>,
        next: Option<u32>,
    },
    /// What a lookup function answers.
    Lookup { answer: Answer<PortId> },
    /// The descriptors asked for come with this.
    Files,
    /// Not done.
    Refused { why: String },
}

/// An address that a domain knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressEntry {
    /// The address.
    pub mac: Mac,
    /// The VLAN that it is in; 0 if the domain does not tell VLANs apart or the frame had no tag.
    pub vlan: u16,
    /// The port that it is behind.
    pub port: PortId,
    /// Seconds since it was last seen; none if it was given with the port and does not age.
    pub age: Option<u32>,
}

/// What a flow is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowOn {
    /// All frames of the domain with this number.
    Domain(u32),
    /// The frames from and to a port.
    Port(PortId),
}

/// A flow, as a switch reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowDescription {
    /// Its name.
    pub name: String,
    /// What it is on.
    pub on: FlowOn,
    /// Which frames are its own.
    pub attributes: FlowAttributes,
    /// What it may do.
    pub properties: FlowProperties,
    /// What it has counted.
    pub stats: FlowStats,
}

/// A port, as a switch reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortDescription {
    /// Which port.
    pub id: PortId,
    /// Its name.
    pub name: String,
    /// The number of its domain.
    pub domain: u32,
    /// What it leads to.
    pub kind: PortKind,
    /// Whether it passes frames.
    pub state: PortState,
    /// Its properties, as the client set them.
    pub properties: PortProperties,
    /// The lanes that poll its queues, in their order.
    pub lanes: Vec<LaneIndex>,
}

#[cfg(test)]
mod tests;
