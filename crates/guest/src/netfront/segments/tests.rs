//! Frames over several slots, through a guest's rings.

extern crate std;

use std::vec::Vec;

use abi::region::{FRAME_MAX, PART_MAX, RECEIVE_OFFSET, Region, accepts};
use abi::ring::{Consumer, Producer};
use proptest::prelude::*;
use router::Device;

use super::super::tests::{Wire, wire};
use super::*;

/// What the switch says of a frame.
const TCP4: Slot = Slot {
    flags: flags::NEEDS_CHECKSUM | flags::SEGMENT_TCP4,
    checksum_start: 34,
    checksum_offset: 16,
    segment_size: 1448,
    ..Slot::spent(0)
};

/// Puts a frame into the receive ring as the switch does. Returns whether there was room.
fn arrive(region: &Region, ring: &mut Producer, frame: &[u8], said: Slot) -> bool {
    let slots = chain::slots_for(frame.len());
    if ring.free(slots).unwrap() < slots {
        return false;
    }
    let (head, rest) = frame.split_at(frame.len().min(FRAME_MAX));
    let parts = core::iter::once(head).chain(rest.chunks(PART_MAX));
    for (i, part) in (0..slots).zip(parts) {
        let buffer = ring.peek(i).buffer;
        let (room, offset, said) = match i {
            0 => (
                region.receive_buffer(buffer, part.len()),
                RECEIVE_OFFSET,
                said,
            ),
            _ => (
                region.part_buffer(buffer, part.len()),
                abi::region::PART_OFFSET,
                Slot::spent(0),
            ),
        };
        room.unwrap().write(part);
        let more = if i + 1 < slots { flags::MORE } else { 0 };
        let slot = Slot {
            buffer,
            offset: offset as u16,
            len: part.len() as u16,
            flags: said.flags | more,
            ..said
        };
        ring.fill(i, slot);
    }
    ring.publish(slots);
    true
}

/// Takes all frames out of the transmit ring as the switch does, with their first slots.
fn leave(region: &Region, ring: &mut Consumer) -> Vec<(Vec<u8>, Slot)> {
    let filled = ring.filled(u32::MAX).unwrap();
    let (mut frames, mut at) = (Vec::new(), 0);
    while at < filled {
        let mut frame = Vec::new();
        let mut read = |slot| {
            let bytes = region.frame(slot).unwrap();
            let start = frame.len();
            frame.resize(start + bytes.len(), 0);
            bytes.read(&mut frame[start..]);
        };
        let first = ring.peek(at);
        read(first);
        at += follow(ring, at, filled, first, read).unwrap();
        frames.push((frame, first));
    }
    ring.release(filled);
    frames
}

struct Ends {
    wire: Wire,
    inside: Netfront<fn()>,
    outside: Netfront<fn()>,
    to_guest: Producer,
    from_guest: Consumer,
}

fn ends() -> Ends {
    let wire = wire();
    let ring: fn() = || {};
    // SAFETY: each end is opened once.
    unsafe {
        Ends {
            inside: Netfront::open(&wire.region, 0, ring).unwrap(),
            outside: Netfront::open(&wire.region, 1, ring).unwrap(),
            to_guest: wire.region.receive_producer(0),
            from_guest: wire.region.transmit_consumer(1),
            wire,
        }
    }
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 255 + seed) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Frames of any length cross a guest in order and whole, however little room there is; what is
    /// left to do on them is said on either side; and no buffer is lost.
    #[test]
    fn frames_of_any_length_cross_whole(
        lens in proptest::collection::vec(
            prop_oneof![60usize..1500, 60usize..9000, 60usize..65_000], 1..40,
        ),
        burst in 1usize..=64,
    ) {
        let mut ends = ends();
        ends.inside.take_segments(true);
        let before = ends.wire.pool.outstanding();
        let mut frames = lens.iter().enumerate().map(|(i, len)| pattern(*len, i));
        let (mut next, mut came) = (frames.next(), Vec::new());
        let mut held = Batch::new();
        while came.len() < lens.len() {
            while let Some(frame) = &next {
                let said = if frame.len() > FRAME_MAX { TCP4 } else { Slot::spent(0) };
                if !arrive(&ends.wire.region, &mut ends.to_guest, frame, said) {
                    break;
                }
                next = frames.next();
            }
            let room = held.room().min(burst);
            ends.inside.receive(&mut ends.wire.pool, &mut held, room);
            ends.outside.transmit(&mut ends.wire.pool, &mut held);
            prop_assert!(held.is_empty() || ends.outside.room() == 0);
            came.extend(leave(&ends.wire.region, &mut ends.from_guest));
        }
        for (i, ((frame, first), len)) in came.iter().zip(&lens).enumerate() {
            prop_assert_eq!(frame, &pattern(*len, i));
            let said = if *len > FRAME_MAX { TCP4 } else { Slot::spent(0) };
            prop_assert_eq!(first.flags & !flags::MORE, said.flags);
            prop_assert_eq!(
                (first.checksum_start, first.checksum_offset, first.segment_size),
                (said.checksum_start, said.checksum_offset, said.segment_size)
            );
        }
        prop_assert!(held.is_empty());
        prop_assert_eq!(ends.wire.pool.outstanding(), before, "no buffer was lost");
    }
}

