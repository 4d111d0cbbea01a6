//! What the store answers, request by request.

use store::wire::{Errno, Header, Kind};
use store::{ConnectionId, DomainId, EVENTS_MAX, Store};

/// A store with a connection of the host, and of guests 3 and 4.
struct Rig {
    store: Store,
    host: ConnectionId,
    three: ConnectionId,
    four: ConnectionId,
}

impl Rig {
    fn new() -> Rig {
        let mut store = Store::default();
        store.introduce(DomainId(3));
        store.introduce(DomainId(4));
        let host = store.connect(DomainId::CONTROL);
        let three = store.connect(DomainId(3));
        let four = store.connect(DomainId(4));
        let mut rig = Rig {
            store,
            host,
            three,
            four,
        };
        for guest in ["3", "4"] {
            let path = format!("/local/domain/{guest}");
            rig.ok(host, Kind::Mkdir, &format!("{path}\0"));
            rig.ok(host, Kind::SetPerms, &format!("{path}\0n{guest}\0"));
        }
        rig
    }

    fn ask_in(
        &mut self,
        transaction: u32,
        client: ConnectionId,
        kind: Kind,
        payload: &str,
    ) -> Result<String, Errno> {
        let header = Header {
            kind: kind as u32,
            transaction,
            ..Header::default()
        };
        let (answer, reply) = self.store.request(client, header, payload.as_bytes());
        let reply = String::from_utf8(reply).unwrap();
        match answer {
            Kind::Error => Err(Errno::from_name(reply.trim_end_matches('\0').as_bytes())),
            answer => {
                assert_eq!(answer, kind);
                Ok(reply)
            }
        }
    }

    fn ask(&mut self, client: ConnectionId, kind: Kind, payload: &str) -> Result<String, Errno> {
        self.ask_in(0, client, kind, payload)
    }

    fn ok(&mut self, client: ConnectionId, kind: Kind, payload: &str) -> String {
        self.ask(client, kind, payload).unwrap()
    }

    fn start(&mut self, client: ConnectionId) -> u32 {
        let number = self.ok(client, Kind::TransactionStart, "\0");
        number.trim_end_matches('\0').parse().unwrap()
    }

    fn end(&mut self, client: ConnectionId, transaction: u32) -> Result<String, Errno> {
        self.ask_in(transaction, client, Kind::TransactionEnd, "T\0")
    }

    /// The events that wait, `PATH TOKEN` each.
    fn events(&mut self, client: ConnectionId) -> Vec<String> {
        let next = || self.store.next_event(client);
        let text = |event: store::Event| {
            format!("{} {}", event.path, String::from_utf8_lossy(&event.token))
        };
        std::iter::from_fn(next).map(text).collect()
    }
}

#[test]
fn values_are_read_and_listed() {
    let mut rig = Rig::new();
    let host = rig.host;
    assert_eq!(rig.ask(host, Kind::Read, "/a/b\0"), Err(Errno::ENOENT));
    assert_eq!(rig.ok(host, Kind::Write, "/a/b\0one\0two"), "OK\0");
    assert_eq!(rig.ok(host, Kind::Read, "/a/b\0"), "one\0two");
    assert_eq!(rig.ok(host, Kind::Read, "/a\0"), "");
    rig.ok(host, Kind::Mkdir, "/a/c/d\0");
    rig.ok(host, Kind::Mkdir, "/a/b\0");
    assert_eq!(rig.ok(host, Kind::Directory, "/a\0"), "b\0c\0");
    assert_eq!(rig.ok(host, Kind::Read, "/a/b\0"), "one\0two");
    rig.ok(host, Kind::Rm, "/a/c\0");
    assert_eq!(rig.ok(host, Kind::Directory, "/a\0"), "b\0");
    rig.ok(host, Kind::Rm, "/a/x\0");
    assert_eq!(rig.ask(host, Kind::Rm, "/x/y\0"), Err(Errno::ENOENT));
    assert_eq!(rig.ask(host, Kind::Rm, "/\0"), Err(Errno::EINVAL));
}

