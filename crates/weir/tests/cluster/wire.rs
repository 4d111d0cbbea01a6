//! A wire over hosts: its stub is a network, its guests are placed by the policy.

use std::collections::BTreeSet;

use crate::common::{assert_contains, pings, until};
use crate::net::Net;

const WIRE: &str = "
wire = 'edge'
description = 'two responders'

[stub.edge]
speed = '1G'

[vnic.one0]
link = 'edge'
properties = { maxbw = '100M' }

[vnic.two0]
link = 'edge'
mac = '02:00:00:00:00:22'

[guest.one]
file = 'responder'
parameters = { ip = '10.8.0.1', net = '10.8.0.0/24', pool = '10.8.0.200-10.8.0.210' }
interfaces = { port = 'one0' }
isolation = 'process'

[guest.two]
file = 'responder'
parameters = { ip = '10.8.0.2', net = '10.8.0.0/24', pool = '10.8.0.211-10.8.0.220' }
interfaces = { port = 'two0' }
isolation = 'process'
";

/// VNICs of a host.
fn vnics(net: &Net, number: usize) -> BTreeSet<String> {
    let output = net.hosts[number].ok("vnic show -p -o vnic");
    output.lines().map(String::from).collect()
}

#[test]
fn a_wire_s_guests_are_placed_over_hosts_and_its_stub_spans_them() {
    let mut net = Net::new("wire", 2, 1);
    net.cluster("--policy vm_evenly_distributed");
    let a = 0;
    let file = net.hosts[a].config("edge.toml", WIRE);
    refusals(&net, &file);
    let steps = "+ network edge\n+ guest one\n+ guest two\n";
    net.hosts[a].shows(&format!("wire diff --cluster {file}"), steps);
    net.hosts[a].shows(&format!("wire apply --cluster {file}"), steps);
    let guests = net.settles(a, 2);
    assert_ne!(guests["one"].0, guests["two"].0, "{guests:?}");
    // With another MTU, networks and guests are made again, also on the hosts where they were.
    for mtu in 1400..1406 {
        let narrow = WIRE.replace("speed = '1G'", &format!("speed = '1G'\nmtu = {mtu}"));
        let narrow = net.hosts[a].config("narrow.toml", &narrow);
        net.hosts[a].ok(&format!("wire apply --cluster {narrow}"));
        assert_eq!(net.hosts[a].ok("network ls -p -o mtu"), format!("{mtu}\n"));
    }
    net.hosts[a].ok(&format!("wire apply --cluster {file}"));
    let guests = net.settles(a, 2);
    net.hosts[a].shows(&format!("wire diff --cluster {file} --exit-code"), "");
    net.hosts[a].shows(
        "wire stat --cluster edge -p -o name,link",
        "one0:edge\ntwo0:edge\n",
    );
    net.hosts[a].refuses(
        "wire stat --cluster none",
        "there is no wire none in the cluster: there are edge",
    );
    let shown =
        net.hosts[a].ok("wire show --cluster edge -p -o networks,guests,states,description");
    let states = format!(
        "one=running@{},two=running@{}",
        guests["one"].0, guests["two"].0
    );
    assert_eq!(shown, format!("edge:2:{states}:two responders\n"));

    // Frames go from host to host; each VNIC has its address and its rate.
    let near = usize::from(guests["one"].0 != "a");
    let far = 1 - near;
    let user = net.hosts[near].namespace("edge", "u0", "10.8.0.100/24", None);
    pings(&user, "10.8.0.1");
    pings(&user, "10.8.0.2");
    let vnic = |number: usize, name: &str| {
        let shown = net.hosts[number].json(&format!("vnic show {name}"));
        shown.as_array().map_or(shown.clone(), |all| all[0].clone())
    };
    assert_eq!(vnic(near, "one0")["properties"]["maxbw"], "100M");
    assert_eq!(vnic(far, "two0")["properties"]["maxbw"], "1G");
    assert_eq!(vnic(far, "two0")["mac"], "02:00:00:00:00:22");

    // A guest moves with its VNIC, and none is left.
    net.hosts[a].ok(&format!("migrate --cluster two {}", net.name(near)));
    pings(&user, "10.8.0.2");
    until("the VNIC is left", || vnics(&net, far).is_empty());
    let at_near = ["one0", "two0", "u0"].map(String::from);
    assert_eq!(vnics(&net, near), at_near.into());

    // What changes is made again, what was removed too; the rest is not touched.
    let pid = |guest: &str| net.hosts[near].ok(&format!("ls {guest} -p -o pid"));
    let before = pid("one");
    net.hosts[a].ok("destroy --cluster two");
    net.hosts[a].shows(&format!("wire diff --cluster {file}"), "+ guest two\n");
    net.hosts[a].ok(&format!("wire apply --cluster {file}"));
    let other = net.hosts[a].config("edge.toml", &WIRE.replace("10.8.0.2'", "10.8.0.3'"));
    net.hosts[a].shows(
        &format!("wire apply --cluster {other}"),
        "~ guest two: it is created again, since its configuration changed\n",
    );
    net.settles(a, 2);
    pings(&user, "10.8.0.3");
    assert_eq!(pid("one"), before);
    let exported = net.hosts[a].ok("wire export --cluster edge");
    let exported = net.hosts[a].config("exported.toml", &exported);
    net.hosts[a].shows(&format!("wire diff --cluster {exported}"), "");

    // Nothing is left of it.
    net.hosts[a].refuses(
        "wire delete --cluster edge",
        "network edge has 1 VNICs on hosts ",
    );
    net.hosts[a].refuses("network delete edge", "network edge is of wire edge");
    net.hosts[near].ok("vnic delete u0");
    until("the wire is removed", || {
        net.hosts[a]
            .output("wire delete --cluster edge")
            .status
            .success()
    });
    until("VNICs are left", || {
        [near, far].iter().all(|it| vnics(&net, *it).is_empty())
    });
    assert!(net.guests(a).is_empty());
    net.hosts[a].shows("network ls -p", "");
    net.hosts[a].shows("wire show --cluster -p", "");
}

