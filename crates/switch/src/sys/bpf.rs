//! eBPF: the calls that settled flows need, and the XDP program of a link, six instructions that pass each frame to the AF_XDP socket of its
//! queue, or to the host if the queue has none.
//!
//! The program is written down here as instructions. A loader library needs an object file, and
//! does not give out the descriptors that must go to another process.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use super::check;

// Commands and types of linux/bpf.h.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const XDP_PASS: i32 = 2;
const REDIRECT_MAP: i32 = 51;
/// Where `struct xdp_md` has `rx_queue_index`.
const RX_QUEUE_INDEX: i16 = 16;

/// How an XDP program is attached: `XDP_FLAGS_*` of linux/if_link.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AttachMode {
    /// By the kernel, in front of the network stack.
    Generic = 1 << 1,
    /// By the interface's driver.
    Native = 1 << 2,
}

/// Attaches a loaded program to an interface's ingress hook (tcx). The program stays as long as a copy of the returned
/// descriptor is open.
pub fn attach_at_ingress(program: RawFd, interface: u32) -> Result<OwnedFd, Errno> {
    const TCX_INGRESS: u32 = 46;
    let attributes = LinkAttributes {
        program: program as u32,
        interface,
        attach: TCX_INGRESS,
        flags: 0,
    };
    // SAFETY: there are no pointers in these attributes.
    unsafe { bpf(LINK_CREATE, &attributes) }.map(owned)
}

/// Puts a value into a map. Key and value are of the map's sizes.
///
/// # Safety
/// They are.
pub unsafe fn update<K, V>(map: BorrowedFd<'_>, key: &K, value: &V) -> Result<(), Errno> {
    let attributes = ElementAttributes {
        map: map.as_raw_fd() as u32,
        pad: 0,
        key: &raw const *key as u64,
        value: &raw const *value as u64,
        flags: 0,
    };
    // SAFETY: by the caller's promise, and both outlive the call.
    unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
}

/// Removes a key, of the map's size, from a map.
///
/// # Safety
/// It is.
pub unsafe fn delete<K>(map: BorrowedFd<'_>, key: &K) -> Result<(), Errno> {
    let attributes = ElementAttributes {
        map: map.as_raw_fd() as u32,
        pad: 0,
        key: &raw const *key as u64,
        value: 0,
        flags: 0,
    };
    // SAFETY: by the caller's promise, and it outlives the call.
    unsafe { bpf(MAP_DELETE_ELEM, &attributes) }.map(drop)
}

/// A map from queue numbers to AF_XDP sockets. A socket leaves it when it is closed.
pub struct SocketMap(OwnedFd);

#[repr(C)]
struct MapAttributes {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
}

#[repr(C, align(8))]
struct ElementAttributes {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C, align(8))]
struct ProgramAttributes {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
}

#[repr(C)]
struct LinkAttributes {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// One instruction: `struct bpf_insn`, the registers in one byte, destination low.
#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Calls bpf(2).
///
/// # Safety
/// `attributes` must be `command`'s, with pointers valid for it.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> Result<libc::c_int, Errno> {
    // SAFETY: the kernel reads as many bytes as it is told; the rest is the caller's promise.
    let result = unsafe {
        let attributes = &raw const *attributes;
        libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>())
    };
    check(result as libc::c_int)
}

fn owned(fd: libc::c_int) -> OwnedFd {
    // SAFETY: bpf(2) has just made it, and it has no other owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

impl SocketMap {
    /// A map with room for `queues` sockets.
    pub fn new(queues: u32) -> Result<SocketMap, Errno> {
        let attributes = MapAttributes {
            kind: MAP_TYPE_XSKMAP,
            key_size: 4,
            value_size: 4,
            entries: queues,
            flags: 0,
        };
        // SAFETY: there are no pointers in these attributes.
        unsafe { bpf(MAP_CREATE, &attributes) }.map(|fd| SocketMap(owned(fd)))
    }

    /// Directs frames of `queue` to `socket`.
    pub fn set(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        let value = socket.as_raw_fd();
        let attributes = ElementAttributes {
            map: self.0.as_raw_fd() as u32,
            pad: 0,
            key: &raw const queue as u64,
            value: &raw const value as u64,
            flags: 0,
        };
        // SAFETY: key and value are of the map's sizes and outlive the call.
        unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }

    /// Attaches the program that looks queues up in this map to an interface. It stays for as long
    /// as a copy of the returned descriptor is open.
    pub fn attach(&self, interface: u32, mode: AttachMode) -> Result<OwnedFd, Errno> {
        let program = self.load()?;
        let attributes = LinkAttributes {
            program: program.as_raw_fd() as u32,
            interface,
            attach: ATTACH_XDP,
            flags: mode as u32,
        };
        // SAFETY: there are no pointers in these attributes.
        unsafe { bpf(LINK_CREATE, &attributes) }.map(owned)
    }

    fn load(&self) -> Result<OwnedFd, Errno> {
        let instruction = |code, registers, offset, immediate| Instruction {
            code,
            registers,
            offset,
            immediate,
        };
        let map = self.0.as_raw_fd();
        let code = [
            // r2 = context->rx_queue_index
            instruction(0x61, 0x12, RX_QUEUE_INDEX, 0),
            // r1 = the map: 64 bits in two instructions, "1" for "a map's descriptor"
            instruction(0x18, 0x11, 0, map),
            instruction(0, 0, 0, 0),
            // r3 = what to do if the map has no socket for the queue
            instruction(0xb7, 0x03, 0, XDP_PASS),
            // r0 = bpf_redirect_map(r1, r2, r3)
            instruction(0x85, 0, 0, REDIRECT_MAP),
            // return r0
            instruction(0x95, 0, 0, 0),
        ];
        let license = c"Apache-2.0";
        let attributes = ProgramAttributes {
            kind: PROG_TYPE_XDP,
            instructions: code.len() as u32,
            code: code.as_ptr() as u64,
            license: license.as_ptr() as u64,
        };
        // SAFETY: code and licence are of the lengths told and outlive the call.
        unsafe { bpf(PROG_LOAD, &attributes) }.map(owned)
    }
}
