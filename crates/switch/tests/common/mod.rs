//! Hosts as network namespaces, and a guest as a thread on the guest's side of a data region.
#![allow(dead_code, unused_macros)]

use std::fs;
use std::iter;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use abi::region::{Geometry, Interface};
use abi::ring::Slot;
use rustix::thread::futex;
use switch::client::{Guest, SwitchClient};
use switch::lanes::{Attach, Lanes};
use switch::links::{HostLink, Tap};
use switch::lookup::Mac;
use switch::memory::{GuestSide, SharedRegion};
use switch::port::Link;
use switch::port::guest::GuestLink;
use switch::properties::PortProperties;
use switch::protocol::{GuestInterface, PortId, PortKind, PortState};

/// What tells this run's interfaces and namespaces from all others.
pub fn unique(what: &str) -> String {
    format!("sw{}{what}", std::process::id())
}

/// Tests, with their names.
macro_rules! tests {
    ($($test:ident),+ $(,)?) => { &[$((stringify!($test), $test)),+] };
}

/// The one test that a process runs.
const ONE: &str = "SWITCH_TEST";

/// Runs the tests, or those whose names contain the word on the command line: each in a process and a network namespace
/// of its own, as many at a time as `RUST_TEST_THREADS` says.
pub fn run_all(tests: &[(&str, fn())]) {
    if let Ok(one) = std::env::var(ONE) {
        run("ip link set lo up");
        let (_, test) = tests.iter().find(|(name, _)| *name == one).unwrap();
        return test();
    }
    let root = rustix::process::geteuid().is_root();
    assert!(root, "needs root: makes network namespaces");
    for tool in ["ip", "ss", "ping", "curl", "iperf3", "python3", "ethtool"] {
        let found = Command::new("which").arg(tool).output();
        assert!(found.unwrap().status.success(), "needs {tool}");
    }
    assert!(fs::exists("/dev/net/tun").unwrap(), "needs /dev/net/tun");
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let chosen = |name: &str| filter.as_ref().is_none_or(|word| name.contains(word));
    let left = Mutex::new(
        tests
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| chosen(name)),
    );
    let threads = std::env::var("RUST_TEST_THREADS").ok();
    let threads = threads.map_or(1, |number| number.parse().unwrap());
    let rest = || iter::from_fn(|| left.lock().unwrap().next());
    let failed: usize = std::thread::scope(|scope| {
        let runners: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| rest().filter(|name| !passes(name)).count()))
            .collect();
        let counts = runners.into_iter().map(|runner| runner.join().unwrap());
        counts.sum()
    });
    assert_eq!(failed, 0, "tests failed");
}

/// Runs a test in a process of its own and tells how it went.
fn passes(name: &str) -> bool {
    let started = Instant::now();
    let mut one = Command::new("unshare");
    one.arg("--net").arg(std::env::current_exe().unwrap());
    let result = one.env(ONE, name).output().unwrap();
    let seconds = started.elapsed().as_secs_f32();
    let is_ok = result.status.success();
    let word = if is_ok { "ok" } else { "FAILED" };
    let text = String::from_utf8_lossy(&result.stdout);
    println!("{text}test {name} ... {word} ({seconds:.1} s)");
    if !is_ok {
        eprintln!("{}", String::from_utf8_lossy(&result.stderr));
    }
    is_ok
}

/// Runs a command that must succeed; returns what it printed.
pub fn run(command: &str) -> String {
    let output = output(command);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {text}{errors}");
    text
}

/// Runs a command; returns what became of it.
pub fn output(command: &str) -> Output {
    let mut words = command.split_whitespace();
    Command::new(words.next().expect("a command"))
        .args(words)
        .output()
        .unwrap_or_else(|error| panic!("{command}: {error}"))
}

/// A TAP device that this process makes.
pub fn tap(name: &str) -> HostLink {
    let options = Tap {
        name,
        mac: None,
        mtu: 1500,
        owner: None,
    };
    HostLink::open(&options).unwrap()
}

