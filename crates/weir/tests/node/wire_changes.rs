//! Virtual wires that become others, or whose parts were changed by hand.

use std::io::Write;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Host, assert_contains, inside, ip, member, named, ping};
use crate::wire::routes;

#[test]
fn a_vnic_goes_with_the_routes_by_it() {
    let host = Host::new();
    let n = format!("{}-n", host.prefix);
    let wire = |routes: &str, vnics: &str| {
        let text = format!(
            "wire = 'w'\n[stub.@s]\n[stub.@t]\n[namespace.@-n]\nroutes = [{routes}]\n{vnics}"
        );
        host.file("w.toml", &text)
    };
    let vnic = |name: &str, link: &str, address: &str| {
        format!("[vnic.{name}]\nlink = '{link}'\nnamespace = '@-n'\naddresses = ['{address}']\n")
    };
    let apply = |file: &str| host.ok(&format!("wire apply {file}"));
    let first = vnic("@a", "@s", "10.12.0.1/24");
    let both = format!("{first}{}", vnic("@b", "@s", "10.12.1.1/24"));
    apply(&wire("'10.111.0.0/16 dev @b'", &both));
    let before = routes(&n);
    assert!(before.starts_with("10.111.0.0/16 dev "), "{before}");

    // A change without that VNIC, which cannot be made whole, is taken back.
    let socket = "[vnic.@z]\nlink = '@s'\nvhost-user = '/nonexistent/weir/socket'\n";
    let wrong = wire("'10.99.0.0/16 dev @a'", &format!("{first}{socket}"));
    let refusal = host.refusals(&format!("wire apply {wrong}"));
    assert!(refusal.ends_with("nothing was changed"), "{refusal}");
    assert_eq!(routes(&n), before);

    apply(&wire("'10.99.0.0/16 dev @a'", &first));
    assert_eq!(
        routes(&n),
        format!("10.99.0.0/16 dev {}a scope link \n", host.prefix)
    );
    // Under another name, and then on another switch.
    let renamed = vnic("@c", "@s", "10.12.0.1/24");
    apply(&wire("'10.99.0.0/16 dev @c'", &renamed));
    apply(&wire("'10.99.0.0/16 dev @c'", &renamed.replace("@s", "@t")));
    let file = wire(
        "'10.99.0.0/16 dev @c', '10.98.0.0/16 via 10.12.0.2'",
        &renamed.replace("@s", "@t"),
    );
    apply(&file);
    assert_eq!(host.ok(&format!("wire diff {file}")), "");
    assert_eq!(routes(&n).lines().count(), 2, "{}", routes(&n));
    host.ok("wire delete w");
}

#[test]
fn a_switch_that_is_killed_meanwhile_brings_nothing_back_that_goes() {
    let host = Host::new();
    const MOST: usize = 40;
    let few = "wire = 'w'\n[stub.@s]\n[namespace.@-0]\n";
    let more = (1..MOST).map(|i| format!("[namespace.@-{i}]\n"));
    let more = host.file("more.toml", &format!("{few}{}", more.collect::<String>()));
    let few = host.file("few.toml", few);
    for round in 0..4 {
        host.ok(&format!("wire apply {more}"));
        let switch = host.switch_pid();
        let mut apply = host
            .weir(&["wire", "apply", &few])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while named(&host.prefix).len() == MOST {}
        kill_process(Pid::from_raw(switch as i32).unwrap(), Signal::KILL).unwrap();
        assert!(apply.wait().unwrap().success());
        assert_eq!(named(&host.prefix).len(), 1, "round {round}");
        host.has_other_switch(switch);
    }
}

