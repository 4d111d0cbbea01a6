//! Clients of the network: certificates, roles, and the record of changes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use node::client::Client;
use node::error::Kind;
use node::model::{Object, Stub};
use node::tls::Files;

use crate::common::{Authority, Host, LIMIT, assert_contains, until};

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A command that asks the node of the network.
fn from_afar(host: &Host, url: &str, files: &Files, arguments: &str) -> Output {
    let words: Vec<_> = arguments.split_whitespace().collect();
    let mut command = host.weir(&words);
    // This host's node must not be found.
    ask(command.env("WEIR_RUN", "/nonexistent"), url, files)
}

/// Runs a command as a client of the node by the network.
fn ask(command: &mut Command, url: &str, files: &Files) -> Output {
    command.env("WEIR_NODE", url);
    let names = [("WEIR_CERT", &files.cert), ("WEIR_KEY", &files.key)];
    command.envs(names).env("WEIR_CA", &files.ca);
    command.output().unwrap()
}

#[test]
fn clients_of_the_network_do_what_their_roles_permit_and_changes_are_recorded() {
    let mut host = Host::new();
    host.end("-TERM");
    let authority = Authority::new(&host.folder.join("tls"));
    let node = authority.sign("node", &["localhost", "127.0.0.1"]);
    let record = host.folder.join("audit");
    let config = host.config(
        "node.toml",
        &format!(
            "[roles]\nwatcher = 'read-only'\n'ops.example.org' = 'operator'\nchief = 'admin'\n\
            [audit]\nfile = '{}'\n",
            record.display()
        ),
    );
    let port = free_port();
    let url = format!("https://localhost:{port}");
    let options = [
        "--listen".into(),
        format!("127.0.0.1:{port}"),
        "--tls-cert".into(),
        node.cert.display().to_string(),
        "--tls-key".into(),
        node.key.display().to_string(),
        "--tls-client-ca".into(),
        node.ca.display().to_string(),
        "--config".into(),
        config,
    ];
    host.options.extend(options);
    host.start();

    // Each role does what it may, and is told what it may not.
    let client = |files: &Files| Client::remote(&url, files).unwrap();
    let watcher = client(&authority.sign("watcher", &[]));
    let operator = client(&authority.sign("someone", &["ops.example.org"]));
    let stranger = client(&authority.sign("stranger", &[]));
    let chief_files = authority.sign("chief", &[]);
    let chief = client(&chief_files);
    let stub = |name: &str| Object::new(name, Stub::default());
    operator.create(&stub("lan")).unwrap();
    assert_eq!(watcher.list::<Stub>().unwrap().len(), 1);
    assert!(watcher.metrics().unwrap().contains("weir_"));
    let refused = watcher.create(&stub("wan")).unwrap_err();
    assert_eq!(refused.kind, Kind::Forbidden);
    assert_eq!(
        refused.error,
        "‘watcher’ has the role read-only, and this needs the role operator"
    );
    let refused = operator.forget_damaged().unwrap_err();
    assert_eq!(refused.kind, Kind::Forbidden, "{refused}");
    chief.forget_damaged().unwrap();
    for refused in [
        stranger.node().map(drop),
        stranger.create(&stub("wan")).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind, Kind::Forbidden, "{error}");
        assert_contains(&error.error, "‘stranger’ has no role at this node");
    }
    // Metrics are text, and so is what is told instead.
    let metrics = stranger.metrics().unwrap();
    assert!(
        metrics.contains("has no role") && !metrics.contains("weir_"),
        "{metrics}"
    );
    assert_eq!(host.client().list::<Stub>().unwrap().len(), 1);

    // Commands, too, with a large body and an answer that grows.
    let config = host.config(
        "sink.click",
        "FromNetfront(eth0) -> c :: Counter -> Discard;",
    );
    let said = |arguments: &str| {
        let output = from_afar(&host, &url, &chief_files, arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments}: {error}");
        String::from_utf8(output.stdout).unwrap()
    };
    said(&format!(
        "create --count 3 --name g{{}} {config} --link eth0=lan"
    ));
    assert_eq!(
        said("ls -p -o guest,state"),
        "g1:running\ng2:running\ng3:running\n"
    );
    assert_eq!(said("read g2 c.count"), "0\n");
    // A guest of this host is not asked instead.
    let idle = host.config("idle.click", "Idle -> c :: Counter -> Discard;");
    let mut here = host.weir(&["run", &idle, "--name", "here", "--isolation", "process"]);
    let mut here = here.stdout(Stdio::null()).spawn().unwrap();
    until("it does not run", || {
        let read = host.weir(&["read", "here", "c.count"]).output().unwrap();
        read.status.success()
    });
    let mut command = host.weir(&["read", "here", "c.count"]);
    let asked = ask(&mut command, &url, &chief_files);
    assert!(!asked.status.success());
    assert_contains(&String::from_utf8_lossy(&asked.stderr), "‘here’");
    let _ = here.kill();
    let _ = here.wait();
    let refused = from_afar(&host, &url, &chief_files, "restart n1 n2");
    assert!(!refused.status.success());
    said("destroy g*");
    assert_eq!(said("ls -p"), "");

    // What was changed, refused and by whom is in the log and in the file; what was read is not.
    host.ok("stub delete lan");
    let text = std::fs::read_to_string(&record).unwrap();
    let lines = [
        " ops.example.org: create-stub /v1/stubs ‘lan’: done",
        " watcher: create-stub /v1/stubs: ‘watcher’ has the role read-only",
        " stranger: create-stub /v1/stubs: ‘stranger’ has no role",
        " chief: create-guests /v1/guest-series ‘3 × g{}’: done",
        " chief: act-on-guests /v1/guest-actions ‘restart n1, n2’: refused for 2 of 2 guests, first: ",
        " chief: act-on-guests /v1/guest-actions ‘destroy g*’: done",
        " root: delete-stub /v1/stubs/lan: done",
    ];
    for line in lines {
        assert_contains(&text, line);
        let line = format!("audit:{line}");
        until("it is not in the log", || {
            host.said.lock().unwrap().join("\n").contains(&line)
        });
    }
    assert!(!text.contains("list-") && !text.contains("show-"), "{text}");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&record).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // No certificate, one of another authority, and no TLS: none is heard.
    let other = Authority::new(&host.folder.join("other"));
    let mut forged = other.sign("chief", &[]);
    forged.ca = node.ca.clone();
    let error = client(&forged).node().unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable, "{error}");
    assert_contains(&error.error, "refused this client's certificate");
    let mut unknown = chief_files.clone();
    unknown.ca = other.sign("x", &[]).ca;
    let error = client(&unknown).node().unwrap_err();
    assert_contains(&error.error, "certificate");
    let mut plain = TcpStream::connect(("127.0.0.1", port)).unwrap();
    plain.set_read_timeout(Some(LIMIT)).unwrap();
    plain
        .write_all(b"GET /v1/node HTTP/1.1\r\nhost: node\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");

    // Silent clients are disconnected, and keep no other waiting.
    let before = crate::common::holds(host.view().pid).0;
    let silent: Vec<_> = (0..100)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap())
        .collect();
    let start = Instant::now();
    chief.node().unwrap();
    assert!(start.elapsed() < Duration::from_secs(3));
    until("silent clients are kept", || {
        crate::common::holds(host.view().pid).0 <= before + 2
    });
    drop(silent);
}

