//! What packets, batches and pools promise.

use std::vec::Vec;

use proptest::prelude::*;
use simd::Level;

use crate::anno::{AGGREGATE, PAINT, VLAN_TCI};
use crate::{
    BATCH, Batch, DATA_MAX, Facts, Fifo, HEADROOM, LARGE_MAX, Packet, PacketTemplate, Pool,
};

fn numbered(pool: &mut Pool, n: u8) -> Packet {
    pool.copy(&[n; 60]).expect("the pool has room")
}

#[test]
fn a_fresh_packet_is_clean() {
    let mut pool = Pool::heap(16);
    let mut packet = numbered(&mut pool, 1);
    packet.set_paint(7);
    packet.set_timestamp(9);
    packet.set_network_header(14, 20);
    pool.kill(packet);
    let packet = numbered(&mut pool, 2);
    assert_eq!(packet.paint(), 0);
    assert_eq!(packet.timestamp(), 0);
    assert!(packet.network_header().is_none());
    assert_eq!(packet.headroom(), HEADROOM);
}

#[test]
fn headers_stay_where_they_are_when_the_data_start_moves() {
    let mut pool = Pool::heap(16);
    let mut packet = pool.copy(&(0..60).collect::<Vec<u8>>()).unwrap();
    packet.set_mac_header(0);
    packet.set_network_header(14, 20);
    packet.pull(14);
    assert_eq!(packet.mac_offset(), Some(-14));
    assert_eq!(packet.mac_header().unwrap()[0], 0);
    assert_eq!(packet.network_header().unwrap()[0], 14);
    assert_eq!(packet.transport_header().unwrap()[0], 34);
    assert_eq!(packet.network_header_len(), 20);
    assert!(packet.push(HEADROOM + 14 + 8), "data moves to make room");
    assert_eq!(packet.network_header().unwrap()[0], 14);
    assert_eq!(packet.network_header().unwrap().len(), 46);
}

proptest! {
    /// Wherever the data stands, it can be moved to any residue, and takes its headers along.
    #[test]
    fn data_can_be_aligned(
        length in 0usize..DATA_MAX,
        stripped in 0usize..64,
        more in 0usize..HEADROOM,
        modulus in prop::sample::select(&[2usize, 4, 8, 64][..]),
        offset: usize,
    ) {
        let mut pool = Pool::heap(4);
        let data: Vec<u8> = (0..length).map(|i| i as u8).collect();
        let mut packet = pool.copy(&data).unwrap();
        packet.set_mac_header(0);
        packet.pull(stripped);
        let grown = packet.push(more);
        prop_assert!(grown);
        let before = packet.data().to_vec();
        let offset = offset % modulus;
        prop_assert!(packet.align(modulus, offset));
        prop_assert_eq!(packet.data().as_ptr().addr() % modulus, offset);
        prop_assert_eq!(packet.data(), before);
        prop_assert_eq!(packet.mac_header(), Some(&data[..]));
    }
}

#[test]
fn stripped_headers_move_along_with_the_data() {
    let mut pool = Pool::heap(16);
    for more in [DATA_MAX - 40, DATA_MAX * 2] {
        let mut packet = pool.copy(&(0..60).collect::<Vec<u8>>()).unwrap();
        packet.set_mac_header(0);
        packet.pull(14);
        assert!(packet.put(more));
        assert_eq!(
            packet.mac_header().unwrap()[..20],
            *(0..20).collect::<Vec<u8>>()
        );
        assert_eq!(packet.data()[0], 14);
    }
}

#[test]
fn a_packet_that_outgrows_its_buffer_moves_to_the_heap() {
    let mut pool = Pool::heap(16);
    let mut packet = numbered(&mut pool, 3);
    packet.set_paint(5);
    assert!(packet.put(DATA_MAX * 2));
    assert_eq!(packet.len(), 60 + DATA_MAX * 2);
    assert_eq!(packet.paint(), 5);
    assert!(packet.data()[..60].iter().all(|b| *b == 3));
    assert_eq!(pool.outstanding(), 0, "the pool's buffer came back");
    assert!(!packet.put(LARGE_MAX), "there is a limit");
    assert_eq!(packet.len(), 60 + DATA_MAX * 2);
}

