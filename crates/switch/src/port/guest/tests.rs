//! Guests against a worker: honest ones are served, hostile ones harm themselves alone.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abi::region::{BUFFER_STRIDE, Geometry, Interface};
use proptest::prelude::*;
use rustix::event::EventfdFlags;

use super::*;
use crate::counters::PortStats;
use crate::lookup::PortIndex;
use crate::memory::{CounterFile, GuestSide, SharedRegion};
use crate::port::Link;
use crate::worker::alone::Alone;

mod chains;

fn eventfd(count: u32) -> OwnedFd {
    rustix::event::eventfd(count, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

/// A worker that comes back after some rounds.
struct Bench {
    alone: Alone,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            alone: Alone::new(),
        }
    }

    /// Attaches a guest with one interface; returns its side and its port.
    fn guest(&mut self, slots: u32) -> (GuestSide, PortIndex, OwnedFd) {
        let geometry = Geometry::new(slots, 1).unwrap();
        let interface = Interface::new("eth0", [2, 0, 0, 0, 0, 1], 1500).unwrap();
        let (region, _) = SharedRegion::create(geometry, &[interface]).unwrap();
        let region = Arc::new(region);
        let link = Link::Guest(GuestLink::new(region.switch_side(0).unwrap(), 1500));
        let doorbell = eventfd(0);
        let theirs = doorbell.try_clone().unwrap();
        let port = self.alone.attach(link, Some(theirs));
        (region.guest_side(0).unwrap(), port, doorbell)
    }

    /// Runs polling rounds of the worker: one sees a rung doorbell at once, and an idle queue after some.
    fn round(&mut self) {
        for _ in 0..3 {
            self.alone.go_round();
        }
    }

    /// Goes on until no sender is held back any more for a ring that is full and stays full.
    fn outlast_hold(&mut self) {
        std::thread::sleep(HOLD);
        self.round();
    }

    fn stats(&self, port: PortIndex) -> PortStats {
        self.alone.stats(port)
    }
}

/// The byte at index `i` of a hostile guest's buffers: even, so that every address is a unicast
/// one, and of period 61, so that a frame's two addresses differ.
fn pattern(i: usize) -> u8 {
    0x80 | ((i % 61) << 1) as u8
}

fn fill_pool(side: &GuestSide) {
    let bytes: Vec<u8> = (0..BUFFER_STRIDE).map(pattern).collect();
    for buffer in 0..side.region.geometry().buffers() {
        let slot = Slot {
            len: BUFFER_STRIDE as u16,
            ..Slot::spent(buffer)
        };
        side.region.frame(slot).unwrap().write(&bytes);
    }
}

fn ring(doorbell: &OwnedFd) {
    rustix::io::write(doorbell, &1u64.to_ne_bytes()).unwrap();
}

/// Sends one frame if there is room, and rings if the switch sleeps.
fn send(side: &mut GuestSide, doorbell: &OwnedFd, bytes: &[u8]) -> bool {
    if side.transmit.free(1) == Ok(0) {
        return false;
    }
    let slot = Slot {
        len: bytes.len() as u16,
        ..Slot::spent(side.transmit.peek(0).buffer)
    };
    side.region.frame(slot).unwrap().write(bytes);
    side.transmit.fill(0, slot);
    side.transmit.publish(1);
    if side.transmit.consumer_sleeps() {
        ring(doorbell);
    }
    true
}

/// All frames that have come.
fn receive(side: &mut GuestSide) -> Vec<Vec<u8>> {
    let n = side.receive.filled(u32::MAX).unwrap();
    let frames = (0..n).map(|i| {
        let bytes = side.region.frame(side.receive.peek(i)).unwrap();
        let mut frame = vec![0; bytes.len()];
        bytes.read(&mut frame);
        frame
    });
    let frames = frames.collect();
    side.receive.release(n);
    frames
}

fn frame(destination: u8, source: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![
        2,
        0,
        0,
        0,
        0,
        destination,
        2,
        0,
        0,
        0,
        0,
        source,
        0x88,
        0xb5,
    ];
    frame.extend(payload);
    frame
}

