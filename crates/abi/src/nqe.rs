//! The network queue element (NQE): a socket call, or the answer to one, between an application and
//! the network stack module (NSM) that serves its sockets. NQEs cross [rings](crate::ring); payload
//! stands in memory that both sides map, and the element names its place.
//!
//! 32 bytes, with the fields and widths of NetKernel (Niu et al., 2020), in an order that keeps each
//! in one 64-bit word:
//!
//! | Byte | Field |
//! |---|---|
//! | 0 | operation |
//! | 1 | tenant |
//! | 2 | queue set |
//! | 3 | reserved |
//! | 4–7 | socket |
//! | 8–15 | the operation's data |
//! | 16–23 | place of the payload, in bytes from the start of the shared memory |
//! | 24–27 | length of the payload, in bytes |
//! | 28–31 | reserved |
//!
//! Reserved bytes are written as 0 and not read.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::ring::RingSlot;

/// One element, by value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nqe {
    /// What is asked, or answered.
    pub operation: u8,
    /// Whose socket it is. The switch of NQEs sets it: what an application writes here is not read.
    pub tenant: u8,
    /// The queue set of the tenant or of the NSM.
    pub queue_set: u8,
    /// The socket, by the number that the receiving side gave it.
    pub socket: u32,
    /// An address, an option, an error or a count, as the operation has it.
    pub data: u64,
    /// Where the payload starts in the shared memory, in bytes.
    pub place: u64,
    /// Length of the payload, in bytes.
    pub len: u32,
}

const _: () = assert!(size_of::<<Nqe as RingSlot>::Shared>() == 32);

impl Nqe {
    const fn words(self) -> [u64; 4] {
        [
            self.operation as u64
                | (self.tenant as u64) << 8
                | (self.queue_set as u64) << 16
                | (self.socket as u64) << 32,
            self.data,
            self.place,
            self.len as u64,
        ]
    }

    const fn from_words([head, data, place, len]: [u64; 4]) -> Nqe {
        Nqe {
            operation: head as u8,
            tenant: (head >> 8) as u8,
            queue_set: (head >> 16) as u8,
            socket: (head >> 32) as u32,
            data,
            place,
            len: len as u32,
        }
    }
}

// SAFETY: only atomics in it.
unsafe impl RingSlot for Nqe {
    type Shared = [AtomicU64; 4];

    #[inline]
    fn load(shared: &[AtomicU64; 4]) -> Nqe {
        Nqe::from_words(shared.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    #[inline]
    fn store(self, shared: &[AtomicU64; 4]) {
        for (word, value) in shared.iter().zip(self.words()) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::ptr::NonNull;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::ring::{Consumer, Producer, ring_bytes_of};

    const SLOTS: u32 = 64;

    #[repr(align(64))]
    #[derive(Clone, Copy)]
    struct Line(#[allow(dead_code)] [u64; 8]);

    fn sides(memory: &mut [Line]) -> (Producer<Nqe>, Consumer<Nqe>) {
        assert_eq!(size_of_val(memory), ring_bytes_of::<Nqe>(SLOTS));
        let base = NonNull::from(&mut memory[0]).cast();
        // SAFETY: aligned and long enough; the tests keep the memory, and open each side once.
        unsafe { (Producer::open(base, SLOTS), Consumer::open(base, SLOTS)) }
    }

    fn memory() -> Vec<Line> {
        std::vec![Line([0; 8]); ring_bytes_of::<Nqe>(SLOTS) / size_of::<Line>()]
    }

    #[test]
    fn every_field_has_its_own_bytes() {
        let nqe = Nqe {
            operation: 1,
            tenant: 2,
            queue_set: 3,
            socket: 0x0706_0504,
            data: 0x0f0e_0d0c_0b0a_0908,
            place: 0x1716_1514_1312_1110,
            len: 0x1b1a_1918,
        };
        let bytes: Vec<u8> = nqe.words().iter().flat_map(|w| w.to_le_bytes()).collect();
        let expected = [
            1, 2, 3, 0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
            24, 25, 26, 27, 0, 0, 0, 0,
        ];
        assert_eq!(bytes, expected);
    }

    proptest! {
        /// Whatever bytes a writer leaves, reserved ones among them, an element is read from them
        /// that is written as it was read.
        #[test]
        fn any_bytes_are_an_element(words in any::<[u64; 4]>()) {
            let nqe = Nqe::from_words(words);
            let expected = [words[0] & !0xff00_0000, words[1], words[2], words[3] & 0xffff_ffff];
            prop_assert_eq!(nqe.words(), expected);
        }

        #[test]
        fn elements_come_out_in_order_and_whole(
            batches in proptest::collection::vec((0..80u32, 0..80u32), 1..100),
        ) {
            let mut memory = memory();
            let (mut producer, mut consumer) = sides(&mut memory);
            let element = |n: u64| Nqe {
                operation: n as u8,
                socket: n as u32,
                data: n << 20,
                place: !n,
                len: n as u32,
                ..Nqe::default()
            };
            let (mut put, mut taken) = (0, 0);
            for (more, fewer) in batches {
                let more = producer.free(more).unwrap().min(more);
                for i in 0..more {
                    producer.fill(i, element(put + u64::from(i)));
                }
                producer.publish(more);
                put += u64::from(more);
                let fewer = consumer.filled(fewer).unwrap().min(fewer);
                for i in 0..fewer {
                    prop_assert_eq!(consumer.peek(i), element(taken + u64::from(i)));
                }
                consumer.release(fewer);
                taken += u64::from(fewer);
            }
            prop_assert_eq!(u64::from(consumer.filled(SLOTS).unwrap()), put - taken);
        }
    }
}
