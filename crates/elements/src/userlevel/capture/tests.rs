use std::io::Cursor;

use proptest::prelude::*;

use super::*;

type Packet = (i64, Vec<u8>, u32);

/// The packets of a file. Reading those at hand first gives the same packets as reading each by `next_frame`.
fn packets(file: &[u8]) -> Result<(LinkType, Vec<Packet>), String> {
    let [expected, packets] = [false, true].map(|at_hand| read_packets(file, at_hand));
    assert_eq!(packets, expected);
    packets
}

fn read_packets(file: &[u8], at_hand: bool) -> Result<(LinkType, Vec<Packet>), String> {
    let source = Box::new(Cursor::new(file.to_vec()));
    let mut capture = Capture::open(source).map_err(|error| error.to_string())?;
    let mut packets = Vec::new();
    let packet = |frame: Frame<'_>| (frame.time, frame.data.to_vec(), frame.missing);
    loop {
        if at_hand {
            packets.extend(core::iter::from_fn(|| capture.at_hand().map(packet)));
        }
        match capture.next_frame().map_err(|error| error.to_string())? {
            Some(frame) => packets.push(packet(frame)),
            None => return Ok((capture.link(), packets)),
        }
    }
}

fn pcap(nanoseconds: bool, packets: &[Packet]) -> Vec<u8> {
    let mut file = file_header(nanoseconds, 65535, LinkType::ETHERNET).to_vec();
    for (time, data, missing) in packets {
        let captured = data.len() as u32;
        let record = Record {
            time: *time,
            captured,
            length: captured + missing,
        };
        file.extend(record_header(&record, nanoseconds));
        file.extend(data);
    }
    file
}

/// The same file as a machine of the other byte order writes it.
fn swapped(file: &[u8]) -> Vec<u8> {
    let mut out = file.to_vec();
    out[0..4].reverse();
    out[4..6].reverse();
    out[6..8].reverse();
    for at in [8, 12, 16, 20] {
        out[at..at + 4].reverse();
    }
    let mut at = 24;
    while at + 16 <= file.len() {
        let captured = u32::from_ne_bytes(file[at + 8..at + 12].try_into().unwrap());
        for word in 0..4 {
            out[at + 4 * word..at + 4 * word + 4].reverse();
        }
        at += 16 + captured as usize;
    }
    out
}

const TIME: i64 = 1_234_567_890_123_456_000;

#[test]
fn every_dialect_is_read() {
    let written = vec![(TIME, vec![1, 2, 3], 0), (TIME + 1000, vec![], 7)];
    for nanoseconds in [false, true] {
        let file = pcap(nanoseconds, &written);
        let expected = Ok((LinkType::ETHERNET, written.clone()));
        assert_eq!(packets(&file), expected);
        assert_eq!(packets(&swapped(&file)), expected);
    }
    // A modified libpcap has eight bytes more in front of each packet.
    let mut file = pcap(false, &written);
    file[0..4].copy_from_slice(&0xa1b2_cd34u32.to_ne_bytes());
    file.splice(24 + 16..24 + 16, [9; 8]);
    let at = 24 + 24 + 3 + 16;
    file.splice(at..at, [9; 8]);
    assert_eq!(packets(&file), Ok((LinkType::ETHERNET, written.clone())));
}

#[test]
fn old_versions_have_the_lengths_the_other_way_round() {
    let mut file = pcap(false, &[(TIME, vec![1, 2, 3], 4)]);
    file[6..8].copy_from_slice(&2u16.to_ne_bytes());
    let (captured, length) = (3u32.to_ne_bytes(), 7u32.to_ne_bytes());
    file[32..36].copy_from_slice(&length);
    file[36..40].copy_from_slice(&captured);
    assert_eq!(packets(&file).unwrap().1, [(TIME, vec![1, 2, 3], 4)]);
}

#[test]
fn a_byte_too_many_is_passed_over() {
    let mut file = pcap(false, &[(TIME, vec![1, 2, 3], 0), (TIME, vec![4], 0)]);
    file[36..40].copy_from_slice(&2u32.to_ne_bytes());
    let expected = [(TIME, vec![1, 2], 0), (TIME, vec![4], 0)];
    assert_eq!(packets(&file).unwrap().1, expected);
}

