//! Entries of flow tables: which port of a link a flow goes to.

use serde::{Deserialize, Serialize};
use switch::lookup::Flow;
use utoipa::ToSchema;

use super::State;

/// An entry as it is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowEntry {
    /// Its key: the link and the flow (see [`FlowEntry::key`]).
    pub name: String,
    /// The link.
    pub link: String,
    /// The flow, in one direction.
    pub flow: Flow,
    /// The VNIC, or the link's own interface, that it goes to.
    pub port: String,
}

impl FlowEntry {
    /// What an entry for a flow is kept under: there is one.
    pub fn key(link: &str, flow: Flow) -> String {
        format!("{link} {flow}")
    }
}

/// An entry to be made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewFlowEntry {
    /// The flow, in ovs-ofctl's words.
    #[schema(example = "tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1024,tp_dst=80")]
    pub flow: String,
    /// The VNIC, or the link's own interface, that it goes to.
    pub port: String,
}

/// An entry as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowEntryView {
    /// The flow, in ovs-ofctl's words.
    pub flow: String,
    /// The VNIC, or the link's own interface, that it goes to.
    pub port: String,
    /// Seconds since the other direction of a learned one was last seen; none if it was made by
    /// command.
    pub age: Option<u32>,
    /// Whether frames go by it: its port may be down.
    pub state: State,
}
