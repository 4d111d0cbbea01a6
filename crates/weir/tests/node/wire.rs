//! Virtual wires from end to end: networks made from files, real traffic through them, and nothing
//! left of them.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{
    Host, LIMIT, Stream, assert_contains, inside, ip, kill, member, named, ping, until,
};

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
    let host = Host::new();
    let file = two_subnets(&host);
    let would = host.ok(&format!("wire diff {file}"));
    assert!(
        would.contains("+ stub ‘office’") && would.contains("+ guest ‘router’"),
        "{would}"
    );
    assert_eq!(host.ok(&format!("wire apply {file}")), would);
    let desk = format!("{}-desk", host.prefix);
    let time = ping(&desk, "10.0.2.2").expect("the bench answers the desk");
    assert!(time >= 2.0, "frames to the bench take 2 ms: {time}");
    // Through a router: one hop less to live.
    let far = inside(&desk, "ping -n -c 1 -W 2 10.0.2.2").unwrap();
    assert!(far.contains("ttl=63"), "{far}");

    // Again: nothing to do. What was removed by hand is made again.
    let netns = |name: &str| format!("/run/netns/{}-{name}", host.prefix);
    let stream = Stream::start(netns("desk"), netns("bench"), "10.0.2.2");
    assert_eq!(host.ok(&format!("wire apply {file}")), "");
    stream.loses_nothing();
    host.ok("vnic delete desk0");
    let again = host.ok(&format!("wire apply {file}"));
    assert_eq!(
        again,
        format!("+ vnic ‘desk0’: it was missing\n~ routes of namespace ‘{desk}’: set again\n")
    );
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

const PAIR: &str = concat!(
    "wire = 'pair'\n[stub.@s]\n",
    member!("a", "@s", "10.7.0.1/24"),
    member!("b", "@s", "10.7.0.2/24"),
);

#[test]
fn a_wire_that_cannot_be_made_leaves_everything_as_it_was() {
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
    // What stands on its stub and is another's is told before anything is taken away.
    let foreign = format!("{}f", host.prefix);
    host.ok(&format!("vnic create -l {stub} {foreign}"));
    let refusal = host.refusals("wire delete pair");
    assert!(
        refusal.contains(&format!("delete its VNICs first ({foreign})"))
            && refusal.ends_with("; nothing was changed"),
        "{refusal}"
    );
    assert!(ping(&a, "10.7.0.2").is_some());
    host.ok(&format!("vnic delete {foreign}"));

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
    assert_contains(&change, "addresses 10.7.0.2/24 → 10.7.0.4/24");
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
    host.shows(
        &format!("vnic show -p -o properties {b}"),
        "vlan=7,delay=1ms\n",
    );
}

/// The configured routes of a namespace.
pub fn routes(namespace: &str) -> String {
    inside(namespace, "ip route show proto static").unwrap()
}

