//! A tenant of the network stacks: an application, or a guest, whose sockets an NSM serves. Its processes share
//! two memory files, which CoreEngine makes.
//!
//! The *queue file* has a pair of rings of [`Nqe`]s for each of the tenant's processes, and memory
//! that only its processes use:
//!
//! ```text
//! 0     header: magic, version                                  (one page)
//! 4096  queue set 0: submission ring, delivery ring; set 1: …   (SETS × QUEUE_SET_BYTES)
//! …     private: PRIVATE_BYTES for the processes' own use
//! ```
//!
//! A process submits requests on its queue set's submission ring; CoreEngine delivers answers and
//! events on the delivery ring. The *payload file* has [`CHUNKS`] chunks of [`CHUNK_BYTES`]; the
//! first [`SEND_CHUNKS`] are the processes' to send from, the others the NSMs' to receive to. An NSM
//! has a queue set of the same two rings, submitting answers and being delivered requests, in a file
//! of its own.
//!
//! A process begins with a [`Hello`] on a Unix socket of packets and gets a [`Welcome`].
//!
//! A guest is a process of its own tenant. It maps queue set 0 and the payload file as one span of its memory,
//! [`GUEST_BYTES`] long: the payload file, then the first [`NSM_FILE_BYTES`] of the queue file. Its host says hello
//! for it. CoreEngine wakes it by the queue file's wake word.
//!
//! The files outlive CoreEngine: another one gets the same from the node, and the processes return to
//! their queue sets. They announce their sockets, which the other one does not know: elements with the
//! flag [`RESTORED`](crate::nqe::RESTORED).

use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::nqe::Nqe;
use crate::ring::{Consumer, Producer, ring_bytes_of};
use crate::{PAGE, SharedBytes};

/// Slots of each ring of a queue set.
pub const SLOTS: u32 = 2048;
/// Queue sets of a tenant: most of its processes that use sockets at a time.
pub const SETS: usize = 128;
/// Most sockets of a tenant; their numbers are below this.
pub const SOCKETS: usize = 1 << 16;
/// Most connections of a listening socket that wait in its tenant's memory to be accepted.
pub const ACCEPT_QUEUE: u32 = 1024;
/// Bytes of a queue set.
pub const QUEUE_SET_BYTES: usize = 2 * RING_BYTES;
/// Bytes that only a tenant's processes use, behind its queue sets.
pub const PRIVATE_BYTES: usize = 128 << 20;
/// Length of a tenant's queue file; pages never written take no memory.
pub const QUEUE_FILE_BYTES: usize = PRIVATE_AT + PRIVATE_BYTES;
/// Length of an NSM's queue file, and of a guest's part of its tenant's: one queue set.
pub const NSM_FILE_BYTES: usize = PAGE + QUEUE_SET_BYTES.next_multiple_of(PAGE);

/// Bytes of a chunk of payload.
pub const CHUNK_BYTES: usize = 8192;
/// Chunks of a tenant's payload file.
pub const CHUNKS: usize = 8192;
/// The chunks below this are for sending.
pub const SEND_CHUNKS: usize = CHUNKS / 2;
/// Length of a tenant's payload file.
pub const PAYLOAD_FILE_BYTES: usize = CHUNKS * CHUNK_BYTES;
/// Length of the memory of a guest's sockets.
pub const GUEST_BYTES: usize = PAYLOAD_FILE_BYTES + NSM_FILE_BYTES;
/// Offset of the wake word in the memory of a guest's sockets.
pub const GUEST_WAKE_OFFSET: usize = PAYLOAD_FILE_BYTES + offset_of!(Header, wake);
/// Most chunks that a socket has received and not given back.
pub const RECEIVE_WINDOW: usize = 64;
/// Most chunks of a socket that are with the NSM to be sent.
pub const SEND_WINDOW: usize = 64;

const RING_BYTES: usize = ring_bytes_of::<Nqe>(SLOTS);
const PRIVATE_AT: usize = (PAGE + SETS * QUEUE_SET_BYTES).next_multiple_of(PAGE);
const MAGIC: u64 = u64::from_le_bytes(*b"weirsock");
const VERSION: u32 = 3;

#[repr(C)]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    /// The queue sets in use, a bit each.
    taken: [AtomicU32; SETS / 32],
    /// Counts the times that CoreEngine has woken a guest, whose CPUs sleep on it.
    wake: AtomicU32,
}

/// A mapped queue file.
#[derive(Clone, Copy)]
pub struct QueueFile {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a pointer to memory that stays mapped (see `new`), accessed through atomics and raw copies.
unsafe impl Send for QueueFile {}
// SAFETY: as above.
unsafe impl Sync for QueueFile {}

impl QueueFile {
    /// The file mapped from `base` on.
    ///
    /// # Safety
    /// `base` is page aligned and begins `len` bytes, mapped for reading and writing while this or
    /// what came from it is used.
    pub const unsafe fn new(base: NonNull<u8>, len: usize) -> QueueFile {
        assert!(len >= NSM_FILE_BYTES);
        QueueFile { base, len }
    }

