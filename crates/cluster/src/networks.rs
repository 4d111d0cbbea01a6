//! What commands do with networks.

use std::collections::{BTreeMap, BTreeSet};

use node::error::{Error, Kind as ErrorKind, Result};
use node::model::{Wire, check_name};
use serde::Serialize;
use switch::lookup::Mac;
use switch::port::vxlan::Vxlan;
use switch::port::vxlan::packet::{PORT, VNI_MAX};

use crate::etcd::{Outcome, Store};
use crate::keys::{self, Kind};
use crate::model::{GuestRecord, Member, Network, WireRecord, new_id, now_ms};
use crate::transaction::Transaction;
use crate::view::View;
use crate::wireguard;

/// MTU of a network, if no other is given: that of Ethernet less what is around a packet in IPv4.
const MTU: u16 = 1450;
/// Smallest MTU: what every IPv4 host takes (RFC 791).
pub const MTU_MIN: u16 = 576;
/// Largest MTU of a network.
pub const MTU_MAX: u16 = 1500;
/// Most addresses of which is said that several hosts claim them.
const FAULTS_SHOWN: usize = 5;
/// Most networks of a cluster.
const NETWORKS_MAX: u32 = 1024;

/// A network that is created.
#[derive(Clone, Debug, Default)]
pub struct Creation {
    /// Its number; none: the least one that is free.
    pub vni: Option<u32>,
    /// Its UDP port; none: the least one that is free, from that of VXLAN on.
    pub port: Option<u16>,
    /// Largest IP packet, in bytes.
    pub mtu: Option<u16>,
    /// The wire that it is of.
    pub wire: Option<String>,
}

/// MTU of a network for which no other is given.
pub fn default_mtu(view: &View) -> u16 {
    match view.settings().and_then(|it| it.wireguard) {
        Some(_) => wireguard::NETWORK_MTU,
        None => MTU,
    }
}

/// All networks.
fn all(view: &View) -> impl Iterator<Item = (&str, Network)> {
    let names = view.names(Kind::Network);
    names.filter_map(|name| Some((name, view.get(&Kind::Network.of(name))?)))
}

impl Creation {
    /// Largest IP packet, in bytes.
    pub(crate) fn mtu(&self, view: &View) -> u16 {
        self.mtu.unwrap_or_else(|| default_mtu(view))
    }

    /// The record, beside the networks that there are.
    pub(crate) fn record(&self, view: &View) -> Result<Network> {
        let (vnis, ports): (BTreeSet<_>, BTreeSet<_>) =
            all(view).map(|(_, it)| (it.vni, it.port)).unzip();
        let wireguard = view.settings().and_then(|it| it.wireguard);
        let taken = |what: &str, number: u32| {
            let of = all(view).find(|(_, it)| it.vni == number || u32::from(it.port) == number);
            let of = of.map_or("", |(name, _)| name);
            Error::new(
                ErrorKind::Exists,
                format_args!("{what} {number} is that of network {of}: choose another"),
            )
        };
        let mut vni = 1..=NETWORKS_MAX;
        let mut port = PORT..PORT + NETWORKS_MAX as u16;
        let full = || {
            Error::refused(format_args!(
                "a cluster has {NETWORKS_MAX} networks at most"
            ))
        };
        let network = Network {
            id: new_id(),
            vni: match self.vni {
                Some(vni) if vni > VNI_MAX => {
                    return Err(Error::invalid(format_args!(
                        "VNI {vni} is too large: the maximum is {VNI_MAX}"
                    )));
                }
                Some(vni) if vnis.contains(&vni) => return Err(taken("VNI", vni)),
                Some(vni) => vni,
                None => vni.find(|it| !vnis.contains(it)).ok_or_else(full)?,
            },
            port: match self.port {
                Some(port) if ports.contains(&port) => return Err(taken("UDP port", port.into())),
                Some(port) if wireguard == Some(port) => {
                    return Err(Error::new(
                        ErrorKind::Exists,
                        format_args!("UDP port {port} is that of WireGuard: choose another"),
                    ));
                }
                Some(port) => port,
                None => port
                    .find(|it| !ports.contains(it) && wireguard != Some(*it))
                    .ok_or_else(full)?,
            },
            mtu: self.mtu(view),
            wire: self.wire.clone(),
            created_ms: now_ms(),
        };
        match network.mtu {
            MTU_MIN..=MTU_MAX => Ok(network),
            mtu => Err(Error::invalid(format_args!(
                "an MTU of {mtu} bytes cannot be: a network has {MTU_MIN} to {MTU_MAX}"
            ))),
        }
    }
}

