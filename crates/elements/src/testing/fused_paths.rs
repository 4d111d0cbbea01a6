//! Elements whose work the router puts together do as they do one by one.

mod trees;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use packet::anno::FIX_IP_SRC;
use packet::{Packet, PacketType};
use proptest::prelude::*;

use super::{Rig, checksum, ether, udp};

/// Elements that say what they do, or that some packets do not concern; and one of neither kind.
const ELEMENTS: [&str; 19] = [
    "Strip(14)",
    "Strip(3)",
    "Unstrip(14)",
    "Unstrip(3)",
    "EtherEncap(0x0800, 1:2:3:4:5:6, 7:8:9:a:b:c)",
    "StoreData(8, \\<40>)",
    "StoreData(12, \\<0a0b0c0d0e0f>)",
    "StoreData(0, \\<45>)",
    "SetIPChecksum",
    "DecIPTTL",
    "CheckIPHeader",
    "CheckIPHeader(OFFSET 14)",
    "CheckIPHeader2",
    "GetIPAddress(16)",
    "DropBroadcasts",
    "IPGWOptions(9.9.9.9)",
    "FixIPSrc(8.8.8.8)",
    "IPFragmenter(1500)",
    "MarkIPHeader",
];

/// The ways that packets go in routers, from which a few elements are then taken.
const PATH: [&str; 12] = [
    "Strip(14)",
    "CheckIPHeader",
    "GetIPAddress(16)",
    "DropBroadcasts",
    "FixIPSrc(8.8.8.8)",
    "DecIPTTL",
    "IPFragmenter(1500)",
    "EtherEncap(0x0800, 1:2:3:4:5:6, 7:8:9:a:b:c)",
    "Strip(14)",
    "StoreData(8, \\<40>)",
    "SetIPChecksum",
    "Unstrip(14)",
];

/// A packet, and what may be unusual about it.
#[derive(Clone, Debug)]
struct Sent {
    framed: bool,
    payload: usize,
    change: u8,
    cut: Option<usize>,
    marked: Option<usize>,
    kind: u8,
    fix: bool,
    headroom: Option<usize>,
}

fn sent() -> impl Strategy<Value = Sent> {
    let usual = |weight, other| prop_oneof![weight => Just(0u8), 1 => other];
    (
        prop::bool::weighted(0.8),
        prop_oneof![8 => 0usize..60, 1 => Just(1473usize)],
        usual(8, (1u8..9).boxed()),
        prop::option::weighted(0.1, 0usize..40),
        prop::option::weighted(0.5, prop_oneof![Just(0usize), Just(14), 0usize..30]),
        usual(8, (1u8..4).boxed()),
        prop::bool::weighted(0.1),
        prop::option::weighted(0.1, 0usize..32),
    )
        .prop_map(
            |(framed, payload, change, cut, marked, kind, fix, headroom)| Sent {
                framed,
                payload,
                change,
                cut,
                marked,
                kind,
                fix,
                headroom,
            },
        )
}

impl Sent {
    fn data(&self) -> Vec<u8> {
        let payload = alloc::vec![7; self.payload];
        let mut data = udp(([1, 0, 0, 1].into(), 5), ([2, 0, 0, 3].into(), 6), &payload);
        match self.change {
            1 => data[0] = 0x47,
            2 => data[8] = 0,
            3 => data[8] = 1,
            4 => data[0] = 0x65,
            5 => data[3] += 5,
            6 => data[3] -= 5,
            7 => data[2..4].fill(0),
            _ => {}
        }
        data[10..12].fill(0);
        let end = (usize::from(data[0] & 15) * 4).min(data.len());
        let sum = checksum(&data[..end]);
        data[10..12].copy_from_slice(&sum.to_be_bytes());
        if self.change == 8 {
            data[11] ^= 4;
        }
        if self.framed {
            data = ether([1; 6], [2; 6], 0x0800, &data);
        }
        data.truncate(self.cut.unwrap_or(data.len()));
        data
    }

