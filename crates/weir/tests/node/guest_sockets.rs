//! Guests as applications: sockets of their routers that a network stack module serves.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::common::{Host, assert_contains, inside, ip, until};

/// Connects 12 times at once to an echo server, and sends 300 KB by each before it ends its side; the third by a
/// reader that is slow to begin.
const ECHO: &str = r#"
import os, socket, threading, time
failed = []
def one(n):
    sent = os.urandom(300000)
    s = socket.create_connection(("127.0.0.1", 7), 20)
    s.settimeout(20)
    def send():
        s.sendall(sent)
        s.shutdown(socket.SHUT_WR)
    sender = threading.Thread(target=send)
    sender.start()
    if n == 2: time.sleep(0.3)
    got = b""
    while True:
        part = s.recv(65536)
        if not part: break
        got += part
    sender.join()
    if got != sent: failed.append((n, len(got)))
threads = [threading.Thread(target=one, args=(n,)) for n in range(12)]
[t.start() for t in threads]; [t.join() for t in threads]
print("echoed" if not failed else failed)
"#;

/// Two senders of datagrams to an echo server, which each hears its own only.
const DATAGRAMS: &str = r#"
import socket
pair = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
for s in pair: s.settimeout(10); s.connect(("127.0.0.1", 7))
for i in range(50):
    for n, s in enumerate(pair): s.send(b"%d %d" % (n, i))
    for n, s in enumerate(pair): assert s.recv(100) == b"%d %d" % (n, i)
print("echoed")
"#;

/// Serves one connection: a request is answered by 200000 bytes.
const SERVER: &str = r#"
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 8000)); s.listen()
while True:
    c, _ = s.accept()
    if c.recv(100) == b"GET / HTTP/1.0\r\n\r\n": c.sendall(b"x" * 200000)
    c.close()
"#;

/// An echo of a stream and of a datagram, by IPv6.
const IPV6: &str = r#"
import socket
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    s = socket.socket(socket.AF_INET6, kind)
    s.settimeout(10)
    s.connect(("::1", 7))
    s.send(b"hello")
    assert s.recv(100) == b"hello"
print("echoed")
"#;

/// A connection that asks, waits for a line, and asks again.
const HOTSWAPPED: &str = r#"
import socket, sys
s = socket.create_connection(("127.0.0.1", 80), 5)
s.settimeout(10)
s.sendall(b"first\n")
print(s.recv(100).split(b"\n")[0].decode(), flush=True)
s.sendall(sys.stdin.readline().encode())
print(s.recv(100).decode(), flush=True)
"#;

/// A host with an NSM `web` in a namespace of its own, whose name is returned.
fn host() -> (Host, String) {
    let host = Host::new();
    let namespace = format!("{}-web", host.prefix);
    ip(&format!("netns add {namespace}"));
    host.ok(&format!("nsm create web --netns {namespace}"));
    (host, namespace)
}

fn python(namespace: &str, text: &str) -> Command {
    let mut python = Command::new("ip");
    python.args(["netns", "exec", namespace, "python3", "-c", text]);
    python
}

fn said(namespace: &str, text: &str) -> String {
    let output = python(namespace, text).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8(said).unwrap()
}

