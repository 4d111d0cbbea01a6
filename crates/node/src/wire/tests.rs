use std::path::Path;

use super::capture::describe;
use super::capture::seen::{Kind, Link, Namespace, Route as SeenRoute, Shaping};
use super::check::check;
use super::file::FileError;
use super::plan::{Drift, Step, plan};
use crate::model::{Memory, Route, Wire};

const TWO_SUBNETS: &str = r#"
wire = "two-subnets"

[stub.office]
speed = "1G"

[stub.lab]
speed = "100M"

[namespace.desk]
routes = ["default via 10.0.1.1"]

[namespace.bench]
routes = ["default via 10.0.2.1"]

[vnic.desk0]
link = "office"
namespace = "desk"
addresses = ["10.0.1.2/24"]

[vnic.bench0]
link = "lab"
namespace = "bench"
interface = "eth0"
addresses = ["10.0.2.2/24", "fd00::2/64"]
properties = { maxbw = "10M", delay = "2ms", loss = "1%" }

[vnic.router0]
link = "office"

[vnic.router1]
link = "lab"
mac = "02:00:00:00:00:01"

[guest.router]
config = "Idle -> Discard;"
interfaces = { inside = "router0", outside = "router1" }

[flow.web]
link = "office"
attributes = { local_ip = "10.0.1.2/32", transport = "tcp", local_port = 80 }
properties = { maxbw = "20M" }
"#;

/// The steps from one wire to another, as they are shown.
fn lines(old: &Wire, new: &Wire) -> Vec<String> {
    let steps = plan(old, new, |_, _| Drift::None);
    steps.iter().map(Step::to_string).collect()
}

fn wire(text: &str) -> Wire {
    Wire::parse(text, Path::new("test.toml")).unwrap()
}

#[test]
fn a_wire_is_read_as_it_is_written() {
    let read = wire(TWO_SUBNETS);
    assert_eq!(
        read.stubs["lab"].properties.speed.unwrap().bits(),
        100_000_000
    );
    assert_eq!(read.vnics["bench0"].properties.delay.to_string(), "2ms");
    assert_eq!(
        read.namespaces["desk"].routes[0].to_string(),
        "default via 10.0.1.1"
    );
    assert_eq!(wire(&read.to_text()), read);
    let findings = check(&read);
    assert_eq!((findings.errors, findings.warnings), (vec![], vec![]));
}

#[test]
fn what_is_said_of_a_guest_is_read_written_and_told_apart() {
    let said = r#"interfaces = { inside = "router0", outside = "router1" }
memory = "8M"
ring-slots = 512
cpus = 2
pin = [0, 1]
isolation = "process"
restart = "on-failure"
"#;
    let (before, _) = said.split_once('\n').unwrap();
    let full = TWO_SUBNETS.replace(before, said);
    let read = wire(&full);
    assert_eq!(wire(&read.to_text()), read);
    let changes = |from: &str, to: &str| lines(&read, &wire(&full.replace(from, to))).join("\n");
    assert_eq!(changes("", ""), "");
    for (from, to, line) in [
        ("pin = [0, 1]", "pin = [1]", "pin 0,1 → 1"),
        ("pin = [0, 1]", "", "pin 0,1 → none"),
        ("\"process\"", "\"vm\"", "isolation process → vm"),
        ("on-failure", "always", "restart on-failure → always"),
    ] {
        let made_again = format!("- guest ‘router’, which is made again\n+ guest ‘router’: {line}");
        let in_use = format!("~ guest ‘router’: {line}");
        let expected = if line.starts_with("restart") {
            in_use
        } else {
            made_again
        };
        assert_eq!(changes(from, to), expected);
    }
    let wrong = full.replace("on-failure", "sometimes");
    let error = Wire::parse(&wrong, Path::new("w.toml")).unwrap_err();
    assert!(
        error.to_string().contains("`always`, `on-failure`"),
        "{error}"
    );
}

