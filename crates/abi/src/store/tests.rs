extern crate std;
use super::*;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

struct Memory {
    words: Words,
    buffers: [Vec<u8>; 2],
}

impl Memory {
    fn new(fill: u8) -> Self {
        Self {
            words: Words::default(),
            buffers: [vec![fill; RING_BYTES], vec![fill; RING_BYTES]],
        }
    }

    fn channel(&mut self) -> Channel<'_> {
        let buffers = self
            .buffers
            .each_mut()
            .map(|bytes| NonNull::new(bytes.as_mut_ptr()).expect("a vector is not at 0"));
        // SAFETY: as long as rings, and borrowed as long as the channel lives.
        unsafe { Channel::new(&self.words, buffers) }
    }

    /// Every shared word becomes `value`, as if the other side wrote it.
    fn scribble(words: &Words, value: u64) {
        for word in [&words.connection, &words.waits, &words.accepted] {
            word.store(value as u32, Ordering::Relaxed);
        }
        // SAFETY: cursors are atomic words, of which every bit pattern is valid.
        unsafe {
            for cursors in [&words.requests, &words.replies] {
                let at = core::ptr::from_ref(cursors).cast::<u64>().cast_mut();
                at.write_volatile(value);
                at.add(8).write_volatile(value.rotate_left(9));
            }
        }
    }
}

#[test]
fn a_connection_begins_when_both_sides_know_its_number() {
    let mut memory = Memory::new(0);
    let channel = memory.channel();
    let mut guest = channel.guest();
    assert!(!guest.look() && !guest.is_connected());
    let mut store = channel.connect();
    assert!(!store.is_wanted());
    guest.want();
    assert!(store.is_wanted());
    let mut bytes = [0; 8];
    // The guest has not seen the connection: neither is anything read nor written.
    assert!(!store.has_requests());
    assert_eq!((store.read(&mut bytes), store.write(b"x")), (Ok(0), Ok(0)));
    assert!(guest.is_new() && guest.look() && guest.is_connected());
    assert!(!guest.look());
    assert_eq!(guest.write(b"ask"), Ok(3));
    assert!(store.has_requests());
    assert_eq!(store.read(&mut bytes), Ok(3));
    assert_eq!(&bytes[..3], b"ask");
    assert_eq!(store.write(b"answer"), Ok(6));
    assert_eq!(guest.read(&mut bytes), Ok(6));
    assert!(!guest.store_waits());
    store.set_waits(true);
    assert!(guest.store_waits());
}

#[test]
fn a_new_connection_finds_empty_rings() {
    let mut memory = Memory::new(0);
    let channel = memory.channel();
    let mut guest = channel.guest();
    let mut store = channel.connect();
    guest.look();
    guest.write(&[1; 100]).unwrap();
    store.write(&[2; 200]).unwrap();
    store.set_waits(true);
    // The store is killed, and another one begins.
    let mut store = channel.connect();
    assert!(!store.has_requests());
    // What the guest writes before it looks is lost, also if it would not fit; it reads nothing.
    assert!(guest.write(&[3; RING_BYTES]).is_ok());
    assert_eq!((guest.available(), guest.free()), (Ok(0), Ok(0)));
    assert_eq!(guest.read(&mut [0; 8]), Ok(0));
    assert!(!store.has_requests());
    assert!(guest.look() && !guest.store_waits());
    assert_eq!((guest.available(), guest.free()), (Ok(0), Ok(RING_BYTES)));
    assert!(!store.has_requests());
    guest.write(b"a").unwrap();
    let mut bytes = [0; 8];
    assert_eq!(store.read(&mut bytes), Ok(1));
}

#[test]
fn a_guest_amid_its_work_takes_no_harm_from_connections_that_begin() {
    const CONNECTIONS: usize = 5_000;
    let mut memory = Memory::new(0);
    let channel = memory.channel();
    let words = channel.words;
    let store = Ends(channel);
    let over = std::sync::atomic::AtomicBool::new(false);
    let harm = std::thread::scope(|threads| {
        threads.spawn(|| {
            let Ends(channel) = &store;
            let mut bytes = [0; 50];
            for _ in 0..CONNECTIONS {
                let mut end = channel.connect();
                let mut moved = 0;
                while moved < 100 && !over.load(Ordering::Acquire) {
                    let read = end.read(&mut bytes).unwrap();
                    moved += end.write(&bytes[..read]).unwrap();
                }
            }
            over.store(true, Ordering::Release);
        });
        let mut guest = channel.guest();
        let mut bytes = [0; 100];
        let mut turn = || {
            guest.look();
            guest.write(&bytes[..30])?;
            guest.read(&mut bytes)?;
            guest.free().and(guest.available())
        };
        let mut harm = None;
        while harm.is_none() && !over.load(Ordering::Acquire) {
            harm = turn().err();
        }
        over.store(true, Ordering::Release);
        harm
    });
    assert_eq!(harm, None);
    // Cursors that make no sense in a connection that stays are the store's fault.
    let mut guest = channel.guest();
    let _store = channel.connect();
    assert!(guest.look());
    let number = words.connection.load(Ordering::Relaxed);
    Memory::scribble(words, u64::MAX - 5);
    words.connection.store(number, Ordering::Relaxed);
    assert_eq!(guest.read(&mut [0; 8]), Err(Corrupt));
}

