//! The node and the commands that ask it: kills, wrong input, and many rounds.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use node::model::{Object, Vnic};
use serde_json::Value;
use weir::lab::{Namespace, Runner, ip};

use crate::common::{
    BOTH_WAYS, Host, LIMIT, Stream, alive, assert_contains, holds, kill, path, pings, until,
};

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

#[test]
fn a_node_removes_nothing_from_its_sockets_places_but_sockets() {
    let mut host = Host::new();
    host.end("-TERM");
    for name in ["node.sock", "switch.control"] {
        let place = host.run().join(name);
        let there = std::fs::rename(&place, host.folder.join(name)).is_ok();
        std::fs::write(&place, "a letter").unwrap();
        let output = host.output("node --lanes 2");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let path = place.display();
        assert_contains(&said, &format!("{path}: the file there is not a socket"));
        assert_eq!(std::fs::read(&place).unwrap(), b"a letter");
        std::fs::remove_file(&place).unwrap();
        if there {
            std::fs::rename(host.folder.join(name), &place).unwrap();
        }
    }
    host.start();
}

#[test]
fn a_damaged_state_is_told_in_a_sentence() {
    let mut host = Host::new();
    host.ok("stub create lan");
    host.end("-TERM");
    let file = host.folder.join("state/node.redb");
    let good = std::fs::read(&file).unwrap();
    let mut bad = good.clone();
    bad[4096..8192].fill(0x5a);
    for wrong in [&bad[..], &[]] {
        std::fs::write(&file, wrong).unwrap();
        for command in ["node", "node --purge"] {
            let output = host.output(command);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
            assert!(said.contains("node.redb is damaged ("), "{said}");
        }
    }
    std::fs::write(&file, good).unwrap();
    host.start();
    assert_eq!(host.ok("stub show -p -o link"), "lan\n");
}

#[test]
fn a_command_waits_for_a_node_that_starts_and_an_end_is_logged() {
    let mut host = Host::new();
    host.ok("stub create lan");
    host.end("-TERM");
    let said = host.said.lock().unwrap().join("\n");
    assert_contains(
        &said,
        "the node ends by SIGTERM; guests and the switch go on",
    );
    host.refuses("ls", "`weir node` starts one");
    // Before it listens, it has its lock.
    let mut node = host.weir(&["node"]).stderr(Stdio::null()).spawn().unwrap();
    until("it does not start", || {
        host.run().join("node.lock").exists()
    });
    let shown = (0..20).map(|_| host.ok("stub show -p -o link"));
    assert!(shown.into_iter().all(|shown| shown == "lan\n"));
    kill("-TERM", node.id());
    node.wait().unwrap();
    // A path is seen from where the command is given.
    host.start();
    let namespace = Namespace::new(&Runner::default()).unwrap();
    let mut create = host.weir(&["vnic", "create", "-l", "lan", "--netns", "ns/net", "r0"]);
    let folder = format!("/proc/{}", namespace.pid());
    let output = create.current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
}

/// Changes a byte of a record in the state.
fn damage(host: &Host, table: &str, name: &str) {
    use redb::{ReadableTable, TableDefinition};
    let file = host.folder.join("state/node.redb");
    let write = redb::Database::open(file).unwrap().begin_write().unwrap();
    {
        let table = TableDefinition::<&str, &[u8]>::new(table);
        let mut table = write.open_table(table).unwrap();
        let mut bytes = table.get(name).unwrap().unwrap().value().to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        table.insert(name, &bytes[..]).unwrap();
    }
    write.commit().unwrap();
}

