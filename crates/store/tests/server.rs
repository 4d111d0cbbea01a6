//! The server on its socket: with its own client, with Xen's tools, and with clients that misbehave.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use store::client::Client;
use store::server::{Server, Shared};
use store::wire::{Errno, Header, Kind, append};
use store::{DomainId, EVENTS_MAX, Store};

/// A server in a folder of its own.
struct Running {
    folder: PathBuf,
    store: Shared,
    _server: Server,
}

impl Running {
    fn new(name: &str) -> Running {
        let folder = format!("weir-store-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir(&folder).unwrap();
        let store = Shared::new(Store::default()).unwrap();
        let listener = UnixListener::bind(folder.join("socket")).unwrap();
        let _server = Server::start(listener, store.clone()).unwrap();
        Running {
            folder,
            store,
            _server,
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket()).unwrap()
    }

    /// One of Xen's commands.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .env("XENSTORED_PATH", self.socket());
        command.stdin(Stdio::null());
        command
    }

    fn xen(&self, words: &[&str]) -> Output {
        let output = self.command(words).output();
        output.unwrap_or_else(|error| panic!("{}: {error}: install xenstore-utils", words[0]))
    }

    fn prints(&self, words: &[&str]) -> String {
        let output = self.xen(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_client_reads_lists_and_watches() {
    let running = Running::new("client");
    let mut client = running.client();
    client.write("/a/b", b"1").unwrap();
    assert_eq!(client.read("/a/b").unwrap(), b"1");
    let error = client.read("/a/c").unwrap_err();
    assert_eq!(error.to_string(), "/a/c: does not exist");
    for n in 0..2000 {
        client.make(&format!("/many/{n:05}")).unwrap();
    }
    assert_eq!(client.list("/many").unwrap().len(), 2000);
    assert!(client.list("/a/b").unwrap().is_empty());
    client.set_permissions("/a", &["n0", "r7"]).unwrap();
    assert_eq!(client.permissions("/a").unwrap(), ["n0", "r7"]);
    client.watch("/a", "token").unwrap();
    assert_eq!(client.event().unwrap().path, "/a");
    running.client().remove("/a/b").unwrap();
    let event = client.event().unwrap();
    assert_eq!((&*event.path, &*event.token), ("/a/b", &b"token"[..]));
    client.unwatch("/a", "token").unwrap();
    assert_eq!(
        client.unwatch("/a", "token").unwrap_err().errno(),
        Some(Errno::ENOENT)
    );
}

#[test]
fn counters_in_transactions_lose_no_step() {
    let running = Running::new("transactions");
    running.client().write("/counter", b"0").unwrap();
    let count = |client: &mut Client| {
        client.transaction(|client| {
            let value = client.read("/counter")?;
            let value: u32 = String::from_utf8(value).unwrap().parse().unwrap();
            client.write("/counter", (value + 1).to_string().as_bytes())
        })
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = running.client();
                for _ in 0..100 {
                    count(&mut client).unwrap();
                }
            });
        }
    });
    assert_eq!(running.client().read("/counter").unwrap(), b"400");
}

#[test]
fn xens_tools_work() {
    let running = Running::new("xen");
    let domain = "/local/domain/7";
    running.store.with(|store| store.introduce(DomainId(7)));
    running.prints(&[
        "xenstore-write",
        &format!("{domain}/name"),
        "fw",
        &format!("{domain}/data/x"),
        "1",
    ]);
    assert_eq!(
        running.prints(&["xenstore-read", &format!("{domain}/name")]),
        "fw\n"
    );
    assert_eq!(running.prints(&["xenstore-list", domain]), "data\nname\n");
    running.prints(&["xenstore-chmod", &format!("{domain}/data"), "n0", "b7"]);
    let listed = running.prints(&["xenstore-ls", "-p", domain]);
    // Dots lead from each value to its permissions.
    let listed = listed.replace([' ', '.'], "");
    assert_eq!(listed, "data=\"\"(n0,b7)\nx=\"1\"(n0)\nname=\"fw\"(n0)\n");
    assert!(running.xen(&["xenstore-exists", domain]).status.success());
    running.prints(&["xenstore-rm", &format!("{domain}/data")]);
    let missing = running.xen(&["xenstore-exists", &format!("{domain}/data")]);
    assert!(!missing.status.success());
    let missing = running.xen(&["xenstore-read", "/nosuch"]);
    assert!(!missing.status.success());
    let mut client = running.client();
    let checked = client.ask(Kind::Control, "check", b"").unwrap();
    let checked = String::from_utf8_lossy(&checked);
    assert!(checked.contains("5 nodes, "), "{checked}");
    for n in 0..3000 {
        client
            .make(&format!("/local/domain/{}/x", 100 + n))
            .unwrap();
    }
    let listed = running.prints(&["xenstore-list", "/local/domain"]);
    assert_eq!(listed.lines().count(), 3001);
}

#[test]
fn xenstore_watch_sees_changes() {
    let running = Running::new("watch");
    let mut watch = running.command(&["xenstore-watch", "-n", "3", "/a"]);
    let mut watch = watch
        .stdout(Stdio::piped())
        .spawn()
        .expect("xenstore-utils");
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    // The first event says that the watch stands.
    assert_eq!(lines.next().unwrap().unwrap(), "/a");
    running.prints(&["xenstore-write", "/a/b", "1"]);
    running.prints(&["xenstore-write", "/c", "1"]);
    running.prints(&["xenstore-rm", "/a"]);
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(rest, ["/a/b", "/a"]);
    assert!(watch.wait().unwrap().success());
}

#[test]
fn a_client_that_breaks_the_protocol_is_disconnected() {
    let running = Running::new("hostile");
    let mut stream = UnixStream::connect(running.socket()).unwrap();
    let header = Header {
        kind: Kind::Write as u32,
        len: 4097,
        ..Header::default()
    };
    stream.write_all(&header.to_bytes()).unwrap();
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
    running.client().write("/a", b"1").unwrap();
}

#[test]
fn a_client_that_does_not_read_delays_no_other() {
    let running = Running::new("deaf");
    let mut client = running.client();
    client.write("/a", &[b'x'; 4000]).unwrap();
    let mut deaf = running.client();
    deaf.watch("/a", "w").unwrap();
    let mut flood = UnixStream::connect(running.socket()).unwrap();
    flood
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let mut request = Vec::new();
    let header = Header {
        kind: Kind::Read as u32,
        ..Header::default()
    };
    append(&mut request, header, b"/a\0");
    // Requests whose answers are not read, until the server takes no more of them.
    let mut sent = 0;
    while flood.write_all(&request).is_ok() {
        sent += 1;
        assert!(sent < 1_000_000, "the server takes requests without end");
    }
    let changes = 20 * EVENTS_MAX;
    for n in 0..changes {
        client.write("/a/b", n.to_string().as_bytes()).unwrap();
    }
    // Events were dropped, which the watch, fired once more, says.
    let told = |event: &store::Event| event.path != "/a";
    assert_eq!(deaf.event().unwrap().path, "/a");
    let seen = std::iter::from_fn(|| Some(deaf.event().unwrap()).filter(told)).count();
    assert!(seen < changes, "{seen}");
    client.write("/a/end", b"").unwrap();
    while deaf.event().unwrap().path != "/a/end" {}
    // What the flood sent is answered once it reads.
    let mut answer = vec![0; Header::LEN + 4000];
    for _ in 0..sent {
        flood.read_exact(&mut answer).unwrap();
    }
}
