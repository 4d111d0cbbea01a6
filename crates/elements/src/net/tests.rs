//! Packets that stand for several, through routers.

use crate::testing::*;
use packet::checksum::pseudo_header_v6;
use packet::segmenter::Segmenter;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// What makes of an IP packet a frame that goes out.
const OUT: &str = "EtherEncap(0x800, 2:0:0:0:0:2, 2:0:0:0:0:3) -> ToNetfront(b)";
const OUT6: &str = "EtherEncap(0x86DD, 2:0:0:0:0:2, 2:0:0:0:0:3) -> ToNetfront(b)";

/// Ways for IPv4 packets from `a` to `b`, behind their Ethernet headers.
const WAYS: &[&str] = &[
    "DecIPTTL",
    "MarkIPHeader -> Strip(20) -> StripIPHeader -> Unstrip(20)",
    "IPClassifier(src net 10.0.0.0/8 and (tcp or udp))",
    "IPFilter(allow tcp dst port 80 or udp, allow all)",
    "c :: Classifier(9/06 32/50%f0, 9/11, -); c[0] -> n :: Null; c[1] -> n; c[2] -> n; n",
    "GetIPAddress(16) -> r :: RadixIPLookup(0/0 0) -> SetIPDSCP(5) -> SetIPChecksum",
    "FixIPSrc(1.2.3.4) -> IPGWOptions(1.2.3.4) -> DropBroadcasts -> IPFragmenter(1500)",
    "o :: IPOutputCombo(3, 1.2.3.4, 1500); o[1] -> Discard; o[2] -> Discard; o[3] -> Discard;
        o[4] -> Discard; o[0]",
    "IPReassembler -> Paint(3) -> CheckPaint(3) -> p :: PaintTee(4); p[1] -> Discard; p[0]",
    "Tee -> Queue -> Unqueue -> Counter -> SetTimestamp",
    "IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 0)",
    "IPRewriter(pattern - - 2.0.0.9 8080 0 0) -> IPRewriter(pattern 7.7.7.7 5 8.8.8.8 6 0 0)",
    "IPAddrPairRewriter(pattern 9.8.7.6 5.4.3.2 0 0)",
    "IPAddrRewriter(pattern 9.8.7.6 - 0 0)",
    "EtherVLANEncap(0x800, 1:1:1:1:1:1, 2:2:2:2:2:2, 7) -> VLANDecap -> VLANEncap(9) -> VLANDecap
        -> Strip(14)",
    "Print(x) -> Unstrip(14) -> IPInputCombo(0)",
    "SetIPAddress(255.255.255.255) -> [0] q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:9);
        Idle -> [1] q; q -> Strip(14)",
];

/// A frame that stands for several, as a kernel hands it out.
#[derive(Clone, Debug)]
struct Large {
    frame: Vec<u8>,
    offload: Offload,
}

