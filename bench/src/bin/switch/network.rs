//! Two hosts and what stands between them.
//!
//! The hosts are network namespaces with an interface `eth0` each; its other end, `left` or
//! `right`, stands in a third namespace, where whatever forwards runs. A namespace is held by a
//! process that dies with this one, and takes its interfaces along; so do the programs in it. So
//! nothing stays behind, whatever ends the program.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bench::firewall::{self, Rule};
use weir::lab::{Namespace, Runner, ip};

use crate::Failure;

/// How long a command may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The hosts' station addresses.
pub const STATIONS: [&str; 2] = ["02:00:00:08:00:01", "02:00:00:08:00:02"];
/// The hosts' IP addresses.
pub const ADDRESSES: [&str; 2] = ["10.8.0.1", "10.8.0.2"];
/// Whom the sender's frames are for: nobody, so that the receiving kernel drops them at once.
pub const NOBODY: [u8; 6] = [2, 0, 0, 8, 0, 0x99];
/// The outer ends of the hosts' interfaces.
const ENDS: [&str; 2] = ["left", "right"];

/// The sockets by which frames come from interfaces and go to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    Xdp,
    Packet,
}

/// What a guest is confined by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wall {
    Vm,
    Process,
}

/// What forwards frames from one host to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarder {
    /// A firewall guest behind a wall, on sockets of a kind.
    Weir(Wall, Socket),
    /// Linux's bridge with nftables.
    Nftables,
    /// Open vSwitch's userspace datapath, on sockets of a kind.
    Ovs(Socket),
    /// Linux's bridge, which lets everything pass: what the interfaces can do.
    Bridge,
}

impl Forwarder {
    /// All, in the order of the tables.
    pub const ALL: [Forwarder; 8] = [
        Forwarder::Weir(Wall::Vm, Socket::Xdp),
        Forwarder::Weir(Wall::Vm, Socket::Packet),
        Forwarder::Weir(Wall::Process, Socket::Xdp),
        Forwarder::Weir(Wall::Process, Socket::Packet),
        Forwarder::Nftables,
        Forwarder::Ovs(Socket::Xdp),
        Forwarder::Ovs(Socket::Packet),
        Forwarder::Bridge,
    ];

    /// In tables.
    pub fn name(self) -> &'static str {
        match self {
            Forwarder::Weir(Wall::Vm, Socket::Xdp) => "Weir (VM), AF_XDP",
            Forwarder::Weir(Wall::Vm, Socket::Packet) => "Weir (VM), AF_PACKET",
            Forwarder::Weir(Wall::Process, Socket::Xdp) => "Weir (process), AF_XDP",
            Forwarder::Weir(Wall::Process, Socket::Packet) => "Weir (process), AF_PACKET",
            Forwarder::Nftables => "Linux bridge, nftables",
            Forwarder::Ovs(Socket::Xdp) => "Open vSwitch, AF_XDP",
            Forwarder::Ovs(Socket::Packet) => "Open vSwitch, AF_PACKET",
            Forwarder::Bridge => "Linux bridge, no rules",
        }
    }

    /// In plots.
    pub fn short(self) -> &'static str {
        match self {
            Forwarder::Weir(Wall::Vm, Socket::Xdp) => "Weir VM, XDP",
            Forwarder::Weir(Wall::Vm, Socket::Packet) => "Weir VM, packet",
            Forwarder::Weir(Wall::Process, Socket::Xdp) => "Weir proc., XDP",
            Forwarder::Weir(Wall::Process, Socket::Packet) => "Weir proc., packet",
            Forwarder::Nftables => "bridge, nftables",
            Forwarder::Ovs(Socket::Xdp) => "OVS, XDP",
            Forwarder::Ovs(Socket::Packet) => "OVS, packet",
            Forwarder::Bridge => "bridge alone",
        }
    }

    /// Whether this is Weir.
    pub fn is_ours(self) -> bool {
        matches!(self, Forwarder::Weir(..))
    }

    /// Whether it is what Weir is compared with.
    pub fn is_peer(self) -> bool {
        matches!(self, Forwarder::Nftables | Forwarder::Ovs(_))
    }

    /// Whether it completes checksums that a veth pair's other end has left undone. What does not,
    /// needs hosts that leave none.
    fn completes_checksums(self) -> bool {
        !matches!(self, Forwarder::Ovs(_))
    }

    /// The programs that it needs and the Debian package that they come with.
    fn needs(self) -> (&'static [&'static str], &'static str) {
        match self {
            Forwarder::Weir(..) | Forwarder::Bridge => (&[], ""),
            Forwarder::Nftables => (&["nft"], "nftables"),
            Forwarder::Ovs(_) => (
                &[
                    "ovsdb-tool",
                    "ovsdb-server",
                    "ovs-vswitchd",
                    "ovs-vsctl",
                    "ovs-ofctl",
                ],
                "openvswitch-switch",
            ),
        }
    }

    /// What of it is not installed, in a sentence.
    pub fn missing(self) -> Option<String> {
        if matches!(self, Forwarder::Weir(Wall::Vm, _)) && !Path::new("/dev/kvm").exists() {
            return Some(format!("{} is left out: there is no /dev/kvm", self.name()));
        }
        let (programs, package) = self.needs();
        let missing = programs.iter().find(|program| !is_installed(program))?;
        Some(format!(
            "{} is left out: {missing} is missing (apt-get install {package})",
            self.name()
        ))
    }
}

