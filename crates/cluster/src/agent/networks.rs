//! Networks over hosts: a link of the node for each, by VXLAN to the hosts that have VNICs on it. Each host tells the
//! others where it is and which addresses are its own, so that frames for them are not flooded.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use node::client::Client;
use node::error::{Error, Kind as ErrorKind, Result};
use node::model::{Link, Neighbor, Object, Tunnel, Vnic};
use serde_json::json;
use switch::links::{NEIGHBORS_MAX, REMOTES_MAX};
use switch::lookup::Mac;
use switch::properties::PortProperties;

use super::Agent;
use super::ledger::Ledger;
use crate::keys::{self, Kind};
use crate::model::{Member, Network};
use crate::transaction::Transaction;
use crate::view::View;
use crate::wireguard::{Key, Peer, Plan, Wireguard};

/// How long other hosts may take to hear of a new member.
const SPREAD: Duration = Duration::from_millis(100);
/// After so long, the WireGuard interface is told again what it is to be: it may have been changed by hand.
const RETELL: Duration = Duration::from_secs(5);

/// The networks of a host.
pub struct Networks {
    agent: Agent,
    /// Networks whose link is this host's own work.
    ledger: Ledger,
    /// Guests that come to this host, and the networks that they need.
    coming: BTreeMap<String, Vec<String>>,
    /// What was told of this host's part of each network, under which lease.
    told: BTreeMap<String, (Member, i64)>,
    /// What the host's address was resolved to.
    address: Option<(String, Option<IpAddr>)>,
    wireguard: Wireguard,
    /// What the WireGuard interface was told.
    plan: Option<(Plan, Instant)>,
    /// This host's key, once it is known.
    key: Option<Key>,
}

/// Where this host gets packets of networks.
struct Own {
    address: IpAddr,
    /// How it is reached, if frames are encrypted.
    peer: Option<Peer>,
    /// Why it cannot be.
    fault: Option<String>,
}

/// What the node has.
struct There {
    links: BTreeMap<String, Link>,
    vnics: Vec<Object<Vnic>>,
}

impl There {
    fn look(node: &Client) -> Result<There> {
        let links = node.list::<Link>()?.into_iter();
        Ok(There {
            links: links.map(|link| (link.name, link.spec)).collect(),
            vnics: node.list::<Vnic>()?,
        })
    }

    /// The VNICs on a link.
    fn vnics_on(&self, link: &str) -> BTreeMap<Mac, Vec<Ipv4Addr>> {
        let vnics = self.vnics.iter().filter(|vnic| vnic.spec.link == link);
        vnics
            .filter_map(|vnic| Some((vnic.spec.mac?, addresses(&vnic.spec))))
            .collect()
    }
}

