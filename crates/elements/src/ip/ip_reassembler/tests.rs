use crate::testing::*;

const A: Ipv4Addr = Ipv4Addr::new(1, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(2, 0, 0, 2);

fn rig(args: &str) -> Rig {
    Rig::new(&format!(
        "i :: Inject -> MarkIPHeader -> r :: IPReassembler({args}) -> c :: Collect;
         r[1] -> lost :: Collect;"
    ))
}

/// A packet and its fragments with at most `most` bytes of payload each, a multiple of 8.
fn fragments(ident: u16, payload: &[u8], most: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let whole = with(&udp((A, 1), (B, 2), payload), |ip| ip.set_ident(ident));
    let data = &whole[20..];
    let count = data.len().div_ceil(most);
    let fragment = |(i, piece): (usize, &[u8])| {
        let bytes = [&whole[..20], piece].concat();
        with(&bytes, |ip| {
            ip.set_fragment(false, i + 1 < count, (i * most) as u16);
            ip.set_total_len(20 + piece.len() as u16);
        })
    };
    let pieces = data.chunks(most).enumerate().map(fragment).collect();
    (whole, pieces)
}

fn with(packet: &[u8], change: impl FnOnce(&mut Ipv4Packet<&mut [u8]>)) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let mut ip = Ipv4Packet::new_unchecked(&mut packet[..]);
    change(&mut ip);
    ip.fill_checksum();
    packet
}

#[test]
fn whole_packets_pass() {
    let mut rig = rig("");
    let packet = udp((A, 1), (B, 2), &[1]);
    rig.push("i", &packet);
    rig.push("i", &[]);
    assert_eq!(rig.data("c"), [packet, vec![]]);
}

#[test]
fn fragments_in_any_order_make_the_packet() {
    let mut rig = rig("");
    let (whole, pieces) = fragments(7, &[5; 72], 24);
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        for i in order {
            assert!(rig.data("c").is_empty());
            rig.push("i", &pieces[i]);
        }
        assert_eq!(rig.data("c"), [&whole[..]]);
    }
    assert_eq!(rig.outstanding(), 0);
    let dump = "frags seen total:    12\ngood reassemblies:   3\nfailed reassemblies: 0\n\
        bad fragments seen:  0\ncached chunk data:\n";
    assert_eq!(rig.read("r.dump"), dump);
}

#[test]
fn the_first_fragment_gives_headers_and_annotations_the_last_to_come_the_time() {
    let mut rig = Rig::new(
        "i :: Inject -> MarkIPHeader(14) -> IPReassembler(MAX_MTU_ANNO 20) -> c :: Collect;",
    );
    let (whole, pieces) = fragments(7, &[5; 40], 24);
    for (n, i) in [1u8, 0].into_iter().enumerate() {
        let frame = ether([i; 6], [9; 6], 0x0800, &pieces[usize::from(i)]);
        rig.push_with("i", &frame, |packet| {
            packet.set_paint(i + 1);
            packet.set_timestamp(1_000_000_000 + n as i64);
        });
    }
    let packets = rig.collected("c");
    assert_eq!(packets[0].data(), ether([0; 6], [9; 6], 0x0800, &whole));
    assert_eq!(
        (packets[0].paint(), packets[0].timestamp()),
        (1, 1_000_000_001)
    );
    assert_eq!(packets[0].network_offset(), Some(14));
    let mtu = Anno {
        offset: 20,
        size: 2,
        ..DST_IP
    };
    assert_eq!(packets[0].anno(mtu), 44);
}

#[test]
fn packets_are_not_mixed_up() {
    let mut rig = rig("");
    let (one, a) = fragments(7, &[5; 40], 24);
    let (two, b) = fragments(8, &[6; 40], 24);
    for piece in [&a[0], &b[1], &b[0], &a[1]] {
        rig.push("i", piece);
    }
    assert_eq!(rig.data("c"), [two, one]);
}