#[test]
fn malformed_requests_are_refused() {
    let mut rig = Rig::new();
    let host = rig.host;
    for (kind, payload) in [
        (Kind::Read, ""),
        (Kind::Read, "/a"),
        (Kind::Read, "a//b\0"),
        (Kind::Write, "/a b\0x"),
        (Kind::SetPerms, "/local\0"),
        (Kind::SetPerms, "/local\0x3\0"),
        (Kind::Watch, "/a\0"),
        (Kind::Watch, "/a\0t\0deep\0"),
        (Kind::TransactionEnd, "X\0"),
        (Kind::Introduce, "0\x001\x001\0"),
        (Kind::Introduce, "5\0"),
        (Kind::DirectoryPart, "/local\0x\0"),
        (Kind::Control, "nosuch\0"),
        (Kind::SetQuota, "nosuch\x001\0"),
    ] {
        assert_eq!(
            rig.ask(host, kind, payload),
            Err(Errno::EINVAL),
            "{kind:?} {payload:?}"
        );
    }
    let token = format!("/a\0{}\0", "t".repeat(1023));
    assert_eq!(rig.ask(host, Kind::Watch, &token), Err(Errno::EINVAL));
    assert_eq!(
        rig.ask_in(9, host, Kind::Read, "/\0"),
        Err(Errno::ENOENT),
        "no such transaction"
    );
    let header = Header {
        kind: 99,
        ..Header::default()
    };
    let answer = rig.store.request(host, header, b"");
    assert_eq!(answer, (Kind::Error, b"ENOSYS\0".to_vec()));
}

#[test]
fn a_guest_keeps_to_its_permissions() {
    let mut rig = Rig::new();
    let (host, three, four) = (rig.host, rig.three, rig.four);
    rig.ok(three, Kind::Write, "data/x\0mine");
    assert_eq!(rig.ok(host, Kind::Read, "/local/domain/3/data/x\0"), "mine");
    let permissions = rig.ok(host, Kind::GetPerms, "/local/domain/3/data/x\0");
    assert_eq!(permissions, "n3\0");
    for (kind, payload) in [
        (Kind::Read, "/local/domain/3/data/x\0"),
        (Kind::Read, "/local/domain/3/data/nosuch\0"),
        (Kind::Write, "/local/domain/3/data/x\0theirs"),
        (Kind::Write, "/local/domain/5\0x"),
        (Kind::Mkdir, "/local/domain/3/y\0"),
        (Kind::Rm, "/local/domain/3/data\0"),
        (Kind::Directory, "/local/domain/3\0"),
        (Kind::SetPerms, "/local/domain/3/data/x\0b4\0"),
        (Kind::Introduce, "5\x001\x001\0"),
        (Kind::Release, "3\0"),
        (Kind::Control, "check\0"),
        (Kind::SetQuota, "nodes\x000\0"),
    ] {
        assert_eq!(
            rig.ask(four, kind, payload),
            Err(Errno::EACCES),
            "{kind:?} {payload:?}"
        );
    }
    rig.ok(three, Kind::SetPerms, "data/x\0n3\0r4\0");
    assert_eq!(rig.ok(four, Kind::Read, "/local/domain/3/data/x\0"), "mine");
    let given = rig.ask(three, Kind::SetPerms, "data/x\0n4\0");
    assert_eq!(given, Err(Errno::EPERM));
    rig.ok(host, Kind::SetPerms, "/local/domain/3/data/x\0n4\0");
    rig.ok(four, Kind::Write, "/local/domain/3/data/x\0theirs");
}

