//! Flows that are not settled though their guests say that they are, and why.

use std::fmt;

use abi::settle::Settled;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use super::LEASE;
use crate::ids::{Generation, PortIndex};

/// Most flows that are remembered.
const REMEMBERED: usize = 1024;

/// Why a flow is not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unsettled {
    /// One of the two VNICs has `settle=off`.
    Off,
    /// One of the two VNICs waits for its guest, or is of a guest that is started by its traffic.
    OnDemand,
    /// One of the ports is in a VLAN.
    Vlan,
    /// The switch has work to do on one of the two links.
    Limited,
    /// The lookup function of one of the two links is none that learns addresses.
    Lookup,
    /// The packets come from no interface of the host that a packet socket has.
    Inside,
    /// Others on the link may get the packets, too.
    Shared,
    /// The guest could not send what the packets become.
    Foreign,
    /// It is not known where the packets go.
    Unknown,
    /// The packets leave by no interface of the host that a packet socket has.
    ToInside,
    /// They leave by the interface by which they came.
    Back,
    /// The MTU of the interface by which they leave is smaller.
    Mtu,
    /// An address or a port changes, over IPv6.
    Translated,
    /// There are too many settled flows.
    Full,
}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unsettled::Off => "one of the two VNICs has settle=off",
            Unsettled::OnDemand => "one of the two VNICs is of a guest that is started by its traffic",
            Unsettled::Vlan => "one of the ports is in a VLAN",
            Unsettled::Limited => {
                "a port of one of the two links has a limit, share, priority, delay, loss, protection or VLAN, or the link has a flow"
            }
            Unsettled::Lookup => "the lookup function of one of the two links is not ‘learning’",
            Unsettled::Inside => {
                "its packets do not come by an interface of the host that is attached with mode=packet"
            }
            Unsettled::Shared => "others on the link may get its packets too",
            Unsettled::Foreign => "the guest may not send from the address that its packets leave with",
            Unsettled::Unknown => "the link does not know where its packets go",
            Unsettled::ToInside => {
                "its packets do not leave by an interface of the host that is attached with mode=packet"
            }
            Unsettled::Back => "its packets leave by the interface that they came by",
            Unsettled::Mtu => "the interface that its packets leave by has a smaller MTU",
            Unsettled::Translated => {
                "an address or a port of its packets changes, which the kernel does for IPv4 alone"
            }
            Unsettled::Full => "there are too many settled flows",
        })
    }
}

/// What a guest said: by which of its ports the packets come and leave, and which they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    pub ports: [(PortIndex, Generation); 2],
    pub said: Settled,
}

/// Flows that are not settled.
#[derive(Default)]
pub(super) struct Refusals(HashMap<Asked, (Unsettled, u64)>);

impl Refusals {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a flow, or the reason anew. A flow beyond [`REMEMBERED`] is left out.
    pub fn add(&mut self, asked: Asked, why: Unsettled, now: u64) {
        if self.0.len() < REMEMBERED || self.0.contains_key(&asked) {
            self.0.insert(asked, (why, now));
        }
    }

    /// Forgets a flow that is settled now.
    pub fn remove(&mut self, asked: &Asked) {
        self.0.remove(asked);
    }

    /// Forgets flows that no guest has named for a lease.
    pub fn forget_before(&mut self, now: u64) {
        self.0
            .retain(|_, (_, at)| now.saturating_sub(*at) < LEASE.as_nanos() as u64);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Asked, Unsettled)> {
        self.0.iter().map(|(asked, (why, _))| (asked, *why))
    }
}
