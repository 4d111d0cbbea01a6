//! What is wanted of a host, and what is told of it: the bodies of the API and the records of the
//! store, with what each may say.

mod entry;
mod flow;
mod guest;
mod link;
mod name;
mod stats;
mod vnic;
mod wire;

pub use entry::{FlowEntry, FlowEntryView, NewFlowEntry};
pub use flow::{Flow, FlowStats, FlowView, NewFlow};
pub use guest::{
    Guest, GuestState, GuestView, HandlerRead, HandlerValue, HandlerWrite, Interface, Isolation,
    Leaving, NewGuest, NewInterface, Restart, Run,
};
pub use link::{
    Address, Class, Link, LinkMode, LinkView, NewLink, NewStub, PropertyChange, STUB_MTUS, State,
    SwitchChange, SwitchView, Tunnel, check_stub_mtu,
};
pub use name::{INTERFACE_NAME_MAX, NAME_MAX, check_interface, check_name};
pub use stats::{LaneStats, PortStats};
pub(crate) use vnic::takes_less;
pub use vnic::{NewVnic, Serves, Vnic, VnicView, is_usable};
pub use wire::{AppliedWire, Forwarding, WireChange, WireGuest, WireView};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a node tells of itself.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NodeView {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// The switch's process; none while there is none.
    pub switch_pid: Option<u32>,
    /// How often this node had to start a switch anew because the last one ended.
    pub switch_restarts: u64,
    /// Links, stubs included.
    pub links: usize,
    /// VNICs.
    pub vnics: usize,
    /// Flows.
    pub flows: usize,
    /// Guests.
    pub guests: usize,
}