/// Attaches an open link to a domain.
pub fn join(switch: &SwitchClient, link: HostLink, domain: u32) -> PortId {
    let port = switch.attach_link(link, domain, PortProperties::default());
    port.unwrap()
}

/// An interface's packet socket, attached to a domain.
pub fn join_device(switch: &SwitchClient, interface: &str, domain: u32) -> PortId {
    join(switch, HostLink::device(interface).unwrap(), domain)
}

/// A host: a namespace with one interface, `eth0`.
pub struct Host {
    pub name: String,
    /// Our end of its veth pair.
    link: Option<String>,
    servers: Vec<Child>,
}

impl Host {
    /// A namespace without interfaces but its loopback.
    pub fn new(what: &str) -> Host {
        let name = unique(what);
        run(&format!("ip netns add {name}"));
        run(&format!("ip -n {name} link set lo up"));
        Host {
            name,
            link: None,
            servers: Vec::new(),
        }
    }

    /// A namespace joined to this one by a veth pair; returns also the name of our end, which is
    /// up and has no address.
    pub fn with_veth(what: &str, network: u8, host: u8) -> (Host, String) {
        Host::with_queues(what, network, host, 1)
    }

    /// The same, with so many queues at each end.
    pub fn with_queues(what: &str, network: u8, host: u8, queues: u8) -> (Host, String) {
        let mut namespace = Host::new(what);
        let ours = unique(&format!("{what}v"));
        namespace.link = Some(ours.clone());
        let name = &namespace.name;
        let queues = format!("numrxqueues {queues} numtxqueues {queues}");
        let options = format!("{queues} type veth peer name eth0 {queues} netns {name}");
        run(&format!("ip link add {ours} {options}"));
        run(&format!("ip link set {ours} up"));
        namespace.configure("eth0", network, host);
        (namespace, ours)
    }

    /// Takes an interface into the namespace.
    pub fn take(&self, interface: &str, network: u8, host: u8) {
        run(&format!("ip link set {interface} netns {}", self.name));
        self.configure(interface, network, host);
    }

    /// Gives an interface of the namespace its addresses, 10.9.network.host and fd09:network::host,
    /// and sets it up.
    pub fn configure(&self, interface: &str, network: u8, host: u8) {
        let name = &self.name;
        let address = format!("10.9.{network}.{host}/24");
        run(&format!("ip -n {name} addr add {address} dev {interface}"));
        let address = format!("fd09:{network}::{host}/64 dev {interface} nodad");
        run(&format!("ip -n {name} -6 addr add {address}"));
        run(&format!("ip -n {name} link set {interface} up"));
    }

    /// Runs a command there that must succeed.
    pub fn run(&self, command: &str) -> String {
        run(&format!("ip netns exec {} {command}", self.name))
    }

    /// Runs a command there.
    pub fn output(&self, command: &str) -> Output {
        output(&format!("ip netns exec {} {command}", self.name))
    }

    /// Runs a Python program there that must succeed.
    pub fn python(&self, program: &str) {
        let command = ["netns", "exec", &self.name, "python3", "-c", program];
        let status = Command::new("ip").args(command).status();
        assert!(status.is_ok_and(|status| status.success()), "{program}");
    }

    /// Starts a program there that ends with the host.
    pub fn start(&mut self, command: &[&str]) {
        let child = Command::new("ip")
            .args(["netns", "exec", &self.name])
            .args(command)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.servers.push(child.expect("a program"));
    }

    /// Starts a server there that listens on `port`; it ends with the host.
    pub fn serve(&mut self, command: &str, port: u16) {
        self.start(&command.split_whitespace().collect::<Vec<_>>());
        let listening = format!("ss -Hltn sport = :{port}");
        wait_for(command, || !self.run(&listening).trim().is_empty());
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
        // The namespace's end would go with it, but later.
        if let Some(link) = &self.link {
            let _ = output(&format!("ip link del {link}"));
        }
        let _ = output(&format!("ip netns del {}", self.name));
    }
}

