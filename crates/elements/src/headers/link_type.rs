//! Link types: what the first header of a captured packet is, by the numbers of capture files
//! (<https://www.tcpdump.org/linktypes.html>), and how to find the IP header behind it.

use alloc::borrow::Cow;

use crate::prelude::*;

/// A link type's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkType(pub u32);

impl LinkType {
    pub const NULL: LinkType = LinkType(0);
    pub const ETHERNET: LinkType = LinkType(1);
    pub const PPP: LinkType = LinkType(9);
    pub const FDDI: LinkType = LinkType(10);
    /// Raw IP as some hosts number it; files say [`RAW`](Self::RAW).
    const HOST_RAW: LinkType = LinkType(12);
    pub const PPP_HDLC: LinkType = LinkType(50);
    pub const RFC1483: LinkType = LinkType(100);
    pub const RAW: LinkType = LinkType(101);
    pub const C_HDLC: LinkType = LinkType(104);
    pub const WIFI: LinkType = LinkType(105);
    pub const LINUX_SLL: LinkType = LinkType(113);
    pub const PRISM: LinkType = LinkType(119);
    pub const AIRONET: LinkType = LinkType(120);
    pub const SUNATM: LinkType = LinkType(123);
    pub const WIFI_RADIO: LinkType = LinkType(127);
}

/// Names as arguments and handlers have them; a type's first name is the one shown.
const NAMES: [(&str, LinkType); 18] = [
    ("NULL", LinkType::NULL),
    ("IP", LinkType::RAW),
    ("ETHER", LinkType::ETHERNET),
    ("FDDI", LinkType::FDDI),
    ("ATM", LinkType::RFC1483),
    ("RFC1483", LinkType::RFC1483),
    ("ATM_RFC1483", LinkType::RFC1483),
    ("802_11", LinkType::WIFI),
    ("802.11", LinkType::WIFI),
    ("802_11_RADIO", LinkType::WIFI_RADIO),
    ("802.11_RADIO", LinkType::WIFI_RADIO),
    ("SLL", LinkType::LINUX_SLL),
    ("AIRONET", LinkType::AIRONET),
    ("HDLC", LinkType::C_HDLC),
    ("PPP_HDLC", LinkType::PPP_HDLC),
    ("PPP", LinkType::PPP),
    ("SUNATM", LinkType::SUNATM),
    ("PRISM", LinkType::PRISM),
];

impl LinkType {
    /// The type called `name`, or numbered `#N`.
    #[cfg(any(test, feature = "host"))]
    pub fn parse(name: &str) -> Option<LinkType> {
        let named = NAMES.iter().find(|(known, _)| *known == name);
        if let Some((_, link)) = named {
            return Some(*link);
        }
        let number: u32 = name.strip_prefix('#')?.parse().ok()?;
        (number < i32::MAX as u32).then_some(LinkType(number))
    }

