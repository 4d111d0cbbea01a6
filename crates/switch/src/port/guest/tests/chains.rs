//! Frames that stand for several, from guest to guest.

use abi::chain::{SLOTS, follow};

use super::*;
use crate::port::offload::tests::{Large, large};

/// Sends a frame over slots of `lens` bytes each, the last one with the rest.
fn send_chain(
    side: &mut GuestSide,
    doorbell: &OwnedFd,
    bytes: &[u8],
    lens: &[usize],
    said: Slot,
) -> bool {
    let mut rest = bytes;
    let mut parts = Vec::new();
    for len in lens.iter().chain([&BUFFER_STRIDE].repeat(40)) {
        let (part, behind) = rest.split_at(rest.len().min(*len));
        parts.push(part);
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    let n = parts.len() as u32;
    if side.transmit.free(n).unwrap() < n {
        return false;
    }
    for (i, part) in parts.into_iter().enumerate() {
        let said = if i == 0 { said } else { Slot::spent(0) };
        let more = if i as u32 + 1 < n { flags::MORE } else { 0 };
        let slot = Slot {
            buffer: side.transmit.peek(i as u32).buffer,
            len: part.len() as u16,
            flags: said.flags | more,
            ..said
        };
        side.region.frame(slot).unwrap().write(part);
        side.transmit.fill(i as u32, slot);
    }
    side.transmit.publish(n);
    if side.transmit.consumer_sleeps() {
        ring(doorbell);
    }
    true
}

/// All frames that have come, each with its first slot.
fn receive_chains(side: &mut GuestSide) -> Vec<(Vec<u8>, Slot)> {
    let filled = side.receive.filled(u32::MAX).unwrap();
    let (mut frames, mut at) = (Vec::new(), 0);
    while at < filled {
        let mut frame = Vec::new();
        let mut read = |slot| {
            let bytes = side.region.frame(slot).unwrap();
            let start = frame.len();
            frame.resize(start + bytes.len(), 0);
            bytes.read(&mut frame[start..]);
        };
        let first = side.receive.peek(at);
        read(first);
        at += follow(&side.receive, at, filled, first, read).unwrap();
        frames.push((frame, first));
    }
    side.receive.release(filled);
    frames
}

fn take_segments(side: &GuestSide) {
    side.region.set_accepts(0, accepts::SEGMENTS);
}

/// A segment without its headers, which `Large` has, too: `payload` bytes.
fn payload_of(segment: &[u8], large: &Large) -> Vec<u8> {
    segment[large.payload..].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A frame that stands for several comes to a guest that takes it as it was sent, however it
    /// lay in its sender's buffers, and to another one cut, with the same bytes in order.
    #[test]
    fn a_frame_that_stands_for_several_crosses_whole_or_cut(
        large in large(), lens in proptest::collection::vec(1usize..2000, 0..20), takes: bool,
    ) {
        let mut bench = Bench::new();
        let (mut a, pa, doorbell) = bench.guest(2048);
        let (mut b, pb, _bell) = bench.guest(2048);
        if takes {
            take_segments(&b);
        }
        let said = large.vnet.to_slot();
        prop_assert!(send_chain(&mut a, &doorbell, &large.bytes, &lens, said));
        bench.round();
        let mut segments = Segmenter::new(&large.bytes, large.vnet).unwrap();
        let long = segments.longest() > 1500 + ETHERNET + tags_len(&large.bytes);
        let (count, came) = (segments.count(), receive_chains(&mut b));
        let (from, to) = (bench.stats(pa), bench.stats(pb));
        prop_assert_eq!((from.frames_in, from.segmented_in), (1, 1));
        prop_assert_eq!(a.transmit.free(2048), Ok(2048), "all slots came back");
        if long {
            prop_assert!(came.is_empty());
            prop_assert_eq!(to.dropped(Reason::TooLong), count as u64);
        } else if takes {
            prop_assert_eq!(came.len(), 1);
            prop_assert_eq!(&came[0].0, &large.bytes);
            let first = came[0].1;
            prop_assert_eq!(first.flags & !flags::MORE, said.flags);
            prop_assert_eq!(first.checksum_start, said.checksum_start);
            prop_assert_eq!(first.checksum_offset, said.checksum_offset);
            prop_assert_eq!(first.segment_size, said.segment_size);
            prop_assert_eq!((to.frames_out, to.cut), (1, 0));
            prop_assert_eq!(to.bytes_out, large.bytes.len() as u64);
        } else {
            // What the ring has no room for is counted.
            let fitting = count.min(2048);
            prop_assert_eq!(came.len(), fitting);
            prop_assert_eq!(to.dropped(Reason::RingFull), (count - fitting) as u64);
            let payloads = came.iter().map(|(bytes, _)| payload_of(bytes, &large));
            let payloads = payloads.collect::<Vec<_>>().concat();
            prop_assert!(large.bytes[large.payload..].starts_with(&payloads));
            prop_assert!(fitting < count || payloads.len() == large.bytes.len() - large.payload);
            for (bytes, slot) in &came {
                let (headers, payload) = segments.next_segment().unwrap();
                prop_assert_eq!(bytes, &[headers, payload].concat());
                prop_assert_eq!(slot.flags, flags::CHECKSUM_VALID);
            }
            prop_assert_eq!((to.frames_out, to.cut), (fitting as u64, 1));
        }
    }

    /// A frame with a partial checksum comes with it to a guest that takes it, and complete to
    /// another; a guest that says so of what is none is not believed.
    #[test]
    fn a_partial_checksum_crosses_or_is_completed(large in large(), takes: bool, lie in 0u16..3) {
        let mut bench = Bench::new();
        let (mut a, pa, doorbell) = bench.guest(64);
        let (mut b, _, _bell) = bench.guest(64);
        if takes {
            take_segments(&b);
        }
        let mut said = large.vnet.to_slot();
        let whole = &large.bytes[..large.bytes.len().min(1500)];
        (said.flags, said.segment_size) = (flags::NEEDS_CHECKSUM, 0);
        said.checksum_start += lie;
        prop_assert!(send_chain(&mut a, &doorbell, whole, &[], said));
        bench.round();
        let came = receive_chains(&mut b);
        if lie > 0 {
            prop_assert!(came.is_empty());
            prop_assert_eq!(bench.stats(pa).dropped(Reason::Offload), 1);
        } else if takes {
            prop_assert_eq!(&came[0].0, whole);
            prop_assert_eq!(Slot { offset: 0, len: 0, ..came[0].1 }, Slot {
                buffer: came[0].1.buffer,
                ..said
            });
        } else {
            let (at, sum) = checksum_of(whole, VnetHeader::of_slot(said)).unwrap();
            let mut expected = whole.to_vec();
            expected[at..at + 2].copy_from_slice(&sum);
            prop_assert_eq!(&came[0].0, &expected);
            prop_assert_eq!(came[0].1.flags, flags::CHECKSUM_VALID);
        }
    }
}

/// TCP over IPv4 of `len` bytes, to be cut into full segments.
fn tcp(len: usize) -> (Vec<u8>, Slot) {
    let mut bytes = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    bytes.extend(((len - 14) as u16).to_be_bytes());
    bytes.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend([
        0, 80, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0,
    ]);
    bytes.extend((54..len).map(|i| (i / 7) as u8));
    let said = Slot {
        flags: flags::NEEDS_CHECKSUM | flags::SEGMENT_TCP4,
        checksum_start: 34,
        checksum_offset: 16,
        segment_size: 1460,
        ..Slot::spent(0)
    };
    (bytes, said)
}

#[test]
fn the_longest_frames_go_through_the_shortest_rings() {
    let mut bench = Bench::new();
    let (mut a, pa, doorbell) = bench.guest(64);
    let (mut b, pb, _bell) = bench.guest(64);
    take_segments(&b);
    let (bytes, said) = tcp(65_535 + 14);
    for round in 1..=20 {
        assert!(send_chain(&mut a, &doorbell, &bytes, &[FRAME_MAX], said));
        bench.round();
        let came = receive_chains(&mut b);
        assert_eq!(came.len(), 1, "round {round}");
        assert!(came[0].0 == bytes);
    }
    // A second one finds no room behind the first, and is lost as a whole.
    for _ in 0..2 {
        assert!(send_chain(&mut a, &doorbell, &bytes, &[FRAME_MAX], said));
        bench.round();
        bench.outlast_hold();
    }
    assert_eq!(receive_chains(&mut b).len(), 1);
    assert_eq!(bench.stats(pb).dropped(Reason::RingFull), 1);
    assert_eq!((bench.stats(pa).segmented_in, bench.stats(pb).cut), (22, 0));
}

#[test]
fn a_chain_that_breaks_the_rules_is_a_violation_and_harms_no_other_frame() {
    let mut bench = Bench::new();
    let (mut a, pa, doorbell) = bench.guest(128);
    let (mut b, _, _bell) = bench.guest(128);
    let good = frame(9, 1, &[5; 50]);
    let more = |i: u32, len: u16, buffer: Option<u32>| Slot {
        len,
        flags: flags::MORE,
        ..Slot::spent(buffer.unwrap_or(i))
    };
    // Without an end; with a part that is no buffer; of too many slots; of too many bytes.
    let no_end = vec![more(0, 100, None); 3];
    let mut no_buffer = vec![more(0, 100, None), more(1, 100, Some(1 << 20))];
    no_buffer.push(Slot {
        flags: 0,
        ..more(2, 100, None)
    });
    let mut too_many = vec![more(0, 20, None); SLOTS as usize];
    too_many.push(Slot {
        flags: 0,
        ..more(0, 20, None)
    });
    let mut too_long = vec![more(0, 2100, None); 32];
    too_long.push(Slot {
        flags: 0,
        ..more(0, 2100, None)
    });
    for (n, chain) in [no_end, no_buffer, too_many, too_long].iter().enumerate() {
        assert!(send(&mut a, &doorbell, &good));
        bench.round();
        for (i, slot) in (0..).zip(chain) {
            a.transmit.fill(i, *slot);
        }
        a.transmit.publish(chain.len() as u32);
        ring(&doorbell);
        bench.round();
        assert!(send(&mut a, &doorbell, &good));
        bench.round();
        let stats = bench.stats(pa);
        assert_eq!(stats.dropped(Reason::Violation), n as u64 + 1);
        let came = receive(&mut b);
        assert_eq!(came.iter().filter(|came| **came == good).count(), 2);
        assert_eq!(a.transmit.free(128), Ok(128));
    }
}
