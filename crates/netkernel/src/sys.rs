//! System calls with what safe wrappers lack: mappings of shared files, messages with descriptors,
//! vectors of shared memory, socket options by number.
#![allow(unsafe_code)]

mod interface;

use std::ffi::c_void;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::time::{Duration, Instant};

use abi::SharedBytes;
use abi::nqe::{DatagramHead, PacketInfo};
use abi::tenant::{PAYLOAD_FILE_BYTES, PayloadFile, QueueFile};
use rustix::event::EventfdFlags;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::addr::SocketAddrArg;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrAny,
};

pub(crate) use interface::{RegionInterface, Wakes};

/// A shared mapping; unmapped when dropped.
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address and a length; the memory is reached through `abi` only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: BorrowedFd<'_>, bytes: usize) -> Result<Mapping, Errno> {
        if rustix::fs::fstat(file)?.st_size != bytes as i64 {
            return Err(Errno::INVAL);
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choosing.
        let base = unsafe { rustix::mm::mmap(null_mut(), bytes, protection, flags, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Mapping { base, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our mapping, and nothing uses it any more. It cannot fail.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A memory file of this length that cannot shrink or grow.
pub(crate) fn memory_file(name: &str, bytes: usize) -> Result<OwnedFd, Errno> {
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, bytes as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// Random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Errno> {
    let mut bytes = [0; N];
    let n = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    if n == N { Ok(bytes) } else { Err(Errno::IO) }
}

/// Whether a file is one of this length that cannot shrink.
pub(crate) fn is_memory_file(file: impl AsFd, bytes: usize) -> bool {
    let length = rustix::fs::fstat(file.as_fd()).is_ok_and(|stat| stat.st_size == bytes as i64);
    let seals = rustix::fs::fcntl_get_seals(file);
    length && seals.is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

/// Has the bytes of a memory file be zeros, which take no memory.
pub(crate) fn empty(file: impl AsFd, bytes: usize) -> Result<(), Errno> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, flags, 0, bytes as u64)
}

/// The process that made the other end of a Unix socket.
pub(crate) fn peer(socket: impl AsFd) -> Result<u32, Errno> {
    let peer = rustix::net::sockopt::socket_peercred(socket)?;
    Ok(peer.pid.as_raw_nonzero().get() as u32)
}

/// A queue file, mapped.
pub(crate) struct Queues {
    queues: QueueFile,
    _mapping: Mapping,
}

impl Queues {
    /// Maps a file of this length.
    pub fn map(file: impl AsFd, bytes: usize) -> Result<Queues, Errno> {
        let mapping = Mapping::new(file.as_fd(), bytes)?;
        // SAFETY: page aligned, that long, and kept beside it.
        let queues = unsafe { QueueFile::new(mapping.base, mapping.bytes) };
        Ok(Queues {
            queues,
            _mapping: mapping,
        })
    }

    pub fn file(&self) -> &QueueFile {
        &self.queues
    }
}

/// A payload file, mapped.
pub(crate) struct Payload {
    payload: PayloadFile,
    _mapping: Mapping,
}

impl Payload {
    pub fn map(file: impl AsFd) -> Result<Payload, Errno> {
        let mapping = Mapping::new(file.as_fd(), PAYLOAD_FILE_BYTES)?;
        // SAFETY: that long, and kept beside it.
        let payload = unsafe { PayloadFile::new(mapping.base) };
        Ok(Payload {
            payload,
            _mapping: mapping,
        })
    }

    pub fn bytes(&self, offset: u64, len: u32) -> Option<SharedBytes> {
        self.payload.bytes(offset, len)
    }
}

/// CoreEngine's sides of a queue set, with the mapping that they are in.
pub(crate) struct CoreSides {
    pub submissions: abi::ring::Consumer<abi::nqe::Nqe>,
    pub deliveries: abi::ring::Producer<abi::nqe::Nqe>,
    _queues: std::sync::Arc<Queues>,
}

impl CoreSides {
    /// Empties the queue set and opens it. The caller opens each once at a time.
    pub fn open(queues: &std::sync::Arc<Queues>, set: usize) -> CoreSides {
        queues.file().clear(set);
        // SAFETY: opened once at a time, and the mapping is kept beside it.
        let (submissions, deliveries) = unsafe { queues.file().core(set) };
        CoreSides {
            submissions,
            deliveries,
            _queues: std::sync::Arc::clone(queues),
        }
    }
}

/// Takes what was delivered to a queue set whose process is gone, as far as `its` holds. The
/// rest is for the process that has taken the socket over: it reads this ring itself, before what came
/// later by its own.
pub(crate) fn undelivered(
    queues: &Queues,
    set: usize,
    mut its: impl FnMut(&abi::nqe::Nqe) -> bool,
) -> Vec<abi::nqe::Nqe> {
    // SAFETY: this process has the other sides only, and the queue set's own process is gone. One that
    // still writes there harms nobody: a cursor is checked.
    let (_, mut deliveries) = unsafe { queues.file().user(set) };
    let mut taken = Vec::new();
    for i in 0..deliveries.filled(abi::tenant::SLOTS).unwrap_or(0) {
        let nqe = deliveries.peek(i);
        if nqe.operation != 0 && its(&nqe) {
            deliveries.overwrite(i, abi::nqe::Nqe::default());
            taken.push(nqe);
        }
    }
    taken
}

/// The sides of a queue set that its user has, with the mapping that they are in.
pub(crate) struct UserSides {
    pub submissions: abi::ring::Producer<abi::nqe::Nqe>,
    pub deliveries: abi::ring::Consumer<abi::nqe::Nqe>,
    _queues: Queues,
}

impl UserSides {
    /// Opens a queue set, which nobody else in this process opens.
    pub fn open(queues: Queues, set: usize) -> UserSides {
        // SAFETY: the caller's promise, and the mapping is kept beside it.
        let (submissions, deliveries) = unsafe { queues.file().user(set) };
        UserSides {
            submissions,
            deliveries,
            _queues: queues,
        }
    }
}

/// An eventfd that wakes the threads that wait for it.
pub(crate) fn waker() -> Result<OwnedFd, Errno> {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

/// Wakes the other side of a queue set.
pub(crate) enum Waker {
    /// A process: by an eventfd.
    Event(OwnedFd),
    /// A guest: by the word of its queue file that its CPUs sleep on.
    Word(std::sync::Arc<Queues>),
}

impl Waker {
    pub fn wake(&self) {
        match self {
            Waker::Event(eventfd) => wake(eventfd),
            Waker::Word(queues) => {
                let word = queues.file().wake_word();
                word.fetch_add(1, std::sync::atomic::Ordering::Release);
                // Not private: another process sleeps. That nobody does is no error.
                let all = abi::CPUS_MAX as u32;
                let _ =
                    rustix::thread::futex::wake(word, rustix::thread::futex::Flags::empty(), all);
            }
        }
    }
}

/// Wakes the owner of an eventfd. One that is full has been written to.
pub(crate) fn wake(waker: impl AsFd) {
    let _ = rustix::io::write(waker, &1u64.to_ne_bytes());
}

/// Clears an eventfd.
pub(crate) fn clear(waker: impl AsFd) {
    let _ = rustix::io::read(waker, &mut [0; 8]);
}

/// How long CoreEngine or an NSM looks for work before it sleeps: what a sleep and a wake-up cost, and longer as long as
/// sleeps turn out to be short. Others run meanwhile if they want to (`sched_yield`). With one request at a time it
/// makes the way through both two to three times as fast (wrk with one connection to nginx on a kernel NSM: 8.6 to 19
/// thousand requests a second).
pub(crate) struct Patience(Duration);

impl Patience {
    const LEAST: Duration = Duration::from_micros(20);
    const MOST: Duration = Duration::from_micros(100);

    pub fn new() -> Patience {
        Patience(Patience::LEAST)
    }

    /// Looks for work; returns whether any was found.
    pub fn look<E>(&self, mut look: impl FnMut() -> Result<bool, E>) -> Result<bool, E> {
        let start = Instant::now();
        while start.elapsed() < self.0 {
            rustix::thread::sched_yield();
            if look()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sleeps by a function, and learns from how long that takes.
    pub fn sleep<T>(&mut self, sleep: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = sleep();
        self.0 = match start.elapsed() < Patience::MOST {
            true => (2 * self.0).min(Patience::MOST),
            false => (self.0 / 2).max(Patience::LEAST),
        };
        result
    }
}

/// Has large pieces of memory mapped each by itself from now on: pages that are never used take no memory, and what is
/// freed goes back at once. The allocator would learn from the first that is freed to keep them, and would clear those
/// that it gives out again, so that they take all their memory.
pub(crate) fn map_large_pieces() {
    const LARGE: libc::c_int = 128 << 10;
    // SAFETY: sets a number of the allocator's.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

/// Sends a message with descriptors.
pub(crate) fn send_message(
    to: impl AsFd,
    message: &[u8],
    files: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(Errno::INVAL);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(to, &[IoSlice::new(message)], &mut control, flags).map(drop)
}

/// Most descriptors of a message.
const FILES_MAX: usize = 4;

/// Receives a message and its descriptors; `None` at the end.
pub(crate) fn receive_message(
    from: impl AsFd,
    into: &mut [u8],
    wait: bool,
) -> Result<Option<(usize, Vec<OwnedFd>)>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut flags = RecvFlags::CMSG_CLOEXEC;
    if !wait {
        flags |= RecvFlags::DONTWAIT;
    }
    let received = rustix::net::recvmsg(from, &mut [IoSliceMut::new(into)], &mut control, flags)?;
    let files = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten()
        .collect();
    Ok((received.bytes > 0).then_some((received.bytes, files)))
}

/// Most parts of a vector.
pub(crate) const PARTS_MAX: usize = 32;

fn vectors(parts: &[SharedBytes]) -> ([libc::iovec; PARTS_MAX], usize) {
    let none = libc::iovec {
        iov_base: null_mut(),
        iov_len: 0,
    };
    let mut all = [none; PARTS_MAX];
    for (vector, part) in all.iter_mut().zip(parts) {
        vector.iov_base = part.start().as_ptr().cast();
        vector.iov_len = part.len();
    }
    (all, parts.len().min(PARTS_MAX))
}

fn counted(n: isize) -> Result<usize, Errno> {
    usize::try_from(n).map_err(|_| last())
}

pub(crate) fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn header(vectors: &mut [libc::iovec], count: usize) -> libc::msghdr {
    // SAFETY: a msghdr of zeros is one without anything.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = vectors.as_mut_ptr();
    header.msg_iovlen = count;
    header
}

/// Receives into parts of shared memory, without waiting; returns the bytes, and whether a datagram
/// was longer.
pub(crate) fn receive(from: impl AsFd, parts: &[SharedBytes]) -> Result<usize, Errno> {
    let (mut vectors, count) = vectors(parts);
    let mut header = header(&mut vectors, count);
    // SAFETY: the vectors are mapped memory (`SharedBytes`), which no reference points to.
    counted(unsafe { libc::recvmsg(from.as_fd().as_raw_fd(), &mut header, libc::MSG_DONTWAIT) })
}

/// Sends parts of shared memory, without waiting; returns the bytes that were taken.
pub(crate) fn send(to: impl AsFd, parts: &[SharedBytes], more: bool) -> Result<usize, Errno> {
    let (mut vectors, count) = vectors(parts);
    let header = header(&mut vectors, count);
    let more = if more { libc::MSG_MORE } else { 0 };
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | more;
    // SAFETY: as in `receive`.
    counted(unsafe { libc::sendmsg(to.as_fd().as_raw_fd(), &header, flags) })
}

/// Room for the ancillary data of a datagram, aligned as its headers must be.
#[repr(align(8))]
struct Control([u8; 192]);

const _: () = {
    // SAFETY: arithmetic only. The number twice, as of IPv4 and of IPv6, and both kinds of packet
    // information.
    let needed = unsafe {
        4 * libc::CMSG_SPACE(size_of::<i32>() as u32)
            + libc::CMSG_SPACE(size_of::<libc::in_pktinfo>() as u32)
            + libc::CMSG_SPACE(size_of::<libc::in6_pktinfo>() as u32)
    };
    assert!(needed as usize <= size_of::<Control>());
};

/// Receives a datagram, without waiting; returns its bytes, its source and its ancillary data.
pub(crate) fn receive_datagram(
    from: impl AsFd,
    part: SharedBytes,
    rest: &mut [u8],
) -> Result<(usize, DatagramHead), Errno> {
    let (mut vectors, count) = vectors(&[part]);
    vectors[count] = libc::iovec {
        iov_base: rest.as_mut_ptr().cast(),
        iov_len: rest.len(),
    };
    let mut header = header(&mut vectors, count + 1);
    // SAFETY: an address of zeros is one without a family.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    header.msg_name = (&raw mut storage).cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    let mut control = Control([0; 192]);
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = size_of::<Control>() as _;
    // SAFETY: the part is mapped memory, and `rest`, the address and the control bytes have the lengths told.
    let n = unsafe { libc::recvmsg(from.as_fd().as_raw_fd(), &mut header, libc::MSG_DONTWAIT) };
    let n = counted(n)?;
    // SAFETY: the kernel has written an address of this length.
    let address = unsafe { SocketAddrAny::read((&raw const storage).cast(), header.msg_namelen) };
    let mut head = DatagramHead::new(address.try_into().ok());
    if header.msg_controllen > 0 {
        read_ancillary(&header, &mut head);
    }
    Ok((n, head))
}

fn read_ancillary(header: &libc::msghdr, head: &mut DatagramHead) {
    // SAFETY: the kernel has filled the control bytes with whole messages, but for the last, whose
    // length is looked at before its data is read.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while let Some(&message) = control.as_ref() {
            let data = libc::CMSG_DATA(control);
            let len = message.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
            match (message.cmsg_level, message.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT)
                    if len >= 4 =>
                {
                    head.hop_limit = Some(data.cast::<i32>().read_unaligned() as u8);
                }
                // Linux gives a TOS as a byte.
                (libc::IPPROTO_IP, libc::IP_TOS) if len >= 1 => head.traffic_class = Some(*data),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) if len >= 4 => {
                    head.traffic_class = Some(data.cast::<i32>().read_unaligned() as u8);
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) if len >= size_of::<libc::in_pktinfo>() => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    head.packet = Some(PacketInfo::V4 {
                        interface: info.ipi_ifindex as u32,
                        local: u32::from_be(info.ipi_spec_dst.s_addr).into(),
                        destination: u32::from_be(info.ipi_addr.s_addr).into(),
                    });
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO)
                    if len >= size_of::<libc::in6_pktinfo>() =>
                {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    head.packet = Some(PacketInfo::V6 {
                        interface: info.ipi6_ifindex,
                        address: info.ipi6_addr.s6_addr.into(),
                    });
                }
                _ => {}
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
}

/// Sends a datagram, without waiting.
pub(crate) fn send_datagram(
    to: impl AsFd,
    parts: &[SharedBytes],
    head: &DatagramHead,
) -> Result<(), Errno> {
    let (mut vectors, count) = vectors(parts);
    let mut header = header(&mut vectors, count);
    let mut control = Control([0; 192]);
    if head.has_ancillary() {
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = size_of::<Control>() as _;
        header.msg_controllen = write_ancillary(&header, head) as _;
    }
    let fd = to.as_fd().as_raw_fd();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let n = match head.address {
        // SAFETY: the address is valid for the closure, and the rest as in `receive_datagram`.
        Some(address) => unsafe {
            address.with_sockaddr(|at, len| {
                header.msg_name = at.cast_mut().cast();
                header.msg_namelen = len as libc::socklen_t;
                libc::sendmsg(fd, &header, flags)
            })
        },
        // SAFETY: as above.
        None => unsafe { libc::sendmsg(fd, &header, flags) },
    };
    counted(n).map(drop)
}

/// Writes ancillary data; returns the length of the control bytes. A number is written as of IPv4 and
/// as of IPv6: Linux reads that of the version the datagram is sent by, and no other.
fn write_ancillary(header: &libc::msghdr, head: &DatagramHead) -> usize {
    let mut used = 0;
    let mut put = |level, kind, value: &[u8]| {
        let len = value.len() as u32;
        // SAFETY: the control bytes have room for all, by the assertion at `Control`.
        unsafe {
            let control = header
                .msg_control
                .cast::<u8>()
                .add(used)
                .cast::<libc::cmsghdr>();
            (*control).cmsg_level = level;
            (*control).cmsg_type = kind;
            (*control).cmsg_len = libc::CMSG_LEN(len) as _;
            libc::CMSG_DATA(control).copy_from_nonoverlapping(value.as_ptr(), value.len());
            used += libc::CMSG_SPACE(len) as usize;
        }
    };
    if let Some(hops) = head.hop_limit {
        let hops = i32::from(hops).to_ne_bytes();
        put(libc::IPPROTO_IP, libc::IP_TTL, &hops);
        put(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &hops);
    }
    if let Some(class) = head.traffic_class {
        let class = i32::from(class).to_ne_bytes();
        put(libc::IPPROTO_IP, libc::IP_TOS, &class);
        put(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class);
    }
    match head.packet {
        None => {}
        // struct in_pktinfo: interface, local address, destination.
        Some(PacketInfo::V4 {
            interface,
            local,
            destination,
        }) => {
            let mut info = [0; size_of::<libc::in_pktinfo>()];
            info[..4].copy_from_slice(&interface.to_ne_bytes());
            info[4..8].copy_from_slice(&local.octets());
            info[8..].copy_from_slice(&destination.octets());
            put(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
        }
        // struct in6_pktinfo: address, interface.
        Some(PacketInfo::V6 { interface, address }) => {
            let mut info = [0; size_of::<libc::in6_pktinfo>()];
            info[..16].copy_from_slice(&address.octets());
            info[16..].copy_from_slice(&interface.to_ne_bytes());
            put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
        }
    }
    used
}

/// Longest value of a socket option, in bytes.
pub(crate) const OPTION_MAX: usize = 512;

/// Sets a socket option. The caller has checked that its value holds no address of memory.
pub(crate) fn set_option(
    socket: impl AsFd,
    level: i32,
    name: i32,
    value: &[u8],
) -> Result<(), Errno> {
    let len = value.len() as libc::socklen_t;
    // SAFETY: the value has the length told.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            value.as_ptr().cast::<c_void>(),
            len,
        )
    };
    if done == 0 { Ok(()) } else { Err(last()) }
}

/// Reads a socket option; returns the length of its value.
pub(crate) fn option(
    socket: impl AsFd,
    level: i32,
    name: i32,
    value: &mut [u8],
) -> Result<usize, Errno> {
    let mut len = value.len() as libc::socklen_t;
    // SAFETY: the value has the length told.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast::<c_void>(),
            &mut len,
        )
    };
    if done == 0 {
        Ok(len as usize)
    } else {
        Err(last())
    }
}