#[test]
fn what_a_router_takes_is_published_and_taken_back() {
    let mut ends = ends();
    let said = |ends: &Ends| ends.wire.region.accepts(0) & accepts::SEGMENTS != 0;
    assert!(!said(&ends));
    ends.inside.take_segments(true);
    assert!(said(&ends));
    ends.inside.take_segments(false);
    assert!(!said(&ends));
}

/// TCP over IPv4 of `len` bytes, as a kernel hands it out.
fn tcp(len: usize) -> Vec<u8> {
    let mut frame = std::vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend(((len - 14) as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([
        0, 80, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0,
    ]);
    frame.extend(pattern(len - 54, 5));
    frame
}

#[test]
fn frames_for_a_router_that_is_gone_are_cut_and_completed() {
    let mut ends = ends();
    let before = ends.wire.pool.outstanding();
    let mut frame = pattern(100, 3);
    let partial = Slot {
        flags: flags::NEEDS_CHECKSUM,
        segment_size: 0,
        ..TCP4
    };
    let region = ends.wire.region;
    assert!(arrive(&region, &mut ends.to_guest, &frame, partial));
    let large = tcp(60_000);
    assert!(arrive(&region, &mut ends.to_guest, &large, TCP4));
    assert!(arrive(&region, &mut ends.to_guest, &frame, Slot::spent(0)));
    let mut segments = Segmenter::new(&large, offload(TCP4)).unwrap();
    let count = segments.count();
    let mut batch = Batch::new();
    for received in [4, 8, 12, 16] {
        ends.inside.receive(&mut ends.wire.pool, &mut batch, 4);
        assert_eq!(batch.len(), received, "no more than was asked for");
        assert!(ends.inside.has_received());
    }
    ends.inside.receive(&mut ends.wire.pool, &mut batch, 64);
    assert_eq!(batch.len(), 1 + count, "what comes behind waits");
    for packet in &batch.as_slice()[1..] {
        let (headers, payload) = segments.next_segment().unwrap();
        assert_eq!(packet.data(), [headers, payload].concat());
        assert!(!packet.is_extended());
    }
    ends.inside.receive(&mut ends.wire.pool, &mut batch, 64);
    assert!(!ends.inside.has_received());
    let packets = batch.as_slice();
    assert_eq!(packets[1 + count].data(), frame);
    let sum = packet::checksum::checksum(&frame[34..]);
    frame[50..52].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(packets[0].data(), frame);
    assert!(!packets[0].is_extended());
    ends.outside.transmit(&mut ends.wire.pool, &mut batch);
    assert_eq!(leave(&region, &mut ends.from_guest).len(), 2 + count);
    assert_eq!(ends.wire.pool.outstanding(), before);
    assert_eq!(ends.to_guest.free(64), Ok(64), "all slots came back");
}

#[test]
fn frames_wait_in_the_ring_while_the_pool_has_no_buffers_for_them() {
    let mut ends = ends();
    ends.inside.take_segments(true);
    let region = ends.wire.region;
    let mut kept: Vec<Packet> = Vec::new();
    while ends.wire.pool.available() > 10 {
        kept.push(ends.wire.pool.copy(&[0; 60]).unwrap());
    }
    assert!(arrive(
        &region,
        &mut ends.to_guest,
        &pattern(60_000, 1),
        TCP4
    ));
    let mut batch = Batch::new();
    ends.inside.receive(&mut ends.wire.pool, &mut batch, 64);
    assert!(batch.is_empty() && ends.inside.has_received());
    kept.drain(..)
        .for_each(|packet| ends.wire.pool.kill(packet));
    ends.inside.receive(&mut ends.wire.pool, &mut batch, 64);
    assert_eq!(batch.as_slice()[0].total_len(), 60_000);
}

#[test]
fn a_packet_that_was_changed_past_use_is_not_sent() {
    let mut ends = ends();
    let before = ends.wire.pool.outstanding();
    let mut packet = ends.wire.pool.copy(&pattern(1000, 0)).unwrap();
    packet.set_offload(offload(TCP4));
    // Its transport header is gone, so the checksum's offset is unknown.
    packet.pull(40);
    let mut batch = Batch::new();
    batch.push(packet).unwrap();
    ends.outside.transmit(&mut ends.wire.pool, &mut batch);
    assert!(batch.is_empty());
    assert!(leave(&ends.wire.region, &mut ends.from_guest).is_empty());
    assert_eq!(ends.wire.pool.outstanding(), before);
}
