//! Names that the host knows: network devices' addresses, protocols, services, home directories.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use click::text::decode;
use nix::ifaddrs::getifaddrs;
use router::args::{EtherAddress, Host, Ipv4Prefix, Kind, NameDatabase};

/// How long interfaces' addresses are cached: a configuration looks up tens of thousands of words,
/// most of which are no interface's name.
const FRESH: Duration = Duration::from_secs(1);

/// Hardware types (`ARPHRD_ETHER`, `ARPHRD_IEEE80211` of linux/if_arp.h) whose addresses are
/// Ethernet addresses. The loopback interface's is none.
const HAVE_ETHER_ADDRESSES: [u16; 2] = [1, 801];

/// The addresses of an interface, the first of each kind.
#[derive(Clone, Copy, Default)]
struct Addresses {
    ip: Option<Ipv4Prefix>,
    ether: Option<EtherAddress>,
}

/// The interfaces' addresses by name, and when they were read.
type Interfaces = (Instant, HashMap<String, Addresses>);

/// The machine this process runs on.
#[derive(Default)]
pub struct Machine {
    /// Interfaces that the configuration calls otherwise: its name, and the machine's.
    links: Vec<(String, String)>,
    /// What its files of protocols and services say, read when a name is first looked up.
    files: OnceLock<NameDatabase>,
    interfaces: Mutex<Option<Interfaces>>,
}

fn interfaces() -> HashMap<String, Addresses> {
    let mut interfaces: HashMap<String, Addresses> = HashMap::new();
    for interface in getifaddrs().into_iter().flatten() {
        let addresses = interfaces.entry(interface.interface_name).or_default();
        let Some(address) = interface.address else {
            continue;
        };
        if let Some(mask) = interface
            .netmask
            .as_ref()
            .and_then(|it| it.as_sockaddr_in())
            && let Some(ip) = address.as_sockaddr_in()
        {
            let (address, mask) = (ip.ip(), mask.ip());
            addresses.ip.get_or_insert(Ipv4Prefix { address, mask });
        }
        let link = address.as_link_addr();
        let link = link.filter(|link| HAVE_ETHER_ADDRESSES.contains(&link.hatype()));
        if let Some(ether) = link.and_then(|link| link.addr()) {
            addresses.ether.get_or_insert(EtherAddress(ether));
        }
    }
    interfaces
}

impl Machine {
    /// The machine, some of whose interfaces a configuration calls otherwise: its names, and the machine's.
    pub fn with_links(links: &[(String, String)]) -> Machine {
        Machine {
            links: links.to_vec(),
            ..Machine::default()
        }
    }

    fn files(&self) -> &NameDatabase {
        self.files.get_or_init(|| {
            let mut names = NameDatabase::new();
            if let Ok(protocols) = fs::read("/etc/protocols") {
                names.add_system_protocols(&decode(&protocols));
            }
            if let Ok(services) = fs::read("/etc/services") {
                names.add_system_services(&decode(&services));
            }
            names
        })
    }

    /// The machine's name of an interface.
    pub fn interface<'n>(&'n self, device: &'n str) -> &'n str {
        let link = self.links.iter().find(|(name, _)| name == device);
        link.map_or(device, |(_, interface)| interface)
    }

    fn addresses(&self, device: &str) -> Addresses {
        let device = self.interface(device);
        let interfaces = self.interfaces.lock();
        let mut interfaces = interfaces.unwrap_or_else(PoisonError::into_inner);
        if interfaces
            .as_ref()
            .is_none_or(|(read, _)| read.elapsed() > FRESH)
        {
            *interfaces = Some((Instant::now(), self::interfaces()));
        }
        let known = interfaces.as_ref().and_then(|(_, known)| known.get(device));
        known.copied().unwrap_or_default()
    }
}

impl Host for Machine {
    fn ip(&self, device: &str) -> Option<Ipv4Addr> {
        self.ip_prefix(device).map(|prefix| prefix.address)
    }

    fn ip_prefix(&self, device: &str) -> Option<Ipv4Prefix> {
        self.addresses(device).ip
    }

    fn gateway(&self, device: &str) -> Option<Ipv4Addr> {
        let routes = fs::read_to_string("/proc/net/route").ok()?;
        default_gateway(&routes, self.interface(device))
    }

    fn ether(&self, device: &str) -> Option<EtherAddress> {
        self.addresses(device).ether
    }

    fn number(&self, kind: Kind, name: &str) -> Option<u32> {
        match kind {
            Kind::IpProtocol | Kind::Port(_) => self.files().system_int(kind, name),
            _ => None,
        }
    }

    fn home(&self, user: Option<&str>) -> Option<String> {
        match user {
            None => Some(decode(std::env::var_os("HOME")?.as_bytes()).into_owned()),
            Some(user) => {
                let users = fs::read("/etc/passwd").ok()?;
                let users = decode(&users);
                let mut lines = users.lines().map(|line| line.split(':'));
                lines.find_map(|mut fields| {
                    (fields.next()? == user).then(|| fields.nth(4).map(str::to_string))?
                })
            }
        }
    }
}

/// The next hop of the default route through `device`, in the text of /proc/net/route.
fn default_gateway(routes: &str, device: &str) -> Option<Ipv4Addr> {
    routes.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (name, destination, gateway) = (fields.next()?, fields.next()?, fields.next()?);
        if name != device || destination != "00000000" {
            return None;
        }
        // In memory order, which the kernel prints as a number of this machine.
        let gateway = u32::from_str_radix(gateway, 16).ok()?;
        let gateway = Ipv4Addr::from(gateway.to_ne_bytes());
        (!IpAddr::from(gateway).is_unspecified()).then_some(gateway)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_its_address() {
        let machine = Machine::default();
        assert_eq!(machine.ip("lo"), Some(Ipv4Addr::LOCALHOST));
        assert_eq!(machine.ether("lo"), None);
        assert_eq!(machine.ether("no such device"), None);
    }

    #[test]
    fn the_default_route_names_the_gateway() {
        let routes = "Iface\tDestination\tGateway \tFlags\n\
                      eth0\t0000000A\t00000000\t0001\n\
                      eth0\t00000000\t0100000A\t0003\n";
        let gateway = default_gateway(routes, "eth0");
        if cfg!(target_endian = "little") {
            assert_eq!(gateway, Some(Ipv4Addr::new(10, 0, 0, 1)));
        }
        assert_eq!(default_gateway(routes, "eth1"), None);
    }
}