    fn prepare(&self, packet: &mut Packet) {
        if let Some(headroom) = self.headroom {
            let mut other = Packet::large(headroom, packet.len(), 64).expect("there is memory");
            other.data_mut().copy_from_slice(packet.data());
            *packet = other;
        }
        if let Some(at) = self.marked {
            packet.set_network_header(at, 20);
        }
        packet.set_packet_type(match self.kind {
            0 => PacketType::Host,
            1 => PacketType::Broadcast,
            2 => PacketType::Multicast,
            _ => PacketType::OtherHost,
        });
        packet.set_anno(FIX_IP_SRC, self.fix.into());
    }
}

/// All that can be told of a packet.
fn seen(packet: &Packet) -> impl PartialEq + Clone + core::fmt::Debug + use<> {
    (
        packet.data().to_vec(),
        packet.mac_offset(),
        packet.network_offset(),
        packet.transport_offset(),
        packet.packet_type(),
        *packet.annotations(),
    )
}

/// What comes out of a path of elements.
fn run(path: &[&str], between: &str, packets: &[Sent]) -> Vec<impl PartialEq + core::fmt::Debug> {
    let path: Vec<&str> = ["i :: Inject -> Queue -> Unqueue(64)"]
        .into_iter()
        .chain(path.iter().copied())
        .collect();
    let path = path.join(&format!(" -> {between}"));
    let mut rig = Rig::new(&format!("{path} -> c :: Collect;"));
    for sent in packets {
        rig.push_with("i", &sent.data(), |packet| sent.prepare(packet));
    }
    rig.run();
    rig.collected("c").iter().map(seen).collect()
}

proptest! {
    // Paint, which says nothing of what it does, keeps the elements apart.
    #[test]
    fn any_elements_do_the_same_together(
        path in prop::collection::vec(prop::sample::select(&ELEMENTS[..]), 1..9),
        packets in prop::collection::vec(sent(), 1..20),
    ) {
        let apart = run(&path, "Paint(0) -> ", &packets);
        prop_assert_eq!(run(&path, "", &packets), apart);
    }

    #[test]
    fn routers_do_the_same_together(
        path in prop::sample::subsequence(&PATH[..], 1..=PATH.len()),
        packets in prop::collection::vec(sent(), 1..80),
    ) {
        let apart = run(&path, "Paint(0) -> ", &packets);
        prop_assert_eq!(run(&path, "", &packets), apart);
    }
}

/// What comes out behind four outputs of a switch, the same path behind each, with its packets in
/// `collectors` places; packets say which they are by their paint.
fn forked(
    path: &[&str],
    [encaps, collectors]: [usize; 2],
    between: &str,
    packets: &[Sent],
) -> Vec<Vec<(u8, impl PartialEq + core::fmt::Debug + Clone)>> {
    let mut config = String::from(
        "i :: Inject -> Queue -> Unqueue(64) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16)
        -> h :: HashSwitch(10, 2);",
    );
    for end in 0..collectors {
        config += &format!("c{end} :: Collect;\n");
    }
    for output in 0..4 {
        let mut way = path.to_vec();
        let encap = format!(
            "EtherEncap(0x0800, 1:2:3:4:5:6, 7:8:9:a:b:{})",
            output % encaps
        );
        way.push(&encap);
        let way = way.join(&format!(" -> {between}"));
        let end = output % collectors;
        config += &format!("h[{output}] -> {between} {way} -> {between} c{end};\n");
    }
    let mut rig = Rig::new(&config);
    for (i, sent) in packets.iter().enumerate() {
        let prepare = |packet: &mut Packet| {
            sent.prepare(packet);
            packet.set_paint(i as u8);
        };
        rig.push_with("i", &sent.data(), prepare);
    }
    rig.run();
    let mut collected = |end| rig.collected(&format!("c{end}"));
    let told = |packet: &Packet| (packet.paint(), seen(packet));
    (0..collectors)
        .map(|end| collected(end).iter().map(told).collect())
        .collect()
}

