//! Guests of virtual wires: what is refused before anything is touched, what is lost when a step
//! fails, and what becomes of a guest that has ended.

use serde_json::Value;

use crate::common::{Host, alive, kill, named, until};

/// A guest that counts.
const WIRE: &str = "wire = 'w'
[guest.@g]
config = 'src :: RatedSource(RATE 1000) -> c :: Counter -> Discard;'
";

/// What `weir ls` says of a guest of the wire.
fn guest(host: &Host, name: &str) -> Value {
    host.json(&format!("ls {}{name}", host.prefix))[0].clone()
}

fn pid(host: &Host, name: &str) -> u32 {
    guest(host, name)["status"]["pid"].as_u64().unwrap() as u32
}

/// Kills a guest's process, and waits until the node notices.
fn kill_guest(host: &Host, name: &str, state: &str) {
    let pid = pid(host, name);
    kill("-KILL", pid);
    until("the node sees it", || {
        let view = guest(host, name);
        view["status"]["state"] == state && view["status"]["pid"] != pid
    });
    assert!(!alive(pid));
}

#[test]
fn a_wire_whose_guest_cannot_be_touches_none() {
    let host = Host::new();
    let p = host.prefix.clone();
    host.ok(&format!("wire apply {}", host.file("w.toml", WIRE)));
    let first = pid(&host, "g");
    let wrong = [
        ("memory = '999999G'", "memory too large"),
        ("memory = '64K'", "memory too small"),
        ("ring-slots = 100", "a power of two"),
        ("cpus = 1000", "1000 CPUs are invalid"),
        ("pin = [4096]", "there is no CPU 4096"),
        (
            "[guest.@h]\nconfig = 'NoSuchElement -> Discard;'",
            "NoSuchElement",
        ),
        (
            "[vnic.@v]\nlink = '@s'\n[stub.@s]\n[guest.@h]\nconfig = 'Idle -> Discard;'\ninterfaces = { a-name-that-is-longer-than-any-interface-may-have = '@v' }",
            "is not a valid name for a guest's interface",
        ),
    ];
    for (more, why) in wrong {
        // A stub besides, which would be made before.
        let text = format!("{WIRE}{more}\n[stub.@t]\n");
        let file = host.file("wrong.toml", &text);
        for verb in ["diff", "apply"] {
            let refusal = host.refusals(&format!("wire {verb} {file}"));
            assert!(refusal.contains(why), "{verb} {more}: {refusal}");
            assert!(refusal.contains("wire ‘w’, guest ‘"), "{refusal}");
            assert_eq!(
                refusal.contains("nothing was changed"),
                verb == "apply",
                "{refusal}"
            );
        }
        assert_eq!(pid(&host, "g"), first, "{more}");
        assert_eq!(host.ok("stub show -p"), "", "{more}");
    }
    // All of it at once.
    let file = host.file(
        "wrong.toml",
        &format!("{WIRE}cpus = 1000\n[guest.@h]\nconfig = 'Nothing;'\n"),
    );
    let refusal = host.refusals(&format!("wire diff {file}"));
    assert!(
        refusal.contains("1000 CPUs") && refusal.contains("Nothing"),
        "{refusal}"
    );
    // A name that is taken is told by diff, too.
    host.ok(&format!("stub create {p}t"));
    let file = host.file("taken.toml", &format!("{WIRE}[stub.@t]\n"));
    let refusal = host.refusals(&format!("wire diff {file}"));
    assert!(refusal.contains(&format!("stub ‘{p}t’")), "{refusal}");
}