/// Creates a network.
pub async fn create(store: &Store, name: &str, creation: &Creation) -> Result<()> {
    check_name("network", name)?;
    loop {
        let view = store.view().await?;
        let key = Kind::Network.of(name);
        if view.revision_of(&key) != 0 {
            return Err(Error::new(
                ErrorKind::Exists,
                format_args!("there is a network {name} already"),
            ));
        }
        let record = creation.record(&view)?;
        // Another command may take the same numbers at this moment.
        let last = keys::NETWORKS.to_string();
        let put = Transaction::default()
            .as_seen(&view, last.clone())
            .puts(last, &name)
            .expects(key.clone(), 0)
            .puts(key, &record);
        if store.commit(&put).await? != Outcome::Changed {
            return Ok(());
        }
    }
}

/// Removes a network without VNICs.
pub async fn delete(store: &Store, name: &str) -> Result<()> {
    let view = store.view().await?;
    let key = Kind::Network.of(name);
    let network: Network = view.get(&key).ok_or_else(|| {
        let known: Vec<_> = view.names(Kind::Network).take(20).collect();
        Error::not_found(match known.as_slice() {
            [] => format!("there is no network {name}: `weir network create` makes one"),
            known => format!("there is no network {name}: there are {}", known.join(", ")),
        })
    })?;
    if let Some(wire) = &network.wire {
        return Err(Error::new(
            ErrorKind::InUse,
            format_args!(
                "network {name} is of wire {wire}: `weir wire delete --cluster {wire}` removes it"
            ),
        ));
    }
    check_unused(&view, name, None)?;
    let gone = Transaction::default()
        .as_seen(&view, key.clone())
        .removes(key);
    match store.commit(&gone).await? {
        Outcome::Done(_) => Ok(()),
        Outcome::Changed => Err(Error::new(
            ErrorKind::InUse,
            format_args!("network {name} changed meanwhile: try again"),
        )),
    }
}

/// Refuses to remove a network that guests, but for those of a wire, or VNICs are on.
pub(crate) fn check_unused(view: &View, name: &str, wire: Option<&str>) -> Result<()> {
    let guests = view.names(Kind::Guest);
    let guests = guests.filter_map(|guest| Some((guest, view.guest(guest)?)));
    let on = guests.filter(|(_, it)| it.links().any(|link| link == name));
    let is_own = |it: &GuestRecord| wire.is_some() && it.wire.as_deref() == wire;
    let others: Vec<_> = on.filter(|(_, it)| !is_own(it)).collect();
    // Those of guests that have just gone are still told of.
    let record = wire.and_then(|wire| view.get::<WireRecord>(&Kind::Wire.of(wire)));
    let vnics = record.iter().flat_map(|it| &it.wire.vnics);
    let of_wire: BTreeSet<Mac> = vnics
        .filter_map(|(name, vnic)| Some(vnic.mac.unwrap_or(Wire::mac_of(wire?, name))))
        .collect();
    let members = members(view, name).into_iter();
    let vnics = members.map(|(host, it)| {
        let others = it.vnics.into_keys().filter(|mac| !of_wire.contains(mac));
        (host, others.count())
    });
    let vnics: Vec<_> = vnics.filter(|(_, count)| *count > 0).collect();
    let why = match (others.as_slice(), vnics.as_slice()) {
        ([], []) => return Ok(()),
        ([], vnics) => {
            let count: usize = vnics.iter().map(|(_, count)| count).sum();
            let hosts: Vec<_> = vnics.iter().map(|(host, _)| host.as_str()).collect();
            format!("{count} VNICs on hosts {}", hosts.join(", "))
        }
        (others, _) => {
            let others: Vec<_> = others.iter().take(5).map(|(name, _)| *name).collect();
            format!("interfaces of guests {}", others.join(", "))
        }
    };
    Err(Error::new(
        ErrorKind::InUse,
        format_args!("network {name} has {why}: remove these first"),
    ))
}

