//! The verbs of a guest's life: what a stopped guest keeps, how many are named, and what survives the
//! node.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{BOTH_WAYS, Host, alive, kill, pings, until};

/// A guest that counts what comes.
const SINK: &str = "FromNetfront(eth0) -> c :: Counter -> Discard;";

#[test]
fn a_stopped_guest_stays_so_over_nodes_and_keeps_what_it_had() {
    let mut host = Host::new();
    host.ok("stub create one");
    host.ok("stub create two");
    let client = host.namespace("one", "a0", "10.86.0.1/24", None);
    let _server = host.namespace("two", "b0", "10.86.0.2/24", None);
    let config = host.config("wire.click", BOTH_WAYS);
    // One that is always restarted, so that its end is the command's.
    host.ok(&format!(
        "create wire {config} --link a=one --link b=two --restart always"
    ));
    let vnics = host.ok("vnic show -p -o vnic,mac");
    let pid: u32 = host.ok("ls -p -o pid").trim().parse().unwrap();
    host.ok("stop wire");
    assert!(!alive(pid));
    host.shows("ls -p -o guest,state,pid", "wire:stopped:\n");
    host.shows("vnic show -p -o state wire.a", "down\n");
    host.refuses("read wire there.count", "does not run");
    host.ok("stop wire");
    for signal in ["-KILL", "-TERM"] {
        host.end(signal);
        host.start();
        // A node looks after what is down each second.
        std::thread::sleep(Duration::from_millis(1500));
        host.shows("ls -p -o guest,state,pid", "wire:stopped:\n");
    }
    assert_eq!(host.ok("vnic show -p -o vnic,mac"), vnics);
    host.ok("start wire");
    host.shows("ls -p -o guest,state,restarts", "wire:running:0\n");
    assert_eq!(host.ok("vnic show -p -o vnic,mac"), vnics);
    pings(&client, "10.86.0.2");
    let count = || -> u32 { host.ok("read wire there.count").trim().parse().unwrap() };
    let before = count();
    assert!(before >= 3, "{before}");
    // What runs stays, and a restart is another process without the first one's state.
    let pid = host.ok("ls -p -o pid");
    host.ok("start wire");
    assert_eq!(host.ok("ls -p -o pid"), pid);
    host.ok("restart wire");
    assert_ne!(host.ok("ls -p -o pid"), pid);
    // A frame of the client's own may have come.
    let after = count();
    assert!(after < before, "{after} {before}");
    pings(&client, "10.86.0.2");
}

#[test]
fn a_guest_is_restarted_on_failure_unless_it_is_stopped() {
    let host = Host::new();
    host.ok("stub create lan");
    let config = host.config("sink.click", SINK);
    host.ok(&format!("create g {config} --link eth0=lan"));
    let pid = || host.ok("ls -p -o pid g").trim().parse::<u32>();
    let first = pid().unwrap();
    kill("-KILL", first);
    until("it is not restarted", || {
        pid().is_ok_and(|pid| pid != first) && host.ok("ls -p -o state g") == "running\n"
    });
    host.shows("ls -p -o restarts g", "1\n");
    // One that waits to be restarted is stopped, too. The node waits longer each time.
    until("its end is not seen", || match pid() {
        Ok(pid) => {
            // It may have ended since.
            let _ = Command::new("kill")
                .args(["-KILL", &pid.to_string()])
                .status();
            false
        }
        Err(_) => true,
    });
    host.ok("stop g");
    std::thread::sleep(Duration::from_secs(1));
    host.shows("ls -p -o state,pid g", "stopped:\n");
    host.ok("start g");
    host.shows("ls -p -o state,restarts g", "running:0\n");
}

