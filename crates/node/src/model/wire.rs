//! Virtual wires, as the node keeps and tells of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::GuestState;
use crate::wire::file::Wire;

/// A wire as it is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AppliedWire {
    /// Its name.
    pub name: String,
    /// What is there.
    pub applied: Wire,
    /// What is being made of it; the node that finds this after a restart takes it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Wire>,
    /// Links that were attached for it, and not before by somebody else: they go with it.
    #[serde(default)]
    pub links: Vec<String>,
    /// What namespaces that were there before forwarded, where that was changed for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub forwarding: BTreeMap<String, Forwarding>,
}

impl AppliedWire {
    /// What there is to be of it.
    pub fn wanted(&self) -> &Wire {
        self.pending.as_ref().unwrap_or(&self.applied)
    }
}

/// Which packets a network namespace forwards between its interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarding {
    /// IPv4's.
    pub ipv4: bool,
    /// IPv6's.
    pub ipv6: bool,
}

impl Forwarding {
    /// All, or none.
    pub const fn all(on: bool) -> Forwarding {
        Forwarding { ipv4: on, ipv6: on }
    }
}

/// A wire as it is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WireView {
    /// Its name.
    pub name: String,
    /// What it is, for people.
    pub description: String,
    /// Switches: stubs and links.
    pub switches: usize,
    /// VNICs.
    pub vnics: usize,
    /// Namespaces.
    pub namespaces: usize,
    /// Guests.
    pub guests: usize,
    /// How its guests fare.
    pub states: Vec<WireGuest>,
    /// Whether it is being changed.
    pub changing: bool,
}

/// How a guest of a wire fares.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WireGuest {
    /// Its name.
    pub name: String,
    /// How it fares; none, if somebody removed it.
    pub state: Option<GuestState>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl WireView {
    /// Of a wire as it is wanted, and its guests as they are.
    pub fn new(record: &AppliedWire, states: Vec<WireGuest>) -> WireView {
        let wire = &record.applied;
        WireView {
            name: record.name.clone(),
            description: wire.description.clone(),
            switches: wire.stubs.len() + wire.links.len(),
            vnics: wire.vnics.len(),
            namespaces: wire.namespaces.len(),
            guests: wire.guests.len(),
            states,
            changing: record.pending.is_some(),
        }
    }
}

/// What applying a wire did, or would do.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct WireChange {
    /// What is not the same, a line each: `+` for what is new, `-` for what is no more, `~` for
    /// what is another.
    pub differences: Vec<String>,
    /// Parts that had been removed by hand and are made again.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Parts that had been changed by hand and are set again as the wire has them.
    #[serde(default)]
    pub altered: Vec<String>,
    /// Guests that had ended otherwise than in good order and are started anew, each with how.
    #[serde(default)]
    pub ended: Vec<String>,
    /// What the wire's author should know.
    #[serde(default)]
    pub warnings: Vec<String>,
}