#[test]
fn what_does_not_fit_is_dropped_at_its_destination_and_counted() {
    let mut bench = Bench::new();
    let (mut a, pa, doorbell) = bench.guest(64);
    let (mut b, pb, _bell_b) = bench.guest(64);
    for i in 0..64 {
        assert!(send(&mut a, &doorbell, &frame(9, 1, &[i; 50])));
    }
    bench.round();
    for _ in 0..10 {
        assert!(send(&mut a, &doorbell, &frame(9, 1, &[7; 50])));
    }
    bench.round();
    bench.outlast_hold();
    assert_eq!(receive(&mut b).len(), 64);
    assert_eq!(bench.stats(pa).frames_in, 74);
    assert_eq!(bench.stats(pa).bytes_in, 74 * 64);
    assert_eq!(bench.stats(pb).frames_out, 64);
    assert_eq!(bench.stats(pb).dropped(Reason::RingFull), 10);
    assert!(send(&mut a, &doorbell, &frame(9, 1, &[0; 1501])));
    assert!(send(&mut a, &doorbell, &frame(9, 1, &[0; 1500])));
    assert!(send(&mut a, &doorbell, &[0; 13]));
    bench.round();
    assert_eq!(receive(&mut b).len(), 1);
    assert_eq!(bench.stats(pb).dropped(Reason::TooLong), 1);
    assert_eq!(bench.stats(pa).dropped(Reason::Runt), 1);
}

#[test]
fn a_guest_that_sleeps_on_a_full_ring_is_woken_when_slots_come_free() {
    let mut bench = Bench::new();
    let (mut a, _, doorbell) = bench.guest(64);
    let fill = |a: &mut GuestSide| {
        while send(a, &doorbell, &frame(9, 1, &[])) {}
        a.region.wake_word().load(Ordering::SeqCst)
    };
    let before = fill(&mut a);
    bench.round();
    let awake = a.region.wake_word().load(Ordering::SeqCst);
    assert_eq!(awake, before, "the guest did not ask for a wake-up");

    fill(&mut a);
    a.transmit.set_sleeps(true);
    assert_eq!(a.transmit.free(1), Ok(0));
    bench.round();
    assert_eq!(a.transmit.free(64), Ok(64));
    assert_ne!(a.region.wake_word().load(Ordering::SeqCst), before);
}

/// A guest's port without a worker behind its first lap, the guest's side of it, and the port's counter file.
fn alone(slots: u32) -> (GuestLink, GuestSide, CounterFile) {
    let interface = Interface::new("eth0", [2, 0, 0, 0, 0, 1], 1500).unwrap();
    let geometry = Geometry::new(slots, 1).unwrap();
    let (region, _) = SharedRegion::create(geometry, &[interface]).unwrap();
    let region = Arc::new(region);
    let link = GuestLink::new(region.switch_side(0).unwrap(), 1500).behind_first_lap();
    let side = region.guest_side(0).unwrap();
    (link, side, CounterFile::create(1).unwrap().0)
}

#[test]
fn a_guest_that_sleeps_on_a_full_ring_is_left_to_sleep_until_half_of_it_is_free() {
    let (mut link, mut side, counters) = alone(256);
    let counters = counters.port(0).unwrap();
    let (mut batch, doorbell) = (Batch::new(), eventfd(0));
    while send(&mut side, &doorbell, &frame(9, 1, &[])) {}
    side.transmit.set_sleeps(true);
    let before = side.region.wake_word().load(Ordering::SeqCst);
    for (free, wakes) in [(64, 0), (128, 1), (192, 1)] {
        batch.clear();
        link.receive(&mut batch, counters);
        link.release();
        assert_eq!(side.transmit.free(256), Ok(free));
        let woken = side.region.wake_word().load(Ordering::SeqCst);
        assert_eq!(woken.wrapping_sub(before), wakes, "{free} free");
    }
}

#[test]
fn a_full_ring_is_waited_for_a_moment_and_not_again_before_it_was_half_empty() {
    let (mut link, mut side, counters) = alone(64);
    let counters = counters.port(0).unwrap();
    let (mut from, mut source, _) = alone(64);
    let doorbell = eventfd(0);
    let mut fill = |link: &mut GuestLink, frames: u16| {
        let mut batch = Batch::new();
        for _ in 0..frames {
            assert!(send(&mut source, &doorbell, &frame(9, 1, &[])));
        }
        from.receive(&mut batch, counters);
        from.release();
        let which: Vec<u16> = (0..frames).collect();
        link.send(&mut batch, &which, counters);
    };
    let now = Instant::now();
    let late = now + HOLD;
    assert!(!link.holds_back(now));
    fill(&mut link, 64);
    assert!(link.holds_back(now));
    assert!(link.holds_back(late - Duration::from_nanos(1)));
    assert!(!link.holds_back(late));
    assert_eq!(side.receive.filled(64), Ok(64));
    side.receive.release(31);
    assert!(!link.holds_back(late), "there is room");
    fill(&mut link, 31);
    assert!(!link.holds_back(late), "it has been waited for");
    side.receive.release(32);
    assert!(!link.holds_back(late));
    fill(&mut link, 32);
    assert!(link.holds_back(late));
}