#[test]
fn a_target_lends_its_rights_until_it_is_gone() {
    let mut rig = Rig::new();
    let (host, four) = (rig.host, rig.four);
    rig.ok(host, Kind::SetTarget, "4\x003\0");
    rig.ok(four, Kind::Write, "/local/domain/3/data\0x");
    rig.ok(host, Kind::Release, "3\0");
    rig.ok(host, Kind::Introduce, "3\x001\x001\0");
    rig.ok(host, Kind::Mkdir, "/local/domain/3\0");
    rig.ok(host, Kind::SetPerms, "/local/domain/3\0n3\0");
    let refused = rig.ask(four, Kind::Write, "/local/domain/3/data\0x");
    assert_eq!(refused, Err(Errno::EACCES));
}

#[test]
fn quotas_hold_for_guests() {
    let mut rig = Rig::new();
    let (host, three) = (rig.host, rig.three);
    rig.ok(host, Kind::SetQuota, "3\0nodes\x004\0");
    rig.ok(host, Kind::SetQuota, "3\0watches\x002\0");
    rig.ok(host, Kind::SetQuota, "3\0transactions\x001\0");
    assert_eq!(rig.ok(host, Kind::GetQuota, "3\0nodes\0"), "4\0");
    assert_eq!(rig.ok(host, Kind::GetQuota, "nodes\0"), "1000\0");
    // One node is its own path.
    rig.ok(three, Kind::Write, "a/b\0");
    assert_eq!(rig.ask(three, Kind::Mkdir, "c/d\0"), Err(Errno::ENOSPC));
    rig.ok(three, Kind::Mkdir, "c\0");
    rig.ok(three, Kind::Rm, "a\0");
    rig.ok(three, Kind::Mkdir, "c/d\0");
    let long = format!("c\0{}", "x".repeat(2049));
    assert_eq!(rig.ask(three, Kind::Write, &long), Err(Errno::ENOSPC));
    let entries = "c\0n3\0r4\0r5\0r6\0r7\0r8\0";
    assert_eq!(rig.ask(three, Kind::SetPerms, entries), Err(Errno::ENOSPC));
    rig.ok(three, Kind::Watch, "a\x001\0");
    rig.ok(three, Kind::Watch, "a\x002\0");
    assert_eq!(rig.ask(three, Kind::Watch, "a\x003\0"), Err(Errno::ENOSPC));
    let transaction = rig.start(three);
    let second = rig.ask(three, Kind::TransactionStart, "\0");
    assert_eq!(second, Err(Errno::ENOSPC));
    // In a transaction, too, and by several of them together.
    let made = rig.ask_in(transaction, three, Kind::Mkdir, "e/f\0");
    assert_eq!(made, Err(Errno::ENOSPC));
    rig.ask_in(transaction, three, Kind::Mkdir, "e\0").unwrap();
    rig.ok(three, Kind::Mkdir, "f\0");
    assert_eq!(rig.end(three, transaction), Err(Errno::ENOSPC));
    let transaction = rig.start(three);
    let reads = (0..2000).map(|_| rig.ask_in(transaction, three, Kind::Read, "c\0"));
    let reads: Vec<_> = reads.collect();
    assert_eq!(
        (reads[0].clone(), reads[1999].clone()),
        (Ok("".into()), Err(Errno::ENOSPC))
    );
}

#[test]
fn a_transaction_is_all_or_nothing() {
    let mut rig = Rig::new();
    let host = rig.host;
    rig.ok(host, Kind::Write, "/a\x001");
    rig.ok(host, Kind::Watch, "/\0w\0");
    rig.events(host);
    let transaction = rig.start(host);
    rig.ask_in(transaction, host, Kind::Write, "/a\x002")
        .unwrap();
    rig.ask_in(transaction, host, Kind::Write, "/b/c\x003")
        .unwrap();
    let inside = rig.ask_in(transaction, host, Kind::Read, "/a\0");
    assert_eq!(
        (inside, rig.ok(host, Kind::Read, "/a\0")),
        (Ok("2".into()), "1".into())
    );
    assert!(rig.events(host).is_empty());
    rig.end(host, transaction).unwrap();
    assert_eq!(rig.ok(host, Kind::Read, "/b/c\0"), "3");
    assert_eq!(rig.events(host), ["/a w", "/b/c w"]);
    assert_eq!(rig.end(host, transaction), Err(Errno::ENOENT));
    let transaction = rig.start(host);
    rig.ask_in(transaction, host, Kind::Rm, "/b\0").unwrap();
    rig.ask_in(transaction, host, Kind::TransactionEnd, "F\0")
        .unwrap();
    assert_eq!(rig.ok(host, Kind::Read, "/b/c\0"), "3");
    let nested = rig.start(host);
    let inner = rig.ask_in(nested, host, Kind::TransactionStart, "\0");
    assert_eq!(inner, Err(Errno::EBUSY));
}