/// Messages do not show names of the TLS library.
#[test]
fn what_goes_wrong_with_tls_is_told_in_plain_words() {
    let mut host = Host::new();
    host.end("-TERM");
    let authority = Authority::new(&host.folder.join("tls"));
    let other = Authority::new(&host.folder.join("other"));
    let config = host.config("node.toml", "[roles]\nchief = 'admin'\n");
    let node = authority.sign("node", &["127.0.0.1"]);
    let chief = authority.sign("chief", &[]);
    let serve = |host: &mut Host, node: &Files, port: u16| {
        host.options = vec![
            "--log-level".into(),
            "debug".into(),
            "--listen".into(),
            format!("127.0.0.1:{port}"),
            "--tls-cert".into(),
            node.cert.display().to_string(),
            "--tls-key".into(),
            node.key.display().to_string(),
            "--tls-client-ca".into(),
            authority.folder.join("ca.pem").display().to_string(),
            "--config".into(),
            config.clone(),
        ];
        host.start();
    };
    let port = free_port();
    serve(&mut host, &node, port);
    let fails = |host: &Host, at: &str, files: &Files, part: &str| {
        let output = from_afar(host, &format!("https://{at}"), files, "ls");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.lines().count() == 1);
        assert_contains(&said, at);
        assert_contains(&said, part);
        let library = ["Invalid", "Unknown", "Bad", "Required", "alert", "Error("];
        assert!(!library.iter().any(|word| said.contains(word)), "{said}");
    };
    let logged = |host: &Host, part: &str| {
        until("it is not in the log", || {
            host.said.lock().unwrap().join("\n").contains(part)
        });
    };
    let here = format!("127.0.0.1:{port}");
    // The client's certificate.
    let mut forged = other.sign("chief", &[]);
    forged.ca.clone_from(&chief.ca);
    fails(
        &host,
        &here,
        &forged,
        "it refused this client's certificate",
    );
    logged(
        &host,
        "its certificate is not signed by the authority given by `--tls-client-ca`",
    );
    let old = authority.sign_until("old", &[], 2020);
    fails(
        &host,
        &here,
        &old,
        "it refused this client's certificate: it has expired",
    );
    logged(&host, "its certificate has expired");
    // The node's.
    let mut unknown = chief.clone();
    unknown.ca = other.folder.join("ca.pem");
    fails(
        &host,
        &here,
        &unknown,
        "its certificate is not signed by the authority given by `--ca`",
    );
    logged(&host, "it refused the certificate of this node");
    let named = format!("localhost:{port}");
    fails(
        &host,
        &named,
        &chief,
        "its certificate does not name the host that was asked",
    );
    // A client that speaks no TLS, and one without a certificate.
    let mut plain = TcpStream::connect(("127.0.0.1", port)).unwrap();
    plain.write_all(b"GET /v1/node HTTP/1.1\r\n\r\n").unwrap();
    logged(&host, "it does not speak TLS");
    let curl = format!("-sS --cacert {} https://{here}/v1/node", chief.ca.display());
    let curl = Command::new("curl").args(curl.split(' ')).output().unwrap();
    assert!(!curl.status.success());
    logged(&host, "it showed no certificate");
    // What listens speaks no TLS.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let http = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 100]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    fails(
        &host,
        &http,
        &chief,
        "what listens there does not speak TLS",
    );
    // A node whose certificate has expired.
    host.end("-TERM");
    let expired = authority.sign_until("node", &["127.0.0.1"], 2020);
    let port = free_port();
    serve(&mut host, &expired, port);
    fails(
        &host,
        &format!("127.0.0.1:{port}"),
        &chief,
        "its certificate has expired",
    );
    // Files that are damaged.
    let broken = host.config("broken.pem", "-----BEGIN CERTIFICATE-----\nx\n");
    let damaged = Files {
        cert: broken.into(),
        ..chief.clone()
    };
    let told = Client::remote("https://localhost:1", &damaged).unwrap_err();
    assert_contains(&told.error, "the certificate in it is damaged");
    let mixed = Files {
        key: forged.key.clone(),
        ..chief
    };
    let told = Client::remote("https://localhost:1", &mixed).unwrap_err();
    assert_contains(&told.error, "is not that of the private key in");
}

