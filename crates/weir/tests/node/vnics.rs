//! VNICs: what becomes of them when their namespace goes, and when their properties change.

use std::path::Path;
use std::process::Command;

use crate::common::{BOTH_WAYS, Host, inside, ip, kill, member, ping, until};

/// Waits until a VNIC is up or down.
#[track_caller]
fn becomes(host: &Host, vnic: &str, state: &str) {
    until(&format!("{vnic} is not {state}"), || {
        host.ok(&format!("vnic show -p -o state {vnic}")).trim() == state
    });
}

/// An interface, by its number and address: one that is recreated has another number.
fn interface(namespace: &str, name: &str) -> String {
    let said = inside(namespace, &format!("cat /sys/class/net/{name}/ifindex"));
    said.unwrap_or_else(|| panic!("{namespace} has no {name}"))
}

#[test]
fn a_vnic_whose_interface_is_down_or_elsewhere_is_down() {
    let host = Host::new();
    let [a, b] = ["a", "b"].map(|name| format!("{}-{name}", host.prefix));
    host.ok("stub create lan");
    for namespace in [&a, &b] {
        ip(&format!("netns add {namespace}"));
    }
    host.ok(&format!("vnic create -l lan --netns {a} a0"));
    let own = format!("{}t", host.prefix);
    host.ok(&format!("vnic create -l lan --host {own}"));
    let reason = |name: &str| {
        let view = host.json(&format!("vnic show {name}"));
        let reason = view[0]["status"]["reason"].as_str().unwrap_or("");
        assert_eq!(
            view[0]["status"]["state"] == "down",
            !reason.is_empty(),
            "{view}"
        );
        reason.to_string()
    };
    assert_eq!(reason("a0"), "");
    ip(&format!("-n {a} link set a0 down"));
    assert_eq!(
        reason("a0"),
        format!("interface ‘a0’ in namespace ‘{a}’ is down: `ip -n {a} link set a0 up`")
    );
    let gone = format!(
        "there is no interface ‘a0’ in namespace ‘{a}’: it was removed, renamed or moved away"
    );
    ip(&format!("-n {a} link set a0 name a1"));
    assert_eq!(reason("a0"), gone);
    ip(&format!("-n {a} link set a1 name a0"));
    ip(&format!("-n {a} link set a0 netns {b}"));
    assert_eq!(reason("a0"), gone);
    ip(&format!("-n {b} link set a0 netns {a}"));
    ip(&format!("-n {a} link set a0 up"));
    assert_eq!(reason("a0"), "");

    assert_eq!(reason(&own), "");
    ip(&format!("link set {own} down"));
    assert!(reason(&own).contains("is down: `ip link set"));
}

#[test]
fn a_vnic_whose_namespace_goes_is_down_until_there_is_another() {
    let mut host = Host::new();
    let [a, b] = ["a", "b"].map(|name| format!("{}-{name}", host.prefix));
    host.ok("stub create lan");
    for (namespace, vnic, address) in [(&a, "a0", "10.67.0.1/24"), (&b, "b0", "10.67.0.2/24")] {
        ip(&format!("netns add {namespace}"));
        host.ok(&format!(
            "vnic create -l lan --netns {namespace} -a {address} {vnic}"
        ));
    }
    assert!(ping(&a, "10.67.0.2").is_some());
    let other = interface(&b, "b0");

    // This interface lasts as long as the namespace that its peer is in.
    let witness = format!("{}w", host.prefix);
    let place = format!("/sys/class/net/{witness}");
    ip(&format!(
        "link add {witness} type veth peer name w0 netns {a}"
    ));
    ip(&format!("netns delete {a}"));
    becomes(&host, "a0", "down");
    let view = host.json("vnic show a0");
    let reason = view[0]["status"]["reason"].as_str().unwrap();
    assert_eq!(
        reason,
        format!("no network namespace ‘{a}’: `ip netns add {a}` makes one")
    );
    until("the namespace does not end", || !Path::new(&place).exists());
    ip(&format!("netns add {a}"));
    becomes(&host, "a0", "up");
    assert!(ping(&a, "10.67.0.2").is_some(), "it has its address again");

    // Another of its name may be there before anybody looks, and processes in the one that was.
    let mut stays = Command::new("ip")
        .args(["netns", "exec", &a, "sleep", "60"])
        .spawn()
        .unwrap();
    until("the process is not in the namespace", || {
        let pids = inside(&a, &format!("ip netns pids {a}"));
        pids.is_some_and(|pids| pids.lines().any(|pid| pid == stays.id().to_string()))
    });
    ip(&format!("netns delete {a}"));
    ip(&format!("netns add {a}"));
    until("it is not reattached", || {
        inside(&a, "cat /sys/class/net/a0/address").is_some()
    });
    assert!(ping(&a, "10.67.0.2").is_some());
    stays.kill().unwrap();
    stays.wait().unwrap();

    // Changes were not seen while there was no node.
    host.end("-KILL");
    ip(&format!("netns delete {a}"));
    ip(&format!("netns add {a}"));
    host.start();
    becomes(&host, "a0", "up");
    assert!(ping(&a, "10.67.0.2").is_some());
    assert_eq!(interface(&b, "b0"), other, "b's was left alone");
}

