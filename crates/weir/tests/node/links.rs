//! Links: the number of lanes that read them, and links to other hosts.

use std::time::Duration;

use serde_json::Value;
use weir::lab::{Namespace, Runner, ip};

use crate::common::{Host, LIMIT, counted, kill, path, pinging, pings, until};

/// UDP packets of 400 flows, to `to`.
fn flows(from: &Namespace, to: &str) {
    let program = format!(
        "import socket
for port in range(400):
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.bind(('', 10000 + port))
    link.sendto(b'flow', ('{to}', 9))
"
    );
    let mut command = from.command("python3", "-c");
    command.arg(program);
    Runner::default().run(command, LIMIT).unwrap();
}

/// A counter of a link on each lane.
fn by_lane(host: &Host, link: &str, counter: &str) -> Vec<u64> {
    let lanes = host.json(&format!("link stat {link} --lanes"));
    let lanes = lanes.as_array().unwrap().iter();
    lanes.map(|lane| lane[counter].as_u64().unwrap()).collect()
}

/// Frames that each lane moved: picked up, or had from another.
fn worked(host: &Host) -> Vec<u64> {
    let lanes = host.json("link stat --lanes");
    let number = |lane: &Value, name: &str| lane[name].as_u64().unwrap();
    let lanes = lanes.as_array().unwrap().iter();
    lanes
        .map(|lane| number(lane, "frames") + number(lane, "handoffs"))
        .collect()
}

#[test]
fn an_interface_is_attached_by_one_node_of_a_host() {
    let mut host = Host::new();
    let other = Host::new();
    let runner = Runner::default();
    let far = Namespace::new(&runner).unwrap();
    let near = format!("{}v", host.prefix);
    far.connect(&runner, &near, "10.98.0.1/24", None).unwrap();
    let attach = format!("link attach {near} --mode packet");
    host.ok(&attach);
    other.refuses(
        &attach,
        "is attached by another node or `weir run` of this host",
    );
    let config = other.config(
        "sink.click",
        "FromNetfront(a) -> Discard; Idle -> ToNetfront(a);",
    );
    other.refuses(
        &format!("run {config} --link a=packet:{near}"),
        "is attached by another node or `weir run` of this host",
    );
    assert_eq!(other.ok("link show -p"), "");
    // The next node has it as the last one had.
    host.end("-KILL");
    host.start();
    assert_eq!(host.ok("link show -p -o state"), "up\n");
    other.refuses(
        &attach,
        "is attached by another node or `weir run` of this host",
    );
    host.ok(&format!("link detach {near}"));
    other.ok(&attach);
    host.refuses(
        &attach,
        "is attached by another node or `weir run` of this host",
    );
}