#[test]
fn nonsense_is_dropped_and_counted() {
    let mut rig = rig("");
    let (whole, pieces) = fragments(7, &[5; 40], 24);
    let odd = with(&pieces[0][..41], |ip| ip.set_total_len(41));
    let empty = with(&pieces[0][..20], |ip| ip.set_total_len(20));
    let long = with(&pieces[0], |ip| ip.set_fragment(false, true, 0xfff8));
    let cut = pieces[0][..30].to_vec();
    rig.push_all("i", &[odd, empty, long, cut]);
    assert!(rig.read("r.dump").contains("bad fragments seen:  4\n"));
    // Behind the known end, and an end before it.
    let beyond = with(&pieces[0], |ip| ip.set_fragment(false, true, 48));
    let early = with(&pieces[0], |ip| ip.set_fragment(false, false, 8));
    rig.push_all("i", &[pieces[1].clone(), beyond, early, pieces[0].clone()]);
    assert_eq!(rig.data("c"), [whole]);
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn what_stays_incomplete_is_given_up() {
    let mut rig = rig("");
    let (_, pieces) = fragments(7, &[5; 72], 24);
    rig.push("i", &pieces[0]);
    rig.push("i", &pieces[2]);
    assert!(
        rig.read("r.dump")
            .contains(" (1.0.0.1, 1, 2.0.0.2, 2) 7 (0,24) (48,72)\n")
    );
    rig.advance(41_000_000_000);
    let (_, others) = fragments(8, &[5; 40], 24);
    rig.push("i", &others[0]);
    let lost = rig.data("lost");
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].len(), 20 + 72);
    assert_eq!(lost[0][6], 0x20);
    assert_eq!(checksum(&lost[0][..20]), 0);
    assert!(rig.read("r.dump").contains("failed reassemblies: 0\n"));
}

#[test]
fn memory_is_bounded() {
    let mut rig = rig("HIMEM 4000");
    for ident in 0..100 {
        let (_, pieces) = fragments(ident, &[5; 40], 24);
        rig.push("i", &pieces[0]);
    }
    let left = rig.read("r.dump").matches("\n (").count();
    assert!((30..60).contains(&left), "{left}");
    assert_eq!(rig.data("lost").len() + left, 100);
}

#[test]
fn a_fragment_of_the_first_second_has_no_time() {
    let mut rig = rig("");
    let (_, pieces) = fragments(7, &[5; 40], 24);
    for piece in &pieces {
        rig.push_with("i", piece, |packet| packet.set_timestamp(999_999_999));
    }
    assert!(rig.collected("c")[0].timestamp() > 999_999_999);
    let (_, pieces) = fragments(8, &[5; 40], 24);
    for piece in &pieces {
        rig.push_with("i", piece, |packet| packet.set_timestamp(1_000_000_000));
    }
    assert_eq!(rig.collected("c")[0].timestamp(), 1_000_000_000);
}

#[test]
fn incomplete_packets_are_shown_in_clicks_order() {
    let mut rig = rig("");
    for ident in [0x201, 7, 0x101, 8] {
        rig.push("i", &fragments(ident, &[5; 40], 24).1[1]);
    }
    let dump = rig.read("r.dump");
    let (_, lines) = dump.split_once("cached chunk data:\n").unwrap();
    let line = |ident: u16| format!(" (1.0.0.1, 0, 2.0.0.2, 0) {ident} (24,48)\n");
    assert_eq!(lines, [8, 7, 0x101, 0x201].map(line).concat());
}

