//! Messages of an intercepted program: its memory has a msghdr, with addresses and lengths that lie, and what they
//! lead to. The supervisor reads it, GuestLib reads the ancillary data, and what is received is written back where it
//! leads.
#![no_main]

use abi::nqe::{DatagramHead, PacketInfo};
use libfuzzer_sys::fuzz_target;
use rustix::fs::{MemfdFlags, memfd_create};

// Both are parts of programs, not of libraries.
#[path = "../../crates/sock/src/ancillary.rs"]
#[allow(dead_code)]
mod ancillary;
#[path = "../../crates/netkernel/src/intercept/memory.rs"]
#[allow(dead_code)]
mod memory;

/// What [`ancillary`] has of its crate.
mod sys {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Errno(pub i32);
    pub type Result<T> = std::result::Result<T, Errno>;
}

/// The program's memory begins with this; all of its addresses are offsets here.
const BYTES: usize = 4096;
/// Longest payload that is read.
const MOST: usize = 65_507;

/// GuestLib's view of control bytes.
fn head_of(control: &mut [u64], len: usize, ipv4: bool) -> sys::Result<DatagramHead> {
    assert!(len <= size_of_val(control));
    // SAFETY: zeros are a message of nothing.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = len as _;
    // SAFETY: so many bytes are there.
    unsafe { ancillary::read(&message, ipv4) }
}

fuzz_target!(|data: &[u8]| {
    let data = &data[..data.len().min(BYTES)];
    let file = memfd_create("program", MemfdFlags::CLOEXEC).unwrap();
    let file = std::fs::File::from(file);
    std::os::unix::fs::FileExt::write_all_at(&file, data, 0).unwrap();
    file.set_len(BYTES as u64).unwrap();
    let memory = memory::Memory::new(file);
    let Ok(message) = memory.message(0) else {
        return;
    };
    if let Ok(payload) = memory.gather(&message, MOST) {
        assert!(payload.len() <= MOST);
    }
    if let Ok(name) = memory.name(&message) {
        assert!(name.len() <= BYTES);
    }
    if let Ok(control) = memory.control(&message) {
        let mut words = vec![0u64; control.len().div_ceil(8)];
        for (word, bytes) in words.iter_mut().zip(control.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        for ipv4 in [false, true] {
            let Ok(head) = head_of(&mut words, control.len(), ipv4) else {
                continue;
            };
            let v4 = matches!(head.packet, Some(PacketInfo::V4 { .. }));
            assert!(head.packet.is_none() || v4 == ipv4);
            // What is read is written as it is read again, in as much room as it takes.
            let from = match ipv4 {
                true => "192.0.2.1:1".parse().ok(),
                false => "[2001:db8::1]:1".parse().ok(),
            };
            let head = DatagramHead {
                address: from,
                ..head
            };
            let mut room = [0u64; 16];
            // SAFETY: zeros are a message of nothing.
            let mut to: libc::msghdr = unsafe { std::mem::zeroed() };
            to.msg_control = room.as_mut_ptr().cast();
            to.msg_controllen = size_of_val(&room) as _;
            // SAFETY: so many bytes are there.
            unsafe { ancillary::write(&head, &mut to) };
            assert_eq!(to.msg_flags, 0);
            let again = head_of(&mut room, to.msg_controllen as usize, ipv4);
            let head = DatagramHead {
                address: None,
                ..head
            };
            assert_eq!(again, Ok(head));
        }
    }
    // What was received may be any bytes, too.
    let _ = memory.scatter(&message, &[7; 3000]);
    let _ = memory.write_head(&message, &[2; 28], data, 0);
});
