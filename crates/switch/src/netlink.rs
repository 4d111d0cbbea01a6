//! The kernel's interfaces, addresses and routes, by rtnetlink(7), one request at a time.
//!
//! All access goes through this module, except for operations that the library has no messages for:
//! making a TAP device, and ethtool's offloads and queues (`sys`).

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::mac::Mac;

/// One route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRoute {
    /// Where to.
    pub to: IpNet,
    /// The next router.
    pub via: Option<IpAddr>,
    /// The interface's number.
    pub device: Option<u32>,
    /// Of several routes to one prefix, the one with the least is taken; none stands for the usual
    /// one ([`metric`]).
    pub metric: Option<u32>,
}

/// The metric with which the kernel keeps a route. Without a metric, or with 0, it is 0 for IPv4
/// and 1024 for IPv6 (linux/ipv6_route.h: IP6_RT_PRIO_USER).
pub fn metric(to: IpNet, given: Option<u32>) -> u32 {
    let usual = match to {
        IpNet::V4(_) => 0,
        IpNet::V6(_) => 1024,
    };
    given.filter(|metric| *metric > 0).unwrap_or(usual)
}

impl KernelRoute {
    /// What a message says of one; `None` if the prefix is none.
    pub fn of(message: &RouteMessage) -> Option<KernelRoute> {
        let ip = |address: &RouteAddress| match address {
            RouteAddress::Inet(address) => Some(IpAddr::from(*address)),
            RouteAddress::Inet6(address) => Some(IpAddr::from(*address)),
            _ => None,
        };
        let mut to = match message.header.address_family {
            AddressFamily::Inet6 => IpAddr::from([0; 16]),
            _ => IpAddr::from([0; 4]),
        };
        let (mut via, mut device, mut metric) = (None, None, None);
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Destination(prefix) => to = ip(prefix)?,
                RouteAttribute::Gateway(router) => via = ip(router),
                RouteAttribute::Oif(index) => device = Some(*index),
                RouteAttribute::Priority(priority) => metric = Some(*priority),
                _ => {}
            }
        }
        let to = IpNet::new(to, message.header.destination_prefix_length).ok()?;
        let usual = self::metric(to, None);
        Some(KernelRoute {
            to,
            via,
            device,
            metric: metric.filter(|metric| *metric != usual),
        })
    }

    fn message(&self) -> RouteMessage {
        let route_address = |ip| match ip {
            IpAddr::V4(ip) => RouteAddress::Inet(ip),
            IpAddr::V6(ip) => RouteAddress::Inet6(ip),
        };
        let mut message = RouteMessage::default();
        message.header.address_family = match self.to {
            IpNet::V4(_) => AddressFamily::Inet,
            IpNet::V6(_) => AddressFamily::Inet6,
        };
        message.header.destination_prefix_length = self.to.prefix_len();
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.kind = RouteType::Unicast;
        message.header.scope = match self.via {
            Some(_) => RouteScope::Universe,
            None => RouteScope::Link,
        };
        let to = (self.to.prefix_len() > 0).then(|| route_address(self.to.network()));
        let attributes = [
            to.map(RouteAttribute::Destination),
            self.via.map(route_address).map(RouteAttribute::Gateway),
            self.device.map(RouteAttribute::Oif),
            self.metric.map(RouteAttribute::Priority),
        ];
        message.attributes = attributes.into_iter().flatten().collect();
        message
    }
}

/// An interface, as far as is asked for here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is set up.
    pub is_up: bool,
    /// Its MTU, in bytes.
    pub mtu: u32,
    /// Its Ethernet address; none if it is not an Ethernet interface.
    pub mac: Option<Mac>,
    /// Whether it has no link-layer addresses at all, as those of WireGuard and TUN.
    pub is_tunnel: bool,
}

