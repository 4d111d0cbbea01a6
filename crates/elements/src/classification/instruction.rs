//! One instruction of a decision graph: a masked comparison of four bytes, and
//! the target of each outcome.
//!
//! The predicates (`implies` and its siblings) relate the outcomes of two
//! instructions. Short packets make that subtle: a packet that ends before the
//! tested bytes takes a fixed branch, which says nothing about the bytes.
//! `known` is the number of bytes that are certain to exist when the
//! instruction runs.

use super::headers::{Area, Headers};
use core::fmt;

/// Target of a branch: a positive value is an instruction's index; zero or
/// below is the negated output number, or one of these constants.
pub(super) type Jump = i32;
/// Drop the packet.
pub(super) const DROP: Jump = -i32::MAX;
/// While a graph is built: this expression does not match.
pub(super) const FAIL: Jump = DROP + 1;
/// While a graph is built: this expression matches.
pub(super) const SUCCESS: Jump = DROP + 2;

/// Offsets of an IP program count from the MAC header (less two, so that the
/// words behind a 14-byte header are aligned), from here the network header…
pub(super) const NETWORK: u16 = 256;
/// …and from here the transport header.
pub(super) const TRANSPORT: u16 = 512;

/// How offsets in a program map to packet bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Offset − `align` is an offset into the packet's data.
    Data {
        /// The alignment offset: 0 to 3.
        align: u16,
    },
    /// Three areas, told apart by [`NETWORK`] and [`TRANSPORT`].
    Ip,
}

impl Layout {
    /// The area of `offset`, and the offset within it (negative where a word
    /// begins before its area; the bytes there are never compared).
    #[inline]
    pub(super) fn locate(self, offset: u16) -> (Area, i32) {
        match self {
            Layout::Data { align } => (Area::Front, i32::from(offset) - i32::from(align)),
            Layout::Ip if offset >= TRANSPORT => (Area::Transport, i32::from(offset - TRANSPORT)),
            Layout::Ip if offset >= NETWORK => (Area::Network, i32::from(offset - NETWORK)),
            Layout::Ip => (Area::Front, i32::from(offset) - 2),
        }
    }

    /// What the text form subtracts from offsets.
    pub(super) fn align(self) -> u16 {
        match self {
            Layout::Data { align } => align,
            Layout::Ip => 0,
        }
    }
}

/// Four bytes at `offset`, masked, compared with `value`; both as read in
/// network order, so the first byte is the most significant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub offset: u16,
    pub mask: u32,
    pub value: u32,
    /// A packet too short for the test counts as matching.
    pub short_yes: bool,
}

impl Test {
    pub(super) fn new(offset: u16, value: u32, mask: u32) -> Test {
        Test {
            offset,
            mask,
            value: value & mask,
            short_yes: false,
        }
    }

    /// Matches every packet.
    pub(super) const ALWAYS: Test = Test {
        offset: 0,
        mask: 0,
        value: 0,
        short_yes: false,
    };

    /// How many bytes from the offset on the test reads.
    pub(super) fn span(&self) -> u32 {
        (4 - self.mask.trailing_zeros() / 8).max(1)
    }

    /// The offset behind the last byte that the test reads; 0 for a test that
    /// reads none.
    pub(super) fn required_length(&self) -> u32 {
        if self.mask == 0 {
            return 0;
        }
        u32::from(self.offset) + self.span()
    }

    /// Runs the test on a packet.
    #[inline]
    pub(super) fn matches(&self, layout: Layout, headers: &Headers<'_>) -> bool {
        if self.mask == 0 {
            return true;
        }
        let (area, at) = layout.locate(self.offset);
        let bytes = headers.area(area);
        if (at + self.span() as i32) > bytes.len() as i32 {
            return self.short_yes;
        }
        let byte = |i: i32| bytes.get((at + i) as usize).copied().unwrap_or(0);
        let word = match bytes
            .get(at.max(0) as usize..)
            .and_then(<[u8]>::first_chunk)
        {
            Some(chunk) if at >= 0 => u32::from_be_bytes(*chunk),
            _ => u32::from_be_bytes([byte(0), byte(1), byte(2), byte(3)]),
        };
        word & self.mask == self.value
    }
}

/// A test with its two branches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instruction {
    pub test: Test,
    /// `[no, yes]`.
    pub jumps: [Jump; 2],
}

impl Instruction {
    pub(super) fn new(test: Test) -> Instruction {
        Instruction {
            test,
            jumps: [FAIL, SUCCESS],
        }
    }

    pub(super) fn yes(&self) -> Jump {
        self.jumps[1]
    }

