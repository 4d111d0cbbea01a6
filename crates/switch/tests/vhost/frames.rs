//! Frames that are sent and looked at.

use crate::frontend::HEADER;

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A TCP/IPv4 frame with `payload` bytes of payload and no checksums.
pub fn tcp(payload: usize) -> Vec<u8> {
    let mut frame = bytes_of(
        "52540000000b 52540000000a 0800
         4500 0000 1234 4000 40 06 0000 c6120001 c6120002
         0400 0050 00000001 00000001 5010 ffff 0000 0000",
    );
    frame.extend((0..payload).map(|i| (i * 7) as u8));
    let total = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    frame
}

/// The header of a TCP/IPv4 frame to be cut at 1460 bytes of payload.
pub fn to_be_cut() -> [u8; HEADER] {
    let mut header = [0; HEADER];
    (header[0], header[1]) = (1, 1);
    let words = [54u16, 1460, 34, 16];
    for (at, word) in (2..).step_by(2).zip(words) {
        header[at..at + 2].copy_from_slice(&word.to_le_bytes());
    }
    header
}

fn ones_sum(bytes: impl IntoIterator<Item = u8>) -> u16 {
    let bytes: Vec<u8> = bytes.into_iter().collect();
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The sum over the pseudo header alone.
pub fn tcp_sum_of_nothing(frame: &[u8]) -> u16 {
    let len = (frame.len() - 34) as u16;
    let pseudo = frame[26..34].iter().copied().chain([0, 6]);
    ones_sum(pseudo.chain(len.to_be_bytes()))
}

/// The sum over pseudo header and segment: all ones if the checksum is right.
pub fn tcp_sum(frame: &[u8]) -> u16 {
    let whole = tcp_sum_of_nothing(frame).to_be_bytes();
    ones_sum(whole.into_iter().chain(frame[34..].iter().copied()))
}
