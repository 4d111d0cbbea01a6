//! Guests that are started by the first frame to their VNIC, and removed when they are idle.

use std::io::Read;
use std::net::TcpStream;
use std::path::Path;

use weir::lab::{Namespace, Runner};

use crate::common::{Host, LIMIT, alive, holds, kill, path, pings, until, within};

/// A guest that answers pings of its address.
const ANSWERS: &str = "define($IP 10.90.0.9)
    FromNetfront(lan) -> c :: Classifier(12/0806 20/0001, 12/0800, -);
    c[0] -> ARPResponder($IP lan) -> out :: ToNetfront(lan);
    c[1] -> CheckIPHeader(14) -> ICMPPingResponder -> answered :: Counter -> EtherMirror -> out;
    c[2] -> Discard;";

/// A template of such guests, and a host on their stub.
fn host() -> (Host, Namespace) {
    let host = Host::new();
    host.ok("stub create lan");
    let config = host.config("answers.click", ANSWERS);
    host.ok(&format!("create web {config} --link lan=lan"));
    let a = host.namespace("lan", "a0", "10.90.0.1/24", None);
    // A question that gets no answer is not repeated.
    let once = a.command("sysctl", "-q -w net.ipv4.neigh.a0.mcast_solicit=1");
    Runner::default().run(once, LIMIT).unwrap();
    (host, a)
}

#[track_caller]
fn becomes(host: &Host, vnic: &str, state: &str) {
    until(&format!("{vnic} is not {state}"), || {
        host.ok(&format!("vnic show -p -o state {vnic}")).trim() == state
    });
}

fn guests(host: &Host) -> Vec<String> {
    let names = host.ok("ls -p -o guest");
    names.lines().map(str::to_string).collect()
}

/// All answers of a few pings come, that of the first as well.
#[track_caller]
fn answers_all(from: &Namespace, to: &str) {
    let mut ping = from.command("ping", &format!("-n -c 3 -i 0.05 -W 5 {to}"));
    let said = ping.output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains(" 3 received"), "{said}");
}

#[track_caller]
fn answers_nothing(from: &Namespace, to: &str) {
    let mut ping = from.command("ping", &format!("-n -c 1 -W 1 {to}"));
    assert!(!ping.output().unwrap().status.success());
}

#[test]
fn the_first_frame_starts_a_guest_and_idleness_removes_it() {
    let (mut host, a) = host();
    host.ok("template web");
    host.ok("vnic create -l lan -p allowed-ips=10.90.0.9 --template web --idle 1s web0");
    host.shows(
        "vnic show -p -o state,serves web0",
        "waiting:template\\:web\n",
    );
    let mac = host.ok("vnic show -p -o mac web0");
    // Others' broadcasts start none.
    answers_nothing(&a, "10.90.0.77");
    becomes(&host, "web0", "waiting");
    assert_eq!(guests(&host), ["web"]);
    let held = || [host.view().pid, host.switch_pid()].map(|pid| holds(pid).0);
    let mut before = Vec::new();
    for _ in 0..3 {
        answers_all(&a, "10.90.0.9");
        becomes(&host, "web0", "waiting");
        assert_eq!(guests(&host), ["web"]);
        before.push(held());
    }
    // A connection to the API may be about to end.
    until("descriptors of the node or of the switch stay", || {
        held() == before[0]
    });
    assert_eq!(host.ok("vnic show -p -o mac web0"), mac);
    // Another node has it wait as well, and watches the guest that it finds.
    for signal in ["-KILL", "-TERM"] {
        host.end(signal);
        host.start();
        becomes(&host, "web0", "waiting");
        answers_all(&a, "10.90.0.9");
        host.end(signal);
        host.start();
        pings(&a, "10.90.0.9");
        becomes(&host, "web0", "waiting");
    }
    // So does another switch.
    host.lose_switch();
    becomes(&host, "web0", "waiting");
    pings(&a, "10.90.0.9");
    host.ok("vnic delete web0");
    assert_eq!(guests(&host), ["web"]);
    host.refuses("vnic show web0", "no VNIC ‘web0’");
    answers_nothing(&a, "10.90.0.9");
}

/// While no node runs, the first frame waits for the next node, and reaches the guest.
#[test]
fn a_frame_waits_for_a_node() {
    let (mut host, a) = host();
    host.ok("template web");
    let mac = "02:00:00:00:90:09";
    host.ok(&format!(
        "vnic create -l lan -m {mac} -p allowed-ips=10.90.0.9 --template web --idle 30s web0"
    ));
    let neighbor = format!("neigh replace 10.90.0.9 lladdr {mac} dev a0");
    let neighbor = a.command("ip", &neighbor);
    Runner::default().run(neighbor, LIMIT).unwrap();
    host.end("-KILL");
    answers_nothing(&a, "10.90.0.9");
    host.start();
    becomes(&host, "web0", "up");
    until("the guest has not got it", || {
        host.ok("read web0 answered.count").trim() == "1"
    });
    answers_all(&a, "10.90.0.9");
}

