use crate::testing::*;

const SELF: [u8; 6] = [2, 1, 0, 0xa, 0xa, 0xf];

fn rig(args: &str) -> Rig {
    Rig::new(&format!(
        "ip :: Inject -> q :: ARPQuerier(1.0.10.10/16, 2:1:0:a:a:f, {args}) -> out :: Collect;
         arp :: Inject -> [1] q; q[1] -> asked :: Collect;"
    ))
}

impl Rig {
    fn send(&mut self, data: &[u8], to: [u8; 4]) {
        self.push_with("ip", data, |packet| packet.set_dst_ip(Ipv4Addr::from(to)));
    }

    /// For whom and of whom was asked.
    fn asked(&mut self) -> Vec<([u8; 6], [u8; 4])> {
        let queries = self.data("asked");
        let read = |query: &Vec<u8>| {
            assert_eq!(query.len(), 42);
            assert_eq!(query[6..12], SELF);
            assert_eq!(query[12..22], [8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
            assert_eq!(query[22..32], [&SELF[..], &[1, 0, 10, 10]].concat());
            (
                query[..6].try_into().unwrap(),
                query[38..].try_into().unwrap(),
            )
        };
        queries.iter().map(read).collect()
    }
}

fn reply(ip: [u8; 4], hardware: [u8; 6]) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, 2];
    let arp = [&head[..], &hardware, &ip, &SELF, &[1, 0, 10, 10]].concat();
    ether(SELF, hardware, 0x0806, &arp)
}

#[test]
fn packets_wait_for_the_answer_and_go_out_in_order() {
    let mut rig = rig("");
    rig.send(&[1], [1, 0, 0, 1]);
    rig.send(&[2], [1, 0, 0, 1]);
    rig.send(&[3], [1, 0, 0, 2]);
    assert_eq!(
        rig.asked(),
        [([255; 6], [1, 0, 0, 1]), ([255; 6], [1, 0, 0, 2])]
    );
    assert!(rig.data("out").is_empty());
    rig.assert_handlers(&[("q.count", "2"), ("q.length", "3")]);
    rig.push("arp", &reply([1, 0, 0, 1], [6; 6]));
    let frame = |n| ether([6; 6], SELF, 0x0800, &[n]);
    assert_eq!(rig.data("out"), [frame(1), frame(2)]);
    rig.send(&[4], [1, 0, 0, 1]);
    let packets = rig.collected("out");
    assert_eq!(packets[0].data(), frame(4));
    assert_eq!(packets[0].mac_offset(), Some(0));
    let table = "1.0.0.2 0 FF-FF-FF-FF-FF-FF 0.000000\n1.0.0.1 1 06-06-06-06-06-06 0.000000\n";
    assert_eq!(rig.read("q.table"), table);
    assert_eq!(
        rig.read("q.stats"),
        "0 packets killed\n2 ARP queries sent\n"
    );
    rig.assert_handlers(&[("q.queries", "2"), ("q.responses", "1")]);
}

#[test]
fn queries_carry_tag_and_timestamp_and_are_at_most_ten_a_second() {
    let mut rig = rig("");
    rig.push_with("ip", &[1], |packet| {
        packet.set_dst_ip(Ipv4Addr::new(1, 0, 0, 1));
        packet.set_timestamp(99);
        packet.set_anno(VLAN_TCI, 5);
    });
    let queries = rig.collected("asked");
    assert_eq!((queries[0].timestamp(), queries[0].anno(VLAN_TCI)), (99, 5));
    for _ in 0..14 {
        rig.advance(50 * MS);
        rig.send(&[1], [1, 0, 0, 1]);
    }
    assert_eq!(rig.asked().len(), 7);
}

#[test]
fn queries_leave_by_output_0_if_there_is_no_other() {
    let config = "ip :: Inject -> q :: ARPQuerier(1.0.0.9, 2:1:0:a:a:f) -> out :: Collect;
        Idle -> [1] q;";
    let mut rig = Rig::new(config);
    rig.send(&[1], [1, 0, 0, 1]);
    assert_eq!(rig.data("out")[0][12..14], [8, 6]);
}