#[test]
fn what_was_removed_of_namespaces_is_there_when_apply_says_so() {
    let host = Host::new();
    let p = &host.prefix;
    let text = concat!(
        "wire = 'w'\n[stub.@s]\n",
        member!("a", "@s", "10.7.0.1/24"),
        member!(
            "b",
            "@s",
            "10.7.0.2/24",
            "routes = ['10.9.0.0/16 dev @b']",
            ""
        ),
    );
    let file = host.file("w.toml", text);
    host.ok(&format!("wire apply {file}"));
    let (a, b) = (format!("{p}-a"), format!("{p}-b"));
    let mended = |missing: &str| {
        // The node does it by itself after some seconds.
        for verb in ["diff", "apply"] {
            let said = host.ok(&format!("wire {verb} {file}"));
            assert!(said == missing || said.is_empty(), "{verb}: {said}");
        }
        assert_eq!(routes(&b), "10.9.0.0/16 dev eth0 scope link \n");
        assert_eq!(host.ok(&format!("wire diff {file}")), "");
        assert!(ping(&a, "10.7.0.2").is_some());
    };
    let vnic = format!("+ vnic ‘{p}b’: it was missing\n~ routes of namespace ‘{b}’: set again\n");
    ip(&format!("-n {b} link del eth0"));
    mended(&vnic);
    ip(&format!("netns del {b}"));
    mended(&format!("+ namespace ‘{b}’: it was missing\n{vnic}"));
    ip(&format!("netns del {b}"));
    ip(&format!("netns add {b}"));
    mended(&vnic);
}

#[test]
fn what_was_changed_by_hand_is_told_and_set_again() {
    let host = Host::new();
    let p = host.prefix.clone();
    ip(&format!("link add {p}up type veth peer name {p}far"));
    for end in ["up", "far"] {
        ip(&format!("link set {p}{end} up"));
    }
    let text = concat!(
        "wire = 'w'\n[stub.@s]\n[stub.@t]\nspeed = '1G'\n",
        "[link.up]\ndevice = '@up'\nport = { maxbw = '20M' }\n",
        member!(
            "a",
            "@s",
            "10.7.0.1/24",
            "",
            "properties = { maxbw = '20M' }"
        ),
        "[vnic.@g]\nlink = '@t'\n",
        "[guest.@g]\nconfig = 'FromNetfront(x) -> Discard;'\ninterfaces = { x = '@g' }\n",
        "[flow.@f]\nlink = '@s'\nattributes = { transport = 'tcp' }\nproperties = { maxbw = '9M' }\n",
    );
    let file = host.file("w.toml", text);
    host.ok(&format!("wire apply {file}"));
    let properties = || {
        let all = [
            "link show -p -o link,properties",
            "vnic show -p -o vnic,properties",
            "switch show",
        ];
        all.map(|show| host.ok(show)).concat()
    };
    let wanted = properties();
    for (command, part) in [
        ("vnic set-prop -p maxbw=1M @a", "vnic ‘@a’"),
        ("vnic set-prop -p loss=50% @g", "vnic ‘@g’"),
        ("vnic set-prop -p vlan=7 @a", "vnic ‘@a’"),
        ("link set-prop -p maxbw=3M @up", "link ‘@up’"),
        ("switch set @up --aging 9", "link ‘@up’"),
        ("switch set @s --speed 7M", "stub ‘@s’"),
        ("switch set @t --lookup hash", "stub ‘@t’"),
    ] {
        host.ok(&command.replace('@', &p));
        assert_ne!(properties(), wanted, "{command}");
        let line = format!("~ {part}: it was changed by hand\n");
        let line = line.replace('@', &p);
        assert_eq!(host.ok(&format!("wire diff {file}")), line, "{command}");
        assert_eq!(host.ok(&format!("wire apply {file}")), line, "{command}");
        assert_eq!(properties(), wanted, "{command}");
        assert_eq!(host.ok(&format!("wire diff {file}")), "");
    }

    // Another part of the same name is neither taken nor changed.
    let click = host.config("other.click", "Idle -> Discard;");
    for (remove, make, again) in [
        (
            "vnic delete @a",
            "vnic create -l @t --host @a".to_string(),
            "vnic delete @a",
        ),
        (
            "flow remove @f",
            "flow add -l @s -a transport=tcp -p maxbw=8M @f".into(),
            "flow remove @f",
        ),
        (
            "destroy @g",
            format!("create @g {click} --link a=@t"),
            "destroy @g",
        ),
    ] {
        let command = |text: &str| host.ok(&text.replace('@', &p));
        command(remove);
        command(&make);
        for verb in ["diff", "apply"] {
            let refusal = host.refusal(&format!("wire {verb} {file}"));
            let told =
                format!("another was made under its name: `weir {again}` first").replace('@', &p);
            assert!(refusal.contains(&told), "{refusal}");
        }
        command(again);
        let applied = host.ok(&format!("wire apply {file}"));
        assert!(applied.ends_with(": it was missing\n"), "{applied}");
        assert_eq!(host.ok(&format!("wire diff {file}")), "");
    }
    // It stays when the wire goes.
    host.ok(&format!("vnic delete {p}a"));
    host.ok(&format!("link attach {p}far --mode packet"));
    host.ok(&format!("vnic create -l {p}far --host {p}a"));
    host.ok("wire delete w");
    assert_eq!(host.ok("vnic show -p -o vnic"), format!("{p}a\n"));
    ip(&format!("link delete {p}up"));
}

