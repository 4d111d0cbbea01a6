//! Gateways between hosts, each in a network namespace of its own, and what hosts do through them.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, Protocol, RawProtocol, RecvFlags, SocketType, sockopt};
use weir::lab::{Namespace, Runner, ip};

use crate::common::{LIMIT, path, within};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// How an example runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// `weir click`.
    Process,
    /// `weir run`.
    Guest,
}

pub const HOMES: [Home; 2] = [Home::Process, Home::Guest];

/// A gateway's machine: a namespace with the interfaces that an example names.
pub struct Gateway {
    pub namespace: Namespace,
    pub interfaces: Vec<&'static str>,
    pub run: PathBuf,
}

/// An example that runs; it ends with this value.
pub struct Running {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// What it prints until it ends.
    pub fn rest(mut self) -> String {
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success());
        text
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }
}

impl Gateway {
    pub fn new() -> Gateway {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-examples-{}-{number}", std::process::id());
        Gateway {
            namespace: Namespace::new(&Runner::default()).unwrap(),
            interfaces: Vec::new(),
            run: std::env::temp_dir().join(name),
        }
    }

    /// A host behind `interface`, with an address (and prefix length) and a default route.
    pub fn host(
        &mut self,
        interface: &'static str,
        address: &str,
        route: Option<&str>,
    ) -> Namespace {
        let host = Namespace::new(&Runner::default()).unwrap();
        self.join(interface, &host, "eth0");
        command(&host, "ip", &format!("addr add {address} dev eth0"));
        if let Some(route) = route {
            command(&host, "ip", &format!("route add default via {route}"));
        }
        host
    }

    /// A cable from `interface` to one of another machine.
    pub fn join(&mut self, interface: &'static str, other: &Namespace, there: &str) {
        let (here, pid) = (self.namespace.pid(), other.pid());
        let pair = format!(
            "link add name {interface} netns {here} type veth peer name {there} netns {pid}"
        );
        Runner::default().run(ip(&pair), LIMIT).unwrap();
        for (machine, name) in [(&self.namespace, interface), (other, there)] {
            // `weir click` takes frames as they are: checksums are to be right, lengths true.
            command(
                machine,
                "ethtool",
                &format!("-K {name} tx off tso off gso off gro off"),
            );
            command(
                machine,
                "sysctl",
                &format!("-qw net.ipv6.conf.{name}.disable_ipv6=1"),
            );
            command(machine, "ip", &format!("link set dev {name} up"));
        }
        self.interfaces.push(interface);
    }

    /// A namespace with a bridge, to which an interface leads.
    pub fn switch(&mut self, interface: &'static str) -> Namespace {
        let switch = Namespace::new(&Runner::default()).unwrap();
        command(&switch, "ip", "link add br0 type bridge");
        command(&switch, "sysctl", "-qw net.ipv6.conf.br0.disable_ipv6=1");
        command(&switch, "ip", "link set br0 up");
        self.join(interface, &switch, "uplink");
        command(&switch, "ip", "link set uplink master br0");
        switch
    }

    /// Starts an example here. Guests take no settings.
    pub fn start(&self, home: Home, example: &str, settings: &[&str]) -> Running {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        self.start_config(home, &folder.join(format!("{example}.click")), settings)
    }

    /// Starts a function here as a guest, with further arguments.
    pub fn function(&self, name: &str, arguments: &[&str]) -> Running {
        self.start_config(Home::Guest, name.as_ref(), arguments)
    }

    /// Starts a function here as a process, with further arguments.
    pub fn function_process(&self, name: &str, arguments: &[&str]) -> Running {
        self.start_config(Home::Process, name.as_ref(), arguments)
    }

    /// What `weir` says of a function that runs here.
    #[track_caller]
    pub fn weir(&self, arguments: &[&str]) -> String {
        let mut command = self.namespace.command(WEIR, "");
        command.args(arguments).env("WEIR_RUN", &self.run);
        Runner::default().run(command, LIMIT).unwrap()
    }

    fn start_config(&self, home: Home, config: &Path, settings: &[&str]) -> Running {
        let example = config.display();
        let mut command = match home {
            Home::Process => self.namespace.command(WEIR, "click"),
            Home::Guest => self.namespace.command(WEIR, "run --json"),
        };
        command.arg(config).env("WEIR_RUN", &self.run);
        if home == Home::Guest {
            for interface in &self.interfaces {
                command.args(["--link", &format!("{interface}=dev:{interface}")]);
            }
        }
        let mut child = command
            .args(settings)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut running = Running { child, out };
        if home == Home::Guest {
            let event = running.line();
            assert!(event.contains("\"running\""), "{example}: {event}");
        }
        running
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.run);
    }
}

/// A cable from a switch to an interface of a host, which gets an address.
pub fn plug(switch: &Namespace, port: &str, host: &Namespace, interface: &str, address: &str) {
    let (here, there) = (switch.pid(), host.pid());
    let pair =
        format!("link add name {port} netns {here} type veth peer name {interface} netns {there}");
    Runner::default().run(ip(&pair), LIMIT).unwrap();
    let offloads = format!("-K {interface} tx off tso off gso off gro off");
    command(host, "ethtool", &offloads);
    command(switch, "ip", &format!("link set {port} up master br0"));
    command(host, "ip", &format!("link set {interface} up"));
    command(host, "ip", &format!("addr add {address} dev {interface}"));
}

