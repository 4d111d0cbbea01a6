//! Edits in the form in which they are applied.

use core::ptr::{read_unaligned, write_unaligned};

use super::{Edit, FRONT, HEADER, Patch};
use crate::anno::FIX_IP_SRC;
use crate::buffer::{META, Packet};
use crate::checksum::Sum;
use crate::wire::after_hop;
use crate::{Facts, Prefetcher};

/// Packets between two [steps](Prefetcher::step), and lines prefetched by each.
const STEP: usize = 8;
/// Highest offset of a covered packet's data, in bytes from the buffer's start.
const START_MAX: u32 = 0x8000;

/// Facts of the packets whose header was checked.
#[derive(Clone, Copy, Default)]
struct Seen {
    longest: u32,
    /// See [`Meta::arrival`]: 0 if that is 0 for all.
    arrival: u8,
}

/// Parts of a plan, as bits.
mod part {
    /// Checks the header.
    pub const CHECK: u32 = 1;
    /// Decrements the time to live.
    pub const HOP: u32 = 1 << 1;
    /// Overwrites bytes of the header.
    pub const PATCH: u32 = 1 << 2;
    /// Writes only the word with the time to live.
    pub const NARROW: u32 = 1 << 3;
    /// Computes the checksum.
    pub const SUM: u32 = 1 << 4;
    /// Overwrites bytes in front of the header.
    pub const FRONT: u32 = 1 << 5;
    /// Marks the MAC header, and the network header at the anchor.
    pub const MAC: u32 = 1 << 6;
    /// Requires a network header marked at the anchor.
    pub const MARKED: u32 = 1 << 7;
    /// The parts are not known when the loop is compiled.
    pub const ANY: u32 = 1 << 31;
}

/// An [`Edit`] in the form in which it is applied fastest.
///
/// Offsets may be negative: they are added wrapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    nothing: bool,
    /// See [`part`].
    parts: u32,
    /// The data must start within `span` bytes from here on, counted from the buffer's start.
    lowest: u32,
    span: u32,
    /// Least [extent](Meta::extent) of the data.
    reach: u64,
    /// Least total length in a checked header.
    min_length: u32,
    /// Added to the data's extent.
    shift: u64,
    /// Start of the data afterwards.
    start: u32,
    anchor: u32,
    /// Whether a checked header's checksum is verified.
    verifies: bool,
    mac: u32,
    header: [Patch; 3],
    front: [Patch; 2],
    learns: Facts,
}

impl Edit {
    /// The edit in the form in which it is applied.
    #[inline(never)]
    pub fn plan(&self) -> Plan {
        let anchor = self.anchor.unwrap_or(0);
        let written = |patches: &[Patch]| patches.iter().any(|patch| patch.mask != 0);
        let parts = [
            (part::CHECK, self.check.is_some()),
            (part::HOP, self.hop),
            (part::PATCH, written(&self.header)),
            (
                part::NARROW,
                !written(&self.header[..1]) && !written(&self.header[2..]),
            ),
            (part::SUM, self.sum),
            (part::FRONT, written(&self.front)),
            (part::MAC, self.mac.is_some()),
            (part::MARKED, self.marked),
        ];
        let parts = parts.into_iter().filter(|(_, there)| *there);
        let lowest = META as u32 + self.headroom.max(0) as u32;
        Plan {
            nothing: *self == Edit::NOTHING,
            parts: parts.map(|(part, _)| part).sum(),
            lowest,
            span: START_MAX.saturating_sub(lowest),
            reach: (self.reach.max(0) as u64) << 32,
            // Operations after a check find a truncated packet.
            min_length: (self.reach - anchor).max(HEADER as i32) as u32,
            shift: (i64::from(self.shift) - (i64::from(self.shift) << 32)) as u64,
            start: self.shift as u32,
            anchor: anchor as u32,
            verifies: self.check == Some(true),
            mac: self.mac.unwrap_or(0) as u32,
            header: self.header,
            front: self.front,
            learns: self.learns(),
        }
    }
}

