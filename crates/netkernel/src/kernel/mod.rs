//! The kernel NSM: its stack is Linux's TCP/IP, in the network namespace that the process is in.
//!
//! A worker is a thread that waits for its sockets (edge-triggered epoll) and for requests, and does both in batches:
//! what a round's requests send to a socket goes out in one system call. Workers have nothing in common but listening
//! sockets ([`copies`]).

mod copies;
mod datagram;
mod local;
mod options;
mod requests;
mod socket;
mod stream;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::pairs::Pairs;
use crate::protocol::{Measured, ToNsm, Token};
use crate::service::Service;
use crate::serving::{self, Parts, Serving};
use crate::sockets::Sockets;
use crate::sys;
use copies::Copies;
use datagram::DATAGRAM_MAX;
use local::Listeners;
use socket::{Kind, Socket};

/// Epoll data of what is no socket; sockets have their numbers.
const BELL: u64 = u64::MAX;
const CONTROL: u64 = u64::MAX - 1;

/// Most requests of a round.
const REQUESTS: usize = 1024;

/// Where fields of `struct tcp_info` (linux/tcp.h) are, and bytes up to the last of these.
const RTT: usize = 68;
const RTT_VARIANCE: usize = 72;
const TOTAL_RETRANSMITS: usize = 100;
const INFO: usize = 104;

/// A worker of a kernel NSM.
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
    copies: Arc<Copies>,
    /// What of a datagram that is received does not fit its first chunk.
    rest: Box<[u8]>,
}

impl KernelNsm {
    /// Joins CoreEngine at its socket, as an NSM of one worker. `local`: connections between its own sockets go through
    /// shared memory, not through the kernel.
    pub fn join(door: &Path, token: Token, local: bool) -> io::Result<KernelNsm> {
        KernelNsm::join_worker(door, token, local, &Arc::new(Copies::of(1)))
    }

    /// As [`join`](Self::join), as an NSM of so many workers.
    pub fn join_all(
        door: &Path,
        token: Token,
        local: bool,
        workers: u8,
    ) -> io::Result<Vec<KernelNsm>> {
        let copies = Arc::new(Copies::of(workers));
        let join = |_| KernelNsm::join_worker(door, token, local, &copies);
        (0..workers).map(join).collect()
    }

    fn join_worker(
        door: &Path,
        token: Token,
        local: bool,
        copies: &Arc<Copies>,
    ) -> io::Result<KernelNsm> {
        let mut service = Service::join(door, token)?;
        service.set_measures();
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
            copies: Arc::clone(copies),
            rest: vec![0; DATAGRAM_MAX].into(),
        })
    }

    /// Starts a thread for each worker but the first, which is returned: the caller runs it. The process ends with any
    /// of the threads. They have begun when this returns: what they need to start may be taken from them then.
    pub fn start(workers: Vec<KernelNsm>) -> io::Result<Option<KernelNsm>> {
        let begun = Arc::new(Barrier::new(workers.len().max(1)));
        let mut workers = workers.into_iter();
        let first = workers.next();
        for nsm in workers {
            let begun = Arc::clone(&begun);
            let thread = std::thread::Builder::new().name("worker".into());
            thread.spawn(move || {
                begun.wait();
                let _ = catch_unwind(AssertUnwindSafe(|| nsm.run()));
                std::process::exit(1)
            })?;
        }
        begun.wait();
        Ok(first)
    }

    /// Serves until CoreEngine ends.
    pub fn run(self) -> io::Result<()> {
        serving::run(self, KernelNsm::step, KernelNsm::look, KernelNsm::sleep)
    }

    /// Waits for requests and sockets.
    fn sleep(&mut self) -> io::Result<()> {
        // The last look may have found sockets at work.
        if self.ready.is_empty() && self.service.sleep() {
            self.events(None)?;
            self.service.awake();
        }
        Ok(())
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
            match heard {
                ToNsm::TenantGone { tenant } => {
                    for gone in self.sockets.remove_of(tenant) {
                        self.leave_pair(&gone);
                    }
                }
                ToNsm::Measure { id, sockets } => {
                    let measured = sockets.into_iter().filter_map(|it| self.measure(it));
                    let measured = measured.collect();
                    self.service.measured(id, measured);
                }
                ToNsm::Tenant { .. } => {}
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
                Kind::Local(_) => self.work_pair(number),
            }
            self.finish(number);
        }
    }

    /// What the kernel knows of a connection.
    fn measure(&mut self, number: u32) -> Option<Measured> {
        let file = self.sockets.get(number)?.file().ok()?;
        let mut info = [0; INFO];
        let n = sys::option(file, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).ok()?;
        let field = |at: usize| {
            let bytes = info.get(at..at + 4).filter(|_| at + 4 <= n)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        Some(Measured {
            socket: number,
            rtt_us: field(RTT).filter(|&rtt| rtt > 0)?,
            rtt_variance_us: field(RTT_VARIANCE)?,
            retransmits: field(TOTAL_RETRANSMITS)?,
        })
    }

    /// Has the kernel tell what happens to a descriptor.
    fn watch(&self, file: impl AsFd, number: u32) -> Result<(), Errno> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, file, EventData::new_u64(number.into()), flags)
    }
}

impl Serving for KernelNsm {
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
