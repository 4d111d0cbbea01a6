//! Edits of headers: what several elements do to each packet alike, done in one go.
//!
//! Many elements move the start of the data, write fixed bytes near it, or do one of a few things to
//! an IPv4 header. Each can say so as an [`Edit`], and edits that follow each other are put
//! [together](Edit::then): a batch is then gone over once instead of once for each element, and a
//! header is read and written once. An edit is for usual packets only. Where one is not, nothing is
//! done to it, and the elements have to look at it themselves.

use core::ptr::{read_unaligned, write_unaligned};

use crate::anno::FIX_IP_SRC;
use crate::buffer::{META, Packet};
use crate::checksum::Sum;
use crate::wire::checksum_after_ttl;
use crate::{Ahead, Facts};

/// Bytes of an IPv4 header without options.
const HEADER: usize = 20;
/// Bytes in front of the header that can be written.
const FRONT: usize = 16;
/// Most bytes that the data's start moves by: so that places in a buffer stay small numbers.
const FAR: usize = 4096;
/// Packets between two looks [ahead](Ahead), and lines asked for then.
const FEW: usize = 8;
/// Where the data of usual packets starts at the latest, in bytes from the buffer's start.
const START_MAX: u32 = 0x8000;

/// What edits do to IPv4 headers, in the order in which an edit does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    Nothing,
    Check,
    Hop,
    Store,
    Sum,
}

/// Bytes that are written over others, as words in memory: where a bit of `mask` is set, that of
/// `value` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Patch {
    mask: u64,
    value: u64,
}

impl Patch {
    /// Writes `byte` at place `at`.
    fn put(&mut self, at: usize, byte: u8) {
        let with = |word: u64, byte| {
            let mut bytes = word.to_ne_bytes();
            bytes[at] = byte;
            u64::from_ne_bytes(bytes)
        };
        self.mask = with(self.mask, 0xff);
        self.value = with(self.value, byte);
    }

    /// This one, and `next` after it.
    fn then(self, next: Patch) -> Patch {
        Patch {
            mask: self.mask | next.mask,
            value: self.value & !next.mask | next.value,
        }
    }

    #[inline(always)]
    fn apply(self, word: u64) -> u64 {
        word & !self.mask | self.value
    }
}

/// What is done to each packet of a batch alike.
///
/// All places are counted in bytes from where the data starts before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Where the data starts afterwards.
    shift: i32,
    /// Where the data may end at the earliest.
    reach: i32,
    /// Bytes of headroom that are needed.
    room: i32,
    /// Where the IPv4 header is that is looked at, or what is written is near.
    anchor: Option<i32>,
    /// The network header must be marked there already.
    marked: bool,
    first: Stage,
    last: Stage,
    /// The header is checked and marked; if it says so, its checksum too.
    check: Option<bool>,
    /// The time to live is decremented.
    hop: bool,
    /// The checksum is computed.
    sum: bool,
    /// What is written to the header.
    header: [Patch; 3],
    /// What is written in front of it.
    front: [Patch; 2],
    /// Where the MAC header is marked.
    mac: Option<i32>,
}

/// What was seen of packets whose header was checked.
#[derive(Clone, Copy, Default)]
struct Seen {
    longest: u32,
    /// See [`Meta::came`]. 0: as usual.
    came: u8,
}

impl Edit {
    /// Nothing is done.
    pub const NOTHING: Edit = Edit {
        shift: 0,
        reach: 0,
        room: 0,
        anchor: None,
        marked: false,
        first: Stage::Nothing,
        last: Stage::Nothing,
        check: None,
        hop: false,
        sum: false,
        header: [Patch { mask: 0, value: 0 }; 3],
        front: [Patch { mask: 0, value: 0 }; 2],
        mac: None,
    };

    /// `count` bytes are removed in front; `None` if these are many.
    pub fn pull(count: usize) -> Option<Edit> {
        let count = i32::try_from(count).ok().filter(|n| *n <= FAR as i32)?;
        Some(Edit {
            shift: count,
            reach: count,
            ..Edit::NOTHING
        })
    }

