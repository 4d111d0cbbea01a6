//! Forwarders between the hosts: Weir and its peers.

use std::path::Path;

/// The kind of sockets on the interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    Xdp,
    Packet,
}

/// A guest's wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wall {
    Vm,
    Process,
}

/// A forwarder of frames from one host to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarder {
    /// A firewall guest behind a wall, on sockets of a kind.
    Weir(Wall, Socket),
    /// The same with settled flows: the kernel passes them on.
    Settled(Wall),
    /// Linux's bridge with nftables.
    Nftables,
    /// The same with GRO on its ports, as Weir has on its own.
    NftablesGro,
    /// Open vSwitch's userspace datapath, on sockets of a kind.
    Ovs(Socket),
    /// Linux's bridge without rules: the limit of the interfaces.
    Bridge,
    /// A loop that copies from one interface to the other: the limit of AF_PACKET.
    Copier,
}

impl Forwarder {
    /// All, in the order of the tables.
    pub const ALL: [Forwarder; 12] = [
        Forwarder::Weir(Wall::Vm, Socket::Xdp),
        Forwarder::Weir(Wall::Vm, Socket::Packet),
        Forwarder::Weir(Wall::Process, Socket::Xdp),
        Forwarder::Weir(Wall::Process, Socket::Packet),
        Forwarder::Settled(Wall::Vm),
        Forwarder::Settled(Wall::Process),
        Forwarder::Nftables,
        Forwarder::NftablesGro,
        Forwarder::Ovs(Socket::Xdp),
        Forwarder::Ovs(Socket::Packet),
        Forwarder::Bridge,
        Forwarder::Copier,
    ];

    /// In tables.
    pub fn name(self) -> &'static str {
        match self {
            Forwarder::Weir(Wall::Vm, Socket::Xdp) => "Weir (VM), AF_XDP",
            Forwarder::Weir(Wall::Vm, Socket::Packet) => "Weir (VM), AF_PACKET",
            Forwarder::Weir(Wall::Process, Socket::Xdp) => "Weir (process), AF_XDP",
            Forwarder::Weir(Wall::Process, Socket::Packet) => "Weir (process), AF_PACKET",
            Forwarder::Settled(Wall::Vm) => "Weir (VM), settled flows",
            Forwarder::Settled(Wall::Process) => "Weir (process), settled flows",
            Forwarder::Nftables => "Linux bridge, nftables",
            Forwarder::NftablesGro => "Linux bridge, nftables, GRO on",
            Forwarder::Ovs(Socket::Xdp) => "Open vSwitch, AF_XDP",
            Forwarder::Ovs(Socket::Packet) => "Open vSwitch, AF_PACKET",
            Forwarder::Bridge => "Linux bridge, no rules",
            Forwarder::Copier => "a loop that copies, AF_PACKET",
        }
    }

    /// In plots.
    pub fn short(self) -> &'static str {
        match self {
            Forwarder::Weir(Wall::Vm, Socket::Xdp) => "Weir VM, XDP",
            Forwarder::Weir(Wall::Vm, Socket::Packet) => "Weir VM, packet",
            Forwarder::Weir(Wall::Process, Socket::Xdp) => "Weir proc., XDP",
            Forwarder::Weir(Wall::Process, Socket::Packet) => "Weir proc., packet",
            Forwarder::Settled(Wall::Vm) => "Weir VM, settled",
            Forwarder::Settled(Wall::Process) => "Weir proc., settled",
            Forwarder::Nftables => "bridge, nftables",
            Forwarder::NftablesGro => "bridge, nftables, GRO",
            Forwarder::Ovs(Socket::Xdp) => "OVS, XDP",
            Forwarder::Ovs(Socket::Packet) => "OVS, packet",
            Forwarder::Bridge => "bridge alone",
            Forwarder::Copier => "a loop, packet",
        }
    }

    /// Whether this is Weir.
    pub fn is_ours(self) -> bool {
        matches!(self, Forwarder::Weir(..) | Forwarder::Settled(_))
    }

    /// Whether Weir is compared with it: with its defaults.
    pub fn is_peer(self) -> bool {
        matches!(self, Forwarder::Nftables | Forwarder::Ovs(_))
    }

    /// Whether it completes the partial checksums of a veth pair's other end. If not, the hosts must
    /// complete them.
    pub fn completes_checksums(self) -> bool {
        !matches!(self, Forwarder::Ovs(_))
    }

    /// The programs that it needs and the Debian package that they come with.
    fn needs(self) -> (&'static [&'static str], &'static str) {
        match self {
            Forwarder::Weir(..) | Forwarder::Settled(_) | Forwarder::Bridge | Forwarder::Copier => {
                (&[], "")
            }
            Forwarder::Nftables | Forwarder::NftablesGro => (&["nft"], "nftables"),
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

    /// A sentence that names its missing programs.
    pub fn missing(self) -> Option<String> {
        let is_vm = matches!(
            self,
            Forwarder::Weir(Wall::Vm, _) | Forwarder::Settled(Wall::Vm)
        );
        if is_vm && !Path::new("/dev/kvm").exists() {
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
