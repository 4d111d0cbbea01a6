//! Which field of a request is wrong, as the API tells it.

use serde_json::{Value, json};

use crate::common::Host;
use crate::requests::{raw, request};

/// A guest's configuration in a body.
const CONFIG: &str = "FromNetfront(a) -> Discard;";

/// The field that each request's error names, and a part of what it says.
fn refused(host: &Host, requests: &[(&str, &str, Value, &str, &str)]) {
    let mut wrong = Vec::new();
    for (method, path, body, field, part) in requests {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let (status, answer) = raw(host, &request(method, path, &body));
        let named = answer["field"].as_str().unwrap_or_default();
        let said = answer["error"].as_str().unwrap_or_default();
        // What a field is called in Rust is of no use to a client.
        let foreign = ["expected struct", "expected f64", "expected u", "Option<"];
        if status < 400
            || named != *field
            || !said.contains(part)
            || foreign.iter().any(|it| said.contains(it))
        {
            wrong.push(format!(
                "{method} {path} {body}: {status}, field {named:?}, not {field:?}: {said}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_field_of_a_body_is_named() {
    let host = Host::new();
    host.ok("stub create lan");
    host.ok("vnic create -l lan v");
    let config = host.config("g.click", CONFIG);
    host.ok(&format!("create g {config} --link a=lan"));
    let guest = |fields: Value| {
        let mut body = json!({"name": "x", "config": "Idle -> Discard;"});
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        body
    };
    let vnic = |fields: Value| {
        let mut body = json!({"name": "x", "link": "lan"});
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        body
    };
    let vxlan = |fields: Value| {
        let mut tunnel = json!({"vni": 5, "remotes": ["192.0.2.2"]});
        tunnel
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        json!({"name": "x", "vxlan": tunnel})
    };
    let nsm = |fields: Value| {
        let mut body =
            json!({"name": "x", "kind": "user", "link": "lan", "addresses": ["10.0.0.2/24"]});
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        body
    };
    let long = format!("/tmp/{}", "s".repeat(120));
    refused(
        &host,
        &[
            (
                "POST",
                "/v1/stubs",
                json!({"name": "a", "mtu": 65536}),
                "mtu",
                "mtu",
            ),
            ("POST", "/v1/stubs", json!({"name": 1}), "name", "a text"),
            (
                "POST",
                "/v1/stubs",
                json!({"name": "a", "aging": 0}),
                "aging",
                "aging",
            ),
            (
                "POST",
                "/v1/stubs",
                json!({"name": "a", "colour": 0}),
                "colour",
                "unknown field",
            ),
            (
                "POST",
                "/v1/stubs",
                json!({"name": "a", "status": "up"}),
                "status",
                "an object",
            ),
            (
                "PATCH",
                "/v1/stubs/lan",
                json!({"aging": -1}),
                "aging",
                "aging",
            ),
            (
                "PATCH",
                "/v1/stubs/lan",
                json!({"colour": null}),
                "colour",
                "no such field",
            ),
            (
                "PATCH",
                "/v1/stubs/lan",
                json!({"status": 5}),
                "status",
                "an object",
            ),
            (
                "POST",
                "/v1/vnics",
                json!({"name": "x"}),
                "link",
                "`link` is missing",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"link": 1})),
                "link",
                "a text is expected, not the number 1",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"link": "nolan"})),
                "link",
                "no link ‘nolan’",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"mac": "02:00"})),
                "mac",
                "Ethernet",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"mac": "01:00:5e:00:00:01"})),
                "mac",
                "unicast",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"interface": "x"})),
                "interface",
                "no interface",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"host": true, "interface": "x".repeat(16)})),
                "interface",
                "1 to 15",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"host": true, "interface": "lo"})),
                "interface",
                "‘lo’",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"host": true, "name": "lo"})),
                "name",
                "‘lo’",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"host": "yes"})),
                "host",
                "true or false is expected, not the text \"yes\"",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"addresses": ["10.0.0.2/24"]})),
                "addresses",
                "no interface",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"host": true, "addresses": "10.0.0.2/24"})),
                "addresses",
                "a list",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"host": true, "addresses": ["10.0.0.2"]})),
                "addresses[0]",
                "as in 10.0.0.2/24",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"namespace": "weir-none"})),
                "namespace",
                "weir-none",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"vhost-user": "a/b"})),
                "vhost-user",
                "absolute",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"vhost-user": long})),
                "vhost-user",
                "107",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"guest": {"template": "none"}})),
                "guest.template",
                "no guest ‘none’",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"guest": {}})),
                "guest.template",
                "missing",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"guest": 5})),
                "guest",
                "an object is expected",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"guest": {"template": "g", "on": "never"}})),
                "guest.on",
                "none of",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"guest": {"template": "g", "guests": 2}})),
                "guest.guests",
                "flow",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"guest": {"template": "g", "idle": "soon"}})),
                "guest.idle",
                "soon",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"guest": {"template": "g", "interface": "b"}})),
                "guest.interface",
                "interface",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"properties": {"maxbw": "zzz"}})),
                "properties.maxbw",
                "maxbw",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"properties": {"mtu": 9000}})),
                "properties.mtu",
                "maximum",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"properties": {"mtu": "big"}})),
                "properties.mtu",
                "mtu",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"properties": {"colour": 1}})),
                "properties.colour",
                "unknown field",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"properties": {"lanes": 99}})),
                "properties.lanes",
                "lanes",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"properties": {"cpus": [4000]}})),
                "properties.cpus",
                "4000",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"properties": 5})),
                "properties",
                "an object of properties",
            ),
            (
                "PATCH",
                "/v1/vnics/v",
                json!({"properties": {"mtu": 9000}}),
                "properties.mtu",
                "maximum",
            ),
            (
                "PATCH",
                "/v1/vnics/v",
                json!({"properties": {"colour": null}}),
                "properties.colour",
                "no such field",
            ),
            ("PATCH", "/v1/vnics/v", json!({"name": "w"}), "name", "path"),
            (
                "POST",
                "/v1/links",
                json!({"name": "weir-none0"}),
                "name",
                "weir-none0",
            ),
            (
                "POST",
                "/v1/links",
                json!({"name": "lo"}),
                "name",
                "Ethernet",
            ),
            (
                "POST",
                "/v1/links",
                json!({"name": "lo", "mode": "fast"}),
                "mode",
                "none of",
            ),
            (
                "POST",
                "/v1/links",
                json!({"name": "x", "mode": "tap", "port": {"colour": 1}}),
                "port.colour",
                "unknown field",
            ),
            (
                "POST",
                "/v1/links",
                json!({"name": "x", "mode": "tap", "port": {"lanes": 99}}),
                "port.lanes",
                "lanes",
            ),
            (
                "POST",
                "/v1/links",
                json!({"name": "x", "mode": "tap", "port": {"mtu": 9000}}),
                "port.mtu",
                "mtu",
            ),
            (
                "POST",
                "/v1/links",
                json!({"name": "x", "mode": "tap", "port": {"cpus": [4000]}}),
                "port.cpus",
                "4000",
            ),
            (
                "POST",
                "/v1/links",
                vxlan(json!({"vni": 1 << 24})),
                "vxlan.vni",
                "VNI",
            ),
            (
                "POST",
                "/v1/links",
                vxlan(json!({"vni": null})),
                "vxlan.vni",
                "a whole number",
            ),
            (
                "POST",
                "/v1/links",
                vxlan(json!({"remotes": ["192.0.2.2", "192.0.2.2"]})),
                "vxlan.remotes[1]",
                "twice",
            ),
            (
                "POST",
                "/v1/links",
                vxlan(json!({"remotes": ["224.0.0.1"]})),
                "vxlan.remotes[0]",
                "multicast",
            ),
            (
                "POST",
                "/v1/links",
                vxlan(json!({"remotes": ["nowhere"]})),
                "vxlan.remotes[0]",
                "address",
            ),
            (
                "POST",
                "/v1/links",
                vxlan(json!({"local": "192.0.2.1"})),
                "vxlan.local",
                "192.0.2.1",
            ),
            (
                "POST",
                "/v1/links",
                vxlan(json!({"port": 65536})),
                "vxlan.port",
                "port",
            ),
            (
                "POST",
                "/v1/links",
                vxlan(json!({"neighbors": [{"mac": "02:00:00:00:00:01", "remote": "192.0.2.9"}]})),
                "vxlan.neighbors[0].remote",
                "no remote",
            ),
            (
                "POST",
                "/v1/flows",
                json!({"name": "f", "link": "none", "attributes": {"transport": "tcp"}}),
                "link",
                "none",
            ),
            (
                "POST",
                "/v1/flows",
                json!({"name": "f", "link": "v", "attributes": {"colour": "red"}}),
                "attributes.colour",
                "unknown field",
            ),
            (
                "POST",
                "/v1/flows",
                json!({"name": "f", "link": "v", "attributes": {"transport": "carrier-pigeon"}}),
                "attributes.transport",
                "transport",
            ),
            (
                "POST",
                "/v1/flows",
                json!({"name": "f", "link": "v", "attributes": {"local_port": 80}}),
                "attributes",
                "transport",
            ),
            (
                "POST",
                "/v1/guests",
                json!({"name": "x"}),
                "config",
                "config",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"config": "Nothing;"})),
                "config",
                "Nothing",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"name": "a b"})),
                "name",
                "valid name",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"memory": "64K"})),
                "memory",
                "KiB",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"memory": "lots"})),
                "memory",
                "size",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"memory": 1.5})),
                "memory",
                "size",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"ring-slots": 100})),
                "ring-slots",
                "power of two",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"cpus": 99})),
                "cpus",
                "99",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"cpus": -1})),
                "cpus",
                "whole number",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"pin": [0, 4000]})),
                "pin[1]",
                "4000",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"pin": ["a"]})),
                "pin[0]",
                "whole number",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"cpu-max": "half"})),
                "cpu-max",
                "a number is expected, not the text \"half\"",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"cpu-max": 0})),
                "cpu-max",
                "0.01",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"memory-max": "1M"})),
                "memory-max",
                "2M",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"memory-max": true})),
                "memory-max",
                "size",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"health": ["c.count ~ 5"]})),
                "health[0]",
                "operator",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"health": "c.count"})),
                "health",
                "a list",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"variables": {"a-b": "1"}})),
                "variables",
                "a-b",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"variables": {"A": 1}})),
                "variables.A",
                "a text",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"isolation": "glass"})),
                "isolation",
                "none of",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"nsm": "none"})),
                "nsm",
                "none",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"interfaces": {"a": "none"}})),
                "interfaces.a",
                "none",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"interfaces": ["lan"]})),
                "interfaces",
                "an object",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"configurations": {"main": {"config": "Idle;"}}})),
                "configurations",
                "main",
            ),
            (
                "PATCH",
                "/v1/guests/g",
                json!({"memmax": null}),
                "memmax",
                "no such field",
            ),
            (
                "PATCH",
                "/v1/guests/g",
                json!({"restart": "sometimes"}),
                "restart",
                "none of",
            ),
            (
                "PUT",
                "/v1/guests/g",
                json!({"name": "h", "config": CONFIG}),
                "name",
                "path",
            ),
            (
                "POST",
                "/v1/guests/g/save",
                json!({"file": "a/b"}),
                "file",
                "absolute",
            ),
            (
                "POST",
                "/v1/guests/g/save",
                json!({"file": "/tmp"}),
                "file",
                "no file",
            ),
            ("POST", "/v1/guests/g/save", json!({}), "file", "missing"),
            (
                "POST",
                "/v1/guest-restore",
                json!({"file": "/nowhere/at/all"}),
                "file",
                "/nowhere",
            ),
            (
                "POST",
                "/v1/guests/g/rename",
                json!({"name": "a b"}),
                "name",
                "valid name",
            ),
            (
                "POST",
                "/v1/guest-series",
                json!({"name": "x-{}", "count": 0, "guest": {"config": "Idle;"}}),
                "count",
                "1 to",
            ),
            (
                "POST",
                "/v1/vnics",
                vnic(json!({"host": true, "addresses": ["10.0.0.2/24", "10.0.0.2/16"]})),
                "addresses[1]",
                "twice",
            ),
            (
                "POST",
                "/v1/nsms",
                json!({"name": "x", "kind": "program", "run": ["/nowhere/program"]}),
                "run",
                "/nowhere/program",
            ),
            (
                "POST",
                "/v1/nsms",
                nsm(json!({"gateways": ["10.1.0.1"]})),
                "gateways[0]",
                "10.1.0.1",
            ),
            (
                "POST",
                "/v1/nsms",
                nsm(json!({"addresses": []})),
                "addresses",
                "addresses",
            ),
            (
                "POST",
                "/v1/nsms",
                nsm(json!({"link": "none"})),
                "link",
                "none",
            ),
            (
                "POST",
                "/v1/nsms",
                nsm(json!({"link": null})),
                "link",
                "needs the link",
            ),
            (
                "POST",
                "/v1/nsms",
                nsm(json!({"kind": "kernel"})),
                "link",
                "`link` is not for this kind",
            ),
            (
                "POST",
                "/v1/nsms",
                nsm(json!({"properties": {"maxbw": "x"}})),
                "properties.maxbw",
                "maxbw",
            ),
            (
                "POST",
                "/v1/nsms",
                nsm(json!({"properties": {"conns": 0}})),
                "properties.conns",
                "conns",
            ),
            (
                "POST",
                "/v1/applications",
                json!({"name": "x", "nsm": "none", "pid": 1}),
                "nsm",
                "none",
            ),
            (
                "PATCH",
                "/v1/switches/lan",
                json!({"lookup": "magic"}),
                "lookup",
                "magic",
            ),
            (
                "PATCH",
                "/v1/switches/lan",
                json!({"default": "drop"}),
                "default",
                "flow-table",
            ),
            (
                "PATCH",
                "/v1/switches/lan",
                json!({"lookup": {"click": {"config": "Nothing;"}}}),
                "lookup.click.config",
                "Nothing",
            ),
            (
                "DELETE",
                "/v1/node",
                json!({"confirm": false}),
                "confirm",
                "confirm",
            ),
            (
                "DELETE",
                "/v1/node",
                json!({"confirm": "yes"}),
                "confirm",
                "true or false",
            ),
            ("DELETE", "/v1/node", json!({}), "confirm", "confirm"),
            ("POST", "/v1/stubs", json!({}), "name", "`name` is missing"),
            (
                "POST",
                "/v1/stubs",
                json!({"name": "a", "mtu": 70000}),
                "mtu",
                "out of range: a whole number from 68 to 9216",
            ),
            (
                "POST",
                "/v1/stubs",
                json!({"name": "a", "lookup": {"click": {"config": "Nothing;"}}}),
                "lookup.click.config",
                "Nothing",
            ),
            (
                "POST",
                "/v1/stubs?colour=red",
                json!({"name": "a"}),
                "colour",
                "takes none",
            ),
            (
                "PATCH",
                "/v1/stubs/lan",
                json!({"mtu": 1600}),
                "mtu",
                "`mtu` cannot change",
            ),
            (
                "PATCH",
                "/v1/vnics/v",
                json!({"link": "other"}),
                "link",
                "`link` cannot change",
            ),
            ("GET", "/v1/vnics?name=none", Value::Null, "name", "none"),
            (
                "GET",
                "/v1/vnics/v?colour=red",
                Value::Null,
                "colour",
                "takes none",
            ),
            ("GET", "/v1/links/lan", Value::Null, "", "is a stub"),
            (
                "POST",
                "/v1/links",
                vxlan(json!({"port": 0})),
                "vxlan.port",
                "1 to 65535",
            ),
            (
                "POST",
                "/v1/links",
                vxlan(json!({"remotes": ["10.0.0.2/24"]})),
                "vxlan.remotes[0]",
                "as in 192.0.2.2",
            ),
            (
                "POST",
                "/v1/links",
                json!({"name": "x", "mode": "tap", "properties": {"aging": 0}}),
                "properties.aging",
                "aging",
            ),
            (
                "POST",
                "/v1/flows",
                json!({"name": "f", "link": "v", "attributes": {"transport": "tcp", "local_port": 0}}),
                "attributes.local_port",
                "1 to 65535",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"memory": -5})),
                "memory",
                "not negative",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"health": ["none.count > 1"]})),
                "health[0]",
                "there is no element",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"variables": {"RATE": "1"}})),
                "variables.RATE",
                "no variable",
            ),
            (
                "POST",
                "/v1/guests",
                guest(json!({"config": CONFIG})),
                "interfaces.a",
                "has no link",
            ),
            (
                "POST",
                "/v1/guests/g/read",
                json!({"handler": "none.count"}),
                "handler",
                "none",
            ),
            (
                "POST",
                "/v1/nsms",
                nsm(json!({"gateways": ["10.0.0.1/24"]})),
                "gateways[0]",
                "as in 192.0.2.2",
            ),
            (
                "PUT",
                "/v1/wires/w",
                json!({"wire": "w", "stub": {"s": {"mtu": 1}}}),
                "stub.s.mtu",
                "68",
            ),
            (
                "PUT",
                "/v1/wires/w",
                json!({"wire": "w", "vnic": {"x": {"link": "none"}}}),
                "vnic.x.link",
                "none",
            ),
            (
                "PUT",
                "/v1/wires/w",
                json!({"wire": "w", "stub": {"s": {}}, "flow": {"f": {"link": "s", "attributes": {}}}}),
                "flow.f.attributes",
                "selects",
            ),
            (
                "POST",
                "/v1/guests/g/save",
                json!({"file": "/nowhere/at/all"}),
                "file",
                "/nowhere",
            ),
            (
                "PUT",
                "/v1/wires/w",
                json!({"wire": "w", "stub": {"s": {}}, "guest": {"wg": {"config": "Nothing;"}}}),
                "guest.wg.config",
                "Nothing",
            ),
            ("DELETE", "/v1/node", Value::Null, "", "{\"confirm\":true}"),
            (
                "GET",
                "/v1/guests/g/log?tail=x",
                Value::Null,
                "tail",
                "whole number",
            ),
            (
                "GET",
                "/v1/guests/g/log?colour=x",
                Value::Null,
                "colour",
                "unknown field",
            ),
            (
                "GET",
                "/v1/events?follow=maybe",
                Value::Null,
                "follow",
                "true or false",
            ),
            ("GET", "/v1/guests?name=[", Value::Null, "name", "pattern"),
        ],
    );
    // The guest and the VNIC are as they were.
    assert_eq!(host.json("ls").as_array().unwrap().len(), 1);
    assert_eq!(host.json("vnic show").as_array().unwrap().len(), 2);
    // A name may be in the path alone.
    let (status, answer) = raw(&host, &request("PUT", "/v1/stubs/b", r#"{"mtu": 1600}"#));
    assert_eq!((status, &answer["name"]), (200, &json!("b")), "{answer}");
}