    /// The name, or `#N`.
    pub fn name(self) -> Cow<'static, str> {
        match NAMES.iter().find(|(_, link)| *link == self) {
            Some((name, _)) => Cow::Borrowed(name),
            None => Cow::Owned(format!("#{}", self.0)),
        }
    }

    /// The same type by the number that files have for it.
    #[cfg(any(test, feature = "host"))]
    pub fn canonical(self) -> LinkType {
        if self == LinkType::HOST_RAW {
            LinkType::RAW
        } else {
            self
        }
    }

    /// Whether [`force_ip`](Self::force_ip) knows the type.
    #[cfg(any(test, feature = "host"))]
    pub fn can_force_ip(self) -> bool {
        self == LinkType::HOST_RAW
            || (NAMES.iter().any(|(_, link)| *link == self) && self != LinkType::AIRONET)
    }

    /// Finds the IP header behind the link header, marks it as network header and, in IPv4,
    /// sets the destination annotation. False, and the packet unchanged, if there is none.
    pub fn force_ip(self, packet: &mut Packet) -> bool {
        let Some(at) = self.find_ip(packet.data()) else {
            return false;
        };
        let Some(header) = packet.data().get(at..) else {
            return false;
        };
        match header.first().map(|byte| (byte >> 4, byte & 15)) {
            Some((4, words @ 5..)) if header.len() >= 4 * words as usize => {
                let to = match header.get(16..20) {
                    Some(&[a, b, c, d]) => Ipv4Addr::new(a, b, c, d),
                    _ => return false,
                };
                packet.set_network_header(at, 4 * words as usize);
                packet.set_dst_ip(to);
                true
            }
            Some((6, _)) if header.len() >= 40 => {
                packet.set_network_header(at, 40);
                true
            }
            _ => false,
        }
    }

    /// Where the IP header starts, if what stands in front says that there is one.
    fn find_ip(self, data: &[u8]) -> Option<usize> {
        match self {
            LinkType::RAW | LinkType::HOST_RAW => Some(0),
            LinkType::ETHERNET => ethernet(data, 0),
            LinkType::FDDI => fddi(data, 0),
            LinkType::SUNATM => snap(data, 4),
            LinkType::RFC1483 => snap(data, 0),
            LinkType::LINUX_SLL => ip_type(data, 14).then_some(16),
            LinkType::C_HDLC => ip_type(data, 2).then_some(4),
            LinkType::PPP_HDLC => match data.first_chunk()? {
                [0xff, _, 0, PPP_IP | PPP_IP6] => Some(4),
                [0x0f | 0x8f, ..] if ip_type(data, 2) => Some(4),
                [_, _, _, _] => None,
            },
            LinkType::PPP => ppp(data),
            LinkType::WIFI => wifi(data, 0),
            LinkType::PRISM => wifi(data, 144),
            LinkType::WIFI_RADIO => {
                let length = u16::from_le_bytes([*data.get(2)?, *data.get(3)?]);
                wifi(data, Some(length).filter(|length| *length >= 8)? as usize)
            }
            LinkType::NULL => null(data),
            _ => None,
        }
    }
}

const PPP_IP: u8 = 0x21;
const PPP_IP6: u8 = 0x57;
const ETHER_IP: [u8; 2] = [0x08, 0x00];
const ETHER_IP6: [u8; 2] = [0x86, 0xdd];
const ETHER_VLAN: [u8; 2] = [0x81, 0x00];

fn pair(data: &[u8], at: usize) -> Option<[u8; 2]> {
    data.get(at..)?.first_chunk().copied()
}

/// Whether the Ethernet type at `at` is IP's or IPv6's.
fn ip_type(data: &[u8], at: usize) -> bool {
    matches!(pair(data, at), Some(ETHER_IP | ETHER_IP6))
}

/// Behind an Ethernet header, with a VLAN tag or without.
fn ethernet(data: &[u8], at: usize) -> Option<usize> {
    match pair(data, at + 12)? {
        ETHER_IP | ETHER_IP6 => Some(at + 14),
        ETHER_VLAN if ip_type(data, at + 16) => Some(at + 18),
        _ => None,
    }
}

fn fddi(data: &[u8], at: usize) -> Option<usize> {
    // The frame control's upper bits say that LLC follows.
    let is_llc = data.get(at)? & 0xf0 == 0x50;
    is_llc.then(|| snap(data, at + 13)).flatten()
}

/// Behind LLC and SNAP headers (RFC 1483), bridged frames included (RFC 2684).
fn snap(data: &[u8], at: usize) -> Option<usize> {
    const LLC_IP: u8 = 0x06;
    let header = data.get(at..)?;
    if let [LLC_IP, LLC_IP, _, _, ..] = header {
        return Some(at + 4);
    }
    let header: &[u8; 8] = header.first_chunk()?;
    match *header {
        [0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0x00] | [0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd] => Some(at + 8),
        // The frame's type stands where an Ethernet header twelve bytes in front would have it.
        [0xaa, 0xaa, _, 0, 0, 0 | 0xf8, ..] => ethernet(data, (at + 6).checked_sub(12)?),
        [0xaa, 0xaa, _, 0, 0x80, 0xc2, 0, 1 | 7] => ethernet(data, at + 8),
        [0xaa, 0xaa, _, 0, 0x80, 0xc2, 0, 4 | 10] => fddi(data, at + 9),
        _ => None,
    }
}

fn ppp(data: &[u8]) -> Option<usize> {
    let at = if data.starts_with(&[0xff, 3]) { 2 } else { 0 };
    match pair(data, at)? {
        [PPP_IP | PPP_IP6, _] => Some(at + 1),
        [0, PPP_IP | PPP_IP6] => Some(at + 2),
        _ => None,
    }
}