#[test]
fn on_the_first_lap_frames_go_on_before_the_whole_batch_is_delivered() {
    let (mut link, mut side, counters) = alone(64);
    let counters = counters.port(0).unwrap();
    let (mut from, mut source, _) = alone(64);
    let (mut batch, doorbell) = (Batch::new(), eventfd(0));
    for _ in 0..64 {
        assert!(send(&mut source, &doorbell, &frame(9, 1, &[])));
    }
    from.until_busy += 64;
    from.receive(&mut batch, counters);
    assert!((1..=8).contains(&batch.frames().len()));
    from.until_busy -= 64;
    batch.clear();
    from.receive(&mut batch, counters);
    assert_eq!(batch.frames().len(), 64);

    let which: Vec<u16> = (0..64).collect();
    let mut pieces = |link: &mut GuestLink, side: &mut GuestSide| {
        let (mut sent, mut pieces) = (0, 0);
        while sent < which.len() {
            link.send_some(&mut batch, &which, &mut sent, usize::MAX, counters);
            pieces += 1;
            assert_eq!(side.receive.filled(64), Ok(sent as u32));
        }
        side.receive.release(64);
        pieces
    };
    assert_eq!(pieces(&mut link, &mut side), 1);
    link.until_busy = STEADY * 64;
    assert!((8..=64).contains(&pieces(&mut link, &mut side)));
    assert_eq!(pieces(&mut link, &mut side), 1, "the second lap");
}

#[test]
fn a_guest_whose_frames_are_all_refused_is_woken_too() {
    let mut bench = Bench::new();
    let (mut a, _, doorbell) = bench.guest(64);
    while send(&mut a, &doorbell, &[0; 13]) {}
    let before = a.region.wake_word().load(Ordering::SeqCst);
    a.transmit.set_sleeps(true);
    bench.round();
    assert_ne!(a.region.wake_word().load(Ordering::SeqCst), before);
}

#[test]
fn a_port_whose_guest_goes_on_breaking_rules_is_closed() {
    let mut bench = Bench::new();
    let (mut bad, port, doorbell) = bench.guest(64);
    for _ in 0..10 {
        for i in 0..64 {
            bad.transmit.fill(i, Slot::spent(u32::MAX - i));
        }
        bad.transmit.publish(64);
        ring(&doorbell);
        bench.round();
    }
    assert!(bench.alone.is_closed(port));
    let violations = bench.stats(port).dropped(Reason::Violation);
    assert!((64..128).contains(&violations), "{violations}");
}

proptest! {
    #[test]
    fn every_frame_arrives_whole(payloads in proptest::collection::vec(
        proptest::collection::vec(any::<u8>(), 0..1500), 1..64,
    )) {
        let mut bench = Bench::new();
        let (mut a, _, doorbell) = bench.guest(64);
        let (mut b, _, _bell) = bench.guest(64);
        for payload in &payloads {
            prop_assert!(send(&mut a, &doorbell, &frame(9, 1, payload)));
        }
        // A few at a time: it is the rings' first lap.
        let mut came = Vec::new();
        for _ in 0..4 {
            bench.round();
            came.extend(receive(&mut b));
        }
        let expected: Vec<_> = payloads.iter().map(|payload| frame(9, 1, payload)).collect();
        prop_assert_eq!(came, expected);
    }
}

/// What a hostile guest may do to its region, in terms of its own rings.
#[derive(Clone, Debug)]
enum Scribble {
    Fill(u32, Slot),
    Publish(u32),
    Replace(u32, u32),
    Release(u32),
    Sleep(bool),
}

fn scribble() -> impl Strategy<Value = Scribble> {
    let near = || prop_oneof![4 => 0u32..400, 1 => any::<u32>()];
    let slot = (
        near(),
        0u16..2200,
        0u16..2200,
        prop_oneof![4 => Just(0), 2 => Just(flags::MORE), 1 => 0u16..256, 1 => any::<u16>()],
        any::<[u16; 3]>(),
    )
        .prop_map(|(buffer, offset, len, flags, said)| Slot {
            offset,
            len,
            flags,
            checksum_start: said[0],
            checksum_offset: said[1] % 20,
            segment_size: said[2],
            ..Slot::spent(buffer)
        });
    let few = || prop_oneof![8 => 0u32..64, 1 => any::<u32>()];
    prop_oneof![
        6 => (0u32..64, slot).prop_map(|(i, slot)| Scribble::Fill(i, slot)),
        3 => few().prop_map(Scribble::Publish),
        2 => (0u32..64, near()).prop_map(|(i, buffer)| Scribble::Replace(i, buffer)),
        2 => few().prop_map(Scribble::Release),
        1 => any::<bool>().prop_map(Scribble::Sleep),
    ]
}