#[test]
fn some_addresses_need_no_question() {
    let mut rig = rig("");
    for to in [[255; 4], [1, 0, 255, 255], [224, 129, 2, 3], [0; 4], [0; 4]] {
        rig.send(&[1], to);
    }
    let to: Vec<_> = rig
        .data("out")
        .iter()
        .map(|frame| frame[..6].to_vec())
        .collect();
    assert_eq!(to, [[255; 6], [255; 6], [1, 0, 0x5e, 1, 2, 3]]);
    assert!(rig.asked().is_empty());
    assert_eq!(rig.read("q.drops"), "2");
    let warning = "q :: ARPQuerier: would query for 0.0.0.0; missing dest IP addr annotation?";
    assert_eq!(rig.printed(), [warning]);
}

#[test]
fn addresses_are_asked_for_anew_and_expire() {
    for (args, to) in [("", [6; 6]), ("BROADCAST_POLL true,", [255; 6])] {
        let mut rig = rig(&format!("{args} TIMEOUT 0.1s, POLL_TIMEOUT 0.08s"));
        rig.push("arp", &reply([1, 0, 0, 1], [6; 6]));
        rig.advance(79 * MS);
        rig.send(&[1], [1, 0, 0, 1]);
        assert!(rig.asked().is_empty());
        rig.advance(MS);
        rig.send(&[2], [1, 0, 0, 1]);
        assert_eq!(rig.asked(), [(to, [1, 0, 0, 1])]);
        assert_eq!(rig.data("out").len(), 2);
        rig.advance(21 * MS);
        rig.send(&[3], [1, 0, 0, 1]);
        assert!(rig.data("out").is_empty());
        assert_eq!(rig.asked(), []);
        rig.advance(80 * MS);
        rig.send(&[4], [1, 0, 0, 1]);
        assert_eq!(rig.asked(), [([255; 6], [1, 0, 0, 1])]);
    }
}

