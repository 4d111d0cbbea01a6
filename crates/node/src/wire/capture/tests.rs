use switch::netlink::KernelRoute;

use super::describe;
use super::seen::{InterfaceKind, SeenInterface, SeenNamespace, Shaping};
use crate::wire::check::check;

fn link(index: u32, name: &str, kind: InterfaceKind) -> SeenInterface {
    SeenInterface {
        index,
        name: name.into(),
        kind,
        up: true,
        mtu: 1500,
        mac: Some(switch::lookup::Mac([2, 0, 0, 0, 0, index as u8])),
        ..SeenInterface::default()
    }
}

fn veth(index: u32, name: &str, peer: (usize, u32)) -> SeenInterface {
    link(
        index,
        name,
        InterfaceKind::Veth {
            index: peer.1,
            namespace: Some(peer.0),
        },
    )
}

const BRIDGE: InterfaceKind = InterfaceKind::Bridge {
    vlans: false,
    aging: 60,
    spanning_tree: false,
};

/// A host with a bridge and a NIC on it, a container there, and another one behind the first.
fn network() -> Vec<SeenNamespace> {
    let port = SeenInterface {
        master: Some(2),
        shaping: Shaping {
            rate: Some(50_000_000),
            ..Shaping::default()
        },
        ..veth(3, "veth-a", (1, 2))
    };
    let host = SeenNamespace {
        interfaces: vec![
            link(2, "br0", BRIDGE),
            port,
            SeenInterface {
                master: Some(2),
                ..link(4, "eth0", InterfaceKind::Device)
            },
        ],
        ..SeenNamespace::default()
    };
    let first = SeenNamespace {
        name: Some("first".into()),
        forwards: true,
        interfaces: vec![
            SeenInterface {
                addresses: vec!["192.168.0.1/24".parse().unwrap()],
                ..veth(2, "eth0", (0, 3))
            },
            SeenInterface {
                addresses: vec!["10.0.0.1/24".parse().unwrap()],
                ..veth(3, "down", (2, 2))
            },
            SeenInterface {
                up: true,
                ..link(9, "wg0", InterfaceKind::Other("wireguard".into()))
            },
            SeenInterface {
                up: false,
                ..link(10, "tunl0", InterfaceKind::Other("ipip".into()))
            },
            SeenInterface {
                addresses: vec!["10.200.0.1/32".parse().unwrap()],
                ..link(1, "lo", InterfaceKind::Loopback)
            },
            SeenInterface {
                up: true,
                beyond: Some("third".into()),
                ..veth(11, "far", (usize::MAX, 2))
            },
        ],
        routes: vec![KernelRoute {
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
    let second = SeenNamespace {
        name: Some("second".into()),
        interfaces: vec![
            SeenInterface {
                shaping: up,
                ..veth(2, "eth0", (1, 3))
            },
            SeenInterface {
                addresses: vec!["10.0.5.2/24".parse().unwrap()],
                ..link(3, "eth0.5", InterfaceKind::Vlan { id: 5, below: 2 })
            },
        ],
        routes: vec![KernelRoute {
            to: "0.0.0.0/0".parse().unwrap(),
            via: Some("10.0.5.1".parse().unwrap()),
            device: Some(3),
            metric: None,
        }],
        ..SeenNamespace::default()
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
        "‘eth0’ of first: only the traffic that it receives is limited, to 50M; the maxbw of a VNIC holds in both directions",
        "namespace ‘first’ has a route to 10.9.0.0/16 by an interface outside the wire: the route is omitted",
        "the rule 100, ‘from 10.1.0.0/16 lookup 7’ of first has no counterpart and is omitted",
        "‘wg0’ of first: a wireguard interface has no counterpart and is omitted",
        "‘lo’ of first: its address 10.200.0.1/32 has no counterpart and is omitted",
        "‘far’ of first: its other end is in namespace ‘third’, which was not read: the interface is omitted; add `-n third` to read it",
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
    network[0].interfaces.push(link(20, "br9", BRIDGE));
    network[0].interfaces.push(SeenInterface {
        master: Some(20),
        ..link(21, "tap9", InterfaceKind::Tap)
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
        SeenInterface {
            master: Some(1),
            ..veth(3, "p0", (0, 4))
        },
        SeenInterface {
            master: Some(2),
            ..veth(4, "p1", (0, 3))
        },
    ];
    let [a, b] = pair;
    let lost = SeenInterface {
        master: Some(1),
        ..link(
            5,
            "far",
            InterfaceKind::Veth {
                index: 7,
                namespace: Some(usize::MAX),
            },
        )
    };
    let host = SeenNamespace {
        interfaces: vec![link(1, "br0", BRIDGE), link(2, "br1", BRIDGE), a, b, lost],
        ..SeenNamespace::default()
    };
    let captured = describe(&[host], "seen", "");
    assert_eq!(captured.wire.patches["p0"].between, ["br0", "br1"]);
    assert_eq!(captured.wire.patches["p0"].back, None);
    assert_eq!(captured.wire.patches.len(), 1);
    assert!(captured.wire.vnics.is_empty());
    assert!(
        captured.notes[0].contains("not read"),
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
    network[0].interfaces[1].shaping = slow(2000, 50_000_000);
    network[1].interfaces[0].shaping = slow(7000, 10_000_000);
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
        network[0].interfaces.push(SeenInterface {
            master: Some(2),
            ..link(index, name, InterfaceKind::Device)
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
fn captured_mtus_are_those_of_stubs_and_of_vnics_that_have_others() {
    let mut seen = network();
    // Without its NIC the bridge is a stub: of 9000, one end of 4000.
    seen[0].interfaces.retain(|link| link.name != "eth0");
    seen[0].interfaces[0].mtu = 9000;
    seen[1].interfaces[0].mtu = 4000;
    let wire = describe(&seen, "seen", "").wire;
    assert_eq!(wire.stubs["br0"].mtu, Some(9000));
    let mtus = |link: &str| -> Vec<_> {
        let on = wire.vnics.values().filter(|vnic| vnic.link == link);
        on.map(|vnic| vnic.properties.mtu).collect()
    };
    assert_eq!(mtus("br0"), [Some(4000)]);
    assert_eq!(wire.stubs["first-second"].mtu, None);
    seen[1].interfaces[0].mtu = 9000;
    let wire = describe(&seen, "seen", "").wire;
    let vnic = wire.vnics.values().find(|vnic| vnic.link == "br0");
    assert_eq!(vnic.unwrap().properties.mtu, None, "its stub's");
    assert_eq!(check(&wire).errors, [""; 0]);
}

#[test]
fn what_is_down_is_omitted_and_told() {
    let told = |change: fn(&mut [SeenNamespace])| {
        let mut network = network();
        change(&mut network);
        let captured = describe(&network, "seen", "");
        let down = captured
            .notes
            .iter()
            .filter(|note| note.contains("it is down"));
        let down: Vec<_> = down
            .map(|note| note.split(':').next().unwrap().to_string())
            .collect();
        (captured.wire, down)
    };
    let (wire, notes) = told(|_| ());
    assert!(
        notes.is_empty() && wire.vnics.contains_key("first-eth0"),
        "{notes:?}"
    );
    // One end of a pair takes the other with it.
    let (wire, notes) = told(|seen| seen[1].interfaces[0].up = false);
    assert_eq!(notes, ["‘eth0’ of first"]);
    assert!(wire.links.contains_key("br0") && !wire.vnics.contains_key("first-eth0"));
    // So does a bridge with its ports.
    let (wire, notes) = told(|seen| seen[0].interfaces[0].up = false);
    assert_eq!(notes, ["‘br0’ of the host"]);
    assert!(wire.links.is_empty() && !wire.vnics.contains_key("first-eth0"));
    assert!(wire.stubs.contains_key("first-second"));
    // A NIC that is down is none of the bridge's.
    let (wire, notes) = told(|seen| seen[0].interfaces[2].up = false);
    assert_eq!(notes, ["‘eth0’ of the host"]);
    assert!(wire.links.is_empty() && wire.stubs.contains_key("br0"));
}