/// Bytes that look random, the same ones each time.
pub fn noise(bytes: u32) -> Vec<u8> {
    let noise = (0..bytes).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8);
    noise.collect()
}

/// A port's state.
pub fn state(switch: &SwitchClient, port: PortId) -> PortState {
    let ports = switch.ports().unwrap();
    ports.iter().find(|p| p.id == port).unwrap().state
}

/// How many descriptors a process has.
pub fn descriptors(process: i32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// A process's mappings.
pub fn mappings(process: i32) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    maps.lines().map(String::from).collect()
}

/// Memory of a process that is its own, in KiB.
pub fn anonymous(process: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse().unwrap()
}

/// Longest that anything here may take on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Waits for something to be so.
pub fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(started.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ping, a file by HTTP, and a TCP test of `bytes`, by IPv4 and IPv6, to the host 10.9.1.2; returns
/// the TCP test's rate.
pub fn exchange(from: &Host, to: &mut Host, bytes: &str) -> f64 {
    let (v4, v6) = ("10.9.1.2", "fd09:1::2");
    from.run(&format!("ping -q -c 3 -i 0.05 -W 2 {v4}"));
    from.run(&format!("ping -6 -q -c 3 -i 0.05 -W 2 {v6}"));
    from.run(&format!("ping -q -c 3 -i 0.05 -s 1472 -M do -W 2 {v4}"));
    let folder = std::env::temp_dir().join(unique("www"));
    std::fs::create_dir_all(&folder).unwrap();
    let file = noise(5_000_000);
    std::fs::write(folder.join("file"), &file).unwrap();
    to.serve(
        &format!(
            "python3 -m http.server --bind :: -d {} 8080",
            folder.display()
        ),
        8080,
    );
    for url in [
        format!("http://{v4}:8080/file"),
        format!("http://[{v6}]:8080/file"),
    ] {
        let got = from.output(&format!("curl -sS -g --max-time 20 {url}"));
        assert!(
            got.status.success(),
            "{url}: {}",
            String::from_utf8_lossy(&got.stderr)
        );
        assert!(got.stdout == file, "{url}: the file arrived changed");
    }
    std::fs::remove_dir_all(&folder).unwrap();
    to.serve("iperf3 -s", 5201);
    iperf(from, v6, bytes);
    iperf(from, v4, bytes)
}

/// Receiver's megabits per second of a TCP test of `bytes` from `from` to `server`.
pub fn iperf(from: &Host, server: &str, bytes: &str) -> f64 {
    let command = format!("iperf3 -J -c {server} -n {bytes} --connect-timeout 3000");
    let mut report = String::new();
    // A server that is still busy with the last test says so, resets the connection, or does not
    // listen for a moment.
    wait_for("iperf3's server is ready", || {
        report = String::from_utf8_lossy(&from.output(&command).stdout).into_owned();
        !["busy", "reset by peer", "refused"]
            .iter()
            .any(|word| report.contains(word))
    });
    let after = |text: &str, key: &str| text.find(key).map(|at| at + key.len());
    let rate = after(&report, "\"sum_received\":")
        .and_then(|at| Some(at + after(&report[at..], "\"bits_per_second\":")?))
        .unwrap_or_else(|| panic!("no rate in iperf3's report: {report}"));
    let rate = report[rate..].split([',', '}', '\n']).next();
    rate.and_then(|rate| rate.trim().parse::<f64>().ok())
        .expect("a number")
        / 1e6
}

/// A guest on lanes of this process, with interfaces of these addresses: its region, its doorbell
/// and its ports.
pub fn attach_to_lanes(
    lanes: &mut Lanes,
    slots: u32,
    macs: &[[u8; 6]],
    domain: u32,
    properties: &PortProperties,
) -> (Arc<SharedRegion>, OwnedFd, Vec<PortId>) {
    let memory = GuestMemory::with("guest", slots, macs);
    let ports = macs.iter().enumerate().map(|(i, &mac)| Attach {
        links: vec![Link::Guest(GuestLink::new(
            memory.region.switch_side(i).expect("an interface"),
            1500,
        ))],
        kind: PortKind::Guest,
        name: memory.names[i].clone(),
        domain,
        mac: Some(Mac(mac)),
        properties: properties.clone(),
        replaces: None,
        behind: None,
    });
    let doorbell = memory.doorbell.try_clone().expect("a copy");
    let ports = lanes.attach_guest(ports.collect(), doorbell, None);
    (memory.region, memory.doorbell, ports.expect("attached"))
}

/// A guest's region and doorbell, from outside.
pub struct GuestMemory {
    pub region: Arc<SharedRegion>,
    pub file: OwnedFd,
    pub doorbell: OwnedFd,
    names: Vec<String>,
    pub slots: u32,
}

impl GuestMemory {
    pub fn new(name: &str, slots: u32, interfaces: u8) -> GuestMemory {
        let macs: Vec<_> = (0..interfaces).map(|i| [2, 0, 0, 0, 9, i]).collect();
        GuestMemory::with(name, slots, &macs)
    }

    /// With interfaces of these addresses.
    pub fn with(name: &str, slots: u32, macs: &[[u8; 6]]) -> GuestMemory {
        let geometry = Geometry::new(slots, macs.len()).expect("a geometry");
        let names: Vec<String> = (0..macs.len()).map(|i| format!("{name}.eth{i}")).collect();
        let descriptors: Vec<Interface> = std::iter::zip(&names, macs)
            .map(|(name, &mac)| Interface::new(name, mac, 1500).expect("a name"))
            .collect();
        let (region, file) = SharedRegion::create(geometry, &descriptors).expect("a region");
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        GuestMemory {
            region: Arc::new(region),
            file,
            doorbell: rustix::event::eventfd(0, flags).expect("an eventfd"),
            names,
            slots,
        }
    }

    /// Attaches interface `i` to domain `domains[i]`.
    pub fn attach(&self, switch: &SwitchClient, domains: &[u32]) -> Vec<PortId> {
        self.attach_with(switch, domains, &PortProperties::default())
    }

    /// The same, with properties.
    pub fn attach_with(
        &self,
        switch: &SwitchClient,
        domains: &[u32],
        properties: &PortProperties,
    ) -> Vec<PortId> {
        let interfaces = self.names.iter().zip(domains);
        let interfaces = interfaces.map(|(name, &domain)| GuestInterface {
            name: name.clone(),
            domain,
            mtu: 1500,
            mac: None,
            properties: properties.clone(),
            replaces: None,
            behind: None,
        });
        let guest = Guest {
            region: self.file.as_fd(),
            doorbell: self.doorbell.as_fd(),
            shared: None,
            waits: None,
            slots: self.slots,
            interfaces: interfaces.collect(),
        };
        switch.attach_guest(guest).expect("attached")
    }
}

/// What a guest saw.
#[derive(Default)]
pub struct Seen {
    pub frames: AtomicU64,
    pub too_long: AtomicU64,
    pub bad_checksums: AtomicU64,
    pub sleeps: AtomicU64,
}

/// A guest that passes every frame from one of its two interfaces to the other, by swapping
/// buffers, and sleeps when there is nothing to do.
pub struct Wire {
    stop: Arc<AtomicBool>,
    pub seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    pub fn start(memory: &GuestMemory) -> Wire {
        let side = |i| memory.region.guest_side(i).expect("an interface");
        let mut sides = [side(0), side(1)];
        let doorbell = memory.doorbell.try_clone().expect("a copy");
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
        let (stopped, sees) = (Arc::clone(&stop), Arc::clone(&seen));
        let thread = std::thread::spawn(move || {
            let mut idle = 0;
            while !stopped.load(Ordering::Relaxed) {
                let [a, b] = &mut sides;
                let moved = pass(a, b, &doorbell, &sees) + pass(b, a, &doorbell, &sees);
                idle = if moved == 0 { idle + 1 } else { 0 };
                if idle > 200 {
                    sees.sleeps.fetch_add(1, Ordering::Relaxed);
                    sleep(&mut sides);
                    idle = 0;
                }
            }
        });
        Wire {
            stop,
            seen,
            thread: Some(thread),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn pass(from: &mut GuestSide, to: &mut GuestSide, doorbell: &OwnedFd, seen: &Seen) -> u32 {
    let filled = from.receive.filled(1).expect("an honest switch");
    let free = to.transmit.free(filled).expect("an honest switch");
    let n = filled.min(free);
    for i in 0..n {
        let slot = from.receive.peek(i);
        inspect(from, slot, seen);
        let spent = to.transmit.peek(i);
        from.receive.replace(i, spent.buffer);
        let slot = Slot {
            offset: slot.offset,
            len: slot.len,
            ..Slot::spent(slot.buffer)
        };
        to.transmit.fill(i, slot);
    }
    if n > 0 {
        from.receive.release(n);
        to.transmit.publish(n);
        if to.transmit.consumer_sleeps() {
            rustix::io::write(doorbell, &1u64.to_ne_bytes()).expect("a doorbell");
        }
    }
    n
}

/// Checks that a frame is as a guest may expect it.
fn inspect(side: &GuestSide, slot: Slot, seen: &Seen) {
    let mut frame = vec![0; usize::from(slot.len)];
    side.region.frame(slot).expect("a frame").read(&mut frame);
    seen.frames.fetch_add(1, Ordering::Relaxed);
    if frame.len() > 1514 {
        seen.too_long.fetch_add(1, Ordering::Relaxed);
    }
    if !transport_checksum_is_right(&frame) {
        seen.bad_checksums.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether a frame's TCP or UDP checksum is right; true for what is neither.
fn transport_checksum_is_right(frame: &[u8]) -> bool {
    let (addresses, protocol, l4, end) = match (frame[12], frame[13]) {
        (0x08, 0x00) => {
            let header = usize::from(frame[14] & 15) * 4;
            let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
            (&frame[26..34], frame[23], 14 + header, 14 + total)
        }
        (0x86, 0xdd) => {
            let payload = usize::from(u16::from_be_bytes([frame[18], frame[19]]));
            (&frame[22..54], frame[20], 54, 54 + payload)
        }
        _ => return true,
    };
    if (protocol != 6 && protocol != 17) || end > frame.len() || l4 > end {
        return true;
    }
    let mut bytes = addresses.to_vec();
    bytes.extend([0, protocol]);
    bytes.extend(((end - l4) as u16).to_be_bytes());
    bytes.extend(&frame[l4..end]);
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

/// Sleeps until the switch wakes the guest, or 50 ms.
fn sleep(sides: &mut [GuestSide; 2]) {
    let region = sides[0].region;
    let word = region.wake_word();
    let before = word.load(Ordering::SeqCst);
    for side in sides.iter() {
        side.receive.set_sleeps(true);
    }
    let quiet = sides.iter_mut().all(|side| side.receive.filled(1) == Ok(0));
    if quiet {
        let timeout = rustix::thread::Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        let _ = futex::wait(word, futex::Flags::empty(), before, Some(&timeout));
    }
    for side in sides.iter() {
        side.receive.set_sleeps(false);
    }
}

/// Runs this program again, to play a switch's parent that can be killed: it finds `value` in the
/// variable, and prints the switch's process id when that is ready.
pub fn played_parent(variable: &str, value: &std::ffi::OsStr) -> (Child, i32) {
    use std::io::{BufRead, BufReader};
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .env(variable, value)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(parent.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    (
        parent,
        line.trim().parse().expect("the switch's process id"),
    )
}