    fn header(&self) -> &Header {
        // SAFETY: a page of the mapping; only atomics in it.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// Writes the header, all but the queue sets in use: what CoreEngine does in a new file, which is
    /// all zeros, and in one of another CoreEngine.
    pub fn format(&self) {
        self.header().version.store(VERSION, Ordering::Relaxed);
        self.header().magic.store(MAGIC, Ordering::Relaxed);
    }

    /// Whether the file is one of this version.
    pub fn valid(&self) -> bool {
        let header = self.header();
        header.magic.load(Ordering::Relaxed) == MAGIC
            && header.version.load(Ordering::Relaxed) == VERSION
    }

    /// Notes whether a queue set is in use.
    pub fn take(&self, set: usize, taken: bool) {
        let bit = 1 << (set % 32);
        if let Some(word) = self.header().taken.get(set / 32) {
            match taken {
                true => word.fetch_or(bit, Ordering::Relaxed),
                false => word.fetch_and(!bit, Ordering::Relaxed),
            };
        }
    }

    /// Whether a queue set was in use when that was last noted. The tenant can write it: a hint.
    pub fn is_taken(&self, set: usize) -> bool {
        let word = self.header().taken.get(set / 32);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (set % 32) & 1 != 0)
    }

    /// The word that a guest's CPUs sleep on.
    pub fn wake_word(&self) -> &AtomicU32 {
        &self.header().wake
    }

    /// The queue sets in the file.
    pub const fn sets(&self) -> usize {
        let sets = (self.len - PAGE) / QUEUE_SET_BYTES;
        if sets < SETS { sets } else { SETS }
    }

    fn ring(&self, set: usize, ring: usize) -> NonNull<u8> {
        assert!(set < self.sets(), "the queue set is in the file");
        // SAFETY: inside the file, by the assertion.
        unsafe {
            self.base
                .add(PAGE + set * QUEUE_SET_BYTES + ring * RING_BYTES)
        }
    }

    /// The sides of a queue set that its process or NSM has: it produces submissions and consumes
    /// deliveries. Cursors go on from where they stand.
    ///
    /// # Safety
    /// No other code in this process uses these sides of the queue set meanwhile.
    pub unsafe fn user(&self, set: usize) -> (Producer<Nqe>, Consumer<Nqe>) {
        // SAFETY: a ring of the file, aligned; the caller keeps its sides.
        unsafe {
            (
                Producer::open(self.ring(set, 0), SLOTS),
                Consumer::open(self.ring(set, 1), SLOTS),
            )
        }
    }

    /// The sides that CoreEngine has.
    ///
    /// # Safety
    /// As for [`user`](Self::user).
    pub unsafe fn core(&self, set: usize) -> (Consumer<Nqe>, Producer<Nqe>) {
        // SAFETY: a ring of the file, aligned; the caller keeps its sides.
        unsafe {
            (
                Consumer::open(self.ring(set, 0), SLOTS),
                Producer::open(self.ring(set, 1), SLOTS),
            )
        }
    }

    /// Empties a queue set for a new user. CoreEngine calls it while the set has no user.
    pub fn clear(&self, set: usize) {
        for ring in 0..2 {
            // SAFETY: the ring's bytes, inside the file.
            unsafe { core::ptr::write_bytes(self.ring(set, ring).as_ptr(), 0, RING_BYTES) };
        }
    }

    /// The bytes for the processes' own use, page aligned; `None` in an NSM's file.
    pub fn private(&self) -> Option<NonNull<u8>> {
        // SAFETY: inside the file, which is long enough.
        (self.len >= QUEUE_FILE_BYTES).then(|| unsafe { self.base.add(PRIVATE_AT) })
    }
}

/// A mapped payload file.
#[derive(Clone, Copy)]
pub struct PayloadFile {
    base: NonNull<u8>,
}

// SAFETY: as for `QueueFile`.
unsafe impl Send for PayloadFile {}
// SAFETY: as for `QueueFile`.
unsafe impl Sync for PayloadFile {}

impl PayloadFile {
    /// The file mapped from `base` on.
    ///
    /// # Safety
    /// `base` begins [`PAYLOAD_FILE_BYTES`] bytes, mapped for reading and writing while this or what
    /// came from it is used.
    pub const unsafe fn new(base: NonNull<u8>) -> PayloadFile {
        PayloadFile { base }
    }

    /// The bytes of a payload; `None` if they are not inside one chunk.
    pub fn bytes(&self, offset: u64, len: u32) -> Option<SharedBytes> {
        let (offset, len) = (usize::try_from(offset).ok()?, len as usize);
        let inside = offset < PAYLOAD_FILE_BYTES && offset % CHUNK_BYTES + len <= CHUNK_BYTES;
        // SAFETY: inside the file, by the test.
        inside.then(|| unsafe { SharedBytes::new(self.base.add(offset), len) })
    }
}

/// No queue set, in a [`Hello`].
const NO_SET: u32 = u32::MAX;

/// Who says [`Hello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A process of a tenant.
    Process,
    /// A network stack module.
    Nsm,
    /// A guest: its host says hello for it, and CoreEngine wakes it by the queue file's wake word. The eventfd
    /// beside the hello is not used.
    Guest,
}