proptest! {
    #[test]
    fn outputs_behind_which_the_same_is_done_keep_each_flow_in_order(
        path in prop::sample::subsequence(&PATH[3..7], 0..=4),
        encaps in 1usize..=4,
        collectors in 1usize..=4,
        packets in prop::collection::vec(sent(), 1..80),
    ) {
        // A counter says nothing of what it does.
        let apart = forked(&path, [4.min(encaps), 4], "Counter ->", &packets);
        let together = forked(&path, [encaps, collectors], "", &packets);
        for (end, found) in together.into_iter().enumerate() {
            let mut count = 0;
            for output in (end..4).step_by(collectors) {
                let of = |paint: u8| apart[output].iter().any(|(other, _)| *other == paint);
                let these = found.iter().filter(|(paint, _)| of(*paint));
                let these: Vec<_> = these.cloned().collect();
                prop_assert_eq!(&these, &apart[output]);
                count += these.len();
            }
            prop_assert_eq!(count, found.len());
        }
    }
}

#[test]
fn a_move_back_to_a_checked_header_says_nothing_of_what_was_written_meanwhile() {
    let path = [
        "CheckIPHeader",
        "StoreData(12, \\<0a0b0c0d0e0f>)",
        "Strip(3)",
        "Unstrip(3)",
        "GetIPAddress(16)",
    ];
    let packets = [Sent {
        framed: false,
        payload: 0,
        change: 0,
        cut: None,
        marked: None,
        kind: 0,
        fix: false,
        headroom: None,
    }];
    assert_eq!(
        run(&path, "", &packets),
        run(&path, "Paint(0) -> ", &packets)
    );
}

#[test]
fn outputs_that_part_behind_what_they_do_alike_are_counted_apart() {
    let mut rig = Rig::new(
        "i :: Inject -> Queue -> Unqueue(64) -> CheckIPHeader -> f :: IPClassifier(udp port 1, udp port 2, -);
        f[0] -> t0 :: DecIPTTL -> d0 :: DropBroadcasts -> a :: Collect;
        f[1] -> t1 :: DecIPTTL -> d1 :: DropBroadcasts -> b :: Collect;
        f[2] -> t2 :: DecIPTTL -> d2 :: DropBroadcasts -> a;",
    );
    let packet = |n: u16| {
        udp(
            ([1, 0, 0, 1].into(), 9),
            ([2, 0, 0, 3].into(), 1 + n % 3),
            &[n as u8],
        )
    };
    let packets: Vec<Vec<u8>> = (0..32).map(packet).collect();
    rig.push_all("i", &packets);
    rig.run();
    let payloads = |data: Vec<Vec<u8>>| data.iter().map(|data| data[28]).collect::<Vec<u8>>();
    // Packets that go to one place stay together.
    let b: Vec<u8> = (0..32).filter(|n| n % 3 == 1).collect();
    let a: Vec<u8> = (0..32).filter(|n| n % 3 != 1).collect();
    assert_eq!((payloads(rig.data("a")), payloads(rig.data("b"))), (a, b));
    let (names, counts) = (rig.read(".active_ports"), rig.read(".active_port_stats"));
    let passed = |port: &str| {
        let place = names.lines().position(|name| name == port);
        counts.lines().nth(place.expect("there is such a port"))
    };
    for (output, count) in ["11", "11", "10"].into_iter().enumerate() {
        for port in [
            format!("f\to{output}"),
            format!("t{output}\to0"),
            format!("d{output}\to0"),
        ] {
            assert_eq!(passed(&port), Some(count), "{port}");
        }
    }
}