#[test]
fn a_link_is_read_on_as_many_lanes_as_asked_for() {
    let host = Host::with(&["--lanes", "2"]);
    let runner = Runner::default();
    let far = Namespace::new(&runner).unwrap();
    let near = format!("{}l", host.prefix);
    far.connect(&runner, &near, "10.86.0.1/24", None).unwrap();
    let many = host.refusal(&format!("link attach {near} --lanes 3"));
    assert!(
        many.contains("lanes=3 is invalid: the switch has 2 lanes")
            && many.contains("`weir node --lanes 3`"),
        "{many}"
    );
    assert_eq!(host.ok("link show -p"), "");

    // By packet sockets, the kernel spreads flows over a queue for each lane.
    host.ok(&format!("link attach {near} --mode packet --lanes 2"));
    host.refuses(
        &format!("link attach {near}"),
        &format!("‘{near}’ is already attached"),
    );
    let inner = host.namespace(&near, "in0", "10.86.0.2/24", None);
    pings(&inner, "10.86.0.1");
    let before = by_lane(&host, &near, "rx-frames");
    flows(&far, "10.86.0.2");
    until("the flows are not spread", || {
        let after = by_lane(&host, &near, "rx-frames");
        after
            .iter()
            .zip(&before)
            .all(|(after, before)| after - before > 50)
    });
    let whole = host.json(&format!("link stat {near}"))[0]["rx-frames"].as_u64();
    let parts: u64 = by_lane(&host, &near, "rx-frames").iter().sum();
    assert!(parts >= whole.unwrap());

    // It is so in the switch that takes the place of one that is killed.
    host.lose_switch();
    pings(&inner, "10.86.0.1");
    flows(&far, "10.86.0.2");
    until("the flows are not spread again", || {
        by_lane(&host, &near, "rx-frames")
            .iter()
            .all(|&frames| frames > 50)
    });

    // On one lane, while it is in use; the counters go on.
    host.ok(&format!("link set-prop -p lanes=1 {near}"));
    let before = by_lane(&host, &near, "rx-frames");
    flows(&far, "10.86.0.2");
    pings(&inner, "10.86.0.1");
    let after = by_lane(&host, &near, "rx-frames");
    let grew = after.iter().zip(&before).filter(|(a, b)| a > b).count();
    assert_eq!(grew, 1, "{before:?} {after:?}");
    let shown = host.ok(&format!("link stat {near} --lanes -p -o lane,drops"));
    assert_eq!(shown, "0:0\n1:0\n");

    // The flows of a device with one queue are spread over lanes.
    let tap = format!("{}t", host.prefix);
    host.ok(&format!("link attach {tap} --mode tap --lanes 2"));
    // The device is the host's, so its network is this process's own (RFC 2544 sets them aside).
    let pid = std::process::id();
    let network = format!("198.{}.{}", 18 + (pid >> 8) % 2, pid % 256);
    let [ours, theirs] = [1, 2].map(|host| format!("{network}.{host}"));
    let there = host.namespace(&tap, "in1", &format!("{theirs}/24"), None);
    runner
        .run(ip(&format!("addr add {ours}/24 dev {tap}")), LIMIT)
        .unwrap();
    pings(&there, &ours);
    let before = worked(&host);
    flows(&there, &ours);
    let mut send = std::process::Command::new("python3");
    send.args([
        "-c",
        &format!(
            "import socket
for port in range(400):
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.sendto(b'flow', ('{theirs}', 9))
"
        ),
    ]);
    runner.run(send, LIMIT).unwrap();
    until("the TAP's flows are not shared out", || {
        let after = worked(&host);
        after
            .iter()
            .zip(&before)
            .all(|(after, before)| after - before > 50)
    });
}

#[test]
fn a_node_that_is_asked_for_more_lanes_has_another_switch_take_its_place() {
    let mut host = Host::new();
    let (one, _two) = host.lan("10.88.0");
    pings(&one, "10.88.0.2");
    let first = host.switch_pid();
    host.refuses("vnic set-prop -p lanes=2 a0", "the switch has 1 lane;");
    host.options = vec!["--lanes".into(), "2".into()];
    host.end("-TERM");
    host.start();
    let second = host.switch_pid();
    assert_ne!(first, second);
    assert_eq!(host.ok("link stat --lanes -p -o lane"), "0\n1\n");
    pings(&one, "10.88.0.2");
    // Not asked for anything, the node leaves it as it is.
    host.options.clear();
    host.end("-KILL");
    host.start();
    assert_eq!(host.switch_pid(), second);
    host.ok("vnic set-prop -p lanes=2 a0");
    kill("-KILL", second);
    host.has_other_switch(second);
    assert_eq!(host.ok("link stat --lanes -p -o lane"), "0\n1\n");
    pings(&one, "10.88.0.2");
    host.end("-TERM");
    host.refuses("node --lanes 99", "1 to 16 lanes, not 99");
    host.start();
}

/// Another host, with the kernel's own VXLAN device.
struct Other {
    namespace: Namespace,
    ours: String,
    theirs: String,
}

