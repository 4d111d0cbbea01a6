//! Guests saved, restored, cloned, and kept as templates.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use node::model::Guest;

use crate::common::{BOTH_WAYS, Host, Stream, alive, assert_contains, kill, path, pings, until};

/// A guest that counts, stores packets, and answers ARP requests with its own address.
const STATEFUL: &str = "FromNetfront(lan) -> in :: Counter -> Discard;
    Idle -> r :: ARPResponder(10.88.0.9 lan) -> ToNetfront(lan);
    i :: InfiniteSource(LIMIT 5, ACTIVE false) -> c :: Counter -> q :: Queue(10) -> Idle;
    TimedSource(0.01) -> t :: Counter -> Discard;";

fn number(host: &Host, guest: &str, handler: &str) -> u64 {
    let value = host.ok(&format!("read {guest} {handler}"));
    value.trim().parse().unwrap()
}

/// A host with a guest that has done its work.
fn stateful(isolation: &str) -> Host {
    let host = Host::new();
    host.ok("stub create lan");
    let config = host.config("stateful.click", STATEFUL);
    host.ok(&format!(
        "create one {config} --link lan=lan --isolation {isolation}"
    ));
    host.ok("write one i.active true");
    until("it does not work", || number(&host, "one", "q.length") == 5);
    host
}