#[test]
fn a_link_that_is_attached_otherwise_than_a_wire_says_is_refused() {
    let host = Host::new();
    let p = &host.prefix;
    ip(&format!("link add {p}up type veth peer name {p}far"));
    for end in ["up", "far"] {
        ip(&format!("link set {p}{end} up"));
    }
    host.ok(&format!("link attach {p}up --mode packet"));
    host.ok(&format!("link set-prop -p maxbw=5M,priority=high {p}up"));
    host.ok(&format!("switch set {p}up --aging 9"));
    let file = |said: &str| {
        let text = format!("wire = 'w'\n[stub.@s]\n[link.up]\ndevice = '@up'\n{said}\n");
        host.file("w.toml", &text)
    };
    for (said, why) in [
        (
            "port = { maxbw = '3M' }",
            "has maxbw=5M,priority=high, not maxbw=3M",
        ),
        ("port = { lanes = 1 }", "not lanes=1"),
        ("mode = 'xdp'", "is already attached in another way"),
    ] {
        for verb in ["diff", "apply"] {
            let refusal = host.refusal(&format!("wire {verb} {}", file(said)));
            assert!(refusal.contains(why), "{said}: {refusal}");
            assert_contains(&refusal, &format!("weir link detach {p}up"));
        }
        assert_eq!(host.ok("stub show -p"), "", "{said}");
    }
    // What is the same, or not said, is as it is.
    let is =
        || host.ok(&format!("link show -p -o mode,properties {p}up")) + &host.ok("switch show -p");
    let before = is();
    for said in ["", "mode = 'packet'\nport = { maxbw = '5M' }"] {
        let file = file(said);
        host.ok(&format!("wire apply {file}"));
        assert_eq!(host.ok(&format!("wire diff {file}")), "");
        host.ok("wire delete w");
        assert_eq!(is(), before);
    }
    ip(&format!("link delete {p}up"));
}

#[test]
fn a_link_of_several_wires_goes_with_the_last_of_them() {
    let mut host = Host::new();
    let p = host.prefix.clone();
    ip(&format!("link add {p}up type veth peer name {p}far"));
    for end in ["up", "far"] {
        ip(&format!("link set {p}{end} up"));
    }
    let file = |name: &str, port: &str| {
        let text = format!(
            "wire = '{name}'\n[link.{name}]\ndevice = '@up'\n{port}\n[vnic.@{name}]\nlink = '{name}'\nhost = true\n"
        );
        host.file(&format!("{name}.toml"), &text)
    };
    let [a, b] = [file("a", "port = { maxbw = '5M' }"), file("b", "")];
    let links = |host: &Host| host.ok("link show -p -o link,properties");
    host.ok(&format!("wire apply {a}"));
    host.ok(&format!("wire apply {b}"));
    host.ok("wire delete a");
    assert_eq!(links(&host), format!("{p}up:\n"), "as the other has it");
    host.end("-KILL");
    host.start();
    assert_eq!(host.ok(&format!("wire diff {b}")), "");
    host.refuses(&format!("wire apply {a}"), "not maxbw=5M");
    host.ok("wire delete b");
    assert_eq!(links(&host), "");
    ip(&format!("link delete {p}up"));
}