impl Other {
    fn new(host: &Host) -> Other {
        let runner = Runner::default();
        let namespace = Namespace::new(&runner).unwrap();
        let near = format!("{}u", host.prefix);
        let network = std::process::id() % 200 + host.number % 50;
        let [ours, theirs] = [1, 2].map(|end| format!("10.99.{network}.{end}"));
        namespace
            .connect(&runner, &near, &format!("{theirs}/24"), None)
            .unwrap();
        let run = |command| runner.run(command, LIMIT).unwrap();
        run(ip(&format!("link set {near} mtu 1600")));
        run(ip(&format!("addr add {ours}/24 dev {near}")));
        for arguments in [
            "link set eth0 mtu 1600".to_string(),
            format!("link add vx0 type vxlan id 42 remote {ours} dstport 4790 dev eth0"),
            "link set vx0 mtu 1500 up".to_string(),
            "addr add 10.89.0.1/24 dev vx0".to_string(),
        ] {
            run(namespace.command("ip", &arguments));
        }
        Other {
            namespace,
            ours,
            theirs,
        }
    }
}

#[test]
fn a_link_whose_interface_is_set_down_is_down_until_it_is_up_again() {
    let host = Host::new();
    let runner = Runner::default();
    let run = |command| runner.run(command, LIMIT).unwrap();
    for mode in ["packet", "xdp"] {
        let far = Namespace::new(&runner).unwrap();
        let near = format!("{}{}", host.prefix, &mode[..1]);
        far.connect(&runner, &near, "10.85.0.1/24", None).unwrap();
        host.ok(&format!("link attach {near} --mode {mode}"));
        let inner = host.namespace(&near, "in0", "10.85.0.2/24", None);
        pings(&inner, "10.85.0.1");
        let frames = || by_lane(&host, &near, "rx-frames").iter().sum::<u64>();
        run(ip(&format!("link set {near} down")));
        let view = host.json(&format!("link show {near}"));
        assert_eq!(
            (
                view[0]["status"]["state"].as_str(),
                view[0]["status"]["reason"].as_str()
            ),
            (
                Some("down"),
                Some(format!("interface ‘{near}’ is down: `ip link set {near} up`").as_str())
            ),
            "{mode}"
        );
        let before = frames();
        run(ip(&format!("link set {near} up")));
        assert_eq!(host.ok(&format!("link show -p -o state {near}")), "up\n");
        until("nothing passes", || {
            let command = inner.command("ping", "-c 1 -W 1 10.85.0.1");
            runner.run(command, LIMIT).is_ok()
        });
        assert!(before > 0 && frames() > before, "{mode}: its port stayed");
        let said = || host.ok(&format!("link show -p -o state,mtu,reason {near}"));
        run(ip(&format!("link set {near} mtu 1400")));
        assert!(
            said()
                .starts_with("up:1500:its MTU was 1500 bytes when it was attached and is now 1400")
        );
        run(ip(&format!("link set {near} mtu 1500")));
        assert_eq!(said(), "up:1500:\n", "{mode}");
        host.ok("vnic delete in0");
        host.ok(&format!("link detach {near}"));
    }
}

