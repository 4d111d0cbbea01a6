//! Converts records of older versions to the present form. Since version 2, specifications are
//! apart from what the node adds, and keys are in kebab-case; since version 3, a checksum precedes
//! each record.

use redb::{ReadableTable, TableHandle, WriteTransaction};
use serde_json::{Map, Value};

use super::{NUMBERS, RecordTable, Result, sealed, table, writing};
use crate::model::{FlowRecord, GuestRecord, LinkRecord, VnicRecord};

/// Key of the version among the numbers. A state without one is of version 1, or new.
const VERSION: &str = "version";
/// Today's.
const CURRENT: u64 = 3;

type Fields = Map<String, Value>;

/// Brings the records of an older version into today's form, if it is one.
pub(super) fn migrate(write: &WriteTransaction) -> Result<()> {
    let mut numbers = write.open_table(NUMBERS).map_err(writing)?;
    let version = numbers.get(VERSION).map_err(writing)?.map(|n| n.value());
    if version == Some(CURRENT) {
        return Ok(());
    }
    numbers.insert(VERSION, CURRENT).map_err(writing)?;
    drop(numbers);
    if version.is_none() {
        from_version_1(write)?;
    }
    for (table, name, json) in sealed::records(write)? {
        let mut table = write
            .open_table(RecordTable::new(&table))
            .map_err(writing)?;
        // One that is no JSON was damaged before, and gets no checksum.
        if serde_json::from_slice::<serde::de::IgnoredAny>(&json).is_ok() {
            let sealed = sealed::seal(table.name(), &name, &json);
            let old = table.insert(name.as_str(), sealed.as_slice());
            old.map(drop).map_err(writing)?;
        }
    }
    Ok(())
}

fn from_version_1(write: &WriteTransaction) -> Result<()> {
    rewrite(write, table::<LinkRecord>(), link)?;
    // Guests look at which VNICs were made for them.
    rewrite(write, table::<GuestRecord>(), |fields| {
        let vnics = write.open_table(table::<VnicRecord>()).map_err(writing)?;
        let link_of = |vnic: &str| {
            let bytes = vnics.get(vnic).ok()??;
            let record: Value = serde_json::from_slice(bytes.value()).ok()?;
            let implicit = record["implicit"] == true;
            implicit.then(|| record["link"].clone())
        };
        guest(fields, link_of)
    })?;
    rewrite(write, table::<VnicRecord>(), vnic)?;
    rewrite(write, table::<FlowRecord>(), flow)
}

fn rewrite(
    write: &WriteTransaction,
    table: RecordTable<'static>,
    change: impl Fn(Fields) -> Result<Value>,
) -> Result<()> {
    let mut rows = Vec::new();
    {
        let there = write.open_table(table).map_err(writing)?;
        for row in there.iter().map_err(writing)? {
            let (name, bytes) = row.map_err(writing)?;
            rows.push((name.value().to_string(), bytes.value().to_vec()));
        }
    }
    for (name, bytes) in rows {
        let Ok(fields) = serde_json::from_slice(&bytes) else {
            continue;
        };
        let record = change(fields)?.to_string();
        let mut table = write.open_table(table).map_err(writing)?;
        let old = table.insert(name.as_str(), record.as_bytes());
        old.map(drop).map_err(writing)?;
    }
    Ok(())
}

/// Moves fields that are there, under another name if one is given.
fn moved(fields: &mut Fields, names: &[(&str, &str)]) -> Fields {
    let take = |(old, new): &(&str, &str)| {
        let value = fields.remove(*old).filter(|value| !value.is_null())?;
        Some((new.to_string(), value))
    };
    names.iter().filter_map(take).collect()
}

fn with_spec(mut fields: Fields, spec: Fields) -> Result<Value> {
    fields.insert("spec".into(), Value::Object(spec));
    Ok(Value::Object(fields))
}

fn link(mut fields: Fields) -> Result<Value> {
    let mut spec = moved(
        &mut fields,
        &[
            ("mode", "mode"),
            ("port", "port"),
            ("properties", "properties"),
        ],
    );
    match (fields.remove("tunnel"), spec.get("mode")) {
        // A tunnel stands under the name of its mode today.
        (Some(tunnel), Some(Value::String(mode))) if !tunnel.is_null() => {
            let mode = mode.clone();
            spec.remove("mode");
            spec.insert(mode, tunnel);
        }
        _ if fields["class"] == "nic" => drop(spec.insert("device".into(), fields["name"].clone())),
        _ => {}
    }
    with_spec(fields, spec)
}

fn vnic(mut fields: Fields) -> Result<Value> {
    let mut spec = moved(
        &mut fields,
        &[
            ("link", "link"),
            ("mac", "mac"),
            ("interface", "interface"),
            ("addresses", "addresses"),
            ("properties", "properties"),
        ],
    );
    match fields.remove("serves") {
        Some(Value::String(host)) if host == "host" => {
            drop(spec.insert("host".into(), true.into()))
        }
        Some(Value::Object(mut location)) => {
            let location = moved(
                &mut location,
                &[("netns", "namespace"), ("vhost-user", "vhost-user")],
            );
            spec.extend(location);
        }
        _ => {}
    }
    with_spec(fields, spec)
}