#[test]
fn routes_and_addresses_are_those_of_the_wire_whatever_became_of_them() {
    let host = Host::new();
    let text = concat!(
        "wire = 'm'\n[stub.@s]\n",
        member!(
            "m",
            "@s",
            "10.8.0.3/24",
            "routes = ['default via 10.8.0.1', '10.7.0.0/16 via 10.8.0.1 metric 7', '10.7.0.0/16 via 10.8.0.2']",
            "properties = { vlan = 20 }"
        )
    );
    let file = host.file("m.toml", text);
    host.ok(&format!("wire apply {file}"));
    let m = format!("{}-m", host.prefix);
    let wanted = routes(&m);
    assert!(wanted.contains("default via 10.8.0.1 "), "{wanted}");
    assert!(wanted.contains("10.7.0.0/16 via 10.8.0.2 "), "{wanted}");
    assert!(wanted.contains("metric 7"), "{wanted}");

    // A change that recreates the interface is taken back, and the interface is made once more.
    let socket = "[vnic.@z]\nlink = '@s'\nvhost-user = '/nonexistent/weir/socket'\n";
    let wrong = text.replace("vlan = 20", "vlan = 30") + socket;
    let wrong = host.file("wrong.toml", &wrong);
    let refusal = host.refusals(&format!("wire apply {wrong}"));
    assert!(refusal.ends_with("nothing was changed"), "{refusal}");
    assert_eq!(routes(&m), wanted);

    // What is removed by hand.
    let diff = || host.ok(&format!("wire diff {file}"));
    let mended = |missing: &str| {
        assert_eq!(diff(), missing);
        assert_eq!(host.ok(&format!("wire apply {file}")), missing);
        assert_eq!(routes(&m), wanted);
        assert_eq!(diff(), "");
    };
    assert_eq!(diff(), "");
    let route = format!("~ routes of namespace ‘{m}’: a route was missing\n");
    ip(&format!("-n {m} route del 10.7.0.0/16 metric 7"));
    mended(&route);
    ip(&format!("-n {m} addr del 10.8.0.3/24 dev eth0"));
    let vnic = format!("{}m", host.prefix);
    mended(&format!("~ vnic ‘{vnic}’: an address was missing\n{route}"));
    // An interface that is down has no routes.
    ip(&format!("-n {m} link set eth0 down"));
    assert_eq!(diff(), "");
    ip(&format!("-n {m} link set eth0 up"));
    mended(&route);
}

/// With the time that it takes so far, and one of a node that takes its time is waited for.
#[test]
fn a_terminal_shows_that_a_wire_is_being_applied() {
    let host = Host::new();
    let file = host.file("one.toml", "wire = 'one'\n[stub.@lan]\n");
    let node = host.node.as_ref().unwrap().id();
    kill("-STOP", node);
    let weir = env!("CARGO_BIN_EXE_weir");
    let shown = host.folder.join("shown");
    let applying = Command::new("script")
        .args(["-qefc", &format!("{weir} wire apply {file}")])
        .arg(&shown)
        .env("WEIR_RUN", host.run())
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let mut applying = applying.unwrap();
    let seen = || String::from_utf8_lossy(&std::fs::read(&shown).unwrap_or_default()).into_owned();
    until("nothing is shown", || {
        seen().contains("wire ‘one’ is being applied, 1s")
    });
    kill("-CONT", node);
    assert!(applying.wait().unwrap().success());
    assert!(seen().contains("+ stub ‘"), "{}", seen());
}

#[test]
fn a_wires_stub_has_the_mtu_that_it_is_given() {
    let host = Host::new();
    let (a, stub) = (format!("{}-a", host.prefix), format!("{}s", host.prefix));
    host.ok(&format!("wire apply {}", host.file("pair.toml", PAIR)));
    assert!(inside(&a, "ping -c 1 -W 1 -M do -s 8000 10.7.0.2").is_none());
    let larger = PAIR.replace("[stub.@s]", "[stub.@s]\nmtu = 9000");
    let file = host.file("larger.toml", &larger);
    let p = &host.prefix;
    let line = format!(
        "- vnic ‘{p}b’: it is recreated\n- vnic ‘{p}a’: it is recreated\n- stub ‘{stub}’: it is recreated\n+ stub ‘{stub}’: mtu none → 9000\n+ vnic ‘{p}a’: it is recreated\n+ vnic ‘{p}b’: it is recreated\n"
    );
    assert_eq!(host.ok(&format!("wire diff {file}")), line);
    assert_eq!(host.ok(&format!("wire apply {file}")), line);
    assert!(ping(&a, "10.7.0.2").is_some());
    assert!(inside(&a, "ping -c 1 -W 1 -M do -s 8000 10.7.0.2").is_some());
    let copy = host.file("copy.toml", &host.ok("wire export pair"));
    assert_eq!(host.ok(&format!("wire diff {copy}")), "");
}

