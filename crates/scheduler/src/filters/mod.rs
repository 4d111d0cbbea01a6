//! Filters: which hosts may run a guest. A filter gets all hosts at once, and removes the hosts that may not.
//!
//! A filter's answer for a host does not depend on which other hosts are in the set, so the order of filters does
//! not matter.

mod affinity;
mod network;
mod place;
mod resources;
mod state;

use crate::inventory::{HostSet, Inventory};
use crate::properties as p;
use crate::unit::{Answer, Request, Unit};

/// Says which hosts may run a guest.
pub trait Filter: Send + Sync {
    /// Removes the hosts that may not run the guest from `may`.
    fn filter(&self, inventory: &Inventory, request: &Request<'_>, may: &mut HostSet) -> Answer;

    /// Why the host in this slot, which it removed, may not run the guest: a sentence without a subject.
    fn reason(&self, inventory: &Inventory, request: &Request<'_>, slot: usize) -> String;
}

/// The filter that excludes hosts that are not up.
pub(crate) const MAINTENANCE: &str = "maintenance";

/// The filters that are built in.
pub static FILTERS: &[Unit<dyn Filter>] = &[
    Unit {
        name: "memory",
        description: "The guest's memory fits into the memory that is not booked.",
        properties: &[&p::MEMORY_OVER_COMMIT],
        make: |values| {
            Box::new(resources::Memory {
                percent: values.get(&p::MEMORY_OVER_COMMIT),
            })
        },
    },
    Unit {
        name: "processor",
        description: "The host has as many processors as the guest, and the processors reserved for the guest fit \
                      into the unreserved ones.",
        properties: &[&p::CPU_OVER_COMMIT],
        make: |values| {
            Box::new(resources::Processor {
                percent: values.get(&p::CPU_OVER_COMMIT),
            })
        },
    },
    Unit {
        name: "overload",
        description: "The host's processors were not used above HighUtilization for longer than \
                      CpuOverCommitDurationMinutes.",
        properties: &[&p::HIGH_UTILIZATION, &p::CPU_OVER_COMMIT_DURATION],
        make: |values| {
            Box::new(resources::Overload {
                high: values.get(&p::HIGH_UTILIZATION),
                minutes: values.get(&p::CPU_OVER_COMMIT_DURATION),
            })
        },
    },
    Unit {
        name: "maximum-guests",
        description: "The host has room for one more guest, by its own limit and by MaximumGuests.",
        properties: &[&p::MAXIMUM_GUESTS],
        make: |values| {
            Box::new(resources::MaximumGuests {
                most: values.get(&p::MAXIMUM_GUESTS) as u32,
            })
        },
    },
    Unit {
        name: "wall",
        description: "The host can put the wall around the guest that the guest needs: `vm` or `process`.",
        properties: &[],
        make: |_| Box::new(place::Wall),
    },
    Unit {
        name: "link",
        description: "The host has the links that the guest's VNICs need.",
        properties: &[],
        make: |_| Box::new(network::Link),
    },
    Unit {
        name: "rate",
        description: "The rates of the guest's VNICs fit into the rates of the links that are not reserved.",
        properties: &[],
        make: |_| Box::new(network::Rate),
    },
    Unit {
        name: "lanes",
        description: "The host's switch has the lanes that the guest needs.",
        properties: &[],
        make: |_| Box::new(network::Lanes),
    },
    Unit {
        name: "pinned-host",
        description: "The guest is pinned to the host.",
        properties: &[],
        make: |_| Box::new(place::PinnedHost),
    },
    Unit {
        name: "labels",
        description: "The host has all labels that the guest needs.",
        properties: &[],
        make: |_| Box::new(place::Labels),
    },
    Unit {
        name: "anti-labels",
        description: "The host has no label that the guest avoids.",
        properties: &[],
        make: |_| Box::new(place::AntiLabels),
    },
    Unit {
        name: "affinity",
        description: "The host keeps the guest's hard groups together. Members on hosts in maintenance do not count.",
        properties: &[],
        make: |_| Box::new(affinity::Together),
    },
    Unit {
        name: "anti-affinity",
        description: "The host runs no other member of a group whose members the guest must stay apart from.",
        properties: &[],
        make: |_| Box::new(affinity::Apart),
    },
    Unit {
        name: "migration",
        description: "The guest's state can move there: the host runs the build of the guest image that made it, \
                      and its processors have the features that the guest uses.",
        properties: &[],
        make: |_| Box::new(state::Migration),
    },
    Unit {
        name: MAINTENANCE,
        description: "The host is not in maintenance.",
        properties: &[],
        make: |_| Box::new(state::Maintenance),
    },
    Unit {
        name: "no-new-guests",
        description: "The guest runs already, or is highly available and its host failed.",
        properties: &[],
        make: |_| Box::new(state::NoNewGuests),
    },
];
