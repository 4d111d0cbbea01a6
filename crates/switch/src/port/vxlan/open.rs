//! Opening a VXLAN link: a UDP socket, and how long frames may be on the way.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use ipnet::IpNet;
use rustix::io::Errno;

use super::super::opening::{Fault, LinkError, Open, Opened, SOCKET_QUEUE};
use super::packet::{PORT, VNI_MAX};
use super::{Neighbor, REMOTES_MAX, Tunnel, VxlanLink, inner_mtu};
use crate::mac::Mac;
use crate::netlink::{Interface, Netlink};
use crate::sys::udp;

/// MTU inside where the way does not force a lower one, in bytes: Ethernet's.
const MTU: u16 = 1500;
/// Shortest MTU inside that makes sense: what every IPv4 host takes (RFC 791).
const MTU_MIN: u16 = 576;

/// A link to other hosts by VXLAN (RFC 7348).
///
/// If `local` is the address of a tunnel of the host, as WireGuard's, it takes packets from tunnels alone.
///
/// A link is one network on one UDP port: a second network needs another `port`, or another `local`
/// address.
#[derive(Clone, Debug)]
pub struct Vxlan<'a> {
    /// How users call it.
    pub name: &'a str,
    /// The network's number, 24 bits.
    pub vni: u32,
    /// This host's address; none: any.
    pub local: Option<IpAddr>,
    /// The other hosts, all with IPv4 addresses or all with IPv6. There may be none yet.
    pub remotes: &'a [IpAddr],
    /// Addresses that are behind them.
    pub neighbors: &'a [Neighbor],
    /// The UDP port, here and there; none: 4789.
    pub port: Option<u16>,
    /// Largest IP packet inside, in bytes: the same for all hosts of the network. None: 1500, or
    /// what the way to each of the remotes takes if that is less, with 50 bytes around it (70 with
    /// IPv6), as with the kernel's own VXLAN devices.
    pub mtu: Option<u16>,
}

/// Why a VXLAN link cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum VxlanError {
    /// The number has more than 24 bits.
    #[error("VNI {0} is too large: the maximum is {VNI_MAX}")]
    Vni(u32),
    /// Too many remotes.
    #[error("a VXLAN link has {REMOTES_MAX} remotes at most, this has {0}")]
    Remotes(usize),
    /// A remote that cannot be one.
    #[error("{0} cannot be a remote: it must be another host's own address, not a multicast one")]
    Remote(IpAddr),
    /// The same remote twice: floods would go there twice.
    #[error("{0} is given twice: give each remote once")]
    Twice(IpAddr),
    /// IPv4 and IPv6 addresses in one link.
    #[error("{0} and {1} have different IP versions: all remotes of a VXLAN link have the same")]
    Versions(IpAddr, IpAddr),
    /// The UDP port is in use.
    #[error(
        "UDP port {0} is in use, perhaps by another VXLAN link: choose another port, or another local address for each"
    )]
    PortTaken(u16),
    /// The address is none of this host's.
    #[error("{0} is not an address of this host: `ip addr` lists them")]
    Local(IpAddr),
    /// There is no way to a remote.
    #[error("no route to {0}: `ip route get {0}` says why")]
    NoRoute(IpAddr),
    /// The way is too narrow.
    #[error("the path to {remote} has an MTU of {path} bytes: too small for VXLAN")]
    Narrow {
        /// Whereto.
        remote: IpAddr,
        /// Largest IP packet on the way, in bytes.
        path: u32,
    },
    /// The kernel refused something else.
    #[error("cannot open a UDP socket for VXLAN: {0}")]
    Socket(Errno),
}

impl From<VxlanError> for LinkError {
    fn from(error: VxlanError) -> LinkError {
        use VxlanError::{Local, PortTaken, Remote, Remotes, Socket, Twice, Versions, Vni};
        let fault = match error {
            Vni(_) | Remotes(_) | Remote(_) | Twice(_) | Versions(..) => Fault::Invalid,
            _ => Fault::Refused,
        };
        let field = match error {
            Vni(_) => Some("vxlan.vni"),
            PortTaken(_) => Some("vxlan.port"),
            Local(_) => Some("vxlan.local"),
            Socket(_) => None,
            _ => Some("vxlan.remotes"),
        };
        LinkError::of_kind(fault, field, error)
    }
}

impl Vxlan<'_> {
    /// Whether this may be the address of another host.
    pub fn is_remote(ip: IpAddr) -> bool {
        !ip.is_multicast() && !ip.is_unspecified() && ip != Ipv4Addr::BROADCAST
    }

    /// Refuses what cannot be a link.
    pub fn check(&self) -> Result<(), VxlanError> {
        let link = self;
        if link.vni > VNI_MAX {
            return Err(VxlanError::Vni(link.vni));
        }
        if link.remotes.len() > REMOTES_MAX {
            return Err(VxlanError::Remotes(link.remotes.len()));
        }
        let mut all = link.remotes.iter().chain(&link.local);
        if let Some(&first) = all.next()
            && let Some(&other) = all.find(|it| it.is_ipv4() != first.is_ipv4())
        {
            return Err(VxlanError::Versions(first, other));
        }
        let odd = |ip: &IpAddr| !Vxlan::is_remote(*ip) || Some(*ip) == link.local;
        if let Some(&odd) = link.remotes.iter().find(|ip| odd(ip)) {
            return Err(VxlanError::Remote(odd));
        }
        let mut others = link.remotes.iter().enumerate();
        match others.find(|(i, ip)| link.remotes[..*i].contains(ip)) {
            Some((_, &twice)) => Err(VxlanError::Twice(twice)),
            None => Ok(()),
        }
    }

    /// What the switch is told, beside the socket.
    pub fn record(&self) -> Tunnel {
        let port = self.port.unwrap_or(PORT);
        let remotes = self.remotes.iter();
        Tunnel {
            vni: self.vni,
            remotes: remotes.map(|&ip| SocketAddr::new(ip, port)).collect(),
            neighbors: self.neighbors.to_vec(),
        }
    }
}