#[test]
fn a_link_leads_to_other_hosts_by_vxlan() {
    let mut host = Host::new();
    let other = Other::new(&host);
    let (ours, theirs) = (&other.ours, &other.theirs);
    for (arguments, said) in [
        ("--mode vxlan", "--vni N --remote ADDRESS"),
        (
            "--mode packet --vni 1 --remote 192.0.2.1",
            "for --mode vxlan only",
        ),
        ("--mode vxlan --vni 16777216 --remote 192.0.2.1", "16777215"),
        (
            "--mode vxlan --vni 1 --remote 224.0.0.1",
            "cannot be a remote",
        ),
        (
            "--mode vxlan --vni 1 --remote 192.0.2.1 --local 192.0.2.9",
            "not an address of this host",
        ),
    ] {
        let sentence = host.refusal(&format!("link attach over {arguments}"));
        assert!(sentence.contains(said), "{arguments}: {sentence}");
    }
    assert_eq!(host.ok("link show -p"), "");
    host.ok(&format!(
        "link attach over --mode vxlan --vni 42 --remote {theirs} --local {ours} --port 4790"
    ));
    assert_eq!(
        host.ok("link show -p -o link,mode,mtu,state,tunnel"),
        format!("over:vxlan:1500:up:vni 42 to {theirs} from {ours} port 4790\n")
    );
    let inner = host.namespace("over", "in0", "10.89.0.2/24", None);
    pings(&inner, "10.89.0.1");
    // Remotes and what is known of them change while it is attached; nothing else does.
    let client = host.client();
    let patch = |tunnel: serde_json::Value| {
        client.patch::<node::model::Link>("over", &serde_json::json!({ "vxlan": tunnel }))
    };
    patch(serde_json::json!({ "remotes": [] })).unwrap();
    let unanswered = inner
        .command("ping", "-c 2 -i 0.05 -W 0.2 10.89.0.1")
        .output();
    assert!(!unanswered.unwrap().status.success());
    let refused = |tunnel| patch(tunnel).unwrap_err().error;
    assert!(refused(serde_json::json!({ "vni": 43 })).contains("`remotes` and `neighbors`"));
    assert!(
        refused(serde_json::json!({ "remotes": ["224.0.0.1"] })).contains("cannot be a remote")
    );
    let neighbor = serde_json::json!({ "mac": "02:00:00:00:00:01", "remote": "192.0.2.7" });
    let lost = refused(serde_json::json!({ "neighbors": [neighbor] }));
    assert!(
        lost.contains("192.0.2.7, which is no remote of the link"),
        "{lost}"
    );
    let neighbor = serde_json::json!({ "mac": "02:00:00:00:00:01", "remote": theirs });
    patch(serde_json::json!({ "remotes": [theirs], "neighbors": [neighbor] })).unwrap();
    pings(&inner, "10.89.0.1");
    // Whole frames pass; a frame that does not fit disturbs no other.
    let whole = inner.command("ping", "-c 2 -i 0.05 -W 2 -M do -s 1472 10.89.0.1");
    Runner::default().run(whole, LIMIT).unwrap();

    // A VLAN's tag takes room from the packets.
    host.ok(&format!(
        "vnic create -l over -v 5 --netns {} in5",
        path(&inner)
    ));
    let shown = inner.command("ip", "-o link show in5");
    let shown = Runner::default().run(shown, LIMIT).unwrap();
    assert!(shown.contains("mtu 1496 "), "{shown}");
    host.refuses("vnic set-prop -p mtu=1500 in5", "less the VLAN tag's");
    host.ok("vnic delete in5");

    // A node that is killed, a switch that is killed, both.
    host.end("-KILL");
    host.start();
    pings(&inner, "10.89.0.1");
    let killed = host.switch_pid();
    let ping = pinging(&inner, "10.89.0.1", 4);
    std::thread::sleep(Duration::from_millis(500));
    kill("-KILL", killed);
    let (sent, came) = counted(ping);
    assert!(sent - came <= 20, "{came} of {sent} pings were answered");
    assert_eq!(host.ok("link show -p -o state"), "up\n");
    host.ok("vnic delete in0");
    host.ok("link detach over");
    let open = std::process::Command::new("ss").args(["-Hlun"]).output();
    let open = String::from_utf8(open.unwrap().stdout).unwrap();
    assert!(!open.contains(&format!("{ours}:4790")), "{open}");
}

