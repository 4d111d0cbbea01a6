//! Guests that go on at another node.

use std::collections::BTreeMap;

use ::switch::lookup::Mac;
use ::switch::properties::PortProperties;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::object::is_default;
use super::{Guest, VnicRecord};

/// Where a guest is to go on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Migrate {
    /// The other node, as `HOST:PORT`.
    pub to: String,
    /// Links of the other node by the guest's interfaces; default: those of the same names.
    #[serde(default, skip_serializing_if = "is_default")]
    pub links: BTreeMap<String, String>,
}

/// How a guest was migrated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Migrated {
    /// Rounds of copying while it ran.
    pub rounds: u32,
    /// Bytes that were sent.
    pub bytes: u64,
    /// Bytes of them that were sent while it stood still.
    pub last_bytes: u64,
    /// Milliseconds from the request to the end.
    pub total_ms: f64,
    /// Milliseconds from the order to stand still to the other node's word that it runs there.
    pub blackout_ms: f64,
    /// Frames that came meanwhile, and followed it.
    pub late_frames: u64,
}

/// A guest that comes from another node, as that describes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Arrival {
    /// The version of what follows.
    pub version: u32,
    /// Its name.
    pub name: String,
    /// What it was started with.
    pub guest: Guest,
    /// Its ports, by its interfaces.
    pub ports: BTreeMap<String, ArrivalPort>,
    /// What is needed to make a snapshot of its memory.
    pub description: Vec<u8>,
}

impl Arrival {
    /// The version that this node speaks.
    pub const VERSION: u32 = 1;
}

/// The port of an interface of a guest that comes from another node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ArrivalPort {
    /// Its link at the target.
    pub link: String,
    /// The name of the VNIC, if it was not made for the guest.
    pub vnic: Option<String>,
    /// Its address.
    pub mac: Mac,
    /// What it may do.
    pub properties: PortProperties,
}

impl ArrivalPort {
    /// Of a VNIC, on a link of the other node, or the one of the same name.
    pub fn of(vnic: &VnicRecord, link: Option<&String>) -> ArrivalPort {
        ArrivalPort {
            link: link.unwrap_or(&vnic.link).clone(),
            vnic: (!vnic.implicit).then(|| vnic.name.clone()),
            mac: vnic.mac(),
            properties: vnic.properties.clone(),
        }
    }
}