/// The first message to CoreEngine. With it come two descriptors: one end of a new pair of Unix
/// sockets of packets (the sender's connection; CoreEngine answers there, and the sender is gone when
/// it closes), and an eventfd by which CoreEngine wakes the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The sender's kind.
    pub role: Role,
    /// Names the tenant or the NSM, and is known to it alone.
    pub token: [u8; 16],
    /// The queue set that the process has had at a CoreEngine that ended: it wants the same again, since
    /// its threads and its sockets name it.
    pub returns_to: Option<u32>,
}

impl Hello {
    /// Length, in bytes: magic (8), version (4), role (4), token (16), queue set (4).
    pub const LEN: usize = 36;

    /// As bytes.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut all = [0; Self::LEN];
        all[..8].copy_from_slice(&MAGIC.to_le_bytes());
        all[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let role = match self.role {
            Role::Process => 1u32,
            Role::Nsm => 2,
            Role::Guest => 3,
        };
        all[12..16].copy_from_slice(&role.to_le_bytes());
        all[16..32].copy_from_slice(&self.token);
        all[32..].copy_from_slice(&self.returns_to.unwrap_or(NO_SET).to_le_bytes());
        all
    }

    /// Of bytes; `None`: not a hello of this version.
    pub fn from_bytes(all: &[u8]) -> Option<Hello> {
        let all: &[u8; Self::LEN] = all.try_into().ok()?;
        let (head, rest) = all.split_at(16);
        let (token, set) = rest.split_at(16);
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let set = u32::from_le_bytes(set.try_into().ok()?);
        let role = match word(12) {
            1 => Role::Process,
            2 => Role::Nsm,
            3 => Role::Guest,
            _ => return None,
        };
        (head[..8] == MAGIC.to_le_bytes() && word(8) == VERSION).then_some(Hello {
            role,
            token: token.try_into().ok()?,
            returns_to: (set != NO_SET).then_some(set),
        })
    }
}

/// The answer to a [`Hello`]. With it come the queue file, the payload file (not for an NSM) and an
/// eventfd that wakes CoreEngine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Why the sender is refused, by errno: nothing else comes. 0: it is welcome.
    pub refused: u32,
    /// The tenant.
    pub tenant: u32,
    /// The sender's queue set; of an NSM, which of its workers it is, from 0 on.
    pub set: u32,
    /// Names this CoreEngine among the CoreEngines that follow each other; not 0.
    pub engine: u32,
}

impl Welcome {
    /// Length, in bytes.
    pub const LEN: usize = 16;

    /// As bytes.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut all = [0; Self::LEN];
        for (at, word) in [self.refused, self.tenant, self.set, self.engine]
            .into_iter()
            .enumerate()
        {
            all[4 * at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        all
    }

    /// Of bytes.
    pub fn from_bytes(all: &[u8]) -> Option<Welcome> {
        let all: &[u8; Self::LEN] = all.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes([all[at], all[at + 1], all[at + 2], all[at + 3]]);
        Some(Welcome {
            refused: word(0),
            tenant: word(4),
            set: word(8),
            engine: word(12),
        })
    }
}

/// Keeps a socket open after its process ends. A process sends it on its connection before it
/// shares a socket's descriptor (by fork, exec or a message), with one end of a pair of Unix
/// sockets. The other end is the socket's descriptor from then on. CoreEngine closes the socket
/// when the last such end is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The socket.
    pub socket: u32,
}

impl Share {
    /// Length, in bytes.
    pub const LEN: usize = 4;

    /// As bytes.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        self.socket.to_le_bytes()
    }

    /// Of bytes.
    pub fn from_bytes(all: &[u8]) -> Option<Share> {
        let socket = u32::from_le_bytes(all.try_into().ok()?);
        Some(Share { socket })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_are_read_as_written(
            token in any::<[u8; 16]>(),
            role in 0..3usize,
            words in any::<[u32; 4]>(),
            returns_to in proptest::option::of(0..SETS as u32),
        ) {
            let role = [Role::Process, Role::Nsm, Role::Guest][role];
            let hello = Hello { role, token, returns_to };
            prop_assert_eq!(Hello::from_bytes(&hello.to_bytes()), Some(hello));
            let [refused, tenant, set, engine] = words;
            let welcome = Welcome { refused, tenant, set, engine };
            prop_assert_eq!(Welcome::from_bytes(&welcome.to_bytes()), Some(welcome));
            let share = Share { socket: set };
            prop_assert_eq!(Share::from_bytes(&share.to_bytes()), Some(share));
        }

        /// A hello with any byte of its first 16 changed is none, or another's role.
        #[test]
        fn a_damaged_hello_is_none(at in 0..12usize, by in 1..=255u8) {
            let hello = Hello { role: Role::Process, token: [7; 16], returns_to: None };
            let mut bytes = hello.to_bytes();
            bytes[at] ^= by;
            prop_assert_eq!(Hello::from_bytes(&bytes), None);
        }
    }
}
