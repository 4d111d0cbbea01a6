//! `weir sock run --intercept`: programs that make system calls without the C library. Go's and C's are
//! built from `programs`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::common::until;
use super::{BODY, Bench};

/// Where go is, if Go is installed; otherwise says so.
fn go() -> Option<&'static str> {
    let places = ["go", "/usr/local/go/bin/go", "/usr/lib/go/bin/go"];
    let runs = |place: &&str| {
        let version = Command::new(place).arg("version").output();
        version.is_ok_and(|version| version.status.success())
    };
    let found = places.into_iter().find(runs);
    if found.is_none() {
        eprintln!("skipped: go is missing (Debian: golang-go)");
    }
    found
}

impl Bench {
    /// Builds the Go program as `web`; false: there is no Go.
    fn build_go(&self) -> bool {
        let Some(go) = go() else {
            return false;
        };
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
        let built = Command::new(go)
            .args(["build", "-o"])
            .arg(self.folder.join("web"))
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/sock/programs/web.go"
            ))
            .env("GOCACHE", cache)
            .env("CGO_ENABLED", "0")
            .status();
        assert!(built.unwrap().success());
        true
    }

    /// Builds the C program as `static`.
    fn build_c(&self) {
        let built = Command::new("gcc")
            .args(["-static", "-O1", "-o"])
            .arg(self.folder.join("static"))
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/sock/programs/static.c"
            ))
            .status();
        assert!(built.expect("gcc is installed").success());
    }

    /// Nothing of a run is left: no supervisor, no folder.
    fn assert_nothing_left(&self) {
        let run = self.folder.join("run");
        until("the run leaves nothing", || {
            std::fs::read_dir(&run).map_or(0, Iterator::count) == 0
        });
        let space = std::fs::read_link("/proc/self/ns/net").unwrap();
        assert!(self.supervisors(&space) == 0);
    }

    /// Supervisors that do not run in this test's own network namespace but in the bench's.
    fn supervisors(&self, not: &Path) -> usize {
        let ours = self.ok("readlink /proc/self/ns/net");
        assert_ne!(Path::new(ours.trim()), not);
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let its = processes.filter(|process| {
            let process = process.path();
            let words = std::fs::read(process.join("cmdline")).unwrap_or_default();
            let space = std::fs::read_link(process.join("ns/net"));
            words.ends_with(b"sock\0supervise\0")
                && space.is_ok_and(|space| space == Path::new(ours.trim()))
        });
        its.count()
    }
}

#[test]
fn a_static_program_cannot_be_preloaded() {
    let bench = Bench::new();
    bench.build_c();
    let output = bench.output("$SOCK --intercept preload -- ./static");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("use --intercept syscall"), "{said}");
    bench.assert_nothing_left();
}

#[test]
fn a_go_server_serves_clients_of_the_kernel_and_of_go() {
    let bench = Bench::new();
    if !bench.build_go() {
        return;
    }
    bench.ok(BODY);
    let mut server = bench.server("$SOCK -- ./web serve 0.0.0.0:8200", 8200);
    let url = "http://127.0.0.1:8200";
    bench.ok(&format!("curl -sSf {url}/body | cmp - body"));
    let counted = bench.ok(&format!("curl -sSf --data-binary @body {url}/count"));
    assert_eq!(counted, "3000000 <nil>\n");
    // Addresses are those of the connection.
    let client = bench.ok(&format!("curl -sSf --local-port 40123 {url}/peer"));
    assert_eq!(client, "127.0.0.1:40123 127.0.0.1:8200\n");
    let got = bench.ok(&format!("$SOCK -- ./web get {url}/body 30"));
    assert_eq!(got.matches("200 OK 3000000\n").count(), 30, "{got}");
    // The listening socket is the NSM's, not the program's.
    let holder = bench.ok("ss -Hltnp 'sport = :8200'");
    assert!(!holder.contains("web"), "{holder}");
    server.end();
    assert!(!bench.listens(8200));
    bench.assert_nothing_left();
}

#[test]
fn go_hears_of_refusals_resets_and_deadlines() {
    let bench = Bench::new();
    if !bench.build_go() {
        return;
    }
    let said = bench.ok("$SOCK -- ./web bad 127.0.0.1:8201");
    assert_eq!(said, "true\n".repeat(4));
    assert_eq!(bench.ok("$SOCK -- ./web udp 127.0.0.1:8202"), "true\n");
    // By shared memory as well.
    let local = bench.ok("$SOCK --local -- ./web udp 127.0.0.1:8203");
    assert_eq!(local, "true\n");
}

/// Waiting, forking, passing descriptors, datagrams: as with the kernel's sockets.
#[test]
fn a_static_program_has_the_calls_of_sockets() {
    let bench = Bench::new();
    bench.build_c();
    bench.ok(BODY);
    assert_eq!(bench.ok("./static"), "good\n");
    assert_eq!(bench.ok("$SOCK -- ./static"), "good\n");
    bench.assert_nothing_left();
}

