//! The addresses of a user NSM, and where its packets go.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr, Ipv6Cidr};

/// Most addresses: smoltcp's interface has 8, and one is the link-local address of IPv6.
pub const ADDRESSES_MAX: usize = 7;

/// What a user NSM is in its network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Its addresses, with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The routers for what is in none of these networks, at most one of each IP version.
    pub gateways: Vec<IpAddr>,
}

/// By which interface packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// The VNIC.
    Vnic,
    /// To this NSM itself.
    Loopback,
}

/// Why a user NSM cannot have a network.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// None, or too many.
    #[error("{0} addresses: a user NSM has 1 to {ADDRESSES_MAX}")]
    Addresses(usize),
    /// No host's address.
    #[error(
        "{0} cannot be the address of an NSM: give a host's address with its prefix length, as in 10.0.0.2/24"
    )]
    Address(IpAddr),
    /// A prefix that is longer than the address.
    #[error("{0}/{1}: the prefix is longer than the address")]
    Prefix(IpAddr, u8),
    /// An address that is given twice.
    #[error("the address {0} is given twice: give it once")]
    Twice(IpAddr),
    /// A router that no address reaches.
    #[error("gateway {0} is in the network of none of the NSM's addresses")]
    Gateway(IpAddr),
    /// Two routers.
    #[error("{0} and {1} are two gateways of one IP version: give one")]
    Gateways(IpAddr, IpAddr),
}

impl From<NetworkError> for io::Error {
    fn from(error: NetworkError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, error)
    }
}

/// Whether a host can have the address.
fn is_host(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast() || ip.octets()[0] == 0);
    !(ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || broadcast)
}

impl Network {
    /// Refuses what cannot be.
    pub fn check(&self) -> Result<(), NetworkError> {
        if !(1..=ADDRESSES_MAX).contains(&self.addresses.len()) {
            return Err(NetworkError::Addresses(self.addresses.len()));
        }
        for (at, &(ip, prefix)) in self.addresses.iter().enumerate() {
            if !is_host(ip) {
                return Err(NetworkError::Address(ip));
            }
            if prefix > if ip.is_ipv4() { 32 } else { 128 } {
                return Err(NetworkError::Prefix(ip, prefix));
            }
            if self.addresses[..at].iter().any(|(other, _)| *other == ip) {
                return Err(NetworkError::Twice(ip));
            }
        }
        for (at, &gateway) in self.gateways.iter().enumerate() {
            let link_local = matches!(gateway, IpAddr::V6(ip) if ip.is_unicast_link_local());
            if !is_host(gateway) || !(link_local || self.is_on_link(gateway)) {
                return Err(NetworkError::Gateway(gateway));
            }
            let mut others = self.gateways[..at].iter();
            if let Some(other) = others.find(|it| it.is_ipv4() == gateway.is_ipv4()) {
                return Err(NetworkError::Gateways(*other, gateway));
            }
        }
        Ok(())
    }

    fn has_ipv6(&self) -> bool {
        self.addresses.iter().any(|(ip, _)| ip.is_ipv6())
    }

    /// With the link-local address that a host with IPv6 has (RFC 4291, appendix A).
    pub(super) fn with_link_local(mut self, mac: [u8; 6]) -> Network {
        let own =
            |(ip, _): &(IpAddr, u8)| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        if self.has_ipv6() && !self.addresses.iter().any(own) {
            let [a, b, c, d, e, f] = mac.map(u16::from);
            let tail = [(a ^ 2) << 8 | b, c << 8 | 0xff, 0xfe00 | d, e << 8 | f];
            let ip = Ipv6Addr::new(0xfe80, 0, 0, 0, tail[0], tail[1], tail[2], tail[3]);
            self.addresses.push((ip.into(), 64));
        }
        self
    }

    /// Its addresses as smoltcp has them.
    pub(super) fn cidrs(&self) -> impl Iterator<Item = IpCidr> {
        let addresses = self.addresses.iter();
        addresses.map(|&(ip, prefix)| IpCidr::new(ip.into(), prefix))
    }

    fn is_on_link(&self, ip: IpAddr) -> bool {
        self.cidrs().any(|cidr| cidr.contains_addr(&ip.into()))
    }