fn flow(mut fields: Fields) -> Result<Value> {
    let names = ["link", "attributes", "properties"].map(|name| (name, name));
    let spec = moved(&mut fields, &names);
    with_spec(fields, spec)
}

fn guest(mut fields: Fields, link_of: impl Fn(&str) -> Option<Value>) -> Result<Value> {
    let mut spec = moved(
        &mut fields,
        &[
            ("config", "config"),
            ("isolation", "isolation"),
            ("memory", "memory"),
            ("ring_slots", "ring-slots"),
            ("cpus", "cpus"),
            ("pins", "pin"),
            ("restart", "restart"),
        ],
    );
    let own = moved(
        &mut fields,
        &[("interfaces", "ports"), ("booted_config", "booted-config")],
    );
    let ports = own.get("ports").and_then(Value::as_array);
    let on = |port: &Value| {
        let vnic = port["vnic"].as_str()?;
        let on = link_of(vnic).unwrap_or_else(|| vnic.into());
        Some((port["name"].as_str()?.to_string(), on))
    };
    let interfaces: Fields = ports.into_iter().flatten().filter_map(on).collect();
    spec.insert("interfaces".into(), Value::Object(interfaces));
    fields.extend(own);
    with_spec(fields, spec)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use redb::Database;

    use super::*;
    use crate::model::{EntryRecord, Location, Mode, WireRecord};
    use crate::store::Store;

    /// A state as version 1 kept it: tables of records by their names.
    const VERSION_1: &str = include_str!("version-1.json");

    fn write_version_1(folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        let database = Database::create(Store::file(folder)).unwrap();
        let write = database.begin_write().unwrap();
        let tables: Value = serde_json::from_str(VERSION_1).unwrap();
        for (table, records) in tables.as_object().unwrap() {
            let name: &'static str = table.clone().leak();
            let mut table = write.open_table(RecordTable::new(name)).unwrap();
            for record in records.as_array().unwrap() {
                let key = record["name"].as_str().unwrap();
                table.insert(key, record.to_string().as_bytes()).unwrap();
            }
        }
        write.commit().unwrap();
    }

    #[test]
    fn a_state_of_version_1_is_read_as_what_it_was() {
        let folder = std::env::temp_dir().join(format!("weir-version-1-{}", std::process::id()));
        write_version_1(&folder);
        // The second time there is nothing to do.
        for _ in 0..2 {
            let store = Store::open(&folder, Duration::ZERO).unwrap();
            let link = |name| store.get::<LinkRecord>(name).unwrap().unwrap();
            let eth1 = link("eth1");
            assert_eq!((eth1.device.as_str(), eth1.mode), ("eth1", Mode::Packet));
            assert_eq!((eth1.port.lanes, eth1.index), (Some(2), Some(7)));
            let overlay = link("overlay");
            assert_eq!((overlay.interface(), overlay.mode), (None, Mode::Auto));
            assert_eq!(overlay.vxlan.as_ref().unwrap().vni, 42);
            let lan = link("lan");
            assert_eq!((lan.domain, lan.properties.aging), (1, 60));
            let vnic = |name| store.get::<VnicRecord>(name).unwrap().unwrap();
            assert_eq!(vnic("desk0").location(), Location::Namespace("desk"));
            assert_eq!(vnic("desk0").interface(), "eth0");
            assert_eq!(vnic("desk0").mac().to_string(), "02:00:00:00:00:01");
            assert_eq!(vnic("mgmt0").location(), Location::Host);
            let socket = Path::new("/run/vm.sock");
            assert_eq!(vnic("vm0").location(), Location::VhostUser(socket));
            assert!(vnic("fw.lan").implicit);
            let guest = store.get::<GuestRecord>("fw").unwrap().unwrap();
            assert_eq!(guest.interfaces["lan"], "lan", "made for it on the link");
            assert_eq!(guest.interfaces["wan"], "wan0");
            assert_eq!((guest.memory(), guest.ring_slots()), (4 << 20, 512));
            assert_eq!((guest.pin.as_slice(), guest.booted_config), (&[1][..], 20));
            // In the order of the data region, which is not that of the names.
            assert_eq!((guest.ports[0].name.as_str(), guest.id), ("wan", 3));
            let flow = store.get::<FlowRecord>("web").unwrap().unwrap();
            assert_eq!(flow.attributes.to_string(), "transport=tcp,local_port=80");
            assert_eq!(store.all::<EntryRecord>().unwrap()[0].port, "desk0");
            let wire = store.get::<WireRecord>("office").unwrap().unwrap();
            assert_eq!(wire.applied.guests["g"].ring_slots, Some(64));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
