//! The node and the commands that ask it: what takes over after kills, and interfaces that are attached.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use node::model::Vnic;
use weir::lab::{Namespace, Runner, ip};

use crate::common::{BOTH_WAYS, Host, LIMIT, Stream, alive, kill, path, pings, until};

#[test]
fn namespaces_on_a_stub_reach_each_other() {
    let host = Host::new();
    let (one, _two) = host.lan("10.80.0");
    pings(&one, "10.80.0.2");
    host.shows("vnic show -p -o vnic,link,state", "a0:lan:up\nb0:lan:up\n");
    let macs = host.json("switch macs lan");
    let ports: BTreeSet<_> = macs
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["port"].as_str())
        .collect();
    assert_eq!(ports, BTreeSet::from([Some("a0"), Some("b0")]));
    let stats = host.json("vnic stat a0");
    assert!(stats[0]["rx-frames"].as_u64().unwrap() >= 3, "{stats}");
    // The interface has the VNIC's address, and goes with the VNIC.
    let vnic = host.client().show::<Vnic>("a0").unwrap().spec;
    let show = |namespace: &Namespace| {
        let output = namespace.command("ip", "link show a0").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(show(&one).contains(&vnic.mac.unwrap().to_string()));
    host.ok("vnic delete a0");
    until("the interface is still there", || show(&one).is_empty());
    host.ok("vnic delete b0");
    host.ok("stub delete lan");
    assert_eq!(host.json("link show"), serde_json::json!([]));
}

#[test]
fn a_firewall_guest_stands_between_two_stubs() {
    let host = Host::new();
    host.ok("stub create in");
    host.ok("stub create out");
    let inside = host.namespace("in", "client", "10.1.0.2/24", Some("10.1.0.1"));
    let outside = host.namespace("out", "server", "10.2.0.2/24", Some("10.2.0.1"));
    host.ok("vnic create -l in fw0");
    host.ok("create fw firewall --link inside=fw0 --link outside=out");
    assert_eq!(host.ok("ls -p -o guest,state"), "fw:running\n");
    host.shows(
        "vnic show -p -o vnic,state,serves fw.outside",
        "fw.outside:up:guest\\:fw\n",
    );
    pings(&inside, "10.2.0.2");
    let refused = outside
        .command("ping", "-c 1 -W 1 10.1.0.2")
        .output()
        .unwrap();
    assert!(!refused.status.success(), "the firewall let a ping in");
    // Three pings with their answers.
    assert_eq!(host.ok("read fw rules.hits"), "1 6 allow from inside\n");
    host.ok("write fw rules.reset 1");
    assert_eq!(host.ok("read fw rules.hits"), "0 0 allow from inside\n");
    assert!(host.ok("top fw -c 1 -i 0.1").contains("ELEMENT"));
    host.refuses("read fw nothing.count", "nothing");
    // Both know what they stand on.
    host.refuses("vnic delete fw0", "`weir destroy fw` first");
    assert!(host.refusal("stub delete out").contains("fw.outside"));
    host.ok("destroy fw");
    host.shows(
        "vnic show -p -o vnic,state",
        "client:up\nfw0:unused\nserver:up\n",
    );
}

#[test]
fn nothing_is_lost_when_the_node_is_killed_and_the_next_one_takes_over() {
    let mut host = Host::new();
    host.ok("stub create one");
    host.ok("stub create two");
    let client = host.namespace("one", "a0", "10.81.0.1/24", None);
    let server = host.namespace("two", "b0", "10.81.0.2/24", None);
    let config = host.config("wire.click", BOTH_WAYS);
    host.ok(&format!("create wire {config} --link a=one --link b=two"));
    pings(&client, "10.81.0.2");
    let shown = [
        "link show -p",
        "vnic show -p",
        "ls -p -o guest,state,pid,wall",
    ];
    let before = shown.map(|command| host.ok(command));
    let switch = host.switch_pid();
    let stream = Stream::start(path(&client), path(&server), "10.81.0.2");
    host.end("-KILL");
    assert!(host.refusal("ls").contains("`weir node` starts one"));
    host.start();
    assert_eq!(shown.map(|command| host.ok(command)), before);
    assert_eq!(host.switch_pid(), switch);
    // Under control as before: handlers, a new configuration, a new guest, the end.
    let there: u64 = host.ok("read wire there.count").trim().parse().unwrap();
    assert!(there >= 3, "{there}");
    let other = BOTH_WAYS.replace("there", "thither");
    let output = host.weir(&["write", "wire", "hotconfig", &other]).output();
    assert!(output.unwrap().status.success());
    assert!(host.ok("read wire list").contains("thither"));
    host.ok("vnic set-prop -p maxbw=1G a0");
    // In good order, too: guests and the switch go on.
    host.end("-TERM");
    assert!(!host.run().join("node.sock").exists());
    host.start();
    stream.loses_nothing();
    assert!(host.ok("read wire list").contains("thither"));
    host.ok("destroy wire");
    host.ok("vnic delete a0");
}