#[test]
fn a_guest_that_ends_is_started_again_by_the_next_frame() {
    let (host, a) = host();
    // It is no template: copies boot.
    for (vnic, address) in [("web0", "10.90.0.9"), ("web1", "10.90.0.10")] {
        host.ok(&format!(
            "vnic create -l lan -p allowed-ips={address} --template web --parameter IP={address} {vnic}"
        ));
    }
    host.ok("stop web");
    answers_all(&a, "10.90.0.10");
    assert_eq!(guests(&host), ["web", "web1"]);
    host.ok("destroy web1");
    becomes(&host, "web1", "waiting");
    answers_all(&a, "10.90.0.10");
    let pid: u32 = host.ok("ls -p -o pid web1").trim().parse().unwrap();
    kill("-KILL", pid);
    becomes(&host, "web1", "waiting");
    assert_eq!(guests(&host), ["web"]);
    answers_all(&a, "10.90.0.10");
    answers_all(&a, "10.90.0.9");
    // Without its template it cannot be; with another, it is again.
    host.ok("destroy web0");
    host.ok("destroy web");
    answers_nothing(&a, "10.90.0.9");
    becomes(&host, "web0", "down");
    let view = host.json("vnic show web0");
    let reason = view[0]["status"]["reason"].as_str().unwrap();
    assert!(reason.contains("no guest ‘web’"), "{reason}");
    let config = host.folder.join("answers.click");
    host.ok(&format!("create web {} --link lan=lan", config.display()));
    host.ok("stop web");
    becomes(&host, "web0", "waiting");
    answers_all(&a, "10.90.0.9");
}

#[test]
fn a_guest_on_demand_has_its_other_interfaces() {
    let host = Host::new();
    let a = host.lan("10.91.0");
    host.ok("stub create wan");
    let config = host.config(
        "router.click",
        "FromNetfront(inside) -> c :: Classifier(12/0806 20/0001, -);
         c[0] -> ARPResponder(10.91.0.9 inside) -> ToNetfront(inside);
         c[1] -> ToNetfront(outside); FromNetfront(outside) -> Discard;",
    );
    host.ok(&format!(
        "create fw {config} --link inside=lan --link outside=wan"
    ));
    host.ok("template fw");
    host.ok("vnic create -l lan --template fw --idle 1s fw0");
    let vnics = "vnic show -p -o vnic";
    until("it is not there", || {
        pings_once(&a.0, "10.91.0.9");
        host.ok(vnics).contains("fw0.outside")
    });
    becomes(&host, "fw0", "waiting");
    until("its other VNIC stays", || {
        !host.ok(vnics).contains("fw0.outside")
    });
}

fn pings_once(from: &Namespace, to: &str) {
    from.command("ping", &format!("-n -c 1 -W 1 {to}"))
        .output()
        .unwrap();
}

#[test]
fn what_cannot_be_started_is_refused() {
    let (host, _a) = host();
    let create = "vnic create -l lan --template";
    host.refuses(&format!("{create} none x"), "no guest ‘none’");
    host.refuses(
        &format!("{create} web --interface wan x"),
        "give its `interface`, one of these: lan",
    );
    host.refuses(&format!("{create} web web"), "already a guest named ‘web’");
    let said = host.refusals(&format!("{create} web --parameter IP=nowhere x"));
    assert!(said.contains("expected IP/MASK ETH"), "{said}");
    host.refuses(
        &format!("{create} web --idle 10ms x"),
        "not a time from 1s to 1day",
    );
    host.ok(&format!("{create} web x"));
    let config = host.folder.join("answers.click");
    host.refuses(
        &format!("create y {} --link lan=x", config.display()),
        "VNIC ‘x’ starts a guest of its own",
    );
}

#[test]
fn a_wire_has_guests_on_demand() {
    let (host, a) = host();
    host.ok("template web");
    let file = |rest: &str| {
        let text = format!(
            "wire = '@net'\nexisting = ['lan']\n[vnic.v]\nlink = 'lan'\n\
             properties = {{ allowed-ips = ['10.90.0.9'] }}\n\
             guest = {{ template = 'web', on = 'first-packet', idle = '1s' }}\n{rest}"
        );
        host.file("net.toml", &text)
    };
    let wire = file("host = true\n");
    let said = host.refusals(&format!("wire apply {wire}"));
    assert!(said.contains("it can be in one place only"), "{said}");
    let wire = file(
        "[guest.web]\nfile = 'answers.click'\ninterfaces = { lan = 'w' }\n[vnic.w]\nlink = 'lan'\n",
    );
    let said = host.refusals(&format!("wire apply {wire}"));
    assert!(
        said.contains("its template ‘web’ is a guest of the same wire"),
        "{said}"
    );
    let apply = format!("wire apply {}", file(""));
    host.ok(&apply);
    becomes(&host, "v", "waiting");
    host.shows(&apply, "");
    answers_all(&a, "10.90.0.9");
    host.shows(&apply, "");
    host.ok(&format!("wire delete {}net", host.prefix));
    assert_eq!(guests(&host), ["web"]);
    host.refuses("vnic show v", "no VNIC ‘v’");
}

