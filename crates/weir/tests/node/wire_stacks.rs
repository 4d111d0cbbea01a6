//! Wires with network stack modules and the programs that they serve.

use std::path::Path;

use serde_json::Value;

use crate::common::{Host, alive, assert_contains, inside, kill, named, until};

/// The example with nginx, with names of the test's own.
fn web(host: &Host) -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/wires");
    let read = |name: &str| std::fs::read_to_string(examples.join(name)).unwrap();
    let pid = host.folder.join("nginx.pid");
    let nginx = read("web.nginx.conf").replace("/run/weir-web.pid", pid.to_str().unwrap());
    std::fs::write(host.folder.join("web.nginx.conf"), nginx).unwrap();
    let text = read("web.toml")
        .replace("[namespace.", "[namespace.@-")
        .replace("namespace = \"", "namespace = \"@-");
    host.file("web.toml", &text)
}

fn application(host: &Host, name: &str) -> Value {
    let all = host.json("sock ls");
    let mut all = all.as_array().unwrap().iter();
    all.find(|it| it["name"] == name).unwrap().clone()
}

fn pid(host: &Host, name: &str) -> u32 {
    application(host, name)["status"]["pid"].as_u64().unwrap() as u32
}

fn page(host: &Host) -> Option<String> {
    let browser = format!("{}-browser", host.prefix);
    inside(&browser, "curl -s -m 5 http://10.0.3.2/")
}

/// Whether the node's log has a line that contains this.
fn logged(host: &Host, part: &str) -> bool {
    host.said
        .lock()
        .unwrap()
        .iter()
        .any(|line| line.contains(part))
}

#[test]
fn the_node_runs_a_server_on_a_stack_of_the_wire() {
    let mut host = Host::new();
    let file = web(&host);
    let would = host.ok(&format!("wire diff {file}"));
    assert_contains(&would, "+ nsm ‘stack’\n+ app ‘web’\n");
    assert_eq!(host.ok(&format!("wire apply {file}")), would);
    until("nginx does not serve", || page(&host).is_some());
    assert_eq!(page(&host).unwrap(), "a page for 10.0.3.1\n");
    host.shows("wire show web -p -o states", "stack=up,web=up\n");
    assert_eq!(host.ok(&format!("wire diff {file}")), "");
    let drawn = host.ok("wire show web --graph svg");
    assert!(
        drawn.contains(">stack<") && drawn.contains("10.0.3.2/24"),
        "{drawn}"
    );
    // What it prints is in the node's log, with its name.
    until("the access is not logged", || {
        logged(&host, "application ‘web’: 10.0.3.1 - - ")
    });
    let metrics = host.client().metrics().unwrap();
    for series in [
        "weir_application_up{application=\"web\",nsm=\"stack\"} 1\n",
        "weir_application_limit_sockets{application=\"web\",nsm=\"stack\"} 1000\n",
        "weir_nsm_up{nsm=\"stack\"} 1\n",
    ] {
        assert_contains(&metrics, series);
    }
    let sent = "weir_application_sent_bytes_total{application=\"web\",nsm=\"stack\"} ";
    let sent = metrics.split_once(sent).unwrap().1;
    assert!(sent.lines().next().unwrap().parse::<u64>().unwrap() > 100);

    // Killed, it is restarted, with its workers gone.
    let first = pid(&host, "web");
    kill("-KILL", first);
    until("it is not restarted", || {
        let is = application(&host, "web");
        is["status"]["state"] == "up" && is["status"]["pid"] != first
    });
    until("nginx does not serve again", || page(&host).is_some());
    assert_contains(
        &host.ok("events web"),
        "was killed by signal 9: it restarts in 0.1 s",
    );

    // It goes on without the node, and the next one finds it.
    let second = pid(&host, "web");
    host.end("-KILL");
    assert!(page(&host).is_some());
    host.start();
    assert_eq!(pid(&host, "web"), second);
    assert_eq!(host.ok(&format!("wire diff {file}")), "");
    assert!(page(&host).is_some());
    host.said.lock().unwrap().clear();
    until("the access is not logged any more", || {
        page(&host).is_some() && logged(&host, "application ‘web’: 10.0.3.1 - - ")
    });

    // Limits change in use, another environment does not.
    let text = std::fs::read_to_string(&file).unwrap();
    let changed = host.config("web.toml", &text.replace("conns = 1000", "conns = 500"));
    assert_eq!(
        host.ok(&format!("wire apply {changed}")),
        "~ app ‘web’: properties.conns 1000 → 500\n"
    );
    assert_eq!(pid(&host, "web"), second);
    let other = format!("{text}environment = {{ TZ = 'UTC' }}\n");
    let other = host.config("web.toml", &other.replace("conns = 1000", "conns = 500"));
    let steps = host.ok(&format!("wire apply {other}"));
    assert_contains(
        &steps,
        "- app ‘web’: it is recreated\n+ app ‘web’: environment.TZ",
    );
    until("nginx does not serve at last", || page(&host).is_some());
    let third = pid(&host, "web");
    assert!(third != second && !alive(second));
    // A hand's change is drift.
    host.ok("sock set -p conns=7 web");
    assert_eq!(
        host.ok(&format!("wire apply {other}")),
        "~ app ‘web’: it was changed by hand\n"
    );

    host.ok("wire delete web");
    assert!(!alive(third), "nginx runs on");
    for nouns in ["sock ls -p", "nsm ls -p", "vnic show -p", "stub show -p"] {
        assert_eq!(host.ok(nouns), "", "{nouns}");
    }
    assert!(named(&host.prefix).is_empty());
    assert!(!host.run().join("sock").exists());
}

