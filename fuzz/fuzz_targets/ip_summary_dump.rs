//! Any bytes as an IP summary dump, and as packets to be written to one: reading and writing must end
//! without a panic, and what was read and written must read as the same number of packets.
//!
//! `cargo +nightly fuzz run ip_summary_dump fuzz/corpus/ip_summary_dump fuzz/seeds/ip_summary_dump`

#![no_main]

use std::io::Cursor;

use elements::analysis::dumps::summary::{Defaults, Next, Reader, Selection, Writer, field_names};
use libfuzzer_sys::fuzz_target;
use packet::{Packet, Pool};
use router::args::Context;

/// Most packets of a file.
const PACKETS_MAX: usize = 256;

fn packets(pool: &mut Pool, file: &[u8], checksums: bool) -> Vec<Packet> {
    let defaults = Defaults {
        protocol: 6,
        checksums,
    };
    let mut reader = Reader::new("file", defaults);
    let mut packets = Vec::new();
    if !reader.open(Box::new(Cursor::new(file.to_vec()))) {
        return packets;
    }
    while packets.len() < PACKETS_MAX {
        let Some(mut packet) = pool.empty() else {
            break;
        };
        match reader.next(Context::blank(), &mut packet) {
            Next::Packet => packets.push(packet),
            Next::Nothing => {}
            Next::End => break,
        }
    }
    packets
}

fn written(packets: &mut [Packet], binary: bool) -> Vec<u8> {
    // The payload has no binary form.
    let names = field_names().filter(|name| !binary || *name != "payload");
    let names: Vec<&str> = names.collect();
    let (selection, errors) = Selection::parse(&names.join(" "), binary);
    assert!(errors.is_empty());
    let (banner, data) = selection.header();
    let writer = Writer {
        selection,
        bad_packets: true,
        careful_truncation: true,
        extra_length: true,
        ..Writer::default()
    };
    let mut file = (banner + &data).into_bytes();
    for packet in packets {
        writer.add(packet, Context::blank(), &mut file);
    }
    file
}

fuzz_target!(|data: &[u8]| {
    let mut pool = Pool::heap(1 << 11);
    for checksums in [false, true] {
        let mut read = packets(&mut pool, data, checksums);
        for binary in [false, true] {
            let file = written(&mut read, binary);
            assert_eq!(packets(&mut pool, &file, checksums).len(), read.len());
        }
    }
    // The bytes themselves as a packet, behind two bytes that say where its headers are.
    if let [network, header, rest @ ..] = data
        && let Some(mut packet) = pool.copy(rest)
    {
        packet.set_network_header(usize::from(*network), usize::from(*header));
        let mut packets = [packet];
        written(&mut packets, false);
        written(&mut packets, true);
    }
});
