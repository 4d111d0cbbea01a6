//! The cache between a client and an origin, each with a stack of its own.

use smoltcp::iface::SocketHandle;
use std::string::String;
use std::vec::Vec;

use super::client::{is_spent, receive};
use crate::cache::stack::Stack;
use crate::testing::*;

const CACHE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const ORIGIN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

/// What the origin answers to a request, and how often it was asked.
type Site = fn(&str) -> String;

/// What the origin does behind its answer.
#[derive(PartialEq)]
enum End {
    Close,
    Reset,
    Stall,
}

struct Net {
    rig: Rig,
    client: Stack,
    origin: Stack,
    site: Site,
    end: End,
    /// Connections of the origin: with what came, and what is left to be sent.
    served: Vec<(SocketHandle, Vec<u8>, Vec<u8>, bool)>,
    /// The requests that the origin got.
    asked: Vec<String>,
    now: u64,
}

impl Net {
    fn new(arguments: &str, site: Site) -> Net {
        let config = std::format!(
            "i :: Inject -> MarkIPHeader -> h :: HTTPCache({CACHE}, {ORIGIN}{arguments}) -> c :: Collect;"
        );
        let mut origin = Stack::new(&[ORIGIN], 1, Steady(0));
        let served = (0..4).map(|_| {
            let socket = origin.listen((ORIGIN, 80), 8192, 8192);
            (socket, std::vec![], std::vec![], false)
        });
        let served = served.collect();
        Net {
            rig: Rig::new(&config),
            client: Stack::new(&[CLIENT], 2, Steady(0)),
            origin,
            site,
            end: End::Close,
            served,
            asked: Vec::new(),
            now: 0,
        }
    }

    fn connect(&mut self) -> SocketHandle {
        self.client.connect(CLIENT, (CACHE, 80), 8192, 8192)
    }

    /// The origin's work: it answers whole requests, and closes.
    fn serve(&mut self) {
        for (socket, came, left, answered) in &mut self.served {
            let tcp = self.origin.socket(*socket);
            receive(tcp, came, 1 << 16);
            if !*answered && came.windows(4).any(|part| part == b"\r\n\r\n") {
                let text = String::from_utf8_lossy(came).into_owned();
                left.extend((self.site)(&text).bytes());
                self.asked.push(text);
                *answered = true;
            }
            if !left.is_empty() && tcp.may_send() {
                let count = tcp.send_slice(left).unwrap_or(0);
                left.drain(..count);
            }
            if *answered && left.is_empty() && tcp.may_send() {
                match self.end {
                    End::Close => tcp.close(),
                    // What was sent has to be there.
                    End::Reset if tcp.send_queue() == 0 => tcp.abort(),
                    End::Reset | End::Stall => {}
                }
            }
            if *answered && is_spent(tcp) {
                self.origin.remove(*socket);
                *socket = self.origin.listen((ORIGIN, 80), 8192, 8192);
                (*came, *answered) = (std::vec![], false);
            }
        }
    }

    /// Lets packets go on for a while.
    fn go_on(&mut self, rounds: usize) {
        for _ in 0..rounds {
            let now = Steady(self.now);
            self.serve();
            for stack in [&mut self.client, &mut self.origin] {
                stack.make(now);
                let mut made = Vec::new();
                while stack.next(|packet| made.push(packet.to_vec())) {}
                made.iter().for_each(|packet| self.rig.push("i", packet));
            }
            self.rig.run();
            for packet in self.rig.data("c") {
                let stack = match packet[19] {
                    2 => &mut self.origin,
                    _ => &mut self.client,
                };
                stack.arrive(&packet, now);
            }
            self.now += MS;
            self.rig.advance(MS);
        }
    }

    /// Lets so many seconds pass.
    fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += 1000 * MS;
            self.rig.advance(1000 * MS);
            self.go_on(4);
        }
    }

    /// Sends a request, and returns the answer.
    fn ask(&mut self, request: &str) -> String {
        let socket = self.connect();
        self.send(socket, request);
        let got = self.got(socket);
        self.client.socket(socket).abort();
        got
    }

    fn send(&mut self, socket: SocketHandle, text: &str) {
        self.go_on(4);
        let sent = self.client.socket(socket).send_slice(text.as_bytes());
        assert_eq!(sent, Ok(text.len()));
    }

    fn got(&mut self, socket: SocketHandle) -> String {
        let mut got = Vec::new();
        for _ in 0..100 {
            self.go_on(4);
            receive(self.client.socket(socket), &mut got, usize::MAX);
        }
        String::from_utf8_lossy(&got).into_owned()
    }

    /// The answer to one request.
    fn get(&mut self, path: &str, fields: &str) -> String {
        self.ask(&std::format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"
        ))
    }
}