proptest! {
    /// A copy by cache lines is the copy that is made byte by byte.
    #[test]
    fn a_clone_by_lines_is_that_of_any_packet(
        len in 0usize..DATA_MAX,
        pull in 0usize..200,
        push in 0usize..200,
        network in prop::option::of((0usize..100, 0usize..60)),
        flow in prop::option::of(0u32..9),
    ) {
        let mut pool = Pool::heap(8);
        let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let mut packet = pool.copy(&data).unwrap();
        packet.pull(pull);
        if let Some((offset, len)) = network {
            packet.set_network_header(offset, len);
        }
        let _ = packet.push(push);
        packet.set_anno(crate::anno::AGGREGATE, 7);
        packet.set_timestamp(11);
        packet.set_flow(flow);
        let (copy, other) = (pool.clone(&packet).unwrap(), pool.clone_moved(&packet).unwrap());
        prop_assert_eq!(copy.data(), other.data());
        prop_assert_eq!(copy.annotations(), other.annotations());
        let seen = |packet: &Packet| {
            let headers = (packet.mac_offset(), packet.network_offset(), packet.transport_offset());
            (headers, packet.timestamp(), packet.flow())
        };
        prop_assert_eq!(seen(&copy), seen(&other));
        let like = if packet.first_line().is_some() { &packet } else { &other };
        prop_assert_eq!(copy.headroom(), like.headroom());
        let stripped = packet.headroom().min(pull);
        prop_assert_eq!(copy.data_from(stripped.min(copy.headroom())), packet.data_from(stripped.min(copy.headroom())));
        let mut batch = Batch::new();
        prop_assert!(batch.push(packet).is_ok());
        for level in Level::all() {
            let mut copies = Batch::new();
            pool.clone_all_at(level, &batch, &mut copies);
            prop_assert_eq!(copies.len(), 1);
            for together in copies.iter() {
                prop_assert_eq!(together.data(), copy.data());
                prop_assert_eq!(together.headroom(), copy.headroom());
                prop_assert_eq!(together.annotations(), copy.annotations());
                prop_assert_eq!(seen(together), seen(&copy));
            }
            pool.recycle(&mut copies);
        }
        pool.recycle(&mut batch);
        for packet in [copy, other] {
            pool.kill(packet);
        }
        prop_assert_eq!(pool.outstanding(), 0);
    }
}