#[test]
fn a_step_that_fails_ends_no_guest_and_one_behind_it_is_told_of() {
    let host = Host::new();
    let p = host.prefix.clone();
    host.ok(&format!("wire apply {}", host.file("w.toml", WIRE)));
    let first = pid(&host, "g");
    // A guest that would be restarted, and an interface that there is already.
    let taken = "[stub.@s]\n[vnic.@v]\nlink = '@s'\nhost = true\ninterface = 'lo'\n";
    let text = format!("{WIRE}memory = '8M'\n{taken}");
    let refusal = host.refusals(&format!("wire apply {}", host.file("x.toml", &text)));
    assert!(
        refusal.contains("‘lo’") && refusal.contains("nothing was changed"),
        "{refusal}"
    );
    assert_eq!(pid(&host, "g"), first);

    // Two that are restarted, of which the second does not come up: its memory is enough to be
    // started with, but not for its configuration.
    let greedy = "[guest.@z]\nconfig = 'Idle -> Discard;'\n";
    let both = host.file("both.toml", &format!("{WIRE}{greedy}"));
    host.ok(&format!("wire apply {both}"));
    let first = pid(&host, "g");
    let config = "InfiniteSource -> Queue(4000000) -> Discard;";
    let greedy = greedy.replace("Idle -> Discard;", config) + "cpus = 2\n";
    let text = format!("{WIRE}memory = '8M'\n{greedy}");
    let refusal = host.refusals(&format!("wire apply {}", host.file("y.toml", &text)));
    let told = format!(
        "the changes were undone, but guest ‘{p}g’, guest ‘{p}z’ were restarted and lost their state"
    );
    assert!(refusal.contains(&told), "{refusal}");
    assert!(!refusal.contains("nothing was changed"), "{refusal}");
    assert_ne!(pid(&host, "g"), first);
    assert_eq!(host.ok(&format!("wire diff {both}")), "");
}

#[test]
fn a_guest_that_was_killed_is_told_of_and_started_anew() {
    let host = Host::new();
    let p = host.prefix.clone();
    let file = host.file("w.toml", &format!("{WIRE}restart = 'never'\n"));
    host.ok(&format!("wire apply {file}"));
    let states = || host.ok("wire show -p -o wire,states");
    assert_eq!(states(), format!("w:{p}g=running\n"));
    kill_guest(&host, "g", "crashed");
    assert_eq!(states(), format!("w:{p}g=crashed\n"));
    let shown = host.json("wire show");
    let reason = shown[0]["status"]["guests"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("killed by SIGKILL"), "{shown}");
    let line = format!(
        "- guest ‘{p}g’: it had ended (the guest's process was killed by SIGKILL)\n+ guest ‘{p}g’: it had ended\n"
    );
    assert_eq!(host.ok(&format!("wire diff {file}")), line);
    assert_eq!(host.ok(&format!("wire apply {file}")), line);
    assert_eq!(states(), format!("w:{p}g=running\n"));
    assert_eq!(host.ok(&format!("wire apply {file}")), "");
    // One that was removed by hand is missing, and one that ended as it should is done.
    host.ok(&format!("destroy {p}g"));
    assert_eq!(states(), format!("w:{p}g=missing\n"));
    let line = format!("+ guest ‘{p}g’: it was missing\n");
    assert_eq!(host.ok(&format!("wire apply {file}")), line);
    let done = host.file(
        "done.toml",
        "wire = 'w'\n[guest.@g]\nconfig = 'Idle -> Discard; DriverManager(wait 10ms, stop);'\n",
    );
    host.ok("wire delete w");
    host.ok(&format!("wire apply {done}"));
    until("it halts", || {
        guest(&host, "g")["status"]["state"] == "halted"
    });
    assert_eq!(host.ok(&format!("wire apply {done}")), "");
    assert_eq!(states(), format!("w:{p}g=halted\n"));
    assert!(named(&p).is_empty());
}

