//! The schemas of properties, as their tables say them.

use std::borrow::Cow;

use serde_json::Value;
use switch::properties::{
    ApplicationProperties, DomainProperties, FlowAttributes, FlowProperties, NsmProperties,
    PortProperties,
};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::switch::lookup_schema;

/// The schema of a table with a description.
fn described(table: Value, about: &str) -> RefOr<Schema> {
    // All that a table's schema has, OpenAPI has too.
    let schema = serde_json::from_value(table).unwrap_or_default();
    RefOr::T(match schema {
        Schema::Object(mut fields) => {
            fields.description = Some(about.into());
            Schema::Object(fields)
        }
        other => other,
    })
}

/// Declares the schema of a table: its type for `value_type`, its name, the table's schema, a description.
macro_rules! tables {
    ($($Schema:ident = $name:literal, $schema:expr, $about:literal;)*) => { $(
        #[doc = $about]
        pub(super) struct $Schema;

        impl PartialSchema for $Schema {
            fn schema() -> RefOr<Schema> {
                described($schema, $about)
            }
        }

        impl ToSchema for $Schema {
            fn name() -> Cow<'static, str> {
                $name.into()
            }
        }
    )* };
}

tables! {
    PortTable = "PortProperties", PortProperties::schema(),
        "Properties of a port: speed, delay, loss, VLAN, protection and so on.";
    FlowTable = "FlowProperties", FlowProperties::schema(), "Limit and priority of a flow.";
    AttributesTable = "FlowAttributes", FlowAttributes::schema(),
        "Which frames belong to a flow, by flowadm's names; at least one.";
    NsmTable = "NsmProperties", NsmProperties::schema(),
        "What an NSM may have, for all its applications together.";
    ApplicationTable = "ApplicationProperties", ApplicationProperties::schema(),
        "What an application may have.";
    SwitchTable = "SwitchProperties", switch_schema(), "Properties of a switch.";
}

fn switch_schema() -> Value {
    let mut table = DomainProperties::schema();
    // A Click configuration is a lookup function, too.
    table["properties"]["lookup"] = serde_json::to_value(lookup_schema()).unwrap_or_default();
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_has_the_rows_of_the_tables() {
        fn field<T: PartialSchema>(name: &str) -> Value {
            serde_json::to_value(T::schema()).unwrap()["properties"][name].take()
        }
        let mtu = field::<PortTable>("mtu");
        assert_eq!(
            (&mtu["minimum"], &mtu["x-unit"]),
            (&68.into(), &"bytes".into())
        );
        assert!(field::<SwitchTable>("lookup")["oneOf"].is_array());
        assert_eq!(field::<AttributesTable>("local_port")["maximum"], 65535);
        assert!(field::<FlowTable>("maxbw")["description"].is_string());
        assert!(field::<NsmTable>("conns")["minimum"].is_number());
        let whole = serde_json::to_value(PortTable::schema()).unwrap();
        let named = whole["properties"].as_object().unwrap();
        assert_eq!(named.len(), PortProperties::NAMES.len());
        assert_eq!(whole["additionalProperties"], false);
    }
}