#[test]
fn patterns_and_series_name_many_guests_in_one_request() {
    let host = Host::new();
    host.ok("stub create lan");
    let config = host.config("sink.click", SINK);
    host.ok(&format!(
        "create --count 5 --name fw-{{}} --first 8 {config} --link eth0=lan"
    ));
    host.ok(&format!("create nat {config} --link eth0=lan"));
    host.ok("stop fw-1? nat");
    host.shows(
        "ls -p -o guest,state",
        "fw-10:stopped\nfw-11:stopped\nfw-12:stopped\nfw-8:running\nfw-9:running\nnat:stopped\n",
    );
    host.shows("ls fw-? -p -o guest", "fw-8\nfw-9\n");
    host.shows("ls nat fw-9 -p -o guest", "nat\nfw-9\n");
    host.refuses("ls lb-*", "no guest matches ‘lb-*’");
    // One that cannot be does not keep the others from it.
    let said = host.refusals("start none fw-* lb-*");
    assert!(said.contains("no guest ‘none’") && said.contains("no guest matches ‘lb-*’"));
    host.shows(
        "ls fw-* -p -o state",
        "running\nrunning\nrunning\nrunning\nrunning\n",
    );
    let again = host.refusals(&format!(
        "create --count 5 --name fw-{{}} --first 12 {config} --link eth0=lan"
    ));
    assert!(again.contains("already a guest named ‘fw-12’"), "{again}");
    host.shows("ls fw-1[3-6] -p -o guest", "fw-13\nfw-14\nfw-15\nfw-16\n");
    host.refuses(
        &format!("create --count 2 --name fw {config} --link eth0=lan"),
        "‘fw’ is one name for many guests",
    );
    host.ok("destroy *");
    assert_eq!((host.view().guests, host.view().vnics), (0, 0));
}

#[test]
fn a_renamed_guest_is_the_same_guest() {
    let mut host = Host::new();
    host.ok("stub create lan");
    let config = host.config("sink.click", SINK);
    host.ok(&format!("create old {config} --link eth0=lan"));
    host.ok(&format!("create other {config} --link eth0=lan"));
    let pid = host.ok("ls old -p -o pid,id,interfaces");
    host.refuses("rename old other", "already a guest named ‘other’");
    host.refuses("rename old a/b", "is not a valid name for a guest");
    host.refuses("rename none new", "no guest ‘none’");
    host.ok("rename old new");
    host.refuses("show old", "no guest ‘old’");
    assert_eq!(host.ok("ls new -p -o pid,id,interfaces"), pid);
    host.shows("vnic show old.eth0 -p -o serves", "guest\\:new\n");
    assert_eq!(host.ok("read new c.count"), "0\n");
    host.end("-KILL");
    host.start();
    assert_eq!(host.ok("ls new -p -o pid,id,interfaces"), pid);
    let shown = host.ok("show new");
    assert!(shown.contains("state       running\n"), "{shown}");
    assert!(shown.contains(&format!("    {SINK}\n")), "{shown}");
    host.ok("destroy new other");
    assert_eq!(host.view().vnics, 0);
}

/// An answer about many guests has each as soon as it is done, and other requests come in between.
#[test]
fn work_on_many_guests_is_told_as_it_goes_on_and_keeps_nobody_waiting() {
    let host = Host::new();
    host.ok("stub create lan");
    let guest = serde_json::json!({"config": SINK, "interfaces": {"eth0": "lan"}});
    let series = serde_json::json!({"name": "g{}", "count": 200, "guest": guest}).to_string();
    let mut stream = UnixStream::connect(host.run().join("node.sock")).unwrap();
    let length = series.len();
    let head = format!(
        "POST /v1/guest-series HTTP/1.1\r\nhost: node\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all((head + &series).as_bytes()).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    while !next().contains("\"guest\":\"g1\"") {}
    // The first is told while the last is not there, and the node answers meanwhile.
    let made = host.view().guests;
    assert!((1..200).contains(&made), "{made}");
    // The client has disconnected: the work under way is finished, and the rest is not begun.
    drop(stream);
    drop(lines);
    let mut last = 0;
    until("it goes on", || {
        std::thread::sleep(Duration::from_millis(300));
        std::mem::replace(&mut last, host.view().guests) == host.view().guests
    });
    assert!((1..200).contains(&last), "{last}");
    let states = host.ok("ls -p -o state");
    assert!(states.lines().all(|state| state == "running"), "{states}");
    host.ok("destroy g*");
    assert_eq!(host.view().vnics, 0);
}

