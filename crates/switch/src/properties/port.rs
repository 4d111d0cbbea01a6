//! Properties of ports.

use std::collections::BTreeSet;

use super::declare::properties;
use super::prefix::IpPrefix;
use super::table;
use super::text::PropertyError;
use super::units::{Bandwidth, Loss, Micros, Vlan};
use super::values::{Range, joined};
use super::{Priority, Protection, Share};
use crate::ids::LANES_MAX;

/// Smallest MTU, in bytes: what every IPv4 host can take (RFC 791).
pub const MTU_MIN: u16 = 68;

properties! {
    /// What a port may do and how it is served.
    pub struct PortProperties {
        /// Highest rate in each direction; without it, there is no limit.
        maxbw: Option<Bandwidth> = "maxbw";
        /// Level of the port: ports of a higher level always go first.
        priority: Priority = "priority";
        /// Weight among the ports of the same domain and level.
        share: Share = "share";
        /// CPUs that may serve the port, as far as lanes run there; without it, any.
        cpus: Vec<u16> = "cpus";
        /// Number of lanes that serve the port; without it, one for each queue, or all that `cpus`
        /// names. Each has a queue, or a share of the flows where there are fewer queues. A switch
        /// that has fewer lanes takes those that it has.
        lanes: Option<u16> = "lanes", in LANES;
        /// VLAN that the port gives access to: its frames bear no tag and belong to this VLAN.
        /// Without one, frames pass as they are, tags included.
        vlan: Option<Vlan> = "vlan";
        /// Largest IP packet, if smaller than the link's own.
        mtu: Option<u16> = "mtu", in MTUS;
        /// What the port must not send; such frames are dropped and counted.
        protection: BTreeSet<Protection> = "protection";
        /// IP addresses that are the port's own, for `ip-nospoof`.
        allowed_ips: Vec<IpPrefix> = "allowed-ips";
        /// Broadcast, multicast and unknown unicast frames a second that the port may send.
        flood_limit: Option<u32> = "flood-limit", in FLOOD_LIMITS;
        /// How long each frame to the port is on its way.
        delay: Micros = "delay";
        /// By how much the delay varies, up and down; frames stay in order.
        jitter: Micros = "jitter";
        /// How many of the frames to the port are lost.
        loss: Loss = "loss";
    }
}

const LANES: Range = Range {
    least: 1,
    most: LANES_MAX as u64,
    must: "it is a number of lanes, from {}",
    unit: "lanes",
};
const MTUS: Range = Range {
    least: MTU_MIN as u64,
    most: u16::MAX as u64,
    must: "an MTU is from {} bytes",
    unit: "bytes",
};
const FLOOD_LIMITS: Range = Range {
    least: 1,
    most: 100_000_000,
    must: "it is a number of frames a second, from {}",
    unit: "frames a second",
};

impl PortProperties {
    /// Whether all properties can be together, on a port whose link has this MTU and a host with
    /// these CPUs (see [`cpus_here`]).
    pub fn check(&self, mtu: u16, cpus: &[u16]) -> Result<(), PropertyError> {
        let mtu = self.mtu.unwrap_or(mtu);
        let smallest = rate_for(mtu);
        if let Some(maxbw) = self.maxbw
            && maxbw < smallest
        {
            let must = format!("with an MTU of {mtu} it takes {smallest} to send a frame a second");
            return Err(PropertyError::value("maxbw", maxbw, must));
        }
        if let Some(missing) = self.cpus.iter().find(|cpu| !cpus.contains(cpu)) {
            let there = joined(cpus).unwrap_or_default();
            let must = format!("this host has CPUs {there}");
            return Err(PropertyError::value("cpus", missing, must));
        }
        if self.jitter > self.delay {
            let must = format!("it is at most the delay, {}", self.delay);
            return Err(PropertyError::value("jitter", self.jitter, must));
        }
        if self.protection.contains(&Protection::IpNospoof) && self.allowed_ips.is_empty() {
            return Err(PropertyError::Together(
                "protection=ip-nospoof needs allowed-ips=…: the addresses that are the port's own"
                    .into(),
            ));
        }
        table::check(Self::ROWS, self)
    }
}

/// The lowest rate that can be asked for where packets of `mtu` bytes are sent: one a second, with
/// its Ethernet header and a VLAN tag.
pub fn rate_for(mtu: u16) -> Bandwidth {
    let bits = (u64::from(mtu) + 18) * 8;
    Bandwidth::from_bits(bits).unwrap_or(Bandwidth::MAX)
}

/// The CPUs that this process may run on.
pub fn cpus_here() -> Vec<u16> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return vec![0];
    };
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    all.filter(|&cpu| set.is_set(cpu))
        .map(|cpu| cpu as u16)
        .collect()
}
