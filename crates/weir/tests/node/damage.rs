//! A state that cannot be read, in part or whole, and what stands in the node's places.

use std::process::Stdio;

use serde_json::Value;
use weir::lab::{Namespace, Runner};

use crate::common::{Host, alive, assert_contains, kill, until};

#[test]
fn a_node_removes_nothing_from_its_sockets_places_but_sockets() {
    let mut host = Host::new();
    host.end("-TERM");
    for name in ["node.sock", "switch.control"] {
        let place = host.run().join(name);
        let there = std::fs::rename(&place, host.folder.join(name)).is_ok();
        std::fs::write(&place, "a letter").unwrap();
        let output = host.output("node --lanes 2");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let path = place.display();
        assert_contains(&said, &format!("{path}: the file there is not a socket"));
        assert_eq!(std::fs::read(&place).unwrap(), b"a letter");
        std::fs::remove_file(&place).unwrap();
        if there {
            std::fs::rename(host.folder.join(name), &place).unwrap();
        }
    }
    host.start();
}

#[test]
fn a_damaged_state_is_told_in_a_sentence() {
    let mut host = Host::new();
    host.ok("stub create lan");
    host.end("-TERM");
    let file = host.folder.join("state/node.redb");
    let good = std::fs::read(&file).unwrap();
    let mut bad = good.clone();
    bad[4096..8192].fill(0x5a);
    for wrong in [&bad[..], &[]] {
        std::fs::write(&file, wrong).unwrap();
        for command in ["node", "node --purge"] {
            let output = host.output(command);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
            assert!(said.contains("node.redb is damaged ("), "{said}");
        }
    }
    std::fs::write(&file, good).unwrap();
    host.start();
    assert_eq!(host.ok("stub show -p -o link"), "lan\n");
}

#[test]
fn a_command_waits_for_a_node_that_starts_and_an_end_is_logged() {
    let mut host = Host::new();
    host.ok("stub create lan");
    host.end("-TERM");
    let said = host.said.lock().unwrap().join("\n");
    assert_contains(
        &said,
        "the node ends by SIGTERM; guests and the switch go on",
    );
    host.refuses("ls", "`weir node` starts one");
    // Before it listens, it has its lock.
    let mut node = host.weir(&["node"]).stderr(Stdio::null()).spawn().unwrap();
    until("it does not start", || {
        host.run().join("node.lock").exists()
    });
    let shown = (0..20).map(|_| host.ok("stub show -p -o link"));
    assert!(shown.into_iter().all(|shown| shown == "lan\n"));
    kill("-TERM", node.id());
    node.wait().unwrap();
    // A path is seen from where the command is given.
    host.start();
    let namespace = Namespace::new(&Runner::default()).unwrap();
    let mut create = host.weir(&["vnic", "create", "-l", "lan", "--netns", "ns/net", "r0"]);
    let folder = format!("/proc/{}", namespace.pid());
    let output = create.current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
}

/// Changes a byte of a record in the state.
fn damage(host: &Host, table: &str, name: &str) {
    use redb::{ReadableTable, TableDefinition};
    let file = host.folder.join("state/node.redb");
    let write = redb::Database::open(file).unwrap().begin_write().unwrap();
    {
        let table = TableDefinition::<&str, &[u8]>::new(table);
        let mut table = write.open_table(table).unwrap();
        let mut bytes = table.get(name).unwrap().unwrap().value().to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        table.insert(name, &bytes[..]).unwrap();
    }
    write.commit().unwrap();
}

#[test]
fn a_damaged_record_is_named_and_so_is_the_guest_that_nobody_knows() {
    let mut host = Host::new();
    host.ok("stub create lan");
    host.ok("stub create other");
    let config = host.config("sink.click", "FromNetfront(eth0) -> Discard;");
    for (name, wall) in [("lost", "auto"), ("lost-too", "process"), ("kept", "auto")] {
        host.ok(&format!("vnic create -l lan {name}0"));
        host.ok(&format!(
            "create {name} {config} --link eth0={name}0 --isolation {wall}"
        ));
    }
    let pid = |name: &str| {
        let pid = host.ok(&format!("ls -p -o pid {name}"));
        pid.trim().parse::<u32>().unwrap()
    };
    let (lost, too, kept) = (pid("lost"), pid("lost-too"), pid("kept"));
    host.end("-TERM");
    let start = host.said.lock().unwrap().len();
    for (table, name) in [
        ("guests", "lost"),
        ("guests", "lost-too"),
        ("links", "other"),
    ] {
        damage(&host, table, name);
    }
    for _ in 0..2 {
        host.start();
        let said = host.said.lock().unwrap()[start..].join("\n");
        for part in [
            "the record ‘guests/lost’ of the node's state is damaged",
            &format!("guest ‘lost’ runs as process {lost}, and no record names it"),
            "; 3 damaged records and 2 unknown guests: `weir node --status`",
        ] {
            assert_contains(&said, part);
        }
        assert!(!said.contains("process {kept}"), "{said}");
        let view = host.view();
        assert_eq!(
            view.damaged,
            ["guests/lost", "guests/lost-too", "links/other"]
        );
        let mut unknown: Vec<_> = view.unknown_guests.iter().map(|it| it.pid).collect();
        unknown.sort();
        let mut expected = [lost, too];
        expected.sort();
        assert_eq!(unknown, expected);
        // The rest goes on.
        assert_eq!(
            host.ok("ls -p -o guest,state,pid"),
            format!("kept:running:{kept}\n")
        );
        assert_eq!(host.ok("stub show -p -o link"), "lan\n");
        host.end("-KILL");
    }
    host.start();
    let status: Value = serde_json::from_str(&host.ok("node --status")).unwrap();
    assert_eq!(status["damaged"][2], "links/other");
    assert!(alive(lost) && alive(too));
    let ended = host.ok("node --end-unknown");
    assert_contains(&ended, &format!("ended lost (process {lost})"));
    until("they are not ended", || !alive(lost) && !alive(too));
    assert!(alive(kept));
    host.ok(&format!("create lost {config} --link eth0=lost0"));
    host.ok("node --forget-damaged");
    let view = host.view();
    assert!(view.damaged.is_empty() && view.unknown_guests.is_empty());
    host.end("-TERM");
    host.start();
    assert_eq!(
        host.ok("ls -p -o guest,state"),
        "kept:running\nlost:running\n"
    );
    assert!(
        !host
            .said
            .lock()
            .unwrap()
            .last()
            .unwrap()
            .contains("damaged")
    );
    // No other user may read its files.
    use std::os::unix::fs::PermissionsExt;
    for (path, mode) in [("state", 0o700), ("state/node.redb", 0o600), ("run", 0o700)] {
        let there = std::fs::metadata(host.folder.join(path)).unwrap();
        assert_eq!(there.permissions().mode() & 0o777, mode, "{path}");
    }
}