    /// Whether it has the address.
    pub fn has(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == ip)
    }

    /// Whether a socket can have the address as its own.
    pub(super) fn is_local(&self, ip: IpAddr) -> bool {
        ip.is_unspecified() || ip.is_loopback() || self.has(ip)
    }

    /// Whether the address is that of all hosts of a network.
    pub(super) fn is_broadcast(&self, ip: IpAddr) -> bool {
        let IpAddr::V4(ip) = ip else { return false };
        ip.is_broadcast()
            || self.cidrs().any(|cidr| match cidr {
                IpCidr::Ipv4(cidr) => cidr.broadcast() == Some(ip),
                IpCidr::Ipv6(_) => false,
            })
    }

    /// Where packets to an address go, and the address that they come from.
    pub(super) fn route(&self, to: IpAddr) -> Result<(Way, IpAddr), Errno> {
        if to.is_loopback() {
            let own = match to {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            };
            return Ok((Way::Loopback, own));
        }
        if self.has(to) {
            return Ok((Way::Loopback, to));
        }
        let on_link = self.is_on_link(to) || to.is_multicast() || self.is_broadcast(to);
        let routed = self.gateways.iter().any(|it| it.is_ipv4() == to.is_ipv4());
        if !on_link && !routed {
            return Err(Errno::NETUNREACH);
        }
        Ok((Way::Vnic, self.source(to).ok_or(Errno::NETUNREACH)?))
    }

    /// The address from which packets to another host come: one of the same network, or the first of the version that
    /// reaches as far.
    fn source(&self, to: IpAddr) -> Option<IpAddr> {
        let of_version = || {
            self.addresses
                .iter()
                .filter(|(ip, _)| ip.is_ipv4() == to.is_ipv4())
        };
        let near = of_version()
            .find(|&&(ip, prefix)| IpCidr::new(ip.into(), prefix).contains_addr(&to.into()));
        let far = |ip: IpAddr| !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let found = near.or_else(|| of_version().find(|(ip, _)| far(*ip)));
        found.or_else(|| of_version().next()).map(|(ip, _)| *ip)
    }

    /// The gateways as smoltcp's interface has them.
    pub(super) fn gateways(&self) -> impl Iterator<Item = IpAddress> {
        self.gateways.iter().map(|ip| (*ip).into())
    }
}

/// The loopback addresses, as smoltcp has them.
pub(super) fn loopback() -> [IpCidr; 2] {
    [
        IpCidr::new(Ipv4Addr::new(127, 0, 0, 1).into(), 8),
        IpCidr::Ipv6(Ipv6Cidr::new(Ipv6Addr::LOCALHOST, 128)),
    ]
}

/// The Ethernet address, if it is a host's.
pub(super) fn ethernet(mac: [u8; 6]) -> Result<EthernetAddress, Errno> {
    let mac = EthernetAddress(mac);
    if mac.is_unicast() {
        Ok(mac)
    } else {
        Err(Errno::INVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Network {
        Network {
            addresses: vec![
                ("10.0.0.2".parse().unwrap(), 24),
                ("192.168.7.9".parse().unwrap(), 16),
                ("fd00::2".parse().unwrap(), 64),
            ],
            gateways: vec!["10.0.0.1".parse().unwrap()],
        }
    }

    #[test]
    fn packets_go_where_a_host_would_send_them() {
        let network = network().with_link_local([2, 0, 0, 0, 0, 1]);
        let route = |to: &str| network.route(to.parse().unwrap());
        let from = |way, ip: &str| Ok((way, ip.parse().unwrap()));
        assert_eq!(route("127.9.9.9"), from(Way::Loopback, "127.0.0.1"));
        assert_eq!(route("::1"), from(Way::Loopback, "::1"));
        assert_eq!(route("192.168.7.9"), from(Way::Loopback, "192.168.7.9"));
        assert_eq!(route("192.168.1.1"), from(Way::Vnic, "192.168.7.9"));
        assert_eq!(route("8.8.8.8"), from(Way::Vnic, "10.0.0.2"));
        assert_eq!(route("10.0.0.255"), from(Way::Vnic, "10.0.0.2"));
        assert_eq!(route("fd00::9"), from(Way::Vnic, "fd00::2"));
        assert_eq!(route("fe80::9"), from(Way::Vnic, "fe80::ff:fe00:1"));
        assert_eq!(route("ff02::1").unwrap().0, Way::Vnic);
        assert_eq!(route("2001:db8::1"), Err(Errno::NETUNREACH));
    }

    #[test]
    fn a_network_that_cannot_be_is_refused() {
        assert_eq!(network().check(), Ok(()));
        assert_eq!(Network::default().check(), Err(NetworkError::Addresses(0)));
        for wrong in [
            "127.0.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "ff02::1",
        ] {
            let ip = wrong.parse().unwrap();
            let network = Network {
                addresses: vec![(ip, 8)],
                gateways: Vec::new(),
            };
            assert_eq!(network.check(), Err(NetworkError::Address(ip)));
        }
        let mut far = network();
        far.gateways = vec!["172.16.0.1".parse().unwrap()];
        assert_eq!(far.check(), Err(NetworkError::Gateway(far.gateways[0])));
        let mut two = network();
        two.gateways.push("10.0.0.3".parse().unwrap());
        assert!(matches!(two.check(), Err(NetworkError::Gateways(..))));
    }
}