#[test]
fn a_wire_reaches_another_host_by_vxlan() {
    let host = Host::with(&["--lanes", "2"]);
    let other = Other::new(&host);
    let text = format!(
        "wire = 'over'
[link.@o]
vxlan = {{ vni = 42, remotes = ['{}'], local = '{}', port = 4790 }}
port = {{ maxbw = '1G' }}
[namespace.@-in]
[vnic.@v]
link = '@o'
namespace = '@-in'
interface = 'eth0'
addresses = ['10.89.0.2/24']
",
        other.theirs, other.ours
    );
    let file = host.file("over.toml", &text);
    host.ok(&format!("wire apply {file}"));
    pings(&other.namespace, "10.89.0.2");
    assert_eq!(host.ok("link show -p -o properties"), "maxbw=1G\n");
    // What its port may do changes in use.
    let faster = host.file("faster.toml", &text.replace("maxbw = '1G'", "lanes = 2"));
    let change = host.ok(&format!("wire apply {faster}"));
    assert!(change.contains("port.maxbw 1G → none"), "{change}");
    assert_eq!(host.ok("link show -p -o properties"), "lanes=2\n");
    pings(&other.namespace, "10.89.0.2");
    let exported = host.file("again.toml", &host.ok("wire export over"));
    assert_eq!(host.ok(&format!("wire diff {exported}")), "");
    let svg = host.ok("wire show over --graph svg");
    assert!(svg.contains("vxlan vni 42"), "{svg}");
    let elsewhere = host.file("else.toml", &text.replace("vni = 42", "vni = 43"));
    let refusal = host.refusals(&format!("wire apply {elsewhere}"));
    assert!(refusal.contains("is attached"), "{refusal}");
    host.ok("wire delete over");
    assert_eq!(host.ok("link show -p"), "");
    let neither = host.file("wrong.toml", "wire = 'w'\n[link.up]\nmode = 'packet'\n");
    let refusal = host.refusals(&format!("wire apply {neither}"));
    assert!(refusal.contains("either ‘device’"), "{refusal}");
}

/// Whether pings from a namespace are answered.
fn answers(from: &Namespace, to: &str) -> bool {
    let ping = from
        .command("ping", &format!("-c 2 -i 0.05 -W 0.3 {to}"))
        .output();
    ping.unwrap().status.success()
}

