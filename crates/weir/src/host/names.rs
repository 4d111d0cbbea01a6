//! Names that the host knows: network devices' addresses, protocols, services, home directories.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

use nix::ifaddrs::getifaddrs;
use router::args::{EtherAddress, Host, Ipv4Prefix, Kind, NameDatabase};

/// The machine this process runs on.
#[derive(Default)]
pub struct Machine {
    /// What its files of protocols and services say, read when a name is first looked up.
    files: OnceLock<NameDatabase>,
}

impl Machine {
    fn files(&self) -> &NameDatabase {
        self.files.get_or_init(|| {
            let mut names = NameDatabase::new();
            if let Ok(protocols) = fs::read("/etc/protocols") {
                names.add_system_protocols(&String::from_utf8_lossy(&protocols));
            }
            if let Ok(services) = fs::read("/etc/services") {
                names.add_system_services(&String::from_utf8_lossy(&services));
            }
            names
        })
    }
}

impl Host for Machine {
    fn ip(&self, device: &str) -> Option<Ipv4Addr> {
        self.ip_prefix(device).map(|prefix| prefix.address)
    }

    fn ip_prefix(&self, device: &str) -> Option<Ipv4Prefix> {
        getifaddrs().ok()?.find_map(|interface| {
            let address = interface.address?.as_sockaddr_in()?.ip();
            let mask = interface.netmask?.as_sockaddr_in()?.ip();
            (interface.interface_name == device).then_some(Ipv4Prefix { address, mask })
        })
    }

    fn gateway(&self, device: &str) -> Option<Ipv4Addr> {
        default_gateway(&fs::read_to_string("/proc/net/route").ok()?, device)
    }

    fn ether(&self, device: &str) -> Option<EtherAddress> {
        getifaddrs().ok()?.find_map(|interface| {
            let address = interface.address?.as_link_addr()?.addr()?;
            (interface.interface_name == device).then_some(EtherAddress(address))
        })
    }

    fn number(&self, kind: Kind, name: &str) -> Option<u32> {
        match kind {
            Kind::IpProtocol | Kind::Port(_) => self.files().int(kind, name, ""),
            _ => None,
        }
    }

    fn home(&self, user: Option<&str>) -> Option<String> {
        match user {
            None => std::env::var("HOME").ok(),
            Some(user) => {
                let users = fs::read_to_string("/etc/passwd").ok()?;
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
