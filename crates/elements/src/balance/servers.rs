//! The servers of a balancer, and which one a new connection goes to.

use core::net::SocketAddr;

use router::memory::{RESERVE, spare};

use super::Checked;
use super::maglev::{Maglev, hash};
use crate::flow::ip6::AnyKey;
use crate::prelude::*;

/// Most servers: a hundredth of Maglev's entries, so that their shares differ by 1 % at most.
pub const SERVERS_MAX: usize = 512;
/// The greatest weight.
const WEIGHT_MAX: u16 = 256;

/// What a user wants of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admin {
    /// New connections.
    Active,
    /// No new connections; its present connections go on.
    Draining,
    /// None.
    Removed,
}

/// A server.
#[derive(Clone, Debug)]
pub struct Server {
    pub address: IpAddr,
    /// Its port; 0 if it is the port that clients connect to.
    pub port: u16,
    pub weight: u16,
    pub admin: Admin,
    pub healthy: bool,
    /// Connections that it has, and had.
    pub connections: u32,
    pub total: u64,
    pub packets: u64,
}

/// Why a text is no server.
pub type Wrong = &'static str;

/// What a server is written as.
const SYNTAX: Wrong =
    "write ADDRESS[:PORT] [WEIGHT], as in 10.0.0.11:8080 2 or [2001:db8::11]:8080 2";

/// Whether a server can have an address.
fn is_servers(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => {
            !(it.is_unspecified() || it.is_loopback() || it.is_multicast() || it.is_broadcast())
        }
        IpAddr::V6(it) => {
            let is_mapped = it.to_ipv4_mapped().is_some();
            let is_special = it.is_unspecified() || it.is_loopback() || it.is_multicast();
            !(is_special || is_mapped || it.is_unicast_link_local())
        }
    }
}

/// A server as it is [written](SYNTAX).
pub fn parse(text: &str) -> Result<Server, Wrong> {
    let words = click::config::split_space(text);
    let (name, weight) = match &words[..] {
        [name] => (name, None),
        [name, weight] => (name, Some(weight)),
        _ => return Err(SYNTAX),
    };
    let (address, port) = match name.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or(SYNTAX)?;
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':').ok_or(SYNTAX)?),
            };
            (address.parse::<Ipv6Addr>().map(IpAddr::from), port)
        }
        None => match (name.parse(), name.split_once(':')) {
            (Ok(address), _) => (Ok(address), None),
            (Err(_), Some((address, port))) => {
                (address.parse::<Ipv4Addr>().map(IpAddr::from), Some(port))
            }
            (Err(error), None) => (Err(error), None),
        },
    };
    let address = address.map_err(|_| SYNTAX)?;
    if !is_servers(address) {
        return Err("no server has this address; write a unicast address");
    }
    let port = port.map(|port| port.parse().ok().filter(|port| *port > 0));
    let weight = weight.map(|it| it.parse().ok().filter(|it| *it <= WEIGHT_MAX));
    Ok(Server {
        address,
        port: port
            .map_or(Some(0), |port| port)
            .ok_or("a port is a number from 1 to 65535")?,
        weight: weight
            .map_or(Some(1), |weight| weight)
            .ok_or("a weight is a number up to 256")?,
        admin: Admin::Active,
        healthy: true,
        connections: 0,
        total: 0,
        packets: 0,
    })
}

impl Server {
    fn is(&self, other: &Server) -> bool {
        (self.address, self.port) == (other.address, other.port)
    }

    /// Whether its connections end, and those of one that is `down`, too, if that is so.
    pub fn is_gone(&self, down: bool) -> bool {
        self.admin == Admin::Removed || down && !self.healthy
    }

    fn word(&self) -> &'static str {
        match (self.admin, self.healthy) {
            (Admin::Removed, _) => "removed",
            (_, false) => "down",
            (Admin::Draining, _) => "draining",
            (Admin::Active, _) => "up",
        }
    }
}

impl core::fmt::Display for Server {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.port {
            0 => write!(f, "{}", self.address),
            port => SocketAddr::new(self.address, port).fmt(f),
        }
    }
}

/// All servers. Their numbers stay as long as they have connections.
#[derive(Default)]
pub struct Pool {
    servers: Vec<Server>,
    /// For connections over IPv4 and over IPv6, which has memory once there was a server of IPv6.
    tables: [Maglev; 2],
    /// Whether the tables are yet to be filled.
    is_stale: bool,
}

/// Why there is no room for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// There are [`SERVERS_MAX`].
    Servers,
    /// The memory is used up.
    Memory,
}

impl core::fmt::Display for Full {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Full::Servers => write!(
                f,
                "there are {SERVERS_MAX} servers, the most; remove one first"
            ),
            Full::Memory => {
                f.write_str("out of memory for servers; give a guest more, as in --memory 32M")
            }
        }
    }
}