impl Open for Vxlan<'_> {
    type Link = Box<VxlanLink>;

    fn open(&self) -> Result<Opened<Tunnel>, LinkError> {
        let link = self;
        let port = link.port.unwrap_or(PORT);
        link.check()?;
        let any = match link.remotes.first() {
            Some(IpAddr::V6(_)) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        let local = link.local.unwrap_or(any);
        let socket =
            udp::open(SocketAddr::new(local, port), SOCKET_QUEUE).map_err(|error| match error {
                Errno::ADDRINUSE => VxlanError::PortTaken(port).into(),
                Errno::ADDRNOTAVAIL => VxlanError::Local(local).into(),
                Errno::PERM | Errno::ACCESS => LinkError::Permission(link.name.into()),
                error => VxlanError::Socket(error).into(),
            })?;
        if link.local.is_some_and(is_of_tunnel) {
            udp::take_from_tunnels(socket.as_fd()).map_err(VxlanError::Socket)?;
        }
        let record = link.record();
        let mut mtu = MTU;
        for &remote in &record.remotes {
            mtu = mtu.min(mtu_to(remote)?);
        }
        Ok(Opened {
            record,
            name: link.name.into(),
            mtu: link.mtu.unwrap_or(mtu),
            files: vec![socket],
            // There is no interface that could have one.
            mac: Mac::ZERO,
            gro: None,
        })
    }
}

/// Whether this address is that of a tunnel of this host, as WireGuard's.
fn is_of_tunnel(address: IpAddr) -> bool {
    let look = || {
        let mut netlink = Netlink::new()?;
        let addresses = netlink.addresses()?;
        let has = |it: &&(u32, IpNet)| it.1.addr() == address;
        let index = addresses.iter().find(has).map(|it| it.0);
        let interfaces = netlink.interfaces()?;
        let tunnel = |it: &Interface| Some(it.index) == index && it.is_tunnel;
        std::io::Result::Ok(interfaces.iter().any(tunnel))
    };
    look().unwrap_or(false)
}

/// Largest IP packet inside on the way to a remote.
fn mtu_to(remote: SocketAddr) -> Result<u16, VxlanError> {
    let path = udp::path_mtu(remote).map_err(|error| match error {
        Errno::NETUNREACH | Errno::HOSTUNREACH => VxlanError::NoRoute(remote.ip()),
        error => VxlanError::Socket(error),
    })?;
    match inner_mtu(path, remote) {
        mtu if mtu < MTU_MIN => Err(VxlanError::Narrow {
            remote: remote.ip(),
            path,
        }),
        mtu => Ok(mtu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_vxlan_link_is_told_in_a_sentence() {
        let here = [IpAddr::from([127, 0, 0, 2])];
        let good = Vxlan {
            name: "vx",
            vni: 42,
            local: Some(IpAddr::from([127, 0, 0, 1])),
            remotes: &here,
            port: Some(0),
            neighbors: &[],
            mtu: None,
        };
        let link = good.open().expect("a link");
        assert_eq!(link.mtu, 1500, "the loopback's way is wide");
        let refused = |link: Vxlan<'_>| link.open().err().expect("refused").to_string();
        let vni = 1 << 24;
        let error = refused(Vxlan {
            vni,
            ..good.clone()
        });
        assert_eq!(error, "VNI 16777216 is too large: the maximum is 16777215");
        let remotes: Vec<_> = (0..=REMOTES_MAX as u32)
            .map(|it| IpAddr::V4((0x0a00_0000 + it).into()))
            .collect();
        let error = refused(Vxlan {
            remotes: &remotes,
            ..good.clone()
        });
        assert!(error.contains("this has 257"), "{error}");
        let remotes = &[here[0], IpAddr::from(Ipv6Addr::LOCALHOST)];
        let error = refused(Vxlan {
            remotes,
            ..good.clone()
        });
        assert!(error.contains("different IP versions"), "{error}");
        let remotes = &[IpAddr::from([224, 0, 0, 1])];
        let error = refused(Vxlan {
            remotes,
            ..good.clone()
        });
        assert!(error.contains("224.0.0.1 cannot be a remote"), "{error}");
        let remotes = &[here[0], IpAddr::from([192, 0, 2, 2]), here[0]];
        let error = refused(Vxlan {
            remotes,
            ..good.clone()
        });
        assert!(error.contains("127.0.0.2 is given twice"), "{error}");
        let local = Some(IpAddr::from([192, 0, 2, 1]));
        let error = refused(Vxlan {
            local,
            ..good.clone()
        });
        assert!(error.contains("not an address of this host"), "{error}");
        let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = Some(taken.local_addr().unwrap().port());
        let error = refused(Vxlan { port, ..good });
        assert!(error.contains("is in use"), "{error}");
    }
}
