//! Virtual wires from end to end: networks made from files, real traffic through them, and nothing
//! left of them.

use std::path::Path;
use std::process::Command;

use crate::common::{Host, ip, named, not_root, ping};

/// The two subnets of the example, with names of the test's own.
fn two_subnets(host: &Host) -> String {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/wires");
    let config = example.join("two-subnets.click");
    std::fs::copy(config, host.folder.join("two-subnets.click")).unwrap();
    let text = std::fs::read_to_string(example.join("two-subnets.toml")).unwrap();
    let text = text
        .replace("[namespace.", "[namespace.@-")
        .replace("namespace = \"", "namespace = \"@-");
    host.file("two-subnets.toml", &text)
}

#[test]
fn two_subnets_of_different_speeds_are_joined_by_a_router() {
    if not_root() {
        return;
    }
    let host = Host::new();
    let file = two_subnets(&host);
    let would = host.ok(&format!("wire diff {file}"));
    assert!(
        would.contains("+ stub office") && would.contains("+ guest router"),
        "{would}"
    );
    assert_eq!(host.ok(&format!("wire apply {file}")), would);
    let desk = format!("{}-desk", host.prefix);
    let time = ping(&desk, "10.0.2.2").expect("the bench answers the desk");
    assert!(time >= 2.0, "frames to the bench take 2 ms: {time}");
    // Through a router: one hop less to live.
    let far = Command::new("ip")
        .args([
            "netns", "exec", &desk, "ping", "-n", "-c", "1", "-W", "2", "10.0.2.2",
        ])
        .output()
        .unwrap();
    let far = String::from_utf8_lossy(&far.stdout).into_owned();
    assert!(far.contains("ttl=63"), "{far}");

    // Again: nothing to do. What was removed by hand is made again.
    assert_eq!(host.ok(&format!("wire apply {file}")), "");
    host.ok("vnic delete desk0");
    let again = host.ok(&format!("wire apply {file}"));
    assert_eq!(again, "+ vnic ‘desk0’, which was missing\n");
    assert!(ping(&desk, "10.0.2.2").is_some());

    let shown = host.ok("wire show -p -o wire,switches,vnics,namespaces,guests");
    assert_eq!(shown, "two-subnets:2:4:2:1\n");
    let svg = host.ok("wire show two-subnets --graph svg");
    assert!(svg.contains(">office<") && svg.contains(">router<"));

    // What is exported makes the same wire.
    let exported = host.ok("wire export two-subnets");
    let copy = host.file("copy.toml", &exported);
    assert_eq!(host.ok(&format!("wire diff {copy}")), "");
    host.ok("wire delete two-subnets");
    assert!(named(&host.prefix).is_empty());
    for nouns in ["stub show -p", "vnic show -p", "ls -p", "wire show -p"] {
        assert_eq!(host.ok(nouns), "", "{nouns}");
    }
    host.ok(&format!("wire apply {copy}"));
    assert!(ping(&desk, "10.0.2.2").is_some(), "the exported wire works");
}

const PAIR: &str = "
wire = 'pair'
[stub.@s]
[namespace.@-a]
[namespace.@-b]
[vnic.@a]
link = '@s'
namespace = '@-a'
interface = 'eth0'
addresses = ['10.7.0.1/24']
[vnic.@b]
link = '@s'
namespace = '@-b'
interface = 'eth0'
addresses = ['10.7.0.2/24']
";

#[test]
fn a_wire_that_cannot_be_made_leaves_everything_as_it_was() {
    if not_root() {
        return;
    }
    let host = Host::new();
    let a = format!("{}-a", host.prefix);
    let file = host.file("pair.toml", PAIR);
    // A stub of that name is there: the namespaces made before it go again.
    let stub = format!("{}s", host.prefix);
    host.ok(&format!("stub create {stub}"));
    let refusal = host.refusals(&format!("wire apply {file}"));
    assert!(
        refusal.contains("wire ‘pair’, stub") && refusal.contains("nothing was changed"),
        "{refusal}"
    );
    assert!(named(&host.prefix).is_empty());
    assert_eq!(host.ok("wire show -p"), "");
    host.ok(&format!("stub delete {stub}"));
    host.ok(&format!("wire apply {file}"));
    assert!(ping(&a, "10.7.0.2").is_some());

    // A change whose last part is wrong, a guest that does not come up, is taken back whole.
    let broken = format!(
        "{PAIR}[vnic.@g]\nlink = '@s'\n[guest.@g]\nconfig = 'FromDevice(x) -> NoSuchElement;'\ninterfaces = {{ x = '@g' }}\n"
    );
    let broken = host.file("broken.toml", &broken.replace("10.7.0.2/24", "10.7.0.3/24"));
    let refusal = host.refusals(&format!("wire apply {broken}"));
    assert!(
        refusal.contains("NoSuchElement") && refusal.contains("nothing was changed"),
        "{refusal}"
    );
    assert!(
        ping(&a, "10.7.0.2").is_some(),
        "the address is the old one again"
    );
    assert_eq!(host.ok(&format!("wire diff {file}")), "");
    assert!(
        !host
            .ok("vnic show -p -o vnic")
            .contains(&format!("{}g\n", host.prefix))
    );

    // And one that is right is made in use.
    let other = host.file("other.toml", &PAIR.replace("10.7.0.2/24", "10.7.0.4/24"));
    let change = host.ok(&format!("wire apply {other}"));
    assert!(
        change.contains("addresses 10.7.0.2/24 → 10.7.0.4/24"),
        "{change}"
    );
    assert!(ping(&a, "10.7.0.4").is_some());
    let shaped = "addresses = ['10.7.0.4/24']\nproperties = { maxbw = '10M', vlan = 7 }";
    let shaped = PAIR.replace("addresses = ['10.7.0.2/24']", shaped);
    host.ok(&format!("wire apply {}", host.file("slow.toml", &shaped)));
    let faster = host.file(
        "fast.toml",
        &shaped.replace("maxbw = '10M'", "delay = '1ms'"),
    );
    host.ok(&format!("wire apply {faster}"));
    let b = format!("{}b", host.prefix);
    assert_eq!(
        host.ok(&format!("vnic show -p -o properties {b}")),
        "vlan=7,delay=1ms\n"
    );
}

