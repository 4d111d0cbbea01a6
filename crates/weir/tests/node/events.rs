//! Events: what happened is told, with its reason and whose request it was.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::Value;

use crate::common::{Host, LIMIT, assert_contains, ip, kill, until};

/// A guest that counts what comes.
const SINK: &str = "FromNetfront(eth0) -> c :: Counter -> Discard;";

/// Events of `weir events`, as topic, name and what happened.
fn happened(host: &Host, arguments: &str) -> Vec<String> {
    let text = |event: &Value| {
        let [topic, event] = ["topic", "event"].map(|key| event[key].as_str().unwrap());
        format!("{topic} {event}")
    };
    events(host, arguments).iter().map(text).collect()
}

fn events(host: &Host, arguments: &str) -> Vec<Value> {
    let said = host.ok(&format!("events {arguments} --json"));
    said.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn what_is_done_with_guests_and_what_befalls_them_are_events() {
    let mut host = Host::new();
    host.ok("stub create lan");
    let config = host.config("sink.click", SINK);
    host.ok(&format!("create g {config} --link eth0=lan"));
    for command in ["pause g", "resume g", "stop g", "start g", "rename g h"] {
        host.ok(command);
    }
    assert_eq!(
        happened(&host, "g h"),
        [
            "guest created",
            "guest running",
            "guest paused",
            "guest resumed",
            "guest stopped",
            "guest started",
            "guest running",
            "guest renamed",
        ]
    );
    let events = events(&host, "g");
    assert!(
        events
            .iter()
            .all(|it| it["event"] == "running" || it["by"] == "root")
    );
    let numbers: Vec<_> = events
        .iter()
        .map(|it| it["number"].as_u64().unwrap())
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    // An event without a request has a reason.
    kill("-KILL", host.ok("ls h -p -o pid").trim().parse().unwrap());
    until("it is not restarted", || {
        host.ok("events h")
            .contains("guest ‘h’ was restarted: restart 1\n")
    });
    let said = host.ok("events h");
    assert_contains(&said, "guest ‘h’ crashed: ");
    assert_contains(&said, "killed");
    assert_contains(&said, ": it restarts in 0.1 s\n");
    host.ok("destroy h");
    assert_contains(&host.ok("events h"), "guest ‘h’ was removed (by root)\n");
    let halts = host.config("halts.click", "Script(wait 0.5, stop);");
    host.ok(&format!("create halts {halts}"));
    until("it does not end", || {
        happened(&host, "halts").contains(&"guest ended".to_string())
    });
    // The log has the same sentences, with time and level.
    let log = host.said.lock().unwrap().join("\n");
    assert_contains(&log, " warn  weir: guest ‘h’ crashed: ");
    assert_contains(&log, " info  weir: stub ‘lan’ was created (by root)");
    let first = log.lines().next().unwrap();
    assert!(first.starts_with("20") && first.contains('T'), "{first}");
    // A number of the next node is higher than any of the last one.
    let last = numbers.last().unwrap();
    host.end("-KILL");
    host.start();
    host.ok("stub create other");
    let next = self::events(&host, "other");
    assert!(next[0]["number"].as_u64().unwrap() > *last);
    host.refuses("events --since never", "‘never’ is not a time");
}

#[test]
fn links_the_switch_and_wires_tell_when_they_go_and_come() {
    let host = Host::new();
    let name = format!("w{}ev", std::process::id());
    let peer = format!("w{}ew", std::process::id());
    let make = || ip(&format!("link add {name} type veth peer name {peer}"));
    make();
    ip(&format!("link set {name} up"));
    host.ok(&format!("link attach {name}"));
    ip(&format!("link delete {name}"));
    until("it is not down", || {
        host.ok(&format!("events {name}")).contains(" is down: ")
    });
    make();
    ip(&format!("link set {name} up"));
    until("it is not up", || {
        happened(&host, &name) == ["link created", "link down", "link up"]
    });
    host.ok(&format!("link detach {name}"));
    ip(&format!("link delete {name}"));
    host.lose_switch();
    until("the switch's end is no event", || {
        happened(&host, "").contains(&"switch restarted".to_string())
    });
    let file = host.file("w.toml", "wire = 'w'\n[stub.inner]\n");
    host.ok(&format!("wire apply {file}"));
    host.ok("wire delete w");
    assert_eq!(happened(&host, "w"), ["wire applied", "wire removed"]);
    assert_contains(
        &host.ok("events w"),
        "wire ‘w’ was applied: 1 step (by root)\n",
    );
}

/// A client goes on behind the last event that it has had.
#[test]
fn a_follower_of_events_goes_on_where_it_was() {
    let host = Host::new();
    let follow = |last: Option<&str>| {
        let mut stream = UnixStream::connect(host.run().join("node.sock")).unwrap();
        let last = last.map_or_else(String::new, |last| format!("last-event-id: {last}\r\n"));
        let head = format!("GET /v1/events?follow=true HTTP/1.1\r\nhost: node\r\n{last}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        BufReader::new(stream).lines().map_while(Result::ok)
    };
    let mut first = follow(None);
    host.ok("stub create one");
    let id = first
        .find_map(|line| Some(line.strip_prefix("id:")?.trim().to_string()))
        .unwrap();
    drop(first);
    host.ok("stub create two");
    host.ok("stub create three");
    let mut again = follow(Some(&id));
    let mut data = || again.find(|line| line.starts_with("data:")).unwrap();
    assert_contains(&data(), "\"name\":\"two\"");
    assert_contains(&data(), "\"name\":\"three\"");
    host.ok("stub delete two");
    assert_contains(&data(), "\"event\":\"removed\"");
    // One that comes from before this node is told that it has missed some.
    let mut old = follow(Some("7"));
    let told = old.find(|line| line.starts_with("data:")).unwrap();
    assert_contains(&told, "\"event\":\"lost\"");
    let refused = follow(Some("x")).last().unwrap();
    assert_contains(&refused, "the header Last-Event-ID is invalid");
}
