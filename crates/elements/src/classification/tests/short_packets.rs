//! Packets that end before the bytes a test needs.

use super::*;

fn accepts(program: &Program, packet: &[u8]) -> bool {
    program.classify(&Headers::ip(packet, 20)) == Some(0)
}

#[test]
fn a_packet_too_short_for_a_test_does_not_match_it() {
    let program = filter(&["0 transp[1]&128==0", "1 -"], 2);
    assert!(accepts(&program, &ip_packet(17, &[0, 0])));
    assert!(!accepts(&program, &ip_packet(17, &[0, 128])));
    assert!(!accepts(&program, &ip_packet(17, &[0])));
    let program = filter(&["0 transp[1]&128!=0", "1 -"], 2);
    assert!(accepts(&program, &ip_packet(17, &[0, 128])));
    assert!(!accepts(&program, &ip_packet(17, &[0])));
    let program = filter(&["0 ip[19]&128==0"], 1);
    assert!(!accepts(&program, &ip_packet(17, &[])[..19]));
}

#[test]
fn a_negated_test_matches_a_packet_too_short_for_it() {
    let program = filter(&["0 not (transp[1]&128==0)"], 1);
    assert!(accepts(&program, &ip_packet(17, &[0])));
    assert!(accepts(&program, &ip_packet(17, &[0, 128])));
    assert!(!accepts(&program, &ip_packet(17, &[0, 0])));
}

#[test]
fn length_checks_survive_simplification() {
    // Both halves together look like "always", but a short packet has neither.
    let program = filter(&["0 transp[1]&128==0 || transp[1]&128==128"], 1);
    assert!(accepts(&program, &ip_packet(17, &[0, 7])));
    assert!(!accepts(&program, &ip_packet(17, &[0])));
}

#[test]
fn only_first_fragments_have_ports() {
    let program = filter(&["allow tcp dst port 80"], 1);
    let mut packet = ip_packet(6, &[0, 1, 0, 80]);
    assert!(accepts(&program, &packet));
    packet[6] = 0x20; // More fragments: still the first.
    assert!(accepts(&program, &packet));
    packet[7] = 1;
    assert!(!accepts(&program, &packet));
}

#[test]
fn ports_are_found_behind_ip_options() {
    let program = filter(&["allow tcp dst port 80"], 1);
    let mut packet = ip_packet(6, &[0, 0, 0, 80, 0, 0, 0, 80]);
    packet[0] = 0x46;
    packet[20..24].fill(0);
    assert_eq!(program.classify(&Headers::ip(&packet, 24)), Some(0));
    assert_eq!(program.classify(&Headers::ip(&packet, 20)), None);
    // A transport offset beyond the packet is a missing transport header.
    assert_eq!(program.classify(&Headers::ip(&packet, 60)), None);
}

#[test]
fn ethernet_tests_read_the_mac_header() {
    let program = filter(&["allow src ether host 0:1:2:3:4:5 and ip vers 4"], 1);
    let mut frame = [0u8; 14 + 20];
    frame[6..12].copy_from_slice(&[0, 1, 2, 3, 4, 5]);
    frame[14] = 0x45;
    let headers = Headers::ip(&frame[14..], 20);
    assert_eq!(program.classify(&headers.with_mac(&frame)), Some(0));
    assert_eq!(program.classify(&headers), None);
}

#[test]
fn classifier_patterns_need_their_bytes() {
    let program = classifier(&["2/0102", "!2/0102", "-"], 0).unwrap().program;
    assert_eq!(program.classify(&Headers::data(&[0, 0, 1, 2])), Some(0));
    assert_eq!(program.classify(&Headers::data(&[0, 0, 1])), Some(1));
    assert_eq!(program.classify(&Headers::data(&[])), Some(1));
    let program = classifier(&["-"], 0).unwrap().program;
    assert_eq!(program.classify(&Headers::data(&[])), Some(0));
}
