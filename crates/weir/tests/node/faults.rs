//! What happens when parts are killed or taken away in the middle of something: all or nothing is
//! done, the rest goes on, and nothing is left behind.

use std::process::Stdio;
use std::time::{Duration, Instant};

use weir::lab::{Namespace, Runner};

use crate::common::{
    Dice, Host, LIMIT, Stream, alive, counted, holds, ip, kill, member, named, path, ping, pings,
    until,
};

/// Two hosts on switches that a patch joins, a third behind a guest, and a flow.
const NET: &str = concat!(
    "wire = 'net'
[stub.@s]
[stub.@t]
[stub.@u]
[patch.trunk]
between = ['@s', '@t']
properties = { delay = '1ms' }
",
    member!(
        "a",
        "@s",
        "10.61.0.1/24",
        "routes = ['default via 10.61.0.3']",
        ""
    ),
    member!(
        "b",
        "@t",
        "10.61.0.2/24",
        "",
        "properties = { maxbw = '1G' }"
    ),
    member!(
        "c",
        "@u",
        "10.62.0.1/24",
        "routes = ['default via 10.62.0.3']",
        ""
    ),
    "[vnic.@g0]
link = '@s'
mac = '02:00:00:00:61:03'
[vnic.@g1]
link = '@u'
mac = '02:00:00:00:62:03'
[guest.@g]
interfaces = { x = '@g0', y = '@g1' }
config = '''
elementclass Side { $interface, $address |
    FromNetfront($interface) -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
    send :: Queue -> ToNetfront($interface);
    kind[0] -> ARPResponder($address $interface) -> send;
    kind[1] -> [1] arp :: ARPQuerier($address, $interface) -> send;
    kind[2] -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> output;
    kind[3] -> Discard;
    input -> DropBroadcasts -> DecIPTTL -> arp;
}
x :: Side(x, 10.61.0.3);
y :: Side(y, 10.62.0.3);
x -> y; y -> x;
'''
[flow.@f]
link = '@s'
attributes = { transport = 'icmp' }
properties = { maxbw = '100M' }
"
);

/// The same, but for an address, a limit, a switch that is new and a guest that is another.
fn other(host: &Host) -> String {
    let other = NET
        .replace("10.61.0.2/24", "10.61.0.4/24")
        .replace("maxbw = '1G'", "maxbw = '2G'")
        .replace("[stub.@u]", "[stub.@u]\n[stub.@v]")
        .replace("[guest.@g]", "[guest.@g]\nring-slots = 128");
    host.file("other.toml", &other)
}

/// Processes that a host's node started, itself among them.
fn processes(host: &Host) -> Vec<u32> {
    let mark = format!("WEIR_RUN={}", host.run().display());
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let ours = |pid: &u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ
            .split(|byte| *byte == 0)
            .any(|word| word == mark.as_bytes())
    };
    pids.filter(|pid| ours(pid) && alive(*pid)).collect()
}

/// Interfaces of this namespace whose names begin as the host's.
fn interfaces(host: &Host) -> Vec<String> {
    let names = std::fs::read_dir("/sys/class/net").unwrap().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name.starts_with(&host.prefix))
        .collect()
}

/// That of all wires nothing is there, and of the node's processes only its own, the switch's, the control store's and the zygote's.
#[track_caller]
fn nothing_is_left(host: &Host) {
    for nouns in [
        "wire show -p",
        "stub show -p",
        "vnic show -p",
        "flow show -p",
        "ls -p",
    ] {
        assert_eq!(host.ok(nouns), "", "{nouns}");
    }
    assert_eq!(named(&host.prefix), Vec::<String>::new());
    assert!(interfaces(host).is_empty());
    let view = host.view();
    let known = [view.pid, view.switch_pid.unwrap(), view.store_pid.unwrap()];
    // The zygote, and the process that it may have forked for the next guest, go with the node.
    until("guests are left", || {
        let others = processes(host)
            .into_iter()
            .filter(|pid| !known.contains(pid));
        others.count() <= 2
    });
}

