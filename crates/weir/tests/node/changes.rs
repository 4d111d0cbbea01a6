//! Changes of a guest, whether it runs or not.

use crate::common::{BOTH_WAYS, Host, assert_contains, kill, pings, until};

/// A guest that counts what comes.
const SINK: &str = "FromNetfront(eth0) -> c :: Counter -> Discard;";

#[test]
fn a_change_holds_at_once_or_from_the_next_start_on_and_says_so() {
    let mut host = Host::new();
    host.ok("stub create lan");
    host.ok("stub create other");
    let config = host.config("sink.click", SINK);
    host.ok(&format!("create g {config} --link eth0=lan"));
    let pid = host.ok("ls -p -o pid");
    host.shows("set g --restart always", "");
    host.shows("ls -p -o restart,pending", "always:\n");
    host.shows(
        "set g --memory 8M --cpus 2 --ring-slots 512",
        "g: memory, ring-slots, cpus from its next start on: `weir restart g`\n",
    );
    assert_eq!(host.ok("ls -p -o pid"), pid);
    assert_contains(&host.ok("show g"), "pending     memory,ring-slots,cpus\n");
    // What is put back is not pending any more.
    host.shows(
        "set g --cpus 1",
        "g: memory, ring-slots from its next start on: `weir restart g`\n",
    );
    // The next node controls the guest as it runs, and knows what is pending.
    host.end("-KILL");
    host.start();
    assert_eq!(host.ok("ls -p -o pid"), pid);
    assert_eq!(host.ok("read g c.count"), "0\n");
    host.shows("ls -p -o pending", "memory,ring-slots\n");
    // A restart after a kill is a start, too.
    kill("-KILL", pid.trim().parse().unwrap());
    until("it is not restarted", || {
        host.ok("ls -p -o state,pending,memory") == "running::8388608\n"
    });
    let size = |host: &Host| -> u64 {
        let pid = host.ok("ls -p -o pid");
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", pid.trim())).unwrap();
        let length = |line: &str| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            Some(number(end)? - number(start)?)
        };
        let data = maps
            .lines()
            .filter(|line| line.contains("/memfd:weir-data "));
        data.filter_map(length).sum()
    };
    let wide = size(&host);
    host.ok("set g --ring-slots 64");
    assert_eq!(size(&host), wide);
    host.ok("restart g");
    assert!(size(&host) < wide);
    // What cannot be is refused, and nothing is changed.
    host.refuses("set g --memory 1K", "memory");
    host.refuses("set g --link eth0=none", "no VNIC or link ‘none’");
    host.refuses("set g --unlink eth0", "interface 'eth0' has no link");
    host.refuses("set g", "nothing to set");
    host.refuses("set none --memory 8M", "no guest ‘none’");
    host.shows("ls -p -o pending,memory", ":8388608\n");
}