/// A channel that another thread uses.
struct Ends<'a>(Channel<'a>);

// SAFETY: the two sides of a channel are made to be used at once; each thread has one.
unsafe impl Sync for Ends<'_> {}

#[derive(Clone, Debug)]
enum Step {
    Connect,
    Look,
    Ask(usize),
    Answer(usize),
    Take(usize),
    Receive(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let length = 0..RING_BYTES + 100;
    prop_oneof![
        1 => Just(Step::Connect),
        3 => Just(Step::Look),
        4 => length.clone().prop_map(Step::Ask),
        4 => length.clone().prop_map(Step::Answer),
        4 => length.clone().prop_map(Step::Take),
        4 => length.prop_map(Step::Receive),
    ]
}

proptest! {
    /// Within a connection each side reads what the other wrote, in order; of another connection, nothing.
    #[test]
    fn streams_of_a_connection_come_whole(steps in prop::collection::vec(step(), 0..80)) {
        let mut memory = Memory::new(0);
        let channel = memory.channel();
        let (mut guest, mut store) = (channel.guest(), channel.connect());
        let (mut asked, mut answered) = (vec![], vec![]);
        let mut next = 0u8;
        let mut fill = |bytes: &mut Vec<u8>| for byte in bytes.iter_mut() {
            next = next.wrapping_add(1);
            *byte = next;
        };
        for step in steps {
            match step {
                Step::Connect => {
                    store = channel.connect();
                    asked.clear();
                    answered.clear();
                }
                Step::Look => _ = guest.look(),
                Step::Ask(length) if !guest.is_new() => {
                    let mut bytes = vec![0; length];
                    fill(&mut bytes);
                    let wrote = guest.write(&bytes).unwrap();
                    asked.extend_from_slice(&bytes[..wrote]);
                }
                Step::Answer(length) => {
                    let mut bytes = vec![0; length];
                    fill(&mut bytes);
                    let wrote = store.write(&bytes).unwrap();
                    answered.extend_from_slice(&bytes[..wrote]);
                }
                Step::Take(length) => {
                    let mut bytes = vec![0; length];
                    let read = store.read(&mut bytes).unwrap();
                    let expected: Vec<u8> = asked.drain(..read).collect();
                    prop_assert_eq!(&bytes[..read], &expected[..]);
                }
                Step::Receive(length) if !guest.is_new() => {
                    let mut bytes = vec![0; length];
                    let read = guest.read(&mut bytes).unwrap();
                    let expected: Vec<u8> = answered.drain(..read).collect();
                    prop_assert_eq!(&bytes[..read], &expected[..]);
                }
                // Of a connection that is over: it goes nowhere, and nothing comes of it.
                Step::Ask(length) => prop_assert!(guest.write(&vec![0; length]).is_ok()),
                Step::Receive(length) => prop_assert_eq!(guest.read(&mut vec![0; length]), Ok(0)),
            }
        }
    }

    /// Neither end reads or writes outside its buffers, for any words that the other side writes.
    #[test]
    fn scribbled_words_do_no_harm(values in prop::collection::vec(any::<u64>(), 1..20)) {
        let mut memory = Memory::new(7);
        let channel = memory.channel();
        let (mut guest, mut store) = (channel.guest(), channel.connect());
        guest.look();
        let mut bytes = vec![0; RING_BYTES];
        for value in values {
            Memory::scribble(channel.words, value);
            if let Ok(read) = store.read(&mut bytes) {
                prop_assert!(read <= RING_BYTES);
            }
            if let Ok(wrote) = store.write(&bytes) {
                prop_assert!(wrote <= RING_BYTES);
            }
            let _ = (store.has_requests(), guest.look(), guest.store_waits());
            if let Ok(read) = guest.read(&mut bytes) {
                prop_assert!(read <= RING_BYTES);
            }
            let _ = guest.write(&bytes);
        }
        // A new connection is sound again.
        let mut store = channel.connect();
        guest.look();
        prop_assert_eq!(guest.write(b"a"), Ok(1));
        prop_assert_eq!(store.read(&mut bytes), Ok(1));
    }
}