#[test]
fn a_stub_has_an_mtu_that_bounds_its_vnics() {
    let larger = TWO_SUBNETS.replace("speed = \"1G\"", "speed = \"1G\"\nmtu = 9000\naging = 60");
    let read = wire(&larger);
    assert_eq!(read.stubs["office"].mtu, Some(9000));
    assert_eq!(wire(&read.to_text()), read);
    let steps = lines(&wire(TWO_SUBNETS), &read);
    let stub = "+ stub ‘office’: aging none → 60, mtu none → 9000".to_string();
    assert!(steps.contains(&stub), "{steps:?}");
    let errors = |text: &str| check(&wire(text)).errors.join("\n");
    assert_eq!(errors(&larger), "");
    let wrong = errors(&larger.replace("9000", "9217"));
    assert!(wrong.contains("stub ‘office’: an MTU of 9217"), "{wrong}");
    let own = "properties = { mtu = 4000, maxbw";
    let wrong = errors(&larger.replace(
        "properties = { maxbw = \"10M\"",
        &(own.to_string() + " = \"10M\""),
    ));
    assert!(
        wrong.contains("its mtu of 4000 is above that of stub ‘lab’, 1500"),
        "{wrong}"
    );
}

#[test]
fn captured_mtus_are_those_of_stubs_and_of_vnics_that_have_others() {
    let mut seen = network();
    // Without its NIC the bridge is a stub: of 9000, one end of 4000.
    seen[0].links.retain(|link| link.name != "eth0");
    seen[0].links[0].mtu = 9000;
    seen[1].links[0].mtu = 4000;
    let wire = describe(&seen, "seen", "").wire;
    assert_eq!(wire.stubs["br0"].mtu, Some(9000));
    let mtus = |link: &str| -> Vec<_> {
        let on = wire.vnics.values().filter(|vnic| vnic.link == link);
        on.map(|vnic| vnic.properties.mtu).collect()
    };
    assert_eq!(mtus("br0"), [Some(4000)]);
    assert_eq!(wire.stubs["first-second"].mtu, None);
    seen[1].links[0].mtu = 9000;
    let wire = describe(&seen, "seen", "").wire;
    let vnic = wire.vnics.values().find(|vnic| vnic.link == "br0");
    assert_eq!(vnic.unwrap().properties.mtu, None, "its stub's");
    assert_eq!(check(&wire).errors, [""; 0]);
}

#[test]
fn what_cannot_be_read_names_its_line() {
    let error = |text: &str| {
        Wire::parse(text, Path::new("w.toml"))
            .unwrap_err()
            .to_string()
    };
    assert!(
        error("wire = \"a\"\n\n[stub.x]\ncolour = 1\n")
            .starts_with("w.toml:4: unknown field `colour`")
    );
    assert!(
        error("wire = \"a\"\n[vnic.v]\nlink = \"s\"\nmac = \"02\"\n")
            .starts_with("w.toml:4: ‘02’ is no Ethernet address")
    );
    assert!(
        error("wire = \"a\"\n[namespace.n]\nroutes = [\"default\"]\n")
            .contains("‘default’ is no route")
    );
    assert!(error("wire = \"a\"\n[stub.x]\n[stub.x]\n").starts_with("w.toml:3: "));
    assert!(error("[stub.x]\n").contains("missing field `wire`"));
}