#[test]
fn a_transaction_sees_the_nodes_as_they_were_when_it_began() {
    let mut rig = Rig::new();
    let host = rig.host;
    for node in ["/d/x\0old", "/d/y\0old", "/e/f/g\0old"] {
        rig.ok(host, Kind::Write, node);
    }
    let before = rig.start(host);
    for value in ["new", "newer"] {
        rig.ok(host, Kind::Write, &format!("/d/x\0{value}"));
    }
    rig.ok(host, Kind::Rm, "/d/y\0");
    rig.ok(host, Kind::Write, "/d/z\0new");
    rig.ok(host, Kind::Rm, "/e\0");
    let after = rig.start(host);
    rig.ok(host, Kind::Rm, "/d\0");
    let mut sees = |transaction, kind, path| rig.ask_in(transaction, host, kind, path);
    for node in ["/d/x\0", "/d/y\0", "/e/f/g\0"] {
        assert_eq!(sees(before, Kind::Read, node), Ok("old".into()), "{node}");
    }
    assert_eq!(sees(before, Kind::Directory, "/d\0"), Ok("x\0y\0".into()));
    assert_eq!(sees(before, Kind::Read, "/d/z\0"), Err(Errno::ENOENT));
    assert_eq!(sees(after, Kind::Read, "/d/x\0"), Ok("newer".into()));
    assert_eq!(sees(after, Kind::Directory, "/d\0"), Ok("x\0z\0".into()));
    assert_eq!(sees(after, Kind::Read, "/e/f\0"), Err(Errno::ENOENT));
    // What it removes is gone with all below, also if it makes the node again.
    assert_eq!(sees(before, Kind::Rm, "/e\0"), Ok("OK\0".into()));
    assert_eq!(sees(before, Kind::Read, "/e/f/g\0"), Err(Errno::ENOENT));
    assert_eq!(sees(before, Kind::Mkdir, "/e/h\0"), Ok("OK\0".into()));
    assert_eq!(sees(before, Kind::Read, "/e/f/g\0"), Err(Errno::ENOENT));
    assert_eq!(sees(before, Kind::Directory, "/e\0"), Ok("h\0".into()));
    for transaction in [before, after] {
        assert_eq!(rig.end(host, transaction), Err(Errno::EAGAIN));
    }
    assert_eq!(rig.ask_in(0, host, Kind::Read, "/e\0"), Err(Errno::ENOENT));
}

