//! The predefined names: the names of Click's IPNameInfo, and the annotations of a packet.

use packet::anno::Anno;

use super::Kind;

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
/// Click's name for either of TCP and UDP; beyond real protocol numbers.
pub(super) const TCP_OR_UDP: u32 = 256;

type Names = &'static [(&'static str, u32)];

const IP_PROTOCOLS: Names = &[
    ("dccp", 33),
    ("gre", 47),
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("payload", 259),
    ("sctp", 132),
    ("tcp", TCP as u32),
    ("tcpudp", TCP_OR_UDP),
    ("transp", 258),
    ("udp", UDP as u32),
];

const ICMP_TYPES: Names = &[
    ("echo", 8),
    ("echo-reply", 0),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
    ("parameterproblem", 12),
    ("redirect", 5),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("sourcequench", 4),
    ("timeexceeded", 11),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("unreachable", 3),
];

const ICMP_UNREACHABLE_CODES: Names = &[
    ("filterprohibited", 13),
    ("host", 1),
    ("hostprecedence", 14),
    ("hostprohibited", 10),
    ("hostunknown", 7),
    ("isolated", 8),
    ("needfrag", 4),
    ("net", 0),
    ("netprohibited", 9),
    ("netunknown", 6),
    ("port", 3),
    ("precedencecutoff", 15),
    ("protocol", 2),
    ("srcroutefail", 5),
    ("toshost", 12),
    ("tosnet", 11),
];

const ICMP_REDIRECT_CODES: Names = &[("host", 1), ("net", 0), ("toshost", 3), ("tosnet", 2)];
const ICMP_TIME_EXCEEDED_CODES: Names = &[("reassembly", 1), ("transit", 0)];
const ICMP_PARAMETER_CODES: Names = &[("erroratptr", 0), ("length", 2), ("missingopt", 1)];

const PORTS: Names = &[
    ("auth", 113),
    ("bootpc", 68),
    ("bootps", 67),
    ("chargen", 19),
    ("daytime", 13),
    ("discard", 9),
    ("dns", 53),
    ("domain", 53),
    ("echo", 7),
    ("finger", 79),
    ("ftp", 21),
    ("ftp-data", 20),
    ("https", 443),
    ("imap3", 220),
    ("imaps", 993),
    ("irc", 194),
    ("netbios-dgm", 138),
    ("netbios-ns", 137),
    ("netbios-ssn", 139),
    ("nntp", 119),
    ("ntp", 123),
    ("pop3", 110),
    ("pop3s", 995),
    ("pptp", 1723),
    ("rip", 520),
    ("route", 520),
    ("smtp", 25),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("ssh", 22),
    ("sunrpc", 111),
    ("telnet", 23),
    ("tftp", 69),
    ("www", 80),
];

const fn annotation(offset: u32, size: u32) -> u32 {
    size << 16 | offset
}

/// Names of annotations that the packet crate does not have.
const ANNOTATIONS: Names = &[
    ("GRID_ROUTE_CB", annotation(27, 1)),
    ("VLAN", annotation(20, 2)),
    ("WIFI_EXTRA", annotation(16, 24)),
];

const fn table(kind: Kind) -> Names {
    match kind {
        Kind::IpProtocol => IP_PROTOCOLS,
        Kind::Port(TCP | UDP) => PORTS,
        Kind::IcmpType => ICMP_TYPES,
        Kind::IcmpCode(3) => ICMP_UNREACHABLE_CODES,
        Kind::IcmpCode(5) => ICMP_REDIRECT_CODES,
        Kind::IcmpCode(11) => ICMP_TIME_EXCEEDED_CODES,
        Kind::IcmpCode(12) => ICMP_PARAMETER_CODES,
        Kind::Annotation => ANNOTATIONS,
        _ => &[],
    }
}

/// The number that a built-in `name` stands for.
pub(super) fn built_in(kind: Kind, name: &str) -> Option<u32> {
    let names = table(kind);
    let at = names.binary_search_by_key(&name, |&(name, _)| name).ok();
    match at {
        Some(at) => Some(names[at].1),
        None => packet_annotations(kind).find_map(|(n, value)| (n == name).then_some(value)),
    }
}

/// The first built-in name for `value`.
pub(super) fn built_in_name(kind: Kind, value: u32) -> Option<&'static str> {
    let mut names = packet_annotations(kind).chain(table(kind).iter().copied());
    names.find_map(|(name, v)| (v == value).then_some(name))
}

fn packet_annotations(kind: Kind) -> impl Iterator<Item = (&'static str, u32)> {
    let all: &[Anno] = if kind == Kind::Annotation {
        &packet::anno::ALL
    } else {
        &[]
    };
    all.iter()
        .map(|anno| (anno.name, annotation(anno.offset as u32, anno.size as u32)))
}

/// The entries of a file such as services(5): the names, and the second word.
pub(super) fn entries(file: &str) -> impl Iterator<Item = (impl Iterator<Item = &str>, &str)> {
    file.lines().filter_map(|line| {
        let line = line.split('#').next().unwrap_or("");
        let mut words = line.split_ascii_whitespace();
        let (name, value) = (words.next()?, words.next()?);
        Some((core::iter::once(name).chain(words), value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        let codes = [3, 5, 11, 12].map(Kind::IcmpCode);
        let others = [
            Kind::IpProtocol,
            Kind::TCP_PORT,
            Kind::IcmpType,
            Kind::Annotation,
        ];
        for kind in codes.into_iter().chain(others) {
            let names = table(kind);
            assert!(!names.is_empty());
            assert!(names.is_sorted_by(|a, b| a.0 < b.0), "{kind:?}");
        }
    }
}
