//! Messages of the control channel, over the byte rings of [`crate::control`].
//!
//! A message is a 16-byte header, laid out as in `xs_wire.h`, and up to 4096 bytes of payload. Longer contents
//! take several messages, with [`MORE`] set in all but the last. An answer carries its request's kind and
//! number.

use crate::bytes::{Consumer, Corrupt, Producer};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;
/// Longest payload of one message, in bytes.
pub const PAYLOAD_MAX: usize = 4096;
/// Longest contents over several messages, in bytes: a configuration fits.
pub const CONTENTS_MAX: usize = crate::boot::CONFIG_MAX;
/// Set in [`Header::status`] when the contents go on in the next message.
pub const MORE: u32 = 1 << 31;

/// Kinds of requests. In a header the kind is a plain number: the other side may know other kinds.
pub mod kind {
    /// Read a handler. Contents: `element.handler`, then a space and arguments if any. Answer: its value.
    pub const READ: u32 = 1;
    /// Write a handler. Contents: `element.handler`, a space, the value. Answer: the handler's.
    pub const WRITE: u32 = 2;
    /// List elements and their handlers. Contents: an element's name, or nothing for all elements.
    pub const LIST: u32 = 3;
    /// Replace the configuration; elements keep their state. Contents: the new text.
    pub const HOTSWAP: u32 = 4;
    /// End cleanly. Contents: none. The answer comes before the end.
    pub const STOP: u32 = 5;
    /// Answer with the same contents.
    pub const PING: u32 = 6;
    /// Stand still until the next request ([`State::Suspended`](crate::control::State)). Contents: none. The answer
    /// comes before.
    pub const SUSPEND: u32 = 7;
    /// Go on. Contents: none.
    pub const RESUME: u32 = 8;
}

/// Results of requests. The contents of an answer other than [`OK`](status::OK) are a sentence.
pub mod status {
    /// Done.
    pub const OK: u32 = 0;
    /// No such element.
    pub const NO_ELEMENT: u32 = 1;
    /// No such handler.
    pub const NO_HANDLER: u32 = 2;
    /// The handler can't be read, or can't be written.
    pub const NOT_PERMITTED: u32 = 3;
    /// The handler or the configuration refused.
    pub const FAILED: u32 = 4;
    /// The kind of request is not known.
    pub const UNKNOWN: u32 = 5;
    /// The contents are longer than [`CONTENTS_MAX`](super::CONTENTS_MAX) or memory allows.
    pub const TOO_LONG: u32 = 6;
}

/// Header of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// See [`kind`].
    pub kind: u32,
    /// Number of the request, the requester's choice.
    pub request: u32,
    /// See [`status`]; may carry [`MORE`].
    pub status: u32,
    /// Bytes of payload.
    pub length: u32,
}

impl Header {
    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let words = [self.kind, self.request, self.status, self.length];
        for (at, word) in bytes.chunks_exact_mut(4).zip(words) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Self {
        let word =
            |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        Self {
            kind: word(0),
            request: word(4),
            status: word(8),
            length: word(12),
        }
    }

    /// Whether the contents go on in the next message.
    pub fn more(&self) -> bool {
        self.status & MORE != 0
    }
}

/// An invalid message or cursor. The channel is unusable from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelError {
    /// The ring's cursor is invalid.
    Ring(Corrupt),
    /// A header announces more than [`PAYLOAD_MAX`] bytes.
    Length(u32),
}

impl From<Corrupt> for ChannelError {
    fn from(corrupt: Corrupt) -> Self {
        Self::Ring(corrupt)
    }
}

impl core::fmt::Display for ChannelError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Ring(corrupt) => corrupt.fmt(f),
            Self::Length(n) => {
                write!(
                    f,
                    "a control message announces {n} bytes, and the maximum is {PAYLOAD_MAX}"
                )
            }
        }
    }
}

impl core::error::Error for ChannelError {}

/// Consumes the next message, if it is complete. Its payload is copied to the front of `payload`.
pub fn receive(
    ring: &mut Consumer<'_>,
    payload: &mut [u8; PAYLOAD_MAX],
) -> Result<Option<Header>, ChannelError> {
    let mut bytes = [0; HEADER_BYTES];
    if !ring.peek(0, &mut bytes)? {
        return Ok(None);
    }
    let header = Header::from_bytes(bytes);
    let length = header.length as usize;
    let Some(into) = payload.get_mut(..length) else {
        return Err(ChannelError::Length(header.length));
    };
    if !ring.peek(HEADER_BYTES, into)? {
        return Ok(None);
    }
    ring.skip(HEADER_BYTES + length);
    Ok(Some(header))
}

