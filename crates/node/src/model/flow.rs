//! Flows.

use serde::{Deserialize, Serialize};
use switch::properties::{FlowAttributes, FlowProperties, Transport};
use utoipa::ToSchema;

use super::State;
use super::object::{Object, Spec, Verb, is_default, record};
use super::properties::{AttributesTable, FlowTable};
use super::stats::counters;

/// A class of traffic on a link or VNIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Flow {
    /// The link, stub or VNIC that it is on.
    pub link: String,
    /// Which frames belong to it, by flowadm's names: `local_ip`, `transport`, `local_port` …
    #[schema(value_type = AttributesTable)]
    pub attributes: FlowAttributes,
    /// Its limit and priority.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = FlowTable)]
    pub properties: FlowProperties,
}

/// A flow as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct FlowStatus {
    /// Whether it works.
    pub state: State,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Spec for Flow {
    type Status = FlowStatus;
    const PATH: &'static str = "flows";
    const NOUN: &'static str = "flow";
    const CALLED: [&'static str; 2] = ["a flow", "flows"];

    fn note(verb: Verb) -> &'static str {
        match verb {
            Verb::Create => "On a VNIC that is down, the flow waits until it is up.",
            Verb::Put | Verb::Patch => {
                "A changed flow is another one in the switch: it counts from 0, and its frames have no limit for a moment."
            }
            _ => "",
        }
    }

    fn example() -> Object<Flow> {
        let mut flow = Object::new("web", Flow::default());
        flow.spec.link = "lan".into();
        flow.spec.attributes.transport = Some(Transport::TCP);
        flow.spec.attributes.local_port = Some(80);
        flow.status.state = State::Up;
        flow
    }
}

/// Counters of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct FlowStats {
    /// Its name.
    pub name: String,
    /// The link or VNIC that it is on.
    pub link: String,
    /// Frames of the flow that passed.
    pub frames: u64,
    /// Bytes of the flow that passed.
    pub bytes: u64,
    /// Frames that waited for the flow's limit.
    pub held: u64,
    /// Frames dropped since too many waited.
    pub dropped: u64,
}

counters!(FlowStats: frames, bytes, held = "held_frames", dropped = "dropped_frames");

record!(FlowRecord: "flows", Flow);

/// A flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Its name.
    pub name: String,
    /// The specification.
    pub spec: Flow,
}
