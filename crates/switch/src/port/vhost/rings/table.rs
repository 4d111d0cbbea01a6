//! A table of indirect descriptors, which one descriptor of a ring stands for: Virtual I/O Device
//! 1.2, sections 2.7.5.3 and 2.8.7.

use abi::SharedBytes;

use super::{Broken, Descriptor, flags};
use crate::port::vhost::memory::Memory;

/// Most entries of a table.
pub const ENTRIES_MAX: usize = 1024;
/// Bytes of an entry: address; length; flags and next, or a buffer's id and flags.
const ENTRY: usize = 16;

/// A table in the driver's memory.
#[derive(Clone, Copy)]
pub struct DescriptorTable {
    bytes: SharedBytes,
    /// Whether it is laid out as a packed ring is.
    packed: bool,
}

impl DescriptorTable {
    /// The table that a descriptor names.
    pub fn open(
        named: &Descriptor,
        memory: &Memory,
        packed: bool,
    ) -> Result<DescriptorTable, Broken> {
        let len = named.len as usize;
        let on = named.flags & flags::NEXT != 0;
        if on || len == 0 || !len.is_multiple_of(ENTRY) || len > ENTRIES_MAX * ENTRY {
            return Err(Broken::Chain);
        }
        let bytes = memory.at(named.address, len).ok_or(Broken::Address)?;
        Ok(DescriptorTable { bytes, packed })
    }

    /// Number of entries.
    pub fn size(&self) -> u16 {
        (self.bytes.len() / ENTRY) as u16
    }

    /// Entry `i`, if there is one. The entries of a packed table are a buffer's pieces in order; in
    /// a split table, each names the next.
    pub fn entry(&self, i: u16) -> Option<Descriptor> {
        let raw: [u8; ENTRY] = self.bytes.read_array(ENTRY * usize::from(i))?;
        let (words, _) = raw.as_chunks();
        let [low, high] = [0, 1].map(|n| u64::from_le_bytes(words[n]));
        let (mut flags, mut next) = ((high >> 32) as u16, (high >> 48) as u16);
        if self.packed {
            let more = if i + 1 < self.size() { flags::NEXT } else { 0 };
            flags = next & !flags::NEXT | more;
            next = i + 1;
        }
        Some(Descriptor {
            address: low,
            len: high as u32,
            flags,
            next,
        })
    }
}
