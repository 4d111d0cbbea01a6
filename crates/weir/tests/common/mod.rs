//! A host with a node of its own, and what is done to it; traffic between namespaces.
#![allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "each program uses a part"
)]

mod authority;

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use node::client::Client;
use node::model::NodeStatus;
use serde_json::Value;
use weir::lab::{Namespace, Runner};

pub use authority::Authority;

/// A guest between two links, a and b.
pub const BOTH_WAYS: &str = "FromNetfront(a) -> there :: Counter -> ToNetfront(b);
FromNetfront(b) -> back :: Counter -> ToNetfront(a);
";
/// In a wire's file, a host on a switch: a namespace with one VNIC, `eth0`. Further settings of the
/// namespace and of the VNIC may follow.
macro_rules! member {
    ($name:literal, $link:literal, $address:literal) => {
        member!($name, $link, $address, "", "")
    };
    ($name:literal, $link:literal, $address:literal, $namespace:literal, $vnic:literal) => {
        concat!(
            "[namespace.@-",
            $name,
            "]\n",
            $namespace,
            "\n[vnic.@",
            $name,
            "]\nlink = '",
            $link,
            "'\nnamespace = '@-",
            $name,
            "'\ninterface = 'eth0'\naddresses = ['",
            $address,
            "']\n",
            $vnic,
            "\n"
        )
    };
}
pub(crate) use member;

/// Longest that anything here may take on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(90);

/// A node with folders of its own; all that it made goes with it.
pub struct Host {
    /// Where it keeps what it keeps.
    pub folder: PathBuf,
    /// Its number among those of this process.
    pub number: u32,
    /// The prefix of interfaces' and namespaces' names, which makes them unique.
    pub prefix: String,
    pub node: Option<Child>,
    /// What the node is started with besides.
    pub options: Vec<String>,
    /// What nodes said, a line each.
    pub said: Arc<Mutex<Vec<String>>>,
    /// The socket of a service manager, which is told when the node is ready.
    pub notify: Option<PathBuf>,
    /// The network namespace that it is in, by its path; none: the one of the tests.
    pub inside: Option<String>,
}

impl Host {
    /// A host whose node runs.
    pub fn new() -> Host {
        Host::with(&[])
    }

    /// A host whose node runs with these options.
    pub fn with(options: &[&str]) -> Host {
        Host::inside(None, options)
    }

    /// A host in a network namespace, whose node runs with these options.
    pub fn inside(namespace: Option<&Namespace>, options: &[&str]) -> Host {
        let root = rustix::process::geteuid().is_root();
        assert!(root, "needs root: makes network namespaces");
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-node-{}-{number}", std::process::id());
        // In memory where there is such a place: many rounds are many times to wait for a disk.
        let memory = Path::new("/dev/shm");
        let place = match memory.is_dir() {
            true => memory.to_path_buf(),
            false => std::env::temp_dir(),
        };
        let folder = place.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut host = Host {
            folder,
            number,
            // As long as any other, so that none begins as another one does.
            prefix: format!("w{}n{number:02}", std::process::id()),
            node: None,
            options: options.iter().map(ToString::to_string).collect(),
            said: Arc::default(),
            notify: None,
            inside: namespace.map(path),
        };
        host.start();
        host
    }