    /// `count` bytes are added in front, with what is there; `None` if these are many.
    pub fn push(count: usize) -> Option<Edit> {
        let count = i32::try_from(count).ok().filter(|n| *n <= FAR as i32)?;
        Some(Edit {
            shift: -count,
            room: count,
            ..Edit::NOTHING
        })
    }

    /// `bytes` are added in front, and marked as the MAC header; `None` if these are many.
    pub fn encapsulate(bytes: &[u8]) -> Option<Edit> {
        let mut front = [Patch::default(); 2];
        let start = FRONT.checked_sub(bytes.len())?;
        for (i, byte) in bytes.iter().enumerate() {
            front[(start + i) / 8].put((start + i) % 8, *byte);
        }
        let shift = -(bytes.len() as i32);
        Some(Edit {
            shift,
            room: FRONT as i32,
            anchor: Some(0),
            first: Stage::Store,
            last: Stage::Store,
            front,
            mac: Some(shift),
            ..Edit::NOTHING
        })
    }

    /// `bytes` are written over those that start `offset` bytes into the data; `None` if that is
    /// not near the start.
    pub fn store(offset: usize, bytes: &[u8]) -> Option<Edit> {
        let end = offset.checked_add(bytes.len())?;
        if end > HEADER {
            return None;
        }
        let mut header = [Patch::default(); 3];
        for (i, byte) in (offset..end).zip(bytes) {
            header[i / 8].put(i % 8, *byte);
        }
        Some(Edit {
            reach: HEADER as i32,
            anchor: Some(0),
            first: Stage::Store,
            last: Stage::Store,
            header,
            ..Edit::NOTHING
        })
    }

    /// The IPv4 header that starts `offset` bytes into the data is found right, with its checksum
    /// if `checksum` says so; marked; the packet cut to its length; and the destination address
    /// annotation set. `None` if that is far off.
    pub fn check_ip(offset: usize, checksum: bool) -> Option<Edit> {
        let anchor = i32::try_from(offset).ok().filter(|n| *n <= FAR as i32)?;
        Some(Edit {
            reach: anchor + HEADER as i32,
            anchor: Some(anchor),
            first: Stage::Check,
            last: Stage::Check,
            check: Some(checksum),
            ..Edit::NOTHING
        })
    }

    /// The time to live in the IPv4 header, which is marked, is decremented and the checksum
    /// brought up to date.
    pub fn take_hop() -> Edit {
        Edit {
            reach: HEADER as i32,
            anchor: Some(0),
            marked: true,
            first: Stage::Hop,
            last: Stage::Hop,
            hop: true,
            ..Edit::NOTHING
        }
    }

    /// The checksum of the IPv4 header, which is marked, is computed.
    pub fn sum_ip() -> Edit {
        Edit {
            reach: HEADER as i32,
            anchor: Some(0),
            marked: true,
            first: Stage::Sum,
            last: Stage::Sum,
            sum: true,
            ..Edit::NOTHING
        }
    }

    /// This edit, and `next` after it; `None` if that is not one edit.
    #[inline(never)]
    pub fn then(&self, next: &Edit) -> Option<Edit> {
        // What is done to a header has its order. Only what is written may be written again.
        let in_order = self.last < next.first
            || next.first == Stage::Nothing
            || (self.last, next.first) == (Stage::Store, Stage::Store);
        let by = self.shift;
        let behind = next.anchor.map(|anchor| anchor + by);
        let apart = matches!((self.anchor, behind), (Some(one), Some(other)) if one != other);
        let shift = by + next.shift;
        if !in_order || apart || shift.unsigned_abs() as usize > FAR {
            return None;
        }
        let joined = Edit {
            shift,
            reach: self.reach.max(next.reach + by),
            room: self.room.max(next.room - by),
            anchor: self.anchor.or(behind),
            marked: self.marked || (next.marked && self.check.is_none()),
            first: match self.first {
                Stage::Nothing => next.first,
                first => first,
            },
            last: self.last.max(next.last),
            check: self.check.or(next.check),
            hop: self.hop || next.hop,
            sum: self.sum || next.sum,
            header: core::array::from_fn(|i| self.header[i].then(next.header[i])),
            front: core::array::from_fn(|i| self.front[i].then(next.front[i])),
            mac: next.mac.map(|mac| mac + by).or(self.mac),
        };
        // Whether there are options is asked once.
        let looks = joined.check.is_some() || joined.hop || joined.sum;
        let changes = joined.header[0].mask.to_ne_bytes()[0] != 0;
        (!looks || !changes).then_some(joined)
    }

