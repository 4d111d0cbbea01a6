//! The keys of a cluster in etcd. Everything is below one prefix, `/weir/` by default.
//!
//! | key | value | written by |
//! | --- | --- | --- |
//! | `settings` | [`Settings`](crate::model::Settings) | commands |
//! | `policies/NAME` | [`scheduler::Policy`] | commands |
//! | `leader` | the host that leads, under its lease | agents |
//! | `hosts/HOST` | [`HostRecord`](crate::model::HostRecord) | commands |
//! | `alive/HOST` | [`Alive`](crate::model::Alive), under the host's lease | the host's agent |
//! | `facts/HOST` | [`scheduler::facts::Host`] | the host's agent |
//! | `loads/HOST` | [`Loads`](crate::model::Loads) | the host's agent |
//! | `booked/HOST` | the guest whose placement changed last; its revision is the host's | all that place |
//! | `groups/GROUP` | the same, of a hard group of guests | all that place |
//! | `guests/GUEST` | [`GuestRecord`](crate::model::GuestRecord) | commands |
//! | `placements/GUEST` | [`Placement`](crate::model::Placement) | the leader, commands |
//! | `orders/HOST/GUEST` | [`Order`](crate::model::Order) | with the placement; that it is prepared: the host's agent |
//! | `reports/HOST/GUEST` | [`Report`](crate::model::Report) | the host's agent |
//! | `network-numbers` | the network that was created last | commands |
//! | `networks/NETWORK` | [`Network`](crate::model::Network) | commands |
//! | `members/HOST/NETWORK` | [`Member`](crate::model::Member), under the host's lease | the host's agent |
//! | `wires/WIRE` | [`WireRecord`](crate::model::WireRecord) | commands |
//! | `checkpoints/HOST/GUEST` | [`Checkpoint`](crate::model::Checkpoint) | the host's agent |
//! | `plugins/CLASS` | [`PluginFault`](crate::model::PluginFault) | the leader |
//! | `status/HOST/GUEST` | [`Status`](crate::model::Status) | the host's agent |
//! | `waiting/GUEST` | [`Status`](crate::model::Status) of one that no host may run | the leader |
//!
//! What agents write has their host's name behind its folder, so that etcd's roles can hold each to its own.

/// The prefix of a cluster's keys, if no other is given.
pub const PREFIX: &str = "/weir/";

/// The key of the settings.
pub const SETTINGS: &str = "settings";
/// The key that each new network writes, so that no two take the same numbers.
pub const NETWORKS: &str = "network-numbers";
/// The key of the leader.
pub const LEADER: &str = "leader";

/// A kind of key that has a name behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A policy.
    Policy,
    /// What commands say of a host.
    Host,
    /// A host's lease.
    Alive,
    /// What a host says of itself.
    Facts,
    /// Processor time that is used on a host.
    Loads,
    /// A host's revision.
    Booked,
    /// A group's revision.
    Group,
    /// A guest.
    Guest,
    /// Where a guest runs.
    Placement,
    /// How a guest is on a host.
    Status,
    /// Why a guest runs nowhere.
    Waiting,
    /// How an order of a host ended.
    Report,
    /// A network over hosts.
    Network,
    /// A host's part of a network.
    Member,
    /// A wire over hosts.
    Wire,
    /// The saved state of a guest, as its host has it.
    Checkpoint,
    /// Why a plugin was left out.
    Plugin,
}

/// Kinds and the folders of their keys.
const FOLDERS: &[(Kind, &str)] = &[
    (Kind::Policy, "policies/"),
    (Kind::Host, "hosts/"),
    (Kind::Alive, "alive/"),
    (Kind::Facts, "facts/"),
    (Kind::Loads, "loads/"),
    (Kind::Booked, "booked/"),
    (Kind::Group, "groups/"),
    (Kind::Guest, "guests/"),
    (Kind::Placement, "placements/"),
    (Kind::Status, "status/"),
    (Kind::Waiting, "waiting/"),
    (Kind::Report, "reports/"),
    (Kind::Network, "networks/"),
    (Kind::Member, "members/"),
    (Kind::Wire, "wires/"),
    (Kind::Checkpoint, "checkpoints/"),
    (Kind::Plugin, "plugins/"),
];

impl Kind {
    /// The folder of its keys.
    pub fn folder(self) -> &'static str {
        let row = FOLDERS.iter().find(|(kind, _)| *kind == self);
        row.map_or("", |(_, folder)| folder)
    }

    /// The key of one of this name.
    pub fn of(self, name: &str) -> String {
        format!("{}{name}", self.folder())
    }
}

/// The kind and the name of a key.
pub fn parse(key: &str) -> Option<(Kind, &str)> {
    let rows = FOLDERS.iter();
    let mut found = rows.filter_map(|(kind, folder)| Some((*kind, key.strip_prefix(folder)?)));
    found.next().filter(|(_, name)| !name.is_empty())
}

/// The key of what a host says of something.
pub fn of_host(kind: Kind, host: &str, what: &str) -> String {
    kind.of(&format!("{host}/{what}"))
}

/// The host, and what it speaks of, of the name of such a key.
pub fn parse_of_host(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
}

/// The folder of a host's orders.
pub fn orders(host: &str) -> String {
    format!("orders/{host}/")
}

/// The key of an order to a host.
pub fn order(host: &str, guest: &str) -> String {
    format!("orders/{host}/{guest}")
}

/// The host and the guest of an order.
pub fn parse_order(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix("orders/")?.split_once('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written() {
        for (kind, folder) in FOLDERS {
            let key = kind.of("one");
            assert_eq!(key, format!("{folder}one"));
            assert_eq!(parse(&key), Some((*kind, "one")));
        }
        assert_eq!(parse("hosts/"), None);
        assert_eq!(parse(SETTINGS), None);
        assert_eq!(parse_order(&order("a", "fw")), Some(("a", "fw")));
        assert!(order("a", "fw").starts_with(&orders("a")));
    }
}
