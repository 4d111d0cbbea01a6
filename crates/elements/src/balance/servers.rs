//! The servers of a balancer, and which one a new connection goes to.

use super::Checked;
use super::maglev::{Maglev, hash};
use crate::prelude::*;
use crate::rewriter::index::NoMemory;
use crate::rewriter::key::FlowKey;

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
    pub address: Ipv4Addr,
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

/// A server as it is written: `ADDRESS[:PORT] [WEIGHT]`.
pub fn parse(text: &str) -> Option<Server> {
    let words = click::config::split_space(text);
    let (name, weight) = match &words[..] {
        [name] => (name, 1),
        [name, weight] => (name, weight.parse().ok().filter(|it| *it <= WEIGHT_MAX)?),
        _ => return None,
    };
    let (address, port) = match name.split_once(':') {
        Some((address, port)) => (address, port.parse().ok().filter(|port| *port > 0)?),
        None => (name.as_str(), 0),
    };
    Some(Server {
        address: address.parse().ok()?,
        port,
        weight,
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
            port => write!(f, "{}:{port}", self.address),
        }
    }
}

/// All servers. Their numbers stay as long as they have connections.
#[derive(Default)]
pub struct Pool {
    servers: Vec<Server>,
    table: Maglev,
    /// Whether the table is yet to be filled.
    is_stale: bool,
}

impl Pool {
    /// No servers yet.
    pub fn new() -> Result<Pool, NoMemory> {
        let mut servers = Vec::new();
        servers
            .try_reserve_exact(SERVERS_MAX)
            .map_err(|_| NoMemory)?;
        let table = Maglev::new(SERVERS_MAX)?;
        Ok(Pool {
            servers,
            table,
            is_stale: false,
        })
    }

    pub fn get_mut(&mut self, number: u16) -> Option<&mut Server> {
        self.servers.get_mut(usize::from(number))
    }

    fn find(&self, server: &Server) -> Option<usize> {
        self.servers.iter().position(|it| it.is(server))
    }

    /// Adds a server, or has one that is there take new connections, by this weight; returns its number.
    /// `None` if there is no room.
    pub fn add(&mut self, server: Server) -> Option<u16> {
        let unused = |it: &Server| it.admin == Admin::Removed && it.connections == 0;
        let number = match self.find(&server) {
            Some(number) => {
                let known = &mut self.servers[number];
                if known.admin == Admin::Removed {
                    known.healthy = true;
                }
                (known.admin, known.weight) = (server.admin, server.weight);
                number
            }
            None => match self.servers.iter().position(unused) {
                Some(number) => {
                    self.servers[number] = server;
                    number
                }
                None if self.servers.len() < SERVERS_MAX => {
                    self.servers.push(server);
                    self.servers.len() - 1
                }
                None => return None,
            },
        };
        self.is_stale = true;
        Some(number as u16)
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
        let all = (0..).zip(&self.servers);
        let takes = |server: &Server| server.admin == Admin::Active && server.healthy;
        let active = all.filter(|(_, server)| takes(server));
        self.table.fill(active.map(|(number, server)| {
            let name = (server.address, server.port);
            (number, server.weight, name)
        }));
    }

    /// The server of a new connection.
    pub fn choose(&mut self, protocol: IpProtocol, key: FlowKey) -> Option<u16> {
        if core::mem::take(&mut self.is_stale) {
            self.fill();
        }
        self.table.server(hash(protocol, key))
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
