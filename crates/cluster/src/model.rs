//! The values of a cluster's keys, as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

use node::model::{Guest, Vnic, Wire, check_name};
use scheduler::facts::{self, Membership, Processors};
use serde::{Deserialize, Serialize};
use switch::lookup::Mac;
use switch::port::vxlan::Vxlan;

use crate::wireguard::Peer;

/// The layout of keys and values that this program speaks.
pub const VERSION: u32 = 2;
/// Seconds of a host's lease, if no others are given.
pub const LEASE_S: u64 = 5;
/// Shortest lease, in seconds: etcd does not grant shorter ones.
pub const LEASE_MIN_S: u64 = 2;
/// Longest lease, in seconds.
pub const LEASE_MAX_S: u64 = 600;

/// Seconds between two checkpoints of a guest.
pub const CHECKPOINT_S: RangeInclusive<u64> = 1..=86_400;

/// Milliseconds since 1970, by this host's clock. They are shown, and never compared.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// A number that tells two objects of the same name apart.
pub fn new_id() -> String {
    format!("{:016x}", fastrand::u64(..))
}

/// What holds for the whole cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Settings {
    /// The layout of keys and values.
    pub version: u32,
    /// Seconds of a host's lease.
    pub lease_s: u64,
    /// The policy by which guests are placed.
    pub policy: String,
    /// Policies of groups of hosts; the others have that one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, String>,
    /// The UDP port of WireGuard, if frames between hosts are encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wireguard: Option<u16>,
}

impl Settings {
    /// The name of the policy of a group of hosts.
    pub fn policy_of(&self, group: &str) -> &str {
        self.policies.get(group).unwrap_or(&self.policy)
    }
}

/// A host, as commands have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostRecord {
    /// Tells it from another host of the same name.
    pub id: String,
    /// Where its node is reached by the others, `HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeSet<String>,
    /// Where it stands.
    #[serde(default)]
    pub site: String,
    /// The group of hosts that it is in, which may have a policy of its own; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Whether its guests are to leave it.
    #[serde(default)]
    pub maintenance: bool,
    /// Memory that guests may have; default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<facts::Memory>,
    /// Most guests; default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_guests: Option<u32>,
    /// When it joined.
    pub joined_ms: u64,
}

/// That a host is there: the key goes with its lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Alive {
    /// The host's.
    pub id: String,
    /// When its agent got the lease.
    pub since_ms: u64,
}

/// A network over hosts: on each, a link of its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Network {
    /// Tells it from another network of the same name.
    pub id: String,
    /// Its number in VXLAN.
    pub vni: u32,
    /// Its UDP port.
    pub port: u16,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// The wire that it is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// When it was created.
    pub created_ms: u64,
}

/// A wire over hosts, as it was applied: its networks and guests are records of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct WireRecord {
    /// The wire.
    pub wire: Wire,
    /// What each of its guests demands of its host.
    pub demand: Demand,
}

/// A host's part of a network. A host without one gets no frames of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Member {
    /// The network's.
    pub id: String,
    /// Where the host gets the network's packets.
    pub address: IpAddr,
    /// The host's VNICs on the network: their Ethernet addresses, with the IPv4 addresses that are known to be theirs.
    pub vnics: BTreeMap<Mac, Vec<Ipv4Addr>>,
    /// How the host is reached, if frames between hosts are encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wireguard: Option<Peer>,
    /// Why the host has no link for the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

impl Member {
    /// Whether frames may be sent there: only encrypted ones, if those of this cluster are.
    pub fn is_reachable(&self, encrypted: bool) -> bool {
        let is_its_own = match &self.wireguard {
            Some(peer) => {
                encrypted && Vxlan::is_remote(peer.endpoint) && self.address == peer.key.address()
            }
            None => !encrypted,
        };
        is_its_own && self.fault.is_none() && Vxlan::is_remote(self.address)
    }
}

/// Processor time that is used on a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Loads {
    /// By the host itself.
    pub host: Processors,
    /// By each of its guests.
    pub guests: BTreeMap<String, Processors>,
}

/// What a guest demands of its host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Demand {
    /// The group of hosts that it runs on; empty: the hosts that are in none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Hosts that it may run on; none: all.
    pub on: BTreeSet<String>,
    /// Labels that its host must have.
    pub labels: BTreeSet<String>,
    /// Labels that its host must not have.
    pub anti_labels: BTreeSet<String>,
    /// Groups that it belongs to.
    pub affinity: Vec<Membership>,
    /// Processors that are reserved for it.
    pub reserve: Processors,
    /// Guests that it should rather be near to.
    pub near: BTreeSet<String>,
    /// Seconds between two checkpoints: its state is kept at another host, and it goes on with it when its host is
    /// lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_s: Option<u64>,
}

