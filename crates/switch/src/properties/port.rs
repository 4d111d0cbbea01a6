//! Properties of ports.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::text::{PropertyError, parts, read};
use super::units::{Bandwidth, IpPrefix, Loss, Micros, Vlan};
use super::{Priority, Protection, Share, is_default};
use crate::ids::LANES_MAX;

/// Most entries of a list of addresses or CPUs.
pub const LIST_MAX: usize = 64;
/// Smallest MTU, in bytes: what every IPv4 host can take (RFC 791).
pub const MTU_MIN: u16 = 68;

/// What a port may do and how it is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct PortProperties {
    /// Highest rate in each direction; no limit if none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maxbw: Option<Bandwidth>,
    /// Its level; strict.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: Priority,
    /// Its weight among the ports of its domain and level.
    #[serde(skip_serializing_if = "is_default")]
    pub share: Share,
    /// The CPUs that may serve it, as far as lanes run there; any if none is given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u16>,
    /// How many lanes serve it: a queue on each, or its flows shared out among them where it has
    /// fewer queues. If it is not said, a lane for each queue, or all of those that `cpus` names. A
    /// switch that has fewer lanes takes those that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lanes: Option<u16>,
    /// The VLAN that the port gives access to: its frames bear no tag and belong to this VLAN.
    /// Without one, frames pass as they are, tags included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<Vlan>,
    /// Largest IP packet, in bytes, if smaller than the link's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// What it must not send.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub protection: BTreeSet<Protection>,
    /// The IP addresses that are its own, for `ip-nospoof`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_ips: Vec<IpPrefix>,
    /// Broadcast, multicast and unknown unicast frames a second that it may send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flood_limit: Option<u32>,
    /// How long each frame to the port is on its way.
    #[serde(skip_serializing_if = "is_default")]
    pub delay: Micros,
    /// By how much that varies, up and down; frames stay in order.
    #[serde(skip_serializing_if = "is_default")]
    pub jitter: Micros,
    /// How many of the frames to the port are lost.
    #[serde(skip_serializing_if = "is_default")]
    pub loss: Loss,
}

impl PortProperties {
    /// The properties' names, in the order in which they are shown.
    pub const NAMES: [&str; 13] = [
        "maxbw",
        "priority",
        "share",
        "cpus",
        "lanes",
        "vlan",
        "mtu",
        "protection",
        "allowed-ips",
        "flood-limit",
        "delay",
        "jitter",
        "loss",
    ];