    /// Starts the node and waits until it can be asked.
    pub fn start(&mut self) {
        let mut node = self.weir(&["node"]);
        node.args(&self.options).stderr(Stdio::piped());
        if let Some(socket) = &self.notify {
            node.env("NOTIFY_SOCKET", socket);
        }
        let mut child = node.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let lines = Arc::clone(&self.said);
        let mut ready = false;
        // What ended without a node is told before.
        while !ready {
            let Some(line) = said.next() else {
                let how = child.wait().unwrap();
                let before = lines.lock().unwrap();
                panic!("the node is not ready ({how}), and said {before:#?}");
            };
            let line = line.unwrap();
            ready = line.contains("the node is ready");
            lines.lock().unwrap().push(line);
        }
        std::thread::spawn(move || {
            for line in said.map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        self.node = Some(child);
    }

    /// Ends the node by a signal.
    pub fn end(&mut self, signal: &str) {
        let mut node = self.node.take().unwrap();
        kill(signal, node.id());
        node.wait().unwrap();
    }

    pub fn weir(&self, arguments: &[&str]) -> Command {
        let weir = env!("CARGO_BIN_EXE_weir");
        let mut command = match &self.inside {
            None => Command::new(weir),
            Some(namespace) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net={namespace}")).arg(weir);
                command
            }
        };
        command
            .args(arguments)
            .env("WEIR_RUN", self.run())
            .env("WEIR_STATE", self.state())
            .env("WEIR_PLUGINS", self.folder.join("plugins"));
        command
    }

    pub fn run(&self) -> PathBuf {
        self.folder.join("run")
    }

    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    pub fn client(&self) -> Client {
        Client::new(self.run().join("node.sock"))
    }

    pub fn output(&self, arguments: &str) -> Output {
        let words: Vec<_> = arguments.split_whitespace().collect();
        self.weir(&words).output().unwrap()
    }

    /// What a command says that has to succeed.
    #[track_caller]
    pub fn ok(&self, arguments: &str) -> String {
        let output = self.output(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "weir {arguments}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Asserts what a command says that has to succeed.
    #[track_caller]
    pub fn shows(&self, arguments: &str, expected: &str) {
        assert_eq!(self.ok(arguments), expected, "weir {arguments}");
    }

    /// Asserts that a command fails, and that its one sentence contains `part`.
    #[track_caller]
    pub fn refuses(&self, arguments: &str, part: &str) {
        assert_contains(&self.refusal(arguments), part);
    }

    /// The one sentence that a command says which has to fail.
    #[track_caller]
    pub fn refusal(&self, arguments: &str) -> String {
        let said = self.refusals(arguments);
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    }

    /// The sentences that a command says which has to fail.
    #[track_caller]
    pub fn refusals(&self, arguments: &str) -> String {
        let output = self.output(arguments);
        assert!(!output.status.success(), "weir {arguments} was accepted");
        let said = String::from_utf8(output.stderr).unwrap();
        said.strip_prefix("weir: ").unwrap().trim_end().to_string()
    }

    #[track_caller]
    pub fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{arguments} --json"))).unwrap()
    }

    pub fn config(&self, name: &str, text: &str) -> String {
        let path = self.folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    }

    /// A wire's file; `@` in it becomes the host's prefix.
    pub fn file(&self, name: &str, text: &str) -> String {
        self.config(name, &text.replace('@', &self.prefix))
    }

    pub fn view(&self) -> NodeStatus {
        self.client().node().unwrap()
    }

    pub fn switch_pid(&self) -> u32 {
        self.view().switch_pid.unwrap()
    }

    /// Waits for a switch that takes the place of this one.
    pub fn has_other_switch(&self, than: u32) {
        until("no other switch runs", || {
            self.view().switch_pid.is_some_and(|pid| pid != than)
        });
    }

    /// Kills the switch, and waits until another takes its place.
    pub fn lose_switch(&self) {
        let switch = self.switch_pid();
        kill("-KILL", switch);
        self.has_other_switch(switch);
    }

    /// The stub `lan` with two namespaces on it: `a0`, NETWORK.1, and `b0`, NETWORK.2.
    pub fn lan(&self, network: &str) -> (Namespace, Namespace) {
        self.ok("stub create lan");
        let end =
            |name: &str, n: u8| self.namespace("lan", name, &format!("{network}.{n}/24"), None);
        (end("a0", 1), end("b0", 2))
    }

    /// A namespace with a VNIC `name` on `link`, an address, and a default route by `gateway`.
    pub fn namespace(
        &self,
        link: &str,
        name: &str,
        address: &str,
        gateway: Option<&str>,
    ) -> Namespace {
        let runner = Runner::default();
        let namespace = Namespace::new(&runner).unwrap();
        self.ok(&format!(
            "vnic create -l {link} --netns {} {name}",
            path(&namespace)
        ));
        let run = |arguments: &str| {
            let command = namespace.command("ip", arguments);
            runner.run(command, LIMIT).unwrap();
        };
        run(&format!("addr add {address} dev {name}"));
        if let Some(gateway) = gateway {
            run(&format!("route add default via {gateway}"));
        }
        namespace
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.weir(&["node", "--purge"]).output();
        if let Some(mut node) = self.node.take() {
            let _ = node.kill();
            let _ = node.wait();
        }
        for namespace in named(&self.prefix) {
            let _ = Command::new("ip")
                .args(["netns", "delete", &namespace])
                .output();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Numbers that look random, the same ones for the same seed (xorshift).
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Asserts that `text` contains `part`, or shows it.
#[track_caller]
pub fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "{text}");
}

pub fn path(namespace: &Namespace) -> String {
    format!("/proc/{}/ns/net", namespace.pid())
}

pub fn kill(signal: &str, pid: u32) {
    let status = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// Waits until something holds.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process lives. A zombie has ended.
pub fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or("").trim().chars().next();
    state.is_some_and(|state| state != 'Z')
}

#[track_caller]
pub fn pings(from: &Namespace, to: &str) {
    let command = from.command("ping", &format!("-c 3 -i 0.05 -W 2 {to}"));
    Runner::default()
        .run(command, LIMIT)
        .expect("the ping is answered");
}

/// A ping that goes on while something else happens: 20 a second for `seconds`, the last of which
/// is waited for as well.
pub fn pinging(from: &Namespace, to: &str, seconds: u32) -> Child {
    let count = 20 * seconds;
    let mut command = from.command("ping", &format!("-i 0.05 -c {count} -W 2 {to}"));
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// How many were sent, and how many answers came.
pub fn counted(ping: Child) -> (u32, u32) {
    let output = ping.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said
        .lines()
        .find(|line| line.contains("packets transmitted"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    let mut numbers = line.split(", ").map(|part| {
        let number = part.split_whitespace().next();
        number.and_then(|n| n.parse().ok()).unwrap_or(0)
    });
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// What a process holds: descriptors, and KiB of memory.
pub fn holds(pid: u32) -> (usize, u64) {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let memory = memory.and_then(|text| text.split_whitespace().next()?.parse().ok());
    (files, memory.unwrap())
}

/// Namespaces whose names begin with `prefix`.
pub fn named(prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// What a program in a namespace prints, if it succeeds.
pub fn inside(namespace: &str, command: &str) -> Option<String> {
    let words = command.split_whitespace();
    let output = Command::new("ip")
        .args(["netns", "exec", namespace])
        .args(words)
        .output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(said)
}

/// The last round trip of three pings, in milliseconds; `None` if none came back in time.
pub fn ping(namespace: &str, to: &str) -> Option<f64> {
    let until = Instant::now() + LIMIT;
    while Instant::now() < until {
        let said = inside(namespace, &format!("ping -n -i 0.05 -c 3 -W 1 {to}"));
        let time = said.unwrap_or_default().lines().rev().find_map(|line| {
            let (_, time) = line.split_once("time=")?;
            time.split(' ').next()?.parse().ok()
        });
        if time.is_some() {
            return time;
        }
    }
    None
}

/// Runs `ip`, which has to succeed.
#[track_caller]
pub fn ip(arguments: &str) {
    let words: Vec<_> = arguments.split_whitespace().collect();
    let output = Command::new("ip").args(&words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {said}");
}

/// Does something in a namespace.
pub fn within<T: Send>(namespace: &Path, work: impl FnOnce() -> T + Send) -> T {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    let space = std::fs::File::open(namespace).unwrap();
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(space.as_fd(), kind).unwrap();
            work()
        });
        there.join().unwrap()
    })
}

/// Numbered UDP packets from one namespace to another, one each millisecond, while something else
/// happens.
pub struct Stream {
    stop: Arc<AtomicBool>,
    sender: JoinHandle<u32>,
    receiver: UdpSocket,
}

impl Stream {
    /// Between namespaces by their paths; returns once packets arrive at `address`, the second's.
    pub fn start(from: impl AsRef<Path>, to: impl AsRef<Path>, address: &str) -> Stream {
        let bind = |address: &str| UdpSocket::bind((address, 0)).unwrap();
        let receiver = within(to.as_ref(), || bind(address));
        // Packets that arrive while none is read have room.
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&receiver, 64 << 20).unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
        let socket = within(from.as_ref(), || bind("0.0.0.0"));
        socket.connect(receiver.local_addr().unwrap()).unwrap();
        // A packet of another length, repeated until one arrives: neighbours must be found first.
        until("no packet arrives", || {
            let _ = socket.send(&[0]);
            std::thread::sleep(Duration::from_millis(1));
            receiver.set_nonblocking(true).unwrap();
            let arrives = receiver.recv(&mut [0; 4]).is_ok();
            receiver.set_nonblocking(false).unwrap();
            arrives
        });
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let sender = std::thread::spawn(move || {
            let mut number = 0u32;
            while !stopped.load(Ordering::Relaxed) {
                // A missing interface, or an answer that the port is closed, is a lost packet.
                let _ = socket.send(&number.to_ne_bytes());
                number += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            number
        });
        Stream {
            stop,
            sender,
            receiver,
        }
    }

    /// Ends it. Returns how many were sent, and how many of them arrived, each of them once.
    pub fn end(self) -> (u32, u32) {
        let (sent, arrived, twice) = self.end_after_crash();
        assert_eq!(twice, 0, "packets arrived twice");
        (sent, arrived)
    }

    /// As [`end`](Self::end), of packets through a guest whose switch was killed. The next switch delivers again what
    /// the killed one had delivered but not yet taken from the guest's ring: a batch at most. Also returns how many
    /// packets arrived twice.
    pub fn end_after_crash(self) -> (u32, u32, u32) {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.join().unwrap();
        let (mut arrived, mut packet, mut twice) = (HashSet::new(), [0; 5], 0);
        while arrived.len() < sent as usize
            && let Ok(length) = self.receiver.recv(&mut packet)
        {
            if length == 4 {
                let number = u32::from_ne_bytes(packet[..4].try_into().unwrap());
                twice += u32::from(!arrived.insert(number));
            }
        }
        (sent, arrived.len() as u32, twice)
    }

    /// Ends it; nothing may be lost.
    #[track_caller]
    pub fn loses_nothing(self) {
        let (sent, arrived) = self.end();
        assert!(sent > 0);
        assert_eq!(sent, arrived, "packets were lost");
    }
}
