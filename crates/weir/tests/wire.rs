//! Virtual wires from end to end: networks made from files, real traffic through them, and nothing
//! left of them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Says so and returns true where the tests cannot run.
fn cannot_run() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: making network namespaces takes root");
    }
    !root
}

/// A node of this test's own; gone with all it made when dropped.
struct Host {
    folder: PathBuf,
    node: Child,
    /// What the names of namespaces begin with.
    prefix: String,
}

impl Host {
    fn new() -> Host {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("ww{}n{number}", std::process::id());
        let folder = std::env::temp_dir().join(format!("weir-wire-{prefix}"));
        std::fs::create_dir_all(&folder).unwrap();
        let node = start(&folder);
        Host {
            folder,
            node,
            prefix,
        }
    }

    fn weir(&self, arguments: &[&str]) -> Output {
        command(&self.folder, arguments).output().unwrap()
    }

    /// What a call prints that has to succeed.
    #[track_caller]
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.weir(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a call says that has to fail.
    #[track_caller]
    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.weir(arguments);
        assert!(!output.status.success(), "{arguments:?} was accepted");
        String::from_utf8(output.stderr).unwrap()
    }

    /// A wire's file; `@` in it becomes the test's prefix.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.join(name);
        std::fs::write(&path, text.replace('@', &self.prefix)).unwrap();
        path.to_str().unwrap().into()
    }

    fn kill_node(&mut self) {
        self.node.kill().unwrap();
        self.node.wait().unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = command(&self.folder, &["node", "--purge"]).output();
        let _ = self.node.kill();
        let _ = self.node.wait();
        for namespace in namespaces(&self.prefix) {
            let _ = Command::new("ip")
                .args(["netns", "delete", &namespace])
                .output();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .args(arguments)
        .env("WEIR_RUN", folder.join("run"))
        .env("WEIR_STATE", folder.join("state"));
    command
}

/// Starts a node and waits until it can be asked.
fn start(folder: &Path) -> Child {
    let mut node = command(folder, &["node"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !command(folder, &["ls"]).output().unwrap().status.success() {
        assert!(node.try_wait().unwrap().is_none(), "the node ended");
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "the node does not answer"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    node
}

/// Namespaces whose names begin with `prefix`.
fn namespaces(prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// The last round trip of three pings, in milliseconds; `None` if none came back in time.
fn ping(namespace: &str, to: &str) -> Option<f64> {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        let output = Command::new("ip")
            .args([
                "netns", "exec", namespace, "ping", "-n", "-i", "0.05", "-c", "3", "-W", "1", to,
            ])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let time = said.lines().rev().find_map(|line| {
            let (_, time) = line.split_once("time=")?;
            time.split(' ').next()?.parse().ok()
        });
        if time.is_some() {
            return time;
        }
    }
    None
}

/// The two subnets of the example, with names of the test's own.
fn two_subnets(host: &Host) -> String {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/wires");
    let config = example.join("two-subnets.click");
    std::fs::copy(config, host.folder.join("two-subnets.click")).unwrap();
    let text = std::fs::read_to_string(example.join("two-subnets.toml")).unwrap();
    let text = text
        .replace("[namespace.", "[namespace.@-")
        .replace("namespace = \"", "namespace = \"@-");
    host.file("two-subnets.toml", &text)
}

#[test]
fn two_subnets_of_different_speeds_are_joined_by_a_router() {
    if cannot_run() {
        return;
    }
    let host = Host::new();
    let file = two_subnets(&host);
    let would = host.done(&["wire", "diff", &file]);
    assert!(
        would.contains("+ stub office") && would.contains("+ guest router"),
        "{would}"
    );
    assert_eq!(host.done(&["wire", "apply", &file]), would);
    let desk = format!("{}-desk", host.prefix);
    let time = ping(&desk, "10.0.2.2").expect("the bench answers the desk");
    assert!(time >= 2.0, "frames to the bench take 2 ms: {time}");
    // Through a router: one hop less to live.
    let far = Command::new("ip")
        .args([
            "netns", "exec", &desk, "ping", "-n", "-c", "1", "-W", "2", "10.0.2.2",
        ])
        .output()
        .unwrap();
    let far = String::from_utf8_lossy(&far.stdout).into_owned();
    assert!(far.contains("ttl=63"), "{far}");

    // Again: nothing to do. What was removed by hand is made again.
    assert_eq!(host.done(&["wire", "apply", &file]), "");
    host.done(&["vnic", "delete", "desk0"]);
    let again = host.done(&["wire", "apply", &file]);
    assert_eq!(again, "+ vnic ‘desk0’, which was missing\n");
    assert!(ping(&desk, "10.0.2.2").is_some());

    let shown = host.done(&[
        "wire",
        "show",
        "-p",
        "-o",
        "wire,switches,vnics,namespaces,guests",
    ]);
    assert_eq!(shown, "two-subnets:2:4:2:1\n");
    let svg = host.done(&["wire", "show", "two-subnets", "--graph", "svg"]);
    assert!(svg.contains(">office<") && svg.contains(">router<"));

    // What is exported makes the same wire.
    let exported = host.done(&["wire", "export", "two-subnets"]);
    let copy = host.file("copy.toml", &exported);
    assert_eq!(host.done(&["wire", "diff", &copy]), "");
    host.done(&["wire", "delete", "two-subnets"]);
    assert!(namespaces(&host.prefix).is_empty());
    for nouns in [
        &["stub", "show", "-p"][..],
        &["vnic", "show", "-p"],
        &["ls", "-p"],
        &["wire", "show", "-p"],
    ] {
        assert_eq!(host.done(nouns), "", "{nouns:?}");
    }
    host.done(&["wire", "apply", &copy]);
    assert!(ping(&desk, "10.0.2.2").is_some(), "the exported wire works");
}

const PAIR: &str = "
wire = 'pair'
[stub.@s]
[namespace.@-a]
[namespace.@-b]
[vnic.@a]
link = '@s'
namespace = '@-a'
interface = 'eth0'
addresses = ['10.7.0.1/24']
[vnic.@b]
link = '@s'
namespace = '@-b'
interface = 'eth0'
addresses = ['10.7.0.2/24']
";

#[test]
fn a_wire_that_cannot_be_made_leaves_everything_as_it_was() {
    if cannot_run() {
        return;
    }
    let host = Host::new();
    let a = format!("{}-a", host.prefix);
    let file = host.file("pair.toml", PAIR);
    // A stub of that name is there: the namespaces made before it go again.
    let stub = format!("{}s", host.prefix);
    host.done(&["stub", "create", &stub]);
    let refusal = host.refusal(&["wire", "apply", &file]);
    assert!(
        refusal.contains("wire ‘pair’, stub") && refusal.contains("nothing was changed"),
        "{refusal}"
    );
    assert!(namespaces(&host.prefix).is_empty());
    assert_eq!(host.done(&["wire", "show", "-p"]), "");
    host.done(&["stub", "delete", &stub]);
    host.done(&["wire", "apply", &file]);
    assert!(ping(&a, "10.7.0.2").is_some());

    // A change whose last part is wrong, a guest that does not come up, is taken back whole.
    let broken = format!(
        "{PAIR}[vnic.@g]\nlink = '@s'\n[guest.@g]\nconfig = 'FromDevice(x) -> NoSuchElement;'\ninterfaces = {{ x = '@g' }}\n"
    );
    let broken = host.file("broken.toml", &broken.replace("10.7.0.2/24", "10.7.0.3/24"));
    let refusal = host.refusal(&["wire", "apply", &broken]);
    assert!(
        refusal.contains("NoSuchElement") && refusal.contains("nothing was changed"),
        "{refusal}"
    );
    assert!(
        ping(&a, "10.7.0.2").is_some(),
        "the address is the old one again"
    );
    assert_eq!(host.done(&["wire", "diff", &file]), "");
    assert!(
        !host
            .done(&["vnic", "show", "-p", "-o", "vnic"])
            .contains(&format!("{}g\n", host.prefix))
    );

    // And one that is right is made in use.
    let other = host.file("other.toml", &PAIR.replace("10.7.0.2/24", "10.7.0.4/24"));
    let change = host.done(&["wire", "apply", &other]);
    assert!(
        change.contains("addresses 10.7.0.2/24 → 10.7.0.4/24"),
        "{change}"
    );
    assert!(ping(&a, "10.7.0.4").is_some());
}

#[test]
fn a_wire_outlives_its_node_and_its_switch() {
    if cannot_run() {
        return;
    }
    let mut host = Host::new();
    let a = format!("{}-a", host.prefix);
    let file = host.file("pair.toml", PAIR);
    host.done(&["wire", "apply", &file]);
    assert!(ping(&a, "10.7.0.2").is_some());
    host.kill_node();
    assert!(
        ping(&a, "10.7.0.2").is_some(),
        "the switch goes on without a node"
    );
    host.node = start(&host.folder);
    assert_eq!(host.done(&["wire", "diff", &file]), "");
    assert!(ping(&a, "10.7.0.2").is_some());
}

#[test]
fn wrong_files_are_refused_in_sentences() {
    if cannot_run() {
        return;
    }
    let host = Host::new();
    let refusal = |text: &str| {
        let file = host.file("wrong.toml", text);
        host.refusal(&["wire", "apply", &file])
    };
    assert!(
        refusal("wire = 'w'\n[stub.s]\nspeeed = '1G'\n")
            .contains("wrong.toml:3: unknown field `speeed`")
    );
    let missing = refusal("wire = 'w'\n[vnic.v]\nlink = 'nowhere'\nhost = true\n");
    assert!(
        missing.contains("vnic ‘v’: there is no stub or link ‘nowhere’ in the wire"),
        "{missing}"
    );
    let rate = refusal("wire = 'w'\n[stub.s]\nspeed = '900T'\n");
    assert!(rate.contains("a rate is a number"), "{rate}");
    let vlan = refusal(
        "wire = 'w'\n[stub.s]\n[vnic.v]\nlink = 's'\nhost = true\nproperties = { vlan = 4095 }\n",
    );
    assert!(vlan.contains("1 to 4094"), "{vlan}");
    let nic = refusal("wire = 'w'\n[link.up]\ndevice = 'weir-none9'\n");
    assert!(nic.contains("no interface ‘weir-none9’"), "{nic}");
    assert!(
        host.refusal(&["wire", "export", "none"])
            .contains("no wire ‘none’")
    );
    assert!(
        host.refusal(&["wire", "apply", "/nowhere/x.toml"])
            .contains("/nowhere/x.toml")
    );
    assert_eq!(host.done(&["wire", "show", "-p"]), "");
}

#[track_caller]
fn ip(arguments: &str) {
    let words: Vec<_> = arguments.split_whitespace().collect();
    let output = Command::new("ip").args(&words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {said}");
}

#[test]
fn a_linux_network_is_captured_and_made_again() {
    if cannot_run() {
        return;
    }
    let host = Host::new();
    let p = &host.prefix;
    let (bridge, port, other) = (format!("{p}br"), format!("{p}v0"), format!("{p}v1"));
    for name in ["a", "r", "b"] {
        ip(&format!("netns add {p}-{name}"));
    }
    // a, a bridge, a router, and b behind it by a cable of its own.
    ip(&format!("link add {bridge} type bridge"));
    ip(&format!("link set {bridge} up"));
    ip(&format!(
        "link add {port} type veth peer name eth0 netns {p}-a"
    ));
    ip(&format!(
        "link add {other} type veth peer name left netns {p}-r"
    ));
    for port in [&port, &other] {
        ip(&format!("link set {port} master {bridge} up"));
    }
    ip(&format!(
        "-n {p}-r link add right type veth peer name eth0 netns {p}-b"
    ));
    for (namespace, interface, address) in [
        ("a", "eth0", "10.8.1.2/24"),
        ("r", "left", "10.8.1.1/24"),
        ("r", "right", "10.8.2.1/24"),
        ("b", "eth0", "10.8.2.2/24"),
    ] {
        ip(&format!(
            "-n {p}-{namespace} addr add {address} dev {interface}"
        ));
        ip(&format!("-n {p}-{namespace} link set {interface} up"));
    }
    ip(&format!("-n {p}-a route add default via 10.8.1.1"));
    ip(&format!("-n {p}-b route add default via 10.8.2.1"));
    ip(&format!(
        "netns exec {p}-r sysctl -qw net.ipv4.ip_forward=1"
    ));
    assert!(
        ping(&format!("{p}-a"), "10.8.2.2").is_some(),
        "the original works"
    );

    let copy = format!("{p}c-");
    let mut words = vec!["wire", "capture", "--name", "copy", "--prefix", &copy];
    let names = ["a", "r", "b"].map(|name| format!("{p}-{name}"));
    words.extend(names.iter().flat_map(|name| ["-n", name]));
    let captured = host.done(&words);
    let file = host.file("copy.toml", &captured);
    host.done(&["wire", "apply", &file]);
    // Take the original away, so that only the copy can answer.
    ip(&format!("link delete {bridge}"));
    ip(&format!("link delete {port}"));
    ip(&format!("link delete {other}"));
    let from = format!("{copy}{p}-a");
    assert!(
        ping(&from, "10.8.2.2").is_some(),
        "the copy works:\n{captured}"
    );
    host.done(&["wire", "delete", "copy"]);
    assert!(namespaces(&copy).is_empty());
}
