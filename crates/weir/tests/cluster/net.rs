//! Hosts in namespaces, each with its node and its agent, and an etcd of one or three members.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use node::model::Guest;
use node::tls::Files;
use serde_json::Value;
use weir::lab::{Namespace, Runner, Service};

use crate::common::{Authority, Host, LIMIT, until};

/// Port of the nodes.
const PORT: u16 = 6640;
/// The address of etcd's members.
const ETCD: &str = "10.98.0.1";

/// Sends five VXLAN packets by `br0`: to an Ethernet address, from an IPv6 address, to another.
const FORGE: &str = r#"
import socket, struct, sys
mac, source, destination = sys.argv[1:]
ends = b"".join(socket.inet_pton(socket.AF_INET6, it) for it in (source, destination))
inner = b"\xff" * 6 + b"\x02\0\0\0\0\x09" + b"\x88\xb5" + b"forged" * 10
data = struct.pack("!II", 0x08000000, 1 << 8) + inner
udp = struct.pack("!HHHH", 4789, 4789, 8 + len(data), 0) + data
words = ends + struct.pack("!II", len(udp), 17) + udp + b"\0" * (len(udp) % 2)
total = sum(struct.unpack("!%dH" % (len(words) // 2), words))
while total >> 16:
    total = (total & 0xffff) + (total >> 16)
udp = udp[:6] + struct.pack("!H", total ^ 0xffff or 0xffff) + udp[8:]
packet = struct.pack("!IHBB", 6 << 28, len(udp), 17, 64) + ends + udp
ethernet = bytes.fromhex(mac.replace(":", "")) + b"\x02\0\0\0\0\x08" + b"\x86\xdd"
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind(("br0", 0))
for _ in range(5):
    raw.send(ethernet + packet)
"#;

/// Hosts, an etcd and what is between them. Each host is on a bridge by `m0`.
pub struct Net {
    pub hosts: Vec<Host>,
    pub agents: Vec<Option<Child>>,
    pub etcd: Vec<Option<Service>>,
    pub authority: Authority,
    /// The certificate of each host.
    pub files: Vec<Files>,
    pub folder: PathBuf,
    spaces: Vec<Namespace>,
    core: Namespace,
    members: usize,
    /// The role of each host at the nodes of the others.
    role: &'static str,
}

pub fn ip(namespace: &Namespace, arguments: &str) {
    let command = namespace.command("ip", arguments);
    Runner::default().run(command, LIMIT).unwrap();
}

impl Net {
    /// So many hosts whose nodes run, and so many members of etcd; no cluster yet.
    pub fn new(tag: &str, hosts: usize, members: usize) -> Net {
        // Commands ask the nodes of other hosts by the certificate of their own.
        Net::with_role(tag, hosts, members, "operator")
    }

    /// The same with another role of each host at the nodes of the others than that of an operator.
    pub fn with_role(tag: &str, hosts: usize, members: usize, role: &'static str) -> Net {
        let make = || Namespace::new(&Runner::default()).unwrap();
        let core = make();
        ip(&core, "link add br0 type bridge");
        ip(&core, "link set br0 up");
        ip(&core, &format!("addr add {ETCD}/24 dev br0"));
        let folder =
            std::env::temp_dir().join(format!("weir-cluster-{}-{tag}", std::process::id()));
        let authority = Authority::new(&folder);
        authority.sign("etcd", &[ETCD]);
        let mut net = Net {
            hosts: Vec::new(),
            agents: Vec::new(),
            etcd: (0..members).map(|_| None).collect(),
            authority,
            files: Vec::new(),
            folder,
            spaces: Vec::new(),
            core,
            members,
            role,
        };
        for member in 0..members {
            net.start_etcd(member);
        }
        for number in 0..hosts {
            net.add_host(number);
        }
        net
    }

    fn add_host(&mut self, number: usize) {
        let space = Namespace::new(&Runner::default()).unwrap();
        let pid = space.pid();
        let port = format!("m{number}");
        ip(
            &self.core,
            &format!("link add {port} type veth peer name m0 netns {pid}"),
        );
        ip(&self.core, &format!("link set {port} master br0 up"));
        ip(&space, "link set m0 up");
        let address = self.address(number);
        ip(&space, &format!("addr add {address}/24 dev m0"));
        let name = self.name(number);
        let files = self.authority.sign(&name, &[&address]);
        let roles: String = (0..8)
            .map(|it| format!("{} = '{}'\n", self.name(it), self.role))
            .collect();
        let settings = self.folder.join("node.toml");
        std::fs::write(&settings, format!("[roles]\n{roles}")).unwrap();
        let options = format!(
            "--listen {address}:{PORT} --tls-cert {} --tls-key {} --tls-client-ca {} --config {}",
            files.cert.display(),
            files.key.display(),
            files.ca.display(),
            settings.display()
        );
        let options: Vec<_> = options.split(' ').collect();
        let host = Host::inside(Some(&space), &options);
        host.ok("stub create lan");
        self.hosts.push(host);
        self.agents.push(None);
        self.files.push(files);
        self.spaces.push(space);
    }

    pub fn name(&self, number: usize) -> String {
        ["a", "b", "c", "d", "e", "f", "g", "h"][number].into()
    }

    pub fn address(&self, number: usize) -> String {
        format!("10.98.0.{}", 11 + number)
    }

    pub fn endpoint(member: usize) -> String {
        format!("https://{ETCD}:{}", 2379 + 10 * member)
    }

    pub fn endpoints(&self) -> String {
        let all: Vec<_> = (0..self.members).map(Net::endpoint).collect();
        all.join(",")
    }

    /// Starts a member of etcd, which goes on where it was, and does not wait for it.
    pub fn start_etcd(&mut self, member: usize) {
        let peer = |member: usize| format!("https://{ETCD}:{}", 2380 + 10 * member);
        let all: Vec<_> = (0..self.members)
            .map(|it| format!("m{it}={}", peer(it)))
            .collect();
        let (own, client) = (peer(member), Net::endpoint(member));
        let file = |name: &str| self.folder.join(name).display().to_string();
        let data = self.folder.join(format!("m{member}"));
        let arguments = format!(
            "--name m{member} --initial-cluster {} --listen-client-urls {client} --advertise-client-urls {client} \
             --listen-peer-urls {own} --initial-advertise-peer-urls {own} --data-dir {} \
             --client-cert-auth --trusted-ca-file {ca} --cert-file {cert} --key-file {key} \
             --peer-client-cert-auth --peer-trusted-ca-file {ca} --peer-cert-file {cert} --peer-key-file {key}",
            all.join(","),
            data.display(),
            ca = file("ca.pem"),
            cert = file("etcd.pem"),
            key = file("etcd.key"),
        );
        let service = self.core.service("etcd", &arguments).unwrap();
        self.etcd[member] = Some(service);
    }

    /// What `init` and `join` are told of a host.
    pub fn joining(&self, number: usize) -> String {
        let files = &self.files[number];
        format!(
            "--etcd {} --tls-cert {} --tls-key {} --tls-ca {} --name {} --address {}:{PORT} --memory 256M",
            self.endpoints(),
            files.cert.display(),
            files.key.display(),
            files.ca.display(),
            self.name(number),
            self.address(number)
        )
    }

    /// Makes a cluster of all hosts, whose agents run.
    pub fn cluster(&mut self, options: &str) {
        self.cluster_with(options, |_| "");
    }

    /// The same with options of each host that joins.
    pub fn cluster_with(&mut self, options: &str, joins: impl Fn(usize) -> &'static str) {
        self.until_etcd();
        let joining = self.joining(0);
        self.hosts[0].ok(&format!("cluster init {joining} {options}"));
        for number in 1..self.hosts.len() {
            let joining = self.joining(number);
            let own = joins(number);
            self.hosts[number].ok(format!("cluster join {joining} {own}").trim_end());
        }
        for number in 0..self.hosts.len() {
            self.start_agent(number);
        }
        let count = self.hosts.len();
        until("not all hosts are up", || self.up().len() == count);
        until("no host leads", || self.leader().is_some());
    }

    /// Waits until etcd has a leader.
    pub fn until_etcd(&self) {
        until("etcd does not start", || self.etcdctl("get x"));
    }

    /// Asks etcd by its own client.
    pub fn etcdctl(&self, command: &str) -> bool {
        self.ask_etcd(command).status.success()
    }

    /// The value of a key; none: it is empty.
    pub fn etcd_value(&self, key: &str) -> String {
        let output = self.ask_etcd(&format!("get {key} --print-value-only"));
        String::from_utf8(output.stdout).unwrap()
    }

    fn ask_etcd(&self, command: &str) -> Output {
        let mut command = self.core.command("etcdctl", command);
        self.as_client(&mut command, &self.files[0]);
        command.output().unwrap()
    }

    /// A script of calls of etcd's own client, which shows this certificate.
    pub fn etcd_script(&self, files: &Files, script: &str) -> Output {
        let mut command = self.core.command("sh", "-e -c");
        command.arg(script);
        self.as_client(&mut command, files);
        command.output().unwrap()
    }

    fn as_client(&self, command: &mut Command, files: &Files) {
        command
            .env("ETCDCTL_API", "3")
            .env("ETCDCTL_ENDPOINTS", self.endpoints())
            .env("ETCDCTL_CACERT", &files.ca)
            .env("ETCDCTL_CERT", &files.cert)
            .env("ETCDCTL_KEY", &files.key);
    }

    pub fn start_agent(&mut self, number: usize) {
        let metrics = self.metrics_address(number);
        let mut command = self.hosts[number].weir(&["cluster", "agent", "--metrics", &metrics]);
        let log = self.folder.join(format!("agent-{number}.log"));
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0);
        self.agents[number] = Some(command.spawn().unwrap());
    }

    fn metrics_address(&self, number: usize) -> String {
        format!("{}:6641", self.address(number))
    }

    /// A metric of an agent, with its labels; none: the agent does not tell it.
    pub fn metric(&self, number: usize, name: &str) -> Option<u64> {
        let address = self.metrics_address(number);
        let ask = format!("-s http://{address}/metrics");
        let output = self.core.command("curl", &ask).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let (_, value) = lines.find(|(it, _)| *it == name)?;
        value.parse().ok()
    }

    /// Kills an agent and its guard at once.
    pub fn kill_agent(&mut self, number: usize) {
        let Some(mut agent) = self.agents[number].take() else {
            return;
        };
        let group = format!("-{}", agent.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = agent.wait();
    }

    /// The processes of a host's agent: its guard and itself.
    pub fn agent_processes(&self, number: usize) -> Vec<u32> {
        let group = self.agents[number].as_ref().map_or(0, Child::id);
        let processes = std::fs::read_dir("/proc").unwrap();
        let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let is_member = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // State, parent, group.
            let fields = stat.rsplit(')').next().unwrap_or_default();
            let group_of = fields.split_whitespace().nth(2);
            group_of.and_then(|it| it.parse().ok()) == Some(group)
        };
        pids.filter(is_member).collect()
    }

    /// The process of a host's switch, if its node answers.
    pub fn switch(&self, number: usize) -> Option<u32> {
        self.hosts[number].client().node().ok()?.switch_pid
    }

    /// The process of one of a host's guests.
    pub fn guest_process(&self, number: usize, which: u64) -> Option<u32> {
        let guests = self.hosts[number].client().list::<Guest>().ok()?;
        let pids: Vec<_> = guests.iter().filter_map(|it| it.status.pid).collect();
        let which = which.checked_rem(pids.len() as u64)?;
        Some(pids[which as usize])
    }

    /// The names of all keys of the cluster below a folder.
    pub fn etcd_keys(&self, folder: &str) -> String {
        let output = self.ask_etcd(&format!("get --prefix --keys-only /weir/{folder}"));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What agents said, to find out why a test fails.
    pub fn logs(&self) -> String {
        let logs = (0..self.hosts.len()).map(|number| {
            let path = self.folder.join(format!("agent-{number}.log"));
            let text = std::fs::read_to_string(path).unwrap_or_default();
            format!("--- {}\n{text}", self.name(number))
        });
        logs.collect()
    }

    /// Gives each host a link `eth1`, on one bridge: port `e0` is that of the first host.
    pub fn add_physical(&self) {
        ip(&self.core, "link add br1 type bridge");
        ip(&self.core, "link set br1 up");
        for (number, space) in self.spaces.iter().enumerate() {
            let pid = space.pid();
            let port = format!("e{number}");
            ip(
                &self.core,
                &format!("link add {port} type veth peer name eth1 netns {pid}"),
            );
            ip(&self.core, &format!("link set {port} master br1 up"));
            ip(space, "link set eth1 up");
            self.hosts[number].ok("link attach eth1");
        }
    }

    /// The namespace of a host.
    pub fn space(&self, number: usize) -> &Namespace {
        &self.spaces[number]
    }

    /// Interfaces of a host whose names begin so.
    pub fn interfaces(&self, number: usize, prefix: &str) -> Vec<String> {
        let command = self.spaces[number].command("ip", "-br link show").output();
        let table = String::from_utf8(command.unwrap().stdout).unwrap();
        let names = table
            .lines()
            .filter_map(|line| line.split([' ', '@']).next());
        names
            .filter(|it| it.starts_with(prefix))
            .map(String::from)
            .collect()
    }

    /// The packets between hosts that match a filter while something is done, as tcpdump shows them.
    pub fn underlay(&self, filter: &str, work: impl FnOnce()) -> String {
        self.captured_at(&self.core, "br0", filter, work)
    }

    /// The packets of an interface that match a filter while something is done, as tcpdump shows them.
    pub fn captured_at(
        &self,
        space: &Namespace,
        interface: &str,
        filter: &str,
        work: impl FnOnce(),
    ) -> String {
        let file = self.folder.join("captured.pcap");
        let _ = std::fs::remove_file(&file);
        let capture = format!(
            "-i {interface} -U --immediate-mode -w {} {filter}",
            file.display()
        );
        let capture = space.service("tcpdump", &capture).unwrap();
        let read = || {
            let mut command = Command::new("tcpdump");
            let output = command.arg("-nr").arg(&file).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            output.status.success().then_some(text)
        };
        until("tcpdump does not start", || read().is_some());
        work();
        std::thread::sleep(Duration::from_millis(100));
        drop(capture);
        read().unwrap()
    }

    /// Sends a host a broadcast frame of type 88b5 in VXLAN of network 1, in clear from the network between the hosts.
    pub fn forge(&self, to: usize, source: &str, destination: &str) {
        let mac = self.spaces[to].command("ip", "-br link show m0").output();
        let mac = String::from_utf8(mac.unwrap().stdout).unwrap();
        let mac = mac.split_whitespace().nth(2).unwrap();
        let mut python = self.core.command("python3", "-c");
        python.args([FORGE, mac, source, destination]);
        let status = python.status().unwrap();
        assert!(status.success());
    }

    /// The hosts behind whose `eth1` their bridge saw an Ethernet address last.
    pub fn seen_at(&self, mac: &str) -> Vec<usize> {
        let command = self.core.command("bridge", "fdb show br br1").output();
        let table = String::from_utf8(command.unwrap().stdout).unwrap();
        let ports = table.lines().filter(|line| line.starts_with(mac));
        let port = |line: &str| line.split(' ').nth(2)?.strip_prefix('e')?.parse().ok();
        ports.filter_map(port).collect()
    }

    /// Connects a host to the others, or cuts it off.
    pub fn connect(&self, number: usize, connected: bool) {
        let state = if connected { "up" } else { "down" };
        ip(&self.core, &format!("link set m{number} {state}"));
    }

    /// Fields of `weir host ls`, as seen by the first host that etcd answers.
    fn host_rows(&self, by: usize, fields: &str) -> Vec<Vec<String>> {
        rows(&self.hosts[by], &format!("host ls -p -o {fields}"))
    }

    pub fn up(&self) -> BTreeSet<String> {
        let rows = self.host_rows(0, "host,state").into_iter();
        rows.filter(|row| row[1] != "down")
            .map(|row| row[0].clone())
            .collect()
    }

    pub fn leader(&self) -> Option<usize> {
        self.leader_by(0)
    }

    pub fn leader_by(&self, by: usize) -> Option<usize> {
        let rows = self.host_rows(by, "host,leader");
        rows.iter().position(|row| row[1] == "yes")
    }

    /// Guests with their hosts and states.
    pub fn guests(&self, by: usize) -> BTreeMap<String, (String, String)> {
        let rows = rows(&self.hosts[by], "ls --cluster -p -o guest,host,state");
        rows.into_iter()
            .map(|row| (row[0].clone(), (row[1].clone(), row[2].clone())))
            .collect()
    }

    /// Guests whose processes run on a host.
    pub fn running(&self, number: usize) -> BTreeSet<String> {
        running(&self.hosts[number].run().display().to_string())
    }

    /// Waits until as many guests run as there are, each on the host where it is placed and nowhere else.
    #[track_caller]
    pub fn settles(&self, by: usize, count: usize) -> BTreeMap<String, (String, String)> {
        let start = Instant::now();
        loop {
            let guests = self.guests(by);
            let right = guests.len() == count
                && guests.values().all(|(_, state)| state == "running")
                && (0..self.hosts.len()).all(|number| {
                    let name = self.name(number);
                    let placed = guests.iter().filter(|(_, (host, _))| *host == name);
                    let placed: BTreeSet<_> = placed.map(|(guest, _)| guest.clone()).collect();
                    placed == self.running(number)
                });
            if right {
                return guests;
            }
            if start.elapsed() > LIMIT {
                let running: Vec<_> = (0..self.hosts.len()).map(|it| self.running(it)).collect();
                panic!("{guests:#?}\n{running:?}\n{}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn status(&self, by: usize) -> Value {
        let output = self.hosts[by].output("cluster status --json");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Guests of the node of this folder whose processes run.
pub fn running(owner: &str) -> BTreeSet<String> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let guests = processes.filter_map(|entry| {
        let path = entry.ok()?.path();
        let command = std::fs::read(path.join("cmdline")).ok()?;
        vmm::guest_of(&command, owner)
    });
    guests.collect()
}

fn rows(host: &Host, command: &str) -> Vec<Vec<String>> {
    let output = host.output(command);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| line.split(':').map(String::from).collect())
        .collect()
}

impl Drop for Net {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        for number in 0..self.agents.len() {
            self.kill_agent(number);
        }
        self.hosts.clear();
        for number in 0..self.spaces.len() {
            // wireguard-go ends with its interface.
            for interface in self.interfaces(number, "wg-") {
                let delete = format!("link delete {interface}");
                let _ = self.spaces[number].command("ip", &delete).status();
            }
        }
        self.etcd.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
