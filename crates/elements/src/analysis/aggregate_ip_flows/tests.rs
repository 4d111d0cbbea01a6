use crate::testing::*;

const A: ([u8; 4], u16) = ([9, 0, 0, 1], 10);
const B: ([u8; 4], u16) = ([2, 0, 0, 2], 20);

fn flows(args: &str) -> Rig {
    Rig::new(&alloc::format!(
        "i :: Inject -> MarkIPHeader -> a :: AggregateIPFlows({args}) -> c :: Collect;
         a[1] -> d :: Collect;"
    ))
}

fn push(rig: &mut Rig, packet: &[u8], seconds: i64) {
    rig.push_with("i", packet, |packet| {
        packet.set_timestamp(seconds * 1_000_000_000)
    });
}

fn datagram(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
    udp((from.0.into(), from.1), (to.0.into(), to.1), b"0123456789")
}

fn segment(from: ([u8; 4], u16), to: ([u8; 4], u16), flags: u8) -> Vec<u8> {
    tcp((from.0.into(), from.1), (to.0.into(), to.1), flags, b"")
}

/// Aggregates and paints of what came out.
fn marks(rig: &mut Rig) -> Vec<(u32, u8)> {
    let packets = rig.collected("c");
    packets
        .iter()
        .map(|p| (p.anno(AGGREGATE), p.paint()))
        .collect()
}

#[test]
fn flows_are_numbered_and_ways_painted() {
    let mut rig = flows("");
    push(&mut rig, &datagram(A, B), 1);
    push(&mut rig, &datagram(B, A), 1);
    push(&mut rig, &segment(A, B, 2), 1);
    push(&mut rig, &datagram(A, (B.0, 21)), 1);
    push(&mut rig, &datagram((A.0, 1), (A.0, 2)), 1);
    push(&mut rig, &datagram((A.0, 2), (A.0, 1)), 1);
    assert_eq!(
        marks(&mut rig),
        [(1, 0), (1, 1), (2, 0), (3, 0), (4, 0), (4, 1)]
    );
    push(&mut rig, &ping(A.0.into(), B.0.into(), b""), 1);
    push(&mut rig, &datagram(A, B)[..22], 1);
    rig.push("i", &datagram(A, B));
    assert_eq!(rig.collected("d").len(), 2);
    assert_eq!(
        rig.printed(),
        ["a :: AggregateIPFlows: warning: packet received without timestamp"]
    );
}

#[test]
fn flows_end_in_time_or_by_their_flags() {
    let mut rig = flows("UDP_TIMEOUT 10, TCP_DONE_TIMEOUT 5");
    for time in [100, 110, 121] {
        push(&mut rig, &datagram(A, B), time);
    }
    assert_eq!(marks(&mut rig), [(1, 0), (1, 0), (2, 0)]);
    push(&mut rig, &segment(A, B, 2), 121);
    push(&mut rig, &segment(A, B, 0x11), 122);
    // Ended one way only.
    push(&mut rig, &segment(A, B, 2), 123);
    push(&mut rig, &segment(A, B, 0x11), 124);
    push(&mut rig, &segment(B, A, 0x11), 124);
    push(&mut rig, &segment(A, B, 0x10), 125);
    push(&mut rig, &segment(B, A, 2), 126);
    assert_eq!(
        marks(&mut rig).iter().map(|m| m.0).collect::<Vec<_>>(),
        [3, 3, 3, 3, 3, 3, 4]
    );
    push(&mut rig, &segment(A, B, 4), 126);
    push(&mut rig, &segment(A, B, 0x10), 140);
    assert_eq!(marks(&mut rig), [(4, 1), (5, 0)]);
}

/// A fragment of a packet: its first part, or a later one.
fn fragment(packet: &[u8], id: u8, first: bool) -> Vec<u8> {
    let mut fragment = packet.to_vec();
    fragment[5] = id;
    (fragment[6], fragment[7]) = if first { (0x20, 0) } else { (0, 3) };
    fragment
}

#[test]
fn fragments_wait_for_their_flow() {
    let mut rig = flows("");
    let packet = datagram(A, B);
    push(&mut rig, &packet, 1);
    push(&mut rig, &fragment(&packet, 5, false), 1);
    push(&mut rig, &datagram(B, A), 1);
    push(&mut rig, &datagram(A, ([7; 4], 1)), 1);
    assert_eq!(marks(&mut rig), [(1, 0), (2, 0)]);
    push(&mut rig, &fragment(&packet, 5, true), 1);
    push(&mut rig, &fragment(&packet, 6, false), 2);
    assert_eq!(marks(&mut rig), []);
    rig.write("a.clear", "");
    assert_eq!(marks(&mut rig), [(1, 0), (1, 1), (1, 0)]);
    // One whose flow nobody shows is dropped.
    assert_eq!((rig.collected("d").len(), rig.outstanding()), (0, 0));
    // Time lets them go too.
    push(&mut rig, &fragment(&packet, 7, false), 10);
    push(&mut rig, &packet, 11);
    push(&mut rig, &packet, 41);
    assert_eq!(marks(&mut rig), [(3, 0), (3, 0)]);
    assert_eq!((rig.collected("d").len(), rig.outstanding()), (0, 0));
    let mut rig = flows("FRAGMENTS false");
    push(&mut rig, &fragment(&packet, 5, false), 1);
    assert_eq!(rig.collected("d").len(), 1);
}