/// The hosts that have a part of a network.
fn members(view: &View, name: &str) -> Vec<(String, Member)> {
    let id = view
        .get::<Network>(&Kind::Network.of(name))
        .map(|network| network.id);
    let members = view.members(name);
    members
        .filter(|(_, member)| Some(&member.id) == id.as_ref())
        .map(|(host, member)| (host.into(), member))
        .collect()
}

/// How a network is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct NetworkRow {
    /// Its name.
    pub network: String,
    /// Its number in VXLAN.
    pub vni: u32,
    /// Its UDP port.
    pub port: u16,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Its VNICs.
    pub vnics: usize,
    /// Hosts that have VNICs on it, or are about to.
    pub hosts: Vec<String>,
    /// Hosts that have no link for it, each with the reason, and those that claim the same Ethernet address.
    pub faults: Vec<String>,
}

/// All networks, as they are.
pub fn list(view: &View) -> Vec<NetworkRow> {
    all(view)
        .map(|(name, record)| {
            let members = members(view, name);
            let is_well =
                |(_, it): &&(String, Member)| it.fault.is_none() && Vxlan::is_remote(it.address);
            let faults = members.iter().filter_map(|(host, it)| match &it.fault {
                Some(fault) => Some(format!("{host}: {fault}")),
                None if Vxlan::is_remote(it.address) => None,
                None => Some(format!("{host}: {} is no address of a host", it.address)),
            });
            let mut owners: BTreeMap<Mac, Vec<&str>> = BTreeMap::new();
            for (host, member) in &members {
                for mac in member.vnics.keys() {
                    owners.entry(*mac).or_default().push(host);
                }
            }
            owners.retain(|_, hosts| hosts.len() > 1);
            let claims = owners.iter().take(FAULTS_SHOWN).map(|(mac, hosts)| {
                let hosts = hosts.join(", ");
                format!("{hosts}: each says that it has {mac}, as it is while a guest moves")
            });
            NetworkRow {
                network: name.into(),
                vni: record.vni,
                port: record.port,
                mtu: record.mtu,
                vnics: members.iter().map(|(_, it)| it.vnics.len()).sum(),
                hosts: members
                    .iter()
                    .filter(is_well)
                    .map(|(host, _)| host.clone())
                    .collect(),
                faults: faults.chain(claims).collect(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_least_that_are_free() {
        let mut view = View::default();
        let put = |view: &mut View, name: &str, network: &Network| {
            let value = serde_json::to_vec(network).unwrap();
            view.apply(&Kind::Network.of(name), Some(&value), 1);
        };
        let first = Creation::default().record(&view).unwrap();
        assert_eq!((first.vni, first.port, first.mtu), (1, 4789, 1450));
        put(&mut view, "one", &first);
        let second = Creation {
            vni: Some(3),
            port: Some(4791),
            mtu: Some(1400),
            ..Creation::default()
        };
        let second = second.record(&view).unwrap();
        put(&mut view, "two", &second);
        let next = Creation::default().record(&view).unwrap();
        assert_eq!((next.vni, next.port), (2, 4790));
        let refused = |creation: Creation| creation.record(&view).unwrap_err().error;
        let vni = |vni| Creation {
            vni: Some(vni),
            ..Creation::default()
        };
        assert_eq!(
            refused(vni(3)),
            "VNI 3 is that of network two: choose another"
        );
        assert!(refused(vni(1 << 24)).contains("16777215"));
        let port = Creation {
            port: Some(4789),
            ..Creation::default()
        };
        assert_eq!(
            refused(port),
            "UDP port 4789 is that of network one: choose another"
        );
        let mtu = Creation {
            mtu: Some(100),
            ..Creation::default()
        };
        assert!(refused(mtu).contains("576 to 1500"));
    }
}
