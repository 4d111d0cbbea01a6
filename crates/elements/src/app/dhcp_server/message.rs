//! DHCP messages (RFC 2131, section 2; RFC 2132).

use core::cell::Cell;

use sha1::{Digest, Sha1};

use crate::prelude::*;

/// Bytes before the options, with the magic cookie.
const FIXED: usize = 240;
/// Fewest bytes of a message that BOOTP relays pass (RFC 1542, section 2.1).
const MESSAGE_MIN: usize = 300;
/// Most bytes of a message: those that every client takes (RFC 2131, section 2).
pub const MESSAGE_MAX: usize = 548;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// The flag of a client that takes no unicast before it has its address.
const BROADCAST: u16 = 1 << 15;
/// Bytes of a client's identity.
const IDENTITY: usize = 32;

/// Options (RFC 2132).
pub mod code {
    pub const MASK: u8 = 1;
    pub const ROUTER: u8 = 3;
    pub const DNS: u8 = 6;
    pub const DOMAIN: u8 = 15;
    pub const MTU: u8 = 26;
    pub const BROADCAST: u8 = 28;
    pub const REQUESTED: u8 = 50;
    pub const LEASE: u8 = 51;
    pub const OVERLOAD: u8 = 52;
    pub const KIND: u8 = 53;
    pub const SERVER: u8 = 54;
    pub const RENEWAL: u8 = 58;
    pub const REBINDING: u8 = 59;
    pub const CLIENT: u8 = 61;
    /// Relay agent information (RFC 3046).
    pub const RELAY: u8 = 82;
    pub const END: u8 = 255;
}

/// The kind of a message (RFC 2132, section 9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Discover = 1,
    Offer = 2,
    Request = 3,
    Decline = 4,
    Ack = 5,
    Nak = 6,
    Release = 7,
    Inform = 8,
}

