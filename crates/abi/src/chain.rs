//! Chains: frames over several slots.
//!
//! A frame that is longer than a buffer continues in the next slots. All slots but the last have
//! [`flags::MORE`]. The first slot carries the frame's offload, and its buffer holds all headers. A
//! producer publishes a chain as a whole, so a reader never waits for the rest of one. An unfinished
//! chain is a [`Violation`], as is one of more than [`SLOTS`] slots or [`BYTES`] bytes. These rules
//! bound the cost of one frame to its reader.

use crate::region::{FRAME_MAX, PART_MAX};
use crate::ring::{Consumer, SLOTS_MIN, Slot, Violation, flags};

/// Most slots of one frame: as many as the shortest ring has.
pub const SLOTS: u32 = SLOTS_MIN;
/// Longest frame, in bytes: the longest IP packet behind an Ethernet header and two VLAN tags.
pub const BYTES: usize = 65_535 + 14 + 2 * 4;

const _: () = assert!(slots_for(BYTES) <= SLOTS);

/// Slots of a frame of `len` bytes, whose first part starts at
/// [`RECEIVE_OFFSET`](crate::region::RECEIVE_OFFSET) and whose others start at
/// [`PART_OFFSET`](crate::region::PART_OFFSET).
pub const fn slots_for(len: usize) -> u32 {
    1 + len.saturating_sub(FRAME_MAX).div_ceil(PART_MAX) as u32
}

/// A chain that breaks the rules. Its slots are released with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The broken rule.
    pub violation: Violation,
    /// Slots of it that were read, the first included. The next frame follows.
    pub slots: u32,
}

/// Reads the further slots of a frame whose `first` slot is the `at`-th of `filled`: each exactly
/// once, in order, and passes them to `part`. Returns how many slots the frame has, the first
/// included. The caller checks each slot's buffer ([`Region::frame`](crate::region::Region::frame)).
pub fn follow(
    consumer: &Consumer,
    at: u32,
    filled: u32,
    first: Slot,
    mut part: impl FnMut(Slot),
) -> Result<u32, Broken> {
    let (mut last, mut slots, mut bytes) = (first, 1, usize::from(first.len));
    while last.flags & flags::MORE != 0 {
        let broken = Broken {
            violation: Violation::Chain,
            slots,
        };
        if slots >= SLOTS || filled.saturating_sub(at) <= slots {
            return Err(broken);
        }
        last = consumer.peek(at.wrapping_add(slots));
        slots += 1;
        bytes += usize::from(last.len);
        if bytes > BYTES {
            return Err(Broken { slots, ..broken });
        }
        part(last);
    }
    Ok(slots)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::ptr::NonNull;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::ring::{Producer, ring_bytes};

    const RING: u32 = 128;

    #[repr(align(64))]
    #[derive(Clone)]
    struct Line(#[allow(dead_code)] [u64; 8]);

    /// A ring in memory of the test's own.
    fn ring() -> (Vec<Line>, Producer, Consumer) {
        let memory = std::vec![Line([0; 8]); ring_bytes(RING) / 64];
        let base = NonNull::from(&memory[0]).cast();
        // SAFETY: aligned and long enough; the caller keeps the memory; each side is opened once.
        let (producer, consumer) =
            unsafe { (Producer::open(base, RING), Consumer::open(base, RING)) };
        (memory, producer, consumer)
    }

    fn slot(len: u16, more: bool) -> Slot {
        Slot {
            len,
            flags: if more { flags::MORE } else { 0 },
            ..Slot::spent(0)
        }
    }

    #[test]
    fn the_longest_frame_fits_the_shortest_ring() {
        assert_eq!(slots_for(60), 1);
        assert_eq!(slots_for(FRAME_MAX), 1);
        assert_eq!(slots_for(FRAME_MAX + 1), 2);
        assert_eq!(slots_for(FRAME_MAX + PART_MAX + 1), 3);
        assert_eq!(slots_for(BYTES), 33);
    }

    proptest! {
        /// A chain is read to its end if it has one within the bounds, and no slot behind that.
        #[test]
        fn a_chain_is_read_to_its_end_and_no_further(
            lens in proptest::collection::vec(0u16..4000, 1..RING as usize),
            ends in proptest::collection::vec(prop::bool::weighted(0.03), RING as usize),
            start in 0u32..RING,
        ) {
            let (_memory, mut producer, mut consumer) = ring();
            // The slots may wrap around the ring's end.
            producer.publish(start);
            prop_assert_eq!(consumer.filled(start), Ok(start));
            consumer.release(start);
            prop_assert_eq!(producer.free(RING), Ok(RING));
            for (i, len) in lens.iter().enumerate() {
                producer.fill(i as u32, slot(*len, !ends[i]));
            }
            let filled = lens.len() as u32;
            producer.publish(filled);
            prop_assert_eq!(consumer.filled(RING), Ok(filled));
            let mut at = 0;
            while at < filled {
                let (mut parts, first) = (Vec::new(), consumer.peek(at));
                let result = follow(&consumer, at, filled, first, |slot| parts.push(slot.len));
                let rest = &lens[at as usize..];
                let end = ends[at as usize..rest.len() + at as usize].iter().position(|end| *end);
                let bytes = |n: usize| rest[..n].iter().map(|len| usize::from(*len)).sum::<usize>();
                let fits = |n: &usize| *n <= SLOTS as usize && (*n == 1 || bytes(*n) <= BYTES);
                match end.map(|end| end + 1).filter(fits) {
                    Some(n) => {
                        prop_assert_eq!(result, Ok(n as u32));
                        prop_assert_eq!(&parts[..], &rest[1..n]);
                        at += n as u32;
                    }
                    None => {
                        let broken = result.unwrap_err();
                        prop_assert_eq!(broken.violation, Violation::Chain);
                        prop_assert!(broken.slots >= 1 && broken.slots <= SLOTS.min(filled - at));
                        prop_assert!(parts.len() < broken.slots as usize);
                        at += broken.slots;
                    }
                }
            }
            consumer.release(filled);
        }
    }
}