#[test]
fn copies_of_a_batch_are_left_out_where_there_is_no_buffer() {
    let mut pool = Pool::heap(5);
    let mut batch = Batch::new();
    for fill in 0..3 {
        assert!(batch.push(numbered(&mut pool, fill)).is_ok());
    }
    let mut copies = Batch::new();
    pool.clone_all(&batch, &mut copies);
    assert_eq!(
        copies.iter().map(|copy| copy.data()[0]).collect::<Vec<_>>(),
        [0, 1]
    );
    pool.recycle(&mut copies);
    pool.recycle(&mut batch);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_clone_keeps_what_was_stripped() {
    let mut pool = Pool::heap(16);
    let mut packet = pool.copy(&(0..60).collect::<Vec<u8>>()).unwrap();
    packet.set_anno(AGGREGATE, 77);
    packet.pull(14);
    let mut copy = pool.clone(&packet).unwrap();
    assert_eq!(copy.data(), packet.data());
    assert_eq!(copy.anno(AGGREGATE), 77);
    assert!(copy.push(14));
    assert_eq!(copy.data()[0], 0);
}

#[test]
fn annotations_share_their_bytes_as_documented() {
    let mut pool = Pool::heap(1);
    let mut packet = numbered(&mut pool, 0);
    packet.set_anno(AGGREGATE, 0x0102_0304);
    assert_eq!(packet.anno(VLAN_TCI), 0x0304);
    packet.set_anno(PAINT, 0x1ff);
    assert_eq!(packet.paint(), 0xff);
}

#[test]
fn a_pool_has_its_limit_and_counts_refusals() {
    let mut pool = Pool::heap(2);
    let first = numbered(&mut pool, 1);
    let _second = numbered(&mut pool, 2);
    assert!(pool.copy(&[0]).is_none());
    assert_eq!(pool.exhausted(), 1);
    drop(first);
    assert!(pool.copy(&[0]).is_some());
}

#[test]
fn packets_outlive_their_pool() {
    let mut pool = Pool::heap(4);
    let packet = numbered(&mut pool, 9);
    drop(pool);
    assert_eq!(packet.data(), [9; 60]);
}

#[test]
fn packets_dropped_by_another_pool_come_home() {
    let (mut pool, mut second, mut other) = (Pool::heap(200), Pool::heap(10), Pool::heap(10));
    for round in 1..=3 {
        for i in 0..200u32 {
            other.kill(pool.copy(&i.to_be_bytes()).expect("they came back"));
            if i % 7 == round {
                other.kill(second.copy(&[1]).expect("they came back"));
            }
            if i % 150 == 0 {
                other.return_foreign();
            }
        }
        other.return_foreign();
        assert_eq!((pool.outstanding(), second.outstanding()), (0, 0));
    }
    other.kill(pool.copy(&[1]).expect("there is room"));
    drop(other);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn packets_dropped_on_another_thread_come_home() {
    let mut pool = Pool::heap(64);
    let packets: Vec<_> = (0..64).map(|n| numbered(&mut pool, n)).collect();
    std::thread::spawn(move || drop(packets)).join().unwrap();
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_region_pool_conserves_buffers_across_rings() {
    let memory = std::vec![0u64; 33 * crate::BUFFER / 8 + 8].leak();
    let base = memory.as_mut_ptr().cast::<u8>();
    let base = core::ptr::NonNull::new(base.wrapping_add(base.align_offset(64))).unwrap();
    // SAFETY: leaked, aligned, 32 buffers long.
    let mut pool = unsafe { Pool::region(base, 32, 8) };
    assert_eq!(pool.outstanding(), 8);
    // SAFETY: buffer 3 stands in no other place.
    let packet = unsafe { pool.adopt(3, 256, 60) }.unwrap();
    let (index, offset, len) = pool.surrender(packet).unwrap();
    assert_eq!((index, offset, len), (3, 256, 60));
    // SAFETY: the pool has no buffer 32; and the data must lie behind the metadata.
    unsafe {
        assert!(pool.adopt(32, 256, 60).is_none());
        assert!(pool.adopt(3, 64, 60).is_none());
        assert!(pool.adopt(3, 256, 2000).is_none());
        pool.reclaim(3);
    }
    assert_eq!(pool.outstanding(), 7);
    let large = Packet::large(0, 100, 0).unwrap();
    assert!(pool.surrender(large).is_ok(), "copied into the region");
}

#[test]
fn batches_keep_their_order() {
    let mut pool = Pool::heap(256);
    let mut batch = Batch::new();
    for n in 0..BATCH as u8 {
        batch.push(numbered(&mut pool, n)).unwrap();
    }
    assert!(batch.push(numbered(&mut pool, 0)).is_err());
    let mut odd = Vec::new();
    batch.filter(
        &mut odd,
        |_, p| (p.data()[0] % 2 == 1).then_some(()),
        |odd, p, ()| odd.push(p.data()[0]),
    );
    assert_eq!(batch.len(), 32);
    assert!(batch.iter().zip(0..).all(|(p, n)| p.data()[0] == 2 * n));
    assert!(odd.iter().zip(0..).all(|(p, n)| *p == 2 * n + 1));
    let mut front = Batch::new();
    assert_eq!(front.append(&mut batch, 5), 5);
    assert_eq!(
        front.iter().map(|p| p.data()[0]).collect::<Vec<_>>(),
        [0, 2, 4, 6, 8]
    );
    assert_eq!(batch.as_slice()[0].data()[0], 10);
    assert_eq!(batch.drain().nth(1).unwrap().data()[0], 12);
    assert!(batch.is_empty(), "the rest was dropped");
    pool.recycle(&mut front);
    assert_eq!(pool.outstanding(), 0);
}

proptest! {
    /// Any sequence of moves of a packet's ends keeps its length right and its bytes in place.
    #[test]
    fn ends_move_like_a_deques(start in proptest::collection::vec(any::<u8>(), 0..200), moves in proptest::collection::vec((0u8..4, 0usize..700), 0..12)) {
        let mut pool = Pool::heap(4);
        let mut packet = pool.copy(&start).unwrap();
        let mut model: std::collections::VecDeque<u8> = start.into();
        for (kind, n) in moves {
            match kind {
                0 => {
                    prop_assert!(packet.push(n));
                    packet.data_mut()[..n].fill(0xaa);
                    for _ in 0..n { model.push_front(0xaa); }
                }
                1 => {
                    let old = packet.len();
                    prop_assert!(packet.put(n));
                    packet.data_mut()[old..].fill(0xbb);
                    for _ in 0..n { model.push_back(0xbb); }
                }
                2 => { packet.pull(n); model.drain(..n.min(model.len())); }
                _ => { packet.take(n); let keep = model.len().saturating_sub(n); model.truncate(keep); }
            }
            prop_assert!(model.iter().eq(packet.data()));
        }
    }
}

#[test]
fn a_mold_casts_equal_packets() {
    for len in [0, 1, 60, 64, 65, DATA_MAX, DATA_MAX + 1] {
        let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let template = PacketTemplate::new(&data);
        assert_eq!(template.data(), data);
        let mut pool = Pool::heap(300);
        let mut batch = Batch::new();
        assert_eq!(pool.fill(&template, 7, &mut batch, 10), 10);
        // No more than there is room for.
        assert_eq!(pool.fill(&template, 8, &mut batch, 100), BATCH - 10);
        for (i, packet) in batch.iter_mut().enumerate() {
            assert_eq!(packet.data(), data, "{len}");
            assert_eq!(packet.timestamp(), if i < 10 { 7 } else { 8 });
            assert_eq!(packet.headroom(), HEADROOM);
            assert_eq!(packet.network_offset(), None);
            packet.data_mut().fill(0xff);
        }
        pool.recycle(&mut batch);
        assert_eq!(pool.outstanding(), 0);
        assert_eq!(pool.fill(&template, 0, &mut batch, 1), 1);
        assert_eq!(batch.as_slice()[0].data(), data);
    }
}

#[test]
fn a_mold_casts_what_the_pool_has() {
    let template = PacketTemplate::new(b"abc");
    let mut pool = Pool::heap(40);
    let mut batch = Batch::new();
    assert_eq!(pool.fill(&template, 0, &mut batch, 64), 40);
    assert_eq!((pool.exhausted(), batch.len()), (24, 40));
    let mut other = Batch::new();
    assert_eq!(pool.fill(&template, 0, &mut other, 1), 0);
}

proptest! {
    /// Buffers come home out of batches of any mixture, and what is made of them next is whole.
    #[test]
    fn batches_recycled_by_another_pool_come_home(
        rounds in proptest::collection::vec((1usize..150, 0u8..8, 1usize..=64), 1..12),
    ) {
        let (mut pool, mut second, mut other) = (Pool::heap(150), Pool::heap(64), Pool::heap(64));
        for (count, mixture, most) in rounds {
            let template = PacketTemplate::new(&[count as u8; 100]);
            let (mut made, mut left) = (Vec::new(), count);
            while left > 0 {
                let mut batch = Batch::new();
                // One by one, too.
                let few = if most == 2 { 1 } else { left.min(most) };
                left -= pool.fill(&template, 7, &mut batch, few);
                prop_assert!(batch.iter().all(|packet| packet.data() == [count as u8; 100]));
                prop_assert!(batch.iter().all(|packet| packet.timestamp() == 7 && packet.paint() == 0));
                made.extend(batch.drain());
            }
            for packet in &mut made {
                packet.set_paint(9);
            }
            while !made.is_empty() {
                let mut batch = Batch::new();
                let more = [
                    (mixture & 1 != 0).then(|| other.copy(&[1]).expect("there is room")),
                    (mixture & 2 != 0).then(|| second.copy(&[2]).expect("there is room")),
                    (mixture & 4 != 0).then(|| Packet::large(0, 9000, 0).expect("there is memory")),
                ];
                let packets = made.drain(made.len().saturating_sub(most)..).chain(more.into_iter().flatten());
                for packet in packets.take(BATCH) {
                    batch.push(packet).ok();
                }
                let count = batch.len();
                prop_assert_eq!(other.recycle(&mut batch), count as u64);
                prop_assert!(batch.is_empty());
            }
            other.return_foreign();
            prop_assert_eq!((pool.outstanding(), second.outstanding(), other.outstanding()), (0, 0, 0));
        }
    }

    /// Each packet goes where its first set says, in order, as far as there is room.
    #[test]
    fn a_batch_is_dealt_out(
        count in 0usize..=BATCH,
        held in proptest::collection::vec(0usize..=BATCH, 3),
        sets in proptest::array::uniform3(any::<u64>()),
    ) {
        let mut pool = Pool::heap(5 * BATCH);
        let mut batch = Batch::new();
        for n in 0..count {
            batch.push(numbered(&mut pool, n as u8)).unwrap();
        }
        let mut expected: Vec<Vec<u8>> = held.iter().map(|held| std::vec![99; *held]).collect();
        let mut stay: Vec<u8> = (0..count as u8).collect();
        for (set, into) in sets.iter().zip(&mut expected) {
            stay.retain(|n| {
                let goes = set >> n & 1 == 1 && into.len() < BATCH;
                if goes {
                    into.push(*n);
                }
                !goes
            });
        }
        let mut others: Vec<Batch> = Vec::new();
        for held in held {
            let mut other = Batch::new();
            for _ in 0..held {
                other.push(numbered(&mut pool, 99)).unwrap();
            }
            others.push(other);
        }
        let mut dispatch = batch.dispatch();
        for (set, other) in sets.iter().zip(&mut others) {
            dispatch.send(*set, other);
        }
        drop(dispatch);
        let content = |batch: &Batch| batch.iter().map(|p| p.data()[0]).collect::<Vec<u8>>();
        prop_assert_eq!(content(&batch), stay);
        prop_assert_eq!(others.iter().map(content).collect::<Vec<_>>(), expected);
        drop((batch, others));
        prop_assert_eq!(pool.outstanding(), 0);
    }
}

#[test]
fn facts_hold_until_packets_may_have_changed() {
    let mut pool = Pool::heap(16);
    let known = Facts::UNICAST.and(Facts::NO_OPTIONS);
    let fresh = |pool: &mut Pool| {
        let mut batch = Batch::new();
        for n in 0..4 {
            batch.push(numbered(pool, n)).unwrap();
        }
        assert_eq!(batch.facts(), Facts::NONE);
        batch.learn(Facts::UNICAST);
        batch.learn(Facts::NO_OPTIONS);
        assert_eq!(batch.facts(), known);
        batch
    };
    let mut batch = fresh(&mut pool);
    assert_eq!(batch.iter().count(), 4);
    batch.pop();
    assert_eq!(batch.facts(), known);
    let _ = batch.iter_mut_keeping(Facts::UNICAST);
    assert_eq!(batch.facts(), Facts::UNICAST);
    let _ = batch.iter_mut();
    assert_eq!(batch.facts(), Facts::NONE);

    let mut batch = fresh(&mut pool);
    batch.filter_keeping(Facts::NO_OPTIONS, &mut (), |_, _| None::<()>, |_, _, _| {});
    assert_eq!(batch.facts(), Facts::NO_OPTIONS);
    batch.push(numbered(&mut pool, 9)).unwrap();
    assert_eq!(
        batch.facts(),
        Facts::NONE,
        "nothing is known of the new one"
    );

    // What was dealt out is known as before, with what else is known of those there.
    let mut batch = fresh(&mut pool);
    let (mut empty, mut other) = (Batch::new(), Batch::new());
    other.push(numbered(&mut pool, 9)).unwrap();
    other.learn(Facts::UNICAST);
    let mut dispatch = batch.dispatch();
    dispatch.send(1, &mut empty);
    dispatch.send(2, &mut other);
    drop(dispatch);
    assert_eq!((batch.facts(), empty.facts()), (known, known));
    assert_eq!(other.facts(), Facts::UNICAST);
    other.append(&mut batch, 9);
    assert_eq!(other.facts(), Facts::UNICAST);
    empty.append(&mut other, 1);
    assert_eq!(empty.facts(), Facts::UNICAST);

    let mut fifo = Fifo::new();
    fifo.try_reserve(8).unwrap();
    fifo.append(&mut empty);
    let mut batch = Batch::new();
    batch.learn(known);
    fifo.take(&mut batch, 8);
    assert_eq!(batch.facts(), Facts::NONE);
}