    /// The facts that hold of all packets on which this was done, whatever they are.
    pub fn learns(&self) -> Facts {
        let at_start = self.anchor == Some(self.shift);
        let known = Facts::NO_OPTIONS.and(Facts::DESTINATION.if_so(at_start));
        known.if_so(self.check.is_some())
    }

    /// The same, ready to be done.
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
        let lowest = META as u32 + self.room.max(0) as u32;
        Plan {
            nothing: *self == Edit::NOTHING,
            parts: parts.map(|(part, _)| part).sum(),
            lowest,
            span: START_MAX.saturating_sub(lowest),
            reach: (self.reach.max(0) as u64) << 32,
            // What comes after a check finds a packet that was cut.
            least: (self.reach - anchor).max(HEADER as i32) as u32,
            shift: (i64::from(self.shift) - (i64::from(self.shift) << 32)) as u64,
            start: self.shift as u32,
            anchor: anchor as u32,
            right: self.check == Some(true),
            mac: self.mac.unwrap_or(0) as u32,
            header: self.header,
            front: self.front,
            learns: self.learns(),
        }
    }
}

/// Parts of a plan, as bits.
mod part {
    /// A header is checked.
    pub const CHECK: u32 = 1;
    /// The time to live is decremented.
    pub const HOP: u32 = 1 << 1;
    /// The header is written over.
    pub const PATCH: u32 = 1 << 2;
    /// Of the header only what stands around the time to live.
    pub const NARROW: u32 = 1 << 3;
    /// The checksum is computed.
    pub const SUM: u32 = 1 << 4;
    /// What is in front of the header is written over.
    pub const FRONT: u32 = 1 << 5;
    /// The MAC header is marked.
    pub const MAC: u32 = 1 << 6;
    /// The network header has to be marked at the anchor.
    pub const MARKED: u32 = 1 << 7;
    /// Which parts there are is not known when the loop is compiled.
    pub const ANY: u32 = 1 << 31;
}

/// An [`Edit`] in the form in which it is quickest done.
///
/// Places may be negative: they are added wrapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    nothing: bool,
    /// See [`part`].
    parts: u32,
    /// Where the data has to start: in `span` bytes from here on, counted from the buffer's start.
    lowest: u32,
    span: u32,
    /// The least data's [extent](Meta::extent).
    reach: u64,
    /// The least length that a checked header may say.
    least: u32,
    /// What is added to the data's extent.
    shift: u64,
    /// Where the data starts afterwards.
    start: u32,
    anchor: u32,
    /// Whether a checked header's checksum is looked at.
    right: bool,
    mac: u32,
    header: [Patch; 3],
    front: [Patch; 2],
    learns: Facts,
}

impl Plan {
    /// Does it to packets until one is not usual. Returns to how many, and what is known of them
    /// by it.
    #[inline]
    pub(crate) fn run(&self, packets: &mut [Packet], ahead: &mut Ahead) -> (usize, Facts) {
        if self.nothing {
            return (packets.len(), Facts::NONE);
        }
        // The usual ones are compiled for themselves.
        const FORWARD: u32 = part::HOP | part::NARROW | part::MARKED;
        const ENCAPSULATE: u32 = part::FRONT | part::MAC | part::NARROW;
        const RETURN: u32 = FORWARD | ENCAPSULATE | part::PATCH | part::SUM;
        const CHECK: u32 = part::CHECK | part::NARROW;
        const FORWARD_AND_ENCAPSULATE: u32 = FORWARD | ENCAPSULATE;
        let mut seen = Seen::default();
        let done = match self.parts {
            part::NARROW => self.run_as::<{ part::NARROW }>(packets, &mut seen, ahead),
            CHECK => self.run_as::<CHECK>(packets, &mut seen, ahead),
            FORWARD => self.run_as::<FORWARD>(packets, &mut seen, ahead),
            FORWARD_AND_ENCAPSULATE => {
                self.run_as::<FORWARD_AND_ENCAPSULATE>(packets, &mut seen, ahead)
            }
            RETURN => self.run_as::<RETURN>(packets, &mut seen, ahead),
            _ => self.run_as::<{ part::ANY }>(packets, &mut seen, ahead),
        };
        if self.parts & part::CHECK == 0 {
            return (done, Facts::NONE);
        }
        let fits = seen.longest as usize <= Facts::ETHERNET;
        let usual = Facts::UNICAST.and(Facts::SOURCE_STAYS);
        let came = match seen.came {
            0 => usual,
            _ => came(&packets[..done]),
        };
        let found = came.and(Facts::FITS_ETHERNET.if_so(fits));
        (done, found.and(self.learns))
    }

