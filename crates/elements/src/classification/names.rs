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
}

impl NumberName {
    pub(super) const ALL: [NumberName; 5] = [
        NumberName::IpProtocol,
        NumberName::TcpPort,
        NumberName::UdpPort,
        NumberName::TcpOption,
        NumberName::IcmpType,
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
/// of five kinds.
pub(super) struct KnownWords<'r> {
    pub(super) names: &'r dyn Names,
    numbers: HashMap<&'r str, Numbers>,
}

impl<'r> KnownWords<'r> {
    /// Most words that are kept: addresses are of no use again.
    const MAX: usize = 256;

    pub(super) fn new(names: &'r dyn Names) -> KnownWords<'r> {
        KnownWords {
            names,
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
        let numbers = NumberName::ALL.map(|name| self.names.number(name, word));
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
            None => tcp_flag(name),
        }
    }
}

static BUILT_IN: NameDatabase = NameDatabase::new();

impl NumberName {
    /// The table of a name database that has such names; TCP's flags are in none.
    pub fn table(self) -> Option<Kind> {
        match self {
            NumberName::IpProtocol => Some(Kind::IpProtocol),
            NumberName::TcpPort => Some(Kind::TCP_PORT),
            NumberName::UdpPort => Some(Kind::UDP_PORT),
            NumberName::IcmpType => Some(Kind::IcmpType),
            NumberName::TcpOption => None,
        }
    }
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