fn wifi(data: &[u8], at: usize) -> Option<usize> {
    let header = data.get(at..at + 24)?;
    // A data frame; one from access point to access point has a fourth address.
    let is_data = header[0] & 0x0c == 0x08;
    let length = if header[1] & 3 == 3 { 30 } else { 24 };
    is_data.then(|| snap(data, at + length)).flatten()
}

/// Behind the four-byte address family of a loopback, in either byte order.
fn null(data: &[u8]) -> Option<usize> {
    let [a, b, c, d] = *data.first_chunk()?;
    let family = match u16::from_le_bytes([a, b]) {
        0 => u16::from_be_bytes([c, d]),
        family => family,
    };
    matches!(family, 2 | 24 | 28 | 30).then_some(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    fn forced(link: LinkType, data: &[u8]) -> Option<(isize, usize, Ipv4Addr)> {
        let mut packet = Pool::heap(1).copy(data).unwrap();
        link.force_ip(&mut packet).then(|| {
            let at = packet.network_offset().unwrap();
            (at, packet.network_header_len(), packet.dst_ip())
        })
    }

    fn datagram() -> Vec<u8> {
        udp(([1, 0, 0, 1].into(), 1), ([2, 0, 0, 2].into(), 2), &[])
    }

    #[test]
    fn names_and_numbers() {
        for (name, link) in NAMES {
            assert_eq!(LinkType::parse(name), Some(link));
        }
        assert_eq!(LinkType::parse("#147"), Some(LinkType(147)));
        assert_eq!(LinkType::parse("TOKEN"), None);
        assert_eq!(LinkType::parse("#x"), None);
        assert_eq!(LinkType::RFC1483.name(), "ATM");
        assert_eq!(LinkType(147).name(), "#147");
        assert_eq!(LinkType(12).canonical(), LinkType::RAW);
    }

    #[test]
    fn the_ip_header_is_found_behind_each_link_header() {
        let ip = datagram();
        let behind = |front: &[u8]| [front, &ip].concat();
        let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
        let mut wifi = [0; 24];
        wifi[0] = 8;
        let cases: &[(LinkType, Vec<u8>)] = &[
            (LinkType::RAW, ip.clone()),
            (LinkType::ETHERNET, ether([1; 6], [2; 6], 0x800, &ip)),
            (
                LinkType::ETHERNET,
                ether([1; 6], [2; 6], 0x8100, &behind(&[0, 5, 8, 0])),
            ),
            (
                LinkType::LINUX_SLL,
                [&[0; 14], &behind(&[8, 0])[..]].concat(),
            ),
            (LinkType::C_HDLC, behind(&[0x0f, 0, 8, 0])),
            (LinkType::PPP_HDLC, behind(&[0xff, 3, 0, 0x21])),
            (LinkType::PPP_HDLC, behind(&[0x0f, 0, 8, 0])),
            (LinkType::PPP, behind(&[0xff, 3, 0x21])),
            (LinkType::PPP, behind(&[0, 0x21])),
            (LinkType::RFC1483, behind(&snap)),
            (LinkType::RFC1483, behind(&[6, 6, 3, 0])),
            (LinkType::SUNATM, [&[0; 4], &behind(&snap)[..]].concat()),
            (LinkType::WIFI, [&wifi[..], &behind(&snap)].concat()),
            (LinkType::NULL, behind(&[2, 0, 0, 0])),
            (LinkType::NULL, behind(&[0, 0, 0, 2])),
        ];
        for (link, data) in cases {
            let at = (data.len() - ip.len()) as isize;
            let expected = Some((at, 20, Ipv4Addr::new(2, 0, 0, 2)));
            assert_eq!(forced(*link, data), expected, "{}", link.name());
        }
        let mut six = [0; 40];
        six[0] = 0x60;
        assert_eq!(
            forced(LinkType::RAW, &six),
            Some((0, 40, Ipv4Addr::UNSPECIFIED))
        );
    }

    #[test]
    fn what_is_not_ip_is_left_alone() {
        let ip = datagram();
        assert_eq!(
            forced(LinkType::ETHERNET, &ether([1; 6], [2; 6], 0x806, &ip)),
            None
        );
        assert_eq!(forced(LinkType::RAW, &ip[..19]), None);
        assert_eq!(forced(LinkType::AIRONET, &ip), None);
        assert!(!LinkType::AIRONET.can_force_ip());
        assert!(LinkType::ETHERNET.can_force_ip());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(link in 0u32..130, data: Vec<u8>) {
            let _ = forced(LinkType(link), &data);
        }
    }
}