/// Whether a program can be found.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Two hosts, what forwards between them, and what it needs to go on.
pub struct Network {
    pub hosts: [Namespace; 2],
    programs: Vec<Program>,
    folder: Option<Folder>,
    middle: Namespace,
    runner: Runner,
}

impl Network {
    /// Two hosts with `forwarder` between them, which lets pass what `rules` say.
    pub fn new(forwarder: Forwarder, rules: &[Rule], runner: &Runner) -> Result<Network, Failure> {
        let middle = Namespace::new(runner)?;
        let hosts = [Namespace::new(runner)?, Namespace::new(runner)?];
        let hosts_and_names = hosts.iter().zip(ENDS).zip(STATIONS.iter().zip(ADDRESSES));
        for ((host, end), (station, address)) in hosts_and_names {
            let (pid, middle) = (host.pid(), middle.pid());
            let pair = format!(
                "link add {end} netns {middle} type veth peer name eth0 address {station} netns {pid}"
            );
            runner.run(ip(&pair), LIMIT)?;
            for command in [
                // So that the kernel has nothing to say by itself.
                "link set eth0 addrgenmode none up".to_string(),
                format!("addr add {address}/24 dev eth0"),
            ] {
                runner.run(host.command("ip", &command), LIMIT)?;
            }
        }
        let mut network = Network {
            hosts,
            programs: Vec::new(),
            folder: None,
            middle,
            runner: runner.clone(),
        };
        for end in ENDS {
            network.in_middle("ip", &format!("link set {end} addrgenmode none up"))?;
        }
        match forwarder {
            Forwarder::Weir(wall, socket) => network.weir(wall, socket, rules)?,
            Forwarder::Bridge => network.bridge()?,
            Forwarder::Nftables => {
                network.bridge()?;
                network.nftables(rules)?;
            }
            Forwarder::Ovs(socket) => network.open_vswitch(socket, rules)?,
        }
        if !forwarder.completes_checksums() {
            network.on_hosts("ethtool", "-K eth0 tx off")?;
        }
        Ok(network)
    }

    /// The processes that hold the hosts.
    pub fn pids(&self) -> (u32, u32) {
        (self.hosts[0].pid(), self.hosts[1].pid())
    }

    /// Runs a command on both hosts.
    pub fn on_hosts(&self, program: &str, arguments: &str) -> Result<(), Failure> {
        for host in &self.hosts {
            self.runner.run(host.command(program, arguments), LIMIT)?;
        }
        Ok(())
    }

    fn in_middle(&self, program: &str, arguments: &str) -> Result<String, Failure> {
        let command = self.middle.command(program, arguments);
        Ok(self.runner.run(command, LIMIT)?)
    }

    fn weir(&mut self, wall: Wall, socket: Socket, rules: &[Rule]) -> Result<(), Failure> {
        let folder = Folder::new()?;
        let config = folder.0.join("firewall.click");
        std::fs::write(&config, click(rules))?;
        let weir = std::env::var("WEIR").unwrap_or("weir".into());
        let (wall, socket) = match (wall, socket) {
            (Wall::Vm, Socket::Xdp) => ("vm", "xdp"),
            (Wall::Vm, Socket::Packet) => ("vm", "packet"),
            (Wall::Process, Socket::Xdp) => ("process", "xdp"),
            (Wall::Process, Socket::Packet) => ("process", "packet"),
        };
        let arguments = format!(
            "run {} --json --name bench{} --isolation {wall} --ring-slots 2048 --link left={socket}:left --link right={socket}:right",
            config.display(),
            std::process::id(),
        );
        let command = self.middle.command(&weir, &arguments);
        let program = Program::start(command, Some("\"running\""))?;
        self.programs.push(program);
        self.folder = Some(folder);
        Ok(())
    }

    fn bridge(&self) -> Result<(), Failure> {
        self.in_middle("ip", "link add bridge type bridge")?;
        for end in ENDS {
            self.in_middle("ip", &format!("link set {end} master bridge"))?;
        }
        self.in_middle("ip", "link set bridge addrgenmode none up")?;
        // Who is where is known, as Weir's guest and Open vSwitch's flows know it.
        for (end, station) in ENDS.iter().zip(STATIONS) {
            let entry = format!("fdb replace {station} dev {end} master static");
            self.in_middle("bridge", &entry)?;
        }
        let nobody = NOBODY.map(|byte| format!("{byte:02x}")).join(":");
        let entry = format!("fdb replace {nobody} dev {} master static", ENDS[1]);
        self.in_middle("bridge", &entry)?;
        Ok(())
    }

    fn nftables(&mut self, rules: &[Rule]) -> Result<(), Failure> {
        let folder = Folder::new()?;
        let file = folder.0.join("rules");
        std::fs::write(&file, firewall::peers::nftables(rules))?;
        self.in_middle("nft", &format!("-f {}", file.display()))?;
        Ok(())
    }

