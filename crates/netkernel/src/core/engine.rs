//! CoreEngine's process: who comes and goes, what the operator asks, when it sleeps.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use abi::nqe::{GONE, Nqe, operation};
use abi::tenant::{CHUNKS, Hello, NSM_FILE_BYTES, Role, SEND_CHUNKS, Share, Welcome};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::limiter::Limiter;
use super::measuring::{ANSWER, Measuring};
use super::nsm::Nsm;
use super::peer::Peer;
use super::tenant::{Addresses, Files, NO_NSM, NO_SET, NSMS_OF_TENANT, Socket, Tenant};
use super::worker::{Worker, WorkerId};
use crate::protocol::{
    self, CORES_MAX, FromNsm, NsmStatus, Reply, Request, SOCKETS_MAX, SocketStatus, Status,
    TenantStatus, ToNsm,
};
use crate::sys::{self, CoreSides, Queues, Waker};

/// Most tenants, and most NSMs.
const PEERS_MAX: usize = 255;
/// How soon CoreEngine looks again at a ring that was full.
const FULL: Duration = Duration::from_millis(1);
/// Messages that wait to be read take no more of a listening socket than this.
const BACKLOG: i32 = 128;

/// Why CoreEngine cannot run.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// A socket cannot be made.
    #[error("the socket {0} cannot be made: {1}")]
    Socket(PathBuf, io::Error),
    /// The kernel refused something else.
    #[error("CoreEngine cannot run: {0}")]
    System(#[from] Errno),
}

/// What an epoll event is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    Waker,
    Door,
    OperatorDoor,
    /// A connection by which processes and NSMs say hello.
    Visitor(u32),
    Operator(u32),
    Process {
        tenant: u8,
        set: u8,
    },
    Worker(WorkerId),
    /// The other end of a shared descriptor.
    Shared(u32),
}

impl Watch {
    fn word(self) -> u64 {
        let (kind, number) = match self {
            Watch::Waker => (0, 0),
            Watch::Door => (1, 0),
            Watch::OperatorDoor => (2, 0),
            Watch::Visitor(number) => (3, number),
            Watch::Operator(number) => (4, number),
            Watch::Process { tenant, set } => (5, u32::from(tenant) << 8 | u32::from(set)),
            Watch::Worker(at) => (6, u32::from(at.nsm) << 8 | u32::from(at.worker)),
            Watch::Shared(number) => (7, number),
        };
        kind << 32 | u64::from(number)
    }

    fn of(word: u64) -> Watch {
        let number = word as u32;
        match word >> 32 {
            0 => Watch::Waker,
            1 => Watch::Door,
            2 => Watch::OperatorDoor,
            3 => Watch::Visitor(number),
            4 => Watch::Operator(number),
            5 => Watch::Process {
                tenant: (number >> 8) as u8,
                set: number as u8,
            },
            6 => Watch::Worker(WorkerId {
                nsm: (number >> 8) as u8,
                worker: number as u8,
            }),
            _ => Watch::Shared(number),
        }
    }
}

/// A CoreEngine.
pub struct CoreEngine {
    epoll: OwnedFd,
    /// Wakes CoreEngine.
    waker: OwnedFd,
    door: OwnedFd,
    operator_door: OwnedFd,
    /// Visitors and operators, by a number that only grows.
    connections: HashMap<u32, OwnedFd>,
    /// Ends of shared descriptors, with their tenant and socket.
    shared: HashMap<u32, (OwnedFd, u8, u32)>,
    next: u32,
    pub(super) tenants: Vec<Option<Tenant>>,
    pub(super) nsms: Vec<Option<Nsm>>,
    pub(super) broken_sets: Vec<(u8, u8)>,
    pub(super) broken_nsms: Vec<u8>,
    pub(super) measuring: Vec<Measuring>,
    /// Names this CoreEngine to processes that have joined an earlier one; not 0.
    name: u32,
}

