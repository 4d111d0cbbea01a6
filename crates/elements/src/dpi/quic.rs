//! The first packets of a QUIC client (RFC 9000 and 9369): Initial packets, whose keys follow from what
//! they hold in the clear (RFC 9001, section 5), with parts of a ClientHello.

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::aes::Aes128;
use aes_gcm::aes::cipher::BlockCipherEncrypt;
use aes_gcm::{Aes128Gcm, Nonce, Tag};
use hkdf::Hkdf;
use sha2::Sha256;

use super::reader::Reader;
use crate::prelude::*;

/// Most bytes of a datagram whose packets are decrypted.
pub const DATAGRAM_MAX: usize = 2048;
/// Most CRYPTO frames of a packet that are looked at.
const FRAMES: usize = 64;
const ID_MAX: usize = 20;
const TAG: usize = 16;

/// What differs between the versions.
struct Version {
    salt: [u8; 20],
    /// The type of Initial packets.
    initial: u8,
    labels: [&'static str; 3],
}

const V1: Version = Version {
    salt: [
        0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c,
        0xad, 0xcc, 0xbb, 0x7f, 0x0a,
    ],
    initial: 0,
    labels: ["quic key", "quic iv", "quic hp"],
};

const V2: Version = Version {
    salt: [
        0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d,
        0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
    ],
    initial: 1,
    labels: ["quicv2 key", "quicv2 iv", "quicv2 hp"],
};

/// What a datagram is to QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not QUIC.
    Other,
    /// QUIC, of a version whose packets are not decrypted, or not the beginning of a connection.
    Opaque,
    /// An Initial packet that can be decrypted.
    Initial,
}

/// What a datagram is, by its first bytes, which are not encrypted.
pub fn kind(datagram: &[u8]) -> Kind {
    let Some((first, version, _)) = long_header(datagram) else {
        return Kind::Other;
    };
    match known(version) {
        Some(known) if first >> 4 & 3 == known.initial => Kind::Initial,
        Some(_) => Kind::Opaque,
        // Drafts, and the versions that are never one (RFC 9000, section 15).
        None if version >> 8 == 0x00ff_0000 || version & 0x0f0f_0f0f == 0x0a0a_0a0a => Kind::Opaque,
        None => Kind::Other,
    }
}

fn known(version: u32) -> Option<&'static Version> {
    match version {
        1 => Some(&V1),
        0x6b33_43cf => Some(&V2),
        _ => None,
    }
}

/// The first byte of a long header, its version, and what follows.
fn long_header(datagram: &[u8]) -> Option<(u8, u32, Reader<'_>)> {
    let mut rest = Reader(datagram);
    let first = rest.byte()?;
    let version = rest.number(4)? as u32;
    let (to, from) = (rest.counted(1)?, rest.counted(1)?);
    let is_right = first & 0xc0 == 0xc0 && to.len() <= ID_MAX && from.len() <= ID_MAX;
    is_right.then_some((first, version, rest))
}

/// The keys of the client's Initial packets.
struct Keys {
    key: [u8; 16],
    iv: [u8; 12],
    header: [u8; 16],
}

impl Keys {
    fn new(version: &Version, id: &[u8]) -> Option<Keys> {
        let (_, initial) = Hkdf::<Sha256>::extract(Some(&version.salt), id);
        let mut secret = [0; 32];
        expand(&initial, "client in", &mut secret)?;
        let client = Hkdf::<Sha256>::from_prk(&secret).ok()?;
        let mut keys = Keys {
            key: [0; 16],
            iv: [0; 12],
            header: [0; 16],
        };
        let [key, iv, header] = version.labels;
        expand(&client, key, &mut keys.key)?;
        expand(&client, iv, &mut keys.iv)?;
        expand(&client, header, &mut keys.header)?;
        Some(keys)
    }

    /// The mask of a header's protected bits, for a sample of the packet.
    fn mask(&self, sample: &[u8; 16]) -> [u8; 16] {
        let mut block = (*sample).into();
        Aes128::new(&self.header.into()).encrypt_block(&mut block);
        block.into()
    }

    fn nonce(&self, number: u32) -> Nonce<aes_gcm::aead::consts::U12> {
        let mut nonce = self.iv;
        for (byte, part) in nonce[8..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= part;
        }
        nonce.into()
    }
}

/// HKDF-Expand-Label (RFC 8446, section 7.1), without a context.
fn expand(from: &Hkdf<Sha256>, label: &str, to: &mut [u8]) -> Option<()> {
    let length = (to.len() as u16).to_be_bytes();
    let count = [6 + label.len() as u8];
    from.expand_multi_info(&[&length, &count, b"tls13 ", label.as_bytes(), &[0]], to)
        .ok()
}

