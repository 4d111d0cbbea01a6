//! Names in patterns: addresses, ports, protocols, ICMP types, TCP flags.

/// What kind of number a name may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberName {
    /// An IP protocol: 0 to 255, or one of the pseudo-protocols 256
    /// (`tcpudp`), 258 (`transp`) and 259 (`payload`).
    IpProtocol,
    /// A TCP port.
    TcpPort,
    /// A UDP port.
    UdpPort,
    /// A TCP flag, as its bit in the flags byte.
    TcpOption,
    /// An ICMP type.
    IcmpType,
}

/// Resolves the names that patterns use. An element adapts its name database;
/// [`ProtocolNames`] knows the well-known numbers and no addresses.
///
/// Numeric forms (`10.0.0.1`, `80`, `1:2:3:4:5:6`) are read by the parser and
/// are not asked for here.
pub trait Names {
    /// The number that `name` stands for among names of that kind.
    fn number(&self, kind: NumberName, name: &str) -> Option<u32> {
        ProtocolNames.number(kind, name)
    }

    /// The IP address that `name` stands for.
    fn ip_address(&self, name: &str) -> Option<[u8; 4]> {
        let _ = name;
        None
    }

    /// The IP network that `name` stands for: address and mask.
    fn ip_prefix(&self, name: &str) -> Option<([u8; 4], [u8; 4])> {
        let _ = name;
        None
    }

    /// The Ethernet address that `name` stands for.
    fn ether_address(&self, name: &str) -> Option<[u8; 6]> {
        let _ = name;
        None
    }
}

/// The names that need no database: the numbers of the IANA registries under
/// the names that Click gives them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProtocolNames;

impl Names for ProtocolNames {
    fn number(&self, kind: NumberName, name: &str) -> Option<u32> {
        let table = match kind {
            NumberName::IpProtocol => IP_PROTOCOLS,
            NumberName::TcpPort | NumberName::UdpPort => PORTS,
            NumberName::TcpOption => TCP_OPTIONS,
            NumberName::IcmpType => ICMP_TYPES,
        };
        let at = table.binary_search_by(|entry| entry.0.cmp(name)).ok()?;
        Some(u32::from(table[at].1))
    }
}

// Each table is sorted by name; a test holds that.
pub(super) const IP_PROTOCOLS: &[(&str, u16)] = &[
    ("dccp", 33),
    ("gre", 47),
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("payload", 259),
    ("sctp", 132),
    ("tcp", 6),
    ("tcpudp", 256),
    ("transp", 258),
    ("udp", 17),
];

pub(super) const TCP_OPTIONS: &[(&str, u16)] = &[
    ("ack", 0x10),
    ("fin", 0x01),
    ("psh", 0x08),
    ("rst", 0x04),
    ("syn", 0x02),
    ("urg", 0x20),
];

pub(super) const ICMP_TYPES: &[(&str, u16)] = &[
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

pub(super) const PORTS: &[(&str, u16)] = &[
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_for_binary_search() {
        for table in [IP_PROTOCOLS, TCP_OPTIONS, ICMP_TYPES, PORTS] {
            assert!(table.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
