//! Settled flows.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A flow of which a guest said that it is settled, in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SettledFlow {
    /// The guest's VNIC by which its packets come.
    pub vnic: String,
    /// The guest's VNIC by which the guest sends them on.
    pub to_vnic: String,
    /// The link by whose interface they come; none if the flow is not settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The link by whose interface they leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_link: Option<String>,
    /// `tcp` or `udp`.
    pub transport: String,
    /// The sender's address and port when they come.
    #[schema(example = "10.0.0.2:40000")]
    pub source: String,
    /// The receiver's.
    #[schema(example = "192.0.2.1:80")]
    pub destination: String,
    /// The sender's address and port when they leave.
    pub to_source: String,
    /// The receiver's.
    pub to_destination: String,
    /// Packets that the kernel passed on.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Milliseconds since the last one.
    pub idle_ms: u64,
    /// Why the flow is not settled, and all its packets go to the guest; none if it is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
