extern crate std;

use std::collections::VecDeque;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const SLOTS: u32 = 64;

/// A ring in memory of the test's own, as aligned 64-byte lines.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code)] [u64; 8]);

struct Memory(Vec<Line>);

impl Memory {
    /// A ring whose cursors both stand at `cursor` and whose slots hold buffers 0, 1, ….
    fn new(cursor: u32) -> Memory {
        let memory = Memory(std::vec![Line([0; 8]); ring_bytes(SLOTS) / 64]);
        let ring = memory.ring();
        ring.header()
            .producer
            .cursor
            .store(cursor, Ordering::Relaxed);
        ring.header()
            .consumer
            .cursor
            .store(cursor, Ordering::Relaxed);
        for i in 0..SLOTS {
            ring.store(cursor.wrapping_add(i), Slot::spent(i));
        }
        memory
    }

    fn base(&self) -> NonNull<u8> {
        NonNull::from(&self.0[0]).cast()
    }

    fn ring(&self) -> Ring {
        // SAFETY: aligned, long enough; the tests keep the memory.
        unsafe { Ring::at(self.base(), SLOTS) }
    }

    fn sides(&self) -> (Producer, Consumer) {
        // SAFETY: as above; each side is opened once.
        unsafe {
            (
                Producer::open(self.base(), SLOTS),
                Consumer::open(self.base(), SLOTS),
            )
        }
    }
}

#[test]
fn a_slot_survives_its_two_words() {
    let slot = Slot {
        buffer: 0xdead_beef,
        offset: 1,
        len: 2,
        flags: 3,
        checksum_start: 4,
        checksum_offset: 5,
        segment_size: 6,
    };
    assert_eq!(Slot::from_words(slot.words()), slot);
}

#[test]
fn a_sleeper_is_seen_by_the_other_side() {
    let memory = Memory::new(0);
    let (producer, consumer) = memory.sides();
    assert!(!producer.consumer_sleeps() && !consumer.producer_sleeps());
    consumer.set_sleeps(true);
    producer.set_sleeps(true);
    assert!(producer.consumer_sleeps() && consumer.producer_sleeps());
    consumer.set_sleeper(Some(3));
    assert_eq!(producer.consumer_sleeper(), Some(3));
    assert_eq!(producer.take_consumer_sleeper(), Some(3));
    assert_eq!(producer.take_consumer_sleeper(), None);
    assert_eq!(consumer.take_producer_sleeper(), Some(0));
    assert!(!consumer.producer_sleeps());
    consumer.set_sleeper(None);
    assert_eq!(producer.consumer_sleeper(), None);
}

#[derive(Clone, Debug)]
enum Step {
    Fill(u32),
    Drain(u32),
}

proptest! {
    #[test]
    fn frames_come_out_in_order_and_no_buffer_is_lost(
        start in any::<u32>(),
        steps in proptest::collection::vec(
            prop_oneof![(0..80u32).prop_map(Step::Fill), (0..80u32).prop_map(Step::Drain)],
            1..200,
        ),
    ) {
        let memory = Memory::new(start);
        let (mut producer, mut consumer) = memory.sides();
        let mut next = 0u16;
        let mut in_flight = VecDeque::new();
        for step in steps {
            match step {
                Step::Fill(wanted) => {
                    let n = producer.free(wanted).unwrap().min(wanted);
                    for i in 0..n {
                        let spent = producer.peek(i);
                        producer.fill(i, Slot { len: next, ..Slot::spent(spent.buffer) });
                        in_flight.push_back(next);
                        next = next.wrapping_add(1);
                    }
                    producer.publish(n);
                }
                Step::Drain(wanted) => {
                    let n = consumer.filled(wanted).unwrap().min(wanted);
                    for i in 0..n {
                        let slot = consumer.peek(i);
                        prop_assert_eq!(Some(slot.len), in_flight.pop_front());
                        consumer.replace(i, slot.buffer);
                    }
                    consumer.release(n);
                }
            }
            prop_assert_eq!(consumer.filled(SLOTS).unwrap() as usize, in_flight.len());
            prop_assert_eq!(producer.free(SLOTS).unwrap() as usize,
                SLOTS as usize - in_flight.len());
            let mut buffers: Vec<u32> =
                (0..SLOTS).map(|i| memory.ring().load(i).buffer).collect();
            buffers.sort_unstable();
            prop_assert!(buffers.into_iter().eq(0..SLOTS));
        }
    }

    #[test]
    fn a_cursor_is_believed_as_far_as_the_ring_is_long(start in any::<u32>(), lie in any::<u32>()) {
        let memory = Memory::new(start);
        let (mut producer, mut consumer) = memory.sides();
        let header = memory.ring();
        header.header().producer.cursor.store(lie, Ordering::Relaxed);
        let claimed = lie.wrapping_sub(start);
        let filled = consumer.filled(SLOTS);
        prop_assert_eq!(filled, if claimed <= SLOTS { Ok(claimed) } else { Err(Violation::Cursor) });
        header.header().consumer.cursor.store(lie, Ordering::Relaxed);
        let used = start.wrapping_sub(lie);
        let free = producer.free(SLOTS + 1);
        prop_assert_eq!(free, if used <= SLOTS { Ok(SLOTS - used) } else { Err(Violation::Cursor) });
    }
}