prop_compose! {
    fn large(v6: bool)(
        tcp in any::<bool>(), options in 0usize..4, flags in any::<u8>(), id in any::<u16>(),
        ports in any::<[u8; 4]>(), sequence in any::<[u8; 8]>(),
        payload in proptest::collection::vec(any::<u8>(), 1..12_000),
        size in 100u16..1400, segmented in any::<bool>(),
    ) -> Large {
        let payload = if segmented {
            payload
        } else {
            payload[..payload.len().min(1000)].to_vec()
        };
        let (protocol, header) = if tcp { (6, 20 + 4 * options) } else { (17, 8) };
        let length = header + payload.len();
        let mut frame = [&MAC[..], &[2, 0, 0, 0, 0, 7]].concat();
        let pseudo = if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((length as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            let (from, to) = ([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], [0x3f; 16]);
            frame.extend(from);
            frame.extend(to);
            pseudo_header_v6(from.into(), to.into(), protocol, length as u32)
        } else {
            let (from, to) = ([10, 0, 0, 7], [20, 0, 0, 9]);
            let mut ip = vec![0x45, 0];
            ip.extend((20 + length as u16).to_be_bytes());
            ip.extend(id.to_be_bytes());
            ip.extend([0x40, 0, 64, protocol, 0, 0]);
            ip.extend(from);
            ip.extend(to);
            let sum = Sum::of(&ip).checksum();
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend([8, 0]);
            frame.extend(ip);
            pseudo_header_v4(from.into(), to.into(), protocol, length as u16)
        };
        let start = frame.len();
        frame.extend(ports);
        if tcp {
            frame.extend(sequence);
            frame.extend([((5 + options) as u8) << 4, flags, 1, 0]);
            frame.extend(pseudo.fold().to_be_bytes());
            frame.extend([0, 0]);
            frame.extend(vec![1; 4 * options]);
        } else {
            frame.extend((length as u16).to_be_bytes());
            frame.extend(pseudo.fold().to_be_bytes());
        }
        frame.extend(payload);
        let kind = match (tcp, v6) {
            (true, false) => SegmentKind::Tcp4,
            (true, true) => SegmentKind::Tcp6,
            (false, _) => SegmentKind::Udp,
        };
        Large {
            frame,
            offload: Offload {
                checksum_start: start,
                checksum_offset: if tcp { 16 } else { 6 },
                segments: segmented.then_some(Segments { kind, size, ecn: false }),
            },
        }
    }
}

/// The frames that one stands for, complete.
fn cut(frame: &[u8], offload: Option<Offload>) -> Vec<Vec<u8>> {
    let Some(offload) = offload else {
        return vec![frame.to_vec()];
    };
    if offload.segments.is_none() {
        let mut frame = frame.to_vec();
        let sum = match Sum::of(&frame[offload.checksum_start..]).checksum() {
            0 if offload.checksum_offset == 6 => 0xffff,
            sum => sum,
        };
        let at = offload.checksum_start + usize::from(offload.checksum_offset);
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        return vec![frame];
    }
    let mut segmenter = Segmenter::new(frame, offload).expect("what was sent can be cut");
    let mut segments = Vec::new();
    while let Some((headers, payload)) = segmenter.next_segment() {
        segments.push([headers, payload].concat());
    }
    segments
}

/// A router from `a` to `b` by `config`, and both.
fn between(config: &str) -> (Rig, Cable, Cable) {
    let (a, b) = (Cable::new(MAC), Cable::new(MAC));
    b.make_room(10_000);
    let rig = Rig::with_cables(config, 64, &[("a", &a), ("b", &b)]);
    (rig, a, b)
}

/// Whatever a router does to a packet that stands for several, it does to each that it stands for.
fn same_by_either_way(config: &str, large: &Large, first: usize) -> Result<(), TestCaseError> {
    let Large { frame, offload } = large;
    let (mut whole, a, b) = between(config);
    a.arrive_unfinished(frame, first.max(offload.checksum_start + 60), *offload);
    whole.run();
    prop_assert_eq!(a.accepts_segments(), Some(true), "{}", config);
    let sent = b.sent_unfinished();
    let got: Vec<_> = sent
        .iter()
        .flat_map(|(frame, left)| cut(frame, *left))
        .collect();

    let (mut pieces, a, b) = between(config);
    let segments = cut(frame, Some(*offload));
    segments.iter().for_each(|segment| a.arrive(segment));
    pieces.run();
    let expected = b.sent();
    prop_assert!(!expected.is_empty(), "{} sends nothing", config);
    prop_assert_eq!(&got, &expected, "{}", config);
    prop_assert_eq!(sent.len(), 1, "it left as one");
    for counter in ["f.count", "f.byte_count"] {
        prop_assert_eq!(whole.read(counter), pieces.read(counter));
    }
    prop_assert_eq!(whole.outstanding(), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn routers_do_to_a_packet_what_they_do_to_those_it_stands_for(
        large in large(false), first in 60usize..1800,
    ) {
        for way in WAYS {
            let config = format!(
                "f :: FromNetfront(a) -> Strip(14) -> CheckIPHeader -> {way} -> {OUT};"
            );
            same_by_either_way(&config, &large, first)?;
        }
    }

    #[test]
    fn ipv6_routers_do_so_too(large in large(true), first in 60usize..1800) {
        for way in [
            "DecIP6HLIM",
            "GetIP6Address(24) -> LookupIP6Route(::/0 0)",
            "IP6Mirror",
            "IP6Fragmenter(1500)",
            "MarkIP6Header -> SetIP6DSCP(3)",
        ] {
            let config = format!(
                "f :: FromNetfront(a) -> Strip(14) -> CheckIP6Header -> {way} -> {OUT6};"
            );
            same_by_either_way(&config, &large, first)?;
        }
    }

    #[test]
    fn switches_do_so_too(large in large(false), first in 60usize..1800) {
        for way in [
            "EtherMirror",
            "HostEtherFilter(2:0:0:0:0:1)",
            "EtherRewrite(1:1:1:1:1:1, 3:3:3:3:3:3)",
            "[0] s :: EtherSwitch; Idle -> [1] s; s[0] -> Discard; s[1]",
            "q :: Queue -> [0] p :: PrioSched; Idle -> [1] p; p",
        ] {
            let config = format!("f :: FromNetfront(a) -> {way} -> ToNetfront(b);");
            same_by_either_way(&config, &large, first)?;
        }
    }
}

/// Whether packets that stand for several may come by interface `a` of a router.
fn takes(config: &str) -> bool {
    let (mut rig, a, _b) = between(config);
    assert_eq!(a.accepts_segments(), None);
    rig.run();
    a.accepts_segments()
        .expect("a router that receives says so")
}

#[test]
fn one_element_that_needs_whole_packets_is_enough() {
    assert!(takes("FromNetfront(a) -> ToNetfront(b);"));
    assert!(takes(
        "FromNetfront(a) -> Queue -> c :: Counter -> Discard;"
    ));
    assert!(!takes(
        "FromNetfront(a) -> SetTCPChecksum -> ToNetfront(b);"
    ));
    // By whatever way packets come to it.
    assert!(!takes(
        "FromNetfront(a) -> c :: Classifier(12/0806, -) -> Discard;
        c[1] -> Queue -> Unqueue -> CheckTCPHeader -> Discard;"
    ));
    // Every receiver of the interface counts.
    assert!(!takes(
        "FromNetfront(a) -> Discard; FromNetfront(a) -> Align(4, 0) -> Discard;"
    ));
    assert!(takes(
        "FromNetfront(a) -> Discard; FromNetfront(b) -> Align(4, 0) -> Discard;"
    ));
}

#[test]
fn a_hotswap_takes_the_word_back_and_lets_no_large_packet_through() {
    let (mut rig, a, b) = between("FromNetfront(a) -> q :: Queue -> ToNetfront(b);");
    b.make_room(0);
    let frame: Vec<u8> = [&MAC[..], &[7; 3000]].concat();
    let offload = |segments| Offload {
        checksum_start: 34,
        checksum_offset: 16,
        segments,
    };
    let segments = Segments {
        kind: SegmentKind::Tcp4,
        size: 1000,
        ecn: false,
    };
    a.arrive_unfinished(&frame, 1500, offload(Some(segments)));
    a.arrive_unfinished(&frame[..200], 200, offload(None));
    a.arrive(&frame[..100]);
    rig.run();
    assert_eq!(
        (rig.read("q.length"), a.accepts_segments()),
        ("3".into(), Some(true))
    );
    b.make_room(10);
    rig.swap("FromNetfront(a) -> q :: Queue -> CheckLength(1500) -> ToNetfront(b);");
    rig.run();
    let sent = b.sent_unfinished();
    assert_eq!(a.accepts_segments(), Some(false));
    let lens: Vec<_> = sent
        .iter()
        .map(|(frame, left)| (frame.len(), *left))
        .collect();
    assert_eq!(lens, [(200, None), (100, None)]);
    assert_eq!(sent[0].0, cut(&frame[..200], Some(offload(None)))[0]);
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn segments_too_long_for_a_link_are_refused_as_packets_would_be() {
    let config = "FromNetfront(a) -> Strip(14) -> CheckIPHeader -> f :: IPFragmenter(1000)
        -> EtherEncap(0x800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> ToNetfront(b);
        f[1] -> ICMPError(10.0.0.1, unreachable, needfrag) -> e :: Counter -> Discard;";
    let (mut rig, a, b) = between(config);
    let mut tcp = crate::testing::tcp(
        ([10, 0, 0, 7].into(), 1),
        ([20, 0, 0, 9].into(), 2),
        0x10,
        &[5; 5000],
    );
    // Don't fragment.
    tcp[6] = 0x40;
    tcp[10..12].fill(0);
    let sum = Sum::of(&tcp[..20]).checksum();
    tcp[10..12].copy_from_slice(&sum.to_be_bytes());
    let frame = crate::testing::ether(MAC, [2; 6], 0x800, &tcp);
    for (size, fits) in [(1460, false), (960, true), (961, false)] {
        let segments = Segments {
            kind: SegmentKind::Tcp4,
            size,
            ecn: false,
        };
        let offload = Offload {
            checksum_start: 34,
            checksum_offset: 16,
            segments: Some(segments),
        };
        a.arrive_unfinished(&frame, 1500, offload);
        rig.run();
        assert_eq!(b.sent().len(), usize::from(fits), "{size}");
    }
    assert_eq!(rig.read("e.count"), String::from("2"));
}