/// Contents on their way out, message by message, as the ring has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    kind: u32,
    request: u32,
    status: u32,
    sent: usize,
    done: bool,
}

impl Outgoing {
    /// Contents to be sent with this kind, number and status.
    pub fn new(kind: u32, request: u32, status: u32) -> Self {
        Self {
            kind,
            request,
            status: status & !MORE,
            sent: 0,
            done: false,
        }
    }

    /// Sends as much of `contents` as fits; every call passes the same. `true` when all is sent.
    pub fn send(&mut self, ring: &mut Producer<'_>, contents: &[u8]) -> Result<bool, Corrupt> {
        while !self.done {
            let rest = &contents[self.sent.min(contents.len())..];
            let part = &rest[..rest.len().min(PAYLOAD_MAX)];
            let last = part.len() == rest.len();
            let header = Header {
                kind: self.kind,
                request: self.request,
                status: self.status | if last { 0 } else { MORE },
                length: part.len() as u32,
            };
            if !ring.write_whole(&[&header.to_bytes(), part])? {
                return Ok(false);
            }
            self.sent += part.len();
            self.done = last;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::bytes::{ByteRing, Cursors};
    use core::ptr::NonNull;
    use proptest::prelude::*;
    use std::vec::Vec;
    use std::{format, vec};

    fn ring<'a>(cursors: &'a Cursors, bytes: &'a mut [u8]) -> ByteRing<'a> {
        // SAFETY: the slice is borrowed for the ring's life.
        unsafe {
            ByteRing::new(
                cursors,
                NonNull::new(bytes.as_mut_ptr()).unwrap(),
                bytes.len(),
            )
        }
    }

    #[test]
    fn long_contents_cross_in_parts() {
        let cursors = Cursors::default();
        let mut bytes = vec![0; 8192];
        let ring = ring(&cursors, &mut bytes);
        let (mut writer, mut reader) = (ring.producer(), ring.consumer());
        let contents: Vec<u8> = (0..20_000u32).map(|n| n as u8).collect();
        let mut outgoing = Outgoing::new(kind::READ, 7, status::OK);
        let mut got = Vec::new();
        let mut payload = [0; PAYLOAD_MAX];
        loop {
            let sent = outgoing.send(&mut writer, &contents).unwrap();
            while let Some(header) = receive(&mut reader, &mut payload).unwrap() {
                assert_eq!((header.kind, header.request), (kind::READ, 7));
                got.extend_from_slice(&payload[..header.length as usize]);
                assert_eq!(header.more(), got.len() < contents.len());
            }
            if sent {
                break;
            }
        }
        assert_eq!(got, contents);
    }

    #[test]
    fn empty_contents_are_one_message() {
        let cursors = Cursors::default();
        let mut bytes = vec![0; 8192];
        let ring = ring(&cursors, &mut bytes);
        let mut writer = ring.producer();
        assert!(
            Outgoing::new(kind::STOP, 1, 0)
                .send(&mut writer, b"")
                .unwrap()
        );
        let header = receive(&mut ring.consumer(), &mut [0; PAYLOAD_MAX])
            .unwrap()
            .unwrap();
        assert_eq!(
            header,
            Header {
                kind: kind::STOP,
                request: 1,
                status: 0,
                length: 0
            }
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_break_the_receiver(junk in prop::collection::vec(any::<u8>(), 0..8192)) {
            let cursors = Cursors::default();
            let mut bytes = vec![0; 8192];
            let ring = ring(&cursors, &mut bytes);
            ring.producer().write_lossy(&junk).unwrap();
            let mut reader = ring.consumer();
            let mut payload = [0; PAYLOAD_MAX];
            while let Ok(Some(header)) = receive(&mut reader, &mut payload) {
                prop_assert!(header.length as usize <= PAYLOAD_MAX);
            }
        }
    }

    #[test]
    fn an_announced_length_is_bounded() {
        let cursors = Cursors::default();
        let mut bytes = vec![0; 8192];
        let ring = ring(&cursors, &mut bytes);
        let header = Header {
            length: 4097,
            ..Header::default()
        };
        ring.producer().write_lossy(&header.to_bytes()).unwrap();
        let error = receive(&mut ring.consumer(), &mut [0; PAYLOAD_MAX]).unwrap_err();
        assert_eq!(error, ChannelError::Length(4097));
        assert!(format!("{error}").contains("4097"));
    }
}