impl Plan {
    /// Edits packets up to the first that is not covered. Returns how many, and the facts found of
    /// them.
    #[inline]
    pub(crate) fn run(
        &self,
        packets: &mut [Packet],
        prefetcher: &mut Prefetcher,
    ) -> (usize, Facts) {
        if self.nothing {
            return (packets.len(), Facts::NONE);
        }
        // Common sets of parts have loops of their own.
        const FORWARD: u32 = part::HOP | part::NARROW | part::MARKED;
        const ENCAPSULATE: u32 = part::FRONT | part::MAC | part::NARROW;
        const RETURN: u32 = FORWARD | ENCAPSULATE | part::PATCH | part::SUM;
        const CHECK: u32 = part::CHECK | part::NARROW;
        const FORWARD_AND_ENCAPSULATE: u32 = FORWARD | ENCAPSULATE;
        let mut seen = Seen::default();
        let done = match self.parts {
            part::NARROW => self.run_as::<{ part::NARROW }>(packets, &mut seen, prefetcher),
            CHECK => self.run_as::<CHECK>(packets, &mut seen, prefetcher),
            FORWARD => self.run_as::<FORWARD>(packets, &mut seen, prefetcher),
            FORWARD_AND_ENCAPSULATE => {
                self.run_as::<FORWARD_AND_ENCAPSULATE>(packets, &mut seen, prefetcher)
            }
            RETURN => self.run_as::<RETURN>(packets, &mut seen, prefetcher),
            _ => self.run_as::<{ part::ANY }>(packets, &mut seen, prefetcher),
        };
        if self.parts & part::CHECK == 0 {
            return (done, Facts::NONE);
        }
        let fits = seen.longest as usize <= Facts::ETHERNET;
        let arrival = match seen.arrival {
            0 => Facts::UNICAST.and(Facts::SOURCE_STAYS),
            _ => arrival_facts(&packets[..done]),
        };
        let found = arrival.and(Facts::FITS_ETHERNET.if_so(fits));
        (done, found.and(self.learns))
    }

