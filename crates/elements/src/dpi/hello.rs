//! The first message of a TLS client: ClientHello (RFC 8446, section 4.1.2), with the name of the server
//! (RFC 6066, section 3) and the protocols that the client offers (RFC 7301).

use super::guess::{Found, Guess};
use super::name::{Alpn, Name};
use super::protocol::Protocol;
use super::reader::Reader;
use crate::prelude::*;

/// The type of the records with the handshake.
const HANDSHAKE: u8 = 22;
/// Most bytes of a record's payload (RFC 8446, section 5.1), with room for what versions before add.
const RECORD_MAX: usize = (1 << 14) + 2048;
/// Most bytes of a message: of those there are, all of which are far shorter.
const HELLO_MAX: usize = 1 << 16;

const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u64 = 0;
const ALPN: u64 = 16;

/// Looks at the first bytes of a stream from a client. `scratch` is for a message in several records: its
/// capacity is as many bytes as the stream has at most.
pub fn records(stream: &[u8], scratch: &mut Vec<u8>) -> Guess {
    let mut rest = Reader(stream);
    let Some(first) = record(&mut rest) else {
        return Guess::None;
    };
    let is_whole = first.len() >= 4 && first.len() >= 4 + hello_length(first);
    if is_whole || rest.0.is_empty() {
        return message(first, Protocol::Tls);
    }
    scratch.clear();
    scratch.extend_from_slice(first);
    while !rest.0.is_empty() {
        match record(&mut rest) {
            Some(part) if scratch.capacity() - scratch.len() >= part.len() => {
                scratch.extend_from_slice(part);
            }
            _ => return Guess::None,
        }
    }
    message(scratch, Protocol::Tls)
}

/// The payload of the next record of a handshake, as far as it is there; `None` if there is another one.
fn record<'b>(stream: &mut Reader<'b>) -> Option<&'b [u8]> {
    let header = stream.bytes(stream.0.len().min(5))?;
    let is_right = header.iter().zip(0..).all(|(byte, at)| match at {
        0 => *byte == HANDSHAKE,
        1 => *byte == 3,
        2 => *byte <= 4,
        _ => true,
    });
    if !is_right {
        return None;
    }
    let Some([.., high, low]) = header.first_chunk::<5>() else {
        return Some(&[]);
    };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if length == 0 || length > RECORD_MAX {
        return None;
    }
    stream.bytes(length.min(stream.0.len()))
}

/// The length of a message without its header of four bytes.
fn hello_length(message: &[u8]) -> usize {
    let mut length = Reader(message.get(1..).unwrap_or_default());
    length.number(3).map_or(0, |length| length as usize)
}

/// Looks at a message of the handshake, as far as it is there.
pub fn message(message: &[u8], protocol: Protocol) -> Guess {
    let mut found = Found::new(protocol);
    match message.first() {
        Some(&CLIENT_HELLO) => {}
        Some(_) => return Guess::None,
        None => return Guess::More(Some(found)),
    }
    if message.len() < 4 {
        return Guess::More(Some(found));
    }
    let length = hello_length(message);
    if length > HELLO_MAX {
        return Guess::None;
    }
    let body = &message[4..];
    let is_whole = body.len() >= length;
    hello(&body[..length.min(body.len())], &mut found);
    match is_whole {
        true => Guess::Found(found),
        false => Guess::More(Some(found)),
    }
}

/// Reads as much of a ClientHello as is there.
fn hello(body: &[u8], found: &mut Found) -> Option<()> {
    let mut body = Reader(body);
    body.bytes(2 + 32)?;
    body.counted(1)?;
    body.counted(2)?;
    body.counted(1)?;
    let mut extensions = Reader(body.counted_part(2)?);
    loop {
        let kind = extensions.number(2)?;
        let mut extension = Reader(extensions.counted(2)?);
        match kind {
            SERVER_NAME => {
                let mut names = Reader(extension.counted(2).unwrap_or_default());
                // The type of host names; there is no other.
                if names.byte() == Some(0) {
                    let name = names.counted(2).and_then(Name::new);
                    found.name = name.unwrap_or_default();
                }
            }
            ALPN => {
                let mut protocols = Reader(extension.counted(2).unwrap_or_default());
                found.alpn = Alpn::new(protocols.counted(1).unwrap_or_default());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::testing::*;

    /// A ClientHello for a server, with ALPN.
    pub fn client_hello(server: &str, alpn: &str, padding: usize) -> Vec<u8> {
        let counted = |count: usize, bytes: &[u8]| {
            let length = (bytes.len() as u32).to_be_bytes();
            [&length[4 - count..], bytes].concat()
        };
        let extension =
            |kind: u16, bytes: &[u8]| [&kind.to_be_bytes()[..], &counted(2, bytes)].concat();
        let name = counted(2, &[&[0][..], &counted(2, server.as_bytes())].concat());
        let extensions = [
            extension(10, &[0, 2, 0, 29]),
            // A large key share comes before the rest.
            extension(51, &std::vec![7; padding]),
            extension(0, &name),
            extension(16, &counted(2, &counted(1, alpn.as_bytes()))),
        ]
        .concat();
        let body = [
            &[3, 3][..],
            &[9; 32],
            &counted(1, &[5; 32]),
            &counted(2, &[0x13, 1]),
            &counted(1, &[0]),
            &counted(2, &extensions),
        ]
        .concat();
        [&[1][..], &counted(3, &body)].concat()
    }

    /// A message in records of `size` bytes.
    pub fn in_records(message: &[u8], size: usize) -> Vec<u8> {
        let records = message.chunks(size).flat_map(|part| {
            let length = (part.len() as u16).to_be_bytes();
            [&[22, 3, 1][..], &length, part].concat()
        });
        records.collect()
    }

    fn look(stream: &[u8]) -> Guess {
        records(stream, &mut Vec::with_capacity(stream.len()))
    }

    proptest! {
        /// The name is found in the whole message, however it is in records, and never too early.
        #[test]
        fn the_server_s_name_is_found(size in 1usize..400, padding in 0usize..1500, cut in 0usize..3000) {
            let message = client_hello("www.example.com", "h2", padding);
            let stream = in_records(&message, size);
            let Guess::Found(found) = look(&stream) else {
                return Err(TestCaseError::fail("not found"));
            };
            prop_assert_eq!(found.protocol, Protocol::Tls);
            prop_assert_eq!(found.name.as_str(), "www.example.com");
            prop_assert_eq!(found.alpn.as_str(), "h2");
            let cut = cut.min(stream.len() - 1);
            match look(&stream[..cut]) {
                Guess::More(Some(part)) => prop_assert!(part.name.is_empty() || part.name == found.name),
                guess => prop_assert!(false, "{:?}", guess),
            }
        }

        #[test]
        fn any_stream_is_taken(stream in prop::collection::vec(any::<u8>(), 0..200), start in 0usize..60) {
            look(&stream);
            let hello = in_records(&client_hello("a.b", "h2", 0), 1000);
            let start = start.min(hello.len());
            look(&[&hello[..start], &stream].concat());
        }
    }

    #[test]
    fn a_wrong_name_is_none() {
        let message = client_hello("no name", "h2", 0);
        let Guess::Found(found) = look(&in_records(&message, 1000)) else {
            panic!("not found");
        };
        assert!(found.name.is_empty());
        assert!(matches!(look(&[22, 3, 3, 0, 4, 2, 0, 0, 0]), Guess::None));
        assert!(matches!(look(b"\x16\x03\x09"), Guess::None));
    }
}
