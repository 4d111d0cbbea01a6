//! Flows.

use serde::{Deserialize, Serialize};
use switch::properties::{FlowAttributes, FlowProperties};
use utoipa::ToSchema;

use super::State;
use super::stats::less;

/// A flow as it is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// The link or VNIC that it is on.
    pub link: String,
    /// Which frames are its own.
    pub attributes: FlowAttributes,
    /// What it may do.
    pub properties: FlowProperties,
}

/// A flow to be added.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewFlow {
    /// Its name.
    pub name: String,
    /// The link or VNIC that it is on.
    pub link: String,
    /// `local_ip=10.0.0.1,transport=tcp,local_port=80`, as on the command line.
    pub attributes: String,
    /// `maxbw=100M,priority=high`, as on the command line.
    #[serde(default)]
    pub properties: String,
}

/// A flow as it is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FlowView {
    /// Its name.
    pub name: String,
    /// The link or VNIC that it is on.
    pub link: String,
    /// Which frames are its own.
    #[schema(value_type = Object)]
    pub attributes: FlowAttributes,
    /// What it may do.
    #[schema(value_type = Object)]
    pub properties: FlowProperties,
    /// Whether it works.
    pub state: State,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What passed of a flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct FlowStats {
    /// Its name.
    pub name: String,
    /// The link or VNIC that it is on.
    pub link: String,
    /// Frames of it that passed.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, frames that had to wait for the flow's limit.
    pub held: u64,
    /// Of these, frames that were dropped since too many waited.
    pub dropped: u64,
}

impl FlowStats {
    /// What was counted since `before`, of the same flow.
    pub fn since(&self, before: &FlowStats) -> FlowStats {
        FlowStats {
            name: self.name.clone(),
            link: self.link.clone(),
            frames: less(self.frames, before.frames),
            bytes: less(self.bytes, before.bytes),
            held: less(self.held, before.held),
            dropped: less(self.dropped, before.dropped),
        }
    }
}