#[test]
fn configurations_come_from_files_beside_the_wire() {
    let folder = std::env::temp_dir().join(format!("weir-wire-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("w.toml");
    std::fs::write(folder.join("r.click"), "Idle -> Discard;").unwrap();
    std::fs::write(&file, "wire = \"w\"\n[guest.r]\nfile = \"r.click\"\n").unwrap();
    let read = Wire::read(&file).unwrap();
    assert_eq!(read.guests["r"].config, "Idle -> Discard;");
    assert_eq!(read.guests["r"].file, None);
    std::fs::write(&file, "wire = \"w\"\n[guest.r]\nfile = \"none.click\"\n").unwrap();
    assert!(
        Wire::read(&file)
            .unwrap_err()
            .to_string()
            .contains("none.click")
    );
    std::fs::write(&file, "wire = \"w\"\n[guest.r]\n").unwrap();
    assert!(matches!(Wire::read(&file), Err(FileError::Config { .. })));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_does_not_hold_together_is_found() {
    let errors = |from: &str, to: &str| {
        assert!(TWO_SUBNETS.contains(from), "{from}");
        check(&wire(&TWO_SUBNETS.replacen(from, to, 1)))
            .errors
            .join("\n")
    };
    for (from, to, wrong) in [
        (
            "link = \"office\"",
            "link = \"ofice\"",
            "no stub or link ‘ofice’",
        ),
        (
            "namespace = \"desk\"",
            "namespace = \"desq\"",
            "no namespace ‘desq’",
        ),
        (
            "via 10.0.1.1",
            "via 10.0.9.1",
            "no address of a vnic in it is of the gateway's subnet, and no route without a gateway leads to it: add one, ‘10.0.9.1/32 dev VNIC’",
        ),
        (
            "\"default via 10.0.1.1\"",
            "\"default via 10.0.1.1\", \"0.0.0.0/0 dev desk0 metric 0\"",
            "namespace ‘desk’: route ‘default dev desk0 metric 0’ is to the same prefix as ‘default via 10.0.1.1’",
        ),
        (
            "outside = \"router1\"",
            "outside = \"router9\"",
            "no vnic for its interface ‘outside’, ‘router9’",
        ),
        (
            "outside = \"router1\"",
            "outside = \"router0\"",
            "is an interface of guest ‘router’ already",
        ),
        (
            "outside = \"router1\"",
            "outside = \"desk0\"",
            "in one place only",
        ),
        ("mac = \"02:", "mac = \"01:", "no unicast address"),
        (
            "wire = \"two-subnets\"",
            "wire = \"two subnets\"",
            "a name is 1 to 31",
        ),
        ("[stub.lab]", "[stub.lab]\naging = 0", "stub ‘lab’"),
        ("transport = \"tcp\", ", "", "flow ‘web’: a port needs"),
        (
            "[vnic.router0]",
            "[vnic.router0]\naddresses = [\"10.0.0.9/24\"]",
            "are for VNICs in a namespace",
        ),
    ] {
        let found = errors(from, to);
        assert!(found.contains(wrong), "{to}: {found}");
    }
    let by_route = "via 10.0.9.1\", \"10.0.9.1/32 dev desk0";
    assert_eq!(errors("via 10.0.1.1", by_route), "");
}

#[test]
fn flow_tables_that_cannot_be_are_found() {
    let table = r#"
wire = "t"
[stub.lan]
lookup = "flow-table"
[stub.plain]
[vnic.a]
link = "lan"
host = true
[vnic.b]
link = "plain"
host = true
[table.lan]
default = "drop"
[table.lan.flows]
"icmp,nw_src=10.0.0.2,nw_dst=10.0.0.1" = "a"
"#;
    let good = wire(table);
    assert_eq!(check(&good).errors, Vec::<String>::new());
    assert_eq!(wire(&good.to_text()), good);
    for (from, to, wrong) in [
        ("\"drop\"", "\"magic\"", "default = \"magic\" cannot be"),
        ("\"drop\"", "\"output:c\"", "no vnic on its switch ‘c’"),
        ("= \"a\"", "= \"b\"", "no vnic on its switch ‘b’"),
        ("= \"a\"", "= \"lan\"", "no vnic on its switch ‘lan’"),
        (
            "icmp,nw_src",
            "tcp,nw_src",
            "is no flow (tp_src is missing)",
        ),
        ("lookup = \"flow-table\"", "", "works by learning"),
        ("[stub.lan]", "[stub.lane]", "no stub or link ‘lan’"),
        (
            "[table.lan.flows]",
            "[table.lan.flows]\n\"nw_src=10.0.0.2,nw_dst=10.0.0.1,nw_proto=1\" = \"a\"",
            "are one flow",
        ),
    ] {
        assert!(table.contains(from), "{from}");
        let found = check(&wire(&table.replacen(from, to, 1))).errors.join("\n");
        assert!(found.contains(wrong), "{to}: {found}");
    }
}

#[test]
fn rings_without_a_spanning_tree_are_warned_of() {
    let ring = "wire = \"r\"\n[stub.a]\n[stub.b]\n[stub.c]\n
        [patch.x]\nbetween = [\"a\", \"b\"]\n[patch.y]\nbetween = [\"b\", \"c\"]\n";
    assert_eq!(check(&wire(ring)).warnings.len(), 0);
    let ring = format!("{ring}[patch.z]\nbetween = [\"c\", \"a\"]\n");
    let warnings = check(&wire(&ring)).warnings;
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("patch ‘z’ closes a ring"),
        "{warnings:?}"
    );
}

#[test]
fn steps_come_in_an_order_in_which_they_can_be_taken() {
    let old = wire(TWO_SUBNETS);
    let nothing = Wire {
        wire: "two-subnets".into(),
        ..Wire::default()
    };
    let made = lines(&nothing, &old);
    let place = |part: &str| made.iter().position(|line| line == part).unwrap();
    assert!(place("+ stub ‘office’") < place("+ vnic ‘desk0’"));
    assert!(place("+ namespace ‘desk’") < place("+ vnic ‘desk0’"));
    assert!(place("+ vnic ‘router1’") < place("+ guest ‘router’"));
    let removed = lines(&old, &nothing);
    assert_eq!(removed.len(), made.len());
    // The guest, and what cannot go before it, goes last.
    assert!(removed[0].starts_with("- flow"), "{removed:?}");
    let place = |part: &str| removed.iter().position(|line| line == part).unwrap();
    assert!(place("- namespace ‘desk’") < place("- guest ‘router’"));
    assert!(place("- guest ‘router’") < place("- vnic ‘router1’"));
    let new = wire(
        &TWO_SUBNETS
            .replace("maxbw = \"10M\"", "maxbw = \"1G\"")
            .replace("[vnic.desk0]", "[vnic.desk9]"),
    );
    assert_eq!(
        lines(&old, &new),
        [
            "- vnic ‘desk0’",
            "~ vnic ‘bench0’: properties.maxbw 10M → 1G",
            "+ vnic ‘desk9’",
            "~ routes of namespace ‘desk’, set again",
        ]
    );
    assert!(lines(&old, &old).is_empty());
}

#[test]
fn routes_are_those_of_ip_route() {
    for text in [
        "default via 10.0.0.1",
        "10.1.0.0/16 via 10.0.0.1 dev eth0",
        "fd00::/8 dev x",
        "default via fe80::1 dev x",
        "10.1.0.0/16 via 10.0.0.1 dev eth0 metric 7",
        "10.1.0.0/16 via 10.0.0.1 metric 7",
    ] {
        assert_eq!(text.parse::<Route>().unwrap().to_string(), text);
    }
    assert_eq!(
        "10.1.2.3 dev x".parse::<Route>().unwrap().to_string(),
        "10.1.2.3/32 dev x"
    );
    assert_eq!(
        "::/0 dev x".parse::<Route>().unwrap().to_string(),
        "::/0 dev x"
    );
    for wrong in [
        "",
        "default",
        "10.0.0.0/33 dev x",
        "10.0.0.0/8 via fd00::1",
        "default via 1.1.1.1 via 1.1.1.1",
        "default dev",
        "default dev x metric",
        "default dev x metric high",
    ] {
        assert!(wrong.parse::<Route>().is_err(), "{wrong}");
    }
}

#[test]
fn memory_is_written_with_binary_units() {
    for text in ["4M", "2049K", "1G", "65537"] {
        assert_eq!(String::from(text.parse::<Memory>().unwrap()), text);
    }
    assert_eq!("2MiB".parse::<Memory>().unwrap(), Memory(2 << 20));
    for wrong in ["", "M", "4X", "-1", "99999999999G"] {
        assert!(wrong.parse::<Memory>().is_err(), "{wrong}");
    }
}

fn link(index: u32, name: &str, kind: Kind) -> Link {
    Link {
        index,
        name: name.into(),
        kind,
        mtu: 1500,
        mac: Some(switch::lookup::Mac([2, 0, 0, 0, 0, index as u8])),
        ..Link::default()
    }
}

fn veth(index: u32, name: &str, peer: (usize, u32)) -> Link {
    link(
        index,
        name,
        Kind::Veth {
            index: peer.1,
            namespace: Some(peer.0),
        },
    )
}

const BRIDGE: Kind = Kind::Bridge {
    vlans: false,
    aging: 60,
    spanning_tree: false,
};

/// A host with a bridge and a NIC on it, a container there, and another one behind the first.
fn network() -> Vec<Namespace> {
    let port = Link {
        master: Some(2),
        shaping: Shaping {
            rate: Some(50_000_000),
            ..Shaping::default()
        },
        ..veth(3, "veth-a", (1, 2))
    };
    let host = Namespace {
        links: vec![
            link(2, "br0", BRIDGE),
            port,
            Link {
                master: Some(2),
                ..link(4, "eth0", Kind::Device)
            },
        ],
        ..Namespace::default()
    };
    let first = Namespace {
        name: Some("first".into()),
        forwards: true,
        links: vec![
            Link {
                addresses: vec!["192.168.0.1/24".parse().unwrap()],
                ..veth(2, "eth0", (0, 3))
            },
            Link {
                addresses: vec!["10.0.0.1/24".parse().unwrap()],
                ..veth(3, "down", (2, 2))
            },
            Link {
                up: true,
                ..link(9, "wg0", Kind::Other("wireguard".into()))
            },
            link(10, "tunl0", Kind::Other("ipip".into())),
            Link {
                addresses: vec!["10.200.0.1/32".parse().unwrap()],
                ..link(1, "lo", Kind::Loopback)
            },
            Link {
                up: true,
                beyond: Some("third".into()),
                ..veth(11, "far", (usize::MAX, 2))
            },
        ],
        routes: vec![SeenRoute {
            to: "10.9.0.0/16".parse().unwrap(),
            via: None,
            device: Some(9),
            metric: None,
        }],
        policies: vec!["the rule 100, ‘from 10.1.0.0/16 lookup 7’".into()],
    };
    let up = Shaping {
        delay: 5000,
        loss: 0.01,
        ..Shaping::default()
    };
    let second = Namespace {
        name: Some("second".into()),
        links: vec![
            Link {
                shaping: up,
                ..veth(2, "eth0", (1, 3))
            },
            Link {
                addresses: vec!["10.0.5.2/24".parse().unwrap()],
                ..link(3, "eth0.5", Kind::Vlan { id: 5, below: 2 })
            },
        ],
        routes: vec![SeenRoute {
            to: "0.0.0.0/0".parse().unwrap(),
            via: Some("10.0.5.1".parse().unwrap()),
            device: Some(3),
            metric: None,
        }],
        ..Namespace::default()
    };
    vec![host, first, second]
}

#[test]
fn a_captured_network_becomes_switches_vnics_and_namespaces() {
    let captured = describe(&network(), "seen", "");
    let wire = captured.wire;
    assert_eq!(wire.links["br0"].device, "eth0");
    assert_eq!(wire.links["br0"].properties.aging, 60);
    let outer = &wire.vnics["first-eth0"];
    assert_eq!(
        (outer.link.as_str(), outer.interface.as_deref()),
        ("br0", Some("eth0"))
    );
    assert_eq!(outer.properties.maxbw.unwrap().to_string(), "50M");
    assert_eq!(outer.addresses[0].to_string(), "192.168.0.1/24");
    // The pair without a bridge is a stub; what the second sends slowly, the first receives so.
    assert!(wire.stubs.contains_key("first-second"));
    let down = &wire.vnics["down"];
    assert_eq!(down.properties.to_string(), "delay=5ms,loss=1%");
    let vlan = &wire.vnics["eth0.5"];
    assert_eq!(
        (
            vlan.link.as_str(),
            vlan.properties.vlan.unwrap().id(),
            vlan.mac
        ),
        ("first-second", 5, None)
    );
    assert!(wire.namespaces["first"].forwarding && !wire.namespaces["second"].forwarding);
    assert_eq!(
        wire.namespaces["second"].routes[0].to_string(),
        "default via 10.0.5.1"
    );
    let expected = [
        "‘eth0’ of first: what it receives is limited to 50M; the maxbw of a VNIC holds both ways",
        "namespace ‘first’ has a route to 10.9.0.0/16 by an interface that is not in the wire: left out",
        "the rule 100, ‘from 10.1.0.0/16 lookup 7’ of first has no counterpart: left out",
        "‘wg0’ of first: a wireguard interface has no counterpart there: left out",
        "‘lo’ of first: its address 10.200.0.1/32 has no counterpart: left out",
        "‘far’ of first: its other end is in namespace ‘third’, which was not looked at: left out; `-n third` looks at that, too",
    ];
    assert_eq!(captured.notes, expected);
    let prefixed = describe(&network(), "seen", "copy-").wire;
    assert_eq!(
        prefixed.vnics["down"].namespace.as_deref(),
        Some("copy-first")
    );
    assert!(prefixed.namespaces.contains_key("copy-second"));
}

#[test]
fn switches_that_no_namespace_is_on_can_be_left_out() {
    let mut network = network();
    network[0].links.push(link(20, "br9", BRIDGE));
    network[0].links.push(Link {
        master: Some(20),
        ..link(21, "tap9", Kind::Tap)
    });
    let mut captured = describe(&network, "seen", "");
    assert!(captured.wire.stubs.contains_key("br9") && captured.wire.vnics.contains_key("tap9"));
    let vnics = captured.wire.vnics.len();
    captured.keep_reached();
    assert!(!captured.wire.stubs.contains_key("br9") && captured.wire.links.contains_key("br0"));
    assert_eq!(captured.wire.vnics.len(), vnics - 1);
}

#[test]
fn bridges_that_a_pair_joins_become_stubs_with_a_patch() {
    let pair = [
        Link {
            master: Some(1),
            ..veth(3, "p0", (0, 4))
        },
        Link {
            master: Some(2),
            ..veth(4, "p1", (0, 3))
        },
    ];
    let [a, b] = pair;
    let lost = Link {
        master: Some(1),
        ..link(
            5,
            "far",
            Kind::Veth {
                index: 7,
                namespace: Some(usize::MAX),
            },
        )
    };
    let host = Namespace {
        links: vec![link(1, "br0", BRIDGE), link(2, "br1", BRIDGE), a, b, lost],
        ..Namespace::default()
    };
    let captured = describe(&[host], "seen", "");
    assert_eq!(captured.wire.patches["p0"].between, ["br0", "br1"]);
    assert_eq!(captured.wire.patches["p0"].back, None);
    assert_eq!(captured.wire.patches.len(), 1);
    assert!(captured.wire.vnics.is_empty());
    assert!(
        captured.notes[0].contains("not looked at"),
        "{:?}",
        captured.notes
    );
}

#[test]
fn what_a_veth_pair_does_each_way_is_a_cables() {
    let slow = |delay, rate| Shaping {
        delay,
        rate: Some(rate),
        ..Shaping::default()
    };
    let mut network = network();
    network[0].links[1].shaping = slow(2000, 50_000_000);
    network[1].links[0].shaping = slow(7000, 10_000_000);
    let captured = describe(&network, "seen", "");
    let wire = captured.wire;
    let vnic = &wire.vnics["first-eth0"];
    assert_eq!(vnic.properties.to_string(), "");
    let stub = &vnic.link;
    assert!(wire.stubs.contains_key(stub), "{stub}");
    let cable = wire
        .patches
        .values()
        .find(|patch| patch.between[0] == *stub);
    let cable = cable.expect("a cable to the bridge");
    assert_eq!(cable.between[1], "br0");
    assert_eq!(cable.properties.to_string(), "maxbw=10M,delay=7ms");
    let back = cable.back.as_ref().expect("another way back");
    assert_eq!(back.to_string(), "maxbw=50M,delay=2ms");
    assert!(
        captured.notes.iter().all(|note| !note.contains("sends")),
        "{:?}",
        captured.notes
    );
    assert!(check(&wire).errors.is_empty(), "{:?}", check(&wire).errors);
}

#[test]
fn each_nic_of_a_bridge_becomes_a_link() {
    let mut network = network();
    for (index, name) in [(30, "eth1"), (31, "eth2")] {
        network[0].links.push(Link {
            master: Some(2),
            ..link(index, name, Kind::Device)
        });
    }
    let captured = describe(&network, "seen", "");
    let wire = captured.wire;
    assert_eq!(wire.links["br0"].device, "eth0");
    let mut devices: Vec<_> = wire
        .links
        .values()
        .map(|link| link.device.as_str())
        .collect();
    devices.sort_unstable();
    assert_eq!(devices, ["eth0", "eth1", "eth2"]);
    for nic in ["eth1", "eth2"] {
        assert_eq!(
            wire.patches[nic].between,
            ["br0".to_string(), format!("br0-{nic}")]
        );
        assert_eq!(wire.links[&format!("br0-{nic}")].device, nic);
    }
    assert!(check(&wire).errors.is_empty() && check(&wire).warnings.is_empty());
}

#[test]
fn two_vnics_of_a_switch_with_one_ip_address_are_warned_of() {
    let warnings = |more: &str| {
        let text = format!(
            "wire = 'w'\n[stub.s]\n[stub.t]\n[vnic.a]\nlink = 's'\nhost = true\naddresses = ['10.0.0.1/24', 'fd00::1/64']\n[vnic.b]\nhost = true\n{more}\n"
        );
        let findings = check(&wire(&text));
        assert!(findings.errors.is_empty(), "{:?}", findings.errors);
        findings.warnings
    };
    for address in ["10.0.0.1", "fd00::1"] {
        let warned = warnings(&format!("link = 's'\naddresses = ['{address}/32']"));
        let told =
            format!("vnic ‘b’: its address {address} is that of vnic ‘a’ on the same switch");
        assert_eq!(warned, [told]);
    }
    for apart in [
        "link = 's'\naddresses = ['10.0.0.2/24']",
        "link = 't'\naddresses = ['10.0.0.1/24']",
        "link = 's'\naddresses = ['10.0.0.1/24']\nproperties = { vlan = 7 }",
    ] {
        assert!(warnings(apart).is_empty(), "{apart}");
    }
}

#[test]
fn a_guest_on_a_stub_of_long_packets_is_warned_of() {
    let warnings = |mtu: &str, properties: &str| {
        let text = format!(
            "wire = 'w'\n[stub.s]\n{mtu}\n[vnic.g0]\nlink = 's'\n{properties}\n[guest.g]\ninterfaces = {{ a = 'g0' }}\nconfig = 'FromNetfront(a) -> Discard;'\n"
        );
        let findings = check(&wire(&text));
        assert!(findings.errors.is_empty(), "{:?}", findings.errors);
        findings.warnings
    };
    let warned = warnings("mtu = 9000", "");
    assert_eq!(warned.len(), 1);
    assert!(warned[0].starts_with("vnic ‘g0’: its link ‘s’ has an MTU of 9000 bytes"));
    assert!(warnings("mtu = 9000", "properties = { mtu = 1500 }").is_empty());
    assert!(warnings("mtu = 1600", "").is_empty() && warnings("", "").is_empty());
}
