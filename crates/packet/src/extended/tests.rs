//! What packets with parts and work left to do promise.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::checksum::{checksum, pseudo_header_v4};
use crate::{Batch, DATA_MAX, HEADROOM, Pool};

const TCP4: Segments = Segments {
    kind: SegmentKind::Tcp4,
    size: 1000,
    ecn: false,
};

fn whole(packet: &Packet) -> Vec<u8> {
    let mut bytes = packet.data().to_vec();
    packet.parts_data().for_each(|part| bytes.extend(part));
    bytes
}

/// A packet of `data` whose first `first` bytes are in its own buffer.
fn packet(pool: &mut Pool, data: &[u8], first: usize) -> Packet {
    let (own, rest) = data.split_at(first.min(data.len()).min(DATA_MAX));
    let mut packet = pool.copy(own).unwrap();
    for part in rest.chunks(PART_MAX) {
        assert!(pool.append(&mut packet, part));
    }
    packet
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Pull(usize),
    Take(usize),
    Truncate(usize),
    Append(usize),
    Clone,
    Kill,
    Drop,
    Recycle,
    StripExtension,
    Passed(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0usize..400).prop_map(Step::Push),
        1 => (0usize..400).prop_map(Step::Pull),
        1 => (0usize..5000).prop_map(Step::Take),
        1 => (0usize..9000).prop_map(Step::Truncate),
        1 => (0..PART_MAX).prop_map(Step::Append),
        5 => proptest::sample::select(std::vec![
            Step::Clone,
            Step::Kill,
            Step::Drop,
            Step::Recycle,
            Step::StripExtension,
        ]),
        1 => (1u32..1000).prop_map(Step::Passed),
    ]
}

proptest! {
    /// After any operations on packets with parts, the packets hold the right bytes, and in the end
    /// all buffers are back.
    #[test]
    fn bytes_and_buffers_are_kept(
        len in 1usize..20_000,
        first in 1usize..DATA_MAX,
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        let mut pool = Pool::heap(400);
        let data: Vec<u8> = (0..len).map(|i| (i * 7 + i / 250) as u8).collect();
        let fresh = |pool: &mut Pool| packet(pool, &data, first);
        let mut held = std::vec![(fresh(&mut pool), data.clone(), 0)];
        for step in steps {
            let Some((packet, model, passed)) = held.last_mut() else {
                break;
            };
            match step {
                Step::Push(n) => {
                    prop_assert!(packet.push(n));
                    packet.data_mut()[..n].fill(9);
                    model.splice(0..0, std::iter::repeat_n(9, n));
                }
                Step::Pull(n) => {
                    let n = n.min(packet.len());
                    packet.pull(n);
                    model.drain(..n);
                }
                Step::Take(n) => {
                    packet.take(n);
                    model.truncate(model.len().saturating_sub(n));
                }
                Step::Truncate(n) => {
                    packet.truncate(n);
                    model.truncate(n);
                }
                Step::Append(n) => {
                    if pool.append(packet, &std::vec![5; n]) {
                        model.resize(model.len() + n, 5);
                    }
                }
                Step::Clone => {
                    if let Some(copy) = pool.clone(packet) {
                        let (model, passed) = (model.clone(), *passed);
                        held.push((copy, model, passed));
                    }
                }
                Step::Kill => pool.kill(held.pop().unwrap().0),
                Step::Drop => drop(held.pop()),
                Step::Recycle => {
                    let mut batch = Batch::new();
                    let packets = held.iter().map(|(.., passed)| 1 + u64::from(*passed)).sum::<u64>();
                    held.drain(..).for_each(|(packet, ..)| batch.push(packet).unwrap());
                    prop_assert_eq!(pool.recycle(&mut batch), packets);
                }
                Step::StripExtension => {
                    let len = packet.len();
                    pool.strip_extension(packet);
                    model.truncate(len);
                    *passed = 0;
                    prop_assert!(!packet.is_extended());
                }
                Step::Passed(packets) => {
                    packet.set_passed(Passed { packets, length: 100 });
                    *passed = packets;
                }
            }
            for (packet, model, passed) in &held {
                prop_assert_eq!(packet.passed().packets, *passed);
                prop_assert_eq!(packet.stands_for(), 1 + *passed as usize);
                prop_assert_eq!(packet.wire_len(), model.len() + 100 * *passed as usize);
                prop_assert_eq!(packet.total_len(), model.len());
                prop_assert_eq!(&whole(packet), model);
                prop_assert_eq!(packet.parts(), packet.parts_data().count());
            }
        }
        drop(held);
        prop_assert_eq!(pool.outstanding(), 0);
    }

    /// The pending work keeps its offsets in the headers when the data's start moves.
    #[test]
    fn the_checksum_is_found_where_the_header_went(
        pushed in 0usize..600, pulled in 0usize..34, odd in 0usize..40,
    ) {
        let mut pool = Pool::heap(8);
        let mut packet = packet(&mut pool, &[1; 3000], 1500);
        let offload = Offload { checksum_start: 34, checksum_offset: 16, segments: Some(TCP4) };
        packet.set_offload(Some(offload));
        packet.pull(pulled);
        prop_assert!(packet.push(pushed));
        packet.take(odd);
        let moved = Offload { checksum_start: 34 + pushed - pulled, ..offload };
        prop_assert_eq!(packet.offload(), Some(moved));
        let copy = pool.clone(&packet).unwrap();
        prop_assert_eq!(copy.offload(), Some(moved));
        prop_assert_eq!(copy.segment_len(), moved.checksum_start + 20 + 1000);
    }

    /// A checksum that is completed is the one a sender without offload would have written.
    #[test]
    fn a_partial_checksum_is_completed_over_all_parts(
        payload in proptest::collection::vec(any::<u8>(), 0..6000), first in 20usize..1000,
    ) {
        let mut pool = Pool::heap(8);
        let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let pseudo = pseudo_header_v4(a, b, 6, (payload.len() + 20) as u16);
        let mut segment = std::vec![7; 20];
        segment.extend(&payload);
        segment[16..18].copy_from_slice(&pseudo.fold().to_be_bytes());
        let mut frame = std::vec![0; 34];
        frame.extend(&segment);
        let mut packet = packet(&mut pool, &frame, 34 + first);
        packet.set_offload(Some(Offload {
            checksum_start: 34, checksum_offset: 16, segments: None,
        }));
        packet.pull(14);
        prop_assert!(packet.complete_checksum());
        prop_assert!(!packet.needs_checksum() && packet.offload().is_none());
        let done = whole(&packet).split_off(20);
        let sum = pseudo.add_bytes(&done);
        prop_assert!(sum.is_valid());
        segment[16..18].fill(0);
        let expected = checksum(&[&pseudo.fold().to_be_bytes()[..], &segment].concat());
        let expected = if expected == 0 { 0xffff } else { expected };
        prop_assert_eq!(&done[16..18], &expected.to_be_bytes());
    }
}