/// The printed number of clones is right, and they exist, also for clones under way at Ctrl-C.
#[test]
fn clones_that_are_interrupted_are_counted() {
    let host = Host::new();
    let config = host.config("idle.click", "Idle -> c :: Counter -> Discard;");
    host.ok(&format!("create one {config} --isolation process"));
    for (round, pause) in [0, 30, 100, 200, 300].into_iter().enumerate() {
        let name = format!("c{round}-{{}}");
        let words = ["clone", "one", "--count", "500", "--name", &name];
        let mut command = host.weir(&words);
        let cloning = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let cloning = cloning.spawn().unwrap();
        until("none is made", || {
            host.ok("ls -p -o guest").contains(&format!("c{round}-"))
        });
        std::thread::sleep(Duration::from_millis(pause));
        kill("-INT", cloning.id());
        let output = cloning.wait_with_output().unwrap();
        let there = || {
            host.ok("ls -p -o guest")
                .matches(&format!("c{round}-"))
                .count()
        };
        let made = there();
        assert!(made < 500 && !output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_contains(&said, &format!("interrupted after {made} guests"));
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(there(), made);
        host.ok(&format!("destroy c{round}-*"));
    }
}

/// A renamed guest keeps its VNICs, whose names another one of its old name would need.
#[test]
fn a_guest_that_was_renamed_since_it_was_saved_is_restored_beside_it() {
    let host = stateful("process");
    let file = host.run().join("one.saved");
    let file = file.to_str().unwrap();
    host.ok(&format!("save one {file}"));
    host.ok("rename one two");
    host.refuses(
        &format!("restore {file}"),
        "guest ‘one’ needs a VNIC ‘one.lan’ for its interface ‘lan’, and an interface of guest ‘two’ has that name: give the guest another name",
    );
    host.ok(&format!("restore {file} --name three"));
    goes_on(&host, "three");
    host.shows("ls -p -o interfaces three", "lan=three.lan\n");
    host.ok("destroy two");
    host.ok(&format!("restore {file}"));
    goes_on(&host, "one");
    host.shows("ls -p -o interfaces one", "lan=one.lan\n");
}

/// Its start is one event, however often it is asked for.
#[test]
fn a_guest_that_is_restored_runs_once() {
    let host = stateful("process");
    let file = host.run().join("one.saved");
    let file = file.to_str().unwrap();
    host.ok(&format!("save one {file}"));
    let before = host.ok("events one").matches(" runs").count();
    host.ok(&format!("restore {file}"));
    host.ok("start one");
    let events = host.ok("events one");
    assert_eq!(events.matches(" runs").count(), before + 1, "{events}");
    host.ok(&format!("restore {file} --name two"));
    let events = host.ok("events two");
    assert_eq!(events.matches(" runs").count(), 1, "{events}");
}

fn goes_on(host: &Host, guest: &str) {
    assert_eq!(number(host, guest, "c.count"), 5);
    assert_eq!(number(host, guest, "q.length"), 5);
    let count = number(host, guest, "t.count");
    until("its timer stands still", || {
        number(host, guest, "t.count") > count
    });
}

#[test]
fn a_saved_guest_is_restored_as_if_nothing_had_happened() {
    for isolation in ["vm", "process"] {
        let host = stateful(isolation);
        let file = host.run().join("one.saved");
        let file = file.to_str().unwrap();
        let mac = host.ok("vnic show -p -o mac one.lan");
        let ticks = number(&host, "one", "t.count");
        host.ok(&format!("save one {file}"));
        host.shows("ls -p -o state,pid one", "stopped:\n");
        let mode = fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(fs::metadata(file).unwrap().len() < 1 << 20);
        host.ok(&format!("restore {file}"));
        host.shows("ls -p -o state one", "running\n");
        goes_on(&host, "one");
        assert!(number(&host, "one", "t.count") >= ticks);
        assert_eq!(host.ok("vnic show -p -o mac one.lan"), mac);
        host.refuses(&format!("restore {file}"), "already a guest named ‘one’");
        // What is to hold from its next start on still does.
        host.ok("set one --memory 9M");
        host.ok(&format!("save one {file}"));
        host.ok(&format!("restore {file}"));
        goes_on(&host, "one");
        let show = host.client().show::<Guest>("one").unwrap();
        assert_eq!(show.status.pending, ["memory"]);
        host.ok("stop one");
        host.ok("stub create other");
        host.ok("set one --link lan=other");
        host.refuses(
            &format!("restore {file}"),
            "has other interfaces than when it was saved",
        );
        host.ok("destroy one");
        host.ok(&format!("restore {file}"));
        host.ok("stub delete other");
        let mac = host.ok("vnic show -p -o mac one.lan");
        // It is a guest like any other: it can be saved again, and recreated.
        host.ok(&format!("save one {file}"));
        host.ok("destroy one");
        host.ok(&format!("restore {file}"));
        goes_on(&host, "one");
        assert_eq!(host.ok("vnic show -p -o mac one.lan"), mac);
        host.ok("destroy one");
        assert_eq!((host.view().guests, host.view().vnics), (0, 0));
    }
}

#[test]
fn traffic_goes_on_through_a_guest_that_is_saved_and_restored() {
    let host = Host::new();
    host.ok("stub create one");
    host.ok("stub create two");
    let client = host.namespace("one", "a0", "10.87.0.1/24", None);
    let server = host.namespace("two", "b0", "10.87.0.2/24", None);
    let config = host.config("wire.click", BOTH_WAYS);
    host.ok(&format!("create wire {config} --link a=one --link b=two"));
    pings(&client, "10.87.0.2");
    let stream = Stream::start(path(&client), path(&server), "10.87.0.2");
    let file = host.run().join("wire.saved");
    let file = file.to_str().unwrap();
    let there = number(&host, "wire", "there.count");
    for _ in 0..3 {
        host.ok(&format!("save --keep wire {file}.kept"));
        host.ok(&format!("save wire {file}"));
        host.ok(&format!("restore {file}"));
    }
    pings(&client, "10.87.0.2");
    assert!(number(&host, "wire", "there.count") > there);
    let (sent, received) = stream.end();
    // Frames that come while there is no guest are lost, and no others; none comes twice.
    assert!(received <= sent && received > 0, "{received} of {sent}");
}

#[test]
fn clones_have_the_state_and_addresses_of_their_own() {
    for isolation in ["vm", "process"] {
        let host = stateful(isolation);
        host.ok("clone one two");
        host.ok("clone one --count 5 --name copy-{}");
        goes_on(&host, "one");
        for guest in ["two", "copy-1", "copy-5"] {
            goes_on(&host, guest);
            let mac = host.ok(&format!("vnic show -p -o mac {guest}.lan"));
            let mac = mac.trim().replace("\\:", "-").to_lowercase();
            let table = host.ok(&format!("read {guest} r.table")).to_lowercase();
            let table = table.replace(':', "-");
            assert!(table.contains(&mac), "{table} has no {mac}");
        }
        host.ok("write copy-1 q.reset");
        assert_eq!(number(&host, "copy-2", "q.length"), 5);
        // A copy of a copy, whose original is gone.
        host.ok("destroy one two");
        host.ok("clone copy-3 three");
        goes_on(&host, "three");
        host.refuses("clone none other", "no guest ‘none’");
        host.refuses("clone three copy-1", "already a guest named ‘copy-1’");
        host.ok("stop three");
        host.refuses("clone three four", "does not run");
        host.ok("start three");
    }
}

#[test]
fn a_template_stands_still_over_nodes_and_gives_clones() {
    let mut host = stateful("auto");
    host.ok("template one");
    host.shows("ls -p -o state one", "template\n");
    host.refuses("read one c.count", "is a template");
    let pid: u32 = host.ok("ls -p -o pid one").trim().parse().unwrap();
    host.ok("clone one --count 20");
    goes_on(&host, "one-20");
    for signal in ["-KILL", "-TERM"] {
        host.end(signal);
        host.start();
        host.shows("ls -p -o state,pid one", &format!("template:{pid}\n"));
        host.ok("clone one again");
        goes_on(&host, "again");
        goes_on(&host, "one-7");
        host.ok("destroy again");
    }
    let file = host.run().join("template.saved");
    let file = file.to_str().unwrap();
    host.ok(&format!("save one {file}"));
    host.shows("ls -p -o state one", "template\n");
    host.ok("resume one");
    host.shows("ls -p -o state one", "running\n");
    goes_on(&host, "one");
    host.ok(&format!("restore {file} --name other"));
    goes_on(&host, "other");
    host.ok("template one");
    host.ok("destroy *");
    assert!(!alive(pid));
}

#[test]
fn files_that_are_no_saved_guests_are_refused_and_leave_nothing() {
    let host = stateful("auto");
    let file = host.run().join("one.saved");
    let name = file.to_str().unwrap();
    host.ok(&format!("save --keep one {name}"));
    goes_on(&host, "one");
    let good = fs::read(&file).unwrap();
    let bad = host.run().join("bad.saved");
    let refused = |bytes: &[u8], why: &str| {
        fs::write(&bad, bytes).unwrap();
        let said = host.refusal(&format!("restore {} --name bad", bad.display()));
        assert!(said.contains(why), "{said}");
    };
    for cut in [0, 5, 12, 40, good.len() / 2, good.len() - 1] {
        refused(&good[..cut], "ends too early");
    }
    let with = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    refused(&with(0), "no saved guest");
    refused(&with(11), "restore it with a newer one");
    for at in [good.len() / 3, good.len() / 2, good.len() - 2] {
        refused(&with(at), "damaged");
    }
    refused(b"not at all a saved guest", "no saved guest");
    host.refuses("restore /nowhere/one.saved", "No such file");
    host.refuses("restore /dev/zero", "it is no file");
    let pipe = host.run().join("pipe");
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    host.refuses(&format!("restore {}", pipe.display()), "it is no file");
    host.refuses(&format!("save --keep one {}", pipe.display()), "no file");
    host.refuses("save one /nowhere/one.saved", "No such file");
    goes_on(&host, "one");
    assert_eq!((host.view().guests, host.view().vnics), (1, 1));
}

#[test]
fn a_guest_that_a_killed_node_had_stand_still_goes_on() {
    let mut host = stateful("auto");
    // A node that stands still in the middle: the guest is suspended by hand.
    let node = host.view().pid;
    let pid: u32 = host.ok("ls -p -o pid one").trim().parse().unwrap();
    for _ in 0..3 {
        let save = host
            .weir(&["save", "--keep", "one", "/dev/full"])
            .spawn()
            .unwrap();
        host.end("-KILL");
        let _ = save.wait_with_output();
        host.start();
        host.shows("ls -p -o state,pid one", &format!("running:{pid}\n"));
        goes_on(&host, "one");
    }
    assert_ne!(host.view().pid, node);
}

#[test]
fn a_paused_guest_is_not_copied() {
    let host = stateful("process");
    host.ok("pause one");
    let file = host.run().join("one.saved");
    host.refuses(&format!("save one {}", file.display()), "stands still");
    host.refuses("clone one two", "stands still");
    host.ok("resume one");
    host.ok("clone one two");
}
