//! Domains: what each may use, and what it uses.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::connection::ConnectionId;
use crate::path::Path;
use crate::wire::DomainId;

/// How much a guest may use; 0: as much as it likes. The control domain has no quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Nodes that it owns.
    pub nodes: u32,
    /// Bytes of a value.
    pub node_size: u32,
    /// Watches.
    pub watches: u32,
    /// Transactions at a time.
    pub transactions: u32,
    /// Nodes that a transaction reads, lists or changes, counting each time.
    pub transaction_nodes: u32,
    /// Permission entries of a node.
    pub permissions: u32,
}

impl Default for Quotas {
    /// As Xen's server has them.
    fn default() -> Quotas {
        Quotas {
            nodes: 1000,
            node_size: 2048,
            watches: 128,
            transactions: 10,
            transaction_nodes: 1024,
            permissions: 5,
        }
    }
}

/// The quotas' names, as `GET_QUOTA` and `SET_QUOTA` have them.
pub const QUOTAS: [&str; 6] = [
    "nodes",
    "node-size",
    "watches",
    "transactions",
    "transaction-nodes",
    "permissions",
];

impl Quotas {
    /// The quota of this name.
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut u32> {
        let all = [
            &mut self.nodes,
            &mut self.node_size,
            &mut self.watches,
            &mut self.transactions,
            &mut self.transaction_nodes,
            &mut self.permissions,
        ];
        let mut named = QUOTAS.iter().zip(all);
        let found = named.find(|(quota, _)| quota.as_bytes() == name);
        found.map(|(_, quota)| quota)
    }
}

/// Whether `used` is more than `quota` allows.
pub fn exceeds(used: usize, quota: u32) -> bool {
    quota != 0 && used > quota as usize
}

/// A domain.
#[derive(Default)]
pub struct Domain {
    /// Whether it was introduced, and not yet released.
    pub introduced: bool,
    /// The domain whose rights it has, too.
    pub target: Option<DomainId>,
    /// The domains that have its rights.
    pub target_of: Vec<DomainId>,
    /// Its connections, if it is not the control domain.
    pub connections: Vec<ConnectionId>,
    /// Its quotas, if they differ from the general ones.
    pub quotas: Option<Quotas>,
    /// The nodes that it owns, if it is not the control domain.
    pub owned: BTreeSet<Path>,
    /// Its watches.
    pub watches: usize,
    /// Its transactions.
    pub transactions: usize,
}

/// The number that a string is.
pub fn number<N: FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