#[test]
fn what_others_change_makes_a_transaction_fail() {
    for (inside, outside, fails) in [
        ((Kind::Read, "/d/x\0"), (Kind::Write, "/d/x\0new"), true),
        ((Kind::Read, "/d/x\0"), (Kind::Write, "/d/y\0new"), false),
        (
            (Kind::Read, "/d/none\0"),
            (Kind::Write, "/d/none\0new"),
            true,
        ),
        ((Kind::Directory, "/d\0"), (Kind::Mkdir, "/d/new\0"), true),
        ((Kind::Directory, "/d\0"), (Kind::Rm, "/d/y\0"), true),
        ((Kind::Directory, "/d\0"), (Kind::Write, "/d/x\0new"), false),
        ((Kind::Read, "/d\0"), (Kind::Mkdir, "/d/new\0"), false),
        (
            (Kind::Write, "/d/x\0mine"),
            (Kind::Write, "/d/x\0new"),
            true,
        ),
        (
            (Kind::Write, "/d/a\0mine"),
            (Kind::Write, "/d/b\0new"),
            false,
        ),
        ((Kind::Write, "/d/a\0mine"), (Kind::Rm, "/d\0"), true),
        (
            (Kind::GetPerms, "/d/x\0"),
            (Kind::SetPerms, "/d/x\0r0\0"),
            true,
        ),
        ((Kind::Rm, "/d/x\0"), (Kind::Write, "/d/x\0new"), true),
    ] {
        let mut rig = Rig::new();
        let host = rig.host;
        rig.ok(host, Kind::Write, "/d/x\0old");
        rig.ok(host, Kind::Write, "/d/y\0old");
        let transaction = rig.start(host);
        let _ = rig.ask_in(transaction, host, inside.0, inside.1);
        rig.ok(host, outside.0, outside.1);
        let expected = if fails {
            Err(Errno::EAGAIN)
        } else {
            Ok("OK\0".into())
        };
        let ended = rig.end(host, transaction);
        assert_eq!(ended, expected, "{inside:?} {outside:?}");
    }
}

#[test]
fn a_watch_tells_of_changes_below_it() {
    let mut rig = Rig::new();
    let (host, three) = (rig.host, rig.three);
    rig.ok(host, Kind::Watch, "/local\0all\0");
    rig.ok(host, Kind::Watch, "/local/domain/3\0near\x001\0");
    rig.ok(three, Kind::Watch, "data\0own\0");
    assert_eq!(rig.events(host), ["/local all", "/local/domain/3 near"]);
    assert_eq!(rig.events(three), ["data own"]);
    rig.ok(three, Kind::Write, "data/x\x001");
    assert_eq!(rig.events(host), ["/local/domain/3/data/x all"]);
    assert_eq!(rig.events(three), ["data/x own"]);
    rig.ok(three, Kind::SetPerms, "data\0r3\0");
    let told = ["/local/domain/3/data all", "/local/domain/3/data near"];
    assert_eq!(rig.events(host), told);
    rig.ok(host, Kind::Rm, "/local/domain/3\0");
    let told = ["/local/domain/3 all", "/local/domain/3 near"];
    assert_eq!(rig.events(host), told);
    assert_eq!(rig.events(three), ["data own", "data own"]);
    assert_eq!(
        rig.ask(host, Kind::Watch, "/local\0all\0"),
        Err(Errno::EEXIST)
    );
    rig.ok(host, Kind::Unwatch, "/local\0all\0");
    assert_eq!(
        rig.ask(host, Kind::Unwatch, "/local\0all\0"),
        Err(Errno::ENOENT)
    );
    rig.ok(host, Kind::ResetWatches, "\0");
    rig.ok(host, Kind::Write, "/local/domain/3/x\0");
    assert!(rig.events(host).is_empty());
}

#[test]
fn a_watch_tells_nothing_of_what_cannot_be_read() {
    let mut rig = Rig::new();
    let (three, four) = (rig.three, rig.four);
    rig.ok(four, Kind::Watch, "/local/domain/3\0w\0");
    rig.events(four);
    rig.ok(three, Kind::Write, "secret\0x");
    assert!(rig.events(four).is_empty());
    rig.ok(three, Kind::SetPerms, "secret\0r3\0");
    assert_eq!(rig.events(four), ["/local/domain/3/secret w"]);
    // That it can be read no longer is the last that is told.
    rig.ok(three, Kind::SetPerms, "secret\0n3\0");
    rig.ok(three, Kind::Rm, "secret\0");
    assert_eq!(rig.events(four), ["/local/domain/3/secret w"]);
}

#[test]
fn a_client_that_takes_no_events_costs_a_bounded_queue() {
    let mut rig = Rig::new();
    let (host, three) = (rig.host, rig.three);
    rig.ok(three, Kind::Watch, "a\0one\0");
    rig.ok(three, Kind::Watch, "b\0two\0");
    rig.events(three);
    for _ in 0..3 * EVENTS_MAX {
        rig.ok(host, Kind::Write, "/local/domain/3/a\0x");
    }
    // Events were dropped: each watch fires, so that the client looks again.
    assert_eq!(rig.events(three), ["a one", "b two"]);
    rig.ok(host, Kind::Write, "/local/domain/3/a\0x");
    assert_eq!(rig.events(three), ["a one"]);
}

