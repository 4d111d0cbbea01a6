//! Header edits: changes that are the same for every packet, of several elements in one pass.
//!
//! Many elements move the start of the data, write fixed bytes near it, or do one of a few things to
//! an IPv4 header. Each declares that as an [`Edit`]. Consecutive edits are [joined](Edit::then), so
//! that a batch is traversed once, and each header is read and written once. An edit covers plain
//! packets only. It leaves any other packet unchanged, and the elements process that packet
//! themselves.

mod plan;

pub use plan::Plan;

use crate::Facts;

/// Bytes of an IPv4 header without options.
const HEADER: usize = 20;
/// Bytes in front of the header that can be written.
const FRONT: usize = 16;
/// Most bytes that the data's start moves by, so that offsets in a buffer stay small numbers.
const SHIFT_MAX: usize = 4096;

/// Operations on an IPv4 header, in the order in which an edit does them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    Nothing,
    Check,
    Hop,
    Store,
    Sum,
}

/// Bytes to overwrite, as a word in memory: bits of `mask` are replaced by `value`'s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Patch {
    mask: u64,
    value: u64,
}

impl Patch {
    /// Writes `byte` at offset `at`.
    fn put(&mut self, at: usize, byte: u8) {
        let with = |word: u64, byte| {
            let mut bytes = word.to_ne_bytes();
            bytes[at] = byte;
            u64::from_ne_bytes(bytes)
        };
        self.mask = with(self.mask, 0xff);
        self.value = with(self.value, byte);
    }

    /// This patch, and `next` after it.
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

/// An edit of every packet of a batch.
///
/// All offsets are in bytes from the start of the data before the edit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Start of the data afterwards.
    shift: i32,
    /// Least end of the data.
    reach: i32,
    /// Bytes of headroom that are needed.
    headroom: i32,
    /// The IPv4 header that is read, or near which bytes are written.
    anchor: Option<i32>,
    /// The network header must already be marked there.
    marked: bool,
    first: Stage,
    last: Stage,
    /// The header is checked and marked; its checksum is checked too if true.
    check: Option<bool>,
    /// The time to live is decremented.
    hop: bool,
    /// The checksum is computed.
    sum: bool,
    /// Bytes written to the header.
    header: [Patch; 3],
    /// Bytes written in front of it.
    front: [Patch; 2],
    /// Where the MAC header is marked. The network header is marked at the anchor then.
    mac: Option<i32>,
}

impl Edit {
    /// The edit that changes nothing.
    pub const NOTHING: Edit = Edit {
        shift: 0,
        reach: 0,
        headroom: 0,
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

    /// Removes `count` bytes in front; `None` if more than 4096.
    pub fn pull(count: usize) -> Option<Edit> {
        let count = i32::try_from(count)
            .ok()
            .filter(|n| *n <= SHIFT_MAX as i32)?;
        Some(Edit {
            shift: count,
            reach: count,
            ..Edit::NOTHING
        })
    }

    /// Adds `count` bytes in front, with the content of the headroom; `None` if more than 4096.
    pub fn push(count: usize) -> Option<Edit> {
        let count = i32::try_from(count)
            .ok()
            .filter(|n| *n <= SHIFT_MAX as i32)?;
        Some(Edit {
            shift: -count,
            headroom: count,
            ..Edit::NOTHING
        })
    }

    /// Adds `bytes` in front and marks them as the MAC header, and what is behind them as the network header; `None` if
    /// more than 16.
    pub fn encapsulate(bytes: &[u8]) -> Option<Edit> {
        let mut front = [Patch::default(); 2];
        let start = FRONT.checked_sub(bytes.len())?;
        for (i, byte) in bytes.iter().enumerate() {
            front[(start + i) / 8].put((start + i) % 8, *byte);
        }
        let shift = -(bytes.len() as i32);
        Some(Edit {
            shift,
            headroom: FRONT as i32,
            anchor: Some(0),
            first: Stage::Store,
            last: Stage::Store,
            front,
            mac: Some(shift),
            ..Edit::NOTHING
        })
    }

    /// Overwrites bytes from `offset` on; `None` if these end more than 20 bytes into the data.
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

    /// Checks the IPv4 header `offset` bytes into the data, with its checksum if `checksum`; marks
    /// it; truncates the packet to its length; sets the destination address annotation. `None` if
    /// `offset` is more than 4096.
    pub fn check_ip(offset: usize, checksum: bool) -> Option<Edit> {
        let anchor = i32::try_from(offset)
            .ok()
            .filter(|n| *n <= SHIFT_MAX as i32)?;
        Some(Edit {
            reach: anchor + HEADER as i32,
            anchor: Some(anchor),
            first: Stage::Check,
            last: Stage::Check,
            check: Some(checksum),
            ..Edit::NOTHING
        })
    }

    /// Decrements the time to live in the marked IPv4 header and updates the checksum.
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

    /// Computes the checksum of the marked IPv4 header.
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

    /// This edit, and `next` after it; `None` if one edit cannot do both.
    #[inline(never)]
    pub fn then(&self, next: &Edit) -> Option<Edit> {
        // Operations on a header have an order. Only written bytes may be written again.
        let in_order = self.last < next.first
            || next.first == Stage::Nothing
            || (self.last, next.first) == (Stage::Store, Stage::Store);
        let by = self.shift;
        let behind = next.anchor.map(|anchor| anchor + by);
        let apart = matches!((self.anchor, behind), (Some(one), Some(other)) if one != other);
        let shift = by + next.shift;
        if !in_order || apart || shift.unsigned_abs() as usize > SHIFT_MAX {
            return None;
        }
        let joined = Edit {
            shift,
            reach: self.reach.max(next.reach + by),
            headroom: self.headroom.max(next.headroom - by),
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
        // The check for options reads the first byte once.
        let looks = joined.check.is_some() || joined.hop || joined.sum;
        let changes = joined.header[0].mask.to_ne_bytes()[0] != 0;
        (!looks || !changes).then_some(joined)
    }

    /// The facts that hold for every edited packet.
    pub fn learns(&self) -> Facts {
        let at_start = self.anchor == Some(self.shift);
        let known = Facts::NO_OPTIONS.and(Facts::DESTINATION.if_so(at_start));
        known.if_so(self.check.is_some())
    }
}