#[test]
fn a_guest_serves_clients_by_its_nsm() {
    for wall in ["process", "vm"] {
        let (host, namespace) = host();
        let answer = "HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\nhello\\n";
        let length = 38 + 6;
        let web = host.config(
            "web.click",
            &format!(
                "s :: SocketServer(TCP, 0.0.0.0, 80) -> Truncate(0) -> Pad({length})
                    -> StoreData(0, \"{answer}\") -> Queue -> s;"
            ),
        );
        host.ok(&format!("create www {web} --nsm web --isolation {wall}"));
        let fetch = || inside(&namespace, "curl -s -m 5 http://127.0.0.1/");
        until("it does not serve", || fetch().is_some());
        for _ in 0..20 {
            assert_eq!(fetch().as_deref(), Some("hello\n"));
        }
        until("connections do not end", || {
            host.ok("read www s.open").trim() == "0"
        });
        assert!(
            host.ok("read www s.connections")
                .trim()
                .parse::<u64>()
                .unwrap()
                >= 21
        );
        // It is an application as others are, which keeps its NSM.
        host.shows(
            "sock ls www -p -o nsm,state,bound",
            "web:listening:0.0.0.0\\:80\n",
        );
        host.refuses("nsm delete web", "NSM ‘web’ is in use");
        let copy = host.folder.join("copy");
        host.refuses(
            &format!("save www {}", copy.display()),
            "guest ‘www’ has sockets at NSM ‘web’, which no copy of it could have",
        );
        // A port outlives a hotswap, and so does a connection.
        let (mut hotswapped, other) = (python(&namespace, HOTSWAPPED), "-> Null -> Queue -> s;");
        let mut hotswapped = hotswapped
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(hotswapped.stdout.take().unwrap()).lines();
        assert!(said.next().unwrap().unwrap().starts_with("HTTP/1.1 200"));
        let echo = host.config(
            "echo.click",
            &format!("s :: SocketServer(TCP, 0.0.0.0, 80) {other}"),
        );
        host.ok(&format!("set www --config {echo}"));
        hotswapped
            .stdin
            .take()
            .unwrap()
            .write_all(b"more\n")
            .unwrap();
        assert_eq!(said.next().unwrap().unwrap(), "more");
        hotswapped.wait().unwrap();
        host.ok(&format!("set www --config {web}"));
        // A restarted guest has the port again.
        host.ok("restart www");
        until("it does not serve again", || fetch().is_some());
        host.ok("destroy www");
        until("the application does not end", || {
            host.ok("sock ls -p").is_empty()
        });
        host.ok("nsm delete web");
    }
}

#[test]
fn streams_and_datagrams_come_back_whole() {
    for wall in ["process", "vm"] {
        let (host, namespace) = host();
        let echo = host.config(
            "echo.click",
            "t :: SocketServer(TCP, 0.0.0.0, 7) -> Queue -> t;
             u :: SocketServer(UDP, 0.0.0.0, 7) -> Queue -> u;",
        );
        host.ok(&format!("create echo {echo} --nsm web --isolation {wall}"));
        until("it does not serve", || {
            host.ok("sock ls echo -p -o state").lines().count() == 2
        });
        assert_contains(&said(&namespace, ECHO), "echoed");
        assert_contains(&said(&namespace, DATAGRAMS), "echoed");
        until("connections do not end", || {
            host.ok("read echo t.open").trim() == "0"
        });
        assert_eq!(host.ok("read echo t.drops").trim(), "0");
        assert_eq!(host.ok("read echo t.byte_count").trim(), "3600000");
        assert_eq!(host.ok("read echo u.sent").trim(), "100");
    }
}

#[test]
fn a_guest_fetches_by_its_nsm() {
    for wall in ["process", "vm"] {
        let (host, namespace) = host();
        let fetch = host.config(
            "fetch.click",
            r#"i :: InfiniteSource(DATA "GET / HTTP/1.0\r\n\r\n", LIMIT 1, ACTIVE false)
                -> Queue -> s :: SocketClient(TCP, 127.0.0.1, 8000) -> Discard;"#,
        );
        // Nobody is there: the console tells, and what was to be sent is dropped.
        host.ok(&format!(
            "create fetch {fetch} --nsm web --isolation {wall}"
        ));
        let refused =
            "SocketClient(TCP, 127.0.0.1, 8000): connection refused; start the server first";
        until("it is not told", || host.ok("logs fetch").contains(refused));
        let mut server = python(&namespace, SERVER).spawn().unwrap();
        until("the server does not come", || {
            inside(&namespace, "ss -Hltn sport = 8000").is_some_and(|it| !it.is_empty())
        });
        for n in 1..=3 {
            host.ok("write fetch i.reset 1");
            host.ok("write fetch i.active true");
            let all = (200_000 * n).to_string();
            until("it does not fetch", || {
                host.ok("read fetch s.byte_count").trim() == all
            });
            until("its connection does not end", || {
                host.ok("read fetch s.open").trim() == "0"
            });
        }
        let _ = server.kill();
        let _ = server.wait();
    }
}

#[test]
fn guests_serve_and_fetch_by_ipv6() {
    for wall in ["process", "vm"] {
        let (host, namespace) = host();
        let echo = host.config(
            "echo.click",
            "t :: SocketServer(TCP, ::, 7) -> Queue -> t;
             u :: SocketServer(UDP, ::1, 7) -> Queue -> u;",
        );
        host.ok(&format!("create echo {echo} --nsm web --isolation {wall}"));
        until("it does not serve", || {
            host.ok("sock ls echo -p -o state").lines().count() == 2
        });
        assert_contains(&said(&namespace, IPV6), "echoed");

        // nginx, which is an application of the same NSM.
        let folder = host.folder.display().to_string();
        std::fs::write(host.folder.join("file"), vec![b'x'; 300_000]).unwrap();
        let nginx = host.config(
            "nginx.conf",
            &format!(
                "daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;
                events {{ worker_connections 64; }}
                http {{ access_log off; server_tokens off; etag off; default_type text/plain;
                    server {{ listen [::1]:80; root {folder}; }} }}"
            ),
        );
        let words = ["sock", "run", "--nsm", "web", "--", "nginx", "-c", &nginx];
        let mut nginx = host.weir(&words).spawn().unwrap();
        until("nginx does not serve", || {
            inside(&namespace, "curl -s -m 5 -o /dev/null http://[::1]/file").is_some()
        });
        let fetch = host.config(
            "fetch.click",
            r#"i :: InfiniteSource(DATA "GET /file HTTP/1.0\r\n\r\n", LIMIT 1)
                -> Queue -> s :: SocketClient(TCP, ::1, 80) -> Discard;"#,
        );
        host.ok(&format!(
            "create fetch {fetch} --nsm web --isolation {wall}"
        ));
        let read = |handler: &str| -> u64 {
            let value = host.ok(&format!("read fetch s.{handler}"));
            value.trim().parse().unwrap()
        };
        until("it does not fetch", || read("byte_count") > 300_000);
        until("its connection does not end", || read("open") == 0);
        assert!(read("byte_count") < 300_400, "a head and the file, once");
        let of = host.ok("sock ls -p -o application,received");
        assert_contains(&of, &format!("fetch:{}\n", read("byte_count")));
        nginx.kill().unwrap();
        nginx.wait().unwrap();
    }
}

#[test]
fn sockets_need_an_nsm() {
    let (host, _) = host();
    let echo = host.config(
        "echo.click",
        "s :: SocketServer(TCP, 0.0.0.0, 7) -> Queue -> s;",
    );
    host.refuses(&format!("create echo {echo} --nsm wbe"), "no NSM ‘wbe’");
    // Click's diagnostics, a line each.
    assert_contains(
        &host.refusals(&format!("create echo {echo}")),
        "no NSM serves this router's sockets; start the guest with `--nsm NAME`",
    );
    let wrong = host.config("wrong.click", "SocketServer(SCTP, 0.0.0.0, 7) -> Discard;");
    assert_contains(
        &host.refusals(&format!("create echo {wrong} --nsm web")),
        "the types are TCP and UDP",
    );
    // Two of one port: the second tells.
    host.ok(&format!("create echo {echo} --nsm web"));
    until("it does not serve", || {
        host.ok("sock ls echo -p -o state") == "listening\n"
    });
    host.ok(&format!("create other {echo} --nsm web"));
    until("it is not told", || {
        host.ok("logs other").contains("the address is in use")
    });
}