#[test]
fn a_node_that_is_killed_while_it_makes_a_wire_leaves_all_of_it_or_none() {
    let mut host = Host::new();
    let (net, other) = (host.file("net.toml", NET), other(&host));
    let (a, c) = (format!("{}-a", host.prefix), format!("{}-c", host.prefix));
    // How long it takes without other load.
    let started = Instant::now();
    host.ok(&format!("wire apply {net}"));
    let takes = started.elapsed().as_micros() as u64;
    assert!(ping(&a, "10.61.0.2").is_some() && ping(&c, "10.61.0.1").is_some());
    let switch = host.switch_pid();
    let mut dice = Dice(u64::from(std::process::id()) | 1);
    println!("seed {}, applied in {takes} µs", dice.0);

    /// The present or desired state: nothing, the net, or the other one.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Is {
        Nothing,
        Net,
        Other,
    }
    let mut is = Is::Net;
    let mut ended = [0; 2];
    for round in 0..16 {
        let to = match (is, round % 4) {
            (Is::Nothing, _) => Is::Net,
            (_, 3) => Is::Nothing,
            (Is::Net, _) => Is::Other,
            (Is::Other, _) => Is::Net,
        };
        let arguments = match to {
            Is::Nothing => vec!["wire", "delete", "net"],
            Is::Net => vec!["wire", "apply", &net],
            Is::Other => vec!["wire", "apply", &other],
        };
        let mut command = host.weir(&arguments);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut asking = command.spawn().unwrap();
        std::thread::sleep(Duration::from_micros(dice.below(takes * 5 / 4)));
        host.end("-KILL");
        let told = asking.wait().unwrap().success();
        host.start();
        until("it is not brought to an end", || {
            let wires = host.json("wire show");
            let wires = wires.as_array().unwrap().iter();
            wires
                .into_iter()
                .all(|wire| wire["status"]["changing"] == false)
        });
        let there = !host.ok("wire show -p").is_empty();
        let same = |file: &str| there && host.ok(&format!("wire diff {file}")).is_empty();
        let now = match there {
            false => Is::Nothing,
            true if same(&net) => Is::Net,
            true if same(&other) => Is::Other,
            true => panic!(
                "{is:?} to {to:?} was left half done: {}{}",
                host.ok(&format!("wire diff {net}")),
                host.ok(&format!("wire diff {other}"))
            ),
        };
        assert!(now == is || now == to, "{is:?} to {to:?} became {now:?}");
        assert!(!told || now == to, "{is:?} to {to:?} was said to be done");
        ended[usize::from(now == to)] += 1;
        is = now;
        let address = match is {
            Is::Nothing => {
                nothing_is_left(&host);
                continue;
            }
            Is::Net => "10.61.0.2",
            Is::Other => "10.61.0.4",
        };
        assert_eq!(host.switch_pid(), switch, "the switch ended by itself");
        // Through the patch, and through the guest as well.
        assert!(ping(&a, address).is_some(), "{is:?}: the patch");
        assert!(ping(&a, "10.62.0.1").is_some(), "{is:?}: the guest");
    }
    println!("{} taken back, {} done", ended[0], ended[1]);
    if is != Is::Nothing {
        host.ok("wire delete net");
    }
    nothing_is_left(&host);
}