#[test]
fn traffic_flows_again_after_the_switch_is_killed() {
    let mut host = Host::new();
    host.ok("stub create one");
    host.ok("stub create two");
    let client = host.namespace("one", "a0", "10.82.0.1/24", None);
    let server = host.namespace("two", "b0", "10.82.0.2/24", None);
    let config = host.config("wire.click", BOTH_WAYS);
    host.ok(&format!("create wire {config} --link a=one --link b=two"));
    host.ok("vnic set-prop -p maxbw=1G a0");
    host.ok("flow add -l a0 -a transport=icmp -p maxbw=10M pings");
    pings(&client, "10.82.0.2");
    let guest = host.ok("ls -p -o pid");
    let stream = Stream::start(path(&client), path(&server), "10.82.0.2");
    host.lose_switch();
    assert_eq!(host.view().switch_restarts, 1);
    // Addresses and routes are as they were, and what is lost is what was sent within a second.
    pings(&client, "10.82.0.2");
    let (sent, arrived, twice) = stream.end_after_crash();
    assert!(sent - arrived <= 1000, "{arrived} of {sent} arrived");
    assert!(twice <= 64, "{twice} arrived twice");
    assert_eq!(host.ok("ls -p -o pid"), guest);
    host.shows("vnic show -p -o state,properties a0", "up:maxbw=1G\n");
    assert_eq!(host.ok("flow show -p -o flow,state"), "pings:up\n");
    assert!(host.refusal("vnic show -l none").contains("no link ‘none’"));
    host.refuses("flow show -l none", "no link or VNIC ‘none’");
    let on = host.json("flow show pings")[0]["link"].clone();
    let on = format!("flow show -p -o flow -l {}", on.as_str().unwrap());
    assert_eq!(host.ok(&on), "pings\n");
    // One that is killed while no node runs is replaced by the next.
    let switch = host.switch_pid();
    host.end("-KILL");
    assert!(alive(switch));
    kill("-KILL", switch);
    host.start();
    assert_eq!(host.ok("ls -p -o pid"), guest);
    // The devices went with their last holder; their addresses must be set again.
    let runner = Runner::default();
    until("the interface is not back", || {
        client
            .command("ip", "link show a0")
            .output()
            .unwrap()
            .status
            .success()
    });
    runner
        .run(client.command("ip", "addr add 10.82.0.1/24 dev a0"), LIMIT)
        .unwrap();
    runner
        .run(server.command("ip", "addr add 10.82.0.2/24 dev b0"), LIMIT)
        .unwrap();
    pings(&client, "10.82.0.2");
}

