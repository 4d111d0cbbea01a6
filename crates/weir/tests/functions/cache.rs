//! The cache between curl and nginx, whose log tells what it was asked for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weir::lab::{Namespace, Runner, Service};

use super::common::{LIMIT, path, until, within};
use super::gateway::{Gateway, Running, reaches};
use super::number;

struct Site {
    gateway: Gateway,
    client: Namespace,
    folder: PathBuf,
    _nginx: Service,
    _origin: Namespace,
    _running: Running,
}

/// Bytes that do not repeat.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

impl Site {
    fn new() -> Site {
        let mut gateway = Gateway::new();
        let client = gateway.host("clients", "10.1.0.2/24", None);
        let origin = gateway.host("origin", "10.2.0.2/24", None);
        let folder = gateway.run.join("site");
        std::fs::create_dir_all(folder.join("www")).unwrap();
        for (name, size) in [("page", 5000), ("object", 700_000), ("long", 3_000_000)] {
            std::fs::write(folder.join("www").join(name), noise(size)).unwrap();
        }
        let own = folder.display();
        let config = format!(
            "daemon off; master_process off; pid {own}/pid; error_log /dev/null;
             events {{ worker_connections 64; }}
             http {{ access_log {own}/log; client_body_temp_path {own}/body; proxy_temp_path {own}/proxy;
             fastcgi_temp_path {own}/fastcgi; uwsgi_temp_path {own}/uwsgi; scgi_temp_path {own}/scgi;
             server {{ listen 80; root {own}/www;
             location / {{ add_header Cache-Control max-age=600; }}
             location /short/ {{ alias {own}/www/; add_header Cache-Control max-age=1; }}
             location /slow/ {{ alias {own}/www/; add_header Cache-Control max-age=600; limit_rate 300k; }}
             location /private/ {{ alias {own}/www/; add_header Cache-Control private; }} }} }}"
        );
        std::fs::write(folder.join("conf"), config).unwrap();
        let nginx = origin.service("nginx", &format!("-c {own}/conf")).unwrap();
        let running = gateway.function("cache", &["--memory", "64M"]);
        assert!(reaches(&client, "10.1.0.1"));
        let site = Site {
            gateway,
            client,
            folder,
            _nginx: nginx,
            _origin: origin,
            _running: running,
        };
        until("nginx does not answer", || {
            site.fetch("-f", "up").is_some() || site.asked("up") > 0
        });
        site
    }

    /// What curl gets.
    fn fetch(&self, options: &str, page: &str) -> Option<Vec<u8>> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let got = format!("got{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let got = self.folder.join(got);
        let words = format!(
            "-s -m 20 -o {} {options} http://10.1.0.1/{page}",
            got.display()
        );
        let output = Runner::default().output(self.client.command("curl", &words), 3 * LIMIT);
        let is_right = output.unwrap().status.success();
        is_right.then(|| std::fs::read(got).unwrap_or_default())
    }

    /// How often nginx was asked for a page.
    fn asked(&self, page: &str) -> usize {
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        log.matches(&format!("\"GET /{page} HTTP/1.1\"")).count()
    }

    fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.join("www").join(name)).unwrap()
    }
}

#[test]
fn objects_are_the_origin_s_and_hits_do_not_reach_it() {
    let site = Site::new();
    for page in ["page", "object"] {
        for _ in 0..3 {
            assert!(site.fetch("", page) == Some(site.file(page)), "{page}");
        }
        assert_eq!(site.asked(page), 1, "{page}");
    }
    assert!(number(&site.gateway, "cache", "cache.hits") >= 4);
    // A part, and what is known.
    let head = String::from_utf8(site.fetch("-I", "page").unwrap()).unwrap();
    assert!(
        head.contains("content-length: 5000\r\n") && head.contains("weir; hit"),
        "{head}"
    );
    let part = site.fetch("-r 100000-100999", "object").unwrap();
    assert!(part == site.file("object")[100_000..101_000]);
    let tag = head
        .lines()
        .find_map(|line| line.strip_prefix("etag: "))
        .unwrap()
        .trim();
    let mut curl = site
        .client
        .command("curl", "-s -m 5 -o /dev/null -w %{http_code}");
    curl.args([
        "-H",
        &format!("If-None-Match: {tag}"),
        "http://10.1.0.1/page",
    ]);
    assert_eq!(Runner::default().run(curl, LIMIT).unwrap(), "304");
    assert_eq!((site.asked("page"), site.asked("object")), (1, 1));
    // Longer than what is kept.
    for count in 1..=2 {
        assert!(site.fetch("", "long") == Some(site.file("long")));
        assert_eq!(site.asked("long"), count);
    }
    for count in 1..=2 {
        assert!(site.fetch("", "private/page") == Some(site.file("page")));
        assert_eq!(site.asked("private/page"), count);
    }
    site.gateway
        .weir(&["write", "cache", "cache.purge", "10.1.0.1/page"]);
    site.fetch("", "page").unwrap();
    assert_eq!(site.asked("page"), 2);
}

#[test]
fn clients_share_a_request_and_stale_objects_are_validated() {
    let site = Site::new();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..10)
            .map(|_| scope.spawn(|| site.fetch("", "slow/object")))
            .collect();
        for client in clients {
            assert!(client.join().unwrap() == Some(site.file("object")));
        }
    });
    assert_eq!(site.asked("slow/object"), 1);
    assert!(site.fetch("", "short/page") == Some(site.file("page")));
    std::thread::sleep(Duration::from_secs(3));
    assert!(site.fetch("", "short/page") == Some(site.file("page")));
    let log = std::fs::read_to_string(site.folder.join("log")).unwrap();
    assert!(log.contains("/short/page HTTP/1.1\" 304 "), "{log}");
    assert_eq!(number(&site.gateway, "cache", "cache.revalidated"), 1);
    // A file that changed.
    std::fs::write(site.folder.join("www/page"), "changed").unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert!(site.fetch("", "short/page") == Some(b"changed".to_vec()));
}

#[test]
fn requests_that_others_read_otherwise_are_refused() {
    let site = Site::new();
    for fields in [
        "Content-Length: 4\r\nContent-Length: 5\r\n",
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "X: a\r\n folded\r\n",
    ] {
        let mut stream = within(path(&site.client).as_ref(), || {
            TcpStream::connect_timeout(&"10.1.0.1:80".parse().unwrap(), LIMIT).unwrap()
        });
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let request = format!("GET /smuggled HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{said}");
    }
    assert_eq!(site.asked("smuggled"), 0);
    assert_eq!(number(&site.gateway, "cache", "cache.refused"), 3);
}