/// The pair with a third host; the flow table says which hosts reach each other.
const TABLE: &str = concat!(
    "wire = 'table'\n[stub.@s]\nlookup = 'flow-table'\n",
    member!("a", "@s", "10.7.0.1/24", "", "mac = '02:00:00:00:07:01'"),
    member!("b", "@s", "10.7.0.2/24", "", "mac = '02:00:00:00:07:02'"),
    member!("c", "@s", "10.7.0.3/24", "", "mac = '02:00:00:00:07:03'"),
    "[table.@s]
default = 'drop'
[table.@s.flows]
'icmp,nw_src=10.7.0.1,nw_dst=10.7.0.2' = '@b'
'icmp,nw_src=10.7.0.1,nw_dst=10.7.0.3' = '@c'
"
);

/// Whether one of the three hosts is answered by another. Both know each other's addresses by hand:
/// they cannot ask for them where all but flows is dropped.
fn answers(prefix: &str, from: u8, to: u8) -> bool {
    let namespace = |host: u8| format!("{prefix}-{}", char::from(b'a' + host - 1));
    for (here, there) in [(from, to), (to, from)] {
        let here = namespace(here);
        ip(&format!(
            "-n {here} neigh replace 10.7.0.{there} lladdr 02:00:00:00:07:0{there} dev eth0"
        ));
    }
    let ping = format!("ping -c 2 -i 0.05 -W 0.3 10.7.0.{to}");
    inside(&namespace(from), &ping).is_some()
}

#[test]
fn a_wires_flow_table_says_who_reaches_whom() {
    let mut host = Host::new();
    let p = host.prefix.clone();
    let file = host.file("table.toml", TABLE);
    let made = host.ok(&format!("wire apply {file}"));
    assert_contains(&made, &format!("+ default of flow table ‘{p}s’"));
    let answers = |from, to| answers(&p, from, to);
    assert!(!answers(2, 1) && !answers(3, 1), "there is no entry");
    assert!(answers(1, 2) && answers(1, 3));
    assert_eq!(host.ok(&format!("wire apply {file}")), "");
    let exported = host.ok("wire export table");
    let copy = host.file("copy.toml", &exported);
    assert_eq!(host.ok(&format!("wire diff {copy}")), "");

    // What was removed by hand is missing, and made again.
    let entry = "icmp,nw_src=10.7.0.1,nw_dst=10.7.0.2";
    host.ok(&format!("switch remove-flow {p}s {entry}"));
    assert!(!answers(1, 2) && answers(1, 3));
    let again = host.ok(&format!("wire apply {file}"));
    let missing = format!("+ flow table entry ‘{p}s {entry}’: it was missing\n");
    assert_eq!(again, missing);
    assert!(answers(1, 2));

    // A recreated VNIC gets its entries back.
    host.ok(&format!("vnic delete {p}b"));
    let again = host.ok(&format!("wire apply {file}"));
    assert!(
        again.contains(&format!("vnic ‘{p}b’")) && again.contains(entry),
        "{again}"
    );
    assert!(answers(1, 2));

    // Entries change in use; a change that cannot be made whole is taken back whole.
    let turned = |text: &str| {
        text.replace("nw_dst=10.7.0.3' = '@c'", "nw_dst=10.7.0.3' = '@b'")
            .replace("'drop'", "'normal'")
    };
    let other = host.file("other.toml", &turned(TABLE));
    let change = host.ok(&format!("wire diff {other}"));
    let lines = format!(
        "~ flow table entry ‘{p}s icmp,nw_src=10.7.0.1,nw_dst=10.7.0.3’: port {p}c → {p}b\n~ default of flow table ‘{p}s’: default drop → normal\n"
    );
    assert_eq!(change, lines);
    let broken = turned(TABLE) + "[guest.@g]\nconfig = 'Idle -> NoSuchElement;'\n";
    let broken = host.file(
        "broken.toml",
        &broken.replace(
            "interface = 'eth0'\naddresses = ['10.7.0.2/24']",
            "interface = 'eth1'\naddresses = ['10.7.0.2/24']",
        ),
    );
    let refusal = host.refusals(&format!("wire apply {broken}"));
    assert!(refusal.contains("nothing was changed"), "{refusal}");
    assert_eq!(host.ok(&format!("wire diff {file}")), "");
    assert_eq!(
        host.ok(&format!("wire apply {file}")),
        "",
        "nothing is missing"
    );
    assert!(answers(1, 2) && answers(1, 3) && !answers(2, 3));
    assert_eq!(host.ok(&format!("wire apply {other}")), lines);
    assert!(!answers(1, 3), "c's flow goes to b");
    assert!(answers(2, 3), "what has no entry goes by addresses");

    // With another node and another switch it is the same; an existing flow cannot be taken.
    host.end("-KILL");
    host.start();
    assert_eq!(host.ok(&format!("wire apply {other}")), "");
    assert!(answers(1, 2) && !answers(1, 3));
    let udp = "udp,nw_src=10.7.0.1,nw_dst=10.7.0.2,tp_src=1,tp_dst=2";
    host.ok(&format!("switch add-flow {p}s {udp},actions=output:{p}c"));
    let more = TABLE.replace(
        "'icmp,nw_src=10.7.0.1,nw_dst=10.7.0.2'",
        &format!("'{udp}'"),
    );
    let more = host.file("more.toml", &more);
    let refusal = host.refusals(&format!("wire apply {more}"));
    assert!(
        refusal.contains(&format!("leads to ‘{p}c’")) && refusal.contains("remove-flow"),
        "{refusal}"
    );

    // The table goes, and the switch learns again; then all of it goes.
    let (plain, _) = TABLE.split_once("[table").unwrap();
    let plain = host.file("plain.toml", &plain.replace("lookup = 'flow-table'\n", ""));
    host.ok(&format!("wire apply {plain}"));
    assert!(answers(2, 3));
    host.refuses(&format!("switch flows {p}s"), "lookup function is learning");
    host.ok(&format!("wire apply {file}"));
    assert!(answers(1, 3));
    host.ok("wire delete table");
    assert!(named(&host.prefix).is_empty());
    assert_eq!(host.ok("stub show -p"), "");
}

