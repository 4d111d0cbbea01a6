//! `weir sock run` with unmodified programs: curl, nginx, Python's servers, redis' kind of pipelines by
//! shells. Each test has a network namespace of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{path, until};
use weir::lab::{Namespace, Runner};

#[path = "../common/mod.rs"]
mod common;
mod intercept;
mod limits;

/// A namespace, and a folder for sockets and files; gone with it.
struct Bench {
    namespace: Namespace,
    folder: PathBuf,
}

impl Bench {
    fn new() -> Bench {
        let root = rustix::process::geteuid().is_root();
        assert!(root, "needs root: makes network namespaces");
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("weir-sock-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        Bench {
            namespace: Namespace::new(&Runner::default()).unwrap(),
            folder,
        }
    }

    /// A shell in the namespace. `$SOCK` is `weir sock run`.
    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={}", path(&self.namespace)))
            .args(["sh", "-c", script])
            .current_dir(&self.folder)
            .env("SOCK", format!("{} sock run", env!("CARGO_BIN_EXE_weir")))
            .env("WEIR_RUN", self.folder.join("run"));
        command
    }

    /// Runs a script to its end, within a minute.
    fn output(&self, script: &str) -> Output {
        Runner::default()
            .output(self.shell(script), Duration::from_secs(60))
            .unwrap()
    }

    #[track_caller]
    fn ok(&self, script: &str) -> String {
        let output = self.output(script);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{script}: {} {said}",
            output.status
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts a server, and waits until its port listens.
    fn server(&self, script: &str, port: u16) -> Server {
        let child = self
            .shell(&format!("exec {script}"))
            .stdin(Stdio::null())
            .spawn();
        let server = Server(child.unwrap());
        until("the server listens", || self.listens(port));
        server
    }

    fn listens(&self, port: u16) -> bool {
        !self.ok(&format!("ss -Hltn 'sport = :{port}'")).is_empty()
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).unwrap();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A server, told to end when dropped.
struct Server(Child);

impl Server {
    /// Tells it to end, and waits.
    fn end(&mut self) {
        common::kill("-TERM", self.0.id());
        self.0.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.end();
        }
    }
}

/// What a server sends in these tests: more than a window, and known.
const BODY: &str = "head -c 3000000 /dev/zero | tr '\\0' x >body";

#[test]
fn curl_gets_what_a_server_of_the_kernel_has() {
    let bench = Bench::new();
    bench.ok(BODY);
    let _server = bench.server("python3 -m http.server 8000 >/dev/null 2>&1", 8000);
    bench.ok("$SOCK -- curl -sSf http://127.0.0.1:8000/body | cmp - body");
    // Uploads, names that do not resolve, ports that nobody has: as without it.
    let refused = bench.output("$SOCK -- curl -s http://127.0.0.1:8001/");
    assert_eq!(refused.status.code(), Some(7));
    assert_eq!(
        std::fs::read_dir(bench.folder.join("run")).unwrap().count(),
        0
    );
}

/// nginx with two workers that share the listening socket of their master; keep-alive and not.
#[test]
fn nginx_serves_clients_of_the_kernel() {
    let bench = Bench::new();
    bench.ok(BODY);
    let folder = bench.folder.display();
    bench.file(
        "nginx.conf",
        &format!(
            "daemon off; worker_processes 2; user root; pid {folder}/pid; error_log {folder}/error.log;
            events {{ worker_connections 256; }}
            http {{ access_log off; server {{ listen 8080; root {folder}; }} }}"
        ),
    );
    let mut server = bench.server(&format!("$SOCK -- nginx -c {folder}/nginx.conf"), 8080);
    let url = "http://127.0.0.1:8080/body";
    bench.ok(&format!(
        "for n in 1 2 3 4 5 6 7 8; do curl -sSf {url} | cmp - body || exit 1; done"
    ));
    bench.ok(&format!(
        "curl -sSf {url} {url} {url} {url} | tr -d x | cmp - /dev/null"
    ));
    let at_once = format!(
        "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do (curl -sSf {url} | cmp - body && echo good) & done; wait"
    );
    assert_eq!(bench.ok(&at_once).matches("good").count(), 12);
    // The listening socket is the NSM's, not nginx's.
    let holder = bench.ok("ss -Hltnp 'sport = :8080'");
    assert!(!holder.contains("nginx"), "{holder}");
    server.end();
    assert!(!bench.listens(8080));
}

