//! Health: handlers of guests are checked, and guests that fail are told and restarted.

use std::time::Duration;

use node::model::{Guest, GuestState, GuestStatus};

use crate::common::{Host, assert_contains, kill, until};

/// A guest whose counter counts while its source is active, which it is after each start.
const COUNTS: &str = "
s :: RatedSource(RATE 1000, ACTIVE true) -> c :: Counter -> Discard;
";

fn status(host: &Host, guest: &str) -> GuestStatus {
    host.client().show::<Guest>(guest).unwrap().status
}

fn state(host: &Host, guest: &str) -> GuestState {
    status(host, guest).state
}

#[test]
fn a_guest_whose_checks_fail_is_unhealthy_and_then_healthy_again() {
    let host = Host::new();
    let config = host.config("counts.click", COUNTS);
    let check = "c.count < 100 every 100ms failures 2";
    let create = |name: &str, wall: &str| {
        let mut command = host.weir(&["create", name, &config, "--restart", "never"]);
        command.args(["--isolation", wall, "--health", check]);
        command.args(["--health", "s.active every 100ms"]);
        assert!(command.status().unwrap().success());
    };
    for (guest, wall) in [("vm", "vm"), ("pro", "process")] {
        create(guest, wall);
        until("it stays healthy", || {
            state(&host, guest) == GuestState::Unhealthy
        });
        let reason = status(&host, guest).reason.unwrap();
        assert_contains(&reason, "‘c.count < 100’ failed ");
        assert_contains(&reason, " times: it is ‘");
        host.ok(&format!("write {guest} s.active false"));
        host.ok(&format!("write {guest} c.reset"));
        // The other check fails now, three times by default.
        until("it is not the other one", || {
            let reason = status(&host, guest).reason.unwrap_or_default();
            reason.starts_with("‘s.active’ failed ") && reason.contains(" times: it is ‘false’")
        });
        host.ok(&format!("set {guest} --no-health"));
        assert_eq!(state(&host, guest), GuestState::Running);
        let events = host.ok(&format!("events {guest}"));
        assert_contains(
            &events,
            &format!("guest ‘{guest}’ is unhealthy: ‘c.count < 100’ failed 2"),
        );
        // A change of the checks holds at once.
        let mut set = host.weir(&["set", guest, "--health", "s.active every 100ms failures 1"]);
        assert!(set.status().unwrap().success());
        until("it is healthy", || {
            state(&host, guest) == GuestState::Unhealthy
        });
        host.ok(&format!("write {guest} s.active true"));
        until("it stays unhealthy", || {
            state(&host, guest) == GuestState::Running
        });
        let events = host.ok(&format!("events {guest}"));
        assert_contains(&events, &format!("guest ‘{guest}’ is healthy again"));
        assert_eq!(status(&host, guest).restarts, 0);
    }
    let metrics = host.client().metrics().unwrap();
    assert_contains(&metrics, "weir_guest_healthy{guest=\"vm\"} 1");
}

#[test]
fn a_check_that_can_never_pass_is_refused() {
    let host = Host::new();
    let config = host.config("counts.click", COUNTS);
    let says = |arguments: &[&str], why: &str| {
        let output = host.weir(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert_contains(&String::from_utf8_lossy(&output.stderr), why);
    };
    for (check, why) in [
        ("c.count < abc", "‘<’ compares numbers, and ‘abc’ is none"),
        ("d.count < 5", "there is no element 'd'"),
        ("c.counts < 5", "element 'c' has no read handler 'counts'"),
        ("c.reset", "element 'c' has no read handler 'reset'"),
        ("lists", "a router has no read handler 'lists'"),
    ] {
        says(&["create", "g", &config, "--health", check], why);
    }
    host.shows("ls -p", "");
    // One of a configuration that is installed later is left to be seen.
    let create = [
        "create",
        "g",
        &config,
        "--health",
        "probe/c.count > 0",
        "--restart",
        "never",
    ];
    assert!(host.weir(&create).status().unwrap().success());
    says(
        &["set", "g", "--health", "d.count < 5"],
        "there is no element 'd'",
    );
}

#[test]
fn an_unhealthy_guest_is_restarted_and_its_report_says_why() {
    let mut host = Host::new();
    let config = host.config("counts.click", COUNTS);
    let create = |name: &str, check: &str| {
        let words = ["create", name, &config, "--health", check];
        assert!(host.weir(&words).status().unwrap().success());
    };
    create("fw", "s.active every 100ms failures 2");
    create("deaf", "c.count >= 0 every 100ms failures 1");
    create("wrong", "later/c.count > 0 every 100ms failures 1");
    // The checks stay with the guests over the node's end.
    host.end("-KILL");
    host.start();
    let pid = status(&host, "fw").pid;
    host.ok("write fw s.active false");
    until("it is not restarted", || {
        let is = status(&host, "fw");
        is.state == GuestState::Running && is.pid != pid && is.restarts == 1
    });
    let report = host.ok("crash show fw");
    assert_contains(
        &report,
        "the node ended it, since it was unhealthy: ‘s.active’ failed 2 times: it is ‘false’",
    );
    until("a handler that there is not passes", || {
        status(&host, "wrong").restarts > 0
    });
    assert_contains(&host.ok("crash show wrong"), "later/c");
    host.ok("set wrong --no-health");
    // One that was paused by command has no reason to answer; one that hangs has.
    host.ok("pause deaf");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(state(&host, "deaf"), GuestState::Paused);
    host.ok("resume deaf");
    let pid = status(&host, "deaf").pid.unwrap();
    kill("-STOP", pid);
    until("it is not restarted", || {
        let is = status(&host, "deaf");
        is.state == GuestState::Running && is.pid != Some(pid)
    });
    assert_contains(&host.ok("crash show deaf"), "no answer within 2 s");
    // Nothing is left to be checked.
    host.ok("destroy fw deaf wrong");
}

#[test]
fn a_check_that_is_none_is_refused() {
    let host = Host::new();
    let config = host.config("counts.click", COUNTS);
    let refused = |words: &[&str]| {
        let output = host.weir(words).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let wrong = "c.count > 0 every now and then";
    let said = refused(&["create", "fw", &config, "--health", wrong]);
    assert_contains(&said, "‘now’ is not a time from 100ms to 1day");
    host.ok(&format!("create fw {config}"));
    let patch = serde_json::json!({"health": ["> 3"]});
    let error = host.client().patch::<Guest>("fw", &patch).unwrap_err();
    assert_contains(&error.error, "it names no handler");
    assert_eq!(error.field.as_deref(), Some("health[0]"));
}
