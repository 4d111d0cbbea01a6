//! Properties of ports.

use std::collections::BTreeSet;

use super::declare::properties;
use super::prefix::IpPrefix;
use super::table;
use super::text::PropertyError;
use super::units::{Bandwidth, Loss, Micros, Vlan};
use super::values::{Range, joined};
use super::{Priority, Protection, Settle, Share};
use crate::ids::LANES_MAX;

/// Smallest MTU, in bytes: what every IPv4 host can take (RFC 791).
pub const MTU_MIN: u16 = 68;

properties! {
    /// What a port may do and how it is served.
    pub struct PortProperties {
        /// Highest rate in each direction; default: no limit.
        maxbw: Option<Bandwidth> = "maxbw";
        /// Level of the port: a higher level is always served first.
        priority: Priority = "priority";
        /// Weight among the ports of the same domain and level.
        share: Share = "share";
        /// CPUs whose lanes may serve the port; default: any.
        cpus: Vec<u16> = "cpus";
        /// Number of lanes that serve the port; default: one for each queue, or all of `cpus`. Each
        /// lane has a queue, or a share of the flows if there are fewer queues. A switch with
        /// fewer lanes uses all its lanes.
        lanes: Option<u16> = "lanes", in LANES;
        /// VLAN of an access port: its frames are untagged and belong to this VLAN. Without it, the
        /// port is a trunk: frames pass unchanged, tags included.
        vlan: Option<Vlan> = "vlan";
        /// Largest IP packet; default: the link's.
        mtu: Option<u16> = "mtu", in MTUS;
        /// Frames that the port must not send; they are dropped and counted.
        protection: BTreeSet<Protection> = "protection";
        /// IP addresses of the port, for `ip-nospoof` and for a guest that is started on demand.
        allowed_ips: Vec<IpPrefix> = "allowed-ips";
        /// Highest rate of broadcast, multicast and unknown unicast frames that the port sends.
        flood_limit: Option<u32> = "flood-limit", in FLOOD_LIMITS;
        /// Delay of each frame to the port.
        delay: Micros = "delay";
        /// Variation of the delay, up and down; frames stay in order.
        jitter: Micros = "jitter";
        /// Share of the frames to the port that is lost.
        loss: Loss = "loss";
        /// Whether the guest may settle flows, whose packets the kernel then passes on by itself; on both VNICs between
        /// which they go.
        settle: Settle = "settle";
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
            let must = format!("with an MTU of {mtu}, one frame a second needs {smallest}");
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
