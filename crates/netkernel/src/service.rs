//! ServiceLib: a network stack module's side of CoreEngine.
//!
//! An NSM [joins](Service::join) with its token. It waits on [`waker`](Service::waker) and
//! [`control`](Service::control) beside what its stack waits for, and then:
//!
//! 1. [`hear`](Service::hear)s of tenants that come and go;
//! 2. takes [`requests`](Service::request), does them in its stack, and [`answer`](Service::answer)s as
//!    [`abi::nqe::operation`] says;
//! 3. for bytes that its stack has received, [`lend`](Service::lend)s a chunk to the socket, writes them
//!    there and delivers it;
//! 4. [`flush`](Service::flush)es, and [`sleep`](Service::sleep)s only if that says that nothing waits.
//!
//! Every element from a tenant is checked here for what would harm the NSM: a payload lies inside one
//! chunk, a chunk is given back only if it was lent. The NSM checks the rest (numbers of sockets,
//! options).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use abi::SharedBytes;
use abi::nqe::Nqe;
use abi::tenant::{CHUNK_BYTES, CHUNKS, NSM_FILE_BYTES, RECEIVE_WINDOW, Role};
use rustix::io::Errno;

use crate::outbox::Outbox;
use crate::protocol::{self, FromNsm, Measured, ToNsm, Token};
use crate::sys::{self, Payload, Queues, UserSides, Waker};

/// A tenant as an NSM has it.
struct Tenant {
    payload: Payload,
    /// Chunks to receive into that no socket has; the last is taken next, as it may still be in the
    /// cache.
    free: Vec<u16>,
    /// The NSM's part of the chunks.
    part: std::ops::Range<usize>,
    /// The socket that each chunk of the part is lent to, plus one; 0: none.
    lent: Vec<u32>,
}

/// A chunk to receive into.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chunk(u16);

impl Chunk {
    /// Where it starts, in bytes from the start of the payload file.
    pub fn offset(self) -> u64 {
        u64::from(self.0) * CHUNK_BYTES as u64
    }
}

/// An NSM's connection to CoreEngine.
pub struct Service {
    control: OwnedFd,
    /// Wakes the NSM.
    waker: OwnedFd,
    /// Wakes CoreEngine.
    core: Waker,
    sides: UserSides,
    /// Requests that may be taken, and requests that were.
    filled: u32,
    taken: u32,
    answers: Outbox,
    tenants: Vec<Option<Tenant>>,
    worker: u8,
    /// Whether the NSM answers questions about its connections.
    measures: bool,
}

/// How many requests are taken before their slots are given back.
const RELEASE: u32 = 256;

impl Service {
    /// Joins CoreEngine at its socket.
    pub fn join(door: &Path, token: Token) -> io::Result<Service> {
        let mut welcomed = protocol::join(door, Role::Nsm, token)?;
        let (Some(core), Some(file)) = (welcomed.files.pop(), welcomed.files.pop()) else {
            return Err(Errno::BADMSG.into());
        };
        let queues = Queues::map(&file, NSM_FILE_BYTES)?;
        if !queues.file().valid() {
            return Err(io::Error::other("the queue file is of another version"));
        }
        Ok(Service {
            control: welcomed.control,
            waker: welcomed.waker,
            core: Waker::Event(core),
            sides: UserSides::open(queues, 0),
            filled: 0,
            taken: 0,
            answers: Outbox::default(),
            tenants: Vec::new(),
            worker: welcomed.welcome.set as u8,
            measures: false,
        })
    }

    /// Which of the NSM's workers this is, from 0 on.
    pub(crate) fn worker(&self) -> u8 {
        self.worker
    }

    /// Has [`hear`](Self::hear) tell of [questions](ToNsm::Measure) about connections, which the NSM answers by
    /// [`measured`](Self::measured). Without this, they are answered with nothing.
    pub fn set_measures(&mut self) {
        self.measures = true;
    }

    /// Answers a question about connections.
    pub fn measured(&self, id: u32, sockets: Vec<Measured>) {
        // CoreEngine does not wait for an answer that is lost.
        let _ = protocol::send(&self.control, &FromNsm::Measured { id, sockets }, &[]);
    }