#[test]
fn busybox_fetches_and_serves() {
    let bench = Bench::new();
    if bench.output("busybox true").status.code() != Some(0) {
        eprintln!("skipped: busybox is missing (Debian: busybox-static)");
        return;
    }
    bench.ok(BODY);
    let _server = bench.server("$SOCK -- busybox httpd -f -p 127.0.0.1:8204", 8204);
    let holder = bench.ok("ss -Hltnp 'sport = :8204'");
    assert!(!holder.contains("busybox"), "{holder}");
    let url = "http://127.0.0.1:8204/body";
    bench.ok(&format!("curl -sSf {url} | cmp - body"));
    bench.ok(&format!(
        "$SOCK -- busybox wget -q -O got {url}; cmp got body"
    ));
    let refused = bench.output("$SOCK -- busybox wget -q -O - http://127.0.0.1:8205/");
    assert_eq!(refused.status.code(), Some(1));
}

/// All that a shell starts, of every kind: with --intercept syscall the library is not needed.
#[test]
fn a_shell_and_its_children_are_intercepted() {
    let bench = Bench::new();
    bench.build_c();
    bench.ok(BODY);
    bench.file(
        "all.sh",
        "set -e
test -z \"$LD_PRELOAD$WEIR_SOCK\"
python3 -m http.server --bind 127.0.0.1 8206 >/dev/null 2>&1 &
until ss -Hltn 'sport = :8206' | grep -q .; do sleep 0.05; done
ss -Hltnp 'sport = :8206' | grep -q python && exit 3
curl -sSf http://127.0.0.1:8206/body | cmp - body
python3 -c 'import urllib.request as u; print(len(u.urlopen(\"http://127.0.0.1:8206/body\").read()))'
./static
kill $!
",
    );
    let said = bench.ok("$SOCK --intercept syscall -- sh all.sh");
    assert_eq!(said, "3000000\ngood\n");
    bench.assert_nothing_left();
}

#[test]
fn a_run_ends_as_its_intercepted_program_does() {
    let bench = Bench::new();
    let code = |script: &str| bench.output(script).status.code();
    assert_eq!(code("$SOCK --intercept syscall -- sh -c 'exit 7'"), Some(7));
    assert_eq!(
        code("$SOCK --intercept syscall -- sh -c 'kill -KILL $$'"),
        Some(128 + 9)
    );
    let missing = bench.output("$SOCK --intercept syscall -- ./no-such-program");
    let said = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(missing.status.code(), Some(127));
    assert!(said.contains("./no-such-program: No such file"), "{said}");
    // The supervisor is no child of the program's, and holds no output open.
    bench.ok("$SOCK --intercept syscall -- python3 -c 'import os
try: os.wait(); print(1)
except ChildProcessError: pass' | cmp - /dev/null");
    bench.assert_nothing_left();
}

#[test]
fn what_cannot_be_intercepted_is_said() {
    let bench = Bench::new();
    let said = |script: &str| {
        let output = bench.output(script);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let unknown = said("$SOCK --intercept magic -- true");
    assert!(
        unknown.contains("magic") && unknown.contains("syscall"),
        "{unknown}"
    );
    bench.ok("cp $(command -v sleep) other && chown 1 other && chmod u+s other");
    let other = said("$SOCK -- ./other 1");
    assert!(other.contains("set-user-id"), "{other}");
    assert_eq!(other.trim().lines().count(), 1, "{other}");
    let nested = said("$SOCK --intercept syscall -- $SOCK --intercept syscall -- true");
    assert!(nested.contains("intercepted already"), "{nested}");
    bench.assert_nothing_left();
}

/// A user without rights: the program and its children gain none.
#[test]
fn a_user_runs_intercepted_programs() {
    let bench = Bench::new();
    bench.build_c();
    bench.ok(BODY);
    std::fs::set_permissions(&bench.folder, Permissions::from_mode(0o777)).unwrap();
    let weir = env!("CARGO_BIN_EXE_weir");
    if bench
        .output(&format!(
            "setpriv --reuid 65534 --clear-groups {weir} --version"
        ))
        .status
        .code()
        != Some(0)
    {
        // A user may not come to the folder that was built in.
        bench.ok(&format!("cp {weir} weir"));
    } else {
        bench.ok(&format!("ln -s {weir} weir"));
    }
    let user =
        "setpriv --reuid 65534 --regid 65534 --clear-groups env WEIR_RUN=$PWD/user ./weir sock run";
    assert_eq!(bench.ok(&format!("{user} -- ./static")), "good\n");
    let bits = bench.ok(&format!(
        "{user} --intercept syscall -- grep NoNewPrivs /proc/self/status"
    ));
    assert_eq!(bits.trim(), "NoNewPrivs:\t1");
}