#[test]
fn a_wire_whose_names_are_taken_changes_nothing_and_takes_nobodys() {
    let host = Host::new();
    let net = host.file("net.toml", NET);
    let b = format!("{}-b", host.prefix);
    ip(&format!("netns add {b}"));
    let refusal = host.refusals(&format!("wire apply {net}"));
    assert!(
        refusal.contains(&format!("namespace ‘{b}’")) && refusal.contains("nothing was changed"),
        "{refusal}"
    );
    assert_eq!(
        named(&host.prefix),
        std::slice::from_ref(&b),
        "it is still there"
    );
    ip(&format!("netns delete {b}"));
    // Two wires may have patches of the same name.
    host.ok(&format!("wire apply {net}"));
    let second = "
wire = 'second'
[stub.@p]
[stub.@q]
[patch.trunk]
between = ['@p', '@q']
[namespace.@-d]
[namespace.@-e]
[vnic.@d]
link = '@p'
namespace = '@-d'
interface = 'eth0'
addresses = ['10.63.0.1/24']
[vnic.@e]
link = '@q'
namespace = '@-e'
interface = 'eth0'
addresses = ['10.63.0.2/24']
";
    host.ok(&format!("wire apply {}", host.file("second.toml", second)));
    assert!(ping(&format!("{}-d", host.prefix), "10.63.0.2").is_some());
    host.ok("wire delete second");
    assert!(ping(&format!("{}-a", host.prefix), "10.61.0.2").is_some());
    // A purge takes the wires' namespaces, too.
    host.ok("node --purge");
    assert!(named(&host.prefix).is_empty());
}

