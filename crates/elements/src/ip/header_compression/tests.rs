use crate::testing::*;

/// A segment of flow `port` with these fields.
fn segment(port: u16, ident: u16, sequence: u32, ack: u32, window: u16, data: &[u8]) -> Vec<u8> {
    let mut packet = tcp((A, port), (B, 80), 0x10, data);
    packet[4..6].copy_from_slice(&ident.to_be_bytes());
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    packet[28..32].copy_from_slice(&ack.to_be_bytes());
    packet[34..36].copy_from_slice(&window.to_be_bytes());
    with_checksum(packet)
}

fn with_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    packet[10..12].fill(0);
    let sum = checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The compressed packets, and what became of them at the other end.
fn both_ways(packets: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut rig = Rig::new(
        "i :: Inject -> RFC2507c -> t :: Tee; t[0] -> wire :: Collect;
         t[1] -> RFC2507d -> c :: Collect;",
    );
    for packet in packets {
        rig.push("i", packet);
    }
    assert_eq!(rig.outstanding(), 2 * packets.len());
    (rig.data("wire"), rig.data("c"))
}

#[test]
fn later_packets_of_a_flow_are_short() {
    let packets = [
        segment(5, 1, 1000, 1, 500, b"abc"),
        segment(5, 2, 1003, 1, 500, b"defg"),
        segment(5, 3, 1007, 300, 500, b"h"),
        segment(5, 9, 1008, 300, 499, b""),
        segment(5, 9, 1008, 300, 499, b""),
    ];
    let (wire, out) = both_ways(&packets);
    assert_eq!(wire[0], [&[1, 1][..], &packets[0]].concat());
    let sum = |n: usize| [packets[n][36], packets[n][37]];
    let [high, low] = sum(1);
    assert_eq!(wire[1], [&[2, 1, 8, high, low, 3][..], b"defg"].concat());
    let [high, low] = sum(2);
    assert_eq!(
        wire[2],
        [&[2, 1, 12, high, low, 0, 1, 43, 4][..], b"h"].concat()
    );
    let [high, low] = sum(3);
    assert_eq!(wire[3], [2, 1, 42, high, low, 0, 255, 255, 1, 6]);
    assert_eq!(wire[4], [2, 1, 32, high, low, 0, 0, 0]);
    assert_eq!(out, packets);
}

#[test]
fn what_cannot_be_compressed_goes_whole() {
    let mut fragment = segment(5, 1, 1, 1, 1, b"abc");
    fragment[6] = 0x20;
    let mut padded = segment(5, 1, 1, 1, 1, b"abc");
    padded.push(0);
    let mut wrong = segment(5, 1, 1, 1, 1, b"abc");
    wrong[10] ^= 1;
    let packets = [
        udp((A, 5), (B, 6), b"abc"),
        tcp((A, 5), (B, 6), 2, b""),
        tcp((A, 5), (B, 6), 0x11, b""),
        with_checksum(fragment),
        padded,
        wrong,
        [0x45; 39].to_vec(),
        Vec::new(),
    ];
    let (wire, out) = both_ways(&packets);
    for (wire, packet) in wire.iter().zip(&packets) {
        assert_eq!(*wire, [&[0][..], packet].concat());
    }
    assert_eq!(out, packets);
}

#[test]
fn contexts_are_few_and_change_hands() {
    let packets: Vec<_> = (0..200)
        .map(|n| segment(n % 20, n, 7, 7, 7, b"x"))
        .collect();
    let (wire, out) = both_ways(&packets);
    assert!(wire.iter().all(|packet| (1..=14).contains(&packet[1])));
    assert!(wire.iter().filter(|packet| packet[0] == 1).count() > 20);
    assert_eq!(out, packets);
}

#[test]
fn packets_without_a_context_are_dropped() {
    let mut rig = Rig::new("i :: Inject -> d :: RFC2507d -> c :: Collect;");
    let bad: [&[u8]; 10] = [
        &[],
        &[1],
        &[3, 1, 0, 0, 0],
        &[2, 1, 0, 0, 0],
        &[1, 0, 0x45],
        &[1, 15, 0x45],
        &[2, 0, 0, 0, 0],
        &[2, 255, 0, 0, 0],
        &[2, 15, 0, 0, 0],
        &[2, 3],
    ];
    for bytes in bad {
        rig.push("i", bytes);
    }
    assert_eq!((rig.read("d.drops"), rig.outstanding()), ("10".into(), 0));
    // A context, then changes that are cut off: the context stays as it was.
    let packet = segment(5, 1, 1000, 1, 500, b"abc");
    rig.push("i", &[&[1, 3][..], &packet].concat());
    rig.push("i", &[2, 3, 0x2f, 0, 0, 5, 0]);
    let next = segment(5, 2, 1000, 1, 500, b"");
    rig.push("i", &[2, 3, 0, next[36], next[37]]);
    assert_eq!(rig.data("c"), [packet, next]);
    assert_eq!(rig.read("d.drops"), "11");
}

/// Fields of segments of a few flows, mostly near each other.
fn segments() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let near = |n: u32| prop_oneof![3 => 0..n, 1 => any::<u32>()];
    let fields = (
        0u16..4,
        near(4),
        near(400),
        near(70_000),
        near(3),
        any::<[u8; 6]>(),
        prop::collection::vec(any::<u8>(), 0..9),
    );
    prop::collection::vec(fields, 1..40).prop_map(|all| {
        let build =
            |(port, ident, sequence, ack, window, odd, data): (_, _, _, _, _, [u8; 6], Vec<u8>)| {
                let mut packet = segment(port, ident as u16, sequence, ack, window as u16, &data);
                // Now and then: flags, urgent pointer, type of service, time to live, length of header.
                match odd[0] {
                    0..40 => packet[33] = odd[1],
                    40..60 => packet[39] = odd[2] % 3,
                    60..70 => packet[1] = odd[3],
                    70..80 => packet[8] = odd[4],
                    80..90 => packet[32] = odd[5],
                    90..110 => packet[33] |= 0x20,
                    110..120 => packet[6] = odd[1],
                    _ => {}
                }
                with_checksum(packet)
            };
        all.into_iter().map(build).collect()
    })
}

proptest! {
    #[test]
    fn what_comes_out_is_what_went_in(packets in segments()) {
        let (wire, out) = both_ways(&packets);
        prop_assert_eq!(out, packets.clone());
        for (wire, packet) in wire.iter().zip(&packets) {
            prop_assert!(wire.len() <= packet.len() + 2);
        }
    }

    #[test]
    fn no_bytes_break_the_other_end(
        packets in prop::collection::vec((0u8..4, 0u8..17, any::<Vec<u8>>()), 1..40)
    ) {
        let mut rig = Rig::new("i :: Inject -> RFC2507d -> Discard;");
        rig.push("i", &[&[1, 2][..], &segment(5, 1, 1, 1, 1, b"abc")].concat());
        for (kind, id, rest) in packets {
            rig.push("i", &[&[kind, id][..], &rest].concat());
        }
        prop_assert_eq!(rig.outstanding(), 0);
    }
}
