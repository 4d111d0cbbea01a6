use crate::testing::*;

const SELF: [u8; 4] = [9, 9, 9, 9];

fn rig(args: &str) -> Rig {
    let config = format!(
        "i :: Inject -> MarkIPHeader -> e :: ICMPError(9.9.9.9, {args}) -> CheckIPHeader
            -> c :: Collect;"
    );
    Rig::new(&config)
}

/// The ICMP message of the one error that `packet` draws.
fn message(args: &str, packet: &[u8]) -> Vec<u8> {
    let mut rig = rig(args);
    rig.push("i", packet);
    let errors = rig.data("c");
    assert_eq!(errors.len(), 1);
    assert_eq!(checksum(&errors[0][20..]), 0);
    errors[0][20..].to_vec()
}

#[test]
fn an_error_quotes_the_packet_and_goes_to_its_sender() {
    let mut rig = rig("timeexceeded");
    let packet = udp((A, 5), (B, 6), &[7; 40]);
    rig.push("i", &packet);
    let errors = rig.collected("c");
    let error = errors[0].data();
    assert_eq!(error.len(), 28 + packet.len());
    assert_eq!(error[12..16], SELF);
    assert_eq!(error[16..20], A.octets());
    assert_eq!((error[8], error[9]), (200, 1));
    assert_eq!(error[20..22], [11, 0]);
    assert_eq!(checksum(&error[20..]), 0);
    assert_eq!(error[28..], packet);
    assert_eq!(errors[0].dst_ip(), A);
    assert_eq!(errors[0].anno(FIX_IP_SRC), 1);
    assert_eq!(errors[0].timestamp(), START);
    assert_eq!(rig.outstanding(), 1);
}

#[test]
fn errors_are_no_longer_than_the_mtu() {
    let packet = udp((A, 5), (B, 6), &[7; 900]);
    assert_eq!(message("timeexceeded", &packet).len(), 556);
    assert_eq!(message("timeexceeded, MTU 100", &packet).len(), 80);
    let mut rig = rig("timeexceeded, MTU 27");
    rig.push("i", &packet);
    assert!(rig.data("c").is_empty());
}

#[test]
fn types_have_their_particulars() {
    let packet = udp((A, 5), (B, 6), &[]);
    let needfrag = message("unreachable, needfrag, PMTU 1400", &packet);
    assert_eq!(needfrag[..2], [3, 4]);
    assert_eq!(needfrag[4..8], [0, 0, 0x05, 0x78]);
    let mut rig = rig("parameterproblem");
    rig.push_with("i", &packet, |packet| packet.set_anno(ICMP_PARAMPROB, 20));
    assert_eq!(rig.data("c")[0][24..28], [20, 0, 0, 0]);
    let mut redirect = self::rig("redirect, host, SET_FIX_ANNO false");
    redirect.push_with("i", &packet, |packet| packet.set_dst_ip(B));
    let errors = redirect.collected("c");
    assert_eq!(errors[0].data()[20..22], [5, 1]);
    assert_eq!(errors[0].data()[24..28], B.octets());
    assert_eq!(errors[0].anno(FIX_IP_SRC), 0);
}

#[test]
fn some_packets_draw_no_error() {
    let mut rig = rig("unreachable, host, 1.0.0.255 2.0.0.255");
    let silent = |from: [u8; 4], to: [u8; 4]| udp((from.into(), 5), (to.into(), 6), &[]);
    let mut fragment = udp((A, 5), (B, 6), &[]);
    fragment[7] = 1;
    let mut error = ping(A, B, &[]);
    error[20] = 3;
    rig.push_all(
        "i",
        &[
            fragment,
            error,
            ping(A, B, &[])[..23].to_vec(),
            silent([1, 0, 0, 1], [255; 4]),
            silent([1, 0, 0, 1], [224, 0, 0, 1]),
            silent([1, 0, 0, 1], [2, 0, 0, 255]),
            silent([1, 0, 0, 255], [2, 0, 0, 2]),
            silent([0, 1, 1, 1], [2, 0, 0, 2]),
            silent([127, 0, 0, 1], [2, 0, 0, 2]),
            silent([240, 0, 0, 1], [2, 0, 0, 2]),
            vec![0x45; 19],
            vec![],
        ],
    );
    for kind in [PacketType::Broadcast, PacketType::Multicast] {
        rig.push_with("i", &udp((A, 5), (B, 6), &[]), |packet| {
            packet.set_packet_type(kind)
        });
    }
    assert!(rig.data("c").is_empty());
    rig.push("i", &ping(A, B, &[]));
    assert_eq!(rig.data("c").len(), 1);
    assert_eq!(rig.outstanding(), 0);
}

/// A packet with a strict source route whose pointer is `pointer`.
fn routed(pointer: u8) -> Vec<u8> {
    let mut packet = udp((A, 5), (B, 6), &[]);
    let route = [
        137, 19, pointer, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 0,
    ];
    packet.splice(20..20, route);
    packet[0] = 0x4a;
    packet[3] += 20;
    packet
}

#[test]
fn source_routes_are_reversed() {
    let mut rig = rig("timeexceeded");
    rig.push("i", &routed(12));
    let error = rig.data("c").remove(0);
    assert_eq!(error[0], 0x48);
    assert_eq!(error[20..32], [137, 11, 4, 2, 2, 2, 2, 1, 1, 1, 1, 0]);
    rig.push("i", &routed(4));
    assert_eq!(rig.data("c")[0][20..24], [137, 3, 4, 0]);
    rig.push("i", &routed(11));
    assert_eq!(rig.data("c")[0][0], 0x45);
}

#[test]
fn source_routes_get_no_redirect_and_are_not_taken_when_they_are_the_problem() {
    let mut redirect = rig("redirect, 1");
    redirect.push("i", &routed(12));
    assert!(redirect.data("c").is_empty());
    let mut problem = rig("12, 0");
    problem.push_with("i", &routed(12), |packet| {
        packet.set_anno(ICMP_PARAMPROB, 22)
    });
    problem.push_with("i", &routed(12), |packet| {
        packet.set_anno(ICMP_PARAMPROB, 8)
    });
    let errors = problem.data("c");
    assert_eq!((errors[0][0], errors[1][0]), (0x45, 0x48));
}

#[test]
fn handlers_and_live_reconfiguration() {
    let mut rig = rig("timeexceeded");
    rig.write("e.src", "8.8.8.8");
    rig.write("e.mtu", "40");
    rig.write("e.pmtu", "1300");
    assert_eq!(rig.read("e.src"), "8.8.8.8");
    rig.assert_handlers(&[("e.mtu", "40"), ("e.pmtu", "1300")]);
    rig.write("e.config", "7.7.7.7, unreachable, port");
    rig.assert_handlers(&[("e.src", "7.7.7.7"), ("e.mtu", "576")]);
}

#[test]
fn wrong_types_and_codes_are_refused() {
    for (args, error) in [
        ("300", "ICMP type must be between 0 and 255"),
        ("echo", "ICMP type 8 is not an error type"),
        (
            "3, zork",
            "argument 2 takes ICMP code (integer between 0 and 255)",
        ),
    ] {
        Rig::refuses(
            &format!("Inject -> ICMPError(1.1.1.1, {args}) -> Collect;"),
            error,
        );
    }
}