#[test]
fn a_ring_of_switches_is_warned_of_and_carries_traffic_all_the_same() {
    let host = Host::new();
    let ring = NET.replace(
        "[namespace.@-a]",
        "[patch.back]\nbetween = ['@s', '@t']\n[namespace.@-a]",
    );
    let file = host.file("ring.toml", &ring);
    let output = host.output(&format!("wire apply {file}"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("closes a cycle of switches"), "{said}");
    // Copies of floods come round; the switch goes on answering.
    let a = format!("{}-a", host.prefix);
    assert!(ping(&a, "10.61.0.2").is_some());
    host.ok("vnic stat");
}

#[test]
fn node_and_switch_killed_at_once_come_back_under_traffic_and_leave_nothing() {
    let mut host = Host::new();
    let net = host.file("net.toml", NET);
    host.ok(&format!("wire apply {net}"));
    let (a, c) = (format!("{}-a", host.prefix), format!("{}-c", host.prefix));
    assert!(ping(&a, "10.61.0.2").is_some() && ping(&c, "10.61.0.1").is_some());
    let guest = host.ok("ls -p -o pid");
    let settled = |host: &Host| {
        std::thread::sleep(Duration::from_millis(300));
        let view = host.view();
        let [node, switch] = [view.pid, view.switch_pid.unwrap()].map(|pid| holds(pid).0);
        (node, switch, processes(host).len())
    };
    let before = settled(&host);
    for round in 0..5 {
        let inside = std::process::Command::new("ip")
            .args([
                "netns",
                "exec",
                &a,
                "ping",
                "-i",
                "0.05",
                "-w",
                "60",
                "10.61.0.2",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let switch = host.switch_pid();
        // In either order.
        match round % 2 {
            0 => {
                kill("-KILL", switch);
                host.end("-KILL");
            }
            _ => {
                host.end("-KILL");
                kill("-KILL", switch);
            }
        }
        host.start();
        assert!(!alive(switch));
        // Addresses and routes are there again, and so what went on all the time is answered.
        assert!(ping(&a, "10.61.0.2").is_some());
        std::thread::sleep(Duration::from_secs(1));
        kill("-INT", inside.id());
        let (sent, came) = counted(inside);
        println!("{came} of {sent} pings were answered");
        assert!(came >= 15, "{came} of {sent} pings were answered");
        assert!(ping(&c, "10.61.0.1").is_some(), "through the guest");
        assert_eq!(host.ok("ls -p -o pid"), guest, "the guest went on");
        assert_eq!(host.ok(&format!("wire diff {net}")), "");
    }
    let after = settled(&host);
    assert!(
        after.0 <= before.0 + 1 && after.1 <= before.1 && after.2 <= before.2 + 1,
        "descriptors of node and switch, processes: {before:?}, then {after:?}"
    );
    host.ok("wire delete net");
    nothing_is_left(&host);
}

#[test]
fn a_guest_killed_with_its_rings_full_harms_nobody_and_comes_back() {
    let host = Host::new();
    let (a, b) = host.lan("10.64.0");
    host.ok("vnic create -l lan -m 02:00:00:00:64:03 -p maxbw=2M g0");
    // It sends more than it may, so that its transmit ring is full at all times.
    let config = host.config(
        "flood.click",
        "InfiniteSource(LENGTH 1000) -> EtherEncap(0x88b5, 02:00:00:00:64:03, 02:00:00:00:64:99)
    -> Queue -> ToNetfront(eth0);
FromNetfront(eth0) -> c :: Counter -> Discard;",
    );
    host.ok(&format!(
        "create g {config} --link eth0=g0 --restart always"
    ));
    let pid = || host.ok("ls -p -o pid g").trim().parse::<u32>();
    let flood = "
import socket
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(('a0', 0))
frame = bytes.fromhex('020000006403' '020000006401' '88b5') + bytes(100)
for i in range(5000):
    link.send(frame)
";
    let dropped = |reason: &str| {
        let stats = host.json("vnic stat g0");
        stats[0]["drops"][reason].as_u64().unwrap_or(0)
    };
    let switch = host.switch_pid();
    let mut files = 0;
    for round in 0..4 {
        let killed = pid().unwrap();
        kill("-STOP", killed);
        let mut command = a.command("python3", "-c");
        command.arg(flood);
        Runner::default().run(command, LIMIT).unwrap();
        // Its receive ring is full; its share of the stub's traffic waits or is counted.
        until("nothing is counted", || {
            dropped("ring-full") + dropped("over-limit") > 0
        });
        let others = Stream::start(path(&a), path(&b), "10.64.0.2");
        kill("-KILL", killed);
        until("it is not restarted", || {
            pid().is_ok_and(|pid| pid != killed) && host.ok("ls -p -o state g") == "running\n"
        });
        others.loses_nothing();
        until("it does not take frames", || {
            let mut command = a.command("python3", "-c");
            command.arg(flood.replace("5000", "5"));
            Runner::default().run(command, LIMIT).unwrap();
            let count = host.output("read g c.count").stdout;
            String::from_utf8(count)
                .unwrap()
                .trim()
                .parse()
                .unwrap_or(0)
                > 0
        });
        assert_eq!(host.switch_pid(), switch);
        let now = holds(switch).0;
        assert!(
            round == 0 || now == files,
            "the switch's descriptors: {files}, then {now}"
        );
        files = now;
    }
    host.ok("destroy g");
    pings(&a, "10.64.0.2");
}

#[test]
fn an_interface_that_goes_away_under_load_takes_nobody_with_it() {
    let host = Host::with(&["--lanes", "2"]);
    let runner = Runner::default();
    let near = format!("{}v", host.prefix);
    let (a, b) = host.lan("10.65.0");
    let mut files = 0;
    for round in 0..3 {
        let far = Namespace::new(&runner).unwrap();
        far.connect(&runner, &near, "10.66.0.1/24", None).unwrap();
        if round == 0 {
            host.ok(&format!("link attach {near} --mode packet --lanes 2"));
        }
        until("it is not taken up", || {
            host.ok(&format!("link show -p -o state {near}")) == "up\n"
        });
        let inner = host.namespace(&near, "in0", "10.66.0.2/24", None);
        pings(&inner, "10.66.0.1");
        let _server = far.service("iperf3", "-s").unwrap();
        let mut command = inner.command("iperf3", "-c 10.66.0.1 -t 5 -P 2");
        let mut load = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let others = Stream::start(path(&a), path(&b), "10.65.0.2");
        ip(&format!("link delete {near}"));
        until("it is not told of", || {
            host.ok(&format!("link show -p -o state {near}")) == "down\n"
        });
        others.loses_nothing();
        let _ = load.kill();
        let _ = load.wait();
        host.ok("vnic delete in0");
        let now = || holds(host.switch_pid()).0;
        match round {
            0 => files = now(),
            _ => until("the switch keeps descriptors", || now() == files),
        }
    }
}

#[test]
fn wires_made_and_deleted_again_and_again_leave_nothing() {
    let host = Host::new();
    let small = node::model::Wire::parse(
        &"
wire = 'small'
[stub.@s]
[stub.@t]
[patch.trunk]
between = ['@s', '@t']
[namespace.@-a]
routes = ['default via 10.67.0.2']
[vnic.@a]
link = '@s'
namespace = '@-a'
interface = 'eth0'
addresses = ['10.67.0.1/24']
[vnic.@h]
link = '@t'
host = true
[flow.@f]
link = '@s'
attributes = { transport = 'icmp' }
"
        .replace('@', &host.prefix),
        std::path::Path::new("small.toml"),
    )
    .unwrap();
    let mut larger = small.clone();
    larger.vnics.insert(
        format!("{}g", host.prefix),
        node::model::Vnic {
            link: format!("{}s", host.prefix),
            ..Default::default()
        },
    );
    larger.guests.insert(
        format!("{}g", host.prefix),
        node::model::Guest {
            config: "FromNetfront(eth0) -> Discard;".into(),
            interfaces: [("eth0".into(), format!("{}g", host.prefix))].into(),
            ..Default::default()
        },
    );
    let client = host.client();
    let round = |i: u32| {
        let wire = if i.is_multiple_of(10) {
            &larger
        } else {
            &small
        };
        client.apply(wire).unwrap();
        client.delete::<node::model::Wire>("small").unwrap();
    };
    // Tables and pools reach their sizes first.
    (0..50).for_each(round);
    let view = host.view();
    let (node, switch) = (view.pid, view.switch_pid.unwrap());
    let held = || {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let mounts = mounts
            .lines()
            .filter(|line| line.contains(&host.prefix))
            .count();
        (holds(node), holds(switch), processes(&host).len(), mounts)
    };
    std::thread::sleep(Duration::from_millis(300));
    let before = held();
    (50..300).for_each(round);
    until(
        "descriptors, processes or mounts of namespaces are left",
        || {
            let after = held();
            after.0.0 <= before.0.0
                && after.1.0 <= before.1.0
                && after.2 <= before.2
                && after.3 <= before.3
        },
    );
    let after = held();
    // A leak of 1 KiB a round would be 250.
    assert!(after.0.1 < before.0.1 + 200, "the node's memory");
    assert!(after.1.1 < before.1.1 + 200, "the switch's memory");
    nothing_is_left(&host);
}

#[test]
fn what_is_down_for_want_of_a_switch_says_so() {
    let host = Host::new();
    host.ok("stub create lan");
    host.ok(&format!("vnic create -l lan --host {}", host.prefix));
    let shown =
        || host.ok("vnic show -p -o state,reason") + &host.ok("stub show -p -o state,reason");
    assert_eq!(shown(), "up:\nup:\n");
    // Where no socket can be, no other switch can be started.
    let socket = host.run().join("switch.control");
    std::fs::remove_file(&socket).unwrap();
    std::fs::create_dir(&socket).unwrap();
    kill("-KILL", host.switch_pid());
    until("the switch is not missed", || {
        host.view().switch_pid.is_none() && shown().starts_with("down:")
    });
    let down = shown();
    let lines: Vec<_> = down.lines().collect();
    assert_eq!(lines.len(), 2, "{down}");
    for line in lines {
        let why = line.strip_prefix("down:there is no switch\\: ");
        assert!(
            why.is_some_and(|why| why.contains("switch.control")),
            "{line}"
        );
    }
    // Ports are checked every 5 s: a switch that does not answer is not reported otherwise.
    std::thread::sleep(Duration::from_secs(5));
    let said = host.said.lock().unwrap().join("\n");
    assert!(!said.contains("does not answer"), "{said}");
    std::fs::remove_dir(&socket).unwrap();
    until("no switch is started", || shown() == "up:\nup:\n");
}