#[test]
fn a_wires_guest_has_what_a_guest_by_command_has() {
    let host = Host::new();
    let words = "isolation = 'process'\nrestart = 'on-failure'\npin = [0]\n";
    let file = host.file("w.toml", &format!("{WIRE}{words}"));
    host.ok(&format!("wire apply {file}"));
    let view = guest(&host, "g");
    assert_eq!(
        (&view["status"]["wall"], &view["restart"]),
        (&"process".into(), &"on-failure".into())
    );
    let first = pid(&host, "g");
    let status = std::fs::read_to_string(format!("/proc/{first}/status")).unwrap();
    assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
    let copy = host.file("copy.toml", &host.ok("wire export w"));
    assert_eq!(host.ok(&format!("wire diff {copy}")), "");

    // It is restarted by itself, so there is nothing to do.
    kill_guest(&host, "g", "running");
    assert_eq!(host.ok(&format!("wire apply {file}")), "");

    // The restart policy and the configuration change in use, and hold for the next start.
    let second = pid(&host, "g");
    let words = words.replace("on-failure", "always");
    let other = format!("{WIRE}{words}").replace("c :: Counter", "d :: Counter");
    let other = host.file("other.toml", &other);
    let change = host.ok(&format!("wire apply {other}"));
    assert!(change.contains("restart on-failure → always"), "{change}");
    assert_eq!(pid(&host, "g"), second);
    assert_eq!(guest(&host, "g")["restart"], "always");
    kill_guest(&host, "g", "running");
    host.ok(&format!("read {}g d.count", host.prefix));
}

#[test]
fn the_node_says_what_ended_and_what_it_does_about_it() {
    let mut host = Host::new();
    let p = host.prefix.clone();
    let other = "[guest.@r]\nconfig = 'Idle -> Discard;'\nrestart = 'always'\n";
    let file = host.file("w.toml", &format!("{WIRE}restart = 'never'\n{other}"));
    host.ok(&format!("wire apply {file}"));
    let says = |host: &Host, start: &str, end: &str| {
        let is_it = |line: &String| line.contains(start) && line.ends_with(end);
        let said = || {
            host.said
                .lock()
                .unwrap()
                .iter()
                .filter(|l| is_it(l))
                .count()
        };
        until(&format!("{start} … {end}: {:?}", host.said), || {
            said() == 1
        });
    };
    kill_guest(&host, "g", "crashed");
    let killed = "the guest's process was killed by SIGKILL";
    let stays = "it is not restarted: its ‘restart’ is never";
    says(
        &host,
        &format!("weir: guest ‘{p}g’ crashed: {killed}: "),
        stays,
    );
    kill_guest(&host, "r", "running");
    says(
        &host,
        &format!("weir: guest ‘{p}r’ crashed: {killed}: "),
        "it restarts in 0.1 s",
    );
    let switch = host.switch_pid();
    kill("-KILL", switch);
    let place = format!(
        "weir: the switch was restarted: its process {switch} was killed by signal 9: process "
    );
    says(&host, &place, "replaces it");
    // What is removed by command is no warning; what ended while no node ran is.
    let warnings = |host: &Host| {
        let said = host.said.lock().unwrap();
        said.iter().filter(|line| line.contains(" warn ")).count()
    };
    let lines = warnings(&host);
    host.ok(&format!("wire apply {file}"));
    host.ok(&format!("destroy {p}r"));
    assert_eq!(warnings(&host), lines, "{:?}", host.said);
    let left = pid(&host, "g");
    host.end("-KILL");
    kill("-KILL", left);
    until("it ends", || !alive(left));
    host.start();
    let start = format!("weir: guest ‘{p}g’ crashed: it ended while no node was running: ");
    says(&host, &start, stays);
}

#[test]
fn a_wires_guest_keeps_its_name_and_its_host() {
    let host = Host::new();
    let p = host.prefix.clone();
    let file = host.file("w.toml", WIRE);
    host.ok(&format!("wire apply {file}"));
    host.refuses(&format!("rename {p}g other"), "part of the wire ‘w’");
    host.ok(&format!("wire apply {file}"));
    host.ok("wire delete w");
    assert_eq!(host.view().guests, 0);
}