#[test]
fn a_damaged_record_is_named_and_so_is_the_guest_that_nobody_knows() {
    let mut host = Host::new();
    host.ok("stub create lan");
    host.ok("stub create other");
    let config = host.config("sink.click", "FromNetfront(eth0) -> Discard;");
    for (name, wall) in [("lost", "auto"), ("lost-too", "process"), ("kept", "auto")] {
        host.ok(&format!("vnic create -l lan {name}0"));
        host.ok(&format!(
            "create {name} {config} --link eth0={name}0 --isolation {wall}"
        ));
    }
    let pid = |name: &str| {
        let pid = host.ok(&format!("ls -p -o pid {name}"));
        pid.trim().parse::<u32>().unwrap()
    };
    let (lost, too, kept) = (pid("lost"), pid("lost-too"), pid("kept"));
    host.end("-TERM");
    let start = host.said.lock().unwrap().len();
    for (table, name) in [
        ("guests", "lost"),
        ("guests", "lost-too"),
        ("links", "other"),
    ] {
        damage(&host, table, name);
    }
    for _ in 0..2 {
        host.start();
        let said = host.said.lock().unwrap()[start..].join("\n");
        for part in [
            "the record ‘guests/lost’ of the node's state is damaged",
            &format!("guest ‘lost’ runs as process {lost}, and no record names it"),
            "; 3 damaged records and 2 unknown guests: `weir node --status`",
        ] {
            assert_contains(&said, part);
        }
        assert!(!said.contains("process {kept}"), "{said}");
        let view = host.view();
        assert_eq!(
            view.damaged,
            ["guests/lost", "guests/lost-too", "links/other"]
        );
        let mut unknown: Vec<_> = view.unknown_guests.iter().map(|it| it.pid).collect();
        unknown.sort();
        let mut expected = [lost, too];
        expected.sort();
        assert_eq!(unknown, expected);
        // The rest goes on.
        assert_eq!(
            host.ok("ls -p -o guest,state,pid"),
            format!("kept:running:{kept}\n")
        );
        assert_eq!(host.ok("stub show -p -o link"), "lan\n");
        host.end("-KILL");
    }
    host.start();
    let status: Value = serde_json::from_str(&host.ok("node --status")).unwrap();
    assert_eq!(status["damaged"][2], "links/other");
    assert!(alive(lost) && alive(too));
    let ended = host.ok("node --end-unknown");
    assert_contains(&ended, &format!("ended lost (process {lost})"));
    until("they are not ended", || !alive(lost) && !alive(too));
    assert!(alive(kept));
    host.ok(&format!("create lost {config} --link eth0=lost0"));
    host.ok("node --forget-damaged");
    let view = host.view();
    assert!(view.damaged.is_empty() && view.unknown_guests.is_empty());
    host.end("-TERM");
    host.start();
    assert_eq!(
        host.ok("ls -p -o guest,state"),
        "kept:running\nlost:running\n"
    );
    assert!(
        !host
            .said
            .lock()
            .unwrap()
            .last()
            .unwrap()
            .contains("damaged")
    );
    // No other user may read its files.
    use std::os::unix::fs::PermissionsExt;
    for (path, mode) in [("state", 0o700), ("state/node.redb", 0o600), ("run", 0o700)] {
        let there = std::fs::metadata(host.folder.join(path)).unwrap();
        assert_eq!(there.permissions().mode() & 0o777, mode, "{path}");
    }
}

