//! Two hosts and a forwarder between them.
//!
//! The hosts are network namespaces with an interface `eth0` each. Its other end, `left` or `right`, is
//! in a third namespace, where the forwarder runs. A process that dies with this one holds each
//! namespace. So namespaces, interfaces and programs are removed, however this program ends.

use std::time::{Duration, Instant};

use bench::firewall::{self, Rule};
use weir::lab::{Namespace, Runner, ip};

use super::Failure;
use super::forwarder::{Forwarder, Socket, Wall};
use super::programs::{Folder, Program};

/// How long a command may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The hosts' station addresses.
pub const STATIONS: [&str; 2] = ["02:00:00:08:00:01", "02:00:00:08:00:02"];
/// The hosts' IP addresses.
pub const ADDRESSES: [&str; 2] = ["10.8.0.1", "10.8.0.2"];
/// Receiver of the sender's frames: no station, so that the receiving kernel drops them at once.
pub const NOBODY: [u8; 6] = [2, 0, 0, 8, 0, 0x99];
/// The outer ends of the hosts' interfaces.
const ENDS: [&str; 2] = ["left", "right"];

/// Two hosts, the forwarder between them, and its processes.
pub struct Network {
    pub hosts: [Namespace; 2],
    programs: Vec<Program>,
    folder: Option<Folder>,
    middle: Namespace,
    runner: Runner,
}

impl Network {
    /// Two hosts with `forwarder` between them, which filters by `rules`.
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
                // So that the kernel sends no frames of its own.
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
            Forwarder::Weir(wall, socket) => network.weir(wall, socket, false, rules)?,
            Forwarder::Settled(wall) => network.weir(wall, Socket::Packet, true, rules)?,
            Forwarder::Bridge => network.bridge()?,
            Forwarder::Copier => network.copier()?,
            Forwarder::Nftables | Forwarder::NftablesGro => {
                network.bridge()?;
                if forwarder == Forwarder::NftablesGro {
                    for end in ENDS {
                        network.in_middle("ethtool", &format!("-K {end} gro on"))?;
                    }
                }
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

    fn weir(
        &mut self,
        wall: Wall,
        socket: Socket,
        settles: bool,
        rules: &[Rule],
    ) -> Result<(), Failure> {
        let folder = Folder::new()?;
        let config = folder.0.join("firewall.click");
        std::fs::write(&config, click(rules, settles))?;
        let settle = if settles { "on" } else { "off" };
        let weir = std::env::var("WEIR").unwrap_or("weir".into());
        let (wall, socket) = match (wall, socket) {
            (Wall::Vm, Socket::Xdp) => ("vm", "xdp"),
            (Wall::Vm, Socket::Packet) => ("vm", "packet"),
            (Wall::Process, Socket::Xdp) => ("process", "xdp"),
            (Wall::Process, Socket::Packet) => ("process", "packet"),
        };
        let arguments = format!(
            "run {} --json --name bench{} --isolation {wall} --ring-slots 2048 --settle {settle} --link left={socket}:left --link right={socket}:right",
            config.display(),
            std::process::id(),
        );
        let command = self.middle.command(&weir, &arguments);
        let program = Program::start(command, Some("\"running\""))?;
        self.programs.push(program);
        self.folder = Some(folder);
        Ok(())
    }

    fn copier(&mut self) -> Result<(), Failure> {
        let this = std::env::current_exe()?;
        let arguments = format!("switch copy {} {}", ENDS[0], ENDS[1]);
        let command = self.middle.command(&this.to_string_lossy(), &arguments);
        self.programs
            .push(Program::start(command, Some("running"))?);
        Ok(())
    }

    fn bridge(&self) -> Result<(), Failure> {
        self.in_middle("ip", "link add bridge type bridge")?;
        for end in ENDS {
            self.in_middle("ip", &format!("link set {end} master bridge"))?;
        }
        self.in_middle("ip", "link set bridge addrgenmode none up")?;
        // Static entries: Weir's guest and Open vSwitch's flows learn no addresses either.
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
            let arguments = format!("{arguments} --no-chdir --verbose=off");
            let mut command = self.middle.command(program, &arguments);
            for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
                command.env(variable, &path);
            }
            Program::start(command, None)
        };
        let server = format!("{database} --remote=punix:{path}/db.sock --unixctl={path}/db.ctl");
        let server = start("ovsdb-server", &server)?;
        wait_for("ovsdb-server's socket", || {
            folder.0.join("db.sock").exists()
        })?;
        let control = |arguments: &str| {
            let arguments = format!("--db=unix:{path}/db.sock --timeout=10 {arguments}");
            self.in_middle("ovs-vsctl", &arguments)
        };
        control("--no-wait init")?;
        let switch = format!("unix:{path}/db.sock --unixctl={path}/vs.ctl");
        let switch = start("ovs-vswitchd", &switch)?;
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
        // The switch ends before its database.
        self.programs.extend([switch, server]);
        self.folder = Some(folder);
        Ok(())
    }
}

/// The firewall as a Click configuration.
fn click(rules: &[Rule], settles: bool) -> String {
    let filter = firewall::filter(rules);
    let filter = filter.trim_end();
    let settle = if settles { "-> SettleFlows" } else { "" };
    format!(
        "elementclass Filter {{
           input -> kind :: Classifier(12/0806, 12/0800, -) -> output;
           kind[1] -> CheckIPHeader(14) -> rules :: IPFilter({filter}) -> output;
           rules[1] -> Discard;
           kind[2] -> Discard;
         }}
         FromNetfront(left) -> Filter {settle} -> ToNetfront(right);
         FromNetfront(right) -> Filter {settle} -> ToNetfront(left);"
    )
}

fn wait_for(what: &str, mut so: impl FnMut() -> bool) -> Result<(), Failure> {
    let start = Instant::now();
    while !so() {
        if start.elapsed() > Duration::from_secs(5) {
            return Err(format!("timeout: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