#[test]
fn a_killed_guest_is_told_of_and_started_anew_if_asked_for() {
    let mut host = Host::new();
    host.ok("stub create lan");
    let config = host.config(
        "sink.click",
        "FromNetfront(eth0) -> c :: Counter -> Discard;",
    );
    host.ok(&format!(
        "create left {config} --link eth0=lan --restart never"
    ));
    host.ok(&format!("create kept {config} --link eth0=lan"));
    let pid = |name: &str| {
        host.ok(&format!("ls -p -o pid {name}"))
            .trim()
            .parse::<u32>()
    };
    let (left, kept) = (pid("left").unwrap(), pid("kept").unwrap());
    kill("-KILL", left);
    kill("-KILL", kept);
    until("it is not told of", || {
        host.ok("ls -p -o state,reason left")
            == "crashed:the guest's process was killed by SIGKILL\n"
    });
    assert_eq!(host.ok("vnic show -p -o state left.eth0"), "down\n");
    assert!(host.refusal("read left c.count").contains("does not run"));
    until("it is not restarted", || {
        host.ok("ls -p -o state kept") == "running\n" && pid("kept") != Ok(kept)
    });
    assert_eq!(host.ok("vnic show -p -o state kept.eth0"), "up\n");
    assert_eq!(host.ok("read kept c.count"), "0\n");
    // One that ends while no node runs is told of by the next, or restarted.
    let kept = pid("kept").unwrap();
    host.end("-KILL");
    kill("-KILL", kept);
    host.start();
    until("it is not restarted", || {
        host.ok("ls -p -o state kept") == "running\n"
    });
    assert_eq!(host.ok("ls -p -o state left"), "crashed\n");
    host.ok("destroy left kept");
    assert_eq!(host.view().vnics, 0);
}

