//! What this process's descriptors stand for. Every read, write and close of the process asks this
//! table, so it is a flat array of one word for each descriptor.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use abi::tenant::SOCKETS;

/// Descriptors above this are never an NSM's sockets.
const DESCRIPTORS: usize = 1 << 18;

const OWNED: u32 = 1 << 31;
const EPOLL: u32 = 1 << 30;
const NUMBER: u32 = EPOLL - 1;

static TABLE: [AtomicU32; DESCRIPTORS] = [const { AtomicU32::new(0) }; DESCRIPTORS];

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A socket of an NSM, by its number.
    Socket(u32),
    /// An epoll descriptor that has sockets of an NSM, by its number in [`epoll`](crate::epoll).
    Epoll(u32),
    /// One of the library's own.
    Owned,
}

fn entry(word: u32) -> Option<Entry> {
    match word {
        0 => None,
        OWNED => Some(Entry::Owned),
        _ if word & EPOLL != 0 => Some(Entry::Epoll((word & NUMBER) - 1)),
        _ => Some(Entry::Socket((word & NUMBER) - 1)),
    }
}

fn word(entry: Option<Entry>) -> u32 {
    match entry {
        None => 0,
        Some(Entry::Owned) => OWNED,
        Some(Entry::Epoll(number)) => EPOLL | (number + 1),
        Some(Entry::Socket(number)) => number + 1,
    }
}

/// What a descriptor stands for; `None`: the kernel's.
#[inline]
pub fn lookup(fd: c_int) -> Option<Entry> {
    let word = TABLE.get(fd as usize)?.load(Ordering::Acquire);
    if word == 0 { None } else { entry(word) }
}

/// The number of the NSM's socket that a descriptor stands for.
#[inline]
pub fn socket(fd: c_int) -> Option<u32> {
    match lookup(fd) {
        Some(Entry::Socket(socket)) => Some(socket),
        _ => None,
    }
}

/// Sets what a descriptor stands for; what it stood for before. A number too high stays the kernel's.
pub fn set(fd: c_int, to: Option<Entry>) -> Option<Entry> {
    let slot = TABLE.get(fd as usize)?;
    if to.is_some() {
        HIGHEST.fetch_max(fd as u32, Ordering::AcqRel);
    }
    let old = entry(slot.swap(word(to), Ordering::AcqRel));
    if let Some(Entry::Socket(socket)) = to {
        local(socket).descriptors.fetch_add(1, Ordering::AcqRel);
    }
    old
}

/// Whether a descriptor's number fits the table.
pub fn fits(fd: c_int) -> bool {
    (fd as usize) < DESCRIPTORS
}

/// The descriptors of this process that stand for something.
pub fn each(mut with: impl FnMut(c_int, Entry)) {
    let highest = HIGHEST.load(Ordering::Acquire) as usize;
    for (fd, slot) in TABLE.iter().enumerate().take(highest + 1) {
        if let Some(entry) = entry(slot.load(Ordering::Acquire)) {
            with(fd as c_int, entry);
        }
    }
}

/// The highest descriptor that ever stood for something.
static HIGHEST: AtomicU32 = AtomicU32::new(0);

/// Has a descriptor stand for a socket.
pub fn add_socket(fd: c_int, socket: u32) -> Option<Entry> {
    set(fd, Some(Entry::Socket(socket)))
}

/// What this process knows of a socket.
pub struct Local {
    /// Descriptors that stand for it.
    pub descriptors: AtomicU32,
    /// Threads that wait for it: see [`wait`](crate::wait).
    pub waiters: AtomicU64,
    /// The first of the epoll interests in it, plus one.
    pub interests: AtomicU32,
    /// Not 0: the connections of the listening socket come to this process, in turn with others.
    pub attached: AtomicU32,
}

static LOCALS: [Local; SOCKETS] = [const {
    Local {
        descriptors: AtomicU32::new(0),
        waiters: AtomicU64::new(0),
        interests: AtomicU32::new(0),
        attached: AtomicU32::new(0),
    }
}; SOCKETS];

/// What this process knows of a socket. The number is below [`SOCKETS`].
#[inline]
pub fn local(socket: u32) -> &'static Local {
    &LOCALS[socket as usize % SOCKETS]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_stands_for_what_was_set() {
        assert_eq!(lookup(-1), None);
        assert_eq!(lookup(c_int::MAX), None);
        for entry in [
            Entry::Socket(0),
            Entry::Socket(65535),
            Entry::Epoll(0),
            Entry::Owned,
        ] {
            set(200_000, Some(entry));
            assert_eq!(lookup(200_000), Some(entry));
        }
        assert_eq!(set(200_000, None), Some(Entry::Owned));
        assert_eq!(lookup(200_000), None);
    }
}
