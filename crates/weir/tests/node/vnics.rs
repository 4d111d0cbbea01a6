//! VNICs: what becomes of them when their namespace goes.

use std::path::Path;
use std::process::Command;

use crate::common::{Host, ip, member, not_root, ping, until};

/// What a program in a namespace prints, if it succeeds.
fn inside(namespace: &str, command: &str) -> Option<String> {
    let mut program = Command::new("ip");
    program.args(["netns", "exec", namespace]);
    let output = program.args(command.split_whitespace()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(said)
}

/// Waits until a VNIC is up or down.
#[track_caller]
fn becomes(host: &Host, vnic: &str, state: &str) {
    until(&format!("{vnic} is not {state}"), || {
        host.ok(&format!("vnic show -p -o state {vnic}")).trim() == state
    });
}

/// An interface, by its number and address: one that is made anew has another number.
fn interface(namespace: &str, name: &str) -> String {
    let said = inside(namespace, &format!("cat /sys/class/net/{name}/ifindex"));
    said.unwrap_or_else(|| panic!("{namespace} has no {name}"))
}

#[test]
fn a_vnic_whose_namespace_goes_is_down_until_there_is_another() {
    if not_root() {
        return;
    }
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
    let reason = view[0]["reason"].as_str().unwrap();
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
    until("it is not attached anew", || {
        inside(&a, "cat /sys/class/net/a0/address").is_some()
    });
    assert!(ping(&a, "10.67.0.2").is_some());
    stays.kill().unwrap();
    stays.wait().unwrap();

    // Nobody looked while there was no node.
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
    if not_root() {
        return;
    }
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
    until("it is not made anew", || {
        inside(&a, "ip route show default").is_some_and(|said| said.contains("10.68.0.2"))
    });
    assert!(ping(&a, "10.68.0.2").is_some());
    let forwards = inside(&a, "cat /proc/sys/net/ipv4/ip_forward");
    assert_eq!(forwards.as_deref(), Some("1\n"));
    assert_eq!(host.ok("vnic show -p -o state"), "up\nup\n");
}
