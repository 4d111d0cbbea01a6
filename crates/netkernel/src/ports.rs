//! Which sockets have which ports.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;

/// The ports of sockets that have none: Linux's range (net.ipv4.ip_local_port_range).
const EPHEMERAL: std::ops::Range<u16> = 32_768..61_000;

/// A socket that has a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub number: u32,
    pub tenant: u8,
    /// The local address; unspecified: any.
    pub ip: IpAddr,
    /// An unspecified IPv6 address stands for IPv4 ones as well.
    pub both: bool,
    /// SO_REUSEADDR.
    pub shares_address: bool,
    /// SO_REUSEPORT.
    pub shares_port: bool,
    pub listens: bool,
    /// Of datagrams: the one that it hears alone.
    pub peer: Option<SocketAddr>,
}

impl Bound {
    /// Whether packets to an address may be for it.
    fn takes(&self, ip: IpAddr) -> bool {
        match self.ip.is_unspecified() {
            true => self.ip.is_ipv4() == ip.is_ipv4() || self.both,
            false => self.ip == ip,
        }
    }

    /// Whether there is an address that both take.
    fn overlaps(&self, other: &Bound) -> bool {
        match (self.ip.is_unspecified(), other.ip.is_unspecified()) {
            (false, _) => other.takes(self.ip),
            (true, false) => self.takes(other.ip),
            (true, true) => self.ip.is_ipv4() == other.ip.is_ipv4() || self.both || other.both,
        }
    }

    /// Whether another may come to have the same address and port, or to listen there, beside it.
    fn lets(&self, other: &Bound) -> bool {
        let port = self.shares_port && other.shares_port && self.tenant == other.tenant;
        let address = self.shares_address && other.shares_address && !self.listens;
        port || address || !self.overlaps(other)
    }
}

/// The ports of one protocol.
#[derive(Default)]
pub(crate) struct Ports {
    by_port: HashMap<u16, Vec<Bound>>,
    seed: RandomState,
    turn: u16,
}

impl Ports {
    /// Gives a socket a port, or one of its own for 0.
    pub fn bind(&mut self, bound: Bound, port: u16) -> Result<u16, Errno> {
        let port = match port {
            0 => self
                .free(|ports, port| ports.lets(&bound, port))
                .ok_or(Errno::ADDRINUSE)?,
            port if self.lets(&bound, port) => port,
            _ => return Err(Errno::ADDRINUSE),
        };
        self.by_port.entry(port).or_default().push(bound);
        Ok(port)
    }

    fn lets(&self, bound: &Bound, port: u16) -> bool {
        let there = self.by_port.get(&port).into_iter().flatten();
        let mut others = there.filter(|it| it.number != bound.number);
        others.all(|it| it.lets(bound))
    }

    /// A port of [`EPHEMERAL`] that will do.
    pub fn free(&mut self, fits: impl Fn(&Ports, u16) -> bool) -> Option<u16> {
        let count = EPHEMERAL.len() as u16;
        if self.turn == 0 {
            // What comes first is not to be known outside (RFC 6056).
            self.turn = self.seed.hash_one(0) as u16 % count;
        }
        for _ in 0..count {
            self.turn = (self.turn + 1) % count;
            let port = EPHEMERAL.start + self.turn;
            if fits(self, port) {
                return Some(port);
            }
        }
        None
    }

    /// Whether nobody has a port.
    pub fn is_free(&self, port: u16) -> bool {
        !self.by_port.contains_key(&port)
    }

    /// Has a socket that is bound be as told, if others let it.
    pub fn change(
        &mut self,
        number: u32,
        port: u16,
        change: impl FnOnce(&mut Bound),
    ) -> Result<(), Errno> {
        let there = self.by_port.get(&port).into_iter().flatten();
        let mut bound = *there
            .into_iter()
            .find(|it| it.number == number)
            .ok_or(Errno::INVAL)?;
        change(&mut bound);
        if !self.lets(&bound, port) {
            return Err(Errno::ADDRINUSE);
        }
        for it in self.by_port.get_mut(&port).into_iter().flatten() {
            if it.number == number {
                *it = bound;
            }
        }
        Ok(())
    }

    /// Releases a socket's port.
    pub fn release(&mut self, number: u32, port: u16) {
        if let Some(there) = self.by_port.get_mut(&port) {
            there.retain(|it| it.number != number);
            if there.is_empty() {
                self.by_port.remove(&port);
            }
        }
    }

    /// The socket that listens for connections from `remote` to `local`; of several that share the port, one by the
    /// hash of both.
    pub fn listener(&self, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        self.best(local, remote, |it| it.listens)
    }

    /// The socket that datagrams from `remote` to `local` are for.
    pub fn receiver(&self, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        self.best(local, remote, |it| {
            it.peer.is_none_or(|peer| peer == remote)
        })
    }