    /// Readable when requests wait and the NSM sleeps.
    pub fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// Readable when a tenant comes or goes, or CoreEngine has ended.
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Hears the next of who comes and goes; `None`: nobody now. A new tenant's sockets may come from
    /// then on.
    pub fn hear(&mut self) -> io::Result<Option<ToNsm>> {
        let (message, mut files) = loop {
            match protocol::receive::<ToNsm>(&self.control, false) {
                Ok(Some((ToNsm::Measure { id, .. }, _))) if !self.measures => {
                    self.measured(id, Vec::new());
                }
                Ok(Some(heard)) => break heard,
                Ok(None) => return Err(io::Error::other("CoreEngine has ended")),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        };
        match message {
            ToNsm::Measure { .. } => {}
            ToNsm::Tenant {
                tenant,
                first,
                count,
            } => {
                let file = files.pop().ok_or(Errno::BADMSG)?;
                let part = first as usize..(first as usize + count as usize).min(CHUNKS);
                let at = tenant as usize;
                if at >= self.tenants.len() {
                    self.tenants.resize_with(at + 1, || None);
                }
                self.tenants[at] = Some(Tenant {
                    payload: Payload::map(file)?,
                    free: part.clone().rev().map(|chunk| chunk as u16).collect(),
                    lent: vec![0; part.len()],
                    part,
                });
            }
            ToNsm::TenantGone { tenant } => {
                if let Some(gone) = self.tenants.get_mut(tenant as usize) {
                    *gone = None;
                }
            }
        }
        Ok(Some(message))
    }

    /// The next request; `None`: there is none now. Its `socket` is the number at this NSM.
    #[inline]
    pub fn request(&mut self) -> Result<Option<Nqe>, io::Error> {
        if self.taken == self.filled || self.taken == RELEASE {
            self.release();
            self.filled = self
                .sides
                .deliveries
                .filled(1)
                .map_err(|violation| io::Error::other(violation.to_string()))?;
            if self.filled == 0 {
                return Ok(None);
            }
        }
        let nqe = self.sides.deliveries.peek(self.taken);
        self.taken += 1;
        Ok(Some(nqe))
    }

    fn release(&mut self) {
        if self.taken > 0 {
            self.sides.deliveries.release(self.taken);
            self.filled -= self.taken;
            self.taken = 0;
        }
    }

    /// Whether a tenant is known.
    pub fn knows(&self, tenant: u8) -> bool {
        self.tenants
            .get(tenant as usize)
            .is_some_and(Option::is_some)
    }

    /// Submits an answer or an event.
    #[inline]
    pub fn answer(&mut self, nqe: Nqe) {
        self.answers.push(&mut self.sides.submissions, nqe);
    }

    /// Publishes the answers.
    pub fn flush(&mut self) {
        self.release();
        // CoreEngine's cursor is its own affair: one that cannot be gets nothing more.
        let _ = self.answers.flush(&mut self.sides.submissions, &self.core);
    }

    /// Announces that the NSM is about to wait; `false`: do not, there are requests, or there is
    /// room for answers that did not fit.
    pub fn sleep(&mut self) -> bool {
        self.sides.deliveries.set_sleeps(true);
        self.sides.submissions.set_sleeps(self.answers.waits());
        let requests = self.sides.deliveries.filled(1).unwrap_or(1) > 0;
        let room = self.answers.waits() && self.sides.submissions.free(1).unwrap_or(1) > 0;
        if requests || room {
            self.awake();
        }
        !requests && !room
    }

    /// Ends a [`sleep`](Self::sleep).
    pub fn awake(&mut self) {
        self.sides.deliveries.set_sleeps(false);
        sys::clear(&self.waker);
    }

    fn tenant(&mut self, tenant: u8) -> Option<&mut Tenant> {
        self.tenants.get_mut(tenant as usize)?.as_mut()
    }

    /// The bytes of a tenant's payload; `None`: they are not inside one chunk.
    pub fn payload(&self, tenant: u8, offset: u64, len: u32) -> Option<SharedBytes> {
        let tenant = self.tenants.get(tenant as usize)?.as_ref()?;
        tenant.payload.bytes(offset, len)
    }

    /// Lends a chunk of the tenant's to a socket, to receive into; `None`: there is none now.
    #[inline]
    pub fn lend(&mut self, tenant: u8, socket: u32) -> Option<Chunk> {
        let tenant = self.tenant(tenant)?;
        let chunk = tenant.free.pop()?;
        tenant.lent[chunk as usize - tenant.part.start] = socket.wrapping_add(1);
        Some(Chunk(chunk))
    }

    /// Most chunks that a socket of a tenant's may have now: a part of [`RECEIVE_WINDOW`] when chunks run short, so that
    /// sockets whose chunks are not read leave some to the others.
    pub fn receive_window(&self, tenant: u8) -> usize {
        let tenant = self.tenants.get(tenant as usize).and_then(Option::as_ref);
        let Some(Tenant { part, free, .. }) = tenant else {
            return 0;
        };
        match (part.len() - free.len()) * 8 / part.len().max(1) {
            0..4 => RECEIVE_WINDOW,
            4..6 => 8,
            6 => 2,
            _ => 1,
        }
    }

    /// Takes back a chunk that holds nothing.
    #[inline]
    pub fn unlend(&mut self, tenant: u8, chunk: Chunk) {
        if let Some(tenant) = self.tenant(tenant) {
            tenant.lent[chunk.0 as usize - tenant.part.start] = 0;
            tenant.free.push(chunk.0);
        }
    }

    /// Takes back a chunk that a tenant has consumed; `None`: it was not lent to the socket.
    #[inline]
    pub fn consumed(&mut self, tenant: u8, socket: u32, offset: u64) -> Option<Chunk> {
        let tenant = self.tenant(tenant)?;
        let chunk = usize::try_from(offset).ok()? / CHUNK_BYTES;
        let at = chunk.checked_sub(tenant.part.start)?;
        let lent = tenant.lent.get_mut(at)?;
        if *lent == 0 || *lent != socket.wrapping_add(1) {
            return None;
        }
        *lent = 0;
        tenant.free.push(chunk as u16);
        Some(Chunk(chunk as u16))
    }

    /// Takes back all chunks that are lent to a socket; returns how many.
    pub fn reclaim(&mut self, tenant: u8, socket: u32) -> usize {
        let Some(tenant) = self.tenant(tenant) else {
            return 0;
        };
        let before = tenant.free.len();
        for (at, lent) in tenant.lent.iter_mut().enumerate() {
            if *lent != 0 && *lent == socket.wrapping_add(1) {
                *lent = 0;
                tenant.free.push((tenant.part.start + at) as u16);
            }
        }
        tenant.free.len() - before
    }
}