impl Pool {
    /// No servers yet.
    pub fn new() -> Result<Pool, Full> {
        let mut servers = Vec::new();
        let reserved = servers.try_reserve_exact(SERVERS_MAX);
        reserved.map_err(|_| Full::Memory)?;
        let table = Maglev::new(SERVERS_MAX).map_err(|_| Full::Memory)?;
        Ok(Pool {
            servers,
            tables: [table, Maglev::default()],
            is_stale: false,
        })
    }

    pub fn get_mut(&mut self, number: u16) -> Option<&mut Server> {
        self.servers.get_mut(usize::from(number))
    }

    fn find(&self, server: &Server) -> Option<usize> {
        self.servers.iter().position(|it| it.is(server))
    }

    /// Adds a server, or has one that is there take new connections, by this weight.
    pub fn add(&mut self, server: Server) -> Result<(), Full> {
        let [_, table6] = &mut self.tables;
        if server.address.is_ipv6() && table6.is_absent() {
            if !spare(Maglev::BYTES + RESERVE) {
                return Err(Full::Memory);
            }
            *table6 = Maglev::new(SERVERS_MAX).map_err(|_| Full::Memory)?;
        }
        let unused = |it: &Server| it.admin == Admin::Removed && it.connections == 0;
        match self.find(&server) {
            Some(number) => {
                let known = &mut self.servers[number];
                if known.admin == Admin::Removed {
                    known.healthy = true;
                }
                (known.admin, known.weight) = (server.admin, server.weight);
            }
            None => match self.servers.iter().position(unused) {
                Some(number) => self.servers[number] = server,
                None if self.servers.len() < SERVERS_MAX => self.servers.push(server),
                None => return Err(Full::Servers),
            },
        }
        self.is_stale = true;
        Ok(())
    }

    /// Sets a server's state; false if there is no such server.
    pub fn set_admin(&mut self, server: &Server, admin: Admin) -> bool {
        let number = self.find(server).and_then(|at| self.servers.get_mut(at));
        let Some(known) = number.filter(|it| it.admin != Admin::Removed) else {
            return false;
        };
        known.admin = admin;
        self.is_stale = true;
        true
    }

    pub fn checked(&self, number: usize) -> Option<Checked> {
        let server = self.servers.get(number);
        let server = server.filter(|server| server.admin != Admin::Removed)?;
        Some(Checked {
            address: server.address,
            port: server.port,
            healthy: server.healthy,
        })
    }

    pub fn set_health(&mut self, number: usize, healthy: bool) {
        if let Some(server) = self.servers.get_mut(number)
            && server.healthy != healthy
        {
            server.healthy = healthy;
            self.is_stale = true;
        }
    }

    fn fill(&mut self) {
        let takes = |server: &Server| server.admin == Admin::Active && server.healthy;
        for (table, is_ipv6) in self.tables.iter_mut().zip([false, true]) {
            let all = (0..).zip(&self.servers);
            let own = all.filter(|(_, it)| takes(it) && it.address.is_ipv6() == is_ipv6);
            if !table.is_absent() {
                table.fill(own.map(|(number, server)| {
                    let name = (server.address, server.port);
                    (number, server.weight, name)
                }));
            }
        }
    }

    /// The server of a new connection, which is of the connection's version of IP.
    pub fn choose(&mut self, protocol: IpProtocol, key: AnyKey) -> Option<u16> {
        if core::mem::take(&mut self.is_stale) {
            self.fill();
        }
        let [table4, table6] = &self.tables;
        let table = match key {
            AnyKey::V4(_) => table4,
            AnyKey::V6(_) => table6,
        };
        table.server(hash(protocol, key))
    }

    /// Takes over the health of servers, and whether they are drained; then tells, for each number of
    /// `old`, what a server's connections are to have as number.
    pub fn take_over(&mut self, old: &Pool) -> Vec<Option<u16>> {
        let numbers = old.servers.iter().map(|former| {
            let known = self.find(former);
            if let Some(server) = known.and_then(|number| self.servers.get_mut(number)) {
                server.healthy = former.healthy;
                server.total = former.total;
                server.packets = former.packets;
                if former.admin == Admin::Draining {
                    server.admin = Admin::Draining;
                }
                return known.map(|number| number as u16);
            }
            let gone = Server {
                admin: Admin::Removed,
                connections: 0,
                ..former.clone()
            };
            let is_used = former.connections > 0 && self.servers.len() < SERVERS_MAX;
            is_used.then(|| {
                self.servers.push(gone);
                (self.servers.len() - 1) as u16
            })
        });
        let numbers = numbers.collect();
        self.is_stale = true;
        numbers
    }

    /// A line for each server.
    pub fn show(&self) -> String {
        let shown = |it: &&Server| it.admin != Admin::Removed || it.connections > 0;
        let lines = self.servers.iter().filter(shown).map(|server| {
            let (word, weight) = (server.word(), server.weight);
            let (connections, total) = (server.connections, server.total);
            let packets = server.packets;
            format!("{server} {word} {weight} {connections} {total} {packets}\n")
        });
        lines.collect()
    }
}