const PAGE: &str = "This service has moved on.\n";

fn curl(from: &Namespace, seconds: u32) -> Option<String> {
    let mut curl = from.command("curl", &format!("-sS -m {seconds} http://10.90.0.9/"));
    let output = curl.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    output.status.success().then_some(text)
}

/// A connection that has got its page and stays open on this side.
fn held(from: &Namespace) -> TcpStream {
    let mut stream = within(Path::new(&path(from)), || {
        TcpStream::connect("10.90.0.9:80").unwrap()
    });
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.ends_with(PAGE), "{page}");
    stream
}

#[test]
fn each_tcp_connection_has_a_guest_of_its_own() {
    let mut host = Host::new();
    host.ok("stub create lan");
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/page-server.click"
    );
    host.ok(&format!("create web {example} IP=10.90.0.9 --link net=lan"));
    host.ok("template web");
    let a = host.namespace("lan", "a0", "10.90.0.1/24", None);
    host.ok(
        "vnic create -l lan -m 02:00:00:00:90:09 -p allowed-ips=10.90.0.9 --template web --on flow --guests 4 --idle 30s web0",
    );
    let served = |host: &Host| {
        let mut guests = guests(host);
        guests.retain(|guest| guest.starts_with("web0-"));
        guests
    };
    // A connection's guest goes with it; what is no connection has the VNIC's own.
    for _ in 0..10 {
        assert_eq!(curl(&a, 5).unwrap(), PAGE);
    }
    until("a guest stays behind", || served(&host).is_empty());
    assert_eq!(guests(&host), ["web", "web0"]);
    answers_all(&a, "10.90.0.9");
    assert_eq!(host.ok("read web0 connections.count").trim(), "0");
    // As many as there may be, each with one connection; no more.
    let mut streams: Vec<_> = (0..4).map(|_| held(&a)).collect();
    assert_eq!(served(&host), ["web0-1", "web0-2", "web0-3", "web0-4"]);
    for guest in served(&host) {
        let count = host.ok(&format!("read {guest} connections.count"));
        assert_eq!(count.trim(), "1", "{guest}");
    }
    assert!(curl(&a, 2).is_none());
    let drops = host.ok("vnic stat -p -o reasons web0");
    assert!(drops.contains("no-guest"), "{drops}");
    answers_all(&a, "10.90.0.9");
    // When one ends, there is room for another, also with another node.
    for signal in ["-TERM", "-KILL"] {
        drop(streams.pop());
        until("its guest stays", || served(&host).len() == 3);
        streams.push(held(&a));
        host.end(signal);
        host.start();
        assert_eq!(served(&host).len(), 4);
    }
    drop(streams);
    until("a guest stays behind", || served(&host).is_empty());
    assert_eq!(curl(&a, 5).unwrap(), PAGE);
    until("a guest stays behind", || served(&host).is_empty());
    // Another switch knows of no connection until a guest sends.
    host.lose_switch();
    until("the VNICs do not wait", || {
        host.ok("vnic show -p -o state web0-4").trim() == "waiting"
    });
    until("it answers again", || curl(&a, 5).is_some());
    let taken = "starts a guest of this name";
    host.refuses(
        &format!("create web0-2 {example} IP=10.90.0.8 --link net=lan"),
        taken,
    );
    host.refuses("rename web web0-2", taken);
    host.refuses("vnic delete web0-2", "change or delete ‘web0’");
    host.refuses(
        "vnic set-prop -p maxbw=1M web0-2",
        "change or delete ‘web0’",
    );
    host.ok("vnic delete web0");
    assert_eq!(guests(&host), ["web"]);
    host.refuses("vnic show web0-1", "no VNIC ‘web0-1’");
    // A quiet connection has its guest for a time, whatever the others do.
    host.ok(
        "vnic create -l lan -m 02:00:00:00:90:09 -p allowed-ips=10.90.0.9 --template web --on flow --guests 30 --idle 1s web0",
    );
    let _quiet = held(&a);
    let guest = served(&host).pop().unwrap();
    let pid = host
        .ok(&format!("ls -p -o pid {guest}"))
        .trim()
        .parse()
        .unwrap();
    until("the guest of a quiet connection stays", || {
        assert!(curl(&a, 5).is_some());
        !alive(pid)
    });
    let refused = "vnic create -l lan --host --on flow h0";
    host.refuses(refused, "cannot be used with");
}
