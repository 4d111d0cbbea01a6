//! Names in patterns: addresses, ports, protocols, ICMP types, TCP flags.

use crate::prelude::*;
use hashbrown::HashMap;

/// Kinds of numbers that have names.
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
    /// An ICMPv6 type; only in patterns for both versions of IP.
    Icmp6Type,
}

impl NumberName {
    pub(super) const ALL: [NumberName; 6] = [
        NumberName::IpProtocol,
        NumberName::TcpPort,
        NumberName::UdpPort,
        NumberName::TcpOption,
        NumberName::IcmpType,
        NumberName::Icmp6Type,
    ];
}

/// Resolves the names that patterns use. An element adapts its name database;
/// [`ProtocolNames`] knows the well-known numbers and no addresses.
///
/// The parser reads numeric forms (`10.0.0.1`, `80`, `1:2:3:4:5:6`) itself.
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

    /// The IPv6 address that `name` stands for.
    fn ip6_address(&self, name: &str) -> Option<[u8; 16]> {
        let _ = name;
        None
    }

    /// The IPv6 network that `name` stands for: address and prefix length.
    fn ip6_prefix(&self, name: &str) -> Option<([u8; 16], u8)> {
        let _ = name;
        None
    }

    /// The Ethernet address that `name` stands for.
    fn ether_address(&self, name: &str) -> Option<[u8; 6]> {
        let _ = name;
        None
    }
}

/// What a word is the name of, for each of [`NumberName::ALL`].
pub(super) type Numbers = [Option<u32>; NumberName::ALL.len()];

/// Names, with what was last asked of them. Rules use the same words again and
/// again, most of which are no names, and each look-up goes through the tables
/// of all kinds.
pub(super) struct KnownWords<'r> {
    pub(super) names: &'r dyn Names,
    /// Whether patterns are about IPv6 packets, too.
    pub(super) both: bool,
    numbers: HashMap<&'r str, Numbers>,
}

impl<'r> KnownWords<'r> {
    /// Most words that are kept: addresses are of no use again.
    const MAX: usize = 256;

    pub(super) fn new(names: &'r dyn Names, both: bool) -> KnownWords<'r> {
        KnownWords {
            names,
            both,
            numbers: HashMap::new(),
        }
    }

    /// The numbers that `word` is the name of.
    pub(super) fn numbers(&mut self, word: &'r str) -> Numbers {
        if let Some(numbers) = self.numbers.get(word) {
            return *numbers;
        }
        if self.numbers.len() == Self::MAX {
            self.numbers.clear();
        }
        let mut numbers = NumberName::ALL.map(|name| self.names.number(name, word));
        if self.both {
            if word == "icmp6" {
                numbers[0] = Some(IpProtocol::ICMPV6.0.into());
            }
            numbers[5] = icmp6_type(word);
        }
        self.numbers.insert(word, numbers);
        numbers
    }
}

/// The names that need no database: the numbers of the IANA registries under
/// the names that Click gives them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProtocolNames;

impl Names for ProtocolNames {
    fn number(&self, kind: NumberName, name: &str) -> Option<u32> {
        match kind.table() {
            Some(table) => BUILT_IN.int(table, name, ""),
            None if kind == NumberName::TcpOption => tcp_flag(name),
            None => None,
        }
    }
}

static BUILT_IN: NameDatabase = NameDatabase::new();

impl NumberName {
    /// The table of a name database that has such names; TCP's flags and ICMPv6's types are in none.
    pub fn table(self) -> Option<Kind> {
        match self {
            NumberName::IpProtocol => Some(Kind::IpProtocol),
            NumberName::TcpPort => Some(Kind::TCP_PORT),
            NumberName::UdpPort => Some(Kind::UDP_PORT),
            NumberName::IcmpType => Some(Kind::IcmpType),
            NumberName::TcpOption | NumberName::Icmp6Type => None,
        }
    }
}

/// The types of ICMPv6 (RFC 4443), by the names that ICMP's have.
pub(super) const ICMP6_TYPES: [(&str, u32); 6] = [
    ("echo", 128),
    ("echo-reply", 129),
    ("unreachable", 1),
    ("toobig", 2),
    ("timeexceeded", 3),
    ("parameterproblem", 4),
];

fn icmp6_type(name: &str) -> Option<u32> {
    let found = ICMP6_TYPES.iter().find(|(known, _)| *known == name);
    found.map(|(_, number)| *number)
}

fn tcp_flag(name: &str) -> Option<u32> {
    let flag = TCP_OPTIONS.iter().find(|(flag, _)| *flag == name);
    flag.map(|(_, bit)| u32::from(*bit))
}

const TCP_OPTIONS: &[(&str, u16)] = &[
    ("ack", 0x10),
    ("fin", 0x01),
    ("psh", 0x08),
    ("rst", 0x04),
    ("syn", 0x02),
    ("urg", 0x20),
];