#[test]
fn what_is_no_reply_is_not_learned() {
    let mut rig = rig("");
    let good = reply([1, 0, 0, 1], [8; 6]);
    let mut request = good.clone();
    request[21] = 1;
    let mut other = good.clone();
    other[12] = 0;
    let mut tokens = good.clone();
    tokens[15] = 6;
    let group = reply([1, 0, 0, 1], [9; 6]);
    for packet in [request, other, tokens, group, good[..41].to_vec()] {
        rig.push("arp", &packet);
    }
    rig.assert_handlers(&[("q.count", "0"), ("q.responses", "4")]);
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn limits_hold() {
    let mut few = rig("ENTRY_PACKET_CAPACITY 10");
    for _ in 0..50 {
        few.send(&[1], [1, 0, 0, 2]);
        few.send(&[1], [1, 0, 0, 3]);
    }
    assert_eq!(
        few.read("q.stats"),
        "80 packets killed\n2 ARP queries sent\n"
    );
    let mut total = rig("CAPACITY 10");
    for _ in 0..100 {
        total.send(&[1], [1, 0, 0, 2]);
    }
    assert_eq!(
        total.read("q.stats"),
        "90 packets killed\n1 ARP queries sent\n"
    );
    total.write("q.clear", "");
    total.assert_handlers(&[("q.count", "0"), ("q.queries", "0")]);
    assert_eq!(total.asked().len(), 1);
    assert_eq!(total.outstanding(), 0);
}

#[test]
fn several_share_a_table() {
    let config = "t :: ARPTable;
        ip :: Inject -> q :: ARPQuerier(TABLE t, 1.0.10.10, 2:1:0:a:a:f) -> out :: Collect;
        Idle -> [1] q; Idle -> r :: ARPQuerier(1.0.10.11, 2:1:0:a:a:e, TABLE t) -> Discard;
        arp :: Inject -> [1] r;";
    let mut rig = Rig::new(config);
    rig.push("arp", &reply([1, 0, 0, 1], [8; 6]));
    rig.send(&[1], [1, 0, 0, 1]);
    assert_eq!(rig.data("out"), [ether([8; 6], SELF, 0x0800, &[1])]);
    rig.write("q.insert", "1.0.0.2 0:0:0:0:0:2");
    rig.assert_handlers(&[("t.count", "2"), ("r.count", "2")]);
    let errors = Rig::errors(
        "Idle -> [1] q :: ARPQuerier(1.0.0.1, 2:1:0:a:a:f, TABLE zork) -> Discard; Idle -> q;",
    );
    assert!(errors.contains("TABLE: "), "{errors}");
}

#[test]
fn handlers_and_live_reconfiguration() {
    let mut rig = rig("CAPACITY 7");
    assert_eq!(rig.read("q.broadcast"), "1.0.255.255");
    rig.write("q.broadcast", "1.0.0.255");
    rig.write("q.ipaddr", "1.0.0.9");
    rig.assert_handlers(&[("q.broadcast", "1.0.0.255"), ("q.ipaddr", "1.0.0.9")]);
    rig.write("q.insert", "1.0.0.2 0:0:0:0:0:2");
    let (table, config) = (rig.read("q.table"), rig.read("q.config"));
    let Err(HandlerError::Failed(refused)) = rig.try_write("q.config", "1.0.0.4x") else {
        panic!("not an address");
    };
    assert_eq!(refused.text, "IP: parse error\nETH: parse error");
    rig.assert_handlers(&[
        ("q.broadcast", "1.0.0.255"),
        ("q.ipaddr", "1.0.0.9"),
        ("q.table", &table),
        ("q.config", &config),
    ]);
    rig.write("q.config", "1.0.0.9, 2:1:0:a:a:f, TIMEOUT 1s");
    rig.assert_handlers(&[("q.count", "1"), ("q.broadcast", "255.255.255.255")]);
    rig.write("q.config", "1.0.0.8, 2:1:0:a:a:f, BROADCAST 9.9.9.9");
    rig.assert_handlers(&[("q.count", "0"), ("q.broadcast", "9.9.9.9")]);
}

#[test]
fn wrong_arguments_are_refused() {
    for (args, error) in [
        ("", "IP: required argument missing"),
        ("1.0.0.1", "ETH: parse error"),
        (
            "1.0.0.1, 1:1:1:1:1:1, CAPACITY_SLIM_FACTOR 0",
            "CAPACITY_SLIM_FACTOR cannot be zero",
        ),
    ] {
        let config = format!("Idle -> q :: ARPQuerier({args}) -> Discard; Idle -> [1] q;");
        Rig::refuses(&config, error);
    }
}

#[test]
fn a_dropped_packet_counts_as_its_segments() {
    let mut rig = rig("");
    rig.push_segments("ip", 3, |packet| packet.set_dst_ip(Ipv4Addr::UNSPECIFIED));
    assert_eq!((rig.read("q.drops"), rig.outstanding()), ("3".into(), 0));
}

#[test]
fn each_packet_of_a_batch_gets_the_header_of_its_neighbor() {
    let mut rig = Rig::new(
        "ip :: Inject -> Queue(64) -> Unqueue(BURST 64) -> GetIPAddress(0)
            -> q :: ARPQuerier(1.0.10.10/16, 2:1:0:a:a:f) -> out :: Collect;
         arp :: Inject -> [1] q; q[1] -> asked :: Collect;",
    );
    // Some alike in their last bits; nobody answers for the last.
    let neighbors = [1, 17, 33, 2, 49];
    let hardware = |number: u8| [number; 6];
    for number in &neighbors[..4] {
        rig.push("arp", &reply([1, 0, 0, *number], hardware(*number & !1)));
    }
    let packets: Vec<_> = (0..60)
        .map(|at| vec![1, 0, 0, neighbors[at * 7 % 11 % 5], at as u8])
        .collect();
    rig.push_all("ip", &packets);
    rig.run();
    let known = packets.iter().filter(|packet| packet[3] != 49);
    let expected: Vec<_> = known
        .map(|packet| ether(hardware(packet[3] & !1), SELF, 0x0800, packet))
        .collect();
    assert_eq!(rig.data("out"), expected);
    assert_eq!(rig.asked(), [([255; 6], [1, 0, 0, 49])]);
}