#[test]
fn a_wire_outlives_its_node_and_its_switch() {
    let mut host = Host::new();
    let a = format!("{}-a", host.prefix);
    let file = host.file("pair.toml", PAIR);
    host.ok(&format!("wire apply {file}"));
    let netns = |name: &str| format!("/run/netns/{}-{name}", host.prefix);
    let stream = Stream::start(netns("a"), netns("b"), "10.7.0.2");
    host.end("-KILL");
    host.start();
    stream.loses_nothing();
    assert_eq!(host.ok(&format!("wire diff {file}")), "");
    host.lose_switch();
    assert!(ping(&a, "10.7.0.2").is_some());
}

#[test]
fn wrong_files_are_refused_in_sentences() {
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
    assert_contains(
        &missing,
        "vnic ‘v’: there is no stub or link ‘nowhere’ in the wire",
    );
    let rate = refusal("wire = 'w'\n[stub.s]\nspeed = '900T'\n");
    assert!(rate.contains("a rate is a number"), "{rate}");
    let vlan = refusal(
        "wire = 'w'\n[stub.s]\n[vnic.v]\nlink = 's'\nhost = true\nproperties = { vlan = 4095 }\n",
    );
    assert!(vlan.contains("1 to 4094"), "{vlan}");
    let nic = refusal("wire = 'w'\n[link.up]\ndevice = 'weir-none9'\n");
    assert!(nic.contains("no interface ‘weir-none9’"), "{nic}");
    let lanes = host.file(
        "lanes.toml",
        "wire = 'w'\n[link.up]\ndevice = 'lo'\nport = { lanes = 9 }\n",
    );
    for change in ["diff", "apply"] {
        let lanes = host.refusals(&format!("wire {change} {lanes}"));
        assert!(lanes.contains("the switch has 1 lane"), "{lanes}");
    }
    let long = refusal(&format!("wire = 'w'\n[stub.{}]\n", "s".repeat(65)));
    assert!(long.contains("a name is 1 to 64"), "{long}");
    assert!(host.refusals("wire export none").contains("no wire ‘none’"));
    assert!(
        host.refusals("wire apply /nowhere/x.toml")
            .contains("/nowhere/x.toml")
    );
    assert_eq!(host.ok("wire show -p"), "");
}

