//! Any bytes as a capture file: reading it must end without a panic, every packet must fit the
//! longest there may be, and a pcap file written from what was read must read as the same.
//!
//! `cargo +nightly fuzz run capture fuzz/corpus/capture fuzz/seeds/capture`

#![no_main]

use std::io::Cursor;

use elements::userlevel::capture::{
    Capture, Frame, PACKET_MAX, Record, file_header, record_header,
};
use libfuzzer_sys::fuzz_target;

/// When it was captured, what it holds, and what it lacks.
type Packet = (i64, Vec<u8>, u32);

fn packets(file: Vec<u8>) -> (Option<Capture>, Vec<Packet>) {
    let mut packets = Vec::new();
    let Ok(mut capture) = Capture::open(Box::new(Cursor::new(file))) else {
        return (None, packets);
    };
    let mut add = |frame: Frame<'_>| {
        assert!(frame.data.len() <= PACKET_MAX);
        packets.push((frame.time, frame.data.to_vec(), frame.missing));
    };
    loop {
        while let Some(frame) = capture.at_hand() {
            add(frame);
        }
        match capture.next_frame() {
            Ok(Some(frame)) => add(frame),
            _ => return (Some(capture), packets),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let (Some(capture), read) = packets(data.to_vec()) else {
        return;
    };
    let mut file = file_header(true, PACKET_MAX as u32, capture.link()).to_vec();
    let fits = |packet: &&Packet| {
        u32::try_from(packet.0.div_euclid(1_000_000_000)).is_ok()
            && packet.2.checked_add(packet.1.len() as u32).is_some()
    };
    let written: Vec<&Packet> = read.iter().filter(fits).collect();
    for (time, data, missing) in &written {
        let captured = data.len() as u32;
        let length = captured + missing;
        file.extend(record_header(
            &Record {
                time: *time,
                captured,
                length,
            },
            true,
        ));
        file.extend(data);
    }
    let (_, again) = packets(file);
    assert_eq!(again.iter().collect::<Vec<_>>(), written);
});
