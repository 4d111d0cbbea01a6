//! The guest's page tables, written by the VMM and mapped nowhere in the guest.
//!
//! Virtual and physical addresses are the same (see [`crate::layout`]). The tables add permissions: execute,
//! read, or read and write, never write and execute. Accessed and dirty bits are set from the start, so that the
//! processor never writes to a table.

use abi::PAGE;
use abi::boot::Span;

use crate::image::{Access, LARGE_PAGE};

const PRESENT: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const CACHE_DISABLE: u64 = 1 << 4;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Entries of a table, at every level.
const ENTRIES: usize = 512;
/// Levels, counted from the one that maps pages.
const LEVELS: u32 = 4;

/// Bytes that one table of a level covers, level 0 mapping pages.
const fn coverage(level: u32) -> u64 {
    (PAGE as u64) << (9 * (level + 1))
}

/// Most bytes of tables that map `start..end`.
pub(crate) const fn bytes(start: u64, end: u64) -> u64 {
    let mut tables = 0;
    let mut level = 0;
    while level < LEVELS {
        tables += (end - 1) / coverage(level) - start / coverage(level) + 1;
        level += 1;
    }
    tables * PAGE as u64
}

/// Tables being built.
pub(crate) struct Tables<'a> {
    memory: &'a mut [[u64; ENTRIES]],
    /// Physical address of the first table, the root.
    base: u64,
    used: usize,
}

impl<'a> Tables<'a> {
    /// Tables in zeroed `memory`, which lies at physical address `base`.
    pub(crate) fn new(memory: &'a mut [[u64; ENTRIES]], base: u64) -> Self {
        Self {
            memory,
            base,
            used: 1,
        }
    }

    /// Maps a span of whole pages onto itself.
    ///
    /// # Panics
    /// If the tables are full: [`bytes`] gives their size.
    pub(crate) fn map(&mut self, span: Span, access: Access) {
        let flags = match access {
            Access::Execute => 0,
            Access::Read => NO_EXECUTE,
            Access::Write => NO_EXECUTE | WRITABLE,
        };
        self.map_to(span, span.address, flags, access != Access::Write);
    }

    /// As [`Self::map`], writable, and by large pages as far as the span fills them: fewer tables, and fewer TLB
    /// misses once the host has large pages there too.
    pub(crate) fn map_large(&mut self, span: Span) {
        self.map_to(span, span.address, NO_EXECUTE | WRITABLE, true);
    }

    /// Maps the doorbells to an address without memory, uncached.
    pub(crate) fn map_doorbells(&mut self, span: Span, physical: u64) {
        let flags = NO_EXECUTE | WRITABLE | CACHE_DISABLE;
        self.map_to(span, physical, flags, false);
    }

    fn map_to(&mut self, span: Span, mut physical: u64, flags: u64, large: bool) {
        let flags = flags | PRESENT | USER | ACCESSED | DIRTY;
        let mut address = span.address;
        while address < span.end() {
            if large
                && (address | physical).is_multiple_of(LARGE_PAGE)
                && span.end() - address >= LARGE_PAGE
            {
                let table = self.table(address, 1);
                let entry = (address / LARGE_PAGE) as usize % ENTRIES;
                self.memory[table][entry] = physical | flags | LARGE;
                physical += LARGE_PAGE;
                address += LARGE_PAGE;
                continue;
            }
            let table = self.table(address, 0);
            let first = (address / PAGE as u64) as usize % ENTRIES;
            let pages = ((span.end() - address) / PAGE as u64) as usize;
            for entry in &mut self.memory[table][first..ENTRIES.min(first + pages)] {
                *entry = physical | flags;
                physical += PAGE as u64;
                address += PAGE as u64;
            }
        }
    }

    /// Index of the table of level `lowest` that maps `address`; created if absent.
    fn table(&mut self, address: u64, lowest: u32) -> usize {
        let mut table = 0;
        for level in (lowest + 1..LEVELS).rev() {
            let entry = (address / coverage(level - 1)) as usize % ENTRIES;
            let existing = self.memory[table][entry];
            table = if existing & PRESENT != 0 {
                (((existing & ADDRESS) - self.base) / PAGE as u64) as usize
            } else {
                let new = self.used;
                self.used += 1;
                let at = self.base + (new * PAGE) as u64;
                self.memory[table][entry] = at | PRESENT | WRITABLE | USER | ACCESSED;
                new
            };
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x1000_0000;

    fn walk(memory: &[[u64; ENTRIES]], address: u64) -> Option<u64> {
        let mut table = 0;
        for level in (0..LEVELS - 1).rev() {
            let entry = memory[table][(address / coverage(level)) as usize % ENTRIES];
            if entry & PRESENT == 0 {
                return None;
            }
            table = (((entry & ADDRESS) - BASE) / PAGE as u64) as usize;
        }
        let entry = memory[table][(address / PAGE as u64) as usize % ENTRIES];
        (entry & PRESENT != 0).then_some(entry)
    }

    #[test]
    fn pages_map_onto_themselves_with_their_access() {
        let text = Span {
            address: 0x40_0000,
            length: 0x3000,
        };
        let data = Span {
            address: 0x40_4000,
            length: 3 << 30,
        };
        let length = bytes(text.address, data.end()) as usize / PAGE;
        let mut memory = vec![[0; ENTRIES]; length];
        let mut tables = Tables::new(&mut memory, BASE);
        tables.map(text, Access::Execute);
        tables.map(data, Access::Write);
        assert_eq!(tables.used, length);
        for address in [text.address, text.end() - PAGE as u64] {
            let entry = walk(&memory, address).unwrap();
            assert_eq!(entry & ADDRESS, address);
            assert_eq!(entry & (WRITABLE | NO_EXECUTE | USER), USER);
        }
        assert_eq!(walk(&memory, text.end()), None);
        for address in [data.address, data.end() - PAGE as u64, 1 << 30] {
            let entry = walk(&memory, address).unwrap();
            assert_eq!(entry & ADDRESS, address);
            assert_eq!(
                entry & (WRITABLE | NO_EXECUTE | USER),
                WRITABLE | NO_EXECUTE | USER
            );
        }
        assert_eq!(walk(&memory, data.end()), None);
    }

    #[test]
    fn what_is_not_written_or_is_to_be_maps_by_large_pages() {
        let text = Span {
            address: 0x40_0000,
            length: 2 * LARGE_PAGE,
        };
        let data = Span {
            address: 0x80_0000,
            length: LARGE_PAGE,
        };
        let region = Span {
            address: 0xa0_0000,
            length: LARGE_PAGE + PAGE as u64,
        };
        let mut memory = vec![[0; ENTRIES]; 8];
        let mut tables = Tables::new(&mut memory, BASE);
        tables.map(text, Access::Execute);
        tables.map(data, Access::Write);
        tables.map_large(region);
        // Root, two levels below it, tables of pages for the data and for the end of the region.
        assert_eq!(tables.used, 5);
        let entries = memory[2];
        for (i, entry) in entries.iter().enumerate().skip(2).take(2) {
            assert_eq!(entry & (LARGE | WRITABLE | NO_EXECUTE), LARGE);
            assert_eq!(entry & ADDRESS, i as u64 * LARGE_PAGE);
        }
        assert_eq!(entries[4] & LARGE, 0);
        let writable = LARGE | WRITABLE | NO_EXECUTE;
        assert_eq!(entries[5] & writable, writable);
        let last = walk(&memory, region.end() - 1).unwrap();
        assert_eq!(last & writable, WRITABLE | NO_EXECUTE);
        assert_eq!(walk(&memory, region.end()), None);
    }
}