#[test]
fn a_linux_network_is_captured_and_made_again() {
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

#[test]
fn a_captured_bridge_keeps_its_nics_and_its_delays_each_way() {
    let host = Host::new();
    let p = &host.prefix;
    // Two hosts by NICs (whose far ends are in namespaces that are not looked at), and one by a
    // veth pair that delays each way.
    ip(&format!("link add {p}br type bridge"));
    ip(&format!("link set {p}br up"));
    for (name, address) in [
        ("x", "10.8.3.1/24"),
        ("y", "10.8.3.2/24"),
        ("a", "10.8.3.3/24"),
    ] {
        ip(&format!("netns add {p}-{name}"));
        ip(&format!(
            "link add {p}{name} type veth peer name eth0 netns {p}-{name}"
        ));
        ip(&format!("link set {p}{name} master {p}br up"));
        ip(&format!("-n {p}-{name} addr add {address} dev eth0"));
        ip(&format!("-n {p}-{name} link set eth0 up"));
    }
    let shaped = |place: &str, interface: &str, rate: u32| {
        let words = format!(
            "{place} qdisc add dev {interface} root tbf rate {rate}mbit burst 32k latency 50ms"
        );
        let status = Command::new("tc").args(words.split_whitespace()).status();
        assert!(status.unwrap().success());
    };
    shaped("", &format!("{p}a"), 50);
    shaped(&format!("-n {p}-a"), "eth0", 20);
    let copy = format!("{p}c-");
    let captured = host.ok(&format!(
        "wire capture --name copy --prefix {copy} -n {p}-a"
    ));
    // What is a veth pair's end here stands for the NIC that it is elsewhere.
    let nics = format!(
        "
[link.{p}br]
device = '{p}x'
mode = 'packet'
[link.second]
device = '{p}y'
mode = 'packet'
[patch.second]
between = ['{p}br', 'second']
"
    );
    let captured = captured.replace(&format!("[stub.{p}br]\n"), &nics);
    assert!(captured.contains("[link.second]"), "{captured}");
    // Each way at its own rate; and with a delay of its own, as netem would have it.
    let slow = |text: &str, rate: &str, delay: &str| {
        let rate = format!("maxbw = \"{rate}\"");
        assert_eq!(text.matches(&rate).count(), 1, "{rate}: {text}");
        text.replace(&rate, &format!("{rate}\ndelay = \"{delay}\""))
    };
    let captured = slow(&slow(&captured, "50M", "20ms"), "20M", "30ms");
    let file = host.file("copy.toml", &captured);
    for name in ["x", "y"] {
        ip(&format!("link set {p}{name} nomaster"));
    }
    ip(&format!("link delete {p}a"));
    host.ok(&format!("wire apply {file}"));
    let from = format!("{copy}{p}-a");
    for to in ["10.8.3.1", "10.8.3.2"] {
        let time = ping(&from, to).unwrap_or_else(|| panic!("no answer from {to}:\n{captured}"));
        assert!(time >= 50.0, "20 ms there and 30 ms back: {time}");
    }
    assert!(ping(&format!("{p}-x"), "10.8.3.2").is_some_and(|time| time < 50.0));
    // A patch's ends count what goes in and comes out, and are no VNICs.
    let passed = |stats: &str, end: &str| {
        let stats = host.json(stats);
        let mut stats = stats.as_array().unwrap().iter();
        stats.any(|one| one["name"] == format!("copy/second:{end}") && one["rx-frames"] != 0)
    };
    assert!(passed("wire stat copy", "a") && passed("wire stat", "b"));
    assert!(!passed("vnic stat", "a"));
    host.ok("wire delete copy");
    for name in ["x", "y"] {
        ip(&format!("link delete {p}{name}"));
    }
    ip(&format!("link delete {p}br"));
}

#[test]
fn what_a_capture_leaves_out_is_told() {
    let host = Host::new();
    let n = format!("{}-n", host.prefix);
    let m = format!("{}-m", host.prefix);
    for name in [&n, &m] {
        ip(&format!("netns add {name}"));
    }
    ip(&format!(
        "-n {n} link add eth0 type veth peer name eth0 netns {m}"
    ));
    for (name, address) in [(&n, "10.8.4.1/24"), (&m, "10.8.4.2/24")] {
        ip(&format!("-n {name} addr add {address} dev eth0"));
        ip(&format!("-n {name} link set eth0 mtu 4000 up"));
    }
    ip(&format!(
        "-n {n} rule add from 10.1.0.0/16 lookup 7 priority 100"
    ));
    ip(&format!(
        "-n {n} route add 10.2.0.0/16 via 10.8.4.2 table 7"
    ));
    ip(&format!("-n {n} route add blackhole 10.3.0.0/16"));
    ip(&format!("-n {n} route add prohibit 10.4.0.0/16"));
    ip(&format!(
        "-n {n} route add 10.5.0.0/16 nexthop via 10.8.4.2 nexthop via 10.8.4.3"
    ));
    ip(&format!("-n {n} route add 10.6.0.0/16 via 10.8.4.2"));
    ip(&format!(
        "-n {n} route add 10.6.1.0/24 via 10.8.4.2 metric 70"
    ));
    ip(&format!(
        "-n {n} route add 10.6.2.0/24 via 10.8.4.2 src 10.8.4.1 mtu 1400"
    ));
    ip(&format!(
        "-n {m} addr add 172.16.0.1 peer 172.16.0.2 dev eth0"
    ));
    ip(&format!("-n {m} route add 10.9.0.0/16 via 172.16.0.2"));
    ip(&format!("-n {n} addr add 10.200.0.1/32 dev lo"));
    ip(&format!(
        "-n {n} neigh add 10.8.4.9 lladdr 02:00:00:00:00:09 dev eth0 nud permanent"
    ));
    for rules in [
        "table ip filter",
        "chain ip filter in { type filter hook input priority 0; }",
        "rule ip filter in tcp dport 9 drop",
    ] {
        let rules = format!("netns exec {n} nft add {rules}");
        ip(&rules);
    }
    // A VNIC would be up.
    ip(&format!(
        "-n {n} link add off type veth peer name off netns {m}"
    ));
    ip(&format!("-n {m} link set off up"));
    // A switch in a namespace of its own, which is not asked for.
    let s = format!("{}-s", host.prefix);
    ip(&format!("netns add {s}"));
    ip(&format!("-n {s} link add br0 type bridge"));
    ip(&format!(
        "-n {s} link add port type veth peer name eth1 netns {n}"
    ));
    ip(&format!("-n {s} link set port master br0 up"));
    ip(&format!("-n {n} link set eth1 up"));
    ip(&format!("-n {n} tuntap add tun7 mode tun"));
    ip(&format!("-n {n} addr add 10.8.5.1/24 dev tun7"));
    let words = format!("-n {m} qdisc add dev eth0 root tbf rate 5mbit burst 32k latency 50ms");
    let status = Command::new("tc").args(words.split_whitespace()).status();
    assert!(status.unwrap().success());

    let output = host.output(&format!("wire capture --name copy -n {n} -n {m}"));
    let notes = String::from_utf8(output.stderr).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{notes}");
    for left_out in [
        "the rule 100, ‘from 10.1.0.0/16 lookup 7’",
        "the route to 10.2.0.0/16 of table 7",
        "the blackhole route to 10.3.0.0/16",
        "the prohibit route to 10.4.0.0/16",
        "the route to 10.5.0.0/16 by 2 gateways at once",
        "the src 10.8.4.1 of the route to 10.6.2.0/24",
        "the mtu 1400 of the route to 10.6.2.0/24",
        "the static neighbour 10.8.4.9 (02:00:00:00:00:09) at ‘eth0’",
        "the nftables table ‘ip filter’ (1 rule)",
    ] {
        let note = format!("note: {left_out} of {n} has no counterpart and is omitted");
        assert!(notes.contains(&note), "{note}: {notes}");
    }
    assert_contains(&notes, &format!("‘tun7’ of {n}: a TUN or TAP"));
    let far = format!(
        "‘eth1’ of {n}: its other end is in namespace ‘{s}’, which was not read: the interface is omitted; add `-n {s}` to read it"
    );
    assert!(notes.contains(&far), "{notes}");
    let address = format!("‘lo’ of {n}: its address 10.200.0.1/32 has no counterpart");
    assert!(notes.contains(&address), "{notes}");
    let down = format!("‘off’ of {n}: it is down, and a VNIC would be up: it is omitted");
    assert!(notes.contains(&down) && !text.contains("off"), "{notes}");
    let limited = format!("‘eth0’ of {m}: only the traffic that it sends is limited, to 5M");
    assert!(notes.contains(&limited), "{notes}");
    for name in [&n, &m] {
        let of_it = |line: &&str| line.contains(" of ") && line.contains(name.as_str());
        let most = if *name == n { 13 } else { 1 };
        assert_eq!(notes.lines().filter(of_it).count(), most, "{notes}");
    }
    assert!(
        text.contains("10.6.0.0/16 via 10.8.4.2") && !text.contains("10.2.0.0"),
        "{text}"
    );
    assert_contains(&text, "10.6.1.0/24 via 10.8.4.2 metric 70");
    // A peer is a route to it.
    assert!(
        text.contains("172.16.0.1/32") && text.contains("172.16.0.2/32 dev "),
        "{text}"
    );
    // A gateway may be reached by it, in any order in the file.
    let copy = format!("{}-c", host.prefix);
    let text = host.ok(&format!("wire capture --prefix {copy} -n {n} -n {m}"));
    let file = host.file("copy.toml", &text);
    host.ok(&format!("wire apply {file}"));
    let set = routes(&format!("{copy}{m}"));
    assert!(set.contains("10.9.0.0/16 via 172.16.0.2 "), "{set}");
    let (straight, by_gateway) = ("172.16.0.2/32 dev", "10.9.0.0/16 via 172.16.0.2\"");
    let line = text.lines().find(|line| line.contains(straight)).unwrap();
    let moved = line.replacen("[\"", &format!("[\"{by_gateway}, \""), 1);
    let moved = moved.replace(&format!(", \"{by_gateway}]"), "]");
    host.ok("wire delete captured");
    let file = host.file("moved.toml", &text.replace(line, &moved));
    host.ok(&format!("wire apply {file}"));
    assert_eq!(routes(&format!("{copy}{m}")), set);

    // A hierarchy of classes is a limit if it is of one that all take.
    let tc = |words: &str| {
        let words = format!("-n {m} {words}");
        let status = Command::new("tc").args(words.split_whitespace()).status();
        assert!(status.unwrap().success());
    };
    tc("qdisc replace dev eth0 root handle 7: htb default 10");
    tc("class add dev eth0 parent 7: classid 7:10 htb rate 7mbit");
    let notes = || {
        let output = host.output(&format!("wire capture --name copy -n {n} -n {m}"));
        String::from_utf8(output.stderr).unwrap()
    };
    let limited = format!("‘eth0’ of {m}: only the traffic that it sends is limited, to 7M");
    assert!(notes().contains(&limited), "{}", notes());
    tc("class add dev eth0 parent 7: classid 7:20 htb rate 1mbit");
    let classes = format!(
        "‘eth0’ of {m}: its queueing discipline ‘htb’ with several classes has no counterpart and is omitted"
    );
    assert!(notes().contains(&classes), "{}", notes());

    for names in ["--name a/b", "--name copy --prefix a/b"] {
        host.refuses(&format!("wire capture {names}"), "‘a/b’: a name is 1 to");
    }
}

/// A program in a namespace, which ends with this.
struct Program(std::process::Child);

impl Program {
    fn start(namespace: &str, words: &[&str], folder: &Path) -> Program {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).args(words);
        command
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Program(command.spawn().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_tenants_network_has_nat_a_firewall_a_balancer_and_vlans() {
    let host = Host::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folder = host.folder.join("wires");
    std::fs::create_dir_all(&folder).unwrap();
    let name = "transparent-firewall.click";
    std::fs::copy(examples.join(name), host.folder.join(name)).unwrap();
    let text = std::fs::read_to_string(examples.join("wires/tenant.toml")).unwrap();
    let text = text
        .replace("[namespace.", "[namespace.@-")
        .replace("namespace = \"", "namespace = \"@-");
    let file = host.file("wires/tenant.toml", &text);
    host.ok(&format!("wire apply {file}"));
    let name = |name: &str| format!("{}-{name}", host.prefix);
    let (desk, visitor, provider) = (name("desk"), name("visitor"), name("provider"));

    // Visitors reach each of the servers in turn, the one beyond the trunk among them.
    let _servers = ["web1", "web2", "web3"].map(|web| {
        let own = folder.join(web);
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("name"), web).unwrap();
        Program::start(&name(web), &["python3", "-m", "http.server", "80"], &own)
    });
    let mut reached = std::collections::BTreeSet::new();
    let started = std::time::Instant::now();
    while reached.len() < 3 {
        assert!(started.elapsed() < LIMIT, "only {reached:?} answered");
        let get = "curl -s -m 2 http://203.0.113.10/name";
        reached.extend(inside(&visitor, get));
    }
    assert_eq!(reached, ["web1", "web2", "web3"].map(String::from).into());

    // The desk goes out by NAT, and the line is as long as it is.
    let time = ping(&desk, "203.0.113.50").expect("the visitor answers the desk");
    assert!(time >= 4.0, "the line takes 5 ms: {time}");
    let own = folder.join("visitor");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("name"), "visitor").unwrap();
    let listing = [
        "python3",
        "-u",
        "-c",
        "
import http.server
class Who(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.client_address[0].encode())
http.server.HTTPServer(('', 80), Who).serve_forever()
",
    ];
    let _world = Program::start(&visitor, &listing, &own);
    let started = std::time::Instant::now();
    let seen = loop {
        if let Some(seen) = inside(&desk, "curl -s -m 3 http://203.0.113.50/") {
            break seen;
        }
        assert!(started.elapsed() < LIMIT, "the desk reaches nothing");
    };
    assert_eq!(seen, "198.51.100.2", "the desk shows the gateway's address");
    assert!(host.ok("read gateway connections.count").trim() != "0");

    // Clients get in by the balancer only, and VLANs do not reach each other.
    let refused = inside(&provider, "curl -s -m 1 http://198.51.100.2:8080/");
    assert_eq!(refused, None, "the firewall lets no client in");
    assert!(host.ok("read firewall inbound_dropped.count").trim() != "0");
    let across = inside(&desk, "ping -c 2 -i 0.1 -W 0.5 10.0.0.11");
    assert_eq!(across, None, "the desk is not in the servers' VLAN");
    // Nor does the desk get through with another's address.
    inside(&desk, "ip addr add 192.168.1.66/24 dev eth0").unwrap();
    let lied = inside(&desk, "ping -c 2 -i 0.1 -W 0.5 -I 192.168.1.66 192.168.1.1");
    assert_eq!(lied, None);
    let stats: serde_json::Value = host.json("vnic stat desk0");
    assert!(
        stats[0]["drops"]["spoofed-ip"]
            .as_u64()
            .is_some_and(|n| n > 0),
        "{stats}"
    );

    assert_eq!(host.ok(&format!("wire apply {file}")), "");
    let exported = host.file("copy.toml", &host.ok("wire export tenant"));
    assert_eq!(host.ok(&format!("wire diff {exported}")), "");
    host.ok("wire delete tenant");
    assert!(named(&host.prefix).is_empty());
    assert_eq!(host.ok("vnic show -p"), "");
}
