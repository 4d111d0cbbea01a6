//! Routers of guests by the control store alone, as ClickOS's tools have them.

use std::time::{Duration, Instant};

use store::client::Client;

use crate::common::{Host, LIMIT, assert_contains, kill, until};
use crate::store::{has_other_store, output, prints, status, store_pid, xen};

const MAIN: &str = "RatedSource(RATE 1000) -> own :: Counter -> s :: Switch(0) -> Discard;
    InfiniteSource(LIMIT 7) -> q :: Queue(10) -> Idle;";
/// Two chunks of a configuration, cut within a word.
const PROBE: [&str; 2] = [
    "src :: RatedSource(RATE 1000) -> k :: Coun",
    "ter -> s :: Switch(0) -> Discard;",
];
const BASE: &str = "/local/domain/1/data/clickos";

fn read(host: &Host, key: &str) -> Option<String> {
    let output = output(host, &format!("xenstore-read {BASE}/{key}"));
    let text = String::from_utf8(output.stdout).unwrap();
    let is_there = output.status.success();
    is_there.then(|| text.strip_suffix('\n').unwrap_or(&text).to_string())
}

fn write(host: &Host, key: &str, value: &str) {
    let mut command = xen(host, "xenstore-write");
    let written = command
        .args(["--", &format!("{BASE}/{key}"), value])
        .output();
    assert!(written.unwrap().status.success(), "{key}");
}

/// Waits until an entry has a value.
#[track_caller]
fn is(host: &Host, key: &str, value: &str) {
    until(&format!("{key} is not {value}"), || {
        read(host, key).as_deref() == Some(value)
    });
}

