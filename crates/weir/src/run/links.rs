//! What `--link` says: which host link each of a guest's interfaces stands on.

use std::str::FromStr;

use node::model::{LINK_FORMS, Link as Host};
use switch::links::{HostLink, LinkError};

/// MTU of links whose host side is made here, in bytes.
const MTU: u16 = 1500;

/// One `--link`: a guest's interface and its link.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The interface's name in the configuration.
    pub interface: String,
    /// The link.
    pub host: Host,
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Link, String> {
        let shape = || {
            format!(
                "‘{text}’ is not a link: write INTERFACE=LINK, where LINK is {LINK_FORMS}, as in inside=dev:eth1"
            )
        };
        let (interface, host) = text.split_once('=').ok_or_else(shape)?;
        if interface.is_empty() {
            return Err(shape());
        }
        if interface.len() > abi::region::NAME_MAX {
            return Err(format!(
                "interface name ‘{interface}’ is too long: at most {} bytes",
                abi::region::NAME_MAX
            ));
        }
        let host = Host::parse(host).ok_or_else(shape)?;
        Ok(Link {
            interface: interface.into(),
            host,
        })
    }
}

impl Link {
    /// The interface of the host that it attaches, if it is one that is there.
    pub fn attached(&self) -> Option<&str> {
        let interface = self.host.interface();
        interface.filter(|_| self.host.needs_interface())
    }

    /// Opens the host's side, for so many lanes.
    pub fn open(&self, lanes: usize) -> Result<HostLink, LinkError> {
        self.host.open(&self.interface, MTU, lanes)
    }
}

/// Two links that stand on one interface of the host, and that interface.
pub fn shared(links: &[Link]) -> Option<(&Link, &Link, &str)> {
    let mut others = links.iter().enumerate();
    others.find_map(|(i, other)| {
        let on = other.host.interface()?;
        let one = links[..i]
            .iter()
            .find(|one| one.host.interface() == Some(on))?;
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
    use std::net::IpAddr;

    use node::model::Mode;

    use super::*;

    #[test]
    fn links_name_an_interface_and_what_it_stands_on() {
        let link: Link = "inside=tap:weir0".parse().unwrap();
        assert_eq!(link.interface, "inside");
        assert_eq!(
            (link.host.interface(), link.host.mode),
            (Some("weir0"), Mode::Tap)
        );
        for (text, mode) in [
            ("dev", Mode::Auto),
            ("xdp", Mode::Xdp),
            ("packet", Mode::Packet),
        ] {
            let link: Link = format!("outside={text}:eth1").parse().unwrap();
            assert_eq!(
                (link.host.interface(), link.host.mode),
                (Some("eth1"), mode)
            );
        }
        for remotes in [&["10.0.0.2", "10.0.0.3"][..], &["fd00::2"]] {
            let text = format!("outside=vxlan:42@{}", remotes.join(","));
            let tunnel = text.parse::<Link>().unwrap().host.vxlan.unwrap();
            let parsed = remotes.iter().map(|it| it.parse::<IpAddr>().unwrap());
            assert_eq!((tunnel.vni, tunnel.remotes), (42, parsed.collect()));
        }
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
            assert!(
                error.contains("INTERFACE=LINK, where LINK is tap:NAME"),
                "{error}"
            );
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
