//! Several configurations in one guest.

use std::fs;

use crate::common::{Host, Stream, assert_contains, path, pings, until};

/// A wire between two interfaces.
fn wire(a: &str, b: &str) -> String {
    format!(
        "FromNetfront({a}) -> there :: Counter -> ToNetfront({b});
         FromNetfront({b}) -> back :: Counter -> ToNetfront({a});"
    )
}

/// Counts a number of packets, and stops a while later.
const STOPS: &str = "define($N 5);
    InfiniteSource(LIMIT $N) -> c :: Counter -> Discard;
    DriverManager(wait 100ms, stop);";

fn number(host: &Host, guest: &str, handler: &str) -> u64 {
    let value = host.ok(&format!("read {guest} {handler}"));
    value.trim().parse().unwrap()
}

fn states(host: &Host, guest: &str) -> String {
    host.ok(&format!("ls -p -o configurations {guest}"))
}

#[test]
fn configurations_run_side_by_side_and_one_that_is_wrong_leaves_the_others_alone() {
    let host = Host::new();
    for link in ["l1", "l2", "l3", "l4"] {
        host.ok(&format!("stub create {link}"));
    }
    let end = |link, name, address| host.namespace(link, name, address, None);
    let [a, b] = [
        end("l1", "a0", "10.90.0.1/24"),
        end("l2", "b0", "10.90.0.2/24"),
    ];
    let [c, d] = [
        end("l3", "c0", "10.91.0.1/24"),
        end("l4", "d0", "10.91.0.2/24"),
    ];
    let main = host.config("main.click", &wire("a", "b"));
    let other = host.config("other.click", &wire("c", "d"));
    host.ok(&format!(
        "create g {main} --link a=l1 --link b=l2 --link c=l3 --link d=l4"
    ));
    pings(&a, "10.90.0.2");
    let stream = Stream::start(path(&a), path(&b), "10.90.0.2");
    let before = number(&host, "g", "there.count");
    host.ok(&format!("install g other {other}"));
    assert!(number(&host, "g", "there.count") >= before && before > 0);
    pings(&c, "10.91.0.2");
    drop(d);
    assert_eq!(states(&host, "g"), "main=running,other=running\n");
    // Names are each configuration's own.
    let before = number(&host, "g", "there.count");
    assert!(number(&host, "g", "other/there.count") >= 3 && before >= 3);
    assert_contains(&host.ok("read g list"), "other/there\n");

    let wrong = host.config("wrong.click", "Idle\n  -> Conter -> Discard;");
    host.refuses(
        &format!("install g x {wrong}"),
        "wrong.click:2: undeclared element 'Conter'",
    );
    let taken = host.config(
        "taken.click",
        "Idle -> Discard;\nFromNetfront(c) -> Discard;",
    );
    host.refuses(
        &format!("install g x {taken}"),
        "taken.click:2: configuration 'other' receives what comes by interface 'c'",
    );
    let taken = host.config("taken.click", "FromNetfront(a) -> Discard;");
    host.refuses(
        &format!("install g x {taken}"),
        "the guest's main configuration receives what comes by interface 'a'",
    );
    host.refuses(
        &format!("install g main {wrong}"),
        "‘main’ is not a valid name",
    );
    host.refuses(
        &format!("install g a/b {wrong}"),
        "‘a/b’ is not a valid name",
    );
    host.refuses("uninstall g x", "guest ‘g’ has no configuration ‘x’");
    host.refuses(&format!("install none x {wrong}"), "no guest ‘none’");
    // One configuration sees nothing of the other.
    let peeks = host.config(
        "peeks.click",
        "Idle -> Counter(COUNT_CALL 1 there.reset) -> Discard;",
    );
    let said = host.refusals(&format!("install g x {peeks}"));
    assert_contains(&said, "no element named 'there'");
    host.refuses(
        &format!(
            "set g --config {}",
            host.config("inner.click", "elementclass C { input -> output } Idle -> other :: C -> other2 :: Discard; other/x :: Idle -> Discard;")
        ),
        "inner.click:1:",
    );
    assert!(number(&host, "g", "there.count") > before);
    host.ok("uninstall g other");
    assert_eq!(states(&host, "g"), "\n");
    host.refuses("read g other/there.count", "no element named");
    let (sent, arrived) = stream.end();
    assert_eq!(sent, arrived, "what the others forward is not disturbed");
    let events = host.ok("events g");
    for told in [
        "has another configuration: ‘other’",
        "has a configuration less: ‘other’",
    ] {
        assert_eq!(events.matches(told).count(), 1, "{events}");
    }
}

