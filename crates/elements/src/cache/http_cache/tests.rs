//! The cache between a client and an origin, each with a stack of its own.

use smoltcp::iface::SocketHandle;
use std::string::String;
use std::vec::Vec;

use super::client::receive;
use crate::cache::stack::Stack;
use crate::testing::*;

const CACHE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const ORIGIN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

/// What the origin answers to a request, and how often it was asked.
type Site = fn(&str) -> String;

struct Net {
    rig: Rig,
    client: Stack,
    origin: Stack,
    site: Site,
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
                tcp.close();
            }
            if *answered && !tcp.is_active() {
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
        let socket = self.connect();
        self.send(
            socket,
            &std::format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"),
        );
        let got = self.got(socket);
        self.client.socket(socket).abort();
        got
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