    /// Starts Open vSwitch's two programs on sockets and a database of their own.
    fn open_vswitch(&mut self, socket: Socket, rules: &[Rule]) -> Result<(), Failure> {
        let folder = Folder::new()?;
        let path = folder.0.display().to_string();
        let database = format!("{path}/conf.db");
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        self.in_middle("ovsdb-tool", &format!("create {database} {schema}"))?;
        let start = |program: &str, arguments: &str| {
            let mut command = self.middle.command(program, arguments);
            for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
                command.env(variable, &path);
            }
            Program::start(command, None)
        };
        let server = format!(
            "{database} --remote=punix:{path}/db.sock --unixctl={path}/db.ctl --no-chdir --verbose=off"
        );
        let server = start("ovsdb-server", &server)?;
        self.programs.push(server);
        wait_for("ovsdb-server's socket", || {
            folder.0.join("db.sock").exists()
        })?;
        let control = |arguments: &str| {
            let arguments = format!("--db=unix:{path}/db.sock --timeout=10 {arguments}");
            self.in_middle("ovs-vsctl", &arguments)
        };
        control("--no-wait init")?;
        let switch =
            format!("unix:{path}/db.sock --unixctl={path}/vs.ctl --no-chdir --verbose=off");
        let mut command = self.middle.command("ovs-vswitchd", &switch);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(variable, &path);
        }
        let switch = Program::start(command, None)?;
        let bridge = "ovs0";
        control(&format!(
            "add-br {bridge} -- set bridge {bridge} datapath_type=netdev fail-mode=secure"
        ))?;
        for (number, end) in (1..).zip(ENDS) {
            let options = match socket {
                Socket::Xdp => "type=afxdp options:n_rxq=1 options:xdp-mode=native",
                Socket::Packet => "type=system",
            };
            control(&format!(
                "add-port {bridge} {end} -- set interface {end} ofport_request={number} {options}"
            ))?;
            let error = control(&format!("get interface {end} error"))?;
            if error.trim() != "[]" {
                return Err(
                    format!("Open vSwitch does not take the port: {}", error.trim()).into(),
                );
            }
        }
        let flows = folder.0.join("flows");
        std::fs::write(&flows, firewall::peers::openflow(rules))?;
        let management = format!("unix:{path}/{bridge}.mgmt");
        self.in_middle(
            "ovs-ofctl",
            &format!("add-flows {management} {}", flows.display()),
        )?;
        self.programs.insert(0, switch);
        self.folder = Some(folder);
        Ok(())
    }
}

/// The firewall as a Click configuration.
fn click(rules: &[Rule]) -> String {
    let filter = firewall::filter(rules);
    let filter = filter.trim_end();
    format!(
        "elementclass Filter {{
           input -> kind :: Classifier(12/0806, 12/0800, -) -> output;
           kind[1] -> CheckIPHeader(14) -> rules :: IPFilter({filter}) -> output;
           rules[1] -> Discard;
           kind[2] -> Discard;
         }}
         FromNetfront(left) -> Filter -> ToNetfront(right);
         FromNetfront(right) -> Filter -> ToNetfront(left);"
    )
}

/// A program that ends when this value does, or this process.
struct Program(Child);

impl Program {
    /// Starts a program, and waits for a line of its output with `sign` in it, if there is one.
    fn start(command: Command, sign: Option<&str>) -> Result<Program, Failure> {
        let mut mortal = Command::new("setpriv");
        mortal.args(["--pdeathsig", "KILL"]);
        mortal.arg(command.get_program()).args(command.get_args());
        let set = |(name, value): (&std::ffi::OsStr, Option<&std::ffi::OsStr>)| {
            value.map(|value| (name.to_owned(), value.to_owned()))
        };
        mortal.envs(command.get_envs().filter_map(set));
        let shown = format!("{command:?}");
        mortal.stdin(Stdio::null()).stderr(Stdio::piped());
        mortal.stdout(match sign {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        });
        if sign.is_none() {
            mortal.stderr(Stdio::null());
        }
        let mut program = Program(mortal.spawn()?);
        if let (Some(sign), Some(output)) = (sign, program.0.stdout.take()) {
            let mut lines = BufReader::new(output).lines();
            if !lines.any(|line| line.is_ok_and(|line| line.contains(sign))) {
                let mut said = String::new();
                if let Some(errors) = program.0.stderr.take() {
                    let _ = std::io::Read::read_to_string(&mut { errors }, &mut said);
                }
                return Err(format!("{shown} did not start: {}", said.trim()).into());
            }
            // It goes on to say things, which nobody reads; what it says is less than a pipe holds.
            std::mem::forget(lines);
        }
        Ok(program)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A temporary folder.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, Failure> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-bench{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder)?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.0));
    }
}

fn wait_for(what: &str, mut so: impl FnMut() -> bool) -> Result<(), Failure> {
    let start = Instant::now();
    while !so() {
        if start.elapsed() > Duration::from_secs(5) {
            return Err(format!("never came: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
