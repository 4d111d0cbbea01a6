//! Elements of guests that use the node's control store.

use std::process::Command;

use crate::common::{Host, assert_contains, until};

/// A guest that a node of the store steers, and that tells a count.
const STEERED: &str = "
s :: RatedSource(RATE 10) -> c :: Counter -> Discard;
watch :: StoreWatch(data/rate, s.rate);
own :: StoreRead(name);
told :: StoreWrite(data/count, HANDLER s.count, INTERVAL 100ms);
free :: StoreWrite(data/free);
other :: StoreWrite(/local/domain/0/name);
high :: StoreRead(/local/domain/0/name, DEFAULT none);
";

/// What a tool of Xen's prints, or its error.
fn xenstore(host: &Host, tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(format!("xenstore-{tool}"))
        .args(arguments)
        .env("XENSTORED_PATH", host.run().join("store.sock"))
        .output()
        .unwrap();
    let text = if output.status.success() {
        output.stdout
    } else {
        output.stderr
    };
    String::from_utf8(text).unwrap().trim_end().into()
}

fn path(host: &Host, guest: &str) -> String {
    let domain = host.ok(&format!("ls {guest} -p -o domain"));
    format!("/local/domain/{}", domain.trim())
}

/// Asserts that a node of the store steers a guest.
fn steers(host: &Host, guest: &str, rate: u32) {
    let own = path(host, guest);
    xenstore(
        host,
        "write",
        &[&format!("{own}/data/rate"), &rate.to_string()],
    );
    until("the guest does not follow", || {
        host.ok(&format!("read {guest} s.rate")) == format!("{rate}\n")
    });
}

#[test]
fn elements_read_write_and_follow_nodes_of_the_store() {
    let host = Host::new();
    let config = host.config("steered.click", STEERED);
    for (guest, wall) in [("vm", "vm"), ("pro", "process")] {
        host.ok(&format!("create {guest} {config} --isolation {wall}"));
        until("it does not read its name", || {
            host.ok(&format!("read {guest} own.value")) == format!("{guest}\n")
        });
        steers(&host, guest, 25);
        steers(&host, guest, 40);
        assert_eq!(host.ok(&format!("read {guest} watch.changes")), "2\n");
        let own = path(&host, guest);
        until("it does not tell its count", || {
            xenstore(&host, "read", &[&format!("{own}/data/count")])
                .parse::<u64>()
                .is_ok_and(|n| n > 2)
        });
        let long = "x".repeat(2000);
        host.ok(&format!("write {guest} free.write {long}"));
        until("a long value does not come", || {
            xenstore(&host, "read", &[&format!("{own}/data/free")]) == long
        });
        // One that is longer than its quota is refused, and so is what is not its own.
        host.ok(&format!("write {guest} free.write {}", "x".repeat(3000)));
        until("it is not refused", || {
            host.ok(&format!("read {guest} free.error")) == "ENOSPC\n"
        });
        host.ok(&format!("write {guest} other.write mine"));
        until("it is not refused", || {
            host.ok(&format!("read {guest} other.error")) == "EACCES\n"
        });
        until("it is not refused", || {
            host.ok(&format!("read {guest} high.error")) == "EACCES\n"
        });
        assert_eq!(host.ok(&format!("read {guest} high.value")), "none\n");
        assert_eq!(
            xenstore(&host, "read", &["/local/domain/0/name"]),
            "Domain-0"
        );
        // A wrong value is told, and the next one followed.
        xenstore(&host, "write", &[&format!("{own}/data/rate"), "fast"]);
        until("the error is not told", || {
            !host
                .ok(&format!("read {guest} watch.error"))
                .trim()
                .is_empty()
        });
        assert_contains(&host.ok(&format!("logs {guest}")), "data/rate: ");
        steers(&host, guest, 50);
    }
}