impl CoreEngine {
    /// Listens on the socket for processes and NSMs, which any user may open, and on the operator's.
    pub fn listen(door: &Path, operator_door: &Path) -> Result<CoreEngine, CoreError> {
        let listening = |path: &Path, mode| {
            listener(path, mode).map_err(|e| CoreError::Socket(path.to_path_buf(), e))
        };
        let core = CoreEngine {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            waker: sys::waker()?,
            door: listening(door, 0o666)?,
            operator_door: listening(operator_door, 0o600)?,
            connections: HashMap::new(),
            shared: HashMap::new(),
            next: 0,
            tenants: Vec::new(),
            nsms: Vec::new(),
            broken_sets: Vec::new(),
            broken_nsms: Vec::new(),
            measuring: Vec::new(),
            name: u32::from_ne_bytes(sys::random()?) | 1,
        };
        core.watch(&core.waker, Watch::Waker)?;
        core.watch(&core.door, Watch::Door)?;
        core.watch(&core.operator_door, Watch::OperatorDoor)?;
        Ok(core)
    }

    /// Hears for at most so long who comes and goes, after a [`round`](Self::round): what
    /// [`run`](Self::run) does, for benchmarks that time rounds.
    pub fn hear(&mut self, wait: Duration) -> Result<(), CoreError> {
        self.events(Some(wait))
    }

    /// Switches until the process ends.
    pub fn run(mut self) -> Result<(), CoreError> {
        let mut rounds = 0u32;
        let mut patience = sys::Patience::new();
        loop {
            let (busy, limited) = self.round();
            self.end_broken();
            rounds = rounds.wrapping_add(1);
            if busy {
                // Comings and goings are looked at between rounds, too.
                if rounds.is_multiple_of(64) {
                    self.events(Some(Duration::ZERO))?;
                }
                continue;
            }
            if limited.is_none() && patience.look(|| Ok::<_, CoreError>(self.round().0))? {
                continue;
            }
            self.forget_idle();
            self.set_sleeps(true);
            let (busy, _) = self.round();
            let wait = match (busy, self.waits_for_room()) {
                (true, _) => Some(Duration::ZERO),
                (false, true) => Some(limited.map_or(FULL, |time| time.min(FULL))),
                (false, false) => limited,
            };
            patience.sleep(|| self.events(wait))?;
            self.set_sleeps(false);
        }
    }

    fn set_sleeps(&mut self, sleeps: bool) {
        for tenant in self.tenants.iter().flatten() {
            for &set in &tenant.live {
                if let Some(set) = &tenant.sets[set as usize] {
                    set.sides.submissions.set_sleeps(sleeps);
                }
            }
        }
        for worker in self.workers() {
            worker.peer.sides.submissions.set_sleeps(sleeps);
        }
    }

    /// Whether a ring is full whose consumer does not ring when it has room.
    fn waits_for_room(&self) -> bool {
        let sets = self.tenants.iter().flatten().any(|tenant| {
            let mut sets = tenant
                .live
                .iter()
                .filter_map(|&set| tenant.sets[set as usize].as_ref());
            sets.any(|set| set.outbox.waits())
        });
        sets || self.workers().any(|worker| worker.peer.outbox.is_blocked())
    }