#[test]
fn a_file_that_was_cut_off_ends_there() {
    let file = pcap(true, &[(TIME, vec![1; 100], 0), (TIME, vec![2; 100], 0)]);
    for length in 24..file.len() {
        let whole = if length < 24 + 116 { 0 } else { 1 };
        assert_eq!(packets(&file[..length]).unwrap().1.len(), whole);
    }
}

#[test]
fn what_is_no_capture_is_refused_in_clicks_words() {
    let error = |file: &[u8]| packets(file).unwrap_err();
    assert_eq!(error(&[]), "empty file");
    assert_eq!(
        error(&[0xd4, 0xc3, 0xb2, 0xa1, 2]),
        "not a tcpdump file (too short)"
    );
    assert_eq!(error(&[1; 30]), "not a tcpdump file (bad magic number)");
    assert_eq!(
        error(&[0x1f, 0x8b, 8, 0]),
        "compressed file; unpack it first"
    );
    let mut file = pcap(false, &[(TIME, vec![0; 4], 0)]);
    file[4] = 3;
    assert_eq!(error(&file), "unknown major version 3");
    let mut file = pcap(false, &[(TIME, vec![0; 4], 0)]);
    file[32..40].fill(0xff);
    assert_eq!(error(&file), "bad packet header; giving up");
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (12 + body.len() as u32).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, body, &length].concat()
}

/// A section with an interface of nanosecond resolution, and `data` in a packet of each kind.
fn pcapng(data: &[u8; 4]) -> Vec<u8> {
    let mut order = 0x1a2b_3c4du32.to_le_bytes().to_vec();
    order.extend([1, 0, 0, 0]);
    order.extend([0xff; 8]);
    let interface = [
        &[1, 0, 0, 0, 0, 0, 0, 0][..],
        &[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let mut enhanced = vec![0; 4];
    enhanced.extend(((TIME as u64) >> 32).to_le_bytes()[..4].iter());
    enhanced.extend((TIME as u32).to_le_bytes());
    enhanced.extend([4, 0, 0, 0, 6, 0, 0, 0]);
    enhanced.extend(data);
    let mut simple = vec![4, 0, 0, 0];
    simple.extend(data);
    [
        block(0x0a0d_0d0a, &order),
        block(1, &interface),
        block(0x0bad, &[0; 8]),
        block(6, &enhanced),
        block(3, &simple),
    ]
    .concat()
}

#[test]
fn pcapng_is_read() {
    let file = pcapng(&[1, 2, 3, 4]);
    let expected = vec![(TIME, vec![1, 2, 3, 4], 2), (0, vec![1, 2, 3, 4], 0)];
    assert_eq!(packets(&file), Ok((LinkType::ETHERNET, expected)));
    let no_interface = block(0x0a0d_0d0a, &file[8..24]);
    assert_eq!(
        packets(&no_interface).unwrap_err(),
        "not a tcpdump file (no interface in it)"
    );
}

#[test]
fn positions_can_be_gone_to() {
    let written: Vec<Packet> = (0..10).map(|n| (TIME, vec![n; 50], 0)).collect();
    let file = pcap(true, &written);
    let mut capture = Capture::open(Box::new(Cursor::new(file))).unwrap();
    let mut places = Vec::new();
    loop {
        let at = capture.position();
        if capture.next_frame().unwrap().is_none() {
            break;
        }
        places.push(at);
    }
    assert_eq!(places[3], 24 + 3 * 66);
    capture.go_to(places[7]).unwrap();
    assert_eq!(capture.next_frame().unwrap().unwrap().data, [7; 50]);
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        written in proptest::collection::vec(
            (0i64..4_000_000_000_000_000_000, proptest::collection::vec(any::<u8>(), 0..300), 0u32..9),
            0..20,
        ),
    ) {
        prop_assert_eq!(packets(&pcap(true, &written)).unwrap().1, written);
    }

    #[test]
    fn no_bytes_make_it_panic(
        kind in 0..4,
        at in 0usize..200,
        noise in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut file = match kind {
            0 => Vec::new(),
            1 => pcap(false, &[(TIME, vec![1; 60], 0), (TIME, vec![2; 20], 3)]),
            2 => swapped(&pcap(true, &[(TIME, vec![1; 60], 0)])),
            _ => pcapng(&[1, 2, 3, 4]),
        };
        let at = at.min(file.len());
        let end = (at + noise.len()).min(file.len());
        file.splice(at..end, noise);
        let _ = format!("{:?}", packets(&file));
    }
}
