//! Frames between hosts that are encrypted by WireGuard.

use std::os::unix::fs::symlink;

use weir::lab::Runner;

use crate::common::{LIMIT, assert_contains, pings, until};
use crate::net::{Net, ip};

#[test]
fn frames_between_hosts_are_encrypted() {
    let mut net = Net::new("encrypted", 3, 1);
    net.cluster("--wireguard=51900");
    let status = net.hosts[1].ok("cluster status");
    assert_contains(&status, "frames encrypted by WireGuard at UDP port 51900");
    net.hosts[0].ok("network create over");
    net.hosts[0].refuses(
        "network create x --port 51900",
        "UDP port 51900 is that of WireGuard",
    );
    until("guests may be placed on all hosts", || {
        let links = net.hosts[0].ok("host ls -p -o links");
        links.lines().filter(|it| it.contains("over")).count() == 3
    });
    for (name, host, last) in [("one", "a", 1), ("two", "b", 2)] {
        net.hosts[0].ok(&format!(
            "create --cluster {name} responder -p ip=10.7.0.{last} -p net=10.7.0.0/24 -p pool=10.7.0.200-10.7.0.210 --link port=over --on {host} --isolation process"
        ));
    }
    net.settles(0, 2);
    let user = net.hosts[0].namespace("over", "u0", "10.7.0.100/24", None);
    pings(&user, "10.7.0.2");
    let seen = net.underlay("udp", || pings(&user, "10.7.0.2"));
    assert!(seen.matches(".51900 > ").count() >= 6, "{seen}");
    assert!(!seen.contains(".4789: "), "{seen}");
    let shown = net.hosts[0].ok("network ls -p -o mtu,faults");
    assert_eq!(shown, "1350:\n");
    // The longest packet comes through.
    let longest = user.command("ping", "-c 1 -W 2 -M do -s 1322 10.7.0.2");
    Runner::default().run(longest, LIMIT).unwrap();

    // Frames that reach a host past WireGuard are not taken, whatever addresses they have.
    let forge = || net.forge(0, &inside(&net, 1), &inside(&net, 0));
    let seen = net.captured_at(&user, "u0", "ether proto 0x88b5", forge);
    assert_eq!(seen, "");

    // An interface is made again, and gets back what was changed by hand.
    let interface = |net: &Net, number: usize| net.interfaces(number, "wg-");
    let [at_a, at_b] = [0, 1].map(|number| interface(&net, number).concat());
    let reached = |what: &str| {
        until(what, || {
            let ping = user.command("ping", "-c 1 -W 1 10.7.0.2").output();
            ping.unwrap().status.success()
        });
    };
    ip(net.space(1), &format!("link delete {at_b}"));
    until("the interface is made again", || {
        interface(&net, 1) == [at_b.as_str()]
    });
    reached("the host is not reached by the new interface");
    ip(net.space(1), &format!("addr flush dev {at_b}"));
    reached("the host is not reached by its address");
    let peers = net
        .space(0)
        .command("wg", &format!("show {at_a} peers"))
        .output();
    let peers = String::from_utf8(peers.unwrap().stdout).unwrap();
    let forget = format!("set {at_a} peer {} remove", peers.trim());
    assert!(
        net.space(0)
            .command("wg", &forget)
            .status()
            .unwrap()
            .success()
    );
    reached("the host is not reached by its peer");

    // Nothing leaves in clear while the interface is away, also by a default route. The key outlives its file.
    for route in [
        "addr add 2001:db8::11/64 dev m0 nodad",
        "neigh add 2001:db8::1 lladdr 02:00:00:00:00:01 dev m0",
        "-6 route add default via 2001:db8::1",
    ] {
        ip(net.space(0), route);
    }
    let key = net.hosts[0].state().join("cluster/wireguard.key");
    std::fs::write(&key, "no key").unwrap();
    net.kill_agent(0);
    net.start_agent(0);
    until("the key is kept", || {
        std::fs::read(&key).unwrap().len() > 40
    });
    net.settles(0, 2);
    reached("the host is not reached by its key");
    net.kill_agent(0);
    ip(net.space(0), &format!("link delete {at_a}"));
    let seen = net.underlay("udp port 4789", || {
        let ping = user.command("ping", "-c 5 -i 0.1 -W 1 10.7.0.2").output();
        assert!(!ping.unwrap().status.success());
    });
    assert_eq!(seen, "");
    net.start_agent(0);
    net.settles(0, 2);
    reached("the host is not reached again");

    // A host that leaves takes its interface with it, and one that is refused leaves none.
    net.hosts[2].ok("cluster leave");
    until("the interface is removed", || interface(&net, 2).is_empty());
    let join = format!("cluster join {}", net.joining(2));
    let said = refused_without(&net, &join, "nsenter");
    assert_contains(&said, "wg is missing: install it");
    let mut made = net
        .space(2)
        .command("ip", "link add kernel0 type wireguard");
    if !made.output().unwrap().status.success() {
        let said = refused_without(&net, &join, "nsenter wg");
        assert_contains(
            &said,
            "this kernel has no WireGuard, and wireguard-go is missing",
        );
    }
    assert_eq!(interface(&net, 2), [""; 0]);
    net.hosts[2].ok(&join);
    assert_eq!(interface(&net, 2).len(), 1);
    net.hosts[2].ok("cluster leave --force");
    assert_eq!(interface(&net, 2), [""; 0]);
}

/// What a host is told that joins and has only these programs.
fn refused_without(net: &Net, join: &str, programs: &str) -> String {
    let folder = net.folder.join("bin");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for program in programs.split(' ') {
        symlink(format!("/usr/bin/{program}"), folder.join(program)).unwrap();
    }
    let arguments: Vec<_> = join.split(' ').collect();
    let mut command = net.hosts[2].weir(&arguments);
    let output = command.env("PATH", &folder).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !said.is_empty());
    said
}

/// The address of a host inside WireGuard.
fn inside(net: &Net, number: usize) -> String {
    let mut shown = net
        .space(number)
        .command("ip", "-6 -br addr show scope global");
    let shown = String::from_utf8(shown.output().unwrap().stdout).unwrap();
    let mut words = shown.split([' ', '/', '\n']);
    let address = words.find(|it| it.starts_with("fd77:6569:7200:"));
    address.unwrap_or_else(|| panic!("{shown}")).to_string()
}
