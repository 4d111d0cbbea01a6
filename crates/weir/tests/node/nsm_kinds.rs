//! Network stack modules without a network stack, and with one of somebody else's.

use std::path::Path;
use std::process::Command;

use crate::common::{Host, assert_contains, until};

/// A program of Python's as an application; what it says.
fn python(host: &Host, nsm: &str, program: &str) -> String {
    let mut run = host.weir(&["sock", "run", "--nsm", nsm, "--", "python3", "-c", program]);
    let output = run.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a connect to an address fails with.
fn refusal(host: &Host, nsm: &str, family: &str, to: &str) -> String {
    let program = format!(
        "import socket, errno
s = socket.socket(socket.{family})
print(errno.errorcode[s.connect_ex({to})])"
    );
    python(host, nsm, &program).trim().to_owned()
}

const SERVER: &str = "import socket
s = socket.create_server(('0.0.0.0', 7000))
while True:
    c, _ = s.accept()
    n = 0
    while data := c.recv(65536):
        n += len(data)
    c.sendall(b'%d bytes' % n)
    c.close()
";

#[test]
fn an_shm_nsm_connects_its_applications_and_nobody_else() {
    let host = Host::new();
    host.ok("nsm create within --kind shm -a 10.0.0.2/24 -p conns=100");
    host.ok("nsm create strict --kind shm --others refused");
    host.shows(
        "nsm ls -p -o nsm,kind,state,namespace within",
        "within:shm:up:\n",
    );
    // It has no privilege, no files, no namespace of its own.
    let pid = host.json("nsm ls within")[0]["status"]["pid"]
        .as_u64()
        .unwrap();
    let said = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    for line in ["CapEff:\t0000000000000000", "Uid:\t65534\t", "Seccomp:\t2"] {
        assert_contains(&said, line);
    }
    let server = host.file("server.py", SERVER);
    let serve = ["sock", "run", "--nsm", "within", "--name", "server", "--"];
    let mut server_is = host.weir(&[&serve[..], &["python3", &server]].concat());
    let mut server = server_is.spawn().unwrap();
    until("it does not listen", || {
        host.output("sock ls server -p -o state").stdout == b"listening\n"
    });
    for address in ["127.0.0.1", "10.0.0.2"] {
        let client = format!(
            "import socket
s = socket.create_connection(('{address}', 7000))
assert s.getpeername() == ('{address}', 7000), s.getpeername()
for _ in range(200): s.sendall(b'x' * 50000)
s.shutdown(socket.SHUT_WR)
print(s.recv(100).decode())"
        );
        assert_eq!(python(&host, "within", &client), "10000000 bytes\n");
    }
    // Nobody listens there; nobody can be there; the other NSM has no such server.
    let to = "('127.0.0.1', 7001)";
    assert_eq!(refusal(&host, "within", "AF_INET", to), "ECONNREFUSED");
    let to = "('10.0.0.1', 7000)";
    assert_eq!(refusal(&host, "within", "AF_INET", to), "ENETUNREACH");
    assert_eq!(refusal(&host, "strict", "AF_INET", to), "ECONNREFUSED");
    let to = "('127.0.0.1', 7000)";
    assert_eq!(refusal(&host, "strict", "AF_INET", to), "ECONNREFUSED");
    let sockets = "import socket
try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(('127.0.0.1', 0))
except OSError as e: print(e.strerror)
s = socket.socket()
try: s.bind(('192.0.2.1', 80))
except OSError as e: print(e.strerror)
s.bind(('127.0.0.1', 0))
print(s.getsockname()[1] > 1024)";
    assert_eq!(
        python(&host, "within", sockets),
        "Protocol not supported\nCannot assign requested address\nTrue\n"
    );
    let received = host.json("nsm stat within")[0]["status"]["received"].as_u64();
    assert!(received > Some(20_000_000), "{received:?}");
    server.kill().unwrap();
    server.wait().unwrap();
    until("its port is not free", || {
        refusal(&host, "within", "AF_INET", "('127.0.0.1', 7000)") == "ECONNREFUSED"
    });
    host.refuses(
        "nsm create no --kind shm -l lan",
        "`link` is not for this kind of NSM",
    );
}

#[test]
fn an_nsm_may_be_a_program_of_somebody_else() {
    let host = Host::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let test = std::env::current_exe().unwrap();
    let echo = host.folder.join("echo");
    let built = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-I"])
        .arg(crates.join("service/include"))
        .arg("-o")
        .arg(&echo)
        .arg(crates.join("service/examples/echo.c"))
        .arg(test.with_file_name("libweir_nsm.a"))
        .args(["-lpthread", "-ldl", "-lm"])
        .status();
    assert!(built.unwrap().success());
    let echo = echo.display();
    host.ok(&format!("nsm create echo --kind program -- {echo}"));
    host.shows("nsm ls -p -o nsm,kind,state echo", "echo:program:up\n");
    let said = "import socket
s = socket.create_connection(('192.0.2.9', 7))
s.sendall(b'to nobody')
print(s.recv(100).decode())";
    assert_eq!(python(&host, "echo", said), "to nobody\n");
    // It is restarted as any other.
    let pid = || host.json("nsm ls echo")[0]["status"]["pid"].as_u64();
    let first = pid().unwrap();
    crate::common::kill("-KILL", first as u32);
    until("it is not restarted", || {
        let again = host.output("nsm ls -p -o state echo").stdout == b"up\n";
        again && pid().is_some_and(|pid| pid != first)
    });
    assert_eq!(python(&host, "echo", said), "to nobody\n");
    host.refuses("nsm create no --kind program", "needs its program");
    host.refuses(
        "nsm create no --kind program -- /no/such/stack",
        "NSM ‘no’ cannot be started: /no/such/stack: No such file",
    );
    host.refuses(
        "nsm create no --kind program -- false",
        "the NSM does not come up",
    );
    assert_eq!(host.ok("nsm ls -p -o nsm"), "echo\n");
}

#[test]
fn a_kernel_nsm_tells_the_round_trip_times_of_its_connections() {
    let host = Host::new();
    host.ok(&format!("nsm create {}k", host.prefix));
    let nsm = format!("{}k", host.prefix);
    let program = "import socket, sys
s = socket.create_server(('127.0.0.1', 7000))
c = socket.create_connection(('127.0.0.1', 7000))
a, _ = s.accept()
for _ in range(20):
    c.sendall(b'x'); a.recv(1)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(('127.0.0.1', 0))
sys.stdin.read()";
    let file = host.file("pair.py", program);
    let run = ["sock", "run", "--nsm", &nsm, "--name", "pair", "--"];
    let mut command = host.weir(&[&run[..], &["python3", &file]].concat());
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    until("it does not come up", || {
        host.output("sock ls pair -p -o transport").stdout == b"tcp\ntcp\ntcp\nudp\n"
    });
    let sockets = host.json("sock ls pair");
    let sockets = sockets.as_array().unwrap();
    let connected = sockets.iter().filter(|it| it["rtt-ms"].is_number());
    for socket in connected.clone() {
        let rtt = socket["rtt-ms"].as_f64().unwrap();
        assert!(rtt > 0.0 && rtt < 1000.0, "{socket}");
        assert!(socket["retransmits"].is_number(), "{socket}");
    }
    assert_eq!(connected.count(), 2, "{sockets:?}");
    let shown = host.ok("sock ls pair -p -o state,rtt-ms");
    assert_contains(&shown, "listening:-\n");
    drop(child.stdin.take());
    child.wait().unwrap();
}