    pub(super) fn no(&self) -> Jump {
        self.jumps[0]
    }

    /// Whether taking `branch` leaves the packet's length open only in ways
    /// that `next`, resolved to `next_branch`, agrees with.
    fn short_agrees(
        &self,
        branch: bool,
        next: &Instruction,
        next_branch: bool,
        known: u32,
    ) -> bool {
        let (a, b) = (&self.test, &next.test);
        if a.short_yes != branch || u32::from(a.offset) + 4 <= known {
            return true;
        }
        let required = a.required_length();
        required <= known || (required <= b.required_length() && next_branch == b.short_yes)
    }

    /// The bits compared by both, when that is all that `next` compares.
    fn covers(&self, next: &Instruction) -> bool {
        self.test.mask & next.test.mask == next.test.mask
    }

    /// A packet that matches `self` must match `next`.
    pub(super) fn implies(&self, next: &Instruction, known: u32) -> bool {
        if next.test.mask == 0 {
            return true;
        }
        self.test.offset == next.test.offset
            && self.short_agrees(true, next, true, known)
            && self.covers(next)
            && self.test.value & next.test.mask == next.test.value
    }

    /// A packet that does not match `self` must match `next`: both test the
    /// same single bit for different values.
    pub(super) fn not_implies(&self, next: &Instruction, known: u32) -> bool {
        if next.test.mask == 0 {
            return true;
        }
        self.test.offset == next.test.offset
            && self.short_agrees(false, next, true, known)
            && self.test.mask & self.test.mask.wrapping_sub(1) == 0
            && self.test.mask == next.test.mask
            && self.test.value != next.test.value
    }

    /// A packet that matches `self` cannot match `next`.
    pub(super) fn implies_not(&self, next: &Instruction, known: u32) -> bool {
        next.test.mask != 0
            && self.test.offset == next.test.offset
            && self.short_agrees(true, next, false, known)
            && self.covers(next)
            && self.test.value & next.test.mask != next.test.value
    }

    /// A packet that does not match `self` cannot match `next`.
    pub(super) fn not_implies_not(&self, next: &Instruction, known: u32) -> bool {
        if self.test.mask == 0 {
            return true;
        }
        self.test.offset == next.test.offset
            && self.short_agrees(false, next, false, known)
            && next.covers(self)
            && self.test.value == next.test.value & self.test.mask
    }

    /// Every bit pattern that matches one can be extended to match both.
    pub(super) fn compatible(&self, next: &Instruction, consider_short: bool) -> bool {
        let (a, b) = (&self.test, &next.test);
        if a.mask == 0 || b.mask == 0 {
            return true;
        }
        if a.offset != b.offset
            || (consider_short
                && a.short_yes != b.short_yes
                && a.required_length() < b.required_length())
        {
            return false;
        }
        let both = a.mask & b.mask;
        a.value & both == b.value & both
    }

    /// The bit in which `self` and `next` (its no branch) differ, when
    /// together they are one test that leaves that bit out.
    pub(super) fn generalizable_bit(&self, next: &Instruction) -> Option<u32> {
        let (a, b) = (&self.test, &next.test);
        let bit = a.value ^ b.value;
        let pair = a.offset != 0
            && b.offset == a.offset
            && a.mask != 0
            && b.mask == a.mask
            && (a.short_yes || !b.short_yes)
            && self.yes() == next.yes()
            && bit & bit.wrapping_sub(1) == 0;
        if !pair {
            return None;
        }
        let without = Test::new(a.offset, a.value & !bit, a.mask & !bit);
        (without.required_length() == a.required_length()).then_some(bit)
    }

    /// A test of a single bit can be inverted.
    pub(super) fn flippable(&self) -> bool {
        self.test.mask.is_power_of_two()
    }

    /// Tests for the other value of the single bit, branches swapped.
    pub(super) fn flip(&mut self) {
        self.test.value ^= self.test.mask;
        self.test.short_yes = !self.test.short_yes;
        self.jumps.swap(0, 1);
    }
}

struct JumpText(Jump);

impl fmt::Display for JumpText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DROP => f.write_str("[X]"),
            FAIL => f.write_str("[-]"),
            SUCCESS => f.write_str("[+]"),
            output @ ..=0 => write!(f, "[{}]", -i64::from(output)),
            step => write!(f, "step {step}"),
        }
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:3}/{:08x}%{:08x}  yes->{}  no->{}",
            self.test.offset,
            self.test.value,
            self.test.mask,
            JumpText(self.yes()),
            JumpText(self.no())
        )?;
        if self.test.short_yes {
            f.write_str("  short->yes")?;
        }
        Ok(())
    }
}