fn page(fields: &str, body: &str) -> String {
    std::format!(
        "HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn an_object_is_kept_and_asked_for_once() {
    let mut net = Net::new("", |_| {
        page("Cache-Control: max-age=60\r\nETag: \"a\"\r\n", "a page")
    });
    let first = net.get("/x", "");
    assert!(
        first.starts_with("HTTP/1.1 200 OK\r\n") && first.ends_with("\r\n\r\na page"),
        "{first}"
    );
    assert_contains(&first, "cache-status: weir; fwd=uri-miss; stored\r\n");
    let second = net.get("/x", "");
    assert_contains(&second, "cache-status: weir; hit\r\n");
    assert!(second.ends_with("\r\n\r\na page"), "{second}");
    assert_contains(
        &net.get("/x", "If-None-Match: \"a\"\r\n"),
        "HTTP/1.1 304 Not Modified\r\n",
    );
    let part = net.get("/x", "Range: bytes=2-3\r\n");
    assert!(
        part.starts_with("HTTP/1.1 206 ") && part.ends_with("\r\n\r\npa"),
        "{part}"
    );
    assert_contains(&part, "content-range: bytes 2-3/6\r\n");
    assert_eq!(net.asked.len(), 1);
    assert_contains(&net.asked[0], "GET /x HTTP/1.1\r\nHost: a\r\n");
    net.rig
        .assert_handlers(&[("h.hits", "3"), ("h.misses", "1"), ("h.count", "1")]);
    assert_contains(&net.rig.read("h.objects"), " a/x\n");
    // Two requests on one connection, and none for what was purged.
    let socket = net.connect();
    net.send(socket, "GET /x HTTP/1.1\r\nHost: a\r\n\r\nHEAD /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let both = net.got(socket);
    assert_eq!(both.matches("content-length: 6\r\n").count(), 2, "{both}");
    assert!(both.ends_with("connection: close\r\n\r\n"), "{both}");
    net.rig.write("h.purge", "a/x");
    net.get("/x", "");
    assert_eq!(net.asked.len(), 2);
}

#[test]
fn clients_of_one_object_share_a_request() {
    let mut net = Net::new("", |_| {
        page("Cache-Control: max-age=60\r\n", &"0123456789".repeat(3000))
    });
    let sockets: Vec<_> = (0..5).map(|_| net.connect()).collect();
    for socket in &sockets {
        net.send(*socket, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for socket in sockets {
        let got = net.got(socket);
        assert!(got.ends_with(&"0123456789".repeat(3000)), "{}", got.len());
    }
    assert_eq!(net.asked.len(), 1);
    net.rig
        .assert_handlers(&[("h.misses", "1"), ("h.hits", "4")]);
}

#[test]
fn what_is_not_for_all_is_not_kept() {
    let mut net = Net::new("", |_| {
        page("Cache-Control: private, max-age=60\r\n", "mine")
    });
    let sockets: Vec<_> = (0..3).map(|_| net.connect()).collect();
    for socket in &sockets {
        net.send(*socket, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for socket in sockets {
        assert!(net.got(socket).ends_with("\r\n\r\nmine"));
    }
    assert_eq!((net.asked.len(), net.rig.read("h.count")), (3, "0".into()));
}

#[test]
fn a_stale_object_is_validated() {
    fn site(request: &str) -> String {
        match request.contains("if-none-match: \"a\"") {
            true => "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\n\r\n".into(),
            false => page("Cache-Control: max-age=0\r\nETag: \"a\"\r\n", "text"),
        }
    }
    let mut net = Net::new("", site);
    net.get("/", "");
    let second = net.get("/", "");
    assert!(
        second.starts_with("HTTP/1.1 200") && second.ends_with("\r\n\r\ntext"),
        "{second}"
    );
    assert_contains(&second, "fwd-status=304");
    net.get("/", "");
    assert_eq!(net.asked.len(), 2);
    net.rig
        .assert_handlers(&[("h.revalidated", "1"), ("h.hits", "1")]);
}

#[test]
fn variants_are_told_apart() {
    fn site(request: &str) -> String {
        let is_german = request.contains("accept-language: de");
        let fields = "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n";
        page(fields, if is_german { "Seite" } else { "page" })
    }
    let mut net = Net::new("", site);
    for _ in 0..2 {
        assert!(net.get("/", "Accept-Language: de\r\n").ends_with("Seite"));
        assert!(net.get("/", "").ends_with("page"));
    }
    assert_eq!((net.asked.len(), net.rig.read("h.count")), (2, "2".into()));
}

#[test]
fn chunks_and_long_objects_are_passed_on() {
    fn site(request: &str) -> String {
        match request.starts_with("GET /chunks") {
            true => {
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n\
                     5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n"
                    .into()
            }
            false => page("Cache-Control: max-age=60\r\n", &"x".repeat(200_000)),
        }
    }
    let mut net = Net::new(", MEMORY 100000, OBJECT 50000", site);
    for path in ["/chunks", "/chunks"] {
        let got = net.get(path, "Connection: close\r\n");
        assert!(got.contains("hello"), "{got}");
    }
    assert_eq!(net.asked.len(), 1);
    let long = net.get("/long", "");
    assert!(long.ends_with(&"x".repeat(200_000)), "{}", long.len());
    net.rig.assert_handlers(&[("h.count", "1")]);
    net.get("/long", "");
    assert_eq!(net.asked.len(), 3);
}

#[test]
fn other_methods_are_passed_and_drop_the_object() {
    let mut net = Net::new("", |_| page("Cache-Control: max-age=60\r\n", "text"));
    net.get("/", "");
    let socket = net.connect();
    net.send(
        socket,
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    );
    assert!(net.got(socket).ends_with("text"));
    assert_contains(
        &net.asked[1],
        "POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 4\r\n",
    );
    assert!(net.asked[1].ends_with("\r\n\r\nbody"));
    net.rig
        .assert_handlers(&[("h.count", "0"), ("h.passed", "1")]);
}

#[test]
fn smuggled_requests_reach_no_origin() {
    let mut net = Net::new("", |_| page("", "text"));
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 4\r\nContent-Length: 5\r\n",
        "X: a\r\n b\r\n",
    ] {
        let got = net.get("/", fields);
        assert!(got.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{got}");
        assert_contains(&got, "connection: close\r\n");
    }
    assert_eq!(net.asked.len(), 0);
    assert_eq!(net.rig.read("h.refused"), "3");
}

#[test]
fn an_origin_that_is_gone_is_told() {
    let mut net = Net::new("", |_| {
        page(
            "Cache-Control: max-age=0\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            "text",
        )
    });
    net.get("/", "");
    for (socket, ..) in core::mem::take(&mut net.served) {
        net.origin.remove(socket);
    }
    let stale = net.get("/", "");
    assert!(
        stale.contains("stale") && stale.ends_with("text"),
        "{stale}"
    );
    let got = net.get("/other", "");
    assert!(got.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{got}");
}

#[test]
fn a_body_that_stalls_is_not_kept() {
    let mut net = Net::new("", |_| {
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 100\r\n\r\nhalf".into()
    });
    net.end = End::Stall;
    let socket = net.connect();
    net.send(socket, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(net.got(socket).ends_with("\r\n\r\nhalf"));
    assert_eq!(net.rig.read("h.count"), "1");
    net.wait(32);
    assert!(!net.client.socket(socket).is_active(), "the client waits");
    net.rig
        .assert_handlers(&[("h.count", "0"), ("h.failed", "1"), ("h.size", "0")]);
    net.get("/", "");
    assert_eq!(net.asked.len(), 2);
}

#[test]
fn only_a_fin_ends_a_body_without_a_length() {
    for (end, kept) in [(End::Close, "1"), (End::Reset, "0")] {
        let mut net = Net::new("", |_| {
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n\r\nsome".into()
        });
        net.end = end;
        let got = net.get("/", "");
        assert_eq!(got.ends_with("\r\n0\r\n\r\n"), kept == "1", "{got}");
        assert_eq!(net.rig.read("h.count"), kept);
    }
}

#[test]
fn the_origin_answers_conditions_about_pages_that_are_not_kept() {
    fn site(request: &str) -> String {
        let is_known = request.contains("if-none-match: \"a\"")
            || request.contains("if-modified-since: Sun, 06 Nov 1994 08:49:37 GMT");
        match (is_known, request.starts_with("GET /kept")) {
            (true, _) => {
                "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\n\r\n"
                    .into()
            }
            (false, true) => page("Cache-Control: max-age=60\r\nETag: \"a\"\r\n", "text"),
            (false, false) => page("Cache-Control: no-store\r\nETag: \"a\"\r\n", "text"),
        }
    }
    let mut net = Net::new("", site);
    for condition in [
        "If-None-Match: \"a\"\r\n",
        "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
    ] {
        for path in ["/", "/kept"] {
            let got = net.get(path, condition);
            assert!(got.starts_with("HTTP/1.1 304 "), "{got}");
            assert_eq!(net.rig.read("h.count"), "0");
        }
    }
    let got = net.get("/kept", "If-None-Match: \"old\"\r\n");
    assert!(got.starts_with("HTTP/1.1 200 "), "{got}");
    net.rig.assert_handlers(&[("h.count", "1")]);
    let asked = net.asked.len();
    net.get("/kept", "If-None-Match: \"a\"\r\n");
    assert_eq!(net.asked.len(), asked);
}

#[test]
fn handshakes_of_nobody_do_not_shut_out_clients() {
    const SYN: u8 = 2;
    let mut net = Net::new(", CLIENTS 2", |_| page("", "text"));
    for last in 0..200 {
        let from = (Ipv4Addr::new(10, 9, 0, last), 1000);
        net.rig.push("i", &tcp(from, (CACHE, 80), SYN, b""));
    }
    assert!(net.get("/", "").ends_with("\r\n\r\ntext"));
    // A connection beyond those that may be open is refused.
    let sockets: Vec<_> = (0..3).map(|_| net.connect()).collect();
    net.go_on(8);
    let open = sockets
        .iter()
        .filter(|socket| net.client.socket(**socket).is_active());
    assert_eq!(open.count(), 2);
    assert_eq!(net.rig.read("h.connections"), "2");
}

#[test]
fn any_method_is_passed_but_connect() {
    let mut net = Net::new("", |_| page("Cache-Control: max-age=60\r\n", "text"));
    net.get("/", "");
    for (method, fields, came) in [
        ("TRACE", "Max-Forwards: 5\r\n", "max-forwards: 4\r\n"),
        ("OPTIONS", "", "via: 1.1 weir\r\n"),
        (
            "PROPFIND",
            "Depth: 1\r\nContent-Length: 0\r\n",
            "depth: 1\r\n",
        ),
    ] {
        let request = std::format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(net.rig.read("h.count"), "1", "{method}");
        assert!(net.ask(&request).ends_with("text"), "{method}");
        let asked = net.asked.last().unwrap();
        assert!(asked.starts_with(&std::format!("{method} / HTTP/1.1\r\n")));
        assert_contains(asked, came);
    }
    // The cache cannot tell whether it changed something.
    assert_eq!(net.rig.read("h.count"), "0");
    let asked = net.asked.len();
    for request in [
        "TRACE / HTTP/1.1\r\nMax-Forwards: 0\r\n",
        "CONNECT a:80 HTTP/1.1\r\n",
    ] {
        let got = net.ask(&std::format!("{request}Host: a\r\n\r\n"));
        assert!(got.starts_with("HTTP/1.1 501 "), "{got}");
    }
    assert_eq!(net.asked.len(), asked);
}

#[test]
fn a_server_has_one_name() {
    let mut net = Net::new("", |_| page("Cache-Control: max-age=60\r\n", "text"));
    for host in ["A:80", "a", "A"] {
        net.ask(&std::format!("GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    }
    assert_eq!(net.asked.len(), 1);
    assert_contains(&net.asked[0], "Host: a:80\r\n");
    net.ask("GET /x HTTP/1.1\r\nHost: a:81\r\n\r\n");
    net.rig.write("h.purge", "A:80/x");
    assert_contains(&net.rig.read("h.objects"), " a:81/x\n");
    assert_eq!(net.rig.read("h.count"), "1");
    let wrong = net.rig.try_write("h.purge", "a/x").unwrap_err();
    assert_contains(&std::format!("{wrong:?}"), "there is no object ‘a/x’");
    net.rig.write("h.purge", "");
    assert_eq!(net.rig.read("h.count"), "0");
    net.rig.write("h.purge", "");
}

#[test]
fn a_request_has_one_deadline() {
    let mut net = Net::new(", FETCHES 1", |_| String::new());
    net.end = End::Stall;
    let first = net.connect();
    net.send(first, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    net.wait(20);
    let second = net.connect();
    net.send(second, "GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    net.wait(12);
    assert!(net.got(first).starts_with("HTTP/1.1 504 "));
    assert_eq!(net.asked.len(), 2, "it waits no longer");
    net.wait(20);
    assert!(net.got(second).starts_with("HTTP/1.1 504 "));
}

#[test]
fn wrong_arguments_are_refused() {
    for (arguments, why) in [
        (", PORT 0", "PORT and ORIGIN_PORT must be from 1 to 65535"),
        (", MEMORY 1", "MEMORY must be from 65536"),
        (", OBJECT 5000000", "OBJECT must be at most half of MEMORY"),
        (", CLIENTS 0", "CLIENTS and FETCHES must be from 1"),
    ] {
        Rig::refuses(
            &std::format!("Inject -> HTTPCache({CACHE}, {ORIGIN}{arguments}) -> Collect;"),
            why,
        );
    }
}