    /// The workers of all NSMs.
    fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.nsms.iter().flatten().flat_map(|nsm| &nsm.workers)
    }

    pub(super) fn flush(&mut self) {
        for (number, tenant) in self.tenants.iter_mut().enumerate() {
            let Some(tenant) = tenant else { continue };
            for &at in &tenant.live {
                if let Some(set) = &mut tenant.sets[at as usize]
                    && set.flush().is_err()
                {
                    self.broken_sets.push((number as u8, at));
                }
            }
        }
        for (number, nsm) in self.nsms.iter_mut().enumerate() {
            for worker in nsm.iter_mut().flat_map(|nsm| &mut nsm.workers) {
                if worker.peer.flush().is_err() {
                    self.broken_nsms.push(number as u8);
                }
            }
        }
    }

    /// Ends those whose rings cannot be believed.
    fn end_broken(&mut self) {
        for (tenant, set) in std::mem::take(&mut self.broken_sets) {
            if let Some(tenant) = self.tenants[tenant as usize].as_mut() {
                tenant.violations += 1;
            }
            self.process_ended(tenant, set);
        }
        for nsm in std::mem::take(&mut self.broken_nsms) {
            self.nsm_ended(nsm);
        }
    }

    fn watch(&self, file: impl AsFd, watch: Watch) -> Result<(), Errno> {
        let data = EventData::new_u64(watch.word());
        epoll::add(&self.epoll, file, data, EventFlags::IN)
    }

    fn events(&mut self, wait: Option<Duration>) -> Result<(), CoreError> {
        let wait = match self.measuring.is_empty() {
            true => wait,
            false => Some(wait.map_or(ANSWER, |wait| wait.min(ANSWER))),
        };
        let mut events = [Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }; 64];
        let wait = wait.map(|wait| rustix::time::Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: i64::from(wait.subsec_nanos()),
        });
        let n = match epoll::wait(&self.epoll, &mut events, wait.as_ref()) {
            Ok(n) => n,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        for event in &events[..n] {
            let watch = Watch::of(event.data.u64());
            match watch {
                Watch::Waker => sys::clear(&self.waker),
                Watch::Door => self.come(Watch::Visitor),
                Watch::OperatorDoor => self.come(Watch::Operator),
                Watch::Visitor(number) => self.visit(number),
                Watch::Operator(number) => self.serve_operator(number),
                Watch::Process { tenant, set } => self.hear_process(tenant, set),
                Watch::Worker(at) => self.hear_worker(at),
                Watch::Shared(number) => self.hear_shared(number),
            }
        }
        for tenant in self.tenants.iter_mut().flatten() {
            tenant.tracing.take_if(|tracing| tracing.is_idle());
        }
        self.end_measuring();
        Ok(())
    }

    pub(super) fn number(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// Somebody connects.
    fn come(&mut self, watch: fn(u32) -> Watch) {
        let door = if watch(0) == Watch::Visitor(0) {
            &self.door
        } else {
            &self.operator_door
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        if let Ok(connection) = rustix::net::accept_with(door, flags) {
            let number = self.number();
            if self.watch(&connection, watch(number)).is_ok() {
                self.connections.insert(number, connection);
            }
        }
    }

    /// A visitor says hello, or goes.
    fn visit(&mut self, number: u32) {
        let Some(connection) = self.connections.get(&number) else {
            return;
        };
        let mut bytes = [0; Hello::LEN];
        match sys::receive_message(connection, &mut bytes, false) {
            Ok(Some((n, mut files))) => {
                let hello = Hello::from_bytes(&bytes[..n]);
                let (Some(waker), Some(control)) = (files.pop(), files.pop()) else {
                    return;
                };
                // A visitor that does not hear the answer sees its connection end.
                let _ = match hello {
                    Some(hello) if hello.role == Role::Nsm => {
                        self.welcome_nsm(hello, control, waker)
                    }
                    Some(hello) => self.welcome_process(hello, control, waker),
                    None => refuse(&control, Errno::PROTO),
                };
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(None) | Err(_) => {
                self.connections.remove(&number);
            }
        }
    }

    fn welcome_process(
        &mut self,
        hello: Hello,
        control: OwnedFd,
        waker: OwnedFd,
    ) -> Result<(), Errno> {
        let found = self.tenants.iter().position(|tenant| {
            let its = |tenant: &Tenant| tenant.token.0 == hello.token && !tenant.removed;
            tenant.as_ref().is_some_and(its)
        });
        let found = found.and_then(|at| Some((at as u8, self.tenants[at].as_mut()?)));
        let Some((number, tenant)) = found else {
            return refuse(&control, Errno::ACCESS);
        };
        let nsm = self.nsms.get(tenant.nsm as usize).and_then(Option::as_ref);
        if hello.returns_to.is_some() && !nsm.is_some_and(Nsm::runs) {
            // What it is about to announce is to be served at once. It asks again.
            return refuse(&control, Errno::AGAIN);
        }
        let set = match tenant.take_set(hello.returns_to) {
            Ok(set) => set as u8,
            Err(error) => return refuse(&control, error),
        };
        let watch = Watch::Process {
            tenant: number,
            set,
        };
        let welcome = Welcome {
            refused: 0,
            tenant: u32::from(number),
            set: u32::from(set),
            engine: self.name,
        };
        let sides = CoreSides::open(&tenant.files.queues, set as usize);
        sides.submissions.set_sleeps(true);
        let data = EventData::new_u64(watch.word());
        let sent = [
            tenant.files.queue_file.as_fd(),
            tenant.files.payload_file.as_fd(),
            self.waker.as_fd(),
        ];
        let watched = epoll::add(&self.epoll, &control, data, EventFlags::IN);
        let welcomed =
            watched.and_then(|()| sys::send_message(&control, &welcome.to_bytes(), &sent));
        tenant.live.push(set);
        let waker = match hello.role {
            Role::Guest => Waker::Word(Arc::clone(&tenant.files.queues)),
            Role::Process | Role::Nsm => Waker::Event(waker),
        };
        tenant.sets[set as usize] = Some(Peer::new(sides, waker, control));
        if welcomed.is_err() {
            tenant.free_set(set);
        }
        welcomed
    }

    /// Welcomes the next worker of an NSM.
    fn welcome_nsm(&mut self, hello: Hello, control: OwnedFd, waker: OwnedFd) -> Result<(), Errno> {
        let found = self.nsms.iter_mut().enumerate().find_map(|(number, nsm)| {
            let nsm = nsm.as_mut()?;
            (nsm.token.0 == hello.token).then_some((number as u8, nsm))
        });
        let Some((number, nsm)) = found else {
            return refuse(&control, Errno::ACCESS);
        };
        if nsm.runs() {
            return refuse(&control, Errno::BUSY);
        }
        let file = sys::memory_file("weir-nsm-queues", NSM_FILE_BYTES)?;
        let queues = Arc::new(Queues::map(&file, NSM_FILE_BYTES)?);
        queues.file().format();
        let sides = CoreSides::open(&queues, 0);
        sides.submissions.set_sleeps(true);
        let welcome = Welcome {
            refused: 0,
            tenant: 0,
            set: nsm.workers.len() as u32,
            engine: self.name,
        };
        let sent = [file.as_fd(), self.waker.as_fd()];
        sys::send_message(&control, &welcome.to_bytes(), &sent)?;
        let at = WorkerId {
            nsm: number,
            worker: nsm.workers.len() as u8,
        };
        let data = EventData::new_u64(Watch::Worker(at).word());
        epoll::add(&self.epoll, &control, data, EventFlags::IN)?;
        let peer = Peer::new(sides, Waker::Event(waker), control);
        nsm.workers.push(Worker::new(peer));
        if nsm.runs() {
            self.restore(number);
        }
        Ok(())
    }

    /// Has an NSM that runs know a tenant, with a part of the tenant's receive chunks, which its workers share evenly.
    pub(super) fn introduce(&mut self, tenant: u8, nsm: u8) {
        let Some(its) = self.tenants[tenant as usize].as_mut() else {
            return;
        };
        let Some(there) = self.nsms.get(nsm as usize).and_then(Option::as_ref) else {
            return;
        };
        if !there.runs() || its.parts.contains(&nsm) {
            return;
        }
        let Some(part) = its.parts.iter().position(|&part| part == NO_NSM) else {
            return;
        };
        let count = (CHUNKS - SEND_CHUNKS) / NSMS_OF_TENANT / there.workers.len();
        let file = its.files.payload_file.as_fd();
        let told = there.workers.iter().enumerate().all(|(at, worker)| {
            let message = ToNsm::Tenant {
                tenant,
                first: (SEND_CHUNKS + (part * there.workers.len() + at) * count) as u32,
                count: count as u32,
            };
            protocol::send(&worker.peer.control, &message, &[file]).is_ok()
        });
        if told {
            its.parts[part] = nsm;
        }
    }

    /// A process shares a descriptor, or has ended.
    fn hear_process(&mut self, tenant: u8, set: u8) {
        let control = self.tenants[tenant as usize]
            .as_ref()
            .and_then(|tenant| Some(&tenant.sets[set as usize].as_ref()?.control));
        let Some(control) = control else { return };
        let mut bytes = [0; Share::LEN];
        match sys::receive_message(control, &mut bytes, false) {
            Ok(Some((n, mut files))) => {
                if let (Some(share), Some(end)) = (Share::from_bytes(&bytes[..n]), files.pop()) {
                    // What it submitted before, the socket itself perhaps, comes first.
                    while self.take_submissions(tenant, set) {
                        self.flush();
                    }
                    self.share(tenant, share.socket, end);
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(None) | Err(_) => self.process_ended(tenant, set),
        }
    }

    fn share(&mut self, tenant: u8, number: u32, end: OwnedFd) {
        let key = self.number();
        let socket = self.tenants[tenant as usize]
            .as_mut()
            .and_then(|tenant| tenant.socket(number));
        if let Some(socket) = socket {
            socket.shares += 1;
            if self.watch(&end, Watch::Shared(key)).is_ok() {
                self.shared.insert(key, (end, tenant, number));
            }
        }
    }

    /// The last descriptor of a shared socket is closed.
    fn hear_shared(&mut self, key: u32) {
        let Some((_, at, number)) = self.shared.remove(&key) else {
            return;
        };
        // What was submitted before goes first.
        let sets = self.tenants[at as usize]
            .as_ref()
            .map_or(Vec::new(), |tenant| tenant.live.clone());
        for set in sets {
            while self.take_submissions(at, set) {
                self.flush();
            }
        }
        let Some(tenant) = self.tenants[at as usize].as_mut() else {
            return;
        };
        if let Some(socket) = tenant.socket(number) {
            socket.shares = socket.shares.saturating_sub(1);
            if socket.shares == 0 {
                self.close(at, number);
            }
        }
        self.flush();
    }

    /// Closes a socket of a tenant for it.
    fn close(&mut self, at: u8, number: u32) {
        let Some(tenant) = self.tenants[at as usize].as_mut() else {
            return;
        };
        let Some(socket) = tenant.socket(number) else {
            return;
        };
        if socket.closing {
            return;
        }
        let (worker, at_worker) = (socket.at(), socket.number);
        let close = Nqe {
            tenant: at,
            queue_set: NO_SET,
            ..Nqe::new(operation::CLOSE, number)
        };
        self.forward(close, worker, at_worker);
    }

    fn process_ended(&mut self, at: u8, number: u8) {
        // What it has sent goes out.
        while self.take_submissions(at, number) {
            self.flush();
        }
        let Some(tenant) = self.tenants[at as usize].as_mut() else {
            return;
        };
        let Some(mut set) = tenant.free_set(number) else {
            return;
        };
        let queues = Arc::clone(&tenant.files.queues);
        let mut left = sys::undelivered(&queues, number as usize, |nqe| {
            let set = tenant.socket(nqe.socket).map_or(number, |row| row.set);
            // A listening socket has several processes: any takes the connection.
            nqe.operation == operation::INCOMING
                || set == number
                || tenant.sets.get(set as usize).is_none_or(Option::is_none)
        });
        left.extend(set.outbox.take());
        drop(set);
        for socket in tenant.sockets_that(|socket| socket.set == number) {
            if let Some(row) = tenant.socket(socket) {
                row.set = NO_SET;
            }
        }
        for nqe in left {
            tenant.deliver(Nqe {
                queue_set: NO_SET,
                ..nqe
            });
        }
        let lost = tenant.sockets_that(|socket| socket.set == NO_SET && socket.shares == 0);
        for socket in lost {
            self.close(at, socket);
        }
        self.flush();
    }

    /// Empties the files of a tenant that has no process and no socket.
    fn empty_files(&mut self, at: u8) {
        let Some(tenant) = self.tenants[at as usize].as_mut() else {
            return;
        };
        if !tenant.live.is_empty() || tenant.used > 0 || !tenant.files.used {
            return;
        }
        tenant.files.empty();
        tenant.orphans.clear();
        for part in std::mem::replace(&mut tenant.parts, [NO_NSM; NSMS_OF_TENANT]) {
            let nsm = self.nsms.get(part as usize).and_then(Option::as_ref);
            for worker in nsm.into_iter().flat_map(|nsm| &nsm.workers) {
                let gone = ToNsm::TenantGone { tenant: at };
                // An NSM that does not read its messages has ended, or will be seen to have.
                let _ = protocol::send(&worker.peer.control, &gone, &[]);
            }
        }
    }

    fn hear_worker(&mut self, at: WorkerId) {
        let nsm = self.nsms.get(usize::from(at.nsm)).and_then(Option::as_ref);
        let worker = nsm.and_then(|nsm| nsm.workers.get(usize::from(at.worker)));
        let Some(Worker { peer, .. }) = worker else {
            return;
        };
        match protocol::receive::<FromNsm>(&peer.control, false) {
            Ok(Some((told, _))) => self.measured(at, told),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(None) | Err(_) => self.nsm_ended(at.nsm),
        }
    }

    /// An NSM's connections are reset; its listening sockets wait for it to come back. Where one worker has ended, all
    /// have, or are about to: they are one process.
    fn nsm_ended(&mut self, number: u8) {
        if let Some(nsm) = self.nsms[number as usize].as_mut() {
            nsm.workers.clear();
        }
        for at in 0..self.tenants.len() as u8 {
            let Some(tenant) = self.tenants[at as usize].as_mut() else {
                continue;
            };
            for part in &mut tenant.parts {
                if *part == number {
                    *part = NO_NSM;
                }
            }
            for socket in tenant.sockets_that(|socket| socket.nsm == number && !socket.failed) {
                let Some(row) = tenant.socket(socket) else {
                    continue;
                };
                row.failed = true;
                let closing = row.closing;
                if let Some(listener) = tenant.listeners.get_mut(&socket) {
                    listener.copies.clear();
                }
                if closing {
                    tenant.deliver(Nqe::new(operation::CLOSED, socket));
                    tenant.free(socket);
                } else {
                    // A listening socket's process has no answers and no chunks to wait for, either.
                    let failed = Nqe::new(operation::FAILED, socket);
                    tenant.deliver(failed.with_flags(GONE).with_error(libc::ECONNRESET));
                }
            }
        }
        self.flush();
    }

    fn serve_operator(&mut self, number: u32) {
        let Some(connection) = self.connections.get(&number) else {
            return;
        };
        let request = match protocol::receive::<Request>(connection, false) {
            Ok(Some(request)) => Ok(request),
            Ok(None) => {
                self.connections.remove(&number);
                return;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => Err(format!("this is no request: {error}")),
        };
        if let Ok((Request::Sockets { tenant, from }, _)) = &request
            && let Ok(at) = self.tenant_named(tenant)
        {
            return self.measure(number, at, *from);
        }
        let answer = request.and_then(|(request, files)| self.answer(request, files));
        let (reply, of) = answer.unwrap_or_else(|why| (Reply::Refused(why), None));
        let files = of.and_then(|at| Some(&self.tenants[at as usize].as_ref()?.files));
        let files = files.map(|files| [files.queue_file.as_fd(), files.payload_file.as_fd()]);
        let files = files.as_ref().map_or(&[][..], |all| all);
        let sent = self.connections.get(&number);
        if sent.is_some_and(|connection| protocol::send(connection, &reply, files).is_err()) {
            self.connections.remove(&number);
        }
    }

    /// Answers an operator, unless that one has gone.
    pub(super) fn reply(&mut self, number: u32, reply: &Reply) {
        let connection = self.connections.get(&number);
        if connection.is_some_and(|connection| protocol::send(connection, reply, &[]).is_err()) {
            self.connections.remove(&number);
        }
    }

    /// Does what is asked; the answer, and the tenant whose files go with it.
    fn answer(
        &mut self,
        request: Request,
        files: Vec<OwnedFd>,
    ) -> Result<(Reply, Option<u8>), String> {
        match request {
            Request::AddTenant {
                name,
                token,
                nsm,
                limits,
            } => {
                let nsm = self.nsm_named(&nsm)?;
                if self.tenant_named(&name).is_ok() {
                    return Err(format!("there is an application ‘{name}’ already"));
                }
                let files = match <[OwnedFd; 2]>::try_from(files) {
                    Ok([queues, payload]) => Files::inherit(queues, payload),
                    Err(_) => Files::make(),
                };
                let files = files.map_err(|error| format!("the application ‘{name}’: {error}"))?;
                let tenant = Tenant::new(name, token, nsm, limits, files);
                let at = insert(&mut self.tenants, tenant)
                    .ok_or("there are 255 applications, as many as there can be: end one first")?;
                return Ok((Reply::Done, Some(at)));
            }
            Request::Files { name } => {
                return Ok((Reply::Done, Some(self.tenant_named(&name)?)));
            }
            Request::RemoveTenant { name, idle } => {
                let at = self.tenant_named(&name)?;
                let tenant = self.tenants[at as usize].as_ref();
                if idle && tenant.is_some_and(Tenant::is_used) {
                    return Err(format!("the application ‘{name}’ is in use"));
                }
                self.remove_tenant(at);
            }
            Request::AddNsm { name, token } => {
                if self.nsm_named(&name).is_ok() {
                    return Err(format!("there is an NSM ‘{name}’ already"));
                }
                insert(&mut self.nsms, Nsm::new(name, token))
                    .ok_or("there are 255 NSMs, as many as there can be: delete one first")?;
            }
            Request::RemoveNsm { name } => {
                let at = self.nsm_named(&name)?;
                let user = self
                    .tenants
                    .iter()
                    .flatten()
                    .find(|tenant| tenant.nsm == at);
                if let Some(user) = user {
                    return Err(format!(
                        "the application ‘{}’ uses the NSM ‘{name}’: move it to another first",
                        user.name
                    ));
                }
                self.nsm_ended(at);
                self.bequeath(at);
                self.nsms[at as usize] = None;
            }
            Request::Move { tenant, nsm } => {
                let nsm = self.nsm_named(&nsm)?;
                let at = self.tenant_named(&tenant)?;
                if let Some(tenant) = self.tenants[at as usize].as_mut() {
                    tenant.nsm = nsm;
                }
            }
            Request::SetLimits { tenant, limits } => {
                let at = self.tenant_named(&tenant)?;
                if let Some(tenant) = self.tenants[at as usize].as_mut() {
                    tenant.set_limits(limits);
                }
            }
            Request::SetCores { nsm, cores } => {
                if !(1..=CORES_MAX).contains(&cores) {
                    return Err(format!("an NSM has 1 to {CORES_MAX} workers, not {cores}"));
                }
                let at = self.nsm_named(&nsm)?;
                if let Some(nsm) = self.nsms[at as usize].as_mut()
                    && nsm.cores != cores
                {
                    nsm.cores = cores;
                    self.nsm_ended(at);
                }
            }
            Request::SetNsmLimits { nsm, limits } => {
                let at = self.nsm_named(&nsm)?;
                if let Some(nsm) = self.nsms[at as usize].as_mut() {
                    nsm.limits = limits;
                    nsm.limiter = Limiter::new();
                }
            }
            Request::Status => return Ok((Reply::Status(self.status()), None)),
            // Of a tenant that there is, they are measured.
            Request::Sockets { tenant, .. } => {
                self.tenant_named(&tenant)?;
            }
            Request::Trace { tenant, after } => {
                let at = self.tenant_named(&tenant)?;
                let traced = self.tenants[at as usize].as_mut();
                let tracing = traced.map(|it| it.tracing.get_or_insert_with(Default::default));
                let trace = tracing.map(|it| it.take(after));
                return Ok((Reply::Trace(trace.unwrap_or_default()), None));
            }
        }
        Ok((Reply::Done, None))
    }

    fn tenant_named(&self, name: &str) -> Result<u8, String> {
        let mut all = self.tenants.iter();
        all.position(|tenant| tenant.as_ref().is_some_and(|tenant| tenant.name == name))
            .map(|at| at as u8)
            .ok_or_else(|| format!("there is no application ‘{name}’"))
    }

    fn nsm_named(&self, name: &str) -> Result<u8, String> {
        let mut all = self.nsms.iter();
        all.position(|nsm| nsm.as_ref().is_some_and(|nsm| nsm.name == name))
            .map(|at| at as u8)
            .ok_or_else(|| format!("there is no NSM ‘{name}’"))
    }

    fn remove_tenant(&mut self, at: u8) {
        let live = self.tenants[at as usize]
            .as_ref()
            .map_or(Vec::new(), |tenant| tenant.live.clone());
        for set in live {
            self.process_ended(at, set);
        }
        let all = self.tenants[at as usize]
            .as_ref()
            .map_or(Vec::new(), |tenant| tenant.sockets_that(|_| true));
        self.shared.retain(|_, (_, tenant, _)| *tenant != at);
        for socket in all {
            self.close(at, socket);
        }
        // Its row stays until its sockets are closed: nobody knows its token any more.
        if let Some(tenant) = self.tenants[at as usize].as_mut() {
            tenant.removed = true;
        }
    }

    /// Empties the files of tenants without processes and sockets, and drops removed tenants without
    /// sockets.
    fn forget_idle(&mut self) {
        for at in 0..self.tenants.len() as u8 {
            self.empty_files(at);
            let done = |tenant: &Tenant| tenant.removed && tenant.used == 0;
            if self.tenants[at as usize].as_ref().is_some_and(done) {
                self.tenants[at as usize] = None;
            }
        }
    }

    fn status(&self) -> Status {
        let tenants = self.tenants.iter().flatten().map(|tenant| TenantStatus {
            name: tenant.name.clone(),
            nsm: self.nsms[tenant.nsm as usize]
                .as_ref()
                .map_or(String::new(), |nsm| nsm.name.clone()),
            processes: tenant.live.len(),
            sockets: tenant.used,
            sent: tenant.sent,
            received: tenant.received,
            connections: tenant.connections,
            refused: tenant.refused,
            violations: tenant.violations,
        });
        let nsms = self.nsms.iter().flatten().map(|nsm| NsmStatus {
            name: nsm.name.clone(),
            present: nsm.runs(),
            pid: nsm
                .workers
                .first()
                .and_then(|worker| sys::peer(&worker.peer.control).ok()),
            sockets: nsm.used(),
            requests: nsm.requests,
            answers: nsm.answers,
            sent: nsm.sent,
            received: nsm.received,
            connections: nsm.connections,
            refused: nsm.refused,
        });
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            tenants: tenants.collect(),
            nsms: nsms.collect(),
        }
    }

    /// A tenant's sockets from a number on, each with its worker and its number there.
    pub(super) fn sockets(&self, at: u8, from: u32) -> (Vec<SocketStatus>, Vec<(WorkerId, u32)>) {
        let Some(tenant) = self.tenants[at as usize].as_ref() else {
            return Default::default();
        };
        let nsm = |number: u8| self.nsms.get(number as usize)?.as_ref();
        let sockets = tenant.sockets_from(from).take(SOCKETS_MAX);
        let status = |(number, socket, addresses): (u32, &Socket, &Addresses)| SocketStatus {
            socket: number,
            datagrams: tenant.datagrams.contains_key(&number),
            local: addresses.local,
            peer: addresses.peer,
            sent: socket.sent,
            received: socket.received,
            nsm: nsm(socket.nsm).map_or(String::new(), |nsm| nsm.name.clone()),
            bound: tenant.bound.get(&number).and_then(Nqe::address),
            listens: tenant.listeners.contains_key(&number),
            failed: socket.failed,
            closing: socket.closing,
            shares: socket.shares,
            ..SocketStatus::default()
        };
        sockets
            .map(|it| (status(it), (it.1.at(), it.1.number)))
            .unzip()
    }
}

fn listener(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn refuse(control: &OwnedFd, error: Errno) -> Result<(), Errno> {
    let welcome = Welcome {
        refused: error.raw_os_error() as u32,
        tenant: 0,
        set: 0,
        engine: 0,
    };
    sys::send_message(control, &welcome.to_bytes(), &[])
}

/// Puts a value in the first free row, and returns which; `None`: there are as many as there can be.
fn insert<T>(rows: &mut Vec<Option<T>>, value: T) -> Option<u8> {
    let at = rows.iter().position(Option::is_none).unwrap_or(rows.len());
    if at == rows.len() {
        if at == PEERS_MAX {
            return None;
        }
        rows.push(None);
    }
    rows[at] = Some(value);
    Some(at as u8)
}