impl Kind {
    /// The kind of a client's message.
    fn of_client(code: u8) -> Option<Kind> {
        let kinds = [
            Kind::Discover,
            Kind::Request,
            Kind::Decline,
            Kind::Release,
            Kind::Inform,
        ];
        kinds.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// The data of an option.
#[derive(Clone, Copy)]
pub struct Data {
    length: u8,
    bytes: [u8; 255],
}

impl Data {
    const NONE: Data = Data {
        length: 0,
        bytes: [0; 255],
    };

    fn set(&mut self, data: &[u8]) {
        // An option has at most 255 bytes.
        let length = data.len().min(255);
        self.bytes[..length].copy_from_slice(&data[..length]);
        self.length = length as u8;
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// What tells clients apart: the client identifier, or the hardware address (RFC 2131, section 4.2). Of
/// identifiers that are too long, their hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity([u8; IDENTITY]);

impl Identity {
    /// That of a client by its number.
    #[cfg(test)]
    pub fn numbered(number: u8) -> Identity {
        Identity::new(1, &[number])
    }

    fn new(kind: u8, bytes: &[u8]) -> Identity {
        let mut identity = [0; IDENTITY];
        identity[0] = kind;
        match identity.get_mut(2..2 + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                identity[1] = bytes.len() as u8;
            }
            None => {
                identity[1] = u8::MAX;
                identity[2..22].copy_from_slice(&Sha1::digest(bytes));
            }
        }
        Identity(identity)
    }
}

/// A client's message.
#[derive(Clone, Copy)]
pub struct Request {
    pub kind: Kind,
    transaction: [u8; 4],
    flags: u16,
    /// The client's own address.
    pub client: Ipv4Addr,
    /// The relay agent; unspecified if there is none.
    pub relay: Ipv4Addr,
    pub hardware: EtherAddress,
    pub identity: Identity,
    pub requested: Option<Ipv4Addr>,
    /// The server that the client chose.
    pub server: Option<Ipv4Addr>,
    identifier: Data,
    relay_data: Data,
}

/// Calls `see` with each option; `None` if one is cut short.
fn options<'m>(mut rest: &'m [u8], see: &mut impl FnMut(u8, &'m [u8])) -> Option<()> {
    loop {
        match *rest {
            [] | [code::END, ..] => return Some(()),
            [0, ref after @ ..] => rest = after,
            [option, length, ref after @ ..] => {
                see(option, after.get(..usize::from(length))?);
                rest = &after[usize::from(length)..];
            }
            [_] => return None,
        }
    }
}

fn address(data: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(data).ok().map(Ipv4Addr::from)
}

impl Request {
    /// Reads a message; `None` if it is no client's, or malformed, or the client is not on an Ethernet.
    pub fn parse(message: &[u8]) -> Option<Request> {
        let fixed: &[u8; FIXED] = message.first_chunk()?;
        // A BOOTREQUEST of an Ethernet address.
        if fixed[..3] != [1, 1, 6] || fixed[FIXED - 4..] != COOKIE {
            return None;
        }
        let at = |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]);
        let mut hardware = EtherAddress::ZERO;
        hardware.0.copy_from_slice(&fixed[28..34]);
        let mut request = Request {
            kind: Kind::Discover,
            transaction: [fixed[4], fixed[5], fixed[6], fixed[7]],
            flags: u16::from_be_bytes([fixed[10], fixed[11]]),
            client: at(12),
            relay: at(24),
            hardware,
            identity: Identity::new(0, &hardware.0),
            requested: None,
            server: None,
            identifier: Data::NONE,
            relay_data: Data::NONE,
        };
        let (mut kind, overload) = (None, Cell::new(0));
        let mut see = |option: u8, data: &[u8]| match option {
            code::KIND => kind = data.first().copied(),
            code::OVERLOAD => overload.set(data.first().copied().unwrap_or(0)),
            code::REQUESTED => request.requested = address(data),
            code::SERVER => request.server = address(data),
            code::CLIENT => request.identifier.set(data),
            code::RELAY => request.relay_data.set(data),
            _ => {}
        };
        // Options may go on in the fields of the boot file and of the server's name (RFC 2132, section 9.3).
        options(&message[FIXED..], &mut see)?;
        let fields = [&fixed[108..236], &fixed[44..108]];
        for (field, bit) in fields.into_iter().zip([1, 2]) {
            if overload.get() & bit != 0 {
                options(field, &mut see)?;
            }
        }
        request.kind = Kind::of_client(kind?)?;
        let identifier = request.identifier.as_slice();
        if !identifier.is_empty() {
            request.identity = Identity::new(1, identifier);
        }
        let is_host = !hardware.is_group() && !hardware.is_zero();
        Some(request).filter(|_| is_host)
    }

    /// Whether the client takes no unicast before it has its address.
    pub fn wants_broadcast(&self) -> bool {
        self.flags & BROADCAST != 0
    }
}

/// A server's message at work.
pub struct Reply {
    bytes: [u8; MESSAGE_MAX],
    length: usize,
    relay_data: Data,
}

impl Reply {
    /// A message of a kind to a client, with the address that it may use.
    pub fn new(request: &Request, kind: Kind, server: Ipv4Addr, yours: Ipv4Addr) -> Reply {
        let mut reply = Reply {
            bytes: [0; MESSAGE_MAX],
            length: FIXED,
            relay_data: request.relay_data,
        };
        // A relay is to send a refusal to all: the client may not have its address.
        let flags = match kind {
            Kind::Nak => request.flags | BROADCAST,
            _ => request.flags,
        };
        let client = match kind {
            Kind::Ack => request.client,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let fixed = &mut reply.bytes;
        fixed[..3].copy_from_slice(&[2, 1, 6]);
        fixed[4..8].copy_from_slice(&request.transaction);
        fixed[10..12].copy_from_slice(&flags.to_be_bytes());
        fixed[12..16].copy_from_slice(&client.octets());
        fixed[16..20].copy_from_slice(&yours.octets());
        fixed[24..28].copy_from_slice(&request.relay.octets());
        fixed[28..34].copy_from_slice(&request.hardware.0);
        fixed[FIXED - 4..FIXED].copy_from_slice(&COOKIE);
        reply.option(code::KIND, &[kind as u8]);
        reply.option(code::SERVER, &server.octets());
        // RFC 6842.
        let identifier = request.identifier.as_slice();
        if !identifier.is_empty() {
            reply.option(code::CLIENT, identifier);
        }
        reply
    }

    /// Adds an option, if there is room for it, for what the relay agent sent, and for the end.
    pub fn option(&mut self, option: u8, data: &[u8]) {
        let relay = match self.relay_data.length {
            0 => 0,
            length => 2 + usize::from(length),
        };
        if self.length + 2 + data.len() + relay < MESSAGE_MAX {
            self.add(option, data);
        }
    }

    fn add(&mut self, option: u8, data: &[u8]) {
        let end = self.length + 2 + data.len();
        if let Some([first, second, place @ ..]) = self.bytes.get_mut(self.length..end) {
            (*first, *second) = (option, data.len() as u8);
            place.copy_from_slice(data);
            self.length = end;
        }
    }

    /// The message, with its end.
    pub fn finish(&mut self) -> &[u8] {
        let relay = self.relay_data;
        // The relay agent's own, behind all others (RFC 3046, section 2.1).
        if relay.length > 0 {
            self.add(code::RELAY, relay.as_slice());
        }
        if let Some(end) = self.bytes.get_mut(self.length) {
            *end = code::END;
            self.length += 1;
        }
        &self.bytes[..self.length.max(MESSAGE_MIN)]
    }
}
