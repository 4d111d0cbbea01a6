//! Interfaces, their addresses, and the VLANs of bridges.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    AfSpecBridge, BridgeStpState, BridgeVlanInfoFlags, InfoBridge, InfoData, InfoKind, InfoVlan,
    LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use switch::lookup::Mac;
use switch::netlink::{Netlink, own_address};

use super::super::seen::{InterfaceKind, SeenInterface};

pub(super) fn link(message: &LinkMessage, ids: &HashMap<i32, usize>) -> SeenInterface {
    let mut link = SeenInterface {
        index: message.header.index,
        up: message.header.flags.contains(LinkFlags::Up),
        ..SeenInterface::default()
    };
    let (mut kind, mut data, mut below, mut elsewhere) = (None, None, None, None);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Controller(master) => link.master = Some(*master),
            LinkAttribute::Address(mac) => link.mac = mac.as_slice().try_into().ok().map(Mac),
            LinkAttribute::Link(index) => below = Some(*index),
            LinkAttribute::LinkNetNsId(id) => elsewhere = Some(*id),
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Kind(found) => kind = Some(found.clone()),
                        LinkInfo::Data(found) => data = Some(found.clone()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    link.kind = match (kind, data) {
        (None, _) if message.header.link_layer_type == LinkLayerType::Loopback => {
            InterfaceKind::Loopback
        }
        (None, _) => InterfaceKind::Device,
        (Some(InfoKind::Bridge), data) => bridge(data),
        (Some(InfoKind::Veth), _) => InterfaceKind::Veth {
            index: below.unwrap_or(0),
            // A namespace that is not looked at gets an index that none has.
            namespace: elsewhere.map(|id| ids.get(&id).copied().unwrap_or(usize::MAX)),
        },
        (Some(InfoKind::Vlan), Some(InfoData::Vlan(infos))) => InterfaceKind::Vlan {
            id: infos
                .iter()
                .find_map(|info| match info {
                    InfoVlan::Id(id) => Some(*id),
                    _ => None,
                })
                .unwrap_or(0),
            below: below.unwrap_or(0),
        },
        (Some(InfoKind::Tun), _) => InterfaceKind::Tap,
        (Some(kind), _) => InterfaceKind::Other(kind.to_string()),
    };
    link
}

fn bridge(data: Option<InfoData>) -> InterfaceKind {
    let infos = match data {
        Some(InfoData::Bridge(infos)) => infos,
        _ => Vec::new(),
    };
    InterfaceKind::Bridge {
        vlans: infos.contains(&InfoBridge::VlanFiltering(true)),
        // Hundredths of a second.
        aging: infos.iter().find_map(|info| match info {
            InfoBridge::AgeingTime(time) => Some(time / 100),
            _ => None,
        })
        .unwrap_or(300),
        spanning_tree: infos.iter().any(|info| {
            matches!(info, InfoBridge::StpState(state) if *state != BridgeStpState::Disabled)
        }),
    }
}

/// The address, unless the kernel gives it by itself (loopback and link-local ones), and its peer,
/// if it has one: the prefix is the peer's then.
pub(super) fn address(message: &AddressMessage) -> Option<(IpNet, Option<IpNet>)> {
    let net = own_address(message)?;
    let own = match net.addr() {
        IpAddr::V4(address) => !address.is_loopback(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    };
    let peer = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            AddressAttribute::Address(peer) if *peer != net.addr() => Some(*peer),
            _ => None,
        });
    let peer = peer.and_then(|peer| IpNet::new(peer, net.prefix_len()).ok());
    own.then(|| match peer {
        Some(peer) => (IpNet::from(net.addr()), Some(peer.trunc())),
        None => (net, None),
    })
}

/// Notes which VLANs the ports of bridges take.
pub(super) fn bridge_vlans(netlink: &mut Netlink, links: &mut [SeenInterface]) -> io::Result<()> {
    let mut question = LinkMessage::default();
    question.header.interface_family = AddressFamily::Bridge;
    let vlans = vec![LinkExtentMask::Brvlan];
    question.attributes.push(LinkAttribute::ExtMask(vlans));
    for answer in netlink.dump(RouteNetlinkMessage::GetLink(question))? {
        let RouteNetlinkMessage::NewLink(message) = answer else {
            continue;
        };
        let index = message.header.index;
        let Some(link) = links.iter_mut().find(|link| link.index == index) else {
            continue;
        };
        for attribute in &message.attributes {
            let LinkAttribute::AfSpecBridge(specs) = attribute else {
                continue;
            };
            for spec in specs {
                if let AfSpecBridge::VlanInfo(vlan) = spec {
                    if vlan.flags.contains(BridgeVlanInfoFlags::Pvid) {
                        link.pvid = Some(vlan.vid);
                    } else {
                        link.tagged.push(vlan.vid);
                    }
                }
            }
        }
    }
    Ok(())
}
