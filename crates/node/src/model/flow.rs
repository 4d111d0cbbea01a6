//! Flows.

use serde::{Deserialize, Serialize};
use switch::properties::{FlowAttributes, FlowProperties};
use utoipa::ToSchema;

use super::State;

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
    /// Times that its limit or its level made it wait.
    pub held: u64,
}
