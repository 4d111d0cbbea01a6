//! Asking the kernel about interfaces, addresses and routes, and setting them: rtnetlink(7), one
//! question at a time.

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

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

    /// Sends one message and collects what is answered.
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

    /// The number of the interface called `name`.
    pub fn index(&mut self, name: &str) -> io::Result<u32> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.into()));
        let answers = self.get(RouteNetlinkMessage::GetLink(message))?;
        let index = answers.iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(link.header.index),
            _ => None,
        });
        index.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Sets an interface up.
    pub fn set_up(&mut self, index: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.ask(RouteNetlinkMessage::SetLink(message), NLM_F_ACK)
            .map(drop)
    }

    /// Sets an interface's MTU, in bytes.
    pub fn set_mtu(&mut self, index: u32, mtu: u16) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(LinkAttribute::Mtu(mtu.into()));
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

    fn route(to: IpNet, via: Option<IpAddr>, index: Option<u32>) -> RouteMessage {
        let route_address = |ip| match ip {
            IpAddr::V4(ip) => RouteAddress::Inet(ip),
            IpAddr::V6(ip) => RouteAddress::Inet6(ip),
        };
        let mut message = RouteMessage::default();
        message.header.address_family = match to {
            IpNet::V4(_) => AddressFamily::Inet,
            IpNet::V6(_) => AddressFamily::Inet6,
        };
        message.header.destination_prefix_length = to.prefix_len();
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.kind = RouteType::Unicast;
        message.header.scope = match via {
            Some(_) => RouteScope::Universe,
            None => RouteScope::Link,
        };
        if to.prefix_len() > 0 {
            message
                .attributes
                .push(RouteAttribute::Destination(route_address(to.network())));
        }
        if let Some(via) = via {
            message
                .attributes
                .push(RouteAttribute::Gateway(route_address(via)));
        }
        if let Some(index) = index {
            message.attributes.push(RouteAttribute::Oif(index));
        }
        message
    }

    /// Sets a route, in the place of one to the same prefix.
    pub fn add_route(
        &mut self,
        to: IpNet,
        via: Option<IpAddr>,
        index: Option<u32>,
    ) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewRoute(Self::route(to, via, index));
        self.ask(message, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE)
            .map(drop)
    }

    /// Removes a route.
    pub fn remove_route(
        &mut self,
        to: IpNet,
        via: Option<IpAddr>,
        index: Option<u32>,
    ) -> io::Result<()> {
        let message = RouteNetlinkMessage::DelRoute(Self::route(to, via, index));
        self.ask(message, NLM_F_ACK).map(drop)
    }
}