/// The IPv4 addresses that are known to be a VNIC's: its interface's, and the ones that it may use alone.
fn addresses(vnic: &Vnic) -> Vec<Ipv4Addr> {
    let own = vnic.addresses.iter().map(IpNet::addr);
    let allowed = vnic.properties.allowed_ips.iter();
    let allowed = allowed.filter_map(|prefix| prefix.to_string().parse().ok());
    let mut all: Vec<_> = own
        .chain(allowed)
        .filter_map(|address| match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl Networks {
    pub fn new(agent: Agent) -> Result<Networks> {
        Ok(Networks {
            ledger: Ledger::networks(&agent.paths)?,
            wireguard: Wireguard::of(&agent.paths, &agent.host),
            plan: None,
            key: None,
            agent,
            coming: BTreeMap::new(),
            told: BTreeMap::new(),
            address: None,
        })
    }

    /// Notes that a guest with interfaces on these links comes to this host, and waits until the other hosts send its
    /// frames here.
    pub async fn expect(&mut self, view: &View, guest: &str, links: Vec<String>) -> Result<()> {
        let is_network = |link: &String| view.get::<Network>(&Kind::Network.of(link)).is_some();
        let networks: Vec<_> = links.into_iter().filter(is_network).collect();
        let is_new = networks.iter().any(|it| !self.told.contains_key(it));
        self.coming.insert(guest.into(), networks);
        if is_new {
            self.reconcile(view).await?;
            tokio::time::sleep(SPREAD).await;
        }
        Ok(())
    }

    /// Whether this host has the link of a network as it is now; of a link that is no network's, there is nothing to do.
    pub fn is_right(&self, view: &View, link: &str) -> bool {
        let network: Option<Network> = view.get(&Kind::Network.of(link));
        network.is_none_or(|network| {
            self.ledger.id(link) == Some(&network.id) && self.fault(link).is_none()
        })
    }

    /// Why this host has no link for a network, if that is so.
    pub fn fault(&self, network: &str) -> Option<String> {
        let (member, _) = self.told.get(network)?;
        let fault = member.fault.as_ref()?;
        Some(format!("network {network}: {fault}"))
    }

    /// Forgets guests that came, or do not come.
    pub fn expect_only(&mut self, is_coming: impl Fn(&str) -> bool) {
        self.coming.retain(|guest, _| is_coming(guest));
    }

    /// Makes the node's links what the networks ask for, and tells of this host's part.
    pub async fn reconcile(&mut self, view: &View) -> Result<()> {
        let networks: BTreeMap<String, Network> = view
            .names(Kind::Network)
            .filter_map(|name| Some((name.to_string(), view.get(&Kind::Network.of(name))?)))
            .collect();
        if networks.is_empty() && self.ledger.is_empty() {
            return Ok(());
        }
        let mut there = self.agent.ask(There::look).await?;
        self.remove_others(&networks, &mut there).await?;
        let is_coming = |name: &String| self.coming.values().flatten().any(|it| it == name);
        let vnics = networks.keys().map(|name| (name, there.vnics_on(name)));
        let mut vnics: BTreeMap<_, _> = vnics.collect();
        let is_needed = |name: &String| !vnics[name].is_empty() || is_coming(name);
        let needed: BTreeSet<_> = networks.keys().filter(|it| is_needed(it)).collect();
        let own = self.own(view, &networks, &needed).await;
        for (name, network) in &networks {
            let fault = match own.as_ref().and_then(|own| own.fault.clone()) {
                Some(fault) => Some(fault),
                None => {
                    self.bring(view, name, network, own.as_ref(), &there)
                        .await?
                }
            };
            let is_needed = needed.contains(name);
            let member = own.as_ref().filter(|_| is_needed || fault.is_some());
            let member = member.map(|own| Member {
                id: network.id.clone(),
                address: own.address,
                vnics: vnics.remove(name).unwrap_or_default(),
                wireguard: own.peer,
                fault,
            });
            self.tell(name, member).await?;
        }
        Ok(())
    }

    /// Removes the links of networks that are gone.
    async fn remove_others(
        &mut self,
        networks: &BTreeMap<String, Network>,
        there: &mut There,
    ) -> Result<()> {
        let is_other =
            |(name, id): &(&String, &String)| networks.get(*name).is_none_or(|it| it.id != **id);
        let others = self.ledger.entries().filter(is_other);
        let others: Vec<String> = others.map(|(name, _)| name.clone()).collect();
        for name in others {
            if there.links.contains_key(&name) {
                let link = name.clone();
                let removed = self.agent.ask(move |node| node.delete::<Link>(&link)).await;
                if let Err(error) = removed.or_else(unless_gone) {
                    tracing::debug!("the link of network {name} stays: {error}");
                    continue;
                }
                there.links.remove(&name);
                tracing::info!("the link of network {name} is removed");
            }
            self.tell(&name, None).await?;
            self.ledger.change([], &[name])?;
        }
        Ok(())
    }

    /// The address at which this host gets packets of networks.
    async fn own_address(&mut self, view: &View) -> Option<IpAddr> {
        let address = view.host(&self.agent.host.name)?.address?;
        if let Some((of, resolved @ Some(_))) = &self.address
            && *of == address
        {
            return *resolved;
        }
        let found = tokio::net::lookup_host(&address).await;
        let resolved = found.ok().and_then(|mut found| Some(found.next()?.ip()));
        self.address = Some((address, resolved));
        resolved
    }

    /// Where this host gets packets of networks. If they are encrypted, its WireGuard interface is made what it is to be.
    async fn own(
        &mut self,
        view: &View,
        networks: &BTreeMap<String, Network>,
        needed: &BTreeSet<&String>,
    ) -> Option<Own> {
        let endpoint = self.own_address(view).await?;
        let mut own = Own {
            address: endpoint,
            peer: None,
            fault: None,
        };
        if let Some(port) = self.agent.context.wireguard {
            match self.encrypt(view, networks, needed, port).await {
                Ok(key) => {
                    own.address = key.address().into();
                    own.peer = Some(Peer { key, endpoint });
                }
                Err(error) => own.fault = Some(error.error),
            }
        }
        Some(own)
    }

    /// Brings the WireGuard interface up, with the members of the networks that this host needs as its peers.
    async fn encrypt(
        &mut self,
        view: &View,
        networks: &BTreeMap<String, Network>,
        needed: &BTreeSet<&String>,
        port: u16,
    ) -> Result<Key> {
        let (wireguard, key) = (self.wireguard.clone(), self.key);
        let (key, is_new) = self.agent.ask(move |_| wireguard.open(key)).await?;
        self.key = Some(key);
        let members = needed.iter().flat_map(|name| view.members(name));
        let others =
            members.filter(|(host, it)| *host != self.agent.host.name && it.is_reachable(true));
        let plan = Plan {
            port,
            peers: others
                .filter_map(|(_, it)| it.wireguard)
                .filter(|it| it.key != key)
                .collect(),
            mtu: networks.values().map(|it| it.mtu).max().unwrap_or(0),
        };
        let is_told = |(told, at): &(Plan, Instant)| *told == plan && at.elapsed() < RETELL;
        if is_new || !self.plan.as_ref().is_some_and(is_told) {
            self.plan = None;
            let (wireguard, told) = (self.wireguard.clone(), plan.clone());
            self.agent.ask(move |_| wireguard.tell(&told)).await?;
            self.plan = Some((plan, Instant::now()));
        }
        Ok(key)
    }

    /// Makes the link of a network, or changes it. Returns why that cannot be.
    async fn bring(
        &mut self,
        view: &View,
        name: &str,
        network: &Network,
        own: Option<&Own>,
        there: &There,
    ) -> Result<Option<String>> {
        let tunnel = tunnel(view, &self.agent.host.name, name, network, own);
        let is_own = self.ledger.id(name) == Some(&network.id);
        let done = match there.links.get(name) {
            Some(_) if !is_own => {
                let why = match self.ledger.id(name) {
                    None => {
                        "the host has a link of this name that is not the cluster's: detach it there"
                    }
                    Some(_) => {
                        "the link of a former network of this name still has VNICs: delete them there"
                    }
                };
                return Ok(Some(why.into()));
            }
            Some(link) if link.vxlan.as_ref() == Some(&tunnel) => return Ok(None),
            Some(link)
                if tunnel.local.is_some()
                    && link.vxlan.as_ref().and_then(|it| it.local) != tunnel.local =>
            {
                if !there.vnics_on(name).is_empty() {
                    return Ok(Some(
                        "this host has another address than when its link was made: delete the network's VNICs there".into(),
                    ));
                }
                // The next look finds no link, and makes one.
                let name = name.to_string();
                let deleted = move |node: &Client| node.delete::<Link>(&name);
                self.agent.ask(deleted).await.or_else(unless_gone)
            }
            Some(_) => {
                let patch = json!({
                    "vxlan": { "remotes": tunnel.remotes, "neighbors": tunnel.neighbors }
                });
                let name = name.to_string();
                let patched = move |node: &Client| node.patch::<Link>(&name, &patch).map(drop);
                self.agent.ask(patched).await
            }
            None => {
                let noted = [(name.to_string(), network.id.clone())];
                self.ledger.change(noted, &[])?;
                let link = Link {
                    vxlan: Some(tunnel),
                    port: PortProperties {
                        mtu: Some(network.mtu),
                        ..PortProperties::default()
                    },
                    ..Link::default()
                };
                let link = Object::new(name, link);
                self.agent
                    .ask(move |node| node.create(&link).map(drop))
                    .await
            }
        };
        match done {
            Ok(()) => Ok(None),
            Err(error) if error.kind == ErrorKind::Unavailable => Err(error),
            Err(error) => Ok(Some(error.error)),
        }
    }

    /// Tells of this host's part of a network, if that is news.
    async fn tell(&mut self, network: &str, member: Option<Member>) -> Result<()> {
        let lease = self.agent.lease();
        let key = keys::of_host(Kind::Member, &self.agent.host.name, network);
        let news = match (member, self.told.get(network)) {
            (None, None) => return Ok(()),
            (None, Some(_)) => {
                self.told.remove(network);
                Transaction::default().removes(key)
            }
            // Without a lease, this host has no part.
            (Some(_), _) if lease == 0 => return Ok(()),
            (Some(member), said) => {
                let now = (member, lease);
                if said == Some(&now) {
                    return Ok(());
                }
                if let Some(fault) = &now.0.fault {
                    tracing::warn!("network {network}: {fault}");
                }
                let put = Transaction::default().puts(key, &now.0).under(lease);
                self.told.insert(network.into(), now);
                put
            }
        };
        let told = self.agent.store.commit(&news).await.map(drop);
        if told.is_err() {
            self.told.remove(network);
        }
        told
    }
}

/// A removal of what is gone already is done.
pub fn unless_gone(error: Error) -> Result<()> {
    match error.kind {
        ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

/// Has a node remove all links of networks.
pub fn clear(ledger: &mut Ledger, node: &Client) -> Result<()> {
    let names: Vec<_> = ledger.entries().map(|(name, _)| name.clone()).collect();
    for name in &names {
        node.delete::<Link>(name).or_else(unless_gone)?;
    }
    ledger.change([], &names)
}

/// The tunnel of a host to all other members of a network.
fn tunnel(view: &View, host: &str, name: &str, network: &Network, own: Option<&Own>) -> Tunnel {
    let members = view.members(name).filter_map(|(other, member)| {
        let is_there = other != host && member.id == network.id;
        let reaches = own.is_some_and(|own| {
            member.is_reachable(own.peer.is_some())
                && own.address.is_ipv4() == member.address.is_ipv4()
                && own.address != member.address
        });
        (is_there && reaches).then_some(member)
    });
    let members: Vec<Member> = members.take(REMOTES_MAX).collect();
    let remotes: BTreeSet<IpAddr> = members.iter().map(|member| member.address).collect();
    let neighbors = members.iter().flat_map(|member| {
        member.vnics.iter().map(|(mac, ips)| Neighbor {
            mac: *mac,
            remote: member.address,
            ips: ips.clone(),
        })
    });
    Tunnel {
        vni: network.vni,
        neighbors: neighbors.take(NEIGHBORS_MAX).collect(),
        remotes: remotes.into_iter().collect(),
        local: own.map(|own| own.address),
        port: Some(network.port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_leads_to_the_other_members_and_knows_their_addresses() {
        let network = Network {
            id: "1".into(),
            vni: 7,
            port: 4795,
            mtu: 1450,
            wire: None,
            created_ms: 0,
        };
        let member = |id: &str, last: u8, fault: Option<&str>| Member {
            id: id.into(),
            address: IpAddr::from([192, 0, 2, last]),
            vnics: [(Mac([2, 0, 0, 0, 0, last]), vec![[10, 0, 0, last].into()])].into(),
            wireguard: None,
            fault: fault.map(String::from),
        };
        let mut view = View::default();
        let members = [
            ("a/lan", member("1", 1, None)),
            ("b/lan", member("1", 2, None)),
            ("c/lan", member("0", 3, None)),
            ("d/lan", member("1", 4, Some("its port is taken"))),
            ("b/lan2", member("1", 5, None)),
        ];
        for (name, member) in members {
            let value = serde_json::to_vec(&member).unwrap();
            view.apply(&Kind::Member.of(name), Some(&value), 1);
        }
        let mut own = Own {
            address: IpAddr::from([192, 0, 2, 1]),
            peer: None,
            fault: None,
        };
        let found = tunnel(&view, "a", "lan", &network, Some(&own));
        assert_eq!(found.remotes, [IpAddr::from([192, 0, 2, 2])]);
        assert_eq!(
            found.neighbors,
            [Neighbor {
                mac: Mac([2, 0, 0, 0, 0, 2]),
                remote: IpAddr::from([192, 0, 2, 2]),
                ips: vec![[10, 0, 0, 2].into()],
            }]
        );
        // A host that the others do not reach reaches none.
        // Encrypted frames go to the addresses of keys alone, and others nowhere.
        let peer = |first: &str| Peer {
            key: Key::try_from(format!(
                "{first}SDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
            ))
            .unwrap(),
            endpoint: own.address,
        };
        let (of_own, of_b, of_c) = (peer("a"), peer("b"), peer("c"));
        let encrypted = |address: IpAddr, of: Peer| Member {
            address,
            wireguard: Some(of),
            ..member("1", 9, None)
        };
        let said = [
            ("c/lan", encrypted(of_c.key.address().into(), of_c)),
            ("d/lan", encrypted(of_c.key.address().into(), of_b)),
        ];
        for (name, member) in said {
            let value = serde_json::to_vec(&member).unwrap();
            view.apply(&Kind::Member.of(name), Some(&value), 2);
        }
        let in_clear = tunnel(&view, "a", "lan", &network, Some(&own));
        assert_eq!(in_clear.remotes, found.remotes);
        (own.address, own.peer) = (of_own.key.address().into(), Some(of_own));
        let encrypted = tunnel(&view, "a", "lan", &network, Some(&own));
        assert_eq!(encrypted.remotes, [IpAddr::from(of_c.key.address())]);
        let alone = tunnel(&view, "a", "lan", &network, None);
        assert!(alone.remotes.is_empty() && alone.neighbors.is_empty());
    }

    #[test]
    fn addresses_of_a_vnic_are_those_that_are_its_own() {
        let vnic = Vnic {
            addresses: vec![
                "10.0.0.2/24".parse().unwrap(),
                "fd00::2/64".parse().unwrap(),
            ],
            properties: PortProperties {
                allowed_ips: vec!["10.0.0.9".parse().unwrap(), "10.1.0.0/16".parse().unwrap()],
                ..PortProperties::default()
            },
            ..Vnic::default()
        };
        assert_eq!(
            addresses(&vnic),
            [Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 9)]
        );
    }
}
