//! Deep packet inspection between real clients and servers.

use std::io::Write;
use std::net::TcpListener;

use weir::lab::{Namespace, Runner};

use super::common::{LIMIT, path, until, within};
use super::gateway::{Gateway, Running, bound, command, give6, patiently, ping, reaches};
use super::number;

/// The wire with a policy and a table of applications, between a client and a server.
fn dpi(policy: &str, applications: &str) -> (Gateway, Namespace, Namespace, Running) {
    let mut gateway = Gateway::new();
    let client = gateway.host("a", "10.0.0.1/24", None);
    let server = gateway.host("b", "10.0.0.2/24", None);
    std::fs::create_dir_all(&gateway.run).unwrap();
    let file = |name: &str, text: &str| {
        let path = gateway.run.join(name);
        std::fs::write(&path, text).unwrap();
        format!("{name}={}", path.display())
    };
    let (policy, applications) = (file("policy", policy), file("applications", applications));
    let running = gateway.function("dpi", &["-p", &policy, "-p", &applications]);
    assert!(reaches(&client, "10.0.0.2"));
    (gateway, client, server, running)
}

/// Whether curl gets a page.
fn fetches(client: &Namespace, url: &str) -> bool {
    fetches_from(client, "10.0.0.2", url)
}

/// The same from a server's address.
fn fetches_from(client: &Namespace, server: &str, url: &str) -> bool {
    let words = format!("-sk -m 2 -o /dev/null --connect-to ::{server}: {url}");
    let output = Runner::default()
        .output(client.command("curl", &words), LIMIT)
        .unwrap();
    output.status.success()
}

#[test]
fn protocols_and_servers_are_told_and_a_blocked_one_is_not_reached() {
    let policy = "drop name bad.example\ndrop protocol ssh\n";
    let (gateway, client, server, _running) = dpi(policy, "shop shop.example pay.example\n");
    let (cert, key) = (gateway.run.join("cert"), gateway.run.join("key"));
    let (cert, key) = (cert.display(), key.display());
    command(
        &server,
        "openssl",
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {key} -out {cert} \
             -days 2 -subj /CN=example"
        ),
    );
    let own = gateway.run.display();
    let config = format!(
        "daemon off; master_process off; pid {own}/pid; error_log /dev/null;
         events {{ worker_connections 64; }}
         http {{ access_log off; client_body_temp_path {own}/body; proxy_temp_path {own}/proxy;
         fastcgi_temp_path {own}/fastcgi; uwsgi_temp_path {own}/uwsgi; scgi_temp_path {own}/scgi;
         server {{ listen [::]:80 ipv6only=off; listen [::]:443 ssl ipv6only=off; ssl_certificate {cert}; ssl_certificate_key {key};
         return 200; }} }}"
    );
    std::fs::write(gateway.run.join("conf"), config).unwrap();
    let _nginx = server.service("nginx", &format!("-c {own}/conf")).unwrap();
    until("no page", || fetches(&client, "https://www.shop.example/"));
    until("no page", || fetches(&client, "http://plain.example/"));
    assert!(!fetches(&client, "https://www.bad.example/"));
    assert!(!fetches(&client, "http://bad.example/"));
    assert!(fetches(&client, "https://notbad.example/"));
    give6(&client, "2001:db8::1/64");
    give6(&server, "2001:db8::2/64");
    let over_ipv6 = |url: &str| fetches_from(&client, "[2001:db8::2]", url);
    until("no page", || over_ipv6("https://www.shop.example/"));
    assert!(!over_ipv6("https://www.bad.example/"));
    // A client of SSH does not get beyond its greeting.
    let listener = within(path(&server).as_ref(), || {
        patiently(|| TcpListener::bind("0.0.0.0:22"))
    });
    let greeting = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-test\r\n").unwrap();
        stream
    });
    let words = "-o ConnectTimeout=2 -o BatchMode=yes -o StrictHostKeyChecking=no 10.0.0.2";
    let output = Runner::default()
        .output(client.command("ssh", words), LIMIT)
        .unwrap();
    assert!(!output.status.success());
    drop(greeting.join().unwrap());
    // A question to the DNS.
    let socket = bound(&client, "0.0.0.0:0");
    let query =
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x04test\x00\x00\x01\x00\x01";
    socket.send_to(query, "10.0.0.2:53").unwrap();
    let read = |handler: &str| gateway.weir(&["read", "dpi", handler]);
    until("not all is told", || {
        let protocols = read("dpi.protocols");
        ["tls ", "http ", "ssh 1 ", "dns 1 ", "icmp "]
            .iter()
            .all(|name| protocols.lines().any(|line| line.starts_with(name)))
    });
    assert!(read("dpi.applications").starts_with("shop "));
    let names = read("dpi.names");
    for name in [
        "www.shop.example ",
        "www.bad.example 2 ",
        "plain.example ",
        "www.test 1 ",
    ] {
        assert!(names.lines().any(|line| line.starts_with(name)), "{names}");
    }
    let flows = read("dpi.flows");
    assert!(flows.contains("6 (10.0.0.1, ") && flows.contains("6 (2001:db8::1, "));
    assert!(flows.contains(" tls shop www.shop.example "));
    assert!(number(&gateway, "dpi", "dpi.drops") >= 2);
    let hits = read("dpi.hits");
    assert!(
        hits.contains("drop name bad.example") && !hits.starts_with("0 "),
        "{hits}"
    );
    // Fragments pass, as they are.
    let said = ping(&client, "-c 2 -i 0.2 -W 2 -s 4000 10.0.0.2");
    assert!(said.contains(" 0% packet loss"), "{said}");
    // Without its rule, the server is reached.
    gateway.weir(&["write", "dpi", "dpi.policy", "pass"]);
    assert!(fetches(&client, "https://www.bad.example/"));
}