    #[inline(never)]
    fn run_as<const PARTS: u32>(
        &self,
        packets: &mut [Packet],
        seen: &mut Seen,
        prefetcher: &mut Prefetcher,
    ) -> usize {
        let mut all = Seen::default();
        let mut done = 0;
        'all: for some in packets.chunks_mut(STEP) {
            prefetcher.step(STEP);
            for packet in some {
                if !self.one::<PARTS>(packet, &mut all) {
                    break 'all;
                }
                done += 1;
            }
        }
        *seen = all;
        done
    }

    /// Whether the plan has one of `parts`.
    #[inline(always)]
    fn has<const PARTS: u32>(&self, parts: u32) -> bool {
        match PARTS {
            part::ANY => self.parts & parts != 0,
            _ => PARTS & parts != 0,
        }
    }

    /// Edits one packet. False, and no change, if it is not covered.
    #[inline(always)]
    fn one<const PARTS: u32>(&self, packet: &mut Packet, seen: &mut Seen) -> bool {
        let buffer = packet.raw().as_ptr().cast::<u8>();
        let meta = packet.meta_mut();
        let extent = meta.extent();
        let start = extent as u32;
        let anchor = start.wrapping_add(self.anchor);
        let fits = (start.wrapping_sub(self.lowest) <= self.span) & (extent >= self.reach);
        let checks = self.has::<PARTS>(part::CHECK);
        if !fits
            || (self.has::<PARTS>(part::MARKED) && u32::from(meta.network) != anchor)
            || (checks && meta.is_extended())
        {
            return false;
        }
        let mut after = extent.wrapping_add(self.shift);
        // SAFETY: `fits` says that all bytes read or written in front of the data lie behind the
        // metadata, and all others before the data's end. The buffer is ours.
        unsafe {
            let header = buffer.add(anchor as usize);
            if self.has::<PARTS>(part::CHECK | part::PATCH | part::SUM) {
                let mut words = load(header);
                if checks {
                    let Some(total) = self.checked(words) else {
                        return false;
                    };
                    let end = self.anchor.wrapping_add(total);
                    if u64::from(end) > extent >> 32 {
                        return false;
                    }
                    let length = end.wrapping_sub(self.start);
                    after = u64::from(start.wrapping_add(self.start)) | u64::from(length) << 32;
                    seen.longest = seen.longest.max(total);
                }
                let destination = words[2] as u32;
                if !self.changed::<PARTS>(&mut words) {
                    return false;
                }
                if !self.has::<PARTS>(part::NARROW) {
                    store(header, words);
                } else if self.has::<PARTS>(part::HOP | part::PATCH | part::SUM) {
                    write_unaligned(header.add(8).cast(), words[1]);
                }
                if checks {
                    meta.mark(anchor as u16, HEADER as u16, destination);
                }
            } else if self.has::<PARTS>(part::HOP) {
                let word = header.add(8).cast();
                let Some(after) = after_hop(read_unaligned(word)) else {
                    return false;
                };
                write_unaligned(word, after);
            }
            if self.has::<PARTS>(part::FRONT) {
                for (i, patch) in self.front.iter().enumerate() {
                    let word = header.sub(FRONT).add(8 * i).cast::<u64>();
                    write_unaligned(word, patch.apply(read_unaligned(word)));
                }
            }
        }
        if checks {
            seen.arrival |= meta.arrival();
        }
        if self.has::<PARTS>(part::MAC) {
            meta.mark_mac(start.wrapping_add(self.mac) as u16, anchor as u16);
        }
        meta.set_extent(after);
        true
    }

    /// The total length in a header, if the header is valid and has no options.
    #[inline(always)]
    fn checked(&self, words: [u64; 3]) -> Option<u32> {
        let first = words[0].to_ne_bytes();
        let total = u32::from(u16::from_be_bytes([first[2], first[3]]));
        let valid = !self.verifies | Sum::of_words(words).is_multiple();
        ((first[0] == 0x45) & (total >= self.min_length) & valid).then_some(total)
    }

    /// Changes a header; false if it is not covered.
    #[inline(always)]
    fn changed<const PARTS: u32>(&self, words: &mut [u64; 3]) -> bool {
        let sums = self.has::<PARTS>(part::SUM);
        if self.has::<PARTS>(part::HOP) {
            let word = u64::from_le(words[1]);
            let Some(after) = after_hop((word as u32).to_le()) else {
                return false;
            };
            words[1] = (word >> 32 << 32 | u64::from(u32::from_le(after))).to_le();
        }
        if self.has::<PARTS>(part::PATCH) {
            words[1] = self.header[1].apply(words[1]);
            if !self.has::<PARTS>(part::NARROW) {
                words[0] = self.header[0].apply(words[0]);
                words[2] = self.header[2].apply(words[2]);
            }
        }
        if sums {
            if words[0].to_ne_bytes()[0] & 0x0f != 5 {
                return false;
            }
            // The first byte is not 0, so neither is the sum.
            let bare = u64::from_ne_bytes([0xff, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff]);
            words[1] &= bare;
            let sum = Sum::of_words(*words).checksum().to_be_bytes();
            words[1] |= u64::from_ne_bytes([0, 0, sum[0], sum[1], 0, 0, 0, 0]);
        }
        true
    }
}

/// The facts of how packets arrived, some of which have a nonzero [`Meta::arrival`].
#[cold]
fn arrival_facts(packets: &[Packet]) -> Facts {
    let to_many = packets
        .iter()
        .any(|packet| packet.packet_type().is_to_many());
    let fixes = packets.iter().any(|packet| packet.anno(FIX_IP_SRC) != 0);
    let unicast = Facts::UNICAST.if_so(!to_many);
    unicast.and(Facts::SOURCE_STAYS.if_so(!fixes))
}

/// Reads a header's 20 bytes: two words and a half.
///
/// # Safety
/// The bytes are readable.
#[inline(always)]
unsafe fn load(header: *const u8) -> [u64; 3] {
    // SAFETY: as the caller says.
    unsafe {
        [
            read_unaligned(header.cast()),
            read_unaligned(header.add(8).cast()),
            u64::from(read_unaligned(header.add(16).cast::<u32>())),
        ]
    }
}

/// Writes a header's 20 bytes.
///
/// # Safety
/// The bytes are writable.
#[inline(always)]
unsafe fn store(header: *mut u8, words: [u64; 3]) {
    // SAFETY: as the caller says.
    unsafe {
        write_unaligned(header.cast(), words[0]);
        write_unaligned(header.add(8).cast(), words[1]);
        write_unaligned(header.add(16).cast(), words[2] as u32);
    }
}