/// A guest, as commands have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct GuestRecord {
    /// Tells it from another guest of the same name.
    pub id: String,
    /// When it was created.
    pub created_ms: u64,
    /// What its node is told.
    pub guest: Guest,
    /// What it demands of its host.
    #[serde(default)]
    pub demand: Demand,
    /// The wire that it is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// VNICs that are made for it, which its interfaces name. Other interfaces name a link.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vnics: BTreeMap<String, Vnic>,
    /// Whether it is to be removed.
    #[serde(default)]
    pub removing: bool,
}

impl GuestRecord {
    /// Bytes of memory that a VMM's process needs beside the guest's own.
    const BESIDE: u64 = 2 << 20;

    /// A new guest.
    pub fn new(guest: Guest, demand: Demand) -> GuestRecord {
        GuestRecord {
            id: new_id(),
            created_ms: now_ms(),
            guest,
            demand,
            wire: None,
            vnics: BTreeMap::new(),
            removing: false,
        }
    }

    /// The same with a VNIC of its own for each interface on a link: its Ethernet address is that of the guest, and goes
    /// with it to other hosts, also when it is made again there.
    pub fn with_vnics(mut self, name: &str) -> GuestRecord {
        for (interface, on) in &mut self.guest.interfaces {
            let vnic = format!("{name}.{interface}");
            // The node names it, if the names are that long.
            if check_name("VNIC", &vnic).is_err() {
                continue;
            }
            let link = std::mem::replace(on, vnic.clone());
            let mac = Some(Wire::mac_of(&self.id, interface));
            let made = Vnic {
                link,
                mac,
                ..Vnic::default()
            };
            self.vnics.insert(vnic, made);
        }
        self
    }

    /// The links that its interfaces are on.
    pub fn links(&self) -> impl Iterator<Item = &String> {
        let on = self.guest.interfaces.values();
        on.map(|on| self.vnics.get(on).map_or(on, |vnic| &vnic.link))
    }

    /// What a scheduler knows of it.
    pub fn facts(&self) -> facts::Guest {
        let Demand {
            on,
            labels,
            anti_labels,
            affinity,
            reserve,
            near,
            group: _,
            checkpoint_s: _,
        } = self.demand.clone();
        facts::Guest {
            memory: facts::Memory(self.guest.memory() + Self::BESIDE),
            vcpus: u16::try_from(self.guest.cpus()).unwrap_or(u16::MAX),
            processors: reserve,
            links: self
                .links()
                .map(|link| (link.clone(), facts::Rate::default()))
                .collect(),
            wall: match self.guest.isolation {
                node::model::Isolation::Vm => Some(facts::Wall::Vm),
                node::model::Isolation::Process => Some(facts::Wall::Process),
                node::model::Isolation::Auto => None,
            },
            pinned: on,
            labels,
            anti_labels,
            affinity,
            chain: near,
            highly_available: true,
            ..facts::Guest::default()
        }
    }
}

/// Where the state of a guest is kept, with which it goes on when its host is lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Checkpoint {
    /// The guest's; the saved guest that the node keeps has this name.
    pub id: String,
    /// The host that keeps it.
    pub keeper: String,
    /// Bytes of it.
    pub bytes: u64,
    /// When it was saved.
    pub saved_ms: u64,
}

/// Where a guest runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Placement {
    /// The guest's.
    pub id: String,
    /// The host that runs it.
    pub host: String,
    /// The host that it moves to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The host in maintenance that it left, to which it returns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// When this was decided.
    pub since_ms: u64,
}

impl Placement {
    /// The host that runs it, and the one that it moves to.
    pub fn hosts(&self) -> impl Iterator<Item = &String> {
        [Some(&self.host), self.target.as_ref()]
            .into_iter()
            .flatten()
    }
}

/// What a host does with a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Order {
    /// The guest's.
    pub id: String,
    /// What it does.
    pub role: Role,
    /// The state that the guest goes on with if it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

impl Order {
    /// A guest's, without a state.
    pub fn new(id: &str, role: Role) -> Order {
        Order {
            id: id.into(),
            role,
            checkpoint: None,
        }
    }
}

/// How an order ended: what follows from it is the leader's to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// The guest's.
    pub id: String,
    /// The revision of the order.
    pub order: i64,
    /// How it ended.
    pub end: End,
}

/// How an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The guest that was sent is at the other host, or can be made there.
    Moved,
    /// It is where it was.
    Stayed,
    /// The guest that was to be removed is gone.
    Removed,
}

/// What a host does with a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It runs the guest.
    Run,
    /// The guest comes to it; `true` when it is prepared.
    Receive(bool),
    /// It sends the guest to this host.
    Send(String),
    /// It removes the guest.
    Remove,
}

/// Why a plugin was left out of decisions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PluginFault {
    /// The host that led.
    pub host: String,
    /// What the plugin did, or what is wrong with it.
    pub why: String,
    /// When.
    pub at_ms: u64,
}

/// How a guest is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Status {
    /// The guest's.
    pub id: String,
    /// The host that says so; none: the leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// A state of the node, or `waiting`, `failed`.
    pub state: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