#[test]
fn a_packet_is_extended_only_while_it_says_so() {
    let mut pool = Pool::heap(4);
    let mut packet = pool.copy(&[0; 60]).unwrap();
    assert!(!packet.is_extended() && packet.offload().is_none());
    packet.set_offload(None);
    assert!(!packet.is_extended());
    packet.set_offload(Some(Offload {
        checksum_start: 34,
        checksum_offset: 16,
        segments: None,
    }));
    assert!(packet.needs_checksum() && !packet.is_segmented());
    assert_eq!((packet.total_len(), packet.segment_len()), (60, 60));
    pool.kill(packet);
    let packet = pool.copy(&[0; 60]).unwrap();
    assert!(
        !packet.is_extended(),
        "a buffer is clean when it is used again"
    );
    assert_eq!(packet.headroom(), HEADROOM);
}

#[test]
fn nothing_is_put_between_the_data_and_its_parts() {
    let mut pool = Pool::heap(4);
    let mut packet = packet(&mut pool, &[3; 3000], 1000);
    assert!(!packet.put(1));
    packet.truncate(1000);
    assert_eq!((packet.parts(), packet.total_len()), (0, 1000));
    assert!(packet.put(1));
    assert_eq!(packet.total_len(), 1001);
}

#[test]
fn a_clone_that_finds_no_buffers_costs_none() {
    let mut pool = Pool::heap(5);
    let packet = packet(&mut pool, &[3; 5000], 1000);
    assert_eq!(pool.outstanding(), 3);
    assert!(pool.clone(&packet).is_none());
    assert_eq!(pool.outstanding(), 3);
    drop(packet);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn another_pools_packet_goes_home_with_its_parts() {
    let (mut owner, mut away) = (Pool::heap(8), Pool::heap(8));
    let packet = packet(&mut owner, &[3; 5000], 1000);
    away.kill(packet);
    away.return_foreign();
    assert_eq!((owner.outstanding(), away.outstanding()), (0, 0));
}
