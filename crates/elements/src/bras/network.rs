//! The options of the network control protocols: IPCP (RFC 1332, RFC 1877) and IPV6CP (RFC 5072).

use super::control::{Entry, Options, add_option, protocol};
use super::layer::{Env, Negotiate, Opinion};
use crate::prelude::*;

/// IPCP's options.
mod option {
    pub const ADDRESS: u8 = 3;
    pub const DNS: [u8; 2] = [129, 131];
}

/// IPV6CP's option: the interface identifier.
const INTERFACE_ID: u8 = 1;

/// What IPCP negotiates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipcp {
    /// This side's address.
    own: Ipv4Addr,
    asks_own: bool,
    /// The peer's address.
    pub peer: Ipv4Addr,
    /// DNS servers, first and second; unspecified if there are none.
    dns: [Ipv4Addr; 2],
}

impl Ipcp {
    pub fn new(own: Ipv4Addr, peer: Ipv4Addr, dns: [Ipv4Addr; 2]) -> Ipcp {
        Ipcp {
            own,
            asks_own: true,
            peer,
            dns,
        }
    }
}

/// Whether the peer asks for the value that it has to have.
fn same(data: &[u8], value: Ipv4Addr) -> Opinion {
    let value = value.octets();
    match data == value {
        true => Opinion::Good,
        false => Opinion::better(&value),
    }
}

impl Negotiate for Ipcp {
    const PROTOCOL: u16 = protocol::IPCP;

    fn request(&self) -> Options {
        let mut options = Options::new();
        if self.asks_own {
            add_option(&mut options, option::ADDRESS, &self.own.octets());
        }
        options
    }

    fn judge(&self, option: Entry<'_>, _env: &mut Env<'_>) -> Opinion {
        if option.kind == option::ADDRESS {
            return same(option.data, self.peer);
        }
        let server = option::DNS.iter().position(|kind| *kind == option.kind);
        let server = server.and_then(|number| self.dns.get(number));
        match server.filter(|server| !server.is_unspecified()) {
            Some(server) => same(option.data, *server),
            None => Opinion::Unknown,
        }
    }

    fn missing(&self) -> Option<(u8, [u8; 4])> {
        Some((option::ADDRESS, self.peer.octets()))
    }

    fn suggested(&mut self, _option: Entry<'_>, _env: &mut Env<'_>) -> bool {
        // This side's address is not the peer's to choose.
        true
    }

    fn rejected(&mut self, option: Entry<'_>) -> bool {
        if option.kind == option::ADDRESS {
            self.asks_own = false;
        }
        true
    }
}

/// What IPV6CP negotiates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6cp {
    /// This side's interface identifier.
    pub own: [u8; 8],
    asks_own: bool,
    /// What the peer is told to take, if it has none.
    suggestion: [u8; 8],
}

impl Ipv6cp {
    /// `suggestion` is the peer's identifier if the peer has none of its own.
    pub fn new(suggestion: Option<[u8; 8]>, env: &mut Env<'_>) -> Ipv6cp {
        Ipv6cp {
            own: identifier(env),
            asks_own: true,
            suggestion: suggestion.unwrap_or_else(|| identifier(env)),
        }
    }
}

/// An interface identifier of local scope.
fn identifier(env: &mut Env<'_>) -> [u8; 8] {
    let mut id: [u8; 8] = env.bytes();
    id[0] &= !2;
    id[7] |= 1;
    id
}

impl Negotiate for Ipv6cp {
    const PROTOCOL: u16 = protocol::IPV6CP;

    fn request(&self) -> Options {
        let mut options = Options::new();
        if self.asks_own {
            add_option(&mut options, INTERFACE_ID, &self.own);
        }
        options
    }

    fn judge(&self, option: Entry<'_>, _env: &mut Env<'_>) -> Opinion {
        match (option.kind, option.data) {
            (INTERFACE_ID, id) if id.len() != 8 || *id == [0; 8] || *id == self.own => {
                Opinion::better(&self.suggestion)
            }
            (INTERFACE_ID, _) => Opinion::Good,
            _ => Opinion::Unknown,
        }
    }

    fn suggested(&mut self, option: Entry<'_>, env: &mut Env<'_>) -> bool {
        if option.kind == INTERFACE_ID {
            self.own = identifier(env);
        }
        true
    }

    fn rejected(&mut self, option: Entry<'_>) -> bool {
        if option.kind == INTERFACE_ID {
            self.asks_own = false;
        }
        true
    }
}