    /// Sets one property to a value as the command line has it. Whether all together can be is
    /// for [`check`](Self::check).
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), PropertyError> {
        match name {
            "maxbw" => self.maxbw = Some(read(name, value)?),
            "priority" => self.priority = read(name, value)?,
            "share" => self.share = read(name, value)?,
            "cpus" => self.cpus = read_cpus(name, value)?,
            "lanes" => self.lanes = Some(read_lanes(name, value)?),
            "vlan" => self.vlan = Some(read(name, value)?),
            "mtu" => self.mtu = Some(read_mtu(name, value)?),
            "protection" => {
                self.protection = parts(value)
                    .map(|part| read(name, part))
                    .collect::<Result<_, _>>()?;
            }
            "allowed-ips" => {
                self.allowed_ips = parts(value)
                    .map(|part| read(name, part))
                    .collect::<Result<_, _>>()?;
                check_list(name, value, self.allowed_ips.len())?;
            }
            "flood-limit" => self.flood_limit = Some(read_flood_limit(name, value)?),
            "delay" => self.delay = read(name, value)?,
            "jitter" => self.jitter = read(name, value)?,
            "loss" => self.loss = read(name, value)?,
            _ => return Err(PropertyError::unknown(name, &Self::NAMES)),
        }
        Ok(())
    }

    /// Sets one property to what it is when it is not given.
    pub fn reset(&mut self, name: &str) -> Result<(), PropertyError> {
        let without = PortProperties::default();
        match name {
            "maxbw" => self.maxbw = None,
            "priority" => self.priority = without.priority,
            "share" => self.share = without.share,
            "cpus" => self.cpus.clear(),
            "lanes" => self.lanes = None,
            "vlan" => self.vlan = None,
            "mtu" => self.mtu = None,
            "protection" => self.protection.clear(),
            "allowed-ips" => self.allowed_ips.clear(),
            "flood-limit" => self.flood_limit = None,
            "delay" => self.delay = without.delay,
            "jitter" => self.jitter = without.jitter,
            "loss" => self.loss = without.loss,
            _ => return Err(PropertyError::unknown(name, &Self::NAMES)),
        }
        Ok(())
    }

    /// The value of one property as the command line has it; `None` if it has none, or there is no
    /// such property.
    pub fn get(&self, name: &str) -> Option<String> {
        fn text<T: ToString>(value: &T) -> Option<String> {
            Some(value.to_string())
        }
        match name {
            "maxbw" => self.maxbw.as_ref().and_then(text),
            "priority" => text(&self.priority),
            "share" => text(&self.share),
            "cpus" => list(&self.cpus),
            "lanes" => self.lanes.as_ref().and_then(text),
            "vlan" => self.vlan.as_ref().and_then(text),
            "mtu" => self.mtu.as_ref().and_then(text),
            "protection" => list(&self.protection),
            "allowed-ips" => list(&self.allowed_ips),
            "flood-limit" => self.flood_limit.as_ref().and_then(text),
            "delay" => text(&self.delay),
            "jitter" => text(&self.jitter),
            "loss" => text(&self.loss),
            _ => None,
        }
    }

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
            let there = list(cpus).unwrap_or_default();
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
        self.check_values()
    }

    /// What a message or a file may say where the command line could not.
    fn check_values(&self) -> Result<(), PropertyError> {
        if let Some(mtu) = self.mtu {
            read_mtu("mtu", &mtu.to_string())?;
        }
        if let Some(lanes) = self.lanes {
            read_lanes("lanes", &lanes.to_string())?;
        }
        if let Some(limit) = self.flood_limit {
            read_flood_limit("flood-limit", &limit.to_string())?;
        }
        check_list("allowed-ips", "…", self.allowed_ips.len())?;
        check_list("cpus", "…", self.cpus.len())
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

fn list<'a, T: ToString + 'a>(values: impl IntoIterator<Item = &'a T>) -> Option<String> {
    let texts: Vec<_> = values.into_iter().map(T::to_string).collect();
    (!texts.is_empty()).then(|| texts.join("+"))
}

fn check_list(name: &str, value: &str, len: usize) -> Result<(), PropertyError> {
    if len > LIST_MAX {
        let must = format!("it has at most {LIST_MAX} parts");
        return Err(PropertyError::value(name, value, must));
    }
    Ok(())
}

fn read_mtu(name: &str, value: &str) -> Result<u16, PropertyError> {
    let mtu = value.parse().ok().filter(|&mtu| mtu >= MTU_MIN);
    mtu.ok_or_else(|| PropertyError::value(name, value, "an MTU is from 68 to 65535 bytes"))
}

fn read_lanes(name: &str, value: &str) -> Result<u16, PropertyError> {
    let lanes = value.parse().ok();
    let lanes = lanes.filter(|&lanes| (1..=LANES_MAX).contains(&usize::from(lanes)));
    lanes.ok_or_else(|| {
        let must = format!("it is a number of lanes, from 1 to {LANES_MAX}");
        PropertyError::value(name, value, must)
    })
}

fn read_flood_limit(name: &str, value: &str) -> Result<u32, PropertyError> {
    let limit = value.parse().ok();
    let limit = limit.filter(|limit| (1..=100_000_000).contains(limit));
    limit.ok_or_else(|| {
        let must = "it is a number of frames a second, from 1 to 100000000";
        PropertyError::value(name, value, must)
    })
}

/// `0`, `0+2`, `1-3`.
fn read_cpus(name: &str, value: &str) -> Result<Vec<u16>, PropertyError> {
    let must = || PropertyError::value(name, value, "CPUs are numbers or ranges, as in 0+2 or 1-3");
    let mut cpus = BTreeSet::new();
    for part in parts(value) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u16 = first.parse().map_err(|_| must())?;
        let last: u16 = last.parse().map_err(|_| must())?;
        if first > last || usize::from(last - first) >= LIST_MAX {
            return Err(must());
        }
        cpus.extend(first..=last);
    }
    check_list(name, value, cpus.len())?;
    Ok(cpus.into_iter().collect())
}

text_form!(PortProperties);