#[test]
fn held_packets_of_several_hosts_come_in_the_order_of_their_addresses() {
    let mut rig = flows("");
    let pairs = [5u8, 3, 9, 1, 7].map(|n| datagram(([n; 4], 1), ([n + 1; 4], 2)));
    for packet in &pairs {
        push(&mut rig, &fragment(packet, 5, true), 1);
    }
    push(&mut rig, &fragment(&segment(A, B, 2), 5, true), 1);
    rig.write("a.clear", "");
    let order = marks(&mut rig).iter().map(|m| m.0).collect::<Vec<_>>();
    assert_eq!(order, [6, 4, 2, 1, 5, 3]);
}

#[test]
fn held_fragments_leave_buffers_for_others() {
    let mut rig = flows("");
    let packet = datagram(A, B);
    for _ in 0..5000 {
        push(&mut rig, &fragment(&packet, 5, false), 1);
    }
    assert_eq!(rig.collected("d").len(), 5000 - (1 << 14) / 4);
    rig.end();
}

#[test]
fn icmp_errors_belong_to_the_flow_they_quote() {
    let mut rig = flows("ICMP true");
    let packet = datagram(A, B);
    let mut error = ping(B.0.into(), A.0.into(), &packet);
    error[20] = 3;
    push(&mut rig, &packet, 1);
    push(&mut rig, &error, 1);
    push(&mut rig, &ping(B.0.into(), A.0.into(), &packet), 1);
    push(&mut rig, &error[..40], 1);
    assert_eq!(marks(&mut rig), [(1, 0), (1, 2)]);
    assert_eq!(rig.collected("d").len(), 2);
    // Link headers make no difference.
    let frame = ether([1; 6], [2; 6], 0x800, &packet);
    let mut rig = Rig::new("i :: Inject -> MarkIPHeader(14) -> AggregateIPFlows -> c :: Collect;");
    push(&mut rig, &frame, 1);
    assert_eq!(marks(&mut rig), [(1, 0)]);
}

#[cfg(feature = "host")]
#[test]
fn flows_are_described_in_a_file() {
    let file = crate::userlevel::testing::TempFile::new("flows");
    let mut rig = flows(&alloc::format!("TRACEINFO {file}"));
    push(&mut rig, &datagram(A, B), 1);
    push(&mut rig, &datagram(B, A), 3);
    rig.end();
    assert_eq!(
        alloc::string::String::from_utf8(file.read()).unwrap(),
        "<?xml version='1.0' standalone='yes'?>\n<trace>\n\
         <flow aggregate='1' src='9.0.0.1' sport='10' dst='2.0.0.2' dport='20' \
         begin='1.000000000' duration='2.000000000'>\n  <stream dir='0' packets='1' /><stream dir='1' packets='1' />\n\
         </flow>\n</trace>\n"
    );
    Rig::refuses(
        "Idle -> AggregateIPFlows(TRACEINFO /nowhere/x) -> Discard;",
        "/nowhere/x: No such file or directory",
    );
    let errors = Rig::errors("Idle -> AggregateIPFlows(FRAGMENTS true) -> Unqueue -> Discard;");
    assert!(errors.contains("incompatible with pull"), "{errors}");
}

#[cfg(feature = "host")]
#[test]
fn flows_are_described_with_their_place_in_the_capture() {
    use crate::headers::link_type::LinkType;
    use crate::userlevel::capture::{Record, file_header, record_header};
    use crate::userlevel::testing::TempFile;

    let (capture, trace) = (
        TempFile::new("flows_capture"),
        TempFile::new("flows_places"),
    );
    let mut bytes = file_header(true, 65535, LinkType::RAW).to_vec();
    for packet in [datagram(A, B), datagram(B, A), segment(A, B, 2)] {
        let (time, length) = (1_000_000_000, packet.len() as u32);
        let record = Record {
            time,
            captured: length,
            length,
        };
        bytes.extend(record_header(&record, true));
        bytes.extend(packet);
    }
    capture.write(&bytes);
    let mut rig = Rig::new(&alloc::format!(
        "f :: FromDump({capture}) -> AggregateIPFlows(TRACEINFO {trace}, SOURCE f) -> c :: Collect;"
    ));
    rig.run();
    assert_eq!(rig.collected("c").len(), 3);
    rig.end();
    let text = String::from_utf8(trace.read()).unwrap();
    let second = 24 + 2 * (16 + datagram(A, B).len());
    assert_contains(&text, &alloc::format!("<trace file='{capture}'>"));
    assert_contains(&text, " filepos='24'>");
    assert_contains(&text, &alloc::format!(" filepos='{second}'>"));
}