#[test]
fn a_wire_outlives_its_node_and_its_switch() {
    if not_root() {
        return;
    }
    let mut host = Host::new();
    let a = format!("{}-a", host.prefix);
    let file = host.file("pair.toml", PAIR);
    host.ok(&format!("wire apply {file}"));
    assert!(ping(&a, "10.7.0.2").is_some());
    host.end("-KILL");
    assert!(
        ping(&a, "10.7.0.2").is_some(),
        "the switch goes on without a node"
    );
    host.start();
    assert_eq!(host.ok(&format!("wire diff {file}")), "");
    assert!(ping(&a, "10.7.0.2").is_some());
}

#[test]
fn wrong_files_are_refused_in_sentences() {
    if not_root() {
        return;
    }
    let host = Host::new();
    let refusal = |text: &str| {
        let file = host.file("wrong.toml", text);
        host.refusals(&format!("wire apply {file}"))
    };
    assert!(
        refusal("wire = 'w'\n[stub.s]\nspeeed = '1G'\n")
            .contains("wrong.toml:3: unknown field `speeed`")
    );
    let missing = refusal("wire = 'w'\n[vnic.v]\nlink = 'nowhere'\nhost = true\n");
    assert!(
        missing.contains("vnic ‘v’: there is no stub or link ‘nowhere’ in the wire"),
        "{missing}"
    );
    let rate = refusal("wire = 'w'\n[stub.s]\nspeed = '900T'\n");
    assert!(rate.contains("a rate is a number"), "{rate}");
    let vlan = refusal(
        "wire = 'w'\n[stub.s]\n[vnic.v]\nlink = 's'\nhost = true\nproperties = { vlan = 4095 }\n",
    );
    assert!(vlan.contains("1 to 4094"), "{vlan}");
    let nic = refusal("wire = 'w'\n[link.up]\ndevice = 'weir-none9'\n");
    assert!(nic.contains("no interface ‘weir-none9’"), "{nic}");
    assert!(host.refusals("wire export none").contains("no wire ‘none’"));
    assert!(
        host.refusals("wire apply /nowhere/x.toml")
            .contains("/nowhere/x.toml")
    );
    assert_eq!(host.ok("wire show -p"), "");
}

#[test]
fn a_linux_network_is_captured_and_made_again() {
    if not_root() {
        return;
    }
    let host = Host::new();
    let p = &host.prefix;
    let (bridge, port, other) = (format!("{p}br"), format!("{p}v0"), format!("{p}v1"));
    for name in ["a", "r", "b"] {
        ip(&format!("netns add {p}-{name}"));
    }
    // a, a bridge, a router, and b behind it by a cable of its own.
    ip(&format!("link add {bridge} type bridge"));
    ip(&format!("link set {bridge} up"));
    ip(&format!(
        "link add {port} type veth peer name eth0 netns {p}-a"
    ));
    ip(&format!(
        "link add {other} type veth peer name left netns {p}-r"
    ));
    for port in [&port, &other] {
        ip(&format!("link set {port} master {bridge} up"));
    }
    ip(&format!(
        "-n {p}-r link add right type veth peer name eth0 netns {p}-b"
    ));
    for (namespace, interface, address) in [
        ("a", "eth0", "10.8.1.2/24"),
        ("r", "left", "10.8.1.1/24"),
        ("r", "right", "10.8.2.1/24"),
        ("b", "eth0", "10.8.2.2/24"),
    ] {
        ip(&format!(
            "-n {p}-{namespace} addr add {address} dev {interface}"
        ));
        ip(&format!("-n {p}-{namespace} link set {interface} up"));
    }
    ip(&format!("-n {p}-a route add default via 10.8.1.1"));
    ip(&format!("-n {p}-b route add default via 10.8.2.1"));
    ip(&format!(
        "netns exec {p}-r sysctl -qw net.ipv4.ip_forward=1"
    ));
    assert!(
        ping(&format!("{p}-a"), "10.8.2.2").is_some(),
        "the original works"
    );

    let copy = format!("{p}c-");
    let captured = host.ok(&format!(
        "wire capture --name copy --prefix {copy} -n {p}-a -n {p}-r -n {p}-b"
    ));
    let file = host.file("copy.toml", &captured);
    host.ok(&format!("wire apply {file}"));
    // Take the original away, so that only the copy can answer.
    ip(&format!("link delete {bridge}"));
    ip(&format!("link delete {port}"));
    ip(&format!("link delete {other}"));
    let from = format!("{copy}{p}-a");
    assert!(
        ping(&from, "10.8.2.2").is_some(),
        "the copy works:\n{captured}"
    );
    host.ok("wire delete copy");
    assert!(named(&copy).is_empty());
}