/// Decrypts a datagram's Initial packets and passes the parts of the ClientHello to `part`, each with its
/// offset, in order within a packet. `scratch` has a capacity of [`DATAGRAM_MAX`] bytes. Returns whether
/// there was a packet that decrypts.
pub fn crypto(datagram: &[u8], scratch: &mut Vec<u8>, mut part: impl FnMut(u32, &[u8])) -> bool {
    let mut rest = datagram;
    let mut is_real = false;
    // Packets may follow each other in a datagram.
    while kind(rest) == Kind::Initial {
        let Some(after) = decrypt(rest, scratch) else {
            break;
        };
        is_real = true;
        frames(scratch, &mut part);
        rest = after;
    }
    is_real
}

/// Decrypts an Initial packet into `payload`; returns what follows it.
fn decrypt<'d>(datagram: &'d [u8], payload: &mut Vec<u8>) -> Option<&'d [u8]> {
    let (first, version, _) = long_header(datagram)?;
    let mut rest = Reader(datagram);
    rest.bytes(5)?;
    let id = rest.counted(1)?;
    rest.counted(1)?;
    let token = rest.varint()?;
    rest.bytes(usize::try_from(token).ok()?)?;
    let length = usize::try_from(rest.varint()?).ok()?;
    let start = datagram.len() - rest.0.len();
    let packet = rest.bytes(length)?;
    let keys = Keys::new(known(version)?, id)?;
    let [mask, number_mask @ ..] = keys.mask(packet.get(4..)?.first_chunk()?);
    let first = first ^ mask & 0x0f;
    let count = usize::from(first & 3) + 1;
    let (number, sealed) = packet.split_at_checked(count)?;
    let (sealed, tag) = sealed.split_at_checked(sealed.len().checked_sub(TAG)?)?;
    // The header in the clear is what the tag covers besides the payload.
    payload.clear();
    if payload.capacity() < start + count + sealed.len() {
        return None;
    }
    payload.extend_from_slice(&datagram[..start + count]);
    payload[0] = first;
    let mut plain = 0;
    for (at, (byte, mask)) in number.iter().zip(number_mask).enumerate() {
        plain = plain << 8 | u32::from(byte ^ mask);
        payload[start + at] = byte ^ mask;
    }
    payload.extend_from_slice(sealed);
    let (header, body) = payload.split_at_mut(start + count);
    let tag: &[u8; TAG] = tag.first_chunk()?;
    let cipher = Aes128Gcm::new(&keys.key.into());
    let tag = Tag::from(*tag);
    cipher
        .decrypt_inout_detached(&keys.nonce(plain), header, body.into(), &tag)
        .ok()?;
    payload.drain(..start + count);
    Some(rest.0)
}

/// Passes on the data of a packet's CRYPTO frames, sorted by their offsets.
fn frames(payload: &[u8], part: &mut impl FnMut(u32, &[u8])) {
    let mut found: [(u32, &[u8]); FRAMES] = [(0, &[]); FRAMES];
    let mut count = 0;
    let mut rest = Reader(payload);
    while let Some(frame) = next_frame(&mut rest) {
        if let (Some(frame), Some(slot)) = (frame, found.get_mut(count)) {
            *slot = frame;
            count += 1;
        }
    }
    let found = &mut found[..count];
    found.sort_unstable_by_key(|(offset, _)| *offset);
    for (offset, data) in found {
        part(*offset, data);
    }
}

