//! `weir run` on real traffic: namespaces, ping, kills and wrong input.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{BOTH_WAYS, LIMIT, Stream, alive, kill, path, pings, until};
use weir::lab::{Namespace, Runner, ip};

mod common;
#[path = "run/cpus.rs"]
mod cpus;
#[path = "run/dpdk.rs"]
mod dpdk;
#[path = "run/lanes.rs"]
mod lanes;

/// A folder and interface names of this test alone; gone with it.
struct Bench {
    folder: PathBuf,
    number: u32,
}

impl Bench {
    fn new() -> Bench {
        let root = rustix::process::geteuid().is_root();
        assert!(root, "needs root: makes network namespaces");
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-test-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Bench { folder, number }
    }

    /// An interface name of at most 15 letters.
    fn interface(&self, letter: char) -> String {
        format!("wt{letter}{}n{}", std::process::id(), self.number)
    }

    fn config(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .args(arguments)
            .env("WEIR_RUN", self.folder.join("run"));
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.weir(arguments).output().unwrap()
    }

    /// What a call that has to fail says on standard error, in one sentence a line.
    #[track_caller]
    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(!output.status.success(), "{arguments:?} was accepted");
        String::from_utf8_lossy(&output.stderr).trim().to_string()
    }

    #[track_caller]
    fn read(&self, handler: &str) -> String {
        let output = self.output(&["read", "wire", handler]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{handler}: {said}");
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    }

    #[track_caller]
    fn write(&self, handler: &str, value: &str) {
        let output = self.output(&["write", "wire", handler, value]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{handler}: {said}");
    }

    /// Starts `weir run` of a configuration called `wire` between interfaces a and b, `dev` or
    /// `tap`, with options.
    fn wire(&self, config: &str, kind: &str, options: &[&str]) -> Running {
        let config = self.config("wire.click", config);
        let [a, b] = ['a', 'b'].map(|name| format!("{name}={kind}:{}", self.interface(name)));
        let words = [config.to_str().unwrap(), "--link", &a, "--link", &b];
        self.run(&[&words[..], options].concat())
    }

    /// Starts `weir run` with `arguments` and waits until the guest runs.
    fn run(&self, arguments: &[&str]) -> Running {
        let mut words = vec!["run", "--json"];
        words.extend(arguments);
        let mut child = self
            .weir(&words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let running = event(&mut lines);
        if running["event"] != "running" {
            let mut said = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut said)
                .unwrap();
            panic!("the guest did not run: {running} {said}");
        }
        Running {
            child,
            lines,
            running,
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The next event; an empty object at the end.
fn event(lines: &mut BufReader<ChildStdout>) -> serde_json::Value {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_default()
}

struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    running: serde_json::Value,
}

impl Running {
    fn pid(&self, which: &str) -> u32 {
        self.running[which].as_u64().unwrap() as u32
    }

    /// Waits for the end.
    #[track_caller]
    fn ends(&mut self) -> std::process::ExitStatus {
        let mut status = None;
        until("it goes on", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Ends it as Ctrl-C does.
    #[track_caller]
    fn interrupt(&mut self) {
        kill("-INT", self.child.id());
        assert!(self.ends().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_guest_s_values_and_lines_are_bytes() {
    let bench = Bench::new();
    let config = bench.folder.join("wire.click");
    let text =
        b"s :: InfiniteSource(LIMIT 0, DATA $V) -> Discard; Script(print \"\xe9\\<ff 9b>\");";
    std::fs::write(&config, text).unwrap();
    let mut child = bench
        .weir(&["run", config.to_str().unwrap()])
        .arg(OsStr::from_bytes(b"V=\xfe"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = Vec::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_until(b'\n', &mut line).unwrap();
    // A byte that drives terminals is escaped.
    assert_eq!(line, b"\xe9\xff\\x9b\n");
    assert_eq!(bench.output(&["read", "wire", "s.data"]).stdout, b"\xfe\n");
    for value in [&b"\xff\xe9"[..], b"a\n\xe9"] {
        let mut write = bench.weir(&["write", "wire", "s.data"]);
        let written = write.arg(OsStr::from_bytes(value)).status().unwrap();
        assert!(written.success());
        let read = bench.output(&["read", "wire", "s.data"]);
        assert_eq!(read.stdout, [value, b"\n"].concat());
    }
    kill("-INT", child.id());
    assert!(child.wait().unwrap().success());
}

/// Two hosts, each on a veth whose other end stands here.
fn hosts(bench: &Bench) -> (Namespace, Namespace) {
    let runner = Runner::default();
    let (one, two) = (
        Namespace::new(&runner).unwrap(),
        Namespace::new(&runner).unwrap(),
    );
    one.connect(&runner, &bench.interface('a'), "10.77.0.1/24", None)
        .unwrap();
    two.connect(&runner, &bench.interface('b'), "10.77.0.2/24", None)
        .unwrap();
    (one, two)
}

fn exists(interface: &str) -> bool {
    Path::new("/sys/class/net").join(interface).exists()
}

#[track_caller]
fn gone(pid: u32) {
    until(&format!("process {pid} lives on"), || !alive(pid));
}

fn traffic_passes(isolation: &str) {
    let bench = Bench::new();
    let (one, two) = hosts(&bench);
    let mut running = bench.wire(BOTH_WAYS, "dev", &["--isolation", isolation]);
    assert_eq!(running.running["wall"], isolation);
    pings(&one, "10.77.0.2");

    let count = || bench.read("there.count").parse::<u64>().unwrap();
    let before = count();
    assert!(before >= 3, "{before} packets");
    bench.write("there.reset", "");
    assert!(count() < before);
    let top = bench.output(&["top", "wire", "--count", "1", "--interval", "0.1"]);
    let top = String::from_utf8_lossy(&top.stdout).into_owned();
    let mut lines = top.lines();
    assert!(
        lines.any(|line| line.starts_with("there") && line.contains("Counter")),
        "{top}"
    );
    for (words, expected) in [
        (
            &["read", "wire", "there.weight"][..],
            "No handler named 'there.weight'",
        ),
        (
            &["read", "wire", "nowhere.count"],
            "No element named 'nowhere'",
        ),
        (&["write", "wire", "there.count", "1"], "read-only"),
    ] {
        let said = bench.refusal(words);
        assert!(said.contains(expected), "{words:?}: {said}");
    }

    // Another configuration takes over without a packet lost, and one that is wrong changes nothing.
    let stream = Stream::start(path(&one), path(&two), "10.77.0.2");
    bench.write(
        "hotconfig",
        &format!("{BOTH_WAYS}// and a line more\nIdle -> Idle;\n"),
    );
    assert!(bench.read("list").contains("Idle@"));
    for arguments in [
        &["write", "wire", "hotconfig"][..],
        &["write", "wire", "hotconfig", "-"],
    ] {
        let mut command = bench.weir(arguments);
        command.stdin(std::fs::File::open(bench.folder.join("wire.click")).unwrap());
        assert!(command.status().unwrap().success());
    }
    assert!(!bench.read("list").contains("Idle@"));
    let said = bench.refusal(&["write", "wire", "hotconfig"]);
    assert!(said.contains("the configuration has no elements"), "{said}");
    let said = bench.refusal(&["write", "wire", "hotconfig", "a :: Nonsense;\n"]);
    assert!(said.contains("unknown element class 'Nonsense'"), "{said}");
    stream.loses_nothing();

    let guest = running.pid("pid");
    running.interrupt();
    gone(guest);
    gone(running.pid("switch_pid"));
    assert!(!bench.folder.join("run/wire.sock").exists());
    assert!(exists(&bench.interface('a')), "an attached interface stays");
}

#[test]
fn traffic_passes_a_virtual_machine() {
    traffic_passes("vm");
}

#[test]
fn traffic_passes_a_process() {
    traffic_passes("process");
}

#[test]
fn tcp_passes_with_the_kernels_offloads_left_on() {
    let bench = Bench::new();
    let (one, two) = hosts(&bench);
    let _running = bench.wire(BOTH_WAYS, "dev", &[]);
    pings(&one, "10.77.0.2");
    tcp(&one, &two);
}

/// Sends 20 MB from one host to the other.
#[track_caller]
fn tcp(one: &Namespace, two: &Namespace) {
    let runner = Runner::default();
    let _server = two.service("iperf3", "-s -1").unwrap();
    let start = Instant::now();
    loop {
        let command = one.command("iperf3", "-c 10.77.0.2 -n 20M -w 256K -J");
        let said = runner.run(command, LIMIT).unwrap_or_default();
        let report: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
        if let Some(received) = report["end"]["sum_received"]["bytes"].as_u64() {
            // What is still under way when the sender ends is not counted: what both sockets hold.
            assert!(received >= 15 << 20, "{received} bytes");
            return;
        }
        // The server may not listen yet.
        assert!(start.elapsed() < LIMIT, "no connection: {said}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sends 32 MB to a server that answers with their hash; says whether it is the right one.
const HASHING: &str = r#"
import hashlib, socket, sys, time
if sys.argv[1] == "server":
    server = socket.create_server(("10.77.0.2", 7000))
    while True:
        there, _ = server.accept()
        sum = hashlib.sha256()
        while piece := there.recv(1 << 16):
            sum.update(piece)
        there.sendall(sum.digest())
        there.close()
data = b"".join(hashlib.sha256(str(i).encode()).digest() for i in range(1 << 15)) * 32
for attempt in range(100):
    try:
        there = socket.create_connection(("10.77.0.2", 7000), 5)
        break
    except OSError:
        time.sleep(0.1)
there.settimeout(60)
there.sendall(data)
there.shutdown(socket.SHUT_WR)
print("intact" if there.recv(64) == hashlib.sha256(data).digest() else "damaged")
"#;

/// What a guest of `config` saw of a transfer between two hosts with the kernel's offloads on: the
/// end's report, after the data came as it was sent.
fn transfer(config: &str, slots: &str) -> serde_json::Value {
    let bench = Bench::new();
    let (one, two) = hosts(&bench);
    let hashing = bench.config("hashing.py", HASHING);
    let hashing = hashing.to_str().unwrap();
    let mut running = bench.wire(config, "dev", &["--ring-slots", slots]);
    pings(&one, "10.77.0.2");
    let _server = two
        .service("python3", &format!("{hashing} server"))
        .unwrap();
    let client = one.command("python3", &format!("{hashing} client"));
    let said = Runner::default().run(client, Duration::from_secs(90));
    assert_eq!(said.unwrap().trim(), "intact");
    kill("-INT", running.child.id());
    loop {
        let said = event(&mut running.lines);
        assert!(said.is_object() && !said.as_object().unwrap().is_empty());
        if said["event"] == "ended" {
            return said["traffic"].clone();
        }
    }
}

#[test]
fn segments_cross_a_guest_whole_or_are_cut_for_it() {
    let count = |traffic: &serde_json::Value, of: [&str; 3]| {
        let count = traffic[of[0]][of[1]][of[2]].as_u64();
        count.unwrap_or_else(|| panic!("no {of:?} in {traffic}"))
    };
    // All its elements look at headers alone; 64 slots hold one frame of 64 KB.
    for slots in ["256", "64"] {
        let whole = transfer(BOTH_WAYS, slots);
        let large = count(&whole, ["b", "guest", "segmented_in"]);
        assert!(
            large > 100,
            "{large} frames left the guest as they came: {whole}"
        );
        assert_eq!(count(&whole, ["a", "guest", "cut"]), 0, "{whole}");
        let frames = count(&whole, ["b", "guest", "frames_in"]);
        let bytes = count(&whole, ["b", "guest", "bytes_in"]);
        assert!(bytes / frames > 1514, "{whole}");
    }
    // CheckLength drops what is longer than an Ethernet frame, so nothing may be.
    let checked = "FromNetfront(a) -> CheckLength(1514) -> ToNetfront(b);
        FromNetfront(b) -> CheckLength(1514) -> ToNetfront(a);";
    let cut = transfer(checked, "256");
    assert!(count(&cut, ["a", "link", "segmented_in"]) > 100, "{cut}");
    assert!(count(&cut, ["a", "guest", "cut"]) > 100, "{cut}");
    assert_eq!(count(&cut, ["b", "guest", "segmented_in"]), 0, "{cut}");
    let bytes = count(&cut, ["b", "guest", "bytes_in"]);
    assert!(bytes / count(&cut, ["b", "guest", "frames_in"]) <= 1514);
}

#[test]
fn a_tap_is_made_and_goes_with_the_guest() {
    let bench = Bench::new();
    let config = bench.config(
        "answer.click",
        "FromNetfront(a) -> c :: Classifier(12/0806 20/0001, 12/0800);
         out :: ToNetfront(a);
         c[0] -> ARPResponder(10.78.0.1 a) -> out;
         c[1] -> Strip(14) -> CheckIPHeader -> ICMPPingResponder -> Unstrip(14) -> EtherMirror -> out;",
    );
    let tap = bench.interface('t');
    let link = format!("a=tap:{tap}");
    let mut running = bench.run(&[config.to_str().unwrap(), "--link", &link]);
    assert!(exists(&tap));
    let runner = Runner::default();
    // A namespace of its own for the host's side, so that nothing here routes there.
    let host = Namespace::new(&runner).unwrap();
    let run = |command| runner.run(command, LIMIT);
    run(ip(&format!("link set {tap} netns {}", host.pid()))).unwrap();
    run(host.command("ip", &format!("addr add 10.78.0.2/24 dev {tap}"))).unwrap();
    run(host.command("ip", &format!("link set {tap} up"))).unwrap();
    pings(&host, "10.78.0.1");
    kill("-TERM", running.child.id());
    assert!(running.ends().success());
    assert!(run(host.command("ip", &format!("link show {tap}"))).is_err());
}

#[track_caller]
fn nothing_is_left(bench: &Bench, running: &Running) {
    gone(running.pid("pid"));
    gone(running.pid("switch_pid"));
    for letter in ['a', 'b'] {
        until("an interface is left", || !exists(&bench.interface(letter)));
    }
}

#[test]
fn a_killed_guest_is_noticed() {
    let bench = Bench::new();
    let mut running = bench.wire(BOTH_WAYS, "tap", &[]);
    kill("-KILL", running.pid("pid"));
    let said = event(&mut running.lines);
    assert!(
        said["exit"].as_str().unwrap().contains("killed by SIGKILL"),
        "{said}"
    );
    assert!(!running.ends().success());
    nothing_is_left(&bench, &running);
}

#[test]
fn a_killed_switch_is_noticed() {
    let bench = Bench::new();
    let mut running = bench.wire(BOTH_WAYS, "tap", &[]);
    kill("-KILL", running.pid("switch_pid"));
    assert_eq!(event(&mut running.lines)["event"], "switch-ended");
    assert!(!running.ends().success());
    nothing_is_left(&bench, &running);
}

#[test]
fn a_killed_parent_takes_everything_with_it_and_its_name_is_free_again() {
    let bench = Bench::new();
    let mut running = bench.wire(BOTH_WAYS, "tap", &[]);
    kill("-KILL", running.child.id());
    running.ends();
    nothing_is_left(&bench, &running);
    let again = bench.wire(BOTH_WAYS, "tap", &[]);
    assert_eq!(again.running["name"], "wire");
}

#[test]
fn a_router_that_stops_ends_the_run_in_good_order() {
    let bench = Bench::new();
    let text = "InfiniteSource(LIMIT 100, STOP true) -> Discard; FromNetfront(a) -> ToNetfront(a);";
    let config = bench.config("stop.click", text);
    let link = format!("a=tap:{}", bench.interface('a'));
    let mut running = bench.run(&[config.to_str().unwrap(), "--link", &link]);
    assert_eq!(event(&mut running.lines)["exit"], "the guest halted");
    assert!(running.ends().success());
}

#[test]
fn wrong_input_is_told_in_a_sentence_and_leaves_nothing() {
    let bench = Bench::new();
    let tap = |letter| format!("{letter}=tap:{}", bench.interface(letter));
    let try_config = |text: &str, more: &[&str]| {
        let config = bench.config("wrong.click", text);
        let (a, b) = (tap('a'), tap('b'));
        let mut words = vec!["run", config.to_str().unwrap(), "--link", &a, "--link", &b];
        words.extend(more);
        let said = bench.refusal(&words);
        assert!(
            !exists(&bench.interface('a')),
            "an interface is left: {said}"
        );
        assert!(
            !bench.folder.join("run/wrong.sock").exists(),
            "a socket is left"
        );
        said
    };
    for (text, expected) in [
        (
            "FromNetfront(a) -> ToNetfront(b) FromNetfront",
            "wrong.click:1: ",
        ),
        ("FromNetfront(a) -> Countr -> ToNetfront(b);", "Counter"),
        (
            "FromNetfront(a) -> Queue(1, 2) -> Unqueue -> ToNetfront(b);",
            "too many arguments",
        ),
        (
            "FromNetfront(a) -> Unqueue -> ToNetfront(b);",
            "push output 0 connected to",
        ),
        (
            "FromNetfront(a) -> Tee -> ToNetfront(b); i :: Counter;",
            "unused",
        ),
        (
            "FromNetfront(c) -> ToNetfront(b);",
            "interface ‘c’ has no link",
        ),
    ] {
        let said = try_config(text, &[])
            .replace('\'', "‘")
            .replace("‘c‘", "‘c’");
        assert!(said.contains(expected), "{text}\n{said}");
    }
    for (more, expected) in [
        (
            &["--ring-slots", "100"][..],
            "100 ring slots: a ring has a power of two from 64 to 2048",
        ),
        (&["--memory", "64K"], "memory too small"),
        (&["--memory", "much"], "K, M or G"),
        (&["--link", "x"], "INTERFACE=LINK, where LINK is tap:NAME"),
        (&["--link", "a=tap:other"], "two links are named ‘a’"),
        (
            &["--link", "x=dev:nosuch0"],
            "no element uses interface 'x'",
        ),
        (&["--name", "../x"], "is not a valid name for a guest"),
        (&["--isolation", "glass"], "isolation"),
        (&["--pin", "4000"], "there is no CPU 4000"),
        (&["--pin", "0,0", "--cpus", "1"], "--pin names 2 CPUs"),
        (&["--cpus", "9"], "1 to 8 vCPUs"),
        (&["--lanes", "0"], "lanes, not 0"),
        (&["--lanes", "two"], "‘two’ is not a number of lanes"),
        (&["--cpu", "0,1"], "write --pin 0,1"),
    ] {
        let said = try_config(BOTH_WAYS, more);
        assert!(said.contains(expected), "{more:?}\n{said}");
    }
    let third = format!("{BOTH_WAYS} FromNetfront(x) -> Discard;");
    let said = try_config(&third, &["--link", "x=dev:nosuch0"]);
    assert!(said.contains("no interface ‘nosuch0’"), "{said}");
    assert!(
        bench
            .refusal(&["run", "no/such.click"])
            .contains("no/such.click")
    );
    assert!(
        bench
            .refusal(&["read", "nobody", "x"])
            .contains("no guest named ‘nobody’ is running")
    );
    let running = bench.wire(BOTH_WAYS, "tap", &[]);
    let config = bench.config("wire.click", BOTH_WAYS);
    let said = bench.refusal(&[
        "run",
        config.to_str().unwrap(),
        "--link",
        "a=tap:x",
        "--link",
        "b=tap:y",
    ]);
    assert!(
        said.contains("a guest named ‘wire’ is already running"),
        "{said}"
    );
    drop(running);
}

#[test]
fn the_firewall_demo_passes_what_it_allows_and_refuses_the_rest() {
    let bench = Bench::new();
    let output = bench.output(&["demo", "firewall"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{wrong}");
    for expected in [
        "0% packet loss",
        "port 80: served through the firewall",
        "port 8080: curl: (7)",
        "Gb/s of TCP",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    let refused = said
        .lines()
        .find(|line| line.contains("reject from inside"))
        .unwrap_or_default();
    assert!(refused.contains("1 packets"), "{said}");
}

#[test]
fn a_guest_of_weir_run_takes_values_of_variables() {
    let folder = std::env::temp_dir().join(format!("weir-variables-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let config = folder.join("says.click");
    std::fs::write(
        &config,
        "define($A 1, $B 2);\nScript(print \"$A and $B\", stop);\n",
    )
    .unwrap();
    let mut command = Command::new("timeout");
    command
        .args(["30", env!("CARGO_BIN_EXE_weir"), "run"])
        .arg(&config);
    command.arg("A=5 , 6)").env("WEIR_RUN", &folder);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("5 , 6) and 2"), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}