#[test]
fn a_namespace_that_was_there_before_forwards_as_before_when_the_wire_is_gone() {
    let host = Host::new();
    let n = format!("{}-n", host.prefix);
    ip(&format!("netns add {n}"));
    const FILES: [&str; 2] = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"];
    let set = |values: [u32; 2]| {
        for (file, value) in FILES.iter().zip(values) {
            ip(&format!("netns exec {n} sysctl -qw {file}={value}"));
        }
    };
    let forwards = || {
        let value = |file| inside(&n, &format!("sysctl -n {file}")).unwrap();
        FILES.map(|file| value(file).trim().parse::<u32>().unwrap())
    };
    let text = "wire = 'a'\n[namespace.@-n]\nexisting = true\n";
    let plain = host.file("plain.toml", text);
    let router = format!("{text}forwarding = true\n");
    let a = host.file("a.toml", &router);
    let b = host.file("b.toml", &router.replace("'a'", "'b'"));
    let apply = |file: &str| host.ok(&format!("wire apply {file}"));
    for before in [[0, 0], [0, 1], [1, 1]] {
        set(before);
        for wire in ["a", "b"] {
            // Whichever of the two goes first, it is as before when both are gone.
            apply(&a);
            apply(&b);
            host.ok(&format!("wire delete {wire}"));
            assert_eq!(forwards(), [1, 1]);
            host.ok(&format!(
                "wire delete {}",
                if wire == "a" { "b" } else { "a" }
            ));
            assert_eq!(forwards(), before);
        }
        apply(&a);
        apply(&plain);
        assert_eq!(forwards(), before, "where nothing is said of it");
        host.ok("wire delete a");
    }
    set([0, 0]);
    apply(&b);
    assert_eq!(forwards(), [1, 1]);
    host.ok("node --purge");
    assert_eq!(forwards(), [0, 0]);
}

#[test]
fn a_wire_is_read_from_standard_input_and_diff_has_an_exit_code() {
    let host = Host::new();
    let from_input = |arguments: &[&str], text: &str| {
        let mut weir = host.weir(arguments);
        weir.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut weir = weir.stderr(Stdio::piped()).spawn().unwrap();
        let mut input = weir.stdin.take().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        drop(input);
        let output = weir.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let text = "wire = 'w'\n[stub.lan]\n";
    let differs = from_input(&["wire", "diff", "--exit-code", "-"], text);
    assert_eq!(differs, (Some(2), "+ stub ‘lan’\n".into()));
    assert_eq!(from_input(&["wire", "diff", "-"], text).0, Some(0));
    assert_eq!(from_input(&["wire", "apply", "-"], text).0, Some(0));
    let same = from_input(&["wire", "diff", "--exit-code", "-"], text);
    assert_eq!(same, (Some(0), String::new()));
    // All that is wrong is told, what is wrong with the configurations of guests, too.
    let wrong = "wire = 'w'\n[vnic.v]\nlink = 'none'\n[guest.g]\nconfig = 'Foo -> Discard'\n";
    let (code, said) = from_input(&["wire", "diff", "--exit-code", "-"], wrong);
    assert_eq!(code, Some(1), "{said}");
    assert_contains(&said, "vnic ‘v’: there is no stub or link ‘none’");
    assert_contains(&said, "guest ‘g’: config:1: undeclared element 'Foo'");
    assert_contains(
        &from_input(&["wire", "apply", "-"], "x").1,
        "standard input:1:",
    );
}