    /// All sockets that datagrams to many hosts are for.
    pub fn receivers(&self, local: SocketAddr, remote: SocketAddr) -> Vec<u32> {
        let there = self.by_port.get(&local.port()).into_iter().flatten();
        let any =
            |it: &&Bound| it.ip.is_unspecified() && it.takes(local.ip()) || it.ip == local.ip();
        let heard = |it: &&Bound| it.peer.is_none_or(|peer| peer == remote);
        there
            .filter(any)
            .filter(heard)
            .map(|it| it.number)
            .collect()
    }

    fn best(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
        may: impl Fn(&Bound) -> bool,
    ) -> Option<u32> {
        let there = self.by_port.get(&local.port())?;
        // One that hears a peer alone, one of the very address, one of any.
        let rank = |it: &Bound| (it.peer.is_some(), !it.ip.is_unspecified(), !it.both);
        let those = || there.iter().filter(|it| may(it) && it.takes(local.ip()));
        let most = those().map(rank).max()?;
        let mut best = those().filter(|it| rank(it) == most);
        let count = those().filter(|it| rank(it) == most).count();
        let at = match count {
            1 => 0,
            _ => self.seed.hash_one((local, remote)) as usize % count,
        };
        best.nth(at).map(|it| it.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(number: u32, ip: &str) -> Bound {
        Bound {
            number,
            tenant: 1,
            ip: ip.parse().unwrap(),
            both: ip == "::",
            shares_address: false,
            shares_port: false,
            listens: false,
            peer: None,
        }
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_port_has_one_socket_of_an_address() {
        let mut ports = Ports::default();
        assert_eq!(ports.bind(bound(1, "10.0.0.2"), 80), Ok(80));
        assert_eq!(ports.bind(bound(2, "127.0.0.1"), 80), Ok(80));
        assert_eq!(ports.bind(bound(3, "0.0.0.0"), 80), Err(Errno::ADDRINUSE));
        assert_eq!(ports.bind(bound(3, "::"), 80), Err(Errno::ADDRINUSE));
        let only = Bound {
            both: false,
            ..bound(3, "::")
        };
        assert_eq!(ports.bind(only, 80), Ok(80));
        ports.release(1, 80);
        ports.release(2, 80);
        assert_eq!(ports.bind(bound(4, "0.0.0.0"), 80), Ok(80));
        let own = ports.bind(bound(5, "0.0.0.0"), 0).unwrap();
        assert!(EPHEMERAL.contains(&own));
    }

    #[test]
    fn sockets_of_one_tenant_share_a_port_and_its_connections() {
        let mut ports = Ports::default();
        let sharing = |number| Bound {
            shares_port: true,
            listens: true,
            ..bound(number, "0.0.0.0")
        };
        for number in 1..=4 {
            assert_eq!(ports.bind(sharing(number), 80), Ok(80));
        }
        let other = Bound {
            tenant: 2,
            ..sharing(5)
        };
        assert_eq!(ports.bind(other, 80), Err(Errno::ADDRINUSE));
        let mut hits = [0; 5];
        for port in 1000..1400 {
            let remote = SocketAddr::new("10.0.0.1".parse().unwrap(), port);
            let number = ports.listener(at("10.0.0.2:80"), remote).unwrap();
            assert_eq!(ports.listener(at("10.0.0.2:80"), remote), Some(number));
            hits[number as usize] += 1;
        }
        assert!(hits[1..].iter().all(|hits| *hits > 40), "{hits:?}");
    }

    #[test]
    fn two_may_be_bound_with_reuseaddr_and_one_listens() {
        let mut ports = Ports::default();
        let sharing = |number| Bound {
            shares_address: true,
            ..bound(number, "0.0.0.0")
        };
        ports.bind(sharing(1), 80).unwrap();
        ports.bind(sharing(2), 80).unwrap();
        assert_eq!(ports.change(1, 80, |it| it.listens = true), Ok(()));
        assert_eq!(
            ports.change(2, 80, |it| it.listens = true),
            Err(Errno::ADDRINUSE)
        );
    }

    #[test]
    fn a_datagram_goes_to_the_socket_that_asks_for_the_least() {
        let mut ports = Ports::default();
        let sharing = |number, ip| Bound {
            shares_address: true,
            ..bound(number, ip)
        };
        ports.bind(sharing(1, "::"), 53).unwrap();
        ports.bind(sharing(2, "10.0.0.2"), 53).unwrap();
        ports.bind(sharing(3, "10.0.0.2"), 53).unwrap();
        ports
            .change(3, 53, |it| it.peer = Some(at("10.0.0.1:9")))
            .unwrap();
        let to = |local: &str, remote: &str| ports.receiver(at(local), at(remote));
        assert_eq!(to("10.0.0.2:53", "10.0.0.1:9"), Some(3));
        assert_eq!(to("10.0.0.2:53", "10.0.0.1:8"), Some(2));
        assert_eq!(to("127.0.0.1:53", "127.0.0.1:8"), Some(1));
        assert_eq!(to("127.0.0.1:54", "127.0.0.1:8"), None);
    }
}