#[test]
fn a_paused_guest_stands_still_and_goes_on_with_its_state() {
    let mut host = Host::new();
    host.ok("stub create one");
    host.ok("stub create two");
    let client = host.namespace("one", "a0", "10.87.0.1/24", None);
    let _server = host.namespace("two", "b0", "10.87.0.2/24", None);
    let config = host.config("wire.click", BOTH_WAYS);
    for wall in ["vm", "process"] {
        host.ok(&format!(
            "create wire {config} --link a=one --link b=two --isolation {wall}"
        ));
        pings(&client, "10.87.0.2");
        let before: u64 = host.ok("read wire there.count").trim().parse().unwrap();
        let pid = host.ok("ls -p -o pid");
        host.ok("pause wire");
        host.shows("ls -p -o state", "paused\n");
        let mut ping = client.command("ping", "-c 2 -i 0.2 -W 0.3 10.87.0.2");
        let lost = ping.output().unwrap();
        assert!(!lost.status.success(), "a paused guest forwards");
        host.refuses("read wire there.count", "`weir resume wire` first");
        // Another node finds it as it was left.
        host.end("-KILL");
        host.start();
        host.shows("ls -p -o state", "paused\n");
        host.ok("resume wire");
        host.shows("ls -p -o state", "running\n");
        pings(&client, "10.87.0.2");
        let after: u64 = host.ok("read wire there.count").trim().parse().unwrap();
        assert!(after >= before + 3, "{before} {after}");
        assert_eq!(host.ok("ls -p -o pid"), pid);
        // One that stands still is ended as any other.
        host.ok("pause wire");
        host.ok("stop wire");
        host.shows("ls -p -o state,pid", "stopped:\n");
        host.refuses("resume wire", "`weir start wire` first");
        host.ok("start wire");
        host.shows("ls -p -o state", "running\n");
        host.ok("destroy wire");
    }
}

#[test]
fn a_guest_that_does_not_answer_shows_so() {
    let host = Host::new();
    host.ok("stub create lan");
    let config = host.config("sink.click", SINK);
    host.ok(&format!("create g {config} --link eth0=lan"));
    let pid: u32 = host.ok("ls -p -o pid").trim().parse().unwrap();
    kill("-STOP", pid);
    until("it does not show", || {
        host.ok("ls -p -o state,reason")
            == "silent:its process was stopped by a signal\\: `weir resume g` resumes it\n"
    });
    host.refuses("read g c.count", "did not answer within 2 s");
    // The time in which it stood still does not count.
    host.ok("resume g");
    host.shows("ls -p -o state", "running\n");
    assert_eq!(host.ok("read g c.count"), "0\n");
    // One that is asked and then paused is silent neither meanwhile nor after it.
    let pid: u32 = host.ok("ls -p -o pid").trim().parse().unwrap();
    for pause in [2500, 1800] {
        kill("-STOP", pid);
        let mut reading = host.weir(&["read", "g", "c.count"]);
        let mut reading = reading.stderr(Stdio::null()).stdout(Stdio::null()).spawn();
        let reading = reading.as_mut().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        host.ok("pause g");
        std::thread::sleep(Duration::from_millis(pause));
        host.shows("ls -p -o state", "paused\n");
        host.ok("resume g");
        for _ in 0..20 {
            host.shows("ls -p -o state", "running\n");
        }
        reading.wait().unwrap();
        host.shows("ls -p -o state", "running\n");
    }
}