#[test]
fn flows_go_where_a_flow_tables_entries_say() {
    let mut host = Host::new();
    let (a, _b) = host.lan("10.90.0");
    let ping = "icmp,nw_src=10.90.0.1,nw_dst=10.90.0.2";
    let add = format!("switch add-flow lan {ping},actions=output:b0");
    host.refuses(&add, "its lookup function is learning");
    host.ok("switch set lan --lookup flow-table");
    assert!(answers(&a, "10.90.0.2"), "by addresses");
    host.ok("switch set lan --default drop");
    // What was learned stays.
    assert!(answers(&a, "10.90.0.2"));
    host.ok("switch flush lan");
    assert!(!answers(&a, "10.90.0.2"), "there is no entry");
    for (arguments, said) in [
        (format!("add-flow lan {ping}"), "actions=output:VNIC"),
        (
            format!("add-flow lan {ping},actions=output:c0"),
            "‘c0’ is not a VNIC on ‘lan’",
        ),
        (
            format!("add-flow lan {ping},actions=output:lan"),
            "‘lan’ is not a VNIC on ‘lan’",
        ),
        (
            "add-flow lan icmp,nw_src=x,actions=output:b0".into(),
            "‘x’ is not valid for nw_src",
        ),
        (
            format!("add-flow nolan {ping},actions=output:b0"),
            "no link ‘nolan’",
        ),
        (format!("remove-flow lan {ping}"), "has no entry for icmp"),
        ("set lan --default output:c0".into(), "‘c0’ is not a VNIC"),
        ("set lan --default magic".into(), "default=magic"),
    ] {
        let sentence = host.refusal(&format!("switch {arguments}"));
        assert!(sentence.contains(said), "{arguments}: {sentence}");
    }
    host.ok(&add);
    assert!(
        answers(&a, "10.90.0.2"),
        "the entry, and what is learned from it"
    );
    let made = |host: &Host| -> Vec<Value> {
        let flows = host.json("switch flows lan");
        let made = flows.as_array().unwrap().iter();
        made.filter(|flow| flow["status"]["age"].is_null())
            .cloned()
            .collect()
    };
    let entry = serde_json::json!(
        {"flow": ping, "port": "b0", "status": {"age": null, "state": "up"}}
    );
    assert_eq!(made(&host), std::slice::from_ref(&entry));
    assert!(host.json("switch dump-flows lan").as_array().unwrap().len() >= 2);

    // A node, a switch, both: entries and the default are as they were.
    host.end("-KILL");
    host.start();
    assert_eq!(made(&host), std::slice::from_ref(&entry));
    host.lose_switch();
    assert_eq!(made(&host), std::slice::from_ref(&entry));
    until("pings are not answered", || answers(&a, "10.90.0.2"));
    host.shows("switch show -p -o lookup,default", "flow-table:drop\n");
    host.ok(&format!("switch remove-flow lan {ping}"));
    assert_eq!(made(&host), Vec::<Value>::new());
    assert!(!answers(&a, "10.90.0.2"), "the entry is gone");

    // What has no entry goes to one port, and a flow's port is another when it is said again.
    host.ok("switch set lan --default output:b0");
    assert!(answers(&a, "10.90.0.2"));
    host.ok(&format!("switch add-flow lan {ping},actions=output:a0"));
    host.ok(&add);
    assert_eq!(made(&host), [entry]);
    // Entries go with their port, and with the table.
    let refusal = host.refusal("vnic delete b0");
    assert!(
        refusal.contains("‘b0’ is in use")
            && refusal.contains("set `default` of that switch to normal"),
        "{refusal}"
    );
    host.ok("switch set lan --default normal");
    host.ok("vnic delete b0");
    assert_eq!(made(&host), Vec::<Value>::new());
    host.ok(&format!("switch add-flow lan {ping},actions=output:a0"));
    host.ok("switch set lan --lookup learning");
    host.refuses("switch flows lan", "lookup function is learning");
    host.ok("switch set lan --lookup flow-table");
    assert_eq!(made(&host), Vec::<Value>::new());
    assert_eq!(host.ok("switch show -p -o default"), "normal\n");
}

#[test]
fn an_entry_waits_for_its_port() {
    let host = Host::new();
    host.ok("stub create lan");
    host.ok("switch set lan --lookup flow-table --default drop");
    let a = host.namespace("lan", "a0", "10.91.0.1/24", None);
    host.ok("vnic create -l lan -m 02:00:00:00:00:0b g0");
    let ping = "icmp,nw_src=10.91.0.1,nw_dst=10.91.0.2";
    host.ok(&format!("switch add-flow lan {ping},actions=output:g0"));
    assert_eq!(host.ok("switch flows lan -p -o port,state"), "g0:down\n");
    let config = host.config(
        "answer.click",
        "FromNetfront(eth0) -> c :: Classifier(12/0806 20/0001, 12/0800, -);
out :: Queue -> ToNetfront(eth0);
c[0] -> ARPResponder(10.91.0.2 02:00:00:00:00:0b) -> out;
c[1] -> Strip(14) -> CheckIPHeader -> ICMPPingResponder
     -> EtherEncap(0x0800, 02:00:00:00:00:0b, ff:ff:ff:ff:ff:ff) -> out;
c[2] -> Discard;",
    );
    host.ok(&format!("create answer {config} --link eth0=g0"));
    assert!(answers(&a, "10.91.0.2"));
    assert!(host.ok("switch flows lan -p -o port,age").contains("g0:\n"));
    host.ok("destroy answer");
    assert!(
        host.ok("switch flows lan -p -o port,state")
            .contains("g0:down\n")
    );
}