#[track_caller]
pub fn command(host: &Namespace, program: &str, arguments: &str) -> String {
    let command = host.command(program, arguments);
    Runner::default().run(command, LIMIT).unwrap()
}

/// Gives the interface of a host an address of IPv6.
#[track_caller]
pub fn give6(host: &Namespace, address: &str) {
    command(host, "sysctl", "-qw net.ipv6.conf.eth0.disable_ipv6=0");
    command(host, "ip", &format!("addr add {address} dev eth0 nodad"));
}

/// What `ping` says, with options.
pub fn ping(host: &Namespace, options: &str) -> String {
    let command = host.command("ping", &format!("-n {options}"));
    let output = Runner::default().output(command, LIMIT).unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether a host's pings are answered. The first ones may be lost while others start.
pub fn reaches(host: &Namespace, address: &str) -> bool {
    (0..10).any(|_| ping(host, &format!("-c 1 -W 1 {address}")).contains(" 0% packet loss"))
}

/// Whether no ping of two is answered.
pub fn is_cut_off(host: &Namespace, address: &str) -> bool {
    ping(host, &format!("-c 2 -i 0.2 -W 1 {address}")).contains("100% packet loss")
}

/// Binds a socket. The socket before it at the same place may live on for a moment, in a child that
/// another test's thread just forked.
pub fn patiently<T>(bind: impl Fn() -> std::io::Result<T>) -> T {
    let start = Instant::now();
    loop {
        match bind() {
            Ok(socket) => return socket,
            Err(error) => assert!(start.elapsed() < LIMIT, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A connection from a host to `to`, which the other host listens on as `listen`: 300 kB go there
/// and back. The client's address as the server sees it, and the server's; `None` if there is no
/// connection.
pub fn connect(
    from: &Namespace,
    to: &str,
    at: &Namespace,
    listen: &str,
) -> Option<(IpAddr, IpAddr)> {
    const BYTES: usize = 300_000;
    let listener = within(path(at).as_ref(), || {
        patiently(|| TcpListener::bind(listen))
    });
    listener.set_nonblocking(true).unwrap();
    let to: SocketAddr = to.parse().unwrap();
    let data: Vec<u8> = (0..BYTES).map(|i| (i * 7 / 3) as u8).collect();
    let serve = || {
        let start = Instant::now();
        let (mut stream, peer) = loop {
            match listener.accept() {
                Ok(accepted) => break accepted,
                Err(_) if start.elapsed() > Duration::from_secs(4) => return None,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut got = vec![0; BYTES];
        stream.read_exact(&mut got).unwrap();
        stream.write_all(&got).unwrap();
        Some((peer.ip(), stream.local_addr().unwrap().ip()))
    };
    std::thread::scope(|scope| {
        let server = scope.spawn(serve);
        let client = within(path(from).as_ref(), || {
            let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(3)).ok()?;
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream.write_all(&data).unwrap();
            let mut got = vec![0; BYTES];
            stream.read_exact(&mut got).unwrap();
            Some(got == data)
        });
        let served = server.join().unwrap();
        assert_ne!(client, Some(false), "the bytes differ from the bytes sent");
        client.and(served)
    })
}

/// A packet socket that sees what IP packets a host gets, in order.
pub fn packets(host: &Namespace) -> OwnedFd {
    let ip = RawProtocol::new(0x0800u16.to_be().into()).map(Protocol::from_raw);
    let open = || rustix::net::socket(AddressFamily::PACKET, SocketType::DGRAM, ip).unwrap();
    let socket = within(path(host).as_ref(), open);
    sockopt::set_socket_recv_buffer_size_force(&socket, 4 << 20).unwrap();
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(LIMIT)).unwrap();
    socket
}

/// Where the next packet goes, if it is UDP.
pub fn udp_port(packets: &OwnedFd, flags: RecvFlags) -> rustix::io::Result<Option<u16>> {
    let mut packet = [0; 24];
    rustix::net::recv(packets, &mut packet, flags)?;
    Ok((packet[9] == 17).then(|| u16::from_be_bytes([packet[22], packet[23]])))
}

pub fn bound(host: &Namespace, address: &str) -> UdpSocket {
    let socket = within(path(host).as_ref(), || {
        patiently(|| UdpSocket::bind(address))
    });
    socket
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    // What arrives while the test looks elsewhere has room on a busy machine too.
    sockopt::set_socket_recv_buffer_size_force(&socket, 4 << 20).unwrap();
    socket
}

/// Frames that a host received.
pub fn received(host: &Namespace) -> u64 {
    let path = "/sys/class/net/eth0/statistics/rx_packets";
    // The files of a namespace show in a mount of its own.
    let mut shell = host.command("unshare", "--mount");
    shell.args([
        "sh",
        "-c",
        &format!("mount -t sysfs sys /sys && cat {path}"),
    ]);
    let said = Runner::default().run(shell, LIMIT).unwrap();
    said.trim().parse().unwrap()
}