/// A socket to the kernel, in the network namespace that it was made in.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// A socket in this thread's namespace.
    pub fn new() -> io::Result<Netlink> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink {
            socket,
            sequence: 0,
        })
    }

    /// Sends one message and collects the answers.
    fn ask(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut message = NetlinkMessage::from(message);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, format!("{error}"));
                let answer =
                    NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(wrong)?;
                let len = (answer.header.length as usize).next_multiple_of(4);
                rest = rest.get(len..).unwrap_or(&[]);
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                match answer.payload {
                    NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::Error(error) => match error.code {
                        None => return Ok(answers),
                        Some(_) => return Err(error.to_io()),
                    },
                    NetlinkPayload::InnerMessage(message) => answers.push(message),
                    _ => {}
                }
            }
        }
    }

    /// All there is of something.
    pub fn dump(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.ask(message, NLM_F_DUMP)
    }

    /// One thing; the answer ends with an acknowledgement.
    pub fn get(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.ask(message, NLM_F_ACK)
    }

    /// The interface called `name`.
    pub fn interface(&mut self, name: &str) -> io::Result<Interface> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.into()));
        let answers = self.get(RouteNetlinkMessage::GetLink(message))?;
        let found = answers.iter().find_map(interface);
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The number of the interface called `name`.
    pub fn index(&mut self, name: &str) -> io::Result<u32> {
        Ok(self.interface(name)?.index)
    }

    /// All interfaces.
    pub fn interfaces(&mut self) -> io::Result<Vec<Interface>> {
        let answers = self.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        Ok(answers.iter().filter_map(interface).collect())
    }

    /// All addresses, with the numbers of their interfaces.
    pub fn addresses(&mut self) -> io::Result<Vec<(u32, IpNet)>> {
        let answers = self.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        let address = |answer| match answer {
            RouteNetlinkMessage::NewAddress(address) => {
                Some((address.header.index, own_address(&address)?))
            }
            _ => None,
        };
        Ok(answers.into_iter().filter_map(address).collect())
    }

    /// The routes of the main table.
    pub fn routes(&mut self) -> io::Result<Vec<KernelRoute>> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut question = RouteMessage::default();
            question.header.address_family = family;
            for answer in self.dump(RouteNetlinkMessage::GetRoute(question))? {
                if let RouteNetlinkMessage::NewRoute(message) = answer
                    && message.header.table == RouteHeader::RT_TABLE_MAIN
                {
                    routes.extend(KernelRoute::of(&message));
                }
            }
        }
        Ok(routes)
    }

    /// Makes a WireGuard interface.
    pub fn add_wireguard(&mut self, name: &str) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.into()));
        let kind = LinkInfo::Kind(InfoKind::Wireguard);
        message.attributes.push(LinkAttribute::LinkInfo(vec![kind]));
        let message = RouteNetlinkMessage::NewLink(message);
        self.ask(message, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)
            .map(drop)
    }

    /// Removes an interface.
    pub fn remove_link(&mut self, index: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.ask(RouteNetlinkMessage::DelLink(message), NLM_F_ACK)
            .map(drop)
    }

    /// Sets an interface up.
    pub fn set_up(&mut self, index: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.set_link(index, message)
    }

    /// Sets an interface's MTU, in bytes.
    pub fn set_mtu(&mut self, index: u32, mtu: u16) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::Mtu(mtu.into()));
        self.set_link(index, message)
    }

    /// Sets an interface's Ethernet address.
    pub fn set_mac(&mut self, index: u32, mac: Mac) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message
            .attributes
            .push(LinkAttribute::Address(mac.0.into()));
        self.set_link(index, message)
    }

    fn set_link(&mut self, index: u32, mut message: LinkMessage) -> io::Result<()> {
        message.header.index = index;
        self.ask(RouteNetlinkMessage::SetLink(message), NLM_F_ACK)
            .map(drop)
    }

    fn address(index: u32, address: IpNet) -> AddressMessage {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.header.prefix_len = address.prefix_len();
        message.header.family = match address {
            IpNet::V4(_) => AddressFamily::Inet,
            IpNet::V6(_) => AddressFamily::Inet6,
        };
        let ip = address.addr();
        message.attributes.push(AddressAttribute::Local(ip));
        message.attributes.push(AddressAttribute::Address(ip));
        if let (IpNet::V4(net), true) = (address, address.prefix_len() < 31) {
            message
                .attributes
                .push(AddressAttribute::Broadcast(net.broadcast()));
        }
        message
    }

    /// Gives an interface an address, if it does not have it.
    pub fn add_address(&mut self, index: u32, address: IpNet) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewAddress(Self::address(index, address));
        self.ask(message, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE)
            .map(drop)
    }

    /// Takes an address from an interface.
    pub fn remove_address(&mut self, index: u32, address: IpNet) -> io::Result<()> {
        let message = RouteNetlinkMessage::DelAddress(Self::address(index, address));
        self.ask(message, NLM_F_ACK).map(drop)
    }

    /// Sets a route, in the place of one to the same prefix with the same metric.
    pub fn add_route(&mut self, route: &KernelRoute) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewRoute(route.message());
        self.ask(message, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE)
            .map(drop)
    }

    /// Adds or removes a route to nowhere: what no other route leads to fails, in place of leaving by a wider one.
    pub fn set_unreachable(&mut self, to: IpNet, metric: u32, is_there: bool) -> io::Result<()> {
        let route = KernelRoute {
            to,
            via: None,
            device: None,
            metric: Some(metric),
        };
        let mut message = route.message();
        message.header.kind = RouteType::Unreachable;
        let (message, flags) = match is_there {
            true => (
                RouteNetlinkMessage::NewRoute(message),
                NLM_F_CREATE | NLM_F_REPLACE,
            ),
            false => (RouteNetlinkMessage::DelRoute(message), 0),
        };
        self.ask(message, NLM_F_ACK | flags).map(drop)
    }

    /// Removes a route.
    pub fn remove_route(&mut self, route: &KernelRoute) -> io::Result<()> {
        let message = RouteNetlinkMessage::DelRoute(route.message());
        self.ask(message, NLM_F_ACK).map(drop)
    }
}

fn interface(answer: &RouteNetlinkMessage) -> Option<Interface> {
    let RouteNetlinkMessage::NewLink(link) = answer else {
        return None;
    };
    let (mut name, mut mtu, mut mac) = (None, 0, None);
    let is_ethernet = link.header.link_layer_type == LinkLayerType::Ether;
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(its) => name = Some(its.clone()),
            LinkAttribute::Mtu(its) => mtu = *its,
            LinkAttribute::Address(its) if is_ethernet => {
                mac = its.as_slice().try_into().ok().map(Mac);
            }
            _ => {}
        }
    }
    Some(Interface {
        index: link.header.index,
        name: name?,
        mtu,
        mac,
        is_tunnel: link.header.link_layer_type == LinkLayerType::None,
        is_up: link.header.flags.contains(LinkFlags::Up),
    })
}

/// The address that an interface has, with its prefix.
pub fn own_address(message: &AddressMessage) -> Option<IpNet> {
    let find =
        |which: fn(&AddressAttribute) -> Option<IpAddr>| message.attributes.iter().find_map(which);
    // IPv6 has the first only if there is a peer, which the second is then.
    let local = find(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let address = local.or_else(|| {
        find(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    });
    IpNet::new(address?, message.header.prefix_len).ok()
}
