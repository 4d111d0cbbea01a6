//! How the switch of a link works: its lookup function, and the entries of a flow table.

use serde::{Deserialize, Serialize};
use switch::lookup::{Flow as TableFlow, FlowDefault, Mac};
use switch::properties::{Bandwidth, DomainProperties, LookupKind};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};

use super::State;
use super::object::{Object, Spec, Verb, record};

/// How the switch of a link or stub works. It is called as its link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SwitchFunction {
    /// The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as
    /// `{"click": {"config": …}}`.
    #[schema(schema_with = lookup_schema)]
    pub lookup: LookupKind,
    /// Seconds after which an address that was not seen again is removed.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub aging: u32,
    /// Most addresses that are learned behind one port.
    #[schema(minimum = 1, maximum = 65_536)]
    pub mac_limit: u32,
    /// Highest rate of each port without a `maxbw` of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub speed: Option<Bandwidth>,
    /// With a flow table, the action for frames without an entry, in ovs-ofctl's words: `normal` (by
    /// addresses), `drop`, or `output:VNIC`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The name of a Click configuration in messages. It is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// A lookup function as the API describes it: a name, or a Click configuration.
pub(super) fn lookup_schema() -> Schema {
    lookup_of(&[])
}

/// The same for a field that may be null, which is as if it were not given.
pub(super) fn optional_lookup_schema() -> Schema {
    lookup_of(&[Type::Null])
}

fn lookup_of(others: &[Type]) -> Schema {
    let of = |kind| ObjectBuilder::new().schema_type(kind);
    let one = OneOfBuilder::new()
        .description(Some(
            "The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as \
             `{\"click\": {\"config\": …}}`.",
        ))
        .item(of(Type::String).enum_values(Some(["learning", "hash", "flow-table"])))
        .item(of(Type::Object));
    let others = others.iter();
    others
        .fold(one, |one, kind| one.item(of(kind.clone())))
        .into()
}

impl Default for SwitchFunction {
    fn default() -> SwitchFunction {
        SwitchFunction::from(DomainProperties::default())
    }
}

impl From<DomainProperties> for SwitchFunction {
    fn from(properties: DomainProperties) -> SwitchFunction {
        SwitchFunction {
            lookup: properties.lookup,
            aging: properties.aging,
            mac_limit: properties.mac_limit,
            speed: properties.speed,
            default: None,
            file: None,
        }
    }
}

impl SwitchFunction {
    /// The properties of the switch's domain.
    pub fn properties(&self) -> DomainProperties {
        DomainProperties {
            lookup: self.lookup.clone(),
            aging: self.aging,
            mac_limit: self.mac_limit,
            speed: self.speed,
        }
    }
}

/// A default of a flow table in ovs-ofctl's words.
pub fn action_text(default: &FlowDefault<String>) -> String {
    match default {
        FlowDefault::Addresses => "normal".into(),
        FlowDefault::Drop => "drop".into(),
        FlowDefault::Port(port) => format!("output:{port}"),
    }
}

/// The port of an action `output:PORT`.
pub fn output(action: &str) -> Option<&str> {
    action.strip_prefix("output:")
}

/// The switch of a link as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct SwitchStatus {
    /// In the answer to a new Click configuration: names in it that no port of the link has yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

impl Spec for SwitchFunction {
    type Status = SwitchStatus;
    const PATH: &'static str = "switches";
    const NOUN: &'static str = "switch";
    const CALLED: [&'static str; 2] = ["the switch of a link", "the switches of all links"];
    const HAS_CONFIG: bool = true;
    const VERBS: &'static [Verb] = &[Verb::List, Verb::Show, Verb::Put, Verb::Patch];

    fn complete(patch: &mut serde_json::Map<String, serde_json::Value>) {
        // The default of a flow table goes with it.
        if patch.contains_key("lookup") {
            let default = patch.entry("default");
            default.or_insert(serde_json::Value::Null);
        }
    }

    fn example() -> Object<SwitchFunction> {
        let mut switch = Object::new("lan", SwitchFunction::default());
        switch.spec.lookup = LookupKind::FlowTable;
        switch.spec.default = Some("drop".into());
        switch
    }
}

/// An entry of a flow table: the port of a link that a flow goes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The flow, in one direction, in ovs-ofctl's words.
    #[schema(example = "tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1024,tp_dst=80")]
    pub flow: String,
    /// The VNIC, or the link's own interface, that it goes to.
    pub port: String,
    /// Its status; ignored in a request.
    #[serde(default)]
    pub status: EntryStatus,
}

/// An entry as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct EntryStatus {
    /// Seconds since the other direction of a learned one was last seen; none if it was made by
    /// command.
    pub age: Option<u32>,
    /// Whether frames go by it: its port may be down.
    pub state: State,
}

/// An address that a link's switch knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Address {
    /// The address.
    #[schema(value_type = String, example = "02:00:00:00:00:01")]
    pub mac: Mac,
    /// Its VLAN; 0 for frames without a tag.
    pub vlan: u16,
    /// The VNIC or interface that it is behind.
    pub port: String,
    /// Seconds since it was last seen; none for one that does not age.
    pub age: Option<u32>,
}

record!(EntryRecord: "flow-entries");

/// An entry of a flow table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EntryRecord {
    /// Its key: the link and the flow (see [`EntryRecord::key`]).
    pub name: String,
    /// The link.
    pub link: String,
    /// The flow, in one direction.
    pub flow: TableFlow,
    /// The VNIC, or the link's own interface, that it goes to.
    pub port: String,
}

impl EntryRecord {
    /// The key of the entry for a flow: there is one.
    pub fn key(link: &str, flow: TableFlow) -> String {
        format!("{link} {flow}")
    }
}