#[test]
fn a_switch_works_as_it_is_set_and_so_does_the_one_that_takes_its_place() {
    let host = Host::new();
    host.ok("stub create lan");
    // Without a port, it knows no address.
    assert_eq!(host.ok("switch macs lan -p"), "");
    assert_eq!(host.ok("switch show lan --macs --json"), "[]\n");
    host.ok("switch flush lan");
    let one = host.namespace("lan", "a0", "10.84.0.1/24", None);
    let _two = host.namespace("lan", "b0", "10.84.0.2/24", None);
    let expected = serde_json::json!(
        {"name": "lan", "lookup": "learning", "aging": 300, "mac-limit": 1024, "status": {}}
    );
    assert_eq!(host.json("switch show lan")[0], expected);
    host.ok("switch set lan --aging 60 --mac-limit 7 --speed 1G");
    let shown = "switch show -p -o lookup,aging,mac-limit,speed";
    assert_eq!(host.ok(shown), "learning:60:7:1G\n");
    host.ok("switch set lan --lookup hash");
    assert_eq!(host.ok(shown), "hash:60:7:1G\n");
    host.ok("switch set lan --reset lookup,speed");
    assert_eq!(host.ok(shown), "learning:60:7:\n");
    host.ok("switch set lan --lookup flow-table --default drop");
    assert!(host.ok("switch show lan").contains("drop"));
    host.refuses(
        "switch set lan --lookup hash --default drop",
        "that of ‘lan’ is hash",
    );
    host.ok("switch set lan --reset default");
    host.shows(
        "switch show lan -p -o lookup,default",
        "flow-table:normal\n",
    );
    host.ok("switch set lan --reset lookup,default");
    host.shows("switch show lan -p -o lookup,default", "learning:\n");
    pings(&one, "10.84.0.2");
    host.ok("switch flush lan");
    pings(&one, "10.84.0.2");
    let killed = host.switch_pid();
    // One that is stopped does not answer, which is as good as killed.
    kill("-STOP", killed);
    let start = Instant::now();
    while host.view().switch_pid.is_none_or(|pid| pid == killed) {
        assert!(start.elapsed() < 3 * LIMIT, "it is not replaced");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(host.ok(shown), "learning:60:7:\n");
    pings(&one, "10.84.0.2");
    assert_eq!(host.ok("link stat --lanes -p -o lane"), "0\n");
}

#[test]
fn a_click_configuration_is_told_which_ports_it_names_in_vain_and_where_it_is_wrong() {
    let host = Host::new();
    host.ok("stub create lan");
    host.ok("vnic create -l lan va");
    let config = host.config(
        "half.click",
        "FromPort(va) -> ToPort(vaa);\nFromPort(*) -> ToPort(*);",
    );
    let set = format!("switch set lan --lookup click --config {config}");
    let said = String::from_utf8(host.output(&set).stderr).unwrap();
    let warning =
        "weir: warning: ‘lan’ has no port named vaa: frames to it are dropped until there is one\n";
    assert_eq!(said, warning);
    assert_eq!(
        host.json(&set)["status"]["missing"],
        serde_json::json!(["vaa"])
    );
    host.ok("vnic create -l lan vaa");
    assert!(host.output(&set).stderr.is_empty());
    let wrong = host.config("wrong.click", "FromPort(va)\n-> Nonsense -> ToPort(va);");
    let said = host.refusals(&format!("switch set lan --lookup click --config {wrong}"));
    assert!(said.contains("wrong.click:2"), "{said}");
}

#[test]
fn an_interface_is_attached_and_left_as_it_was() {
    let mut host = Host::new();
    let runner = Runner::default();
    let far = Namespace::new(&runner).unwrap();
    let near = format!("wn{}n{}", std::process::id(), host.number);
    far.connect(&runner, &near, "10.83.0.1/24", None).unwrap();
    host.ok(&format!("link attach {near} --mode packet -p maxbw=1G"));
    assert_eq!(
        host.ok("link show -p -o link,class,state,mode,properties"),
        format!("{near}:nic:up:packet:maxbw=1G\n")
    );
    host.ok(&format!("link set-prop -p mtu=1400 {near}"));
    assert_eq!(host.ok("link show -p -o mtu"), "1400\n");
    host.ok(&format!("link reset-prop -p mtu {near}"));
    assert_eq!(host.ok("link show -p -o mtu"), "1500\n");
    let has_gro = || {
        let mut ethtool = Command::new("ethtool");
        ethtool.args(["-k", &near]);
        let features = runner.run(ethtool, LIMIT).unwrap();
        features.contains("generic-receive-offload: on")
    };
    assert!(has_gro());
    let inner = host.namespace(&near, "in0", "10.83.0.2/24", None);
    pings(&inner, "10.83.0.1");
    let stats = host.json("link stat");
    assert!(stats[0]["rx-frames"].as_u64().unwrap() >= 3, "{stats}");
    assert!(host.refusal(&format!("link detach {near}")).contains("in0"));
    // An interface that goes is told of, and taken up again when it is back.
    runner.run(ip(&format!("link del {near}")), LIMIT).unwrap();
    until("it is not told of", || {
        host.ok("link show -p -o state") == "down\n"
    });
    assert!(host.ok("link show -p -o reason").len() > 1);
    far.connect(&runner, &near, "10.83.0.1/24", None).unwrap();
    until("it is not taken up again", || {
        host.ok("link show -p -o state") == "up\n"
    });
    // The other way round: here, the address that was there before is still remembered.
    pings(&far, "10.83.0.2");
    drop(inner);
    host.ok("vnic delete in0");
    host.end("-TERM");
    host.start();
    assert!(has_gro());
    host.ok(&format!("link detach {near}"));
    assert!(!has_gro());
    // So is one that has another name now.
    host.ok(&format!("link attach {near} --mode packet"));
    let other = format!("{near}x");
    let rename = |from: &str, to: &str| {
        for words in [
            format!("{from} down"),
            format!("{from} name {to}"),
            format!("{to} up"),
        ] {
            runner.run(ip(&format!("link set {words}")), LIMIT).unwrap();
        }
    };
    rename(&near, &other);
    assert_eq!(
        host.ok("link show -p -o state,reason"),
        format!(
            "down:interface ‘{near}’ is now named ‘{other}’\\: detach the link, or `ip link set {other} name {near}`\n"
        )
    );
    rename(&other, &near);
    assert_eq!(host.ok("link show -p -o state,reason"), "up:\n");
    rename(&near, &other);
    host.end("-KILL");
    host.start();
    host.ok(&format!("link detach {near}"));
    rename(&other, &near);
    assert!(!has_gro());
    // A node that is killed at any moment of it leaves the link, or the interface as it was.
    for delay in 0..8 {
        if host.ok("link show -p").is_empty() {
            host.ok(&format!("link attach {near} --mode packet"));
        }
        let mut detach = host.weir(&["link", "detach", &near]);
        let mut detach = detach.stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(3 * delay));
        host.end("-KILL");
        detach.wait().unwrap();
        host.start();
        let is_attached = !host.ok("link show -p").is_empty();
        assert_eq!(has_gro(), is_attached, "after {delay} rounds");
    }
    if host.ok("link show -p").is_empty() {
        host.ok(&format!("link attach {near} --mode packet"));
    }
    assert!(has_gro());
    host.ok("node --purge");
    assert!(!has_gro());
    assert!(Path::new("/sys/class/net").join(&near).exists());
}