    #[inline(never)]
    fn run_as<const PARTS: u32>(
        &self,
        packets: &mut [Packet],
        seen: &mut Seen,
        ahead: &mut Ahead,
    ) -> usize {
        let mut all = Seen::default();
        let mut done = 0;
        'all: for some in packets.chunks_mut(FEW) {
            ahead.step(FEW);
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

    /// Whether one of some parts is there.
    #[inline(always)]
    fn has<const PARTS: u32>(&self, parts: u32) -> bool {
        match PARTS {
            part::ANY => self.parts & parts != 0,
            _ => PARTS & parts != 0,
        }
    }

    /// Does it to one packet. False, and nothing done, if it is not a usual one.
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
        // SAFETY: `fits` says that the data starts at least as far behind the metadata as anything
        // in front of it is looked at or written, and reaches as far as anything behind its start
        // is. So all of it lies between the metadata and the data's end, in a buffer that is ours.
        unsafe {
            let header = buffer.add(anchor as usize);
            if self.has::<PARTS>(part::CHECK | part::HOP | part::PATCH | part::SUM) {
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
            }
            if self.has::<PARTS>(part::FRONT) {
                for (i, patch) in self.front.iter().enumerate() {
                    let place = header.sub(FRONT).add(8 * i).cast::<u64>();
                    write_unaligned(place, patch.apply(read_unaligned(place)));
                }
            }
        }
        if checks {
            seen.came |= meta.came();
        }
        if self.has::<PARTS>(part::MAC) {
            meta.mark_mac(start.wrapping_add(self.mac) as u16);
        }
        meta.set_extent(after);
        true
    }

    /// The length that a header says, if it is right and has no options.
    #[inline(always)]
    fn checked(&self, words: [u64; 3]) -> Option<u32> {
        let first = words[0].to_ne_bytes();
        let total = u32::from(u16::from_be_bytes([first[2], first[3]]));
        let valid = !self.right | Sum::of_words(words).is_multiple();
        ((first[0] == 0x45) & (total >= self.least) & valid).then_some(total)
    }

    /// Changes a header as is wanted; false if it is not a usual one.
    #[inline(always)]
    fn changed<const PARTS: u32>(&self, words: &mut [u64; 3]) -> bool {
        let sums = self.has::<PARTS>(part::SUM);
        if self.has::<PARTS>(part::HOP) {
            let mut bytes = words[1].to_ne_bytes();
            if bytes[0] <= 1 {
                return false;
            }
            bytes[0] -= 1;
            if !sums {
                let sum = checksum_after_ttl(u16::from_be_bytes([bytes[2], bytes[3]]));
                [bytes[2], bytes[3]] = sum.to_be_bytes();
            }
            words[1] = u64::from_ne_bytes(bytes);
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

/// What is known of how packets came, some of which did not come as usual.
#[cold]
fn came(packets: &[Packet]) -> Facts {
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
/// They are there to be read.
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
/// They are there to be written.
#[inline(always)]
unsafe fn store(header: *mut u8, words: [u64; 3]) {
    // SAFETY: as the caller says.
    unsafe {
        write_unaligned(header.cast(), words[0]);
        write_unaligned(header.add(8).cast(), words[1]);
        write_unaligned(header.add(16).cast(), words[2] as u32);
    }
}