/// A connection that the parent accepts and a child serves.
#[test]
fn a_server_that_forks_serves() {
    let bench = Bench::new();
    bench.file(
        "server.py",
        "import socketserver, os
class Upper(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(str(os.getpid()).encode() + b' ' + line.upper())
class Server(socketserver.ForkingTCPServer):
    allow_reuse_address = True
Server(('127.0.0.1', 9000), Upper).serve_forever()
",
    );
    let server = bench.server("$SOCK -- python3 server.py", 9000);
    let client = "import socket
pids = set()
for n in range(5):
    s = socket.create_connection(('127.0.0.1', 9000), 10)
    f = s.makefile('rw')
    for word in ['one', 'two', 'three']:
        f.write(word + '\\n'); f.flush()
        pid, said = f.readline().split()
        assert said == word.upper(), said
        pids.add(pid)
    s.close()
print(len(pids))
";
    bench.file("client.py", client);
    assert_eq!(bench.ok("python3 client.py"), "5\n");
    drop(server);
}

#[test]
fn asyncio_serves_many_at_once() {
    let bench = Bench::new();
    bench.file(
        "both.py",
        "import asyncio
async def serve(reader, writer):
    while data := await reader.read(10000):
        writer.write(data); await writer.drain()
    writer.close()
async def client(n):
    reader, writer = await asyncio.open_connection('127.0.0.1', 9100)
    sent = bytes([n]) * 100_000
    async def send():
        writer.write(sent); await writer.drain(); writer.write_eof()
    _, got = await asyncio.gather(send(), reader.read())
    writer.close()
    return got == sent
async def main():
    server = await asyncio.start_server(serve, '127.0.0.1', 9100)
    good = await asyncio.gather(*[client(n) for n in range(50)])
    print(sum(good))
asyncio.run(main())
",
    );
    assert_eq!(bench.ok("$SOCK -- python3 both.py"), "50\n");
    assert_eq!(bench.ok("$SOCK --local -- python3 both.py"), "50\n");
}

/// With `--local` a program and its children talk without TCP.
#[test]
fn local_connections_are_not_the_kernels() {
    let bench = Bench::new();
    bench.file(
        "both.py",
        "import socket, subprocess
server = socket.create_server(('127.0.0.1', 9200))
client = socket.create_connection(('127.0.0.1', 9200))
peer, address = server.accept()
assert address == client.getsockname(), (address, client.getsockname())
assert peer.getsockname() == client.getpeername() == ('127.0.0.1', 9200)
client.sendall(b'hello'); assert peer.recv(10) == b'hello'
print(subprocess.run(['ss', '-Htn', 'state', 'established'], capture_output=True).stdout.decode().count('9200'))
peer.close(); assert client.recv(10) == b''
",
    );
    assert_eq!(bench.ok("$SOCK -- python3 both.py"), "2\n");
    assert_eq!(bench.ok("$SOCK --local -- python3 both.py"), "0\n");
}

#[test]
fn datagrams_and_names_work() {
    let bench = Bench::new();
    bench.file(
        "udp.py",
        "import socket
for family, host in [(socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')]:
    a = socket.socket(family, socket.SOCK_DGRAM); a.bind((host, 0))
    b = socket.socket(family, socket.SOCK_DGRAM); b.connect(a.getsockname())
    b.send(b'question')
    data, source = a.recvfrom(100)
    assert source == b.getsockname(), (source, b.getsockname())
    a.sendto(data.upper(), source)
    assert b.recv(100) == b'QUESTION'
    b.settimeout(0.05)
    try: b.recv(1); assert False
    except TimeoutError: pass
print('good')
",
    );
    assert_eq!(bench.ok("$SOCK -- python3 udp.py"), "good\n");
}

/// A program that is started without the variables of its parent, on a socket of its parent's.
#[test]
fn a_cleared_environment_keeps_sockets() {
    let bench = Bench::new();
    bench.file(
        "cleared.py",
        "import socket, subprocess
server = socket.create_server(('127.0.0.1', 9400))
for how in [dict(args=['env', '-i', '/bin/cat']), dict(args=['/bin/cat'], env={})]:
    client = socket.create_connection(('127.0.0.1', 9400), 5)
    peer, _ = server.accept()
    child = subprocess.Popen(stdin=peer, stdout=peer, **how)
    peer.close()
    client.sendall(b'echo')
    print(client.recv(10))
    client.close(); child.wait(5)
",
    );
    assert_eq!(
        bench.ok("$SOCK -- python3 cleared.py"),
        "b'echo'\nb'echo'\n"
    );
}

#[test]
fn a_shell_writes_to_a_socket() {
    let bench = Bench::new();
    bench.ok(BODY);
    let _server = bench.server("python3 -m http.server 8000 >/dev/null 2>&1", 8000);
    bench.file(
        "get.sh",
        "exec 3<>/dev/tcp/127.0.0.1/8000
printf 'GET /body HTTP/1.0\\r\\n\\r\\n' >&3
read -r status <&3
echo \"$status\"
",
    );
    let said = bench.ok("$SOCK -- bash get.sh");
    assert!(said.starts_with("HTTP/1.0 200 OK"), "{said}");
}

/// A child that waits on its parent's epoll, which lost what was told to the parent and its timeout.
#[test]
fn a_child_waits_on_its_parents_epoll() {
    let bench = Bench::new();
    bench.file(
        "epoll.py",
        "import os, select, socket, time
server = socket.create_server(('127.0.0.1', 9500))
client = socket.create_connection(('127.0.0.1', 9500))
peer, _ = server.accept()
epoll = select.epoll(); epoll.register(peer, select.EPOLLIN)
child = os.fork()
if child == 0:
    assert epoll.poll(0.1) == []
    print(len(epoll.poll(10)), flush=True)
    os._exit(0)
time.sleep(0.3)
client.send(b'x')
os.waitpid(child, 0)
",
    );
    assert_eq!(bench.ok("$SOCK -- python3 epoll.py"), "1\n");
}

/// A daemon: its parent has used sockets, and ends before it uses one itself.
#[test]
fn a_child_goes_on_where_its_parent_has_ended() {
    let bench = Bench::new();
    bench.ok(BODY);
    let _server = bench.server("python3 -m http.server 8000 >/dev/null 2>&1", 8000);
    bench.file(
        "daemon.py",
        "import os, socket, time, urllib.request
url = 'http://127.0.0.1:8000/body'
assert len(urllib.request.urlopen(url).read()) == 3000000
if os.fork(): os._exit(0)
time.sleep(0.3)
open('late', 'wb').write(urllib.request.urlopen(url).read())
",
    );
    bench.ok("$SOCK -- python3 daemon.py && cmp late body");
}

#[test]
fn limits_are_told_as_the_socket_api_does() {
    let bench = Bench::new();
    bench.file(
        "many.py",
        "import socket, errno
server = socket.create_server(('127.0.0.1', 9300))
kept = []
try:
    for n in range(20):
        kept.append(socket.create_connection(('127.0.0.1', 9300)))
except OSError as error:
    print(len(kept), errno.errorcode[error.errno])
",
    );
    let said = bench.ok("$SOCK -p conns=8 -- python3 many.py");
    let (count, error) = said.trim().split_once(' ').unwrap();
    assert!(count.parse::<u32>().unwrap() <= 8, "{said}");
    assert!(["EMFILE", "ENFILE", "ENOBUFS"].contains(&error), "{said}");
}

#[test]
fn a_run_ends_as_its_program_does() {
    let bench = Bench::new();
    assert_eq!(
        bench.output("$SOCK -- sh -c 'exit 7'").status.code(),
        Some(7)
    );
    let killed = bench.output("$SOCK -- sh -c 'kill -KILL $$'");
    assert_eq!(killed.status.code(), Some(128 + 9));
    let missing = bench.output("$SOCK -- ./no-such-program");
    let said = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(missing.status.code(), Some(127));
    assert!(said.contains("./no-such-program: No such file"), "{said}");
    // A child that goes on keeps its sockets; the run ends with it.
    bench.ok(BODY);
    let _server = bench.server("python3 -m http.server 8000 >/dev/null 2>&1", 8000);
    bench.ok("$SOCK -- sh -c '(sleep 0.3; curl -sSf http://127.0.0.1:8000/body >late) & exit 0'; sleep 0.1; cmp late body");
    assert_eq!(
        std::fs::read_dir(bench.folder.join("run")).unwrap().count(),
        0
    );
}

#[test]
fn what_is_no_program_is_told_as_by_a_shell() {
    let bench = Bench::new();
    bench.file("data", "no program");
    for how in ["preload", "syscall"] {
        let output = bench.output(&format!("$SOCK --intercept {how} -- ./data"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(126), "{said}");
        assert!(said.contains("./data: Permission denied"), "{said}");
    }
    // An option that there is not is no program.
    let output = bench.output("$SOCK --intercpt syscall -- true");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--intercpt"), "{said}");
    bench.ok("$SOCK sh -c 'test $1 = --x' sh --x");
}

#[test]
fn a_run_passes_signals_on_and_removes_what_a_killed_one_has_left() {
    let bench = Bench::new();
    bench.ok("mkdir -p run/sock-999999999/a; true");
    let traps = "for it in USR1 USR2; do trap \"echo $it >>said\" $it; done; touch begun; while :; do sleep 0.1; done";
    bench.file("traps", traps);
    let mut run = Server(bench.shell("exec $SOCK -- sh traps").spawn().unwrap());
    until("it begins", || bench.folder.join("begun").exists());
    assert!(!bench.folder.join("run/sock-999999999").exists());
    for signal in ["USR1", "USR2"] {
        common::kill(&format!("-{signal}"), run.0.id());
        until("the program has no signal", || {
            std::fs::read_to_string(bench.folder.join("said")).is_ok_and(|it| it.contains(signal))
        });
    }
    run.end();
}
