//! Stubs: switches without a NIC.

use serde::{Deserialize, Serialize};
use switch::properties::{Bandwidth, DomainProperties, LookupKind};
use utoipa::ToSchema;

use super::link::{LinkRecord, LinkStatus, State};
use super::object::{Object, Spec, Verb};
use super::switch::optional_lookup_schema;
use crate::error::{Fault, Result};

/// A switch without a NIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "StubFields", into = "StubFields")]
pub struct Stub {
    /// Largest IP packet, in bytes; 1500 if none is given.
    pub mtu: Option<u16>,
    /// The switch's properties.
    pub properties: DomainProperties,
}

/// A switch without a NIC, as it is written: all in one table, where an unknown key is an error
/// with its line.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schema(as = Stub)]
struct StubFields {
    /// Largest IP packet, in bytes; 1500 if none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 68, maximum = 9216)]
    mtu: Option<u16>,
    /// The lookup function: `learning`, `hash`, `flow-table` or a Click configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = optional_lookup_schema)]
    lookup: Option<LookupKind>,
    /// Seconds after which an address that was not seen again is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    aging: Option<u32>,
    /// Most addresses that are learned behind one port.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 65_536)]
    mac_limit: Option<u32>,
    /// Highest rate of each port without a `maxbw` of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    speed: Option<Bandwidth>,
}

impl From<StubFields> for Stub {
    fn from(fields: StubFields) -> Stub {
        let default = DomainProperties::default();
        Stub {
            mtu: fields.mtu,
            properties: DomainProperties {
                lookup: fields.lookup.unwrap_or(default.lookup),
                aging: fields.aging.unwrap_or(default.aging),
                mac_limit: fields.mac_limit.unwrap_or(default.mac_limit),
                speed: fields.speed,
            },
        }
    }
}

impl From<Stub> for StubFields {
    fn from(stub: Stub) -> StubFields {
        let (default, is) = (DomainProperties::default(), stub.properties);
        StubFields {
            mtu: stub.mtu,
            lookup: (is.lookup != default.lookup).then_some(is.lookup),
            aging: (is.aging != default.aging).then_some(is.aging),
            mac_limit: (is.mac_limit != default.mac_limit).then_some(is.mac_limit),
            speed: is.speed,
        }
    }
}

impl From<&LinkRecord> for Stub {
    fn from(record: &LinkRecord) -> Stub {
        Stub {
            mtu: Some(record.mtu),
            properties: record.spec.properties.clone(),
        }
    }
}

impl utoipa::PartialSchema for Stub {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        StubFields::schema()
    }
}

impl ToSchema for Stub {}

impl Spec for Stub {
    type Status = LinkStatus;
    const PATH: &'static str = "stubs";
    const NOUN: &'static str = "stub";
    const CALLED: [&'static str; 2] = ["a stub", "stubs"];
    const HAS_CONFIG: bool = true;

    fn note(verb: Verb) -> &'static str {
        match verb {
            Verb::Put | Verb::Patch => "The MTU of a stub cannot change.",
            Verb::Delete => "No VNIC may be on it.",
            _ => "",
        }
    }

    fn example() -> Object<Stub> {
        let mut stub = Object::new("lan", Stub::default());
        stub.spec.mtu = Some(9000);
        stub.spec.properties.aging = 600;
        stub.status.mtu = 9000;
        stub.status.state = State::Up;
        stub
    }
}

/// Smallest and largest MTU of a stub, in bytes: IPv4's least (RFC 791), and what any port takes.
pub const STUB_MTUS: std::ops::RangeInclusive<u16> = 68..=9216;

/// Whether a stub can have an MTU.
pub fn check_stub_mtu(mtu: u16) -> Result<()> {
    if STUB_MTUS.contains(&mtu) {
        Ok(())
    } else {
        let (least, most) = (*STUB_MTUS.start(), *STUB_MTUS.end());
        Err(Fault::StubMtu { mtu, least, most }.into())
    }
}
