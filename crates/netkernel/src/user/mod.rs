//! The user NSM: its stack is [smoltcp](https://docs.rs/smoltcp) in its own process, on a VNIC of the switch. No kernel is
//! between the sockets of an application and the switch's port, and the process has no privilege at all.
//!
//! ```text
//! CoreEngine ── queue set ── UserNsm ── sockets, ports, connections
//!                               ├── the VNIC: rings of a data region, as a guest's
//!                               └── the loopback: packets to its own addresses
//! ```
//!
//! One thread takes requests and packets in batches, and then looks at the connections that they concern.

mod arrival;
mod datagram;
mod flow;
mod interfaces;
mod looped;
mod network;
mod requests;
mod socket;
mod stream;
mod vnic;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use smoltcp::time::Instant;
use smoltcp::wire::EthernetAddress;

use crate::ports::Ports;
use crate::protocol::ToNsm;
use crate::service::Service;
use crate::serving::{self, Parts, Serving};
use crate::sockets::Sockets;
use crate::sys::{self, RegionInterface, Wakes};
use arrival::{Arrival, look};
use flow::{Flows, Owner};
use interfaces::Interfaces;
use network::Way;
use socket::{Kind, Socket};

pub use flow::FLOWS_MAX;
pub use network::{ADDRESSES_MAX, Network, NetworkError};

/// Most requests of a round.
const REQUESTS: usize = 1024;
/// Most packets of a round, from each way.
const PACKETS: usize = 256;

/// A user NSM.
pub struct UserNsm {
    service: Service,
    interfaces: Interfaces,
    mac: EthernetAddress,
    sockets: Sockets<Socket>,
    flows: Flows,
    /// The ports of streams and of datagrams.
    streams: Ports,
    datagrams: Ports,
    /// Sockets to look at before the NSM sleeps, each once.
    ready: Vec<u32>,
    /// By tenant: sockets that wait for a chunk.
    starving: Vec<Vec<u32>>,
    /// Datagram sockets that wait for a neighbour, and since when.
    held: Vec<(u32, Instant)>,
    /// Datagram sockets that wait for room on the VNIC.
    blocked: Vec<u32>,
    /// Rung when the switch wakes this guest.
    wake: OwnedFd,
    _wakes: Wakes,
}

impl UserNsm {
    /// An NSM that has joined CoreEngine. `region` is the file of a data region with one interface, the VNIC's, and `doorbell`
    /// the eventfd by which the switch is woken. It starts a thread.
    pub fn new(
        service: Service,
        region: impl AsFd,
        doorbell: OwnedFd,
        network: Network,
    ) -> io::Result<UserNsm> {
        let (rings, vnic) = RegionInterface::map(region)?;
        let wake = sys::waker()?;
        let wakes = rings.forward_wakes(wake.try_clone()?)?;
        let interfaces = Interfaces::new(rings, doorbell, (vnic.mac, vnic.mtu), network)?;
        Ok(UserNsm {
            service,
            interfaces,
            mac: network::ethernet(vnic.mac)?,
            sockets: Sockets::default(),
            flows: Flows::default(),
            streams: Ports::default(),
            datagrams: Ports::default(),
            ready: Vec::new(),
            starving: Vec::new(),
            held: Vec::new(),
            blocked: Vec::new(),
            wake,
            _wakes: wakes,
        })
    }

    /// Serves until CoreEngine ends.
    pub fn run(self) -> io::Result<()> {
        sys::map_large_pieces();
        serving::run(self, UserNsm::step, UserNsm::step, UserNsm::sleep)
    }

    /// Does what there is to do now; returns how many requests, packets, sockets and connections that were.
    pub fn step(&mut self) -> io::Result<usize> {
        self.interfaces.tick();
        let mut worked = self.take_requests()?;
        for way in [Way::Vnic, Way::Loopback] {
            worked += self.take_packets(way);
        }
        self.flows.expire(self.interfaces.now());
        if self.is_blocked() && self.interfaces.has_room(Way::Vnic) {
            self.flows.unblock();
            for number in std::mem::take(&mut self.blocked) {
                self.mark(number);
            }
        }
        self.retry_held();
        worked += self.work();
        self.interfaces.send_own();
        self.interfaces.vnic.flush();
        self.service.flush();
        Ok(worked)
    }