/// The next frame: its offset and data if it is a CRYPTO frame; `None` at the end, or at a frame that no
/// client's first packet has.
fn next_frame<'p>(rest: &mut Reader<'p>) -> Option<Option<(u32, &'p [u8])>> {
    match rest.varint()? {
        // PADDING, PING.
        0 | 1 => Some(None),
        // ACK.
        kind @ (2 | 3) => {
            rest.varint()?;
            rest.varint()?;
            let ranges = rest.varint()?;
            rest.varint()?;
            for _ in 0..2 * ranges {
                rest.varint()?;
            }
            for _ in 0..3 * (kind - 2) {
                rest.varint()?;
            }
            Some(None)
        }
        6 => {
            let offset = rest.varint()?;
            let length = rest.varint()?;
            let data = rest.bytes(usize::try_from(length).ok()?)?;
            Some(Some((u32::try_from(offset).ok()?, data)))
        }
        _ => None,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::testing::*;

    /// A client's Initial packet with a payload, padded; as RFC 9001, section A.2, makes it.
    pub fn initial(version: u32, id: &[u8], number: u32, frames: &[u8], length: usize) -> Vec<u8> {
        let known = known(version).unwrap();
        let mut payload = frames.to_vec();
        payload.resize(length, 0);
        let mut header = std::vec![0xc3 | known.initial << 4];
        header.extend(version.to_be_bytes());
        header.push(id.len() as u8);
        header.extend(id);
        header.extend([0, 0]);
        header.extend((0x4000 | (length + 4 + TAG) as u16).to_be_bytes());
        let start = header.len();
        header.extend(number.to_be_bytes());
        let keys = Keys::new(known, id).unwrap();
        let cipher = Aes128Gcm::new(&keys.key.into());
        let nonce = keys.nonce(number);
        let tag = cipher
            .encrypt_inout_detached(&nonce, &header, payload.as_mut_slice().into())
            .unwrap();
        let mask = keys.mask(payload.first_chunk().unwrap());
        header[0] ^= mask[0] & 0x0f;
        for (byte, mask) in header[start..].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
        }
        [header, payload, tag.to_vec()].concat()
    }

    /// A CRYPTO frame.
    pub fn crypto_frame(offset: u16, data: &[u8]) -> Vec<u8> {
        let offset = (0x4000 | offset).to_be_bytes();
        let length = (0x4000 | data.len() as u16).to_be_bytes();
        [&[6][..], &offset, &length, data].concat()
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len() / 2)
            .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
            .collect()
    }

    const ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

    #[test]
    fn keys_agree_with_rfc_9001_and_9369() {
        // RFC 9001, section A.1; RFC 9369, section A.1.
        for (version, key, iv, header) in [
            (
                &V1,
                "1f369613dd76d5467730efcbe3b1a22d",
                "fa044b2f42a3fd3b46fb255c",
                "9f50449e04a0e810283a1e9933adedd2",
            ),
            (
                &V2,
                "8b1a0bc121284290a29e0971b5cd045d",
                "91f73e2351d8fa91660e909f",
                "45b95e15235d6f45a6b19cbcb0294ba9",
            ),
        ] {
            let keys = Keys::new(version, &ID).unwrap();
            assert_eq!(keys.key[..], hex(key));
            assert_eq!(keys.iv[..], hex(iv));
            assert_eq!(keys.header[..], hex(header));
        }
    }

    /// The CRYPTO frame of RFC 9001, section A.2.
    const FRAME: &str = "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c\
        00000413011302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d0017\
        001800100007000504616c706e000500050100000000003300260024001d00209370b2c9caa47fbabaf4559fedba\
        753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e040305030603020308040805080600\
        2d00020101001c00024001003900320408ffffffffffffffff05048000ffff07048000ffff080110010480007530\
        0901100f088394c8f03e51570806048000ffff";

    #[test]
    fn the_packet_of_rfc_9001_is_decrypted() {
        let packet = initial(1, &ID, 2, &hex(FRAME), 1162);
        assert_eq!(packet.len(), 1200);
        let begin = "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11d242b123dc9b";
        assert_eq!(packet[..begin.len() / 2], hex(begin));
        assert_eq!(packet[1184..], hex("e221af44860018ab0856972e194cd934"));
        assert_eq!(kind(&packet), Kind::Initial);
        let mut parts = Vec::new();
        let mut scratch = Vec::with_capacity(DATAGRAM_MAX);
        assert!(crypto(&packet, &mut scratch, |at, data| parts
            .push((at, data.to_vec()))));
        assert_eq!(parts, [(0, hex(FRAME)[4..].to_vec())]);
        // A tag that is not the client's says nothing.
        let mut wrong = packet.clone();
        wrong[1199] ^= 1;
        assert!(!crypto(&wrong, &mut scratch, |_, _| panic!(
            "not authentic"
        )));
    }

    #[test]
    fn frames_are_sorted() {
        let frames = [
            crypto_frame(4, b"ef"),
            std::vec![0, 0, 1],
            crypto_frame(0, b"abcd"),
        ]
        .concat();
        let packet = initial(0x6b33_43cf, &[1, 2, 3, 4, 5, 6, 7, 8], 0, &frames, 1162);
        let mut text: Vec<u8> = Vec::new();
        let mut scratch = Vec::with_capacity(DATAGRAM_MAX);
        assert!(crypto(&packet, &mut scratch, |_, data| text.extend(data)));
        assert_eq!(text, b"abcdef");
    }

    #[test]
    fn versions_are_told() {
        let header = |version: u32| [&[0xc0][..], &version.to_be_bytes(), &[1, 7, 1, 7]].concat();
        for (version, expected) in [
            (1, Kind::Initial),
            (0xff00_001d, Kind::Opaque),
            (0x1a2a_3a4a, Kind::Opaque),
            (0x1234_5678, Kind::Other),
        ] {
            assert_eq!(kind(&header(version)), expected, "{version:x}");
        }
        assert_eq!(kind(b"\x40\x00\x00\x00\x01\x00\x00"), Kind::Other);
    }

    proptest! {
        #[test]
        fn any_datagram_is_taken(
            data in prop::collection::vec(any::<u8>(), 0..300),
            frames in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut scratch = Vec::with_capacity(DATAGRAM_MAX);
            for start in [&[][..], &[0xc0, 0, 0, 0, 1], &[0xd0, 0x6b, 0x33, 0x43, 0xcf]] {
                crypto(&[start, &data].concat(), &mut scratch, |_, _| {});
            }
            let packet = initial(1, &ID, 7, &frames, 300);
            let is_real = crypto(&packet, &mut scratch, |_, _| {});
            prop_assert!(is_real);
        }
    }
}
