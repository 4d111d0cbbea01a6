use crate::testing::*;

const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(1, 0, 0, 1), 80);
const MOBILE: (Ipv4Addr, u16) = (Ipv4Addr::new(2, 0, 0, 2), 999);

fn rig() -> Rig {
    Rig::new(
        "s :: SnoopTCP;
        data :: Inject -> CheckIPHeader(CHECKSUM false) -> [0] s [0] -> to :: Collect;
        acks :: Inject -> CheckIPHeader(CHECKSUM false) -> [1] s [1] -> back :: Collect;
        s[2] -> again :: Collect; s[3] -> Discard;",
    )
}

/// Ten bytes from `sequence` on.
fn data(sequence: u32) -> Vec<u8> {
    let mut packet = tcp(SERVER, MOBILE, 0x10, &[sequence as u8; 10]);
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    packet
}

fn ack(number: u32, window: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = tcp(MOBILE, SERVER, 0x10, payload);
    packet[28..32].copy_from_slice(&number.to_be_bytes());
    packet[34..36].copy_from_slice(&window.to_be_bytes());
    packet
}

/// Sends an acknowledgment; returns whether it reached the server, and what was sent again.
fn acknowledge(rig: &mut Rig, packet: &[u8]) -> (bool, Vec<Vec<u8>>) {
    rig.push("acks", packet);
    let back = rig.data("back");
    assert!(back.is_empty() || back == [packet]);
    (!back.is_empty(), rig.data("again"))
}

#[test]
fn a_lost_segment_is_sent_again_and_its_duplicates_kept_from_the_server() {
    let mut rig = rig();
    let segments: Vec<_> = (0..6).map(|i| data(1000 + 10 * i)).collect();
    rig.push_all("data", &segments);
    assert_eq!(rig.data("to"), segments);
    assert_eq!(rig.read("s.cached"), "6");
    // The first arrived; the second is lost; four more make duplicates.
    assert_eq!(
        acknowledge(&mut rig, &ack(1010, 500, &[])),
        (true, [].into())
    );
    assert_eq!(
        acknowledge(&mut rig, &ack(1010, 500, &[])),
        (false, [].into())
    );
    assert_eq!(
        acknowledge(&mut rig, &ack(1010, 500, &[])),
        (false, [segments[1].clone()].into())
    );
    assert_eq!(rig.read("s.cached"), "5");
    // One more copy, and then the server has to act.
    assert_eq!(
        acknowledge(&mut rig, &ack(1010, 500, &[])).1,
        [segments[1].clone()]
    );
    assert_eq!(
        acknowledge(&mut rig, &ack(1010, 500, &[])),
        (true, [].into())
    );
    assert_eq!(
        acknowledge(&mut rig, &ack(1060, 500, &[])),
        (true, [].into())
    );
    let counts = ["s.cached", "s.retransmissions", "s.suppressed"].map(|name| rig.read(name));
    assert_eq!(counts, ["0", "2", "3"]);
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn windows_data_and_what_the_server_repeats_are_no_loss() {
    let mut rig = rig();
    rig.push_all("data", &[data(1000), data(1010)]);
    assert!(acknowledge(&mut rig, &ack(1000, 500, &[])).0);
    for other in [
        ack(1000, 600, &[]),
        ack(1000, 600, &[1]),
        ack(990, 600, &[]),
    ] {
        assert!(acknowledge(&mut rig, &other).0);
    }
    rig.push("data", &data(1000));
    assert_eq!(rig.read("s.cached"), "2");
    for _ in 0..3 {
        assert_eq!(
            acknowledge(&mut rig, &ack(1000, 600, &[])),
            (true, [].into())
        );
    }
}

#[test]
fn segments_that_fill_a_gap_are_kept_in_order() {
    let mut rig = rig();
    rig.push_all("data", &[data(1000), data(1020), data(1010), data(1030)]);
    acknowledge(&mut rig, &ack(1010, 500, &[]));
    acknowledge(&mut rig, &ack(1010, 500, &[]));
    // The gap was filled by what came later, not by the server's doubt.
    assert_eq!(acknowledge(&mut rig, &ack(1010, 500, &[])).1, [data(1010)]);
    // Acknowledged already.
    rig.push("data", &data(1000));
    assert_eq!(rig.read("s.cached"), "3");
}

#[test]
fn connections_end_and_make_room() {
    let mut rig = rig();
    rig.push("data", &data(1000));
    rig.push("data", &tcp(SERVER, MOBILE, 4, &[]));
    rig.assert_handlers(&[("s.connections", "0"), ("s.cached", "0")]);
    let from = |n: u16| tcp((SERVER.0, n), MOBILE, 0x10, &[1]);
    for n in 0..1030 {
        rig.push("data", &from(n));
    }
    assert_eq!(rig.read("s.connections"), "1024");
    rig.pause(11_000_000_000);
    rig.push("data", &from(2000));
    rig.assert_handlers(&[("s.connections", "1"), ("s.cached", "1")]);
    rig.data("to");
    // What is not TCP passes.
    let others = [udp(SERVER, MOBILE, &[1]), ack(1, 1, &[])];
    rig.push("data", &others[0]);
    rig.push("acks", &others[1]);
    assert_eq!(
        (rig.data("to"), rig.data("back")),
        ([others[0].clone()].into(), [others[1].clone()].into())
    );
}
