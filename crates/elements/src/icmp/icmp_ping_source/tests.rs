use crate::testing::*;

/// A source whose replies the test hands back.
fn rig(arguments: &str) -> Rig {
    Rig::new(&format!(
        "i :: Inject -> s :: ICMPPingSource(1.0.0.1, 2.0.0.2, {arguments}) -> c :: Collect;"
    ))
}

/// The reply to `request`.
fn reply(request: &[u8]) -> Vec<u8> {
    let mut reply = request.to_vec();
    reply[20] = 0;
    reply[12..16].copy_from_slice(&request[16..20]);
    reply[16..20].copy_from_slice(&request[12..16]);
    reply
}

/// Hands `packet` back, as if it came at `timestamp`.
fn answer(rig: &mut Rig, packet: &[u8], timestamp: i64) {
    rig.push_with("i", packet, |packet| {
        packet.set_network_header(0, 20);
        packet.set_timestamp(timestamp);
    });
}

#[test]
fn requests_come_at_every_interval() {
    let mut rig = rig("INTERVAL 20ms, IDENTIFIER 258, DATA abc, LIMIT 3");
    rig.advance(70 * MS);
    let packets = rig.collected("c");
    assert_eq!(packets.len(), 3);
    for (packet, number) in packets.iter().zip(1..) {
        let data = packet.data();
        assert_eq!(checksum(&data[..20]), 0);
        assert_eq!(checksum(&data[20..]), 0);
        assert_eq!(data[..10], [0x45, 0, 0, 31, 0, number, 0, 0, 200, 1]);
        assert_eq!(data[12..22], [1, 0, 0, 1, 2, 0, 0, 2, 8, 0]);
        assert_eq!(data[24..], [1, 2, 0, number, b'a', b'b', b'c']);
        assert_eq!(packet.dst_ip().octets(), [2, 0, 0, 2]);
        assert_eq!(packet.transport_offset(), Some(20));
    }
    rig.advance(100 * MS);
    assert!(rig.collected("c").is_empty());
    rig.write("s.limit", "4");
    rig.write("s.dst", "9.9.9.9");
    rig.advance(100 * MS);
    assert_eq!(rig.collected("c")[0].data()[16..20], [9; 4]);
    assert_eq!(rig.read("s.count"), "4");
}

#[test]
fn replies_are_reported_and_counted() {
    let mut rig = rig("INTERVAL 20ms, LIMIT 4, DATA abcd");
    rig.advance(100 * MS);
    let requests = rig.collected("c");
    for (request, microseconds) in requests.iter().zip([1500, 2500, 500]) {
        answer(
            &mut rig,
            &reply(request.data()),
            request.timestamp() + microseconds * 1000,
        );
    }
    let again = reply(requests[0].data());
    answer(&mut rig, &again, requests[0].timestamp() + 3_500_000);
    let line = |sequence, time| {
        format!(
            "s :: ICMPPingSource: 4 bytes from 2.0.0.2: icmp_seq={sequence} ttl=200 time={time} ms"
        )
    };
    let lines = [
        line(1, "1.500"),
        line(2, "2.500"),
        line(3, "0.500"),
        line(1, "3.500"),
    ];
    assert_eq!(rig.printed(), lines);
    let summary = "4 packets transmitted, 3 received, +1 duplicates, 25% packet loss\n\
        rtt min/avg/max/mdev = 0.500/2.000/3.500/1.118\n";
    assert_eq!(rig.read("s.summary"), summary);
    assert_eq!(rig.read("s.rtt_avg"), "0.002s");
    assert_eq!(rig.read("s.rtt_min"), "500us");
    rig.write("s.reset_counts", "");
    assert_eq!(rig.read("s.rtt_max"), "0s");
    answer(&mut rig, &again, 1);
    assert!(
        rig.printed().is_empty(),
        "forgotten requests have no replies"
    );
}

#[test]
fn what_is_no_reply_does_not_count() {
    let mut rig = rig("INTERVAL 20ms, IDENTIFIER 1");
    rig.advance(30 * MS);
    let request = rig.data("c").remove(0);
    let mut other = reply(&request);
    other[25] = 2;
    let mut unsent = reply(&request);
    unsent[27] = 9;
    for packet in [
        request.clone(),
        other,
        unsent,
        reply(&request)[..27].to_vec(),
    ] {
        answer(&mut rig, &packet, 5);
    }
    rig.push("i", &reply(&request));
    assert!(rig.printed().is_empty());
    assert_eq!(rig.outstanding(), 0);
    assert!(
        rig.read("s.summary")
            .starts_with("1 packets transmitted, 0 received, 100%")
    );
}

#[test]
fn a_mirror_answers_with_the_next_request() {
    let mut rig = rig("INTERVAL 20ms, LIMIT 1, MIRROR true, VERBOSE false, DATA abc");
    rig.advance(30 * MS);
    let request = rig.data("c").remove(0);
    answer(&mut rig, &reply(&request), 5);
    let next = rig.data("c").remove(0);
    assert_eq!(next[12..21], [1, 0, 0, 1, 2, 0, 0, 2, 8]);
    assert_eq!((next[27], &next[28..]), (2, &b"abc"[..]));
    assert_eq!(checksum(&next[20..]), 0);
    assert!(rig.printed().is_empty());
}

#[test]
fn a_pull_output_gives_as_many_as_are_asked_for() {
    let mut rig =
        Rig::new("s :: ICMPPingSource(1.0.0.1, 2.0.0.2, LIMIT 5, STOP true) -> p :: Puller;");
    assert_eq!(rig.pull("p", 3).len(), 3);
    rig.write("s.active", "false");
    assert!(rig.pull("p", 3).is_empty());
    rig.write("s.active", "true");
    assert_eq!(rig.pull("p", 3).len(), 2);
    assert_eq!(rig.router.run_count(), 0);
    assert!(rig.try_read("s.summary").is_err());
}

#[test]
fn it_can_pause() {
    let mut rig = rig("INTERVAL 20ms");
    rig.advance(30 * MS);
    rig.write("s.active", "false");
    rig.advance(100 * MS);
    assert_eq!(rig.collected("c").len(), 1);
    rig.write("s.active", "true");
    rig.advance(1);
    assert_eq!(rig.collected("c").len(), 1);
    rig.write("s.interval", "1ms");
    rig.advance(30 * MS);
    assert!(rig.collected("c").len() > 5);
    assert_eq!(
        rig.try_write("s.interval", "x"),
        Err("'interval' should be an interval".into())
    );
    assert_eq!(
        rig.try_write("s.limit", "x"),
        Err("'limit' should be integer".into())
    );
    assert_eq!(rig.try_write("s.src", "x"), Err("syntax error".into()));
}

#[test]
fn a_pull_output_cannot_mirror() {
    Rig::refuses(
        "ICMPSendPings(1.0.0.1, 2.0.0.2, MIRROR true) -> Puller;",
        "MIRROR invalid on pull element",
    );
}