#[test]
fn a_namespace_of_a_wire_that_is_deleted_is_made_anew() {
    let host = Host::new();
    let net = concat!(
        "wire = 'net'\n[stub.@s]\n",
        member!(
            "a",
            "@s",
            "10.68.0.1/24",
            "forwarding = true\nroutes = ['default via 10.68.0.2']",
            ""
        ),
        member!("b", "@s", "10.68.0.2/24"),
    );
    host.ok(&format!("wire apply {}", host.file("net.toml", net)));
    let a = format!("{}-a", host.prefix);
    assert!(ping(&a, "10.68.0.2").is_some());
    ip(&format!("netns delete {a}"));
    until("it is not recreated", || {
        inside(&a, "ip route show default").is_some_and(|said| said.contains("10.68.0.2"))
    });
    assert!(ping(&a, "10.68.0.2").is_some());
    let forwards = inside(&a, "cat /proc/sys/net/ipv4/ip_forward");
    assert_eq!(forwards.as_deref(), Some("1\n"));
    assert_eq!(host.ok("vnic show -p -o state"), "up\nup\n");
}

/// The MTU that the kernel has for an interface in a namespace, and the one that the node tells.
fn mtus(host: &Host, namespace: &str, vnic: &str) -> [u16; 2] {
    let kernel = inside(namespace, &format!("cat /sys/class/net/{vnic}/mtu")).unwrap();
    let told = host.ok(&format!("vnic show -p -o mtu {vnic}"));
    [kernel, told].map(|mtu| mtu.trim().parse().unwrap())
}

/// Whether pings of that many bytes arrive and are answered, in one piece if they are not to be
/// fragmented.
fn long_pings(from: &str, to: &str, bytes: u16, whole: bool) -> bool {
    let whole = if whole { "do" } else { "dont" };
    let command = format!("ping -n -c 3 -i 0.05 -W 2 -M {whole} -s {bytes} {to}");
    inside(from, &command).is_some()
}

#[test]
fn an_interface_has_the_mtu_that_its_vnic_is_given() {
    let mut host = Host::new();
    let [a, b] = ["a", "b"].map(|name| format!("{}-{name}", host.prefix));
    host.ok("stub create --mtu 9000 jumbo");
    for (namespace, vnic, address) in [(&a, "a0", "10.69.0.1/24"), (&b, "b0", "10.69.0.2/24")] {
        ip(&format!("netns add {namespace}"));
        host.ok(&format!(
            "vnic create -l jumbo -p mtu=1400 --netns {namespace} -a {address} {vnic}"
        ));
    }
    let ends = [(&a, "a0"), (&b, "b0")];
    for (namespace, vnic) in ends {
        assert_eq!(mtus(&host, namespace, vnic), [1400; 2]);
        host.ok(&format!("vnic set-prop -p mtu=1000 {vnic}"));
        assert_eq!(mtus(&host, namespace, vnic), [1000; 2]);
    }
    assert!(long_pings(&a, "10.69.0.2", 1200, false));

    // The next switch and the next node.
    host.lose_switch();
    host.end("-KILL");
    host.start();
    assert_eq!(mtus(&host, &a, "a0"), [1000; 2]);
    for (namespace, vnic) in ends {
        host.ok(&format!("vnic reset-prop -p mtu {vnic}"));
        assert_eq!(mtus(&host, namespace, vnic), [9000; 2]);
    }
    assert!(long_pings(&a, "10.69.0.2", 8000, true));
    // Both at once: the interface is recreated.
    host.ok("vnic set-prop -p mtu=1300 a0");
    let switch = host.switch_pid();
    host.end("-KILL");
    kill("-KILL", switch);
    host.start();
    becomes(&host, "a0", "up");
    assert_eq!(mtus(&host, &a, "a0"), [1300; 2]);
    host.ok("vnic reset-prop -p mtu a0");
    assert!(long_pings(&a, "10.69.0.2", 8000, true));
}