#[test]
fn domains_come_and_go() {
    let mut rig = Rig::new();
    let (host, three, four) = (rig.host, rig.three, rig.four);
    rig.ok(host, Kind::Watch, "@introduceDomain\0i\0");
    rig.ok(host, Kind::Watch, "@releaseDomain\0r\x001\0");
    rig.ok(four, Kind::Watch, "@releaseDomain\0r\0");
    rig.events(host);
    rig.events(four);
    assert_eq!(rig.ok(host, Kind::IsDomainIntroduced, "9\0"), "F\0");
    rig.ok(host, Kind::Introduce, "9\x001\x001\0");
    assert_eq!(rig.ok(host, Kind::IsDomainIntroduced, "9\0"), "T\0");
    assert_eq!(
        rig.ok(host, Kind::GetDomainPath, "9\0"),
        "/local/domain/9\0"
    );
    assert_eq!(rig.events(host), ["@introduceDomain i"]);
    rig.ok(three, Kind::Write, "data/x\0");
    rig.ok(host, Kind::Mkdir, "/other/of-three\0");
    rig.ok(host, Kind::SetPerms, "/other/of-three\0n3\0");
    rig.ok(host, Kind::Release, "3\0");
    assert_eq!(rig.events(host), ["@releaseDomain/3 r"]);
    assert_eq!(rig.ok(host, Kind::Directory, "/local/domain\0"), "4\0");
    assert_eq!(rig.ok(host, Kind::Directory, "/other\0"), "");
    assert_eq!(rig.ask(three, Kind::Read, "data/x\0"), Err(Errno::EINVAL));
    assert_eq!(rig.ask(host, Kind::Release, "3\0"), Err(Errno::ENOENT));
    assert_eq!(rig.ask(host, Kind::Resume, "3\0"), Err(Errno::ENOENT));
    // A guest learns of it only where it is permitted.
    assert!(rig.events(four).is_empty());
    rig.ok(host, Kind::SetPerms, "@releaseDomain\0n0\0r4\0");
    assert_eq!(rig.ok(host, Kind::GetPerms, "@releaseDomain\0"), "n0\0r4\0");
    rig.ok(host, Kind::Release, "9\0");
    assert_eq!(rig.events(four), ["@releaseDomain r"]);
    let checked = rig.ok(host, Kind::Control, "check\0");
    assert!(checked.contains(" 0 nodes without a note"), "{checked}");
    assert!(checked.contains(" 0 notes without a node"), "{checked}");
}

#[test]
fn a_long_list_comes_in_parts() {
    let mut rig = Rig::new();
    let host = rig.host;
    for n in 0..1000 {
        rig.ok(host, Kind::Mkdir, &format!("/many/child-{n:04}\0"));
    }
    assert_eq!(rig.ask(host, Kind::Directory, "/many\0"), Err(Errno::E2BIG));
    let (mut list, mut generations) = (String::new(), Vec::new());
    while !list.ends_with("\0\0") {
        let asked = format!("/many\0{}\0", list.len());
        let part = rig.ok(host, Kind::DirectoryPart, &asked);
        assert!(part.len() <= 4096);
        let (generation, names) = part.split_once('\0').unwrap();
        generations.push(generation.to_string());
        list += names;
    }
    assert_eq!(list.matches("child-").count(), 1000);
    assert!(generations.len() == 3 && generations.iter().all(|g| *g == generations[0]));
    rig.ok(host, Kind::Rm, "/many/child-0000\0");
    let part = rig.ok(host, Kind::DirectoryPart, "/many\x000\0");
    assert_ne!(part.split_once('\0').unwrap().0, generations[0]);
}
