//! The control store of a node, by Xen's own tools.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use node::model::GuestStatus;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use store::client::Client;
use store::wire::Kind;

use crate::common::{Host, kill, until};

const IDLE: &str = "Idle -> c :: Counter -> Discard;";

/// One of Xen's commands, on the store of a host.
pub fn xen(host: &Host, words: &str) -> Command {
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command
        .args(words)
        .env("XENSTORED_PATH", host.run().join("store.sock"))
        .stdin(Stdio::null());
    command
}

pub fn output(host: &Host, words: &str) -> Output {
    let output = xen(host, words).output();
    output.unwrap_or_else(|error| panic!("{words}: {error}: install xenstore-utils"))
}

/// What a command prints that has to succeed.
#[track_caller]
pub fn prints(host: &Host, words: &str) -> String {
    let output = output(host, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

pub fn status(host: &Host, guest: &str) -> GuestStatus {
    host.client()
        .show::<node::model::Guest>(guest)
        .unwrap()
        .status
}

pub fn store_pid(host: &Host) -> Option<u32> {
    host.view().store_pid
}

/// Waits for a store that takes the place of this one.
pub fn has_other_store(host: &Host, than: Option<u32>) {
    until("no other store runs", || {
        store_pid(host).is_some_and(|pid| Some(pid) != than)
    });
}

fn domains(host: &Host) -> Vec<String> {
    let listed = prints(host, "xenstore-list /local/domain");
    listed.lines().map(str::to_string).collect()
}

/// A watch that runs, which ends after so many events.
struct Watch {
    child: Child,
    events: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn start(host: &Host, path: &str, count: usize) -> Watch {
        let mut command = xen(host, &format!("xenstore-watch -n {count} {path}"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let events = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut watch = Watch { child, events };
        // The first event says that the watch stands.
        assert_eq!(watch.next(), path);
        watch
    }

    fn next(&mut self) -> String {
        self.events.next().unwrap().unwrap()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn guests_are_domains_of_the_store_as_long_as_they_run() {
    let mut host = Host::new();
    let config = host.config("idle.click", IDLE);
    let mut come = Watch::start(&host, "@introduceDomain", 4);
    let mut gone = Watch::start(&host, "@releaseDomain", 4);
    host.ok(&format!("create fw {config} --memory 2M"));
    assert_eq!(come.next(), "@introduceDomain");
    let id = status(&host, "fw").domain_id;
    assert_eq!(id, 1);
    assert_eq!(domains(&host), ["0", "1"]);
    let vm = prints(&host, "xenstore-read /local/domain/1/vm");
    let vm = vm.trim();
    let uuid = vm.strip_prefix("/vm/").unwrap();
    let listed = prints(&host, "xenstore-ls -p /local/domain/1");
    // Dots lead from each value to its permissions.
    let listed = listed.replace([' ', '.'], "");
    let memory = 2 << 10;
    assert_eq!(
        listed,
        format!(
            "data=\"\"(n1)\nclickos=\"\"(n0,r1)\n0=\"\"(n0,r1)\nconfig_name=\"idleclick\"(n0,r1)\n\
             control=\"\"(n0,r1)\nelements=\"\"(n0,r1)\nstatus=\"Running\"(n0,r1)\ndomid=\"1\"(n0,r1)\nmemory=\"\"(n0,r1)\nstatic-max=\"{memory}\"(n0,r1)\n\
             target=\"{memory}\"(n0,r1)\nname=\"fw\"(n0,r1)\nvm=\"{vm}\"(n0,r1)\n"
        )
    );
    assert_eq!(
        prints(&host, &format!("xenstore-read {vm}/uuid")).trim(),
        uuid
    );
    host.ok("rename fw edge");
    assert_eq!(
        prints(&host, "xenstore-read /local/domain/1/name"),
        "edge\n"
    );
    assert_eq!(prints(&host, &format!("xenstore-read {vm}/name")), "edge\n");

    // Another node finds the store and the guest; what was written stays.
    let store = store_pid(&host);
    prints(
        &host,
        "xenstore-write /local/domain/1/data/note kept /tool/mine 1",
    );
    host.end("-KILL");
    host.start();
    assert_eq!(store_pid(&host), store);
    assert_eq!(
        prints(&host, "xenstore-read /local/domain/1/data/note"),
        "kept\n"
    );
    // A guest that ended while there was no node is released by the next.
    let pid = status(&host, "edge").pid.unwrap();
    host.ok(&format!("create other {config} --restart never"));
    let other = status(&host, "other");
    assert_eq!((other.domain_id, domains(&host).len()), (2, 3));
    host.end("-KILL");
    kill("-KILL", other.pid.unwrap());
    host.start();
    assert_eq!(domains(&host), ["0", "1"]);
    assert_eq!(status(&host, "edge").pid, Some(pid));

    host.ok("stop edge");
    until("the stopped guest is a domain", || domains(&host) == ["0"]);
    assert_eq!(gone.next(), "@releaseDomain");
    assert!(
        !output(&host, &format!("xenstore-exists {vm}"))
            .status
            .success()
    );
    host.ok("start edge");
    assert_eq!(domains(&host), ["0", "1"]);
    assert!(
        !output(&host, "xenstore-exists /local/domain/1/data/note")
            .status
            .success()
    );
    host.ok("destroy edge other");
    until("a destroyed guest is a domain", || domains(&host) == ["0"]);
    // A number is not given again soon.
    host.ok(&format!("create next {config}"));
    assert_eq!(status(&host, "next").domain_id, 3);
    assert_eq!(prints(&host, "xenstore-read /tool/mine"), "1\n");
}

#[test]
fn a_store_that_is_killed_is_replaced_and_knows_all_guests() {
    let mut host = Host::new();
    let config = host.config("idle.click", IDLE);
    host.ok(&format!("create --count 20 --name g{{}} {config}"));
    let before = prints(&host, "xenstore-ls -f /local/domain");
    // It runs long enough to be replaced at once.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let first = store_pid(&host);
    kill("-KILL", first.unwrap());
    has_other_store(&host, first);
    assert_eq!(prints(&host, "xenstore-ls -f /local/domain"), before);
    // One that ends soon is replaced soon.
    let second = store_pid(&host);
    kill("-KILL", second.unwrap());
    has_other_store(&host, second);
    assert_eq!(prints(&host, "xenstore-ls -f /local/domain"), before);
    // It ends while there is no node.
    let third = store_pid(&host);
    host.end("-KILL");
    kill("-KILL", third.unwrap());
    host.start();
    has_other_store(&host, third);
    assert_eq!(prints(&host, "xenstore-ls -f /local/domain"), before);
    // Guests come and go meanwhile.
    let fourth = store_pid(&host);
    kill("-STOP", fourth.unwrap());
    host.ok("destroy g1 g2");
    host.ok(&format!("create late {config}"));
    kill("-CONT", fourth.unwrap());
    until("guests are not as they are", || domains(&host).len() == 20);
    let late = status(&host, "late").domain_id;
    let name = prints(&host, &format!("xenstore-read /local/domain/{late}/name"));
    assert_eq!(name, "late\n");
    assert_eq!(store_pid(&host), fourth);
    host.ok("destroy *");
    until("guests are left", || domains(&host) == ["0"]);
    assert_eq!(prints(&host, "xenstore-list /vm"), "");
}

/// A store serves one node: a second connection replaces that of the node.
#[test]
fn a_store_that_drops_the_nodes_connection_is_connected_to_again() {
    let host = Host::new();
    let config = host.config("idle.click", IDLE);
    host.ok(&format!("create --count 5 --name g{{}} {config}"));
    let pid = store_pid(&host);
    let control = SocketAddrUnix::new(host.run().join("store.control")).unwrap();
    let again = "the node connected again after";
    for round in 1..=3 {
        let other = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        );
        let other = other.unwrap();
        connect(&other, &control).unwrap();
        until("the node does not connect again", || {
            let said = host.said.lock().unwrap();
            said.iter().filter(|line| line.contains(again)).count() == round
        });
        drop(other);
        host.ok(&format!("create late{round} {config}"));
        host.ok(&format!("destroy g{round}"));
        let late = status(&host, &format!("late{round}")).domain_id;
        until("the store does not know of guests", || {
            domains(&host).len() == 6 && domains(&host).contains(&late.to_string())
        });
    }
    assert_eq!(store_pid(&host), pid);
    assert!(host.ok("events").contains("the control store is up"));
}

#[test]
fn guests_that_come_and_go_leave_nothing_in_the_store() {
    let host = Host::new();
    let config = host.config("idle.click", IDLE);
    let mut client = Client::connect(&host.run().join("store.sock")).unwrap();
    let mut check = || {
        let checked = client.ask(Kind::Control, "check", b"").unwrap();
        String::from_utf8(checked).unwrap()
    };
    host.ok(&format!("create first {config}"));
    host.ok("destroy first");
    until("the guest is a domain", || domains(&host) == ["0"]);
    let before = check();
    for _ in 0..4 {
        host.ok(&format!("create --count 250 --name g{{}} {config}"));
        assert_eq!(domains(&host).len(), 251);
        host.ok("destroy g*");
    }
    until("guests are left", || domains(&host) == ["0"]);
    assert_eq!(check(), before);
}