#[test]
fn elements_go_on_with_another_store_another_node_and_in_copies() {
    let mut host = Host::new();
    let config = host.config("steered.click", STEERED);
    for (guest, wall) in [("vm", "vm"), ("pro", "process")] {
        host.ok(&format!("create {guest} {config} --isolation {wall}"));
        steers(&host, guest, 20);
    }
    // Another store takes the place of the one that is killed.
    let store = host.view().store_pid.unwrap();
    crate::common::kill("-KILL", store);
    until("there is no other store", || {
        host.view().store_pid.is_some_and(|pid| pid != store)
    });
    steers(&host, "vm", 30);
    steers(&host, "pro", 30);
    // Another node, and then another store.
    host.end("-KILL");
    host.start();
    steers(&host, "vm", 35);
    let store = host.view().store_pid.unwrap();
    crate::common::kill("-KILL", store);
    until("there is no other store", || {
        host.view().store_pid.is_some_and(|pid| pid != store)
    });
    steers(&host, "vm", 45);
    steers(&host, "pro", 45);
    // A hotswap, a restart, a clone, and a guest that was saved.
    for guest in ["vm", "pro"] {
        let other = host.config("other.click", &STEERED.replace("RATE 10", "RATE 11"));
        host.ok(&format!("set {guest} --config {other}"));
        steers(&host, guest, 55);
        host.ok(&format!("restart {guest}"));
        steers(&host, guest, 60);
        host.ok(&format!("clone {guest} {guest}-copy"));
        steers(&host, &format!("{guest}-copy"), 65);
        steers(&host, guest, 70);
        let file = host.run().join("saved");
        host.ok(&format!("save {guest} {}", file.display()));
        host.ok(&format!("restore {}", file.display()));
        steers(&host, guest, 75);
    }
}

#[test]
fn the_only_guest_is_heard_after_it_was_started_again() {
    let host = Host::new();
    let config = host.config("steered.click", STEERED);
    host.ok(&format!("create alone {config}"));
    steers(&host, "alone", 20);
    for rate in [30, 40] {
        host.ok("restart alone");
        steers(&host, "alone", rate);
    }
    host.ok("destroy alone");
    host.ok(&format!("create alone {config}"));
    steers(&host, "alone", 50);
}

#[test]
fn weir_click_uses_the_store_that_the_environment_names() {
    const CONFIG: &str = "
        got :: Script(TYPE PASSIVE, print \"got $1\");
        last :: Script(TYPE PASSIVE, print \"last $1\", stop);
        StoreWatch(/test/key, HANDLER got.run);
        StoreWatch(/test/last, HANDLER last.run);
        told :: StoreWrite(/test/told, HANDLER c.count, INTERVAL 50ms);
        RatedSource(RATE 100) -> c :: Counter -> Discard;
    ";
    let host = Host::new();
    for threads in ["1", "2"] {
        let mut click = Command::new(env!("CARGO_BIN_EXE_weir"));
        click.args(["click", "--threads", threads, "-e", CONFIG]);
        click.env("XENSTORED_PATH", host.run().join("store.sock"));
        let click = click.stdout(std::process::Stdio::piped()).spawn().unwrap();
        xenstore(&host, "write", &["/test/key", "one"]);
        until("it tells nothing", || {
            xenstore(&host, "read", &["/test/told"])
                .parse::<u64>()
                .is_ok_and(|n| n > 0)
        });
        let store = host.view().store_pid.unwrap();
        crate::common::kill("-KILL", store);
        until("there is no other store", || {
            host.view().store_pid.is_some_and(|pid| pid != store)
        });
        xenstore(&host, "write", &["/test/key", "two"]);
        until("it does not tell another store", || {
            xenstore(&host, "read", &["/test/told"])
                .parse::<u64>()
                .is_ok_and(|n| n > 0)
        });
        xenstore(&host, "write", &["/test/last", "three"]);
        let output = click.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_contains(&said, "got two\n");
        assert_contains(&said, "last three\n");
        xenstore(&host, "rm", &["/test"]);
    }
    for nowhere in [None, Some("/nowhere")] {
        let mut click = Command::new(env!("CARGO_BIN_EXE_weir"));
        click.args(["click", "-e", "StoreRead(a);"]);
        click.env_remove("XENSTORED_PATH");
        click.envs(nowhere.map(|path| ("XENSTORED_PATH", path)));
        let output = click.output().unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_contains(
            &said,
            "there is no control store: name its socket in XENSTORED_PATH",
        );
    }
}
