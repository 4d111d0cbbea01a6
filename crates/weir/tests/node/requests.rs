//! Wrong input to commands and the API.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir::lab::{Namespace, Runner};

use crate::common::{Host, LIMIT, assert_contains, path, until};

#[test]
fn wrong_input_is_told_in_a_sentence_and_leaves_nothing() {
    let host = Host::new();
    host.ok("stub create lan");
    host.ok("vnic create -l lan -m 02:00:00:00:00:0a g0");
    let namespace = Namespace::new(&Runner::default()).unwrap();
    let netns = path(&namespace);
    let taken = host.config("taken", "");
    let config = host.config("sink.click", "FromNetfront(eth0) -> Discard;");
    let wrong = host.config("wrong.click", "FromNetfront(eth0) -> Nothing;");
    let before = ["link show --json", "vnic show --json", "ls --json"].map(|c| host.ok(c));
    let refusals = [
        ("vnic create -l nolan x", "no link ‘nolan’"),
        ("vnic create -l lan g0", "a VNIC named ‘g0’"),
        ("vnic create -l lan lan", "a stub named ‘lan’"),
        (
            "vnic create -l lan -m 02:00:00:00:00:0a x",
            "‘g0’ on ‘lan’ already has the address",
        ),
        ("vnic create -l lan -m 01:00:5e:00:00:01 x", "unicast"),
        ("vnic create -l lan -m 02:00 x", "not an Ethernet address"),
        ("vnic create -l lan -v 4095 x", "1 to 4094"),
        ("vnic create -l lan -v 5 -p vlan=6 x", "given twice"),
        ("vnic create -l lan -p maxbw=0 x", "maxbw=0"),
        ("vnic create -l lan -p maxbw=1K x", "maxbw=1"),
        ("vnic create -l lan -p speed=1 x", "no property ‘speed’"),
        ("vnic create -l lan -p cpus=4000 x", "cpus=4000"),
        ("vnic create -l lan -p mtu=20 x", "mtu=20"),
        (
            "vnic create -l lan --netns weir-none x",
            "`ip netns add weir-none`",
        ),
        (
            &format!("vnic create -l lan --netns {netns} a-name-much-too-long"),
            "1 to 15",
        ),
        (
            &format!("vnic create -l lan --netns {netns} --interface lo x"),
            "already an interface ‘lo’",
        ),
        (
            &format!("vnic create -l lan --vhost-user {taken} x"),
            "in use or not a socket",
        ),
        (
            &format!("vnic create -l lan --vhost-user /tmp/{} x", "s".repeat(120)),
            "at most 107 bytes",
        ),
        (
            "vnic create -l lan --host ../x",
            "is not a valid name for a VNIC",
        ),
        (
            "vnic create -l lan --host --netns a x",
            "cannot be used with",
        ),
        (
            "vnic create -l lan --host -a 10.0.0.3/24 -a 10.0.0.3/16 x",
            "10.0.0.3 is given twice",
        ),
        ("vnic create -l lan --prop= x", "a value is required"),
        ("vnic delete nothing", "no VNIC ‘nothing’"),
        ("vnic set-prop -p maxbw=lots g0", "maxbw=lots"),
        ("vnic reset-prop -p speed g0", "no property ‘speed’"),
        ("vnic show -p -o colour", "no field ‘colour’"),
        ("stub create lan", "a stub named ‘lan’"),
        ("stub create --mtu 20 x", "20 is not in 68..=9216"),
        ("stub create --mtu -5 x", "-5 is not in 68..=9216"),
        ("vnic create -l lan -v -1 x", "1 to 4094"),
        (
            "vnic create -l lan --host -a 10.0.0.3 x",
            "as in 10.0.0.2/24",
        ),
        ("vnic stat -i -1", "0.1 to 3600 seconds"),
        (
            "link attach x --mode vxlan --vni 5 --remote 192.0.2.2 --port 0",
            "0 is not in 1..=65535",
        ),
        ("switch set lan", "--aging"),
        ("stub delete lan", "delete its VNICs first (g0)"),
        ("link detach lan", "`weir stub delete lan`"),
        ("link attach weir-none0", "no interface ‘weir-none0’"),
        ("link attach lo", "not an Ethernet interface"),
        (
            "link attach x --mode vxlan --vni 5 --remote 192.0.2.2,192.0.2.2",
            "192.0.2.2 is given twice",
        ),
        (
            "vnic set-prop --prop= g0",
            "a value is required for '--prop",
        ),
        ("switch set lan --aging 0", "aging=0"),
        ("switch set lan --lookup magic", "lookup=magic"),
        ("switch macs nolan", "no link ‘nolan’"),
        (
            "flow add -l nolan -a transport=tcp f",
            "no link or VNIC ‘nolan’",
        ),
        ("flow add -l lan -a local_port=80 f", "transport"),
        ("flow add -l lan -a colour=red f", "colour"),
        ("flow remove f", "no flow ‘f’"),
        (
            &format!("create x {config} --link eth0=nothing"),
            "no VNIC or link ‘nothing’",
        ),
        (
            &format!("create x {config} --link eth0=lan --link eth0=g0"),
            "two links are named ‘eth0’",
        ),
        (&format!("create x {config}"), "has no link"),
        (&format!("create x {wrong} --link eth0=lan"), "Nothing"),
        (
            &format!("create x {config} --link eth0=lan --memory 64K"),
            "memory too small",
        ),
        (
            &format!("create x {config} --link eth0=lan --ring-slots 100"),
            "100",
        ),
        (
            &format!("create x {config} --link eth0=lan --pin 4000"),
            "CPU 4000",
        ),
        (
            &format!("create x {config} --link eth0=lan --cpus 99"),
            "1 to 8 vCPUs",
        ),
        (
            &format!("create ../x {config} --link eth0=lan"),
            "is not a valid name for a guest",
        ),
        ("destroy nothing", "no guest ‘nothing’"),
        ("read nothing c.count", "no guest ‘nothing’"),
        ("node", "a node is already running"),
    ];
    for (arguments, said) in refusals {
        let sentence = host.refusal(arguments);
        assert!(sentence.contains(said), "weir {arguments}: {sentence}");
    }
    let after = ["link show --json", "vnic show --json", "ls --json"].map(|c| host.ok(c));
    assert_eq!(before, after);
    let links = namespace.command("ip", "-o link").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&links.stdout).lines().count(), 1);
    let mut other = host.weir(&["node", "--cpus", "4000"]);
    for variable in ["WEIR_RUN", "WEIR_STATE"] {
        other.env(variable, host.folder.join("other"));
    }
    let output = other.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("weir: there is no CPU 4000 that the node may use"),
        "{said}"
    );
    assert!(
        !output.status.success() && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn a_list_that_goes_on_ends_when_nobody_reads_it() {
    let host = Host::new();
    host.ok("stub create lan");
    host.ok("vnic create -l lan --host v");
    let mut stat = host.weir(&["vnic", "stat", "-i", "0.1"]);
    let mut stat = stat.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(stat.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("NAME"));
    drop(lines);
    let start = Instant::now();
    let status = loop {
        if let Some(status) = stat.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > LIMIT {
            stat.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{status}");
}

#[test]
fn a_vhost_user_socket_is_where_the_command_was_given() {
    let host = Host::new();
    host.ok("stub create lan");
    let mut create = host.weir(&[
        "vnic",
        "create",
        "-l",
        "lan",
        "--vhost-user",
        "vm.sock",
        "v",
    ]);
    assert!(create.current_dir(&host.folder).status().unwrap().success());
    assert!(host.folder.join("vm.sock").exists());
    // Nothing passes before a frontend connects, or after it has gone.
    let state = |state: &str| {
        let shown = format!("{state}\n");
        until("the state changes", || {
            host.ok("vnic show v -p -o state,reason") == shown
        });
    };
    state("down:no frontend is connected");
    let frontend = UnixStream::connect(host.folder.join("vm.sock")).unwrap();
    state("up:");
    drop(frontend);
    state("down:no frontend is connected");
    let refused = host
        .weir(&["vnic", "create", "-l", "lan", "--vhost-user", "", "w"])
        .output();
    let said = String::from_utf8(refused.unwrap().stderr).unwrap();
    assert!(said.contains("a socket's path cannot be empty"), "{said}");
    let new = r#"{"name": "w", "link": "lan", "vhost-user": "vm.sock"}"#;
    let (status, answer) = raw(&host, &request("POST", "/v1/vnics", new));
    assert_eq!(status, 400, "{answer}");
    host.ok("vnic delete v");
    assert!(!host.folder.join("vm.sock").exists());
}

/// Sends a request as it stands; the status and the body of the answer.
pub fn raw(host: &Host, request: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(host.run().join("node.sock")).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

pub fn request(method: &str, path: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn a_request_that_is_no_good_is_answered_with_its_status() {
    let host = Host::new();
    let ask = |request: &str| {
        let mut stream = UnixStream::connect(host.run().join("node.sock")).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    // Which methods there are is told.
    let answer = ask(&request("PUT", "/v1/vnics", "{}"));
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    let allow = answer.lines().find_map(|line| line.strip_prefix("allow: "));
    assert_eq!(allow, Some("GET,HEAD,POST"), "{answer}");
    // The content type must be JSON's.
    let json = request("POST", "/v1/stubs", r#"{"name": "lan"}"#);
    for (kind, status) in [
        ("text/plain", "415"),
        ("application/x-www-form-urlencoded", "415"),
        ("Application/JSON; charset=utf-8", "201"),
        ("application/merge-patch+json", "409"),
    ] {
        let answer = ask(&json.replace("application/json", kind));
        let told = answer.starts_with(&format!("HTTP/1.1 {status}"));
        assert!(told, "{kind}: {answer}");
    }
    // So many bytes, and each field once.
    let long = format!(r#"{{"name": "{}", "link": "lan"}}"#, "x".repeat(1 << 20));
    let (status, answer) = raw(&host, &request("POST", "/v1/vnics", &long));
    assert_eq!((status, &answer["kind"]), (413, &"too-large".into()));
    assert_contains(
        answer["error"].as_str().unwrap(),
        "longer than 1048576 bytes",
    );
    let twice = r#"{"name": "a", "link": "lan", "properties": {"share": 1, "share": 2}}"#;
    let (status, answer) = raw(&host, &request("POST", "/v1/vnics", twice));
    assert_eq!(
        (status, &answer["field"]),
        (400, &"properties.share".into()),
        "{answer}"
    );
    assert_contains(answer["error"].as_str().unwrap(), "given twice");
    // A long name is not repeated as a whole.
    let name = "x".repeat(50_000);
    for (method, path, body, expected) in [
        ("GET", format!("/v1/vnics/{name}"), String::new(), 404),
        (
            "POST",
            "/v1/vnics".into(),
            format!(r#"{{"name": "a", "link": "{name}"}}"#),
            422,
        ),
        (
            "POST",
            "/v1/vnics".into(),
            format!(r#"{{"name": "a", "link": "lan", "{name}": 1}}"#),
            400,
        ),
    ] {
        let (status, answer) = raw(&host, &request(method, &path, &body));
        assert_eq!(status, expected, "{answer}");
        let said = answer["error"].as_str().unwrap();
        assert!(said.contains("xxx…") && said.len() < 1000, "{said}");
    }
    assert_eq!(host.view().vnics, 0);
}

/// A client that sends a body after its head may use the connection again after any answer that does not say ‘close’.
#[test]
fn an_answer_says_whether_the_connection_goes_on() {
    let host = Host::new();
    let heads = [
        ("POST", "/v1/stubs", "text/plain"),
        ("POST", "/v1/nothing", "application/json"),
        ("DELETE", "/v1/stubs", "application/json"),
        ("POST", "/v1/guests/none/save", "application/json"),
    ];
    for (method, path, kind) in heads {
        let mut stream = UnixStream::connect(host.run().join("node.sock")).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: node\r\ncontent-type: {kind}\r\ncontent-length: 5\r\n\r\n"
        );
        for _ in 0..3 {
            stream.write_all(head.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            stream.write_all(b"{\"a\":").unwrap();
            let said = one_answer(&mut stream);
            assert!(said.starts_with("HTTP/1.1 4"), "{method} {path}: {said}");
            if said.to_lowercase().contains("connection: close") {
                stream = UnixStream::connect(host.run().join("node.sock")).unwrap();
            }
        }
    }
}

/// Reads one answer, by its length.
fn one_answer(stream: &mut UnixStream) -> String {
    let mut said = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&said).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head.split("content-length: ").nth(1).unwrap();
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            if body.len() >= length {
                return text;
            }
        }
        let mut byte = [0; 1];
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "it ended after: {text}");
        said.push(byte[0]);
    }
}

#[test]
fn the_api_answers_whatever_it_is_asked() {
    let host = Host::new();
    let cases = [
        ("GET", "/v1/nothing", "", 404, "not-found"),
        ("GET", "/v1/vnics/nothing", "", 404, "not-found"),
        ("GET", "/v1/vnics/%2e%2e%2f%00", "", 404, "not-found"),
        ("GET", "/v1/vnics/%ff", "", 400, "invalid"),
        // What a field names is not there: the path is not what is wrong.
        (
            "PUT",
            "/v1/vnics/a",
            "{\"link\":\"nothing\"}",
            422,
            "not-found",
        ),
        ("PUT", "/v1/vnics", "", 405, "not-allowed"),
        ("POST", "/v1/stubs", "{", 400, "invalid"),
        (
            "POST",
            "/v1/stubs",
            "{\"name\":\"a\",\"colour\":1}",
            400,
            "invalid",
        ),
        (
            "POST",
            "/v1/stubs",
            "{\"name\":\"a\",\"mtu\":-1}",
            400,
            "invalid",
        ),
        (
            "POST",
            "/v1/stubs",
            "{\"name\":\"a\\u0000b\"}",
            400,
            "invalid",
        ),
        (
            "POST",
            "/v1/vnics",
            "{\"name\":\"a\",\"link\":\"l\",\"mac\":\"x\"}",
            400,
            "invalid",
        ),
        (
            "POST",
            "/v1/guests",
            "{\"name\":\"g\",\"config\":\"\",\"memory\":1}",
            400,
            "invalid",
        ),
    ];
    for (method, path, body, status, kind) in cases {
        let (found, answer) = raw(&host, &request(method, path, body));
        assert_eq!(found, status, "{method} {path} {body}: {answer}");
        assert_eq!(answer["kind"], kind, "{method} {path} {body}: {answer}");
        assert!(
            answer["error"]
                .as_str()
                .is_some_and(|said| !said.is_empty())
        );
    }
    let (status, made) = raw(&host, &request("POST", "/v1/stubs", "{\"name\":\"lan\"}"));
    assert_eq!(
        (status, &made["status"]["state"]),
        (201, &Value::from("up"))
    );
    let (status, _) = raw(&host, &request("POST", "/v1/stubs", "{\"name\":\"lan\"}"));
    assert_eq!(status, 409);
    // What is described is what `weir node --openapi` prints.
    let (status, description) = raw(&host, &request("GET", "/v1/openapi.json", ""));
    assert_eq!(status, 200);
    let printed: Value = serde_json::from_str(&host.ok("node --openapi")).unwrap();
    assert_eq!(description["paths"], printed["paths"]);
    // No other user may connect.
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(host.run().join("node.sock"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}
