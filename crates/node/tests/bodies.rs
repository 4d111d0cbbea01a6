//! Arbitrary bodies of requests are accepted or refused, and never mean more than they say.

use node::model::{
    Entry, Flow, Guest, HandlerWrite, Link, Object, Purge, Stub, SwitchFunction, Vnic, Wire,
    check_name, patched,
};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Parses bytes as every body that the API takes.
fn parse_all(bytes: &[u8]) {
    fn parse<T: DeserializeOwned>(bytes: &[u8]) {
        let _ = serde_json::from_slice::<T>(bytes);
    }
    parse::<Object<Link>>(bytes);
    parse::<Object<Stub>>(bytes);
    parse::<Object<Vnic>>(bytes);
    parse::<Object<Flow>>(bytes);
    parse::<Object<Guest>>(bytes);
    parse::<Object<Wire>>(bytes);
    parse::<Object<SwitchFunction>>(bytes);
    parse::<Entry>(bytes);
    parse::<HandlerWrite>(bytes);
    parse::<Purge>(bytes);
    if let Ok(patch) = serde_json::from_slice(bytes) {
        let _ = patched(&Vnic::default(), &patch);
        let _ = patched(&SwitchFunction::default(), &patch);
    }
}

/// JSON that is nearly a body: the right fields with wrong values, and some that are not there.
fn nearly() -> impl Strategy<Value = Value> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        proptest::collection::vec(any::<u8>(), 0..4).prop_map(Value::from),
        Just(json!({ "maxbw": "1G" })),
        Just(json!({ "a": "b" })),
    ];
    let field = prop_oneof![
        Just("name".to_string()),
        Just("link".to_string()),
        Just("mac".to_string()),
        Just("vhost-user".to_string()),
        Just("status".to_string()),
        Just("properties".to_string()),
        Just("config".to_string()),
        Just("interfaces".to_string()),
        Just("memory".to_string()),
        "[a-z_]{1,12}",
    ];
    proptest::collection::btree_map(field, value, 0..8)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

proptest! {
    #[test]
    fn any_bytes_are_understood_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        parse_all(&bytes);
    }

    #[test]
    fn bodies_that_are_nearly_right_are_understood_or_refused(body in nearly()) {
        parse_all(body.to_string().as_bytes());
    }

    #[test]
    fn a_name_that_is_taken_is_one_part_of_any_path(name in "\\PC{0,70}") {
        if check_name("VNIC", &name).is_ok() {
            prop_assert!(!name.contains(['/', '\0', ' ', ':', '\\']));
            prop_assert!(name != "." && name != "..");
        }
    }

    #[test]
    fn what_a_client_writes_is_what_the_node_reads(
        name in "[a-z]{1,15}",
        mac in any::<[u8; 6]>(),
        netns in proptest::option::of("\\PC{1,20}"),
        share in 1u16..=1000,
    ) {
        let mut vnic = Vnic {
            link: "lan".into(),
            mac: Some(switch::lookup::Mac(mac)),
            namespace: netns,
            ..Vnic::default()
        };
        vnic.properties.set("share", &share.to_string()).unwrap();
        let new = Object::new(name, vnic);
        let read: Object<Vnic> = serde_json::from_slice(&serde_json::to_vec(&new).unwrap()).unwrap();
        prop_assert_eq!(new, read);
    }
}