fn apply(side: &mut GuestSide, scribble: &Scribble) {
    match *scribble {
        Scribble::Fill(i, slot) => side.transmit.fill(i, slot),
        Scribble::Publish(n) => side.transmit.publish(n),
        Scribble::Replace(i, buffer) => side.receive.replace(i, buffer),
        Scribble::Release(n) => side.receive.release(n),
        Scribble::Sleep(sleeps) => side.receive.set_sleeps(sleeps),
    }
}

/// Whether a frame holds nothing but what stood in a hostile guest's pool, a buffer after the
/// other.
fn is_from_the_pool(frame: &[u8]) -> bool {
    let known = (0..61).map(pattern).collect::<Vec<_>>();
    let follows = |pair: &&[u8]| {
        let at = known.iter().position(|b| *b == pair[0]);
        at.is_some_and(|at| known[(at + 1) % 61] == pair[1])
    };
    let breaks = frame.windows(2).filter(|pair| !follows(pair)).count();
    frame.iter().all(|b| known.contains(b)) && breaks < 64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_hostile_guest_harms_itself_alone(
        steps in proptest::collection::vec(proptest::collection::vec(scribble(), 1..30), 1..30),
    ) {
        let mut bench = Bench::new();
        let (mut bad, _, doorbell) = bench.guest(64);
        let (mut a, pa, bell_a) = bench.guest(64);
        let (mut b, pb, bell_b) = bench.guest(64);
        send(&mut b, &bell_b, &frame(1, 2, &[]));
        bench.round();
        receive(&mut a);
        // What came for all has reached its buffers, too.
        fill_pool(&bad);
        for (i, scribbles) in steps.iter().enumerate() {
            for scribble in scribbles {
                apply(&mut bad, scribble);
            }
            ring(&doorbell);
            let own = frame(2, 1, &[i as u8; 100]);
            prop_assert!(send(&mut a, &bell_a, &own));
                bench.round();
            let got = receive(&mut b);
            prop_assert!(got.contains(&own));
            for frame in got.iter().filter(|frame| **frame != own) {
                prop_assert!(frame.len() <= 1518);
                prop_assert!(is_from_the_pool(frame));
            }
            receive(&mut a);
        }
        let (a, b) = (bench.stats(pa), bench.stats(pb));
        prop_assert_eq!(a.dropped(Reason::Violation) + b.dropped(Reason::Violation), 0);
    }
}

#[test]
fn a_guest_that_scribbles_all_the_time_is_stopped_and_others_are_served() {
    let mut bench = Bench::new();
    let (mut bad, port, doorbell) = bench.guest(64);
    let (mut a, _, bell_a) = bench.guest(64);
    let (mut b, _, bell_b) = bench.guest(64);
    send(&mut b, &bell_b, &frame(1, 2, &[]));
    bench.round();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let scribbler = std::thread::spawn(move || {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        while !stopped.load(Ordering::Relaxed) {
            // Xorshift: any bits do.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let (low, high) = (state as u32, (state >> 32) as u32);
            let slot = Slot {
                offset: high as u16 % 2200,
                len: (high >> 16) as u16 % 2200,
                ..Slot::spent(low % 500)
            };
            apply(&mut bad, &Scribble::Fill(low % 64, slot));
            apply(&mut bad, &Scribble::Replace(high % 64, low % 500));
            apply(&mut bad, &Scribble::Publish(low % 70));
            apply(&mut bad, &Scribble::Release(high % 70));
            let _ = rustix::io::write(&doorbell, &1u64.to_ne_bytes());
        }
    });
    let mut served = 0;
    for i in 0..2000u32 {
        let own = frame(2, 1, &i.to_be_bytes());
        assert!(send(&mut a, &bell_a, &own));
        bench.round();
        served += usize::from(receive(&mut b).contains(&own));
        receive(&mut a);
    }
    stop.store(true, Ordering::Relaxed);
    scribbler.join().unwrap();
    assert!(bench.alone.is_closed(port));
    // While it lasted, floods of the hostile guest may have filled a ring.
    assert!(served > 1900, "{served}");
}