    /// Whether sockets wait for room on the VNIC.
    fn is_blocked(&self) -> bool {
        self.flows.are_blocked() || !self.blocked.is_empty()
    }

    fn take_packets(&mut self, way: Way) -> usize {
        for taken in 0..PACKETS {
            if !self.interfaces.next(way) {
                return taken;
            }
            match look(way, self.interfaces.packet(way), self.mac) {
                Arrival::Tcp(segment) => self.segment(way, segment),
                Arrival::Udp(datagram) => self.datagram(way, &datagram),
                Arrival::Error(reported) => self.reported(way, &reported),
                Arrival::Neighbour => {
                    self.interfaces.deliver(way, None);
                    self.flows.answered();
                    self.answer_held();
                }
                Arrival::Other => self.interfaces.deliver(way, None),
                Arrival::Foreign => {}
            }
        }
        PACKETS
    }

    /// Looks at the sockets and connections that something has happened to; returns how many.
    fn work(&mut self) -> usize {
        let (sockets, flows) = (std::mem::take(&mut self.ready), self.flows.take_ready());
        for &number in &sockets {
            let Some(socket) = self.sockets.get(number) else {
                continue;
            };
            socket.marked = false;
            match (&socket.kind, socket.flow()) {
                (Kind::Datagram(_), _) => self.send_datagrams(number),
                // What it has to do is the connection's.
                (_, Some(flow)) => self.flows.mark(flow),
                _ => {}
            }
            self.finish(number);
        }
        for &id in &flows {
            self.work_flow(id);
        }
        sockets.len() + flows.len()
    }

    /// Waits for requests, packets, a time, or tenants that come and go.
    fn sleep(&mut self) -> io::Result<()> {
        let blocked = self.is_blocked();
        let busy =
            !self.ready.is_empty() || self.flows.are_ready() || self.interfaces.looped.is_busy();
        if busy || !self.service.sleep() {
            return Ok(());
        }
        let mut heard = false;
        if self.interfaces.vnic.sleep(blocked) {
            self.interfaces.tick();
            let now = self.interfaces.now();
            let next = [self.flows.next(), self.next_held()]
                .into_iter()
                .flatten()
                .min();
            let wait = next.map(|next| {
                let micros = (next.total_micros() - now.total_micros()).max(0);
                rustix::time::Timespec {
                    tv_sec: micros / 1_000_000,
                    tv_nsec: micros % 1_000_000 * 1000,
                }
            });
            let (waker, control) = (self.service.waker(), self.service.control());
            let files = [waker, control, self.wake.as_fd()];
            let mut polled = files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
            match poll(&mut polled, wait.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            heard = !polled[1].revents().is_empty();
            self.interfaces.vnic.awake();
            sys::clear(&self.wake);
        }
        self.service.awake();
        if heard { self.hear() } else { Ok(()) }
    }

    fn hear(&mut self) -> io::Result<()> {
        while let Some(heard) = self.service.hear()? {
            if let ToNsm::TenantGone { tenant } = heard {
                for number in self.sockets.numbers_that(|socket| socket.tenant == tenant) {
                    self.drop_socket(number);
                }
                if let Some(starving) = self.starving.get_mut(tenant as usize) {
                    starving.clear();
                }
            }
        }
        Ok(())
    }

    /// Removes a socket whose tenant is gone.
    fn drop_socket(&mut self, number: u32) {
        let Some(socket) = self.sockets.remove(number) else {
            return;
        };
        self.release_port(number, &socket);
        if let Some(flow) = socket.flow() {
            self.reset(flow);
        }
        for flow in self.flows.of(Owner::Listener(number)) {
            self.reset(flow);
        }
    }
}

impl Serving for UserNsm {
    type Socket = Socket;

    fn parts(&mut self) -> Parts<'_, Socket> {
        Parts {
            service: &mut self.service,
            sockets: &mut self.sockets,
            ready: &mut self.ready,
            starving: &mut self.starving,
        }
    }
}
