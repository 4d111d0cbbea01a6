//! What there is too little of, or too much: a disk that is full, clients that flood the API.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use node::model::{Guest, GuestState, GuestStatus};

use crate::common::{
    BOTH_WAYS, Host, LIMIT, alive, assert_contains, counted, holds, kill, pinging, pings, until,
};

/// A small file system in memory. It is unmounted when dropped.
struct Disk(PathBuf);

impl Disk {
    fn new(at: PathBuf, size: &str) -> Disk {
        std::fs::create_dir_all(&at).unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "weir-test"]);
        assert!(mount.arg(&at).status().unwrap().success());
        Disk(at)
    }

    /// Takes all room that is left.
    fn fill(&self) {
        let path = self.0.join("ballast");
        let file = File::options().create(true).append(true).open(path);
        let mut file = file.unwrap();
        let mut piece = 64 << 10;
        while piece > 0 {
            match file.write_all(&vec![1; piece]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => piece /= 2,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let mut unmount = std::process::Command::new("umount");
        let _ = unmount.arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_told_of_and_the_rest_goes_on() {
    let mut host = Host::new();
    host.end("-TERM");
    let disk = Disk::new(host.folder.join("state"), "8M");
    host.start();
    let (a, _b) = host.lan("10.93.0");
    pings(&a, "10.93.0.2");
    let first = format!("{}m", host.prefix);
    host.ok(&format!("vnic create -l lan --host {first}"));
    disk.fill();

    // Wires with long descriptions, until one does not fit: that one is not made at all. Then with shorter ones, so that
    // little fits.
    let wire = |n: usize, words: usize| {
        let text = format!(
            "wire = 'w{n}'\ndescription = '{}'\n[stub.@w{n}]\n[vnic.@v{n}]\nlink = '@w{n}'\nhost = true\n",
            "long ".repeat(words)
        );
        host.file(&format!("w{n}.toml"), &text)
    };
    let refused = |arguments: &str| {
        let output = host.output(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        (!output.status.success()).then_some(said)
    };
    let mut made = 0;
    for words in [20_000, 2_000, 200, 20] {
        // An undo uses the reserved room, and leaves the rest of it.
        disk.fill();
        let said = loop {
            match refused(&format!("wire apply {}", wire(made, words))) {
                Some(said) => break said,
                None => made += 1,
            }
            assert!(made < 200, "the disk has room");
        };
        assert!(said.contains("No space left"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let interface = |n: usize| {
        let name = format!("{}v{n}", host.prefix);
        std::path::Path::new("/sys/class/net").join(name).exists()
    };
    let whole = |host: &Host| {
        let wires = host.ok("wire show -p -o wire,vnics");
        let expected: String = (0..made).map(|n| format!("w{n}:1\n")).collect();
        let mut lines: Vec<_> = wires.lines().collect();
        lines.sort_by_key(|line| {
            line[1..]
                .split(':')
                .next()
                .unwrap()
                .parse::<usize>()
                .unwrap()
        });
        let stubs = host.ok("stub show -p -o link");
        stubs.lines().count() == made + 1 && lines.join("\n") == expected.trim_end()
    };
    // Each operation now succeeds or fails as a whole; existing resources are shown and work.
    for n in 0..20 {
        let name = format!("{}c{n}", host.prefix);
        if let Some(said) = refused(&format!("vnic create -l lan --host {name}")) {
            assert!(
                said.starts_with("weir: ") && said.lines().count() == 1,
                "{said}"
            );
            assert!(!std::path::Path::new("/sys/class/net").join(&name).exists());
            assert!(!host.ok("vnic show -p -o vnic").contains(&name));
        } else {
            host.ok(&format!("vnic show {name}"));
        }
    }
    // An interface has the MTU that is kept, not the one that could not be. A record that is as long as it was may find
    // room in the file.
    disk.fill();
    for mtu in 1300..1340 {
        let set = refused(&format!("vnic set-prop -p mtu={mtu} {first}"));
        let there = std::fs::read_to_string(format!("/sys/class/net/{first}/mtu")).unwrap();
        assert_eq!(host.ok(&format!("vnic show -p -o mtu {first}")), there);
        assert_eq!(set.is_none(), there.trim() == mtu.to_string(), "{set:?}");
    }
    pings(&a, "10.93.0.2");

    // With room again everything goes on, in the same node.
    disk.make_room();
    host.ok("vnic create -l lan late0");
    let again = host.ok(&format!("wire apply {}", wire(made, 20)));
    assert_contains(&again, &format!("+ stub ‘{}w{made}’", host.prefix));
    assert!(interface(made));
    host.ok(&format!("wire delete w{made}"));
    assert!(!interface(made));
    assert!(whole(&host), "{}", host.ok("stub show -p -o link"));

    // And in the next.
    let seen = host.ok("vnic show -p -o vnic,state");
    host.end("-KILL");
    host.start();
    assert_eq!(host.ok("vnic show -p -o vnic,state"), seen);
    assert!(whole(&host));
    pings(&a, "10.93.0.2");
}

/// What ends while the disk is full is started again, though that cannot be kept; the next node, which
/// does not know of it, has nothing run twice.
#[test]
fn with_a_full_disk_the_switch_and_guests_are_started_again() {
    let mut host = Host::new();
    host.end("-TERM");
    let disk = Disk::new(host.folder.join("state"), "3M");
    host.start();
    host.ok("stub create lan");
    host.ok("stub create other");
    let a = host.namespace("lan", "a0", "10.95.0.1/24", None);
    let _b = host.namespace("lan", "b0", "10.95.0.2/24", None);
    let config = host.config("wire.click", BOTH_WAYS);
    let create = |name: &str, restart: &str| {
        host.ok(&format!(
            "create {name} {config} --link a=lan --link b=other --restart {restart}"
        ));
    };
    create("again", "always");
    create("once", "never");
    let guest = |host: &Host, name: &str| -> GuestStatus {
        host.client().show::<Guest>(name).unwrap().status
    };
    let told = |host: &Host, what: &str| {
        let said = host.said.lock().unwrap();
        said.iter().filter(|line| line.contains(what)).count()
    };
    let first = guest(&host, "again").pid.unwrap();
    let mut n = 0;
    let mut fill = |host: &Host| {
        disk.fill();
        // What was free in the file is used up.
        let mut refused = 0;
        while refused < 5 {
            let made = host.output(&format!("stub create s{n}")).status.success();
            refused = if made { 0 } else { refused + 1 };
            n += 1;
        }
    };
    fill(&host);

    host.lose_switch();
    pings(&a, "10.95.0.2");
    kill("-KILL", first);
    let is_another = |host: &Host, not: u32| {
        let guest = guest(host, "again");
        guest.state == GuestState::Running && guest.pid != Some(not)
    };
    until("the guest is not started again", || {
        is_another(&host, first)
    });
    kill("-KILL", guest(&host, "once").pid.unwrap());
    until("the end is not told", || {
        guest(&host, "once").state == GuestState::Crashed
    });
    std::thread::sleep(Duration::from_millis(1500));
    let once = guest(&host, "once");
    assert_eq!((once.state, once.pid), (GuestState::Crashed, None));
    assert!(once.reason.unwrap().contains("killed"));
    // A record that takes another's place may still find room in the file.
    let unkept = told(&host, "that start now are not stored");
    assert!(unkept <= 1, "it is told once");
    assert_eq!(told(&host, "does not answer"), 0);

    // The next node knows this switch and this guest if they were kept, and replaces them if not.
    let (switch, second) = (host.switch_pid(), guest(&host, "again").pid.unwrap());
    host.end("-KILL");
    host.start();
    if unkept == 1 {
        until("it is not started again", || is_another(&host, second));
        until("something runs twice", || !alive(switch) && !alive(second));
    } else {
        let runs = (host.switch_pid(), guest(&host, "again").pid);
        assert_eq!(runs, (switch, Some(second)));
    }

    // With room, what is started is kept: the next node takes it over.
    disk.make_room();
    let third = guest(&host, "again").pid.unwrap();
    kill("-KILL", third);
    until("it is not started again", || is_another(&host, third));
    std::thread::sleep(Duration::from_millis(1500));
    let (switch, fourth) = (host.switch_pid(), guest(&host, "again").pid);
    assert_eq!(guest(&host, "once").state, GuestState::Crashed);
    host.end("-KILL");
    host.start();
    assert_eq!(
        (host.switch_pid(), guest(&host, "again").pid),
        (switch, fourth)
    );
    assert_eq!(guest(&host, "once").state, GuestState::Crashed);

    // A guest can be destroyed, too, and everything be ended.
    fill(&host);
    let goes = guest(&host, "again").pid.unwrap();
    host.ok("destroy again");
    until("it still runs", || !alive(goes));
    assert!(!host.ok("ls -p -o guest").contains("again"));
    fill(&host);
    host.ok("node --purge");
    until("something still runs", || {
        !alive(switch) && !alive(fourth.unwrap())
    });
}

/// What is answered to a request after which the client says that it has no more to say.
fn answer(host: &Host, method: &str, path: &str, body: &str) -> String {
    let mut stream = UnixStream::connect(host.run().join("node.sock")).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: node\r\ncontent-type: application/json\r\n\
        content-length: {}\r\n\r\n",
        body.len()
    );
    // What is too long is answered before all of it is read.
    let said = stream.write_all((head + body).as_bytes());
    let _ = said.and_then(|()| stream.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn a_client_that_says_no_more_is_answered_and_then_let_go() {
    let host = Host::new();
    let before = holds(host.view().pid);
    let answers = |method: &str, path: &str, body: &str, what: &str| {
        let answer = answer(&host, method, path, body);
        let (status, text) = what.split_once(' ').unwrap_or((what, ""));
        let is_it = answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(text);
        assert!(is_it, "{method} {path}: {answer}");
    };
    let stub = "{\"name\":\"lan\"}";
    answers("POST", "/v1/stubs", stub, "201 \"name\":\"lan\"");
    answers("GET", "/v1/stubs", "", "200 \"name\":\"lan\"");
    answers("DELETE", "/v1/stubs/lan", "", "204");
    // The error says what a body must be.
    for (method, path) in [("POST", "/v1/stubs"), ("PATCH", "/v1/switches/lan")] {
        answers(method, path, " [\"lan\", 1400]", "400 is an array");
    }
    answers("GET", "/v1/stubs", "", "200 []");
    let mut stream = UnixStream::connect(host.run().join("node.sock")).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let head = "POST /v1/stubs HTTP/1.1\r\nhost: node\r\ncontent-length: 4000000000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("it is longer than"), "{answer}");
    until("clients are kept", || {
        holds(host.view().pid).0 <= before.0 + 1
    });
}

/// Most clients that the API has at a time.
const CLIENTS: usize = 2048;

fn connect(host: &Host) -> UnixStream {
    UnixStream::connect(host.run().join("node.sock")).unwrap()
}

/// Says something; what does not fit in the socket is not said.
fn say(stream: &mut UnixStream, what: &[u8]) {
    stream.set_nonblocking(true).unwrap();
    let _ = stream.write_all(what);
}

/// The answer to a client until it is disconnected, which is soon.
fn last_words(stream: &mut UnixStream) -> String {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut said = Vec::new();
    // It may be cut off while it still speaks.
    let _ = stream.read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

/// The head of a request with a body.
fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: node\r\ncontent-type: application/json\r\n\
        content-length: {length}\r\n\r\n"
    )
}

#[test]
fn clients_that_flood_the_api_are_let_go_and_the_rest_goes_on() {
    let host = Host::new();
    let (a, _b) = host.lan("10.94.0");
    pings(&a, "10.94.0.2");
    let node = host.view().pid;
    let before = holds(node);
    let ping = pinging(&a, "10.94.0.2", 8);
    let start = Instant::now();
    let mut clients = Vec::new();
    for n in 0..120 {
        let mut client = connect(&host);
        match n % 4 {
            // One that says nothing, and one that says half of it.
            0 => {}
            1 => say(&mut client, b"GET /v1/node HT"),
            // One whose body is long and never comes.
            2 => {
                let begun = head("/v1/guests", 20_000_000) + "{\"name\":\"";
                say(&mut client, begun.as_bytes());
            }
            // One that asks again and again and reads nothing.
            _ => say(
                &mut client,
                &b"GET /v1/openapi.json HTTP/1.1\r\nhost: node\r\n\r\n".repeat(2000),
            ),
        }
        clients.push(client);
    }
    until("no client is let in", || holds(node).0 > before.0 + 100);
    let (_, memory) = holds(node);
    assert!(memory <= before.1 + (64 << 10), "{memory} KiB");
    // A client that means it is served meanwhile.
    host.ok("vnic create -l lan c0");
    assert!(start.elapsed() < Duration::from_secs(5));

    // Large requests that are wrong are answered, each by a sentence.
    for _ in 0..20 {
        let body = format!("{{\"name\":\"g\",\"config\":\"{}\"}}", "x".repeat(1 << 20));
        let mut stream = connect(&host);
        stream.set_read_timeout(Some(2 * LIMIT)).unwrap();
        let head = head("/v1/guests", body.len()).replace("host:", "connection: close\r\nhost:");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert!(answer.contains("\"error\":"), "{answer}");
    }
    let (sent, answered) = counted(ping);
    assert!(sent > 100 && answered + 5 >= sent, "{answered} of {sent}");

    // The node disconnects them, and nothing of them stays.
    until("clients are kept", || holds(node).0 <= before.0 + 2);
    drop(clients);
    std::thread::sleep(Duration::from_millis(100));
    let (files, memory) = holds(node);
    assert!(files <= before.0 + 2, "{} files, then {files}", before.0);
    assert!(memory <= before.1 + (48 << 10), "{memory} KiB");
}

/// Slow clients, silent ones, many at once, and long bodies: each is dropped or served in bounded time, and one that
/// only asks is answered meanwhile.
#[test]
fn slow_silent_and_many_clients_and_long_bodies_keep_nobody_waiting() {
    let host = Host::new();
    let node = host.view().pid;
    let before = holds(node);
    let stop = AtomicBool::new(false);
    let goes_on = || !stop.load(Ordering::Relaxed);
    let (slow, most, times, answered) = std::thread::scope(|threads| {
        // Clients that announce a body and send a byte a second.
        let slow = threads.spawn(|| {
            let mut clients: Vec<_> = (0..70)
                .map(|_| {
                    let mut client = connect(&host);
                    say(&mut client, head("/v1/vnics", 1 << 20).as_bytes());
                    client
                })
                .collect();
            for _ in 0..8 {
                clients.iter_mut().for_each(|client| say(client, b" "));
                std::thread::sleep(Duration::from_secs(1));
            }
            let told = clients.iter_mut().map(last_words);
            told.filter(|said| said.starts_with("HTTP/1.1 408")).count()
        });
        let silent: Vec<_> = (0..200).map(|_| connect(&host)).collect();
        // A thousand that ask again and again, by a few threads.
        let mut many = Vec::new();
        for _ in 0..4 {
            many.push(threads.spawn(|| {
                let mut clients: Vec<_> = (0..250).map(|_| connect(&host)).collect();
                let mut answered = 0;
                while goes_on() {
                    for client in &mut clients {
                        let _ = client.write_all(b"GET /v1/stubs HTTP/1.1\r\nhost: node\r\n\r\n");
                    }
                    for client in &mut clients {
                        client.set_read_timeout(Some(LIMIT)).unwrap();
                        let read = client.read(&mut [0; 4096]).unwrap_or(0);
                        answered += usize::from(read > 0);
                    }
                }
                answered
            }));
        }
        for _ in 0..4 {
            threads.spawn(|| {
                let body = format!("{{\"name\":\"g\",\"config\":\"{}\"}}", "x ".repeat(8 << 20));
                while goes_on() {
                    let mut client = connect(&host);
                    let _ = client.write_all(head("/v1/guests", body.len()).as_bytes());
                    let _ = client.write_all(body.as_bytes());
                    let _ = client.shutdown(Shutdown::Write);
                    last_words(&mut client);
                }
            });
        }
        // Its own connection each time, as a command has.
        let (mut times, mut most) = (Vec::new(), (0, 0));
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(9) {
            let asked = Instant::now();
            host.view();
            times.push(asked.elapsed());
            let (files, memory) = holds(node);
            most = (most.0.max(files), most.1.max(memory));
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        drop(silent);
        let answered: usize = many.into_iter().map(|it| it.join().unwrap()).sum();
        (slow.join().unwrap(), most, times, answered)
    });
    let mut times = times;
    times.sort();
    let part = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "{} requests took {:?} (median), {:?} (99 %), {:?} (all); others had {answered} answers; {} files, {} MiB more",
        times.len(),
        part(50),
        part(99),
        part(100),
        most.0 - before.0,
        most.1.saturating_sub(before.1) >> 10,
    );
    assert_eq!(slow, 70, "clients that get the answer ‘too slow’");
    assert!(part(99) < Duration::from_secs(2), "{:?}", part(99));
    assert!(answered > 1000, "{answered}");
    assert!(most.0 <= before.0 + CLIENTS + 8, "{} files", most.0);
    // Twice the longest body, and 64 KiB for each of the others.
    assert!(most.1 <= before.1 + (192 << 10), "{} KiB", most.1);
    until("clients are kept", || holds(node).0 <= before.0 + 2);
}

/// Another user takes all that it can have: root is served all the same, and that user as well.
#[test]
fn a_user_who_floods_the_api_keeps_root_from_nothing() {
    let mut host = Host::with(&["--group", "root"]);
    let node = host.view().pid;
    let before = holds(node);
    let flood = format!(
        "
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
long = b'POST /v1/guests HTTP/1.1\\r\\nhost: node\\r\\ncontent-type: application/json\\r\\ncontent-length: 30000000\\r\\n\\r\\n'
clients = []
def come():
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(60)
    client.connect('{}')
    clients.append(client)
    return client
# Bodies that take all memory there is for them, and connections of all kinds.
for i in range(60):
    come().send(long)
for i in range(3000):
    come()
client = come()
client.send(b'GET /v1/node HTTP/1.1\\r\\nhost: node\\r\\n\\r\\n')
print(client.recv(4096).decode().splitlines()[0], flush=True)
time.sleep(60)
",
        host.run().join("node.sock").display()
    );
    let mut other = Command::new("setpriv");
    other.args(["--reuid", "65534", "--regid", "0", "--clear-groups"]);
    other
        .args(["/usr/bin/python3", "-c", &flood])
        .stdout(Stdio::piped());
    let mut other = other.spawn().unwrap();
    let mut said = BufReader::new(other.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "HTTP/1.1 200 OK", "the newest of its own");
    let (files, _) = holds(node);
    assert!(files <= before.0 + CLIENTS / 2 + 8, "{files} files");
    host.ok("stub create lan");
    let long = format!("wire = 'w'\ndescription = '{}'\n", "x".repeat(2 << 20));
    let file = host.config("w.toml", &long);
    host.ok(&format!("wire apply {file}"));
    assert!(
        other.try_wait().unwrap().is_none(),
        "root waited until the other user had left"
    );
    other.kill().unwrap();
    other.wait().unwrap();
    host.end("-TERM");
}

/// Fields of `/proc/PID/stat` from the third on.
fn stat(pid: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().map(str::to_string).collect()
}

#[test]
fn the_switch_goes_before_the_guests_which_share_a_session() {
    let host = Host::new();
    let config = host.config("idle.click", "Idle -> Discard;");
    let names = ["vm", "process", "other"];
    for (name, wall) in names.iter().zip(["vm", "process", "vm"]) {
        host.ok(&format!("create {name} {config} --isolation {wall}"));
    }
    let switch = host.switch_pid();
    let (session, nice) = (3, 16);
    for task in std::fs::read_dir(format!("/proc/{switch}/task")).unwrap() {
        let task = task.unwrap().file_name().into_string().unwrap();
        assert_eq!(stat(task.parse().unwrap())[nice], "-10", "thread {task}");
    }
    // Not on all kernels.
    if let Ok(group) = std::fs::read_to_string(format!("/proc/{switch}/autogroup")) {
        assert_contains(&group, " nice -10");
    }
    let of_guest = |name: &&str| {
        let guest = host.client().show::<Guest>(name).unwrap();
        stat(guest.status.pid.unwrap())[session].clone()
    };
    let sessions: std::collections::BTreeSet<String> = names.iter().map(of_guest).collect();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let others = [switch, host.view().pid, std::process::id()];
    for other in others {
        assert!(!sessions.contains(&stat(other)[session]), "{other}");
    }
}