#[test]
fn a_configuration_that_stops_does_not_stop_the_others() {
    for options in ["", "--cpus 2", "--isolation process"] {
        let host = Host::new();
        let main = host.config(
            "main.click",
            "TimedSource(0.01) -> t :: Counter -> Discard;",
        );
        let stops = host.config("stops.click", STOPS);
        host.ok(&format!("create g {main} {options}"));
        host.ok(&format!("install g one {stops} N=7"));
        host.ok(&format!("install g two {stops}"));
        until("they do not stop", || {
            states(&host, "g") == "main=running,one=halted,two=halted\n"
        });
        // What they were is there to be read.
        assert_eq!(number(&host, "g", "one/c.count"), 7);
        assert_eq!(number(&host, "g", "two/c.count"), 5);
        let ticks = number(&host, "g", "t.count");
        until("the others stand still", || {
            number(&host, "g", "t.count") > ticks
        });
        // It stays so while others come and go, and runs again if it is replaced.
        host.ok("uninstall g two");
        assert_eq!(states(&host, "g"), "main=running,one=halted\n");
        host.ok(&format!("install g one {stops} N=3"));
        until("it does not stop again", || {
            states(&host, "g") == "main=running,one=halted\n"
                && number(&host, "g", "one/c.count") >= 3
        });
        // With the last one the guest ends.
        let ends = host.config("ends.click", "Script(wait 50ms, stop);");
        host.ok("set g --restart never");
        host.ok(&format!("set g --config {ends}"));
        until("the guest goes on", || {
            host.ok("ls -p -o state g") == "halted\n"
        });
    }
}

#[test]
fn configurations_stay_with_the_guest_over_restarts_copies_and_nodes() {
    let mut host = Host::new();
    let main = host.config(
        "main.click",
        "TimedSource(0.01) -> t :: Counter -> Discard;",
    );
    let other = host.config(
        "other.click",
        "define($N 5); i :: InfiniteSource(LIMIT $N) -> c :: Counter -> q :: Queue(100) -> Idle;",
    );
    host.ok(&format!("create g {main}"));
    host.ok(&format!("install g b {other} N=9"));
    let runs = |host: &Host, guest: &str, count| {
        assert_eq!(states(host, guest), "b=running,main=running\n");
        assert_eq!(number(host, guest, "b/c.count"), count);
    };
    until("it does not work", || number(&host, "g", "b/c.count") == 9);
    host.ok("write g b/c.reset");
    // The state belongs to the guest, in any kind of copy.
    let file = host.run().join("g.saved");
    host.ok(&format!("save --keep g {}", file.display()));
    host.ok("clone g copy");
    runs(&host, "copy", 0);
    host.ok("destroy g");
    host.ok(&format!("restore {}", file.display()));
    runs(&host, "g", 0);
    host.end("-KILL");
    host.start();
    runs(&host, "g", 0);
    host.ok("rename g h");
    host.ok("restart h");
    until("it does not work", || number(&host, "h", "b/c.count") == 9);
    // A guest that does not run takes one for its next start.
    host.ok("stop h");
    host.ok(&format!("install h d {other}"));
    host.ok("start h");
    assert_eq!(states(&host, "h"), "b=running,d=running,main=running\n");
    // What GET shows can be put back, and PATCH removes one.
    let shown = host.json("show h");
    assert_eq!(shown[0]["configurations"]["b"]["variables"]["N"], "9");
    let client = host.client();
    let patch = serde_json::json!({"configurations": {"d": null}});
    client.patch::<node::model::Guest>("h", &patch).unwrap();
    runs(&host, "h", 9);
    assert_eq!(client.configuration("h", "b").unwrap().variables["N"], "9");
}

#[test]
fn a_wire_has_guests_with_several_configurations() {
    let host = Host::new();
    host.config("other.click", "Idle -> c :: Counter -> Discard;");
    let file = host.file(
        "wire.toml",
        "wire = '@w'
[guest.g]
config = 'Idle -> Discard;'
[guest.g.configurations.b]
file = 'other.click'
",
    );
    host.ok(&format!("wire apply {file}"));
    assert_eq!(states(&host, "g"), "b=running,main=running\n");
    let text = fs::read_to_string(&file).unwrap();
    let file = host.config(
        "wire.toml",
        &text.replace("Idle -> Discard", "Idle -> x :: Discard"),
    );
    host.ok(&format!("wire apply {file}"));
    assert_eq!(states(&host, "g"), "b=running,main=running\n");
    let without = text.split("[guest.g.conf").next().unwrap().to_string();
    let file = host.config("wire.toml", &without);
    host.ok(&format!("wire apply {file}"));
    assert_eq!(states(&host, "g"), "\n");
}