#[test]
fn what_a_configuration_has_no_use_for_is_told() {
    let host = Host::new();
    host.ok("stub create lan");
    let config = host.config("sink.click", SINK);
    let unknown = "sink.click has no variable 'RATE': its text has no $RATE";
    host.refuses(
        &format!("create g {config} --link eth0=lan RATE=3"),
        unknown,
    );
    host.shows("ls -p -o guest", "");
    host.refuses(
        &format!("run {config} --link eth0=tap:x --link eth1=tap:y"),
        "no element uses interface 'eth1': leave out --link eth1=",
    );
    host.refuses(&format!("run {config} --link eth0=tap:x RATE=3"), unknown);
    host.ok(&format!("create g {config} --link eth0=lan"));
    host.refuses("set g --variable RATE=3", unknown);
    host.refuses(
        "set g --unlink eth1",
        "guest ‘g’ has no interface ‘eth1’ to remove: it has eth0",
    );
    let other = host.config("other.click", "Idle -> Discard;");
    host.refuses(
        &format!("install g other {other} RATE=3"),
        "other.click has no variable 'RATE'",
    );
    // A configuration that is installed later may use an interface.
    let warns = |arguments: &str, interface: &str| {
        let output = host.output(arguments);
        assert!(output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        let expected = format!("no element uses interface '{interface}' until");
        assert_contains(&said, &expected);
    };
    warns("set g --link eth1=lan", "eth1");
    warns(&format!("create later {other} --link eth0=lan"), "eth0");
    host.ok(&format!("install later sink {config}"));
    // What a guest had may stay with it.
    let rated = "FromNetfront(eth0) -> Print($RATE) -> Discard;";
    let rated = host.config("rated.click", rated);
    host.ok(&format!("set g --config {rated} --variable RATE=3"));
    host.ok(&format!("set g --config {config}"));
}

#[test]
fn a_guest_that_does_not_run_is_changed_as_well() {
    let host = Host::new();
    host.ok("stub create lan");
    let config = host.config("sink.click", SINK);
    host.ok(&format!("create g {config} --link eth0=lan"));
    host.ok("stop g");
    let halts = host.config("halts.click", "Script(stop);");
    host.shows(
        &format!("set g --config {halts} --unlink eth0 --memory 6M"),
        "",
    );
    host.shows(
        "ls -p -o state,memory,interfaces,pending",
        "stopped:6291456::\n",
    );
    host.shows("vnic show -p -o vnic", "");
    host.ok("start g");
    until("it does not halt", || {
        host.ok("ls -p -o state") == "halted\n"
    });
    host.shows(&format!("set g --config {config} --link eth0=lan"), "");
    host.ok("start g");
    host.shows("ls -p -o state,interfaces", "running:eth0=g.eth0\n");
    assert_eq!(host.ok("read g c.count"), "0\n");
    host.ok("destroy g");
    assert_eq!(host.view().vnics, 0);
}

/// Interfaces move to other links, and what stays keeps its VNIC and address.
#[test]
fn the_links_of_a_guest_change_with_its_next_start() {
    let host = Host::new();
    for stub in ["one", "two", "three"] {
        host.ok(&format!("stub create {stub}"));
    }
    let client = host.namespace("one", "a0", "10.88.0.1/24", None);
    let _server = host.namespace("three", "b0", "10.88.0.2/24", None);
    let config = host.config("wire.click", BOTH_WAYS);
    host.ok(&format!("create wire {config} --link a=one --link b=two"));
    let mac = host.ok("vnic show wire.a -p -o mac");
    host.shows(
        "set wire --link b=three",
        "wire: interfaces from its next start on: `weir restart wire`\n",
    );
    host.shows("vnic show wire.b -p -o link", "two\n");
    host.ok("restart wire");
    host.shows("vnic show wire.b -p -o link", "three\n");
    assert_eq!(host.ok("vnic show wire.a -p -o mac"), mac);
    pings(&client, "10.88.0.2");
    // A VNIC of one's own, with a flow on the one that is to go.
    host.ok("vnic create -l three own");
    host.ok("flow add -l wire.b -a transport=udp f");
    host.refuses("set wire --link b=own", "‘wire.b’ has flows");
    host.ok("flow remove f");
    host.ok("set wire --link b=own");
    host.ok("restart wire");
    host.shows("ls -p -o interfaces,pending", "a=wire.a,b=own:\n");
    host.refuses("vnic show wire.b", "no VNIC ‘wire.b’");
    pings(&client, "10.88.0.2");
    let events = host.ok("events wire");
    assert_contains(
        &events,
        "was changed: interfaces from its next start on (by root)\n",
    );
}

/// Values of variables stay with a guest under any configuration.
#[test]
fn variables_of_a_configuration_stay_with_the_guest() {
    let mut host = Host::new();
    let config = host.config(
        "says.click",
        "define($A 1, $B 2);\nScript(print \"$A $B\");\n",
    );
    let other = host.config(
        "other.click",
        "Script(print \"now $A\");\nIdle -> Discard;\n",
    );
    host.ok(&format!("create g {config} A=5"));
    host.shows("console g", "5 2\n");
    host.ok("restart g");
    host.shows("console g", "5 2\n");
    let mut write = host.weir(&["write", "g", "hotconfig"]);
    write.stdin(std::fs::File::open(&other).unwrap());
    assert!(write.status().unwrap().success());
    host.shows("console g", "5 2\nnow 5\n");
    host.end("-KILL");
    host.start();
    host.ok("restart g");
    host.shows("console g", "now 5\n");
    host.shows("set g --variable A=7", "");
    host.shows("console g", "now 5\nnow 7\n");
    host.shows("ls -p -o variables", "A=7\n");
    // What the node checks is what the guest takes, and what it says has the file's own lines.
    let wrong = host.config(
        "wrong.click",
        "define($A 1);\nIdle -> Shaper($A) -> Discard;\n",
    );
    let said = host.refusals(&format!("create w {wrong} A=much"));
    assert_contains(&said, "wrong.click:2");
    host.refuses(
        &format!("create w {config} A"),
        "‘A’ is not a setting: write NAME=VALUE",
    );
    host.ok(&format!("create --count 2 --name g{{}} {config} B=9"));
    host.shows("logs g1 g2", "g1: 1 9\ng2: 1 9\n");
}
