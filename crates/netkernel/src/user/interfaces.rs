//! The two interfaces of a user NSM, and its clock.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use smoltcp::iface::{Config, Interface, PollResult, SocketSet};
use smoltcp::phy::Device;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress};

use super::looped::{self, Looped};
use super::network::{Network, Way, ethernet, loopback};
use super::vnic::Vnic;
use crate::sys::RegionInterface;

/// The interfaces.
///
/// Each socket is in a set of its own: a packet is given to the interface with the set that it is for, so that the others
/// cost nothing.
pub(super) struct Interfaces {
    pub network: Network,
    pub vnic: Vnic,
    pub looped: Looped,
    ethernet: Interface,
    loopback: Interface,
    /// What packets are given to that are no socket's.
    none: SocketSet<'static>,
    start: std::time::Instant,
    now: Instant,
}

impl Interfaces {
    pub fn new(
        rings: RegionInterface,
        doorbell: OwnedFd,
        (mac, mtu): ([u8; 6], u16),
        network: Network,
    ) -> std::io::Result<Interfaces> {
        network.check()?;
        let network = network.with_link_local(mac);
        let now = Instant::from_millis(0);
        let config = |address| -> Result<Config, Errno> {
            let mut config = Config::new(address);
            let mut seed = [0; 8];
            rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
            config.random_seed = u64::from_ne_bytes(seed);
            Ok(config)
        };
        let mut vnic = Vnic::new(rings, doorbell, mtu);
        let address = HardwareAddress::Ethernet(ethernet(mac)?);
        let mut ethernet = Interface::new(config(address)?, &mut vnic, now);
        ethernet.update_ip_addrs(|all| {
            // There is room for the addresses that `Network::check` lets through.
            all.extend(network.cidrs().take(all.capacity()));
        });
        for gateway in network.gateways() {
            let routes = ethernet.routes_mut();
            let added = match gateway {
                IpAddress::Ipv4(gateway) => routes.add_default_ipv4_route(gateway),
                IpAddress::Ipv6(gateway) => routes.add_default_ipv6_route(gateway),
            };
            added.map_err(|_| Errno::NOBUFS)?;
        }
        let mut looped = Looped::default();
        let mut own = Interface::new(config(HardwareAddress::Ip)?, &mut looped, now);
        own.update_ip_addrs(|all| all.extend(loopback()));
        // All that is sent there is for this NSM, whichever its address.
        own.set_any_ip(true);
        Ok(Interfaces {
            network,
            vnic,
            looped,
            ethernet,
            loopback: own,
            none: SocketSet::new(Vec::new()),
            start: std::time::Instant::now(),
            now,
        })
    }

    /// The time of this round.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Begins a round.
    pub fn tick(&mut self) {
        self.now = Instant::from_micros(self.start.elapsed().as_micros() as i64);
    }

    /// Where packets to an address go, and the address that they come from.
    pub fn route(&self, to: IpAddr) -> Result<(Way, IpAddr), Errno> {
        self.network.route(to)
    }

    /// Takes the next packet of a way; `false`: there is none now.
    pub fn next(&mut self, way: Way) -> bool {
        match way {
            Way::Vnic => self.vnic.next(),
            Way::Loopback => self.looped.next(),
        }
    }

    /// The packet that was taken last.
    pub fn packet(&self, way: Way) -> &[u8] {
        match way {
            Way::Vnic => self.vnic.frame(),
            Way::Loopback => self.looped.packet(),
        }
    }

    /// Gives the packet that was taken last from this way to the sockets.
    pub fn deliver(&mut self, way: Way, sockets: Option<&mut SocketSet<'static>>) {
        let now = self.now;
        let sockets = sockets.unwrap_or(&mut self.none);
        match way {
            Way::Vnic => self
                .ethernet
                .poll_ingress_single(now, &mut self.vnic, sockets),
            Way::Loopback => self
                .loopback
                .poll_ingress_single(now, &mut self.looped, sockets),
        };
    }

    /// Sends what the interface itself has to send.
    pub fn send_own(&mut self) {
        let (now, none) = (self.now, &mut self.none);
        self.ethernet.poll_egress(now, &mut self.vnic, none);
    }

    /// Has the sockets send a packet; returns whether they did, or one that asks for a neighbour.
    pub fn send(&mut self, way: Way, sockets: &mut SocketSet<'static>) -> bool {
        let now = self.now;
        let sent = match way {
            Way::Vnic => self.ethernet.poll_egress(now, &mut self.vnic, sockets),
            Way::Loopback => self.loopback.poll_egress(now, &mut self.looped, sockets),
        };
        sent != PollResult::None
    }

    /// Whether there is room for a packet.
    pub fn has_room(&mut self, way: Way) -> bool {
        match way {
            Way::Vnic => self.vnic.has_room(),
            Way::Loopback => self.looped.has_room(),
        }
    }

    /// When the sockets have something to do.
    pub fn due(&mut self, way: Way, sockets: &SocketSet<'static>) -> Option<Instant> {
        let now = self.now;
        self.interface(way).poll_at(now, sockets)
    }

    pub fn interface(&mut self, way: Way) -> &mut Interface {
        match way {
            Way::Vnic => &mut self.ethernet,
            Way::Loopback => &mut self.loopback,
        }
    }

    /// Longest IP packet of a way, in bytes.
    pub fn mtu(&self, way: Way) -> usize {
        match way {
            Way::Vnic => self.vnic.capabilities().ip_mtu(),
            Way::Loopback => looped::MTU,
        }
    }
}