const PROGRAMS: &str = "wire = 'programs'\n[nsm.@k]\n";

#[test]
fn a_program_that_cannot_be_started_leaves_nothing() {
    let host = Host::new();
    let refused = |app: &str, part: &str| {
        let file = host.file("programs.toml", &format!("{PROGRAMS}[app.one]\n{app}"));
        let said = host.refusals(&format!("wire apply {file}"));
        assert_contains(&said, part);
        for nouns in ["sock ls -p", "nsm ls -p", "wire show -p"] {
            assert_eq!(host.ok(nouns), "", "{nouns}");
        }
        said
    };
    let missing = refused(
        "run = 'no-such-program'\nnsm = '@k'",
        "no-such-program: No such file",
    );
    assert!(missing.ends_with("; nothing was changed"), "{missing}");
    refused(
        "run = 'true'\nnsm = '@k'\nuser = 'no-such-user'",
        "no user ‘no-such-user’",
    );
    refused(
        "run = 'true'\nnsm = '@k'\ndirectory = '/no/such'",
        "/no/such: No such file",
    );
    refused(
        "run = 'true'\nnsm = 'other'",
        "app ‘one’: there is no nsm ‘other’ in the wire",
    );
    refused("run = ''\nnsm = '@k'", "needs a program");
    refused("run = \"'\"\nnsm = '@k'", "a quote is not closed");
}

#[test]
fn a_program_is_restarted_by_its_policy() {
    let host = Host::new();
    let text = format!(
        "{PROGRAMS}
[app.fails]
run = ['sh', '-c', 'echo to-the-log $HOME; exit 3']
nsm = '@k'
user = 'nobody'
restart = 'never'
[app.done]
run = 'true'
nsm = '@k'
[app.always]
run = 'true'
nsm = '@k'
restart = 'always'
"
    );
    let file = host.file("programs.toml", &text);
    host.ok(&format!("wire apply {file}"));
    until("it does not end", || {
        application(&host, "fails")["status"]["state"] == "down"
    });
    let status = application(&host, "fails")["status"].clone();
    assert_contains(status["reason"].as_str().unwrap(), "ended with code 3");
    until("it is not restarted", || {
        application(&host, "always")["status"]["restarts"].as_u64() > Some(1)
    });
    until("it does not end well", || {
        application(&host, "done")["status"]["state"] == "down"
    });
    assert_eq!(application(&host, "done")["status"]["restarts"], 0);
    until("it is not logged", || {
        logged(&host, "application ‘fails’: to-the-log /nonexistent")
    });
    // One that failed is run again by the next apply, one that is done is not.
    let steps = host.ok(&format!("wire apply {file}"));
    assert_contains(&steps, "- app ‘fails’: it had ended (its process");
    assert!(!steps.contains("done"), "{steps}");
    host.ok("wire delete programs");
}

#[test]
fn what_a_wire_changes_of_stacks_in_use_is_told() {
    let host = Host::new();
    let namespace = format!("{}-one", host.prefix);
    let text = format!(
        "wire = 'moves'
        [namespace.{namespace}]
        [nsm.one]
        namespace = '{namespace}'
        [nsm.two]
        kind = 'shm'
        [app.waits]
        run = 'sleep 60'
        nsm = 'one'
        "
    );
    let file = host.config("moves.toml", &text);
    host.ok(&format!("wire apply {file}"));
    let text = text.replace("nsm = 'one'", "nsm = 'two'");
    let file = host.config("moves.toml", &text);
    host.ok(&format!("wire apply {file}"));
    assert_contains(
        &host.ok("events waits"),
        "new sockets go to NSM ‘two’, no longer to ‘one’",
    );
    let text = text.replace("[nsm.one]", "[nsm.one]\n        cores = 2");
    let file = host.config("moves.toml", &text);
    let changed = host.ok(&format!("wire apply {file}"));
    assert_eq!(changed, "~ nsm ‘one’: cores none → 2\n");
    host.shows("nsm ls one -p -o cores", "2\n");
    until("it does not come up again", || {
        host.ok("wire show moves -p -o states") == "one=up,two=up,waits=up\n"
    });
    assert_eq!(host.ok(&format!("wire diff {file}")), "");
    host.ok("wire delete moves");
}
