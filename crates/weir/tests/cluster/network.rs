//! A network over hosts: guests keep their addresses wherever they are.

use serde_json::Value;

use crate::common::{assert_contains, counted, pinging, pings, until};
use crate::net::Net;

/// The tunnel of a host's link: its remotes, and its neighbors' Ethernet addresses.
fn tunnel(net: &Net, number: usize, link: &str) -> Option<(Vec<String>, Vec<String>)> {
    let output = net.hosts[number].output(&format!("link show --json {link}"));
    let shown: Value = serde_json::from_slice(&output.stdout).ok()?;
    let link = shown.as_array().map_or(&shown, |all| &all[0]);
    let tunnel = link["vxlan"].as_object()?;
    let texts = |value: Option<&Value>, field: &str| -> Vec<String> {
        let all = value.and_then(Value::as_array).into_iter().flatten();
        let text = |it: &Value| it.get(field).unwrap_or(it).as_str().unwrap().to_string();
        all.map(text).collect()
    };
    let neighbors = texts(tunnel.get("neighbors"), "mac");
    Some((texts(tunnel.get("remotes"), ""), neighbors))
}

#[test]
fn a_network_spans_hosts_and_guests_keep_their_addresses() {
    let mut net = Net::new("network", 3, 1);
    net.cluster("");
    let [a, b, c] = [0, 1, 2];
    net.hosts[a].ok("network create over");
    let remotes = |number: usize| tunnel(&net, number, "over").map(|it| it.0);
    until("each host has the network's link", || {
        [a, b, c].iter().all(|it| remotes(*it) == Some(vec![]))
    });
    refusals(&net);
    until("guests may be placed on all hosts", || {
        let links = net.hosts[a].ok("host ls -p -o links");
        links.lines().filter(|it| it.contains("over")).count() == 3
    });

    let create = |name: &str, host: &str, ip: &str| {
        format!(
            "create --cluster {name} responder -p ip={ip} -p net=10.7.0.0/24 -p pool=10.7.0.200-10.7.0.210 --link port=over --on {host} --isolation process"
        )
    };
    net.hosts[c].ok(&create("one", "a", "10.7.0.1"));
    // It starts on the one, and may go to the other.
    net.hosts[c].ok("host maintain c");
    net.hosts[c].ok(&create("two", "b,c", "10.7.0.2"));
    net.settles(a, 2);
    net.hosts[c].ok("host activate c");
    let user = net.hosts[a].namespace("over", "u0", "10.7.0.100/24", None);
    // Only hosts with VNICs get frames, and know each other's addresses.
    let (at_a, at_b) = (net.address(a), net.address(b));
    until("the hosts know each other", || {
        tunnel(&net, a, "over").is_some_and(|it| it.0 == [at_b.clone()] && it.1.len() == 1)
            && tunnel(&net, b, "over").is_some_and(|it| it.0 == [at_a.clone()] && it.1.len() == 2)
    });
    pings(&user, "10.7.0.1");
    pings(&user, "10.7.0.2");
    let shown = net.hosts[a].ok("network ls -p -o network,vni,port,mtu,vnics,hosts");
    assert_eq!(shown, "over:1:4789:1450:3:a,b\n");
    let inside = user.command("ip", "-o link show u0").output().unwrap();
    assert_contains(&String::from_utf8(inside.stdout).unwrap(), "mtu 1450 ");

    // A guest moves, with its address; others reach it where it is.
    let ping = pinging(&user, "10.7.0.2", 5);
    net.hosts[a].ok("migrate --cluster two c");
    let (sent, came) = counted(ping);
    println!("{came} of {sent} pings were answered while the guest moved");
    assert!(sent - came <= 20, "{came} of {sent} pings were answered");
    let at_c = net.address(c);
    until("the host that it left gets no frames", || {
        remotes(a) == Some(vec![at_c.clone()])
    });
    pings(&user, "10.7.0.2");

    // An agent that is killed finds the network as it was.
    net.kill_agent(a);
    net.start_agent(a);
    // A host that is lost takes its part with it. Its guest starts elsewhere, with its address.
    let mac = |number: usize| {
        net.hosts[number]
            .output("vnic show two.port -p -o mac")
            .stdout
    };
    let address = mac(c);
    assert!(!address.is_empty());
    net.kill_agent(c);
    let remotes = |number: usize| tunnel(&net, number, "over").map(|it| it.0);
    until("the lost host gets no frames", || {
        remotes(a) == Some(vec![])
    });
    let mac = |number: usize| {
        net.hosts[number]
            .output("vnic show two.port -p -o mac")
            .stdout
    };
    until("the guest does not run elsewhere with its address", || {
        mac(b) == address
    });
    net.start_agent(c);
    net.settles(a, 2);
    pings(&user, "10.7.0.2");
    net.hosts[a].refuses(
        "network delete over",
        "network over has interfaces of guests one, two",
    );
    net.hosts[a].ok("destroy --cluster one two");
    until("the guests' addresses are gone", || {
        net.hosts[a].ok("network ls -p -o vnics,hosts") == "1:a\n"
    });
    // A host that has just returned may tell of a VNIC that it is about to remove.
    until("the last VNIC does not keep the network", || {
        let said = net.hosts[a].refusal("network delete over");
        said.contains("network over has 1 VNICs on hosts a")
    });
    net.hosts[a].ok("vnic delete u0");
    until("the network is removed", || {
        net.hosts[a].output("network delete over").status.success()
    });
    let remotes = |number: usize| tunnel(&net, number, "over").map(|it| it.0);
    until("its links are removed", || {
        [a, b, c].iter().all(|it| remotes(*it).is_none())
    });
}