#[test]
fn what_stays_incomplete_is_given_up_though_nothing_else_comes() {
    let mut rig = rig("");
    let (_, pieces) = fragments(7, &[5; 72], 24);
    // A time long past, as from a file, does not make it old.
    rig.push_with("i", &pieces[0], |packet| {
        packet.set_timestamp(1_000_000_000)
    });
    rig.advance(25_000_000_000);
    assert!(rig.data("lost").is_empty());
    rig.advance(20_000_000_000);
    assert_eq!(rig.data("lost").len(), 1);
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn most_buffers_are_left_for_others() {
    let mut rig = rig("HIMEM 100000000");
    for ident in 0..3000 {
        let (_, pieces) = fragments(ident, &[5; 40], 24);
        rig.push("i", &pieces[0]);
        assert!(rig.outstanding() <= (1 << 14) / 4 + rig.data("lost").len());
    }
    let last = fragments(2999, &[5; 40], 24).1;
    rig.push("i", &last[1]);
    assert_eq!(rig.data("c").len(), 1, "the oldest went");
}

#[test]
fn holes_hold_nothing_of_earlier_packets() {
    let mut rig = rig("");
    for _ in 0..20 {
        rig.push("i", &udp((A, 1), (B, 2), &[0xee; 200]));
    }
    rig.data("c");
    let (_, pieces) = fragments(7, &[5; 72], 24);
    rig.push("i", &pieces[3]);
    rig.push("i", &pieces[0]);
    rig.advance(41_000_000_000);
    let lost = rig.data("lost");
    assert_eq!(lost[0][20 + 24..20 + 72], [0; 48]);
}

#[test]
fn a_stripped_mac_header_is_not_pointed_to() {
    let mut rig =
        Rig::new("i :: Inject -> Strip(14) -> MarkIPHeader -> IPReassembler -> c :: Collect;");
    let (_, pieces) = fragments(7, &[5; 40], 24);
    for piece in &pieces {
        let frame = ether([1; 6], [9; 6], 0x0800, piece);
        rig.push_with("i", &frame, |packet| packet.set_mac_header(0));
    }
    assert_eq!(rig.collected("c")[0].mac_offset(), None);
}

/// Packets over IPv6 behind 0 to 2 headers, and their fragments.
fn fragments6(payload: &[u8], headers: usize, mtu: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (a, b) = (ip6::addr("2001:db8::a"), ip6::addr("2001:db8::b"));
    let udp = ip6::udp((a, 5), (b, 6), payload)[40..].to_vec();
    let options = [[0, 0, 1, 4, 0, 0, 0, 0], [17, 0, 1, 4, 0, 0, 0, 0]];
    let (first, options): (u8, &[[u8; 8]]) = match headers {
        0 => (17, &[]),
        1 => (0, &options[1..]),
        // Hop-by-hop, then options for the destination.
        _ => (0, &[[60, 0, 1, 4, 0, 0, 0, 0], options[1]]),
    };
    let whole = ip6::packet(first, a, b, &[options.as_flattened(), &udp].concat());
    let mut cut = Rig::new(&format!(
        "i :: Inject -> MarkIP6Header -> IP6Fragmenter({mtu}) -> c :: Collect;"
    ));
    cut.push("i", &whole);
    let pieces = cut.data("c");
    (whole, pieces)
}

fn rig6() -> Rig {
    Rig::new(
        "i :: Inject -> MarkIP6Header -> r :: IPReassembler(MAX_MTU_ANNO 36) -> c :: Collect; r[1] -> lost :: Collect;",
    )
}

#[test]
fn ipv6_packets_whose_fragments_overlap_are_dropped() {
    let (whole, pieces) = fragments6(&[5; 100], 1, 104);
    let [first, second, third] = &pieces[..] else {
        panic!("{} pieces", pieces.len());
    };
    let mut rig = rig6();
    // Twice the same is none.
    for piece in [first, first, third, third, second] {
        rig.push("i", piece);
    }
    assert_eq!(rig.data("c"), [&whole[..]]);
    let mut other = second.clone();
    other[60] ^= 1;
    for piece in [first, second, &other, third, second] {
        rig.push("i", piece);
    }
    assert!(rig.data("c").is_empty());
    rig.advance(45_000_000_000);
    assert!(rig.data("lost").is_empty());
    assert_eq!(rig.outstanding(), 0);
    // The identification counts, and so do the addresses.
    let mut stranger = third.clone();
    stranger[23] ^= 1;
    for piece in [first, second, &stranger] {
        rig.push("i", piece);
    }
    assert!(rig.data("c").is_empty());
    rig.push("i", third);
    assert_eq!(rig.data("c"), [whole]);
}

#[test]
fn what_is_whole_over_ipv6_passes() {
    let mut rig = rig6();
    let (whole, _) = fragments6(&[5; 100], 2, 2000);
    let (a, b) = (ip6::addr("2001:db8::a"), ip6::addr("2001:db8::b"));
    let atomic = ip6::packet(44, a, b, &[17, 0, 0, 0, 0, 0, 0, 9, 1, 2, 3, 4]);
    let wrong = ip6::packet(0, a, b, &[17, 9, 0, 0, 0, 0, 0, 9]);
    let all = [whole, atomic, wrong];
    rig.push_all("i", &all);
    assert_eq!(rig.data("c"), all);
    // Lengths that are impossible.
    let odd = ip6::packet(44, a, b, &[17, 0, 0, 1, 0, 0, 0, 9, 1, 2, 3, 4]);
    let empty = ip6::packet(44, a, b, &[17, 0, 0, 1, 0, 0, 0, 9]);
    let long = ip6::packet(
        44,
        a,
        b,
        &[&[17, 0, 0xff, 0xf9, 0, 0, 0, 9][..], &[0; 16]].concat(),
    );
    rig.push_all("i", &[odd, empty, long]);
    assert!(rig.read("r.dump").contains("bad fragments seen:  3\n"));
}

#[test]
fn what_was_put_together_is_cut_again_where_nothing_else_may_be() {
    let mut rig = Rig::new(
        "i :: Inject -> MarkIP6Header -> IPReassembler(MAX_MTU_ANNO 36)
             -> f :: IP6Fragmenter(1500, HONOR_DF true, MTU_ANNO 36) -> c :: Collect; f[1] -> long :: Collect;",
    );
    // The second would fit.
    for (payload, mtu) in [(4000, 1400), (1400, 1300)] {
        let (whole, pieces) = fragments6(&vec![5; payload], 0, mtu);
        for piece in &pieces {
            rig.push("i", piece);
        }
        let again = rig.data("c");
        assert!(again.len() == pieces.len() && again.iter().all(|piece| piece.len() <= mtu));
        rig.push("i", &whole);
        let place = if whole.len() > 1500 { "long" } else { "c" };
        assert_eq!(rig.data(place), [whole]);
    }
}

proptest! {
    #[test]
    fn ipv6_fragments_in_any_order_make_the_packet(
        payload in proptest::collection::vec(any::<u8>(), 0..2000),
        headers in 0usize..3,
        mtu in 72usize..600,
        order in any::<u64>(),
    ) {
        let (whole, mut pieces) = fragments6(&payload, headers, mtu);
        let mut rig = rig6();
        let mut random = order;
        while !pieces.is_empty() {
            prop_assert!(rig.data("c").is_empty());
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let piece = pieces.swap_remove((random >> 33) as usize % pieces.len());
            rig.push("i", &piece);
        }
        prop_assert_eq!(rig.data("c"), [whole]);
        prop_assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn hostile_ipv6_fragments_do_no_harm(
        changes in prop::collection::vec((0usize..6, prop::collection::vec((0usize..70, any::<u8>()), 0..5), 0usize..120), 1..60),
    ) {
        let (_, pieces) = fragments6(&[5; 300], 1, 104);
        let mut rig = rig6();
        for (piece, changes, length) in changes {
            let mut piece = pieces[piece % pieces.len()].clone();
            for (at, value) in changes {
                if let Some(byte) = piece.get_mut(at) {
                    *byte = value;
                }
            }
            piece[0] = 0x60;
            piece.truncate(length.max(1));
            rig.push("i", &piece);
        }
        rig.data("c");
        rig.advance(100_000_000_000);
        rig.data("lost");
        prop_assert_eq!(rig.outstanding(), 0);
    }

    #[test]
    fn any_cuts_in_any_order_make_the_packet(
        payload in proptest::collection::vec(any::<u8>(), 9..500),
        cuts in proptest::collection::vec((0usize..64, 1usize..20), 0..40),
    ) {
        let (whole, _) = fragments(7, &payload, 1000);
        let data = &whole[20..];
        let mut rig = rig("");
        let piece = |start: usize, end: usize| {
            with(&[&whole[..20], &data[start..end]].concat(), |ip| {
                ip.set_fragment(false, end < data.len(), start as u16);
                ip.set_total_len((20 + end - start) as u16);
            })
        };
        let mut done = false;
        for (start, length) in cuts {
            let start = start * 8;
            if start < data.len() && !done && start > 0 {
                rig.push("i", &piece(start, data.len().min(start + length * 8)));
            }
            done |= !rig.data("c").is_empty();
        }
        prop_assert!(!done, "the first fragment is missing");
        for start in (0..data.len()).step_by(8).rev() {
            rig.push("i", &piece(start, data.len().min(start + 8)));
        }
        prop_assert_eq!(rig.data("c"), [whole]);
    }
    /// Fragments that contradict each other about the packet's end: `(start, length, last, byte)`,
    /// in units of 8 bytes, but for the length of the last ones.
    #[test]
    fn the_end_is_as_far_as_fragments_reach_when_the_last_comes(
        history in proptest::collection::vec((0usize..6, 1usize..48, any::<bool>(), any::<u8>()), 1..40),
    ) {
        let mut rig = rig("");
        // What a packet of one byte per index would be.
        let (mut bytes, mut ended) = (Vec::<Option<u8>>::new(), false);
        for (start, length, last, byte) in history {
            let (start, last) = (start * 8, last && start > 0);
            let end = start + if last { length } else { length.div_ceil(8) * 8 };
            let data = std::vec![byte; end - start];
            let header = &udp((A, 1), (B, 2), &[])[..20];
            rig.push("i", &with(&[header, &data].concat(), |ip| {
                ip.set_fragment(false, !last, start as u16);
                ip.set_total_len((20 + data.len()) as u16);
            }));
            if end <= bytes.len() || !ended {
                bytes.resize(bytes.len().max(end), None);
                bytes[start..end].fill(Some(byte));
                ended |= last;
            }
            let whole: Option<Vec<u8>> = bytes.iter().copied().collect();
            let expected: Vec<Vec<u8>> = whole.filter(|_| ended).into_iter().collect();
            if !expected.is_empty() {
                (bytes, ended) = (Vec::new(), false);
            }
            let out = rig.data("c");
            prop_assert_eq!(out.iter().map(|packet| &packet[20..]).collect::<Vec<_>>(), expected);
        }
    }
}
