//! The shm NSM: connections between its own sockets, through shared memory, and no others. It has no network stack, no
//! network namespace and no privilege.
//!
//! One thread takes requests in batches, and then moves what the sockets that they concern have to send.

mod requests;
mod socket;

use std::io;
use std::net::IpAddr;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::pairs::Pairs;
use crate::ports::Ports;
use crate::protocol::{ToNsm, Token};
use crate::service::Service;
use crate::serving::{self, Parts, Serving};
use crate::sockets::Sockets;
use socket::{Kind, Socket};

/// Most requests of a round.
const REQUESTS: usize = 1024;

/// What a connect to an address that is not the NSM's fails with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// ENETUNREACH.
    Unreachable,
    /// ECONNREFUSED.
    Refused,
}

/// An shm NSM.
pub struct ShmNsm {
    service: Service,
    sockets: Sockets<Socket>,
    ports: Ports,
    /// Sockets to look at before the NSM sleeps, each once.
    ready: Vec<u32>,
    /// By tenant: sockets that wait for a chunk.
    starving: Vec<Vec<u32>>,
    /// The addresses that it has besides the loopback's.
    addresses: Vec<IpAddr>,
    others: Others,
}

impl ShmNsm {
    /// Joins CoreEngine at its socket.
    pub fn join(
        door: &Path,
        token: Token,
        addresses: Vec<IpAddr>,
        others: Others,
    ) -> io::Result<ShmNsm> {
        Ok(ShmNsm {
            service: Service::join(door, token)?,
            sockets: Sockets::default(),
            ports: Ports::default(),
            ready: Vec::new(),
            starving: Vec::new(),
            addresses,
            others,
        })
    }

    /// Serves until CoreEngine ends.
    pub fn run(self) -> io::Result<()> {
        serving::run(self, ShmNsm::step, ShmNsm::step, ShmNsm::sleep)
    }

    /// Does what there is to do now; returns how many requests and sockets that were.
    fn step(&mut self) -> io::Result<usize> {
        let requests = self.take_requests()?;
        let sockets = std::mem::take(&mut self.ready);
        for &number in &sockets {
            let Some(socket) = self.sockets.get(number) else {
                continue;
            };
            socket.marked = false;
            if let Kind::Pair { .. } = socket.kind {
                self.work_pair(number);
            }
            self.finish(number);
        }
        self.service.flush();
        Ok(requests + sockets.len())
    }

    /// Waits for requests, or tenants that come and go.
    fn sleep(&mut self) -> io::Result<()> {
        if !self.ready.is_empty() || !self.service.sleep() {
            return Ok(());
        }
        let files = [self.service.waker(), self.service.control()];
        let mut polled = files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let heard = !polled[1].revents().is_empty();
        self.service.awake();
        if heard { self.hear() } else { Ok(()) }
    }

    fn hear(&mut self) -> io::Result<()> {
        while let Some(heard) = self.service.hear()? {
            if let ToNsm::TenantGone { tenant } = heard {
                for number in self.sockets.numbers_that(|socket| socket.tenant == tenant) {
                    if let Some(gone) = self.sockets.remove(number) {
                        self.release(number, &gone);
                    }
                }
                if let Some(starving) = self.starving.get_mut(tenant as usize) {
                    starving.clear();
                }
            }
        }
        Ok(())
    }

    /// Whether a socket can have the address as its own.
    fn is_local(&self, ip: IpAddr) -> bool {
        ip.is_unspecified() || ip.is_loopback() || self.addresses.contains(&ip)
    }
}

impl Serving for ShmNsm {
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

impl Pairs for ShmNsm {
    fn peer(socket: &Socket) -> Option<u32> {
        match socket.kind {
            Kind::Pair { peer } => peer,
            _ => None,
        }
    }

    fn unpair(socket: &mut Socket) {
        if let Kind::Pair { peer } = &mut socket.kind {
            *peer = None;
        }
    }
}