#[test]
fn wrong_input_is_told_in_a_sentence_and_leaves_nothing() {
    let host = Host::new();
    host.ok("stub create lan");
    host.ok("vnic create -l lan -m 02:00:00:00:00:0a g0");
    let namespace = Namespace::new(&Runner::default()).unwrap();
    let netns = path(&namespace);
    let taken = host.config("taken", "");
    let config = host.config("sink.click", "FromNetfront(eth0) -> Discard;");
    let wrong = host.config("wrong.click", "FromNetfront(eth0) -> Nothing;");
    let before = ["link show --json", "vnic show --json", "ls --json"].map(|c| host.ok(c));
    let refusals = [
        ("vnic create -l nolan x", "no link ‘nolan’"),
        ("vnic create -l lan g0", "a VNIC named ‘g0’"),
        ("vnic create -l lan lan", "a stub named ‘lan’"),
        (
            "vnic create -l lan -m 02:00:00:00:00:0a x",
            "‘g0’ on ‘lan’ already has the address",
        ),
        ("vnic create -l lan -m 01:00:5e:00:00:01 x", "unicast"),
        ("vnic create -l lan -m 02:00 x", "not an Ethernet address"),
        ("vnic create -l lan -v 4095 x", "1 to 4094"),
        ("vnic create -l lan -v 5 -p vlan=6 x", "given twice"),
        ("vnic create -l lan -p maxbw=0 x", "maxbw=0"),
        ("vnic create -l lan -p maxbw=1K x", "maxbw=1"),
        ("vnic create -l lan -p speed=1 x", "no property ‘speed’"),
        ("vnic create -l lan -p cpus=4000 x", "cpus=4000"),
        ("vnic create -l lan -p mtu=20 x", "mtu=20"),
        (
            "vnic create -l lan --netns weir-none x",
            "`ip netns add weir-none`",
        ),
        (
            &format!("vnic create -l lan --netns {netns} a-name-much-too-long"),
            "1 to 15",
        ),
        (
            &format!("vnic create -l lan --netns {netns} --interface lo x"),
            "already an interface ‘lo’",
        ),
        (
            &format!("vnic create -l lan --vhost-user {taken} x"),
            "in use or not a socket",
        ),
        (
            &format!("vnic create -l lan --vhost-user /tmp/{} x", "s".repeat(120)),
            "at most 107 bytes",
        ),
        (
            "vnic create -l lan --host ../x",
            "is not a valid name for a VNIC",
        ),
        (
            "vnic create -l lan --host --netns a x",
            "cannot be used with",
        ),
        (
            "vnic create -l lan --host -a 10.0.0.3/24 -a 10.0.0.3/16 x",
            "10.0.0.3 is given twice",
        ),
        ("vnic create -l lan --prop= x", "a value is required"),
        ("vnic delete nothing", "no VNIC ‘nothing’"),
        ("vnic set-prop -p maxbw=lots g0", "maxbw=lots"),
        ("vnic reset-prop -p speed g0", "no property ‘speed’"),
        ("vnic show -p -o colour", "no field ‘colour’"),
        ("stub create lan", "a stub named ‘lan’"),
        ("stub create --mtu 20 x", "20 is not in 68..=9216"),
        ("stub create --mtu -5 x", "-5 is not in 68..=9216"),
        ("vnic create -l lan -v -1 x", "1 to 4094"),
        (
            "vnic create -l lan --host -a 10.0.0.3 x",
            "as in 10.0.0.2/24",
        ),
        ("vnic stat -i -1", "0.1 to 3600 seconds"),
        (
            "link attach x --mode vxlan --vni 5 --remote 192.0.2.2 --port 0",
            "0 is not in 1..=65535",
        ),
        ("switch set lan", "--aging"),
        ("stub delete lan", "delete its VNICs first (g0)"),
        ("link detach lan", "`weir stub delete lan`"),
        ("link attach weir-none0", "no interface ‘weir-none0’"),
        ("link attach lo", "not an Ethernet interface"),
        (
            "link attach x --mode vxlan --vni 5 --remote 192.0.2.2,192.0.2.2",
            "192.0.2.2 is given twice",
        ),
        (
            "vnic set-prop --prop= g0",
            "a value is required for '--prop",
        ),
        ("switch set lan --aging 0", "aging=0"),
        ("switch set lan --lookup magic", "lookup=magic"),
        ("switch macs nolan", "no link ‘nolan’"),
        (
            "flow add -l nolan -a transport=tcp f",
            "no link or VNIC ‘nolan’",
        ),
        ("flow add -l lan -a local_port=80 f", "transport"),
        ("flow add -l lan -a colour=red f", "colour"),
        ("flow remove f", "no flow ‘f’"),
        (
            &format!("create x {config} --link eth0=nothing"),
            "no VNIC or link ‘nothing’",
        ),
        (
            &format!("create x {config} --link eth0=lan --link eth0=g0"),
            "two links are named ‘eth0’",
        ),
        (&format!("create x {config}"), "has no link"),
        (&format!("create x {wrong} --link eth0=lan"), "Nothing"),
        (
            &format!("create x {config} --link eth0=lan --memory 64K"),
            "memory too small",
        ),
        (
            &format!("create x {config} --link eth0=lan --ring-slots 100"),
            "100",
        ),
        (
            &format!("create x {config} --link eth0=lan --pin 4000"),
            "CPU 4000",
        ),
        (
            &format!("create x {config} --link eth0=lan --cpus 99"),
            "1 to 8 vCPUs",
        ),
        (
            &format!("create ../x {config} --link eth0=lan"),
            "is not a valid name for a guest",
        ),
        ("destroy nothing", "no guest ‘nothing’"),
        ("read nothing c.count", "no guest ‘nothing’"),
        ("node", "a node is already running"),
    ];
    for (arguments, said) in refusals {
        let sentence = host.refusal(arguments);
        assert!(sentence.contains(said), "weir {arguments}: {sentence}");
    }
    let after = ["link show --json", "vnic show --json", "ls --json"].map(|c| host.ok(c));
    assert_eq!(before, after);
    let links = namespace.command("ip", "-o link").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&links.stdout).lines().count(), 1);
    let mut other = host.weir(&["node", "--cpus", "4000"]);
    for variable in ["WEIR_RUN", "WEIR_STATE"] {
        other.env(variable, host.folder.join("other"));
    }
    let output = other.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("weir: there is no CPU 4000 that the node may use"),
        "{said}"
    );
    assert!(
        !output.status.success() && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn a_list_that_goes_on_ends_when_nobody_reads_it() {
    let host = Host::new();
    host.ok("stub create lan");
    host.ok("vnic create -l lan --host v");
    let mut stat = host.weir(&["vnic", "stat", "-i", "0.1"]);
    let mut stat = stat.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(stat.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("NAME"));
    drop(lines);
    let start = Instant::now();
    let status = loop {
        if let Some(status) = stat.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > LIMIT {
            stat.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{status}");
}

#[test]
fn a_vhost_user_socket_is_where_the_command_was_given() {
    let host = Host::new();
    host.ok("stub create lan");
    let mut create = host.weir(&[
        "vnic",
        "create",
        "-l",
        "lan",
        "--vhost-user",
        "vm.sock",
        "v",
    ]);
    assert!(create.current_dir(&host.folder).status().unwrap().success());
    assert!(host.folder.join("vm.sock").exists());
    // Nothing passes before a frontend connects, or after it has gone.
    let state = |state: &str| {
        let shown = format!("{state}\n");
        until("the state changes", || {
            host.ok("vnic show v -p -o state,reason") == shown
        });
    };
    state("down:no frontend is connected");
    let frontend = UnixStream::connect(host.folder.join("vm.sock")).unwrap();
    state("up:");
    drop(frontend);
    state("down:no frontend is connected");
    let refused = host
        .weir(&["vnic", "create", "-l", "lan", "--vhost-user", "", "w"])
        .output();
    let said = String::from_utf8(refused.unwrap().stderr).unwrap();
    assert!(said.contains("a socket's path cannot be empty"), "{said}");
    let new = r#"{"name": "w", "link": "lan", "vhost-user": "vm.sock"}"#;
    let (status, answer) = raw(&host, &request("POST", "/v1/vnics", new));
    assert_eq!(status, 400, "{answer}");
    host.ok("vnic delete v");
    assert!(!host.folder.join("vm.sock").exists());
}

/// Sends a request as it stands; the status and the body of the answer.
fn raw(host: &Host, request: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(host.run().join("node.sock")).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn request(method: &str, path: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn a_wrong_field_of_a_body_is_named() {
    let host = Host::new();
    host.ok("stub create lan");
    for (method, path, body, field) in [
        ("POST", "/v1/stubs", r#"{"name": "a", "mtu": 65536}"#, "mtu"),
        ("POST", "/v1/stubs", r#"{"name": 1}"#, "name"),
        ("POST", "/v1/stubs", r#"{"name": "a", "aging": 0}"#, "aging"),
        ("POST", "/v1/vnics", r#"{"name": "a", "link": 1}"#, "link"),
        ("PATCH", "/v1/stubs/lan", r#"{"aging": -1}"#, "aging"),
        (
            "POST",
            "/v1/vnics",
            r#"{"name": "a", "link": "lan", "properties": {"maxbw": "zzz"}}"#,
            "properties.maxbw",
        ),
    ] {
        let (status, answer) = raw(&host, &request(method, path, body));
        assert_eq!(
            (status, &answer["field"]),
            (400, &Value::from(field)),
            "{answer}"
        );
        let said = answer["error"].as_str().unwrap();
        let last = field.rsplit('.').next().unwrap();
        assert!(said.contains(last), "{said}");
    }
    // A name may be in the path alone.
    let (status, answer) = raw(&host, &request("PUT", "/v1/stubs/b", r#"{"mtu": 1600}"#));
    assert_eq!(
        (status, &answer["name"]),
        (200, &Value::from("b")),
        "{answer}"
    );
}

#[test]
fn a_request_that_is_no_good_is_answered_with_its_status() {
    let host = Host::new();
    let ask = |request: &str| {
        let mut stream = UnixStream::connect(host.run().join("node.sock")).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    // Which methods there are is told.
    let answer = ask(&request("PUT", "/v1/vnics", "{}"));
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    let allow = answer.lines().find_map(|line| line.strip_prefix("allow: "));
    assert_eq!(allow, Some("GET,HEAD,POST"), "{answer}");
    // The content type must be JSON's.
    let json = request("POST", "/v1/stubs", r#"{"name": "lan"}"#);
    for (kind, status) in [
        ("text/plain", "415"),
        ("application/x-www-form-urlencoded", "415"),
        ("Application/JSON; charset=utf-8", "201"),
        ("application/merge-patch+json", "409"),
    ] {
        let answer = ask(&json.replace("application/json", kind));
        let told = answer.starts_with(&format!("HTTP/1.1 {status}"));
        assert!(told, "{kind}: {answer}");
    }
    // So many bytes, and each field once.
    let long = format!(r#"{{"name": "{}", "link": "lan"}}"#, "x".repeat(1 << 20));
    let (status, answer) = raw(&host, &request("POST", "/v1/vnics", &long));
    assert_eq!((status, &answer["kind"]), (413, &"too-large".into()));
    assert_contains(
        answer["error"].as_str().unwrap(),
        "longer than 1048576 bytes",
    );
    let twice = r#"{"name": "a", "link": "lan", "properties": {"share": 1, "share": 2}}"#;
    let (status, answer) = raw(&host, &request("POST", "/v1/vnics", twice));
    assert_eq!(
        (status, &answer["field"]),
        (400, &"share".into()),
        "{answer}"
    );
    assert_contains(answer["error"].as_str().unwrap(), "given twice");
    // A long name is not repeated as a whole.
    let name = "x".repeat(50_000);
    for (method, path, body) in [
        ("GET", format!("/v1/vnics/{name}"), String::new()),
        (
            "POST",
            "/v1/vnics".into(),
            format!(r#"{{"name": "a", "link": "{name}"}}"#),
        ),
        (
            "POST",
            "/v1/vnics".into(),
            format!(r#"{{"name": "a", "link": "lan", "{name}": 1}}"#),
        ),
    ] {
        let (status, answer) = raw(&host, &request(method, &path, &body));
        assert!(status == 404 || status == 400, "{answer}");
        let said = answer["error"].as_str().unwrap();
        assert!(said.contains("xxx…") && said.len() < 1000, "{said}");
    }
    assert_eq!(host.view().vnics, 0);
}

#[test]
fn the_api_answers_whatever_it_is_asked() {
    let host = Host::new();
    let cases = [
        ("GET", "/v1/nothing", "", 404, "not-found"),
        ("GET", "/v1/vnics/nothing", "", 404, "not-found"),
        ("GET", "/v1/vnics/%2e%2e%2f%00", "", 404, "not-found"),
        ("GET", "/v1/vnics/%ff", "", 400, "invalid"),
        ("PUT", "/v1/vnics", "", 405, "not-allowed"),
        ("POST", "/v1/stubs", "{", 400, "invalid"),
        (
            "POST",
            "/v1/stubs",
            "{\"name\":\"a\",\"colour\":1}",
            400,
            "invalid",
        ),
        (
            "POST",
            "/v1/stubs",
            "{\"name\":\"a\",\"mtu\":-1}",
            400,
            "invalid",
        ),
        (
            "POST",
            "/v1/stubs",
            "{\"name\":\"a\\u0000b\"}",
            400,
            "invalid",
        ),
        (
            "POST",
            "/v1/vnics",
            "{\"name\":\"a\",\"link\":\"l\",\"mac\":\"x\"}",
            400,
            "invalid",
        ),
        (
            "POST",
            "/v1/guests",
            "{\"name\":\"g\",\"config\":\"\",\"memory\":1}",
            400,
            "invalid",
        ),
    ];
    for (method, path, body, status, kind) in cases {
        let (found, answer) = raw(&host, &request(method, path, body));
        assert_eq!(found, status, "{method} {path} {body}: {answer}");
        assert_eq!(answer["kind"], kind, "{method} {path} {body}: {answer}");
        assert!(
            answer["error"]
                .as_str()
                .is_some_and(|said| !said.is_empty())
        );
    }
    let (status, made) = raw(&host, &request("POST", "/v1/stubs", "{\"name\":\"lan\"}"));
    assert_eq!(
        (status, &made["status"]["state"]),
        (201, &Value::from("up"))
    );
    let (status, _) = raw(&host, &request("POST", "/v1/stubs", "{\"name\":\"lan\"}"));
    assert_eq!(status, 409);
    // What is described is what `weir node --openapi` prints.
    let (status, description) = raw(&host, &request("GET", "/v1/openapi.json", ""));
    assert_eq!(status, 200);
    let printed: Value = serde_json::from_str(&host.ok("node --openapi")).unwrap();
    assert_eq!(description["paths"], printed["paths"]);
    // No other user may connect.
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(host.run().join("node.sock"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_thousand_vnics_made_and_deleted_leave_nothing() {
    let host = Host::new();
    host.ok("stub create lan");
    let namespace = Namespace::new(&Runner::default()).unwrap();
    let client = host.client();
    let round = |i: u32| {
        let mut vnic = Vnic {
            link: "lan".into(),
            properties: "maxbw=10M".parse().unwrap(),
            ..Vnic::default()
        };
        match i % 4 {
            0 => {}
            1 => vnic.vhost_user = Some(host.folder.join("v.sock")),
            _ => vnic.namespace = Some(path(&namespace)),
        }
        let made = client.create(&Object::new(format!("v{i}"), vnic)).unwrap();
        client.delete::<Vnic>(&made.name).unwrap();
    };
    // Tables and pools reach their sizes first.
    (0..100).for_each(round);
    let view = host.view();
    let (node, switch) = (view.pid, view.switch_pid.unwrap());
    // The last connections are closed a moment after they are done with.
    let held = || [node, switch].map(holds);
    std::thread::sleep(Duration::from_millis(200));
    let before = held();
    (100..1100).for_each(round);
    until("descriptors are left", || {
        std::iter::zip(held(), before).all(|(now, before)| now.0 <= before.0)
    });
    let after = held();
    // A leak of 1 KiB a round would be 1000.
    for (after, before) in std::iter::zip(after, before) {
        assert!(after.1 < before.1 + 900, "{before:?} {after:?}");
    }
    let links = namespace.command("ip", "-o link").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&links.stdout).lines().count(), 1);
    assert!(!host.folder.join("v.sock").exists());
    assert_eq!(host.view().vnics, 0);
}

#[test]
fn guests_made_and_destroyed_leave_nothing_and_a_purge_neither() {
    let mut host = Host::new();
    host.ok("stub create lan");
    let config = host.config("sink.click", "FromNetfront(eth0) -> Discard;");
    let name = format!("wp{}n{}", std::process::id(), host.number);
    host.ok(&format!("vnic create -l lan --host {name}"));
    let round = |host: &Host| {
        host.ok(&format!("create g {config} --link eth0=lan"));
        host.ok("destroy g");
    };
    (0..5).for_each(|_| round(&host));
    let view = host.view();
    let (node, switch) = (view.pid, view.switch_pid.unwrap());
    // The process that is made ready for the next guest is there or not.
    let held = || [node, switch].map(|pid| holds(pid).0);
    std::thread::sleep(Duration::from_millis(200));
    let before = held();
    (0..30).for_each(|_| round(&host));
    until("descriptors are left", || {
        std::iter::zip(held(), before).all(|(now, before)| now <= before)
    });
    host.ok(&format!("create g {config} --link eth0=lan"));
    let guest: u32 = host.ok("ls -p -o pid").trim().parse().unwrap();
    let nothing_is_left = |host: &Host| {
        for folder in ["run", "state"] {
            let folder = std::fs::read_dir(host.folder.join(folder)).unwrap();
            let left: Vec<_> = folder.collect();
            assert!(left.is_empty(), "{left:?}");
        }
    };
    host.ok("node --purge");
    nothing_is_left(&host);
    let mut ended = host.node.take().unwrap();
    assert!(ended.wait().unwrap().success());
    assert!(!alive(guest) && !alive(switch));
    assert!(!Path::new("/sys/class/net").join(&name).exists());
    // Without a node that runs, too.
    host.start();
    host.ok("stub create lan");
    host.ok(&format!("create g {config} --link eth0=lan"));
    let guest: u32 = host.ok("ls -p -o pid").trim().parse().unwrap();
    let switch = host.switch_pid();
    host.end("-KILL");
    assert!(alive(guest) && alive(switch));
    host.ok("node --purge");
    assert!(!alive(guest) && !alive(switch));
    nothing_is_left(&host);
    host.start();
    assert_eq!(host.view().guests, 0);
}

/// Processor time that a process used so far, in seconds.
fn used(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    // utime and stime, the 14th and 15th of all fields.
    let ticks: u64 = fields[11..13]
        .iter()
        .map(|n| n.parse::<u64>().unwrap())
        .sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

#[test]
fn nobody_uses_the_processor_while_there_is_nothing_to_do() {
    let host = Host::new();
    host.ok("stub create lan");
    let config = host.config(
        "sink.click",
        "FromNetfront(eth0) -> c :: Counter -> Discard;",
    );
    for i in 0..10 {
        host.ok(&format!("create g{i} {config} --link eth0=lan"));
    }
    assert_eq!(host.ok("read g3 c.count"), "0\n");
    let view = host.view();
    let pids = [view.pid, view.switch_pid.unwrap()];
    std::thread::sleep(Duration::from_millis(500));
    let before = pids.map(used);
    std::thread::sleep(Duration::from_secs(4));
    for ((pid, before), what) in pids.into_iter().zip(before).zip(["node", "switch"]) {
        let used = used(pid) - before;
        println!("the {what} used {used:.2} s of 4");
        assert!(used <= 0.06, "the {what} used {used:.2} s of 4");
    }
    // What an answer costs the node, which looks for it again and again while it is awaited.
    let client = host.client();
    let before = used(view.pid);
    for _ in 0..200 {
        let read = node::model::HandlerRead {
            handler: "c.count".into(),
        };
        client.read("g3", &read).unwrap();
    }
    println!("200 answers took the node {:.2} s", used(view.pid) - before);
}

#[test]
fn ps_shows_each_process_as_what_it_is() {
    let host = Host::new();
    let view = host.view();
    let shown = |pid: u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        String::from_utf8(command).unwrap()
    };
    assert_eq!(shown(view.switch_pid.unwrap()), "weir-switch\0");
    assert_eq!(shown(view.store_pid.unwrap()), "weir-store\0");
    assert_contains(&shown(view.pid), "weir\0node\0");
    host.ok(&format!(
        "create g {}",
        host.config("g.click", "Idle -> Discard;")
    ));
    let pid = host.ok("ls -p -o pid").trim().parse().unwrap();
    let guest = format!("weir-guest: g ({})\0", host.run().display());
    assert_eq!(shown(pid), guest);
}