#[test]
fn a_guest_on_a_link_of_long_packets_says_what_it_takes() {
    let host = Host::new();
    host.ok("stub create --mtu 9000 jumbo");
    let config = host.file("sink.click", "FromNetfront(a) -> Discard;");
    let created = host.output(&format!("create g {config} --link a=jumbo"));
    let said = String::from_utf8_lossy(&created.stderr);
    assert!(created.status.success(), "{said}");
    let warned = "has an MTU of 9000 bytes, and a guest takes IP packets of at most 1838";
    assert!(said.contains(warned), "{said}");
    assert_eq!(host.ok("vnic show -p -o mtu g.a"), "1838\n");
    assert_eq!(host.ok("read g FromNetfront@1.mtu").trim(), "1838");
    assert_eq!(
        host.refusal("vnic create -l jumbo -p mtu=4000 other")
            .trim(),
        "mtu=4000 for ‘other’ is invalid: a guest takes IP packets of at most 1838 bytes"
    );
    host.ok("vnic create -l jumbo -p mtu=1500 other");
    let config = host.file("other.click", "FromNetfront(b) -> Discard;");
    let created = host.output(&format!("create h {config} --link b=other"));
    assert!(created.status.success() && created.stderr.is_empty());
}

#[test]
fn an_mtu_that_cannot_be_is_refused_and_changes_nothing() {
    let host = Host::new();
    let a = format!("{}-a", host.prefix);
    ip(&format!("netns add {a}"));
    host.ok("stub create lan");
    let create = format!("vnic create -l lan --netns {a} -p mtu=9000 a0");
    let over = "mtu=9000 for ‘a0’ is invalid: its link ‘lan’ has an MTU of 1500 bytes, the maximum";
    assert_eq!(host.refusal(&create), over);
    assert_eq!(host.ok("vnic show -p"), "");
    host.ok(&format!(
        "vnic create -l lan --netns {a} -a fd00:69::1/64 a0"
    ));
    assert_eq!(host.refusal("vnic set-prop -p mtu=9000 a0"), over);
    let few = host.refusal("vnic set-prop -p mtu=1000 a0");
    assert!(
        few.contains("fd00:69::1/64") && few.contains("1280"),
        "{few}"
    );
    // One that was renamed cannot be found: what the switch did already is taken back.
    for words in ["a0 down", "a0 name x0", "x0 up"] {
        ip(&format!("-n {a} link set {words}"));
    }
    host.refuses(
        "vnic set-prop -p mtu=1400,maxbw=1M a0",
        "the MTU of ‘a0’ in namespace",
    );
    for words in ["x0 down", "x0 name a0", "a0 up"] {
        ip(&format!("-n {a} link set {words}"));
    }
    assert_eq!(mtus(&host, &a, "a0"), [1500; 2]);
    let view = host.json("vnic show a0");
    assert!(view[0]["properties"].is_null(), "{view}");

    // A guest is told when it starts.
    for vnic in ["ga", "gb"] {
        host.ok(&format!("vnic create -l lan {vnic}"));
    }
    let config = host.config("wire.click", BOTH_WAYS);
    host.ok(&format!("create g {config} --link a=ga --link b=gb"));
    let told = host.refusal("vnic set-prop -p mtu=1000,maxbw=1G ga");
    assert!(
        told.contains("guest ‘g’") && told.contains("`weir destroy g`"),
        "{told}"
    );
    host.ok("vnic set-prop -p maxbw=1G,mtu=1500 ga");
    host.ok("destroy g");
    host.ok("vnic set-prop -p mtu=1000 ga");
    assert_eq!(host.ok("vnic show -p -o mtu ga"), "1000\n");
}