fn refusals(net: &Net) {
    let [a, b] = [&net.hosts[0], &net.hosts[1]];
    for (command, why) in [
        ("network create over", "there is a network over already"),
        ("network create x --vni 1", "VNI 1 is that of network over"),
        ("network create x --vni 16777216", "the maximum is 16777215"),
        ("network create x --mtu 9000000", "not in 576..=1500"),
        ("network create -- -x", "-x"),
        ("network delete x", "there is no network x: there are over"),
    ] {
        assert_contains(&a.refusal(command), why);
    }
    // A stub of the host's own stays; the others have the network.
    b.ok("stub create own");
    a.ok("network create own");
    until("the host says why", || {
        a.ok("network ls -p -o network,faults")
            .contains("own:b\\: ")
    });
    assert_contains(&b.ok("stub show -p -o link"), "own\n");
    a.ok("network delete own");
    until("the link is removed", || tunnel(net, 0, "own").is_none());
    b.ok("stub delete own");
}

/// A guest that sends nothing is found by the switches of a physical network where it starts, also on another host.
#[test]
fn a_physical_network_learns_where_a_guest_is() {
    let mut net = Net::new("physical", 2, 1);
    net.add_physical();
    net.cluster("");
    until("guests may be placed on both hosts", || {
        let links = net.hosts[0].ok("host ls -p -o links");
        links.lines().filter(|it| it.contains("eth1")).count() == 2
    });
    let quiet = net.hosts[0].config("quiet.click", "FromNetfront(port) -> Discard;");
    net.hosts[0].ok(&format!(
        "create --cluster g {quiet} --link port=eth1 --on b,a --isolation process"
    ));
    net.settles(0, 1);
    let at = (0..2).find(|it| !net.running(*it).is_empty()).unwrap();
    let other = 1 - at;
    let mac = net.hosts[at].ok("vnic show g.port -p -o mac");
    let mac = mac.trim().replace('\\', "");
    until("the guest is not announced", || net.seen_at(&mac) == [at]);

    net.hosts[at].ok("announce g");
    net.hosts[at].refuses("announce no", "no guest ‘no’");
    net.kill_agent(at);
    until("it does not start elsewhere", || {
        net.running(other).len() == 1
    });
    until("it is not announced there", || net.seen_at(&mac) == [other]);
}
