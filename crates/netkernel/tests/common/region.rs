//! A data region, as a host makes it for a user NSM.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use abi::region::{Geometry, Interface, Region};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

/// A data region, as a host makes it.
pub struct Memory {
    pub region: Region,
    pub file: OwnedFd,
}

impl Memory {
    pub fn new(mac: u8) -> Memory {
        let geometry = Geometry::new(1024, 1).unwrap();
        let file = rustix::fs::memfd_create("region", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, geometry.bytes() as u64).unwrap();
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let interface = Interface::new("eth0", [2, 0, 0, 0, 0, mac], 1500).unwrap();
        // SAFETY: a fresh mapping of that length, which stays as long as the test's process.
        let region = unsafe {
            let base = rustix::mm::mmap(
                std::ptr::null_mut(),
                geometry.bytes(),
                protection,
                flags,
                &file,
                0,
            );
            let base = NonNull::new(base.unwrap().cast()).unwrap();
            Region::format(base, geometry, &[interface]).unwrap()
        };
        Memory { region, file }
    }
}
