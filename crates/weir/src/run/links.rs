//! What `--link` says: which host link each of a guest's interfaces stands on.

use std::net::IpAddr;
use std::str::FromStr;

use switch::links::{self, HostLink, LinkError, Mode, Tap, Vxlan};

/// MTU of links whose host side is made here, in bytes.
const MTU: u16 = 1500;

/// The host's side of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A TAP device to be made.
    Tap(String),
    /// An interface that exists, and how it is attached.
    Device(String, Mode),
    /// Other hosts: the number of a VXLAN network, and the hosts.
    Vxlan(u32, Vec<IpAddr>),
}

/// One `--link`: a guest's interface and what it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The interface's name in the configuration.
    pub interface: String,
    /// What it stands on.
    pub host: Host,
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Link, String> {
        let shape = || {
            format!(
                "‘{text}’ is no link: write INTERFACE=tap:NAME or INTERFACE=dev:NAME (or xdp:NAME, packet:NAME, vxlan:VNI@ADDRESS,…), as in inside=dev:eth1"
            )
        };
        let (interface, host) = text.split_once('=').ok_or_else(shape)?;
        let (kind, name) = host.split_once(':').ok_or_else(shape)?;
        if interface.is_empty() || name.is_empty() {
            return Err(shape());
        }
        if interface.len() > abi::region::NAME_MAX {
            return Err(format!(
                "interface name ‘{interface}’ is too long: at most {} bytes",
                abi::region::NAME_MAX
            ));
        }
        let host = match kind {
            "tap" => Host::Tap(name.into()),
            "dev" => Host::Device(name.into(), Mode::Auto),
            "xdp" => Host::Device(name.into(), Mode::Xdp),
            "packet" => Host::Device(name.into(), Mode::Packet),
            "vxlan" => vxlan(name).ok_or_else(shape)?,
            _ => return Err(shape()),
        };
        Ok(Link {
            interface: interface.into(),
            host,
        })
    }
}

/// What `VNI@ADDRESS,ADDRESS…` says.
fn vxlan(text: &str) -> Option<Host> {
    let (vni, remotes) = text.split_once('@')?;
    let remotes = remotes.split(',').map(str::parse);
    let remotes = remotes.collect::<Result<Vec<_>, _>>().ok()?;
    Some(Host::Vxlan(vni.parse().ok()?, remotes))
}

impl Link {
    /// The interface of the host that it stands on, if it is one.
    fn device(&self) -> Option<&str> {
        match &self.host {
            Host::Tap(name) | Host::Device(name, _) => Some(name),
            Host::Vxlan(..) => None,
        }
    }

    /// Opens the host's side, for so many lanes.
    pub fn open(&self, lanes: usize) -> Result<HostLink, LinkError> {
        match &self.host {
            Host::Device(name, mode) => {
                HostLink::attach_lanes(&links::Device { name, mode: *mode }, lanes)
            }
            Host::Tap(name) => HostLink::open(&Tap {
                name,
                mac: None,
                mtu: MTU,
                owner: None,
            }),
            Host::Vxlan(vni, remotes) => HostLink::open(&Vxlan {
                name: &self.interface,
                vni: *vni,
                local: None,
                remotes,
                port: None,
                mtu: None,
            }),
        }
    }
}

/// Two links that stand on one interface of the host, and that interface.
pub fn shared(links: &[Link]) -> Option<(&Link, &Link, &str)> {
    let mut others = links.iter().enumerate();
    others.find_map(|(i, other)| {
        let on = other.device()?;
        let one = links[..i].iter().find(|one| one.device() == Some(on))?;
        Some((one, other, on))
    })
}

/// An address for a guest's interface: locally administered, the same for the same names.
pub fn address(guest: &str, interface: &str) -> [u8; 6] {
    // FNV-1a, 64 bit: short, and good enough to tell names apart.
    let bytes = guest.bytes().chain([0]).chain(interface.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let [a, b, c, d, e, ..] = hash.to_be_bytes();
    [0x02, a, b, c, d, e]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_name_an_interface_and_what_it_stands_on() {
        let link: Link = "inside=tap:weir0".parse().unwrap();
        assert_eq!(link.interface, "inside");
        assert_eq!(link.host, Host::Tap("weir0".into()));
        let link: Link = "outside=dev:eth1".parse().unwrap();
        assert_eq!(link.host, Host::Device("eth1".into(), Mode::Auto));
        let link: Link = "outside=xdp:eth1".parse().unwrap();
        assert_eq!(link.host, Host::Device("eth1".into(), Mode::Xdp));
        let link: Link = "outside=vxlan:42@10.0.0.2,10.0.0.3".parse().unwrap();
        let remotes = [2, 3].map(|host| IpAddr::from([10, 0, 0, host]));
        assert_eq!(link.host, Host::Vxlan(42, remotes.to_vec()));
        let link: Link = "outside=vxlan:1@fd00::2".parse().unwrap();
        assert_eq!(link.host, Host::Vxlan(1, vec!["fd00::2".parse().unwrap()]));
    }

    #[test]
    fn what_is_no_link_is_told_with_its_shape() {
        for wrong in [
            "",
            "inside",
            "inside=weir0",
            "=tap:x",
            "inside=tap:",
            "inside=veth:x",
            "inside=vxlan:42",
            "inside=vxlan:42@",
            "inside=vxlan:x@10.0.0.2",
            "inside=vxlan:42@host",
        ] {
            let error = wrong.parse::<Link>().unwrap_err();
            assert!(error.contains("INTERFACE=tap:NAME"), "{error}");
        }
    }

    #[test]
    fn two_links_on_one_interface_are_found() {
        let links = |texts: &[&str]| -> Vec<Link> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        assert_eq!(shared(&links(&["a=dev:x", "b=dev:y", "c=tap:z"])), None);
        let all = links(&["a=dev:y", "b=dev:x", "c=packet:x"]);
        assert_eq!(shared(&all), Some((&all[1], &all[2], "x")));
    }

    #[test]
    fn addresses_are_local_and_differ() {
        let inside = address("firewall", "inside");
        assert_eq!(inside[0], 0x02);
        assert_eq!(inside, address("firewall", "inside"));
        assert_ne!(inside, address("firewall", "outside"));
        assert_ne!(inside, address("router", "inside"));
    }
}