#[test]
fn wrong_certificates_and_settings_are_told_in_a_sentence() {
    let mut host = Host::new();
    host.end("-TERM");
    let authority = Authority::new(&host.folder.join("tls"));
    let node = authority.sign("node", &["localhost"]);
    let [cert, key, ca] = [&node.cert, &node.key, &node.ca].map(|path| path.display().to_string());
    let good = host.config("good.toml", "[roles]\na = 'admin'\n");
    let bad = host.config("bad.toml", "[roles]\na = 'root'\n");
    let files = |cert: &str, key: &str, ca: &str, config: &str| {
        format!("--tls-cert {cert} --tls-key {key} --tls-client-ca {ca} --config {config}")
    };
    let none = host.folder.join("none").display().to_string();
    for (rest, part) in [
        (
            files(&cert, &key, &ca, &bad),
            "bad.toml: line 2: ‘root’ is none of `read-only`, `peer`, `operator`, `admin`",
        ),
        (files(&cert, &key, &ca, &none), "none: No such file"),
        (files(&none, &key, &ca, &good), "none: "),
        (
            files(&good, &key, &ca, &good),
            "there is no certificate in it",
        ),
        (files(&cert, &cert, &ca, &good), "node.pem: "),
        (
            files(&cert, &key, &good, &good),
            "there is no certificate in it",
        ),
        (format!("--tls-cert {cert}"), "--tls-key"),
    ] {
        let said = host.refusal(&format!("node --listen 127.0.0.1:{} {rest}", free_port()));
        assert_contains(&said, part);
    }
    for (url, part) in [
        ("http://localhost:1", "it is https://HOST:PORT"),
        ("https://localhost", "it is https://HOST:PORT"),
        ("https://localhost:70000", "it is https://HOST:PORT"),
        ("https://localhost:1", "Connection refused"),
    ] {
        let output = from_afar(&host, url, &node, "ls");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && said.lines().count() == 1,
            "{said}"
        );
        assert_contains(&said, part);
    }
    host.start();
}
