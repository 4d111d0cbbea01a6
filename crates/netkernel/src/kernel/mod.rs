//! The kernel NSM: its stack is Linux's TCP/IP, in the network namespace that the process is in.
//!
//! One thread waits for its sockets (edge-triggered epoll) and for requests, and does both in batches:
//! what a round's requests send to a socket goes out in one system call.

mod datagram;
mod local;
mod options;
mod requests;
mod socket;
mod stream;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use abi::nqe::Nqe;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::protocol::{ToNsm, Token};
use crate::service::Service;
use crate::sockets::Sockets;
use crate::sys;
use local::Listeners;
use socket::{Kind, Socket};

/// Epoll data of what is no socket; sockets have their numbers.
const BELL: u64 = u64::MAX;
const CONTROL: u64 = u64::MAX - 1;

/// Most requests of a round.
const REQUESTS: usize = 1024;

/// Requests and sockets of a step after which the NSM looks for more before it sleeps: those of a few
/// connections that wait for each answer.
const ALONE: usize = 4;

/// A kernel NSM.
pub struct KernelNsm {
    service: Service,
    epoll: OwnedFd,
    sockets: Sockets<Socket>,
    /// Sockets to look at before the NSM sleeps, each once.
    ready: Vec<u32>,
    /// By tenant: sockets that wait for a chunk.
    starving: Vec<Vec<u32>>,
    /// Whether connections between its own sockets leave the kernel out.
    local: bool,
    listeners: Listeners,
}

impl KernelNsm {
    /// Joins CoreEngine at its socket. `local`: connections between its own sockets go through shared
    /// memory, not through the kernel.
    pub fn join(door: &Path, token: Token, local: bool) -> io::Result<KernelNsm> {
        let service = Service::join(door, token)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            service.waker(),
            EventData::new_u64(BELL),
            EventFlags::IN,
        )?;
        epoll::add(
            &epoll,
            service.control(),
            EventData::new_u64(CONTROL),
            EventFlags::IN,
        )?;
        Ok(KernelNsm {
            service,
            epoll,
            sockets: Sockets::default(),
            ready: Vec::new(),
            starving: Vec::new(),
            local,
            listeners: Listeners::default(),
        })
    }

    /// Serves until CoreEngine ends.
    pub fn run(mut self) -> io::Result<()> {
        loop {
            let worked = self.step()?;
            if worked > 0 {
                // With many sockets at work there is more soon, and a look costs what a sleep does.
                let alone = worked <= ALONE;
                if !alone || sys::spin(|| Ok::<_, io::Error>(self.look()? > 0))? {
                    continue;
                }
            }
            // The last look may have found sockets at work.
            if self.ready.is_empty() && self.service.sleep() {
                self.events(None)?;
                self.service.awake();
            }
        }
    }

    fn look(&mut self) -> io::Result<usize> {
        self.events(Some(Duration::ZERO))?;
        self.step()
    }

    /// Does what there is to do now; returns how many requests and sockets that were.
    pub fn step(&mut self) -> io::Result<usize> {
        let requests = self.take_requests()?;
        let sockets = self.ready.len();
        self.work();
        self.service.flush();
        if requests + sockets > 0 {
            self.events(Some(Duration::ZERO))?;
        }
        Ok(requests + sockets)
    }

    fn events(&mut self, wait: Option<Duration>) -> io::Result<()> {
        let mut events = [Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }; 256];
        let wait = wait.map(|_| rustix::time::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        });
        let n = match epoll::wait(&self.epoll, &mut events, wait.as_ref()) {
            Ok(n) => n,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        for event in &events[..n] {
            match event.data.u64() {
                BELL => {}
                CONTROL => self.hear()?,
                number => self.happened(number as u32, event.flags),
            }
        }
        Ok(())
    }

    fn hear(&mut self) -> io::Result<()> {
        while let Some(heard) = self.service.hear()? {
            if let ToNsm::TenantGone { tenant } = heard {
                for gone in self.sockets.remove_of(tenant) {
                    self.part(&gone);
                }
            }
        }
        Ok(())
    }

    /// The kernel says that something has happened to a socket.
    fn happened(&mut self, number: u32, flags: EventFlags) {
        let Some(socket) = self.sockets.get(number) else {
            return;
        };
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        socket.readable |= broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP);
        socket.hung_up |= broken || flags.contains(EventFlags::RDHUP);
        socket.writable |= broken || flags.contains(EventFlags::OUT);
        self.mark(number);
    }

    /// Has a socket looked at before the NSM sleeps.
    fn mark(&mut self, number: u32) {
        if let Some(socket) = self.sockets.get(number)
            && !socket.marked
        {
            socket.marked = true;
            self.ready.push(number);
        }
    }

    /// Looks at the sockets that something has happened to.
    fn work(&mut self) {
        for number in std::mem::take(&mut self.ready) {
            let Some(socket) = self.sockets.get(number) else {
                continue;
            };
            socket.marked = false;
            match socket.kind {
                Kind::Stream { .. } => self.work_stream(number),
                Kind::Listening { .. } => self.take_connections(number),
                Kind::Datagram => self.work_datagram(number),
                Kind::Local(_) => self.work_local(number),
            }
            self.finish(number);
        }
    }

    /// Has the kernel tell what happens to a descriptor.
    fn watch(&self, file: impl AsFd, number: u32) -> Result<(), Errno> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, file, EventData::new_u64(number.into()), flags)
    }

    /// Submits what concerns a socket.
    fn tell(&mut self, nqe: Nqe) {
        self.service.answer(nqe);
    }
}