#[test]
fn unusual_packets_keep_their_place_in_their_output() {
    let mut rig = Rig::new(
        "i :: Inject -> Queue -> Unqueue(64) -> CheckIPHeader -> f :: IPClassifier(udp port 1, udp port 2, -);
        f[0] -> t0 :: DecIPTTL -> d0 :: DropBroadcasts -> a :: Collect;
        f[1] -> t1 :: DecIPTTL -> d1 :: DropBroadcasts -> a;
        f[2] -> t2 :: DecIPTTL -> d2 :: DropBroadcasts -> b :: Collect;",
    );
    let packet = |n: u8| {
        // The first is of the second output.
        let port = 1 + u16::from(n + 1) % 3;
        let mut packet = udp(([1, 0, 0, 1].into(), 9), ([2, 0, 0, 3].into(), port), &[n]);
        if n == 10 {
            packet[8] = 1;
            let sum = checksum(&[&packet[..10], &[0, 0], &packet[12..20]].concat());
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        packet
    };
    let packets: Vec<Vec<u8>> = (0..32).map(packet).collect();
    rig.push_all("i", &packets);
    rig.run();
    let (a, b) = (rig.data("a"), rig.data("b"));
    for (output, data) in [&a, &a, &b].into_iter().enumerate() {
        let came = data.iter().map(|data| data[28]);
        let came: Vec<u8> = came.filter(|n| usize::from(n + 1) % 3 == output).collect();
        let sent = (0..32).filter(|n| usize::from(n + 1) % 3 == output && *n != 10);
        assert_eq!(came, sent.collect::<Vec<u8>>());
    }
    assert_eq!(a.len() + b.len(), 31);
}

const ROUTER: &str = "i :: Inject -> Queue -> Unqueue(64) -> s :: Strip(14)
    -> k :: CheckIPHeader -> g :: GetIPAddress(16) -> d :: DropBroadcasts -> ttl :: DecIPTTL
    -> e :: EtherEncap(0x0800, 1:2:3:4:5:6, 7:8:9:a:b:c) -> c :: Collect;";

fn frame() -> Vec<u8> {
    let packet = udp(([1, 0, 0, 1].into(), 5), ([2, 0, 0, 3].into(), 6), &[]);
    ether([1; 6], [2; 6], 0x0800, &packet)
}

#[test]
fn what_is_written_to_handlers_counts_from_then_on() {
    let mut rig = Rig::new(ROUTER);
    let send = |rig: &mut Rig| {
        rig.push_all("i", &[frame(), frame()]);
        rig.run();
        let data = rig.data("c");
        assert_eq!(data.len(), 2);
        (data[0][22], data[0][11])
    };
    let ttl = frame()[22];
    assert_eq!(send(&mut rig), (ttl - 1, 6));
    rig.write("ttl.active", "false");
    assert_eq!(send(&mut rig), (ttl, 6));
    rig.write("e.src", "1:2:3:4:5:7");
    rig.write("ttl.active", "true");
    assert_eq!(send(&mut rig), (ttl - 1, 7));
    rig.write("e.config", "0x0800, 1:2:3:4:5:8, 7:8:9:a:b:c");
    assert_eq!(send(&mut rig), (ttl - 1, 8));
}

#[test]
fn packets_count_where_they_pass() {
    let mut rig = Rig::new(ROUTER);
    let mut expired = frame();
    expired[22] = 1;
    let sum = checksum(&[&expired[14..24], &[0, 0], &expired[26..34]].concat());
    expired[24..26].copy_from_slice(&sum.to_be_bytes());
    rig.push_all("i", &[frame(), frame(), expired, frame()]);
    rig.run();
    let (names, counts) = (rig.read(".active_ports"), rig.read(".active_port_stats"));
    let passed = |port: &str| {
        let place = names.lines().position(|name| name == port);
        counts.lines().nth(place.expect("there is such a port"))
    };
    // What has no hop left goes no further, and is counted up to there.
    for port in ["s\to0", "k\to0", "g\to0", "d\to0"] {
        assert_eq!(passed(port), Some("4"), "{port}");
    }
    for port in ["ttl\to0", "e\to0"] {
        assert_eq!(passed(port), Some("3"), "{port}");
    }
    assert_eq!(rig.data("c").len(), 3);
    assert_eq!(rig.read("ttl.drops"), "1");
}
