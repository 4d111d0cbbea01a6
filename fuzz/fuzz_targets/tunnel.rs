//! Packets of a VXLAN port, and the frames in them, which may be left unfinished: what is found to
//! be left undone can be done, or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use switch::port::offload::{Segmenter, checksum_of, joined, unfinished};
use switch::port::vxlan::packet::{HEADER, inner};

fuzz_target!(|data: &[u8]| {
    let Some((mtu, packet)) = data.split_first_chunk::<2>() else {
        return;
    };
    let mtu = u16::from_le_bytes(*mtu);
    let Ok(frame) = inner(packet, 42) else {
        return;
    };
    assert_eq!(frame.len() + HEADER, packet.len());
    let header = unfinished(frame);
    if header.needs_checksum() {
        let (at, _) = checksum_of(frame, header).expect("where it was found, it can be completed");
        assert!(at + 2 <= frame.len());
    }
    let Some(header) = joined(frame, mtu) else {
        return;
    };
    let Ok(mut segments) = Segmenter::new(frame, header) else {
        return;
    };
    let (count, longest) = (segments.count(), segments.longest());
    let mut payloads = 0;
    for _ in 0..count {
        let (headers, payload) = segments.next_segment().expect("as many as told");
        assert!(headers.len() + payload.len() <= longest);
        payloads += payload.len();
    }
    assert!(segments.next_segment().is_none());
    assert!(payloads < frame.len());
});
