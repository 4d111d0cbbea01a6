extern crate std;
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec::Vec;
use std::{thread, vec};

const CAPACITY: usize = 64;
/// Bytes around the buffer that nothing may change.
const MARGIN: usize = 64;

struct Memory {
    cursors: Cursors,
    bytes: Vec<u8>,
}

impl Memory {
    fn new() -> Self {
        Self {
            cursors: Cursors::default(),
            bytes: vec![0xee; CAPACITY + 2 * MARGIN],
        }
    }

    fn ring(&mut self) -> ByteRing<'_> {
        // SAFETY: the middle of the vector, which nothing else touches while the ring lives.
        unsafe {
            let buffer = NonNull::new_unchecked(self.bytes.as_mut_ptr().add(MARGIN));
            ByteRing::new(&self.cursors, buffer, CAPACITY)
        }
    }

    fn margins_untouched(&self) -> bool {
        self.bytes[..MARGIN]
            .iter()
            .chain(&self.bytes[MARGIN + CAPACITY..])
            .all(|&b| b == 0xee)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<u8>),
    WriteWhole(Vec<u8>),
    Read(usize),
    Produced(u64),
    Consumed(u64),
}

fn honest() -> impl Strategy<Value = Step> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..100).prop_map(Step::Write),
        prop::collection::vec(any::<u8>(), 0..100).prop_map(Step::WriteWhole),
        (0usize..100).prop_map(Step::Read),
    ]
}

fn hostile() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => honest(),
        1 => prop_oneof![any::<u64>(), 0u64..200].prop_map(Step::Produced),
        1 => prop_oneof![any::<u64>(), 0u64..200].prop_map(Step::Consumed),
    ]
}

proptest! {
    #[test]
    fn bytes_come_out_as_they_went_in(steps in prop::collection::vec(honest(), 0..60)) {
        let mut memory = Memory::new();
        let ring = memory.ring();
        let (mut writer, mut reader) = (ring.producer(), ring.consumer());
        let mut model = VecDeque::new();
        for step in steps {
            match step {
                Step::Write(bytes) => {
                    let wrote = writer.write_lossy(&bytes).unwrap();
                    prop_assert_eq!(wrote, bytes.len().min(CAPACITY - model.len()));
                    model.extend(&bytes[..wrote]);
                }
                Step::WriteWhole(bytes) => {
                    let middle = bytes.len() / 2;
                    let fits = bytes.len() <= CAPACITY - model.len();
                    let (a, b) = bytes.split_at(middle);
                    prop_assert_eq!(writer.write_whole(&[a, b]).unwrap(), fits);
                    if fits {
                        model.extend(&bytes);
                    }
                }
                Step::Read(length) => {
                    let mut bytes = vec![0; length];
                    let got = reader.read(&mut bytes).unwrap();
                    let expected: Vec<u8> = model.drain(..length.min(model.len())).collect();
                    prop_assert_eq!(&bytes[..got], &expected[..]);
                }
                _ => unreachable!(),
            }
        }
        prop_assert!(memory.margins_untouched());
    }

    #[test]
    fn a_hostile_peer_is_contained(steps in prop::collection::vec(hostile(), 0..60)) {
        let mut memory = Memory::new();
        let ring = memory.ring();
        let (mut writer, mut reader) = (ring.producer(), ring.consumer());
        for step in steps {
            match step {
                Step::Write(bytes) => {
                    let _ = writer.write_lossy(&bytes);
                }
                Step::WriteWhole(bytes) => {
                    let _ = writer.write_whole(&[&bytes]);
                }
                Step::Read(length) => {
                    let mut bytes = vec![0; length];
                    let _ = reader.read(&mut bytes);
                    let _ = reader.peek(3, &mut bytes);
                }
                Step::Produced(value) => ring.cursors.produced.store(value, Ordering::Relaxed),
                Step::Consumed(value) => ring.cursors.consumed.store(value, Ordering::Relaxed),
            }
        }
        prop_assert!(memory.margins_untouched());
    }
}

#[test]
fn an_impossible_cursor_is_reported() {
    let mut memory = Memory::new();
    let ring = memory.ring();
    ring.cursors
        .produced
        .store(CAPACITY as u64 + 1, Ordering::Relaxed);
    assert_eq!(ring.consumer().available(), Err(Corrupt));
    ring.cursors.produced.store(0, Ordering::Relaxed);
    ring.cursors.consumed.store(1, Ordering::Relaxed);
    assert_eq!(ring.producer().write_lossy(b"x"), Err(Corrupt));
}

#[test]
fn what_is_lost_is_counted() {
    let mut memory = Memory::new();
    let ring = memory.ring();
    let text = [b'a'; CAPACITY + 10];
    assert_eq!(ring.producer().write_lossy(&text), Ok(CAPACITY));
    assert_eq!(ring.consumer().lost(), 10);
}

#[test]
fn two_threads_agree() {
    const TOTAL: usize = 200_000;
    let mut memory = Memory::new();
    let ring = memory.ring();
    let (mut writer, mut reader) = (ring.producer(), ring.consumer());
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut next = 0usize;
            while next < TOTAL {
                let chunk: Vec<u8> = (next..TOTAL.min(next + 37))
                    .map(|n| (n % 251) as u8)
                    .collect();
                let free = writer.free().unwrap().min(chunk.len());
                next += writer.write_lossy(&chunk[..free]).unwrap();
                if free == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut seen = 0usize;
        let mut bytes = [0; 41];
        while seen < TOTAL {
            let got = reader.read(&mut bytes).unwrap();
            for &byte in &bytes[..got] {
                assert_eq!(byte, (seen % 251) as u8);
                seen += 1;
            }
            if got == 0 {
                thread::yield_now();
            }
        }
    });
}