fn refusals(net: &Net, file: &str) {
    let a = &net.hosts[0];
    let wrong = a.config(
        "wrong.toml",
        "wire = 'w'\nexisting = ['nowhere']\n[namespace.desk]\n[stub.s]\n",
    );
    let said = a.refusals(&format!("wire apply --cluster {wrong}"));
    assert_contains(&said, "namespace ‘desk’: it is a host's own");
    assert_contains(
        &said,
        "existing ‘nowhere’: the cluster has no network of this name",
    );
    let wrong = a.config(
        "wrong.toml",
        "wire = 'w'\n[guest.bad]\nconfig = 'Foo -> Bar;'\n",
    );
    let said = a.refusals(&format!("wire apply --cluster {wrong}"));
    assert_contains(&said, "undeclared element");
    a.refuses("ls --cluster bad", "there is no guest ‘bad’");
    a.refuses(
        &format!("wire apply --cluster --on z {file}"),
        "there is no host z",
    );
    a.refuses(
        &format!("wire apply --on a {file}"),
        "are for a host of a cluster: give --cluster",
    );
    a.refuses(
        "wire show --cluster edge",
        "there is no wire edge in the cluster",
    );
    a.refuses(
        "wire delete --cluster edge",
        "there is no wire edge in the cluster",
    );
    a.shows("network ls -p", "");
}

/// Guests of a wire are near each other, if the policy weighs that most.
#[test]
fn guests_of_a_wire_are_near_each_other() {
    let mut net = Net::new("near", 2, 1);
    net.cluster("");
    let a = &net.hosts[0];
    let policy = a.config(
        "near.toml",
        "filters = ['link', 'maintenance', 'pinned-host']\nweights = { even-guests = 1, chain-distance = 10 }\n",
    );
    a.ok(&format!("policy create near {policy}"));
    a.ok("policy set near");
    let idle = a.config("idle.click", "Idle -> Discard;");
    a.ok(&format!(
        "create --cluster --count 2 --name x-{{}} {idle} --isolation process"
    ));
    let wire = a.config("near-wire.toml", &WIRE.replace("edge", "near"));
    a.ok(&format!("wire apply --cluster {wire}"));
    let guests = net.settles(0, 4);
    assert_eq!(guests["one"].0, guests["two"].0, "{guests:?}");
    assert_ne!(guests["x-1"].0, guests["x-2"].0, "{guests:?}");
}