/// Waits for a sentence at an entry.
#[track_caller]
fn says(host: &Host, key: &str, sentence: &str) {
    let start = Instant::now();
    loop {
        let said = read(host, key).unwrap_or_default();
        if said.contains(sentence) {
            return;
        }
        assert!(
            start.elapsed() < LIMIT,
            "{key}: ‘{said}’ instead of ‘{sentence}’"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads a handler by the store, and waits until its value is there.
#[track_caller]
fn value(host: &Host, router: u8, handler: &str) -> String {
    let node = format!("{router}/elements/{handler}");
    // It may not be there.
    output(host, &format!("xenstore-rm {BASE}/{node}"));
    write(host, &format!("{router}/control/read/{handler}"), " ");
    is(host, &format!("{node}/lock"), "0");
    read(host, &node).unwrap()
}

/// Makes the entries of a router that does not run, as ClickOS's tool does.
fn install(host: &Host, router: u8, name: &str, chunks: &[&str]) {
    let mut client = Client::connect(&host.run().join("store.sock")).unwrap();
    let installed = client.transaction(|client| {
        let path = format!("{BASE}/{router}");
        client.make(&format!("{path}/control"))?;
        client.make(&format!("{path}/elements"))?;
        client.write(&format!("{path}/config_name"), name.as_bytes())?;
        client.write(&format!("{path}/status"), b"Halted")?;
        for (i, chunk) in chunks.iter().enumerate() {
            client.write(&format!("{path}/config/{i}"), chunk.as_bytes())?;
        }
        Ok(())
    });
    installed.unwrap();
}

/// Waits until the guest runs these configurations.
#[track_caller]
fn runs(host: &Host, guest: &str, configurations: &str) {
    until(
        &format!("‘{guest}’ does not run {configurations}"),
        || host.ok(&format!("ls -p -o configurations {guest}")) == format!("{configurations}\n"),
    );
}

#[test]
fn a_router_is_installed_started_stopped_and_removed_by_the_store_alone() {
    for isolation in ["auto", "process"] {
        let host = Host::new();
        let config = host.config("main.click", MAIN);
        host.ok(&format!("create fw {config} --isolation {isolation}"));
        install(&host, 1, "probe.click", &PROBE);
        assert_eq!(read(&host, "1/status").unwrap(), "Halted");
        write(&host, "1/status", "Running");
        runs(&host, "fw", "1=running,main=running");
        until("it counts nothing", || value(&host, 1, "k/count") != "0");
        assert_eq!(value(&host, 1, "s/switch"), "0");
        write(&host, "1/elements/s/switch", "-1");
        until("the handler is not written", || {
            host.ok("read fw 1/s.switch").trim() == "-1"
        });
        assert_eq!(value(&host, 1, "s/switch"), "-1");
        assert_eq!(host.ok("read fw s.switch").trim(), "0");
        let shown = host.ok("show fw");
        assert_contains(&shown, "probe.click");
        assert_contains(&shown, &PROBE.concat());

        write(&host, "1/status", "Halted");
        runs(&host, "fw", "");
        write(&host, "1/elements/s/switch", "0");
        says(&host, "1/elements/s/switch/error", "router 1 does not run");
        write(&host, "1/status", "Running");
        runs(&host, "fw", "1=running,main=running");
        // Another text takes its place, and its elements keep their state.
        write(&host, "1/elements/s/switch", "-1");
        until("the handler is not written", || {
            host.ok("read fw 1/s.switch").trim() == "-1"
        });
        write(&host, "1/config/2", " Idle -> more :: Discard;");
        write(&host, "1/status", "Running");
        until("it has no more", || {
            host.output("read fw 1/more.class").status.success()
        });
        let before = host.ok("read fw 1/k.count");
        assert_ne!(before.trim(), "0");

        // One that is wrong says where, and the others run on.
        install(&host, 2, "wrong.click", &["Idle\n -> Conter -> Discard;"]);
        write(&host, "2/status", "Running");
        is(&host, "2/status", "Error");
        says(
            &host,
            "2/error",
            "wrong.click:2: undeclared element 'Conter'",
        );
        write(&host, "2/config/0", "Idle -> Counter -> Discard;");
        write(&host, "2/status", "Running");
        runs(&host, "fw", "1=running,2=running,main=running");
        until("the error stays", || read(&host, "2/error").is_none());
        // What is wrong with a text does not end the one that runs.
        write(&host, "2/config/0", "Idle ->");
        write(&host, "2/status", "Running");
        says(&host, "2/error", "wrong.click:1:");
        assert_eq!(read(&host, "2/status").unwrap(), "Running");
        runs(&host, "fw", "1=running,2=running,main=running");

        prints(&host, &format!("xenstore-rm {BASE}/2"));
        runs(&host, "fw", "1=running,main=running");
        prints(&host, &format!("xenstore-rm {BASE}/1"));
        runs(&host, "fw", "");
        assert_eq!(prints(&host, &format!("xenstore-list {BASE}")), "0\n");
        assert_contains(
            &host.ok("events fw"),
            "has another configuration: ‘1’ (by store)",
        );
    }
}

#[test]
fn the_guests_own_configuration_is_router_0() {
    let host = Host::new();
    let config = host.config("main.click", MAIN);
    host.ok(&format!("create fw {config}"));
    assert_eq!(read(&host, "0/config_name").unwrap(), "main.click");
    until("it counts nothing", || value(&host, 0, "own/count") != "0");
    write(&host, "0/elements/s/switch", "-1");
    until("the handler is not written", || {
        value(&host, 0, "s/switch") == "-1"
    });
    // It runs as long as the guest.
    write(&host, "0/status", "Halted");
    says(&host, "0/error", "`weir stop` ends both");
    assert_eq!(read(&host, "0/status").unwrap(), "Running");
    prints(&host, &format!("xenstore-rm {BASE}/0"));
    is(&host, "0/status", "Running");
    // It is replaced while it runs: the state of what stays is kept.
    write(
        &host,
        "0/config/0",
        "Idle -> q :: Queue(10) -> new :: Idle;",
    );
    write(&host, "0/config_name", "new.click");
    write(&host, "0/status", "Running");
    until("it is as it was", || {
        host.output("read fw new.class").status.success()
    });
    assert_eq!(value(&host, 0, "q/length"), "7");
    assert_contains(&host.ok("show fw"), "new.click");
    // Elements of a configuration beside it, too, with any name.
    let probe = host.config("probe.click", &PROBE.concat());
    host.ok(&format!("install fw probe {probe}"));
    assert_eq!(value(&host, 0, "probe/s/switch"), "0");
}

#[test]
fn what_is_wrong_is_said_in_an_entry_and_nothing_is_lost() {
    let host = Host::new();
    let long = "x".repeat(6000);
    let config = host.config(
        "main.click",
        &format!("i :: InfiniteSource(DATA \"{long}\", LIMIT 0) -> s :: Switch(0) -> Discard;"),
    );
    host.ok(&format!("create fw {config}"));
    write(&host, "0/control/read/s/none", " ");
    says(&host, "0/elements/s/none/error", "no handler named 'none'");
    is(&host, "0/elements/s/none/lock", "0");
    write(&host, "0/control/read/none/count", " ");
    says(
        &host,
        "0/elements/none/count/error",
        "no element named 'none'",
    );
    write(&host, "0/elements/s/switch", "many");
    says(&host, "0/elements/s/switch/error", "must be integer");
    write(&host, "0/elements/s/class", "Other");
    says(&host, "0/elements/s/class/error", "class");
    write(&host, "0/control/read/i/config", " ");
    says(
        &host,
        "0/elements/i/config/error",
        "bytes, and an entry holds",
    );
    for rubbish in ["count", "write/s/switch", "read/s"] {
        write(&host, &format!("0/control/{rubbish}"), "1");
        says(
            &host,
            "0/error",
            &format!("control/{rubbish}: 'control/read/ELEMENT/HANDLER' is expected"),
        );
    }
    write(&host, "0/status", "running");
    says(
        &host,
        "0/error",
        "status 'running': Running or Halted is expected",
    );
    write(&host, "9/control/read/s/switch", " ");
    says(&host, "9/elements/s/switch/error", "router 9 does not run");
    write(&host, "9/status", "Running");
    says(&host, "9/error", "the configuration is missing");
    for name in ["64", "01", "fw"] {
        write(&host, &format!("{name}/status"), "Running");
        says(
            &host,
            &format!("{name}/error"),
            "a router has a number from 0 to 63",
        );
    }
    let mut client = Client::connect(&host.run().join("store.sock")).unwrap();
    client
        .write(&format!("{BASE}/0/elements/s/switch"), b"\xff\xfe")
        .unwrap();
    says(&host, "0/elements/s/switch/error", "the value is not UTF-8");
    for i in 0..600 {
        let chunk = "x".repeat(2000);
        client
            .write(&format!("{BASE}/10/config/{i}"), chunk.as_bytes())
            .unwrap();
    }
    write(&host, "10/status", "Running");
    says(
        &host,
        "10/error",
        "the configuration has more than 1048576 bytes",
    );
    // What is right is done after all that.
    assert_eq!(value(&host, 0, "s/switch"), "0");
    assert_eq!(read(&host, "0/elements/s/switch/error"), None);
}

#[test]
fn many_requests_at_once_are_done_or_refused_in_a_sentence() {
    let host = Host::new();
    let config = host.config("main.click", MAIN);
    host.ok(&format!("create fw {config}"));
    host.ok("pause fw");
    let mut client = Client::connect(&host.run().join("store.sock")).unwrap();
    client
        .write(&format!("{BASE}/0/elements/s/switch"), b"-1")
        .unwrap();
    says(&host, "0/elements/s/switch/error", "paused");
    host.ok("resume fw");
    // The node takes none meanwhile.
    let pid = host.view().pid;
    kill("-STOP", pid);
    for i in 0..100 {
        let path = format!("{BASE}/0/control/read/s/handler{i}");
        client.write(&path, b" ").unwrap();
    }
    says(
        &host,
        "0/elements/s/handler99/error",
        "64 requests of this guest wait",
    );
    kill("-CONT", pid);
    until("not all that waited is done", || {
        (0..64).all(|i| {
            let said = read(&host, &format!("0/elements/s/handler{i}/error"));
            said.is_some_and(|said| said.contains("no handler named"))
        })
    });
    assert_eq!(value(&host, 0, "s/switch"), "0");
}

#[test]
fn routers_outlive_the_store_the_node_and_their_guest() {
    let mut host = Host::new();
    let config = host.config("main.click", MAIN);
    host.ok(&format!("create fw {config}"));
    install(&host, 1, "probe.click", &PROBE);
    write(&host, "1/status", "Running");
    runs(&host, "fw", "1=running,main=running");
    // Those of the API are the store's, too, if they have a router's number.
    let probe = host.config("other.click", &PROBE.concat());
    host.ok(&format!("install fw 5 {probe}"));
    is(&host, "5/status", "Running");
    is(&host, "5/config_name", "other.click");
    host.ok("uninstall fw 5");
    is(&host, "5/status", "Halted");
    write(&host, "5/status", "Running");
    runs(&host, "fw", "1=running,5=running,main=running");
    prints(&host, &format!("xenstore-rm {BASE}/5"));
    runs(&host, "fw", "1=running,main=running");

    let there = |host: &Host| {
        is(host, "1/status", "Running");
        is(host, "1/config_name", "probe.click");
        is(host, "1/config/0", &PROBE.concat());
        assert_eq!(value(host, 1, "s/switch"), "0");
    };
    std::thread::sleep(Duration::from_millis(1100));
    let first = store_pid(&host);
    kill("-KILL", first.unwrap());
    has_other_store(&host, first);
    there(&host);
    // What is removed as a whole, which a guest can do with its own data, is written again.
    prints(&host, "xenstore-rm /local/domain/1/data");
    there(&host);
    runs(&host, "fw", "1=running,main=running");
    // So is what the guest owns in its place, which is not acted on.
    let mut client = Client::connect(&host.run().join("store.sock")).unwrap();
    let given = client.transaction(|client| {
        client.set_permissions(BASE, &["n1"])?;
        client.write(&format!("{BASE}/7/config/0"), b"Idle;")?;
        client.write(&format!("{BASE}/7/status"), b"Running")
    });
    given.unwrap();
    until("it is the guest's", || {
        prints(&host, "xenstore-ls -p /local/domain/1/data").contains("(n0,r1)")
    });
    there(&host);
    assert_eq!(prints(&host, &format!("xenstore-list {BASE}")), "0\n1\n");
    host.ok("restart fw");
    there(&host);
    // What is asked for while there is no node is done by the next.
    host.end("-KILL");
    install(&host, 2, "second.click", &PROBE);
    write(&host, "2/status", "Running");
    write(&host, "1/elements/s/switch", "-1");
    host.start();
    runs(&host, "fw", "1=running,2=running,main=running");
    until("the handler is not written", || {
        value(&host, 1, "s/switch") == "-1"
    });
    assert_eq!(status(&host, "fw").domain_id, 1);
}
