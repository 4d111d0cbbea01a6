//! Bodies (RFC 9112, sections 6 and 7): how far one goes in the bytes of a connection.

use super::head::{Framing, Unreadable};

/// Most bytes of a chunk's extensions, and of the fields after the last chunk.
const ASIDE_MAX: usize = 4096;
/// Most digits of a chunk's size.
const DIGITS_MAX: u32 = 15;

/// A body that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many bytes are left.
    Length(u64),
    /// It is in chunks.
    Chunked(Chunks),
    /// It ends with the connection.
    Close,
}

/// Where reading is in a body in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    place: Place,
    /// Bytes left of a chunk, or its size so far.
    left: u64,
    digits: u32,
    /// Bytes of extensions and trailing fields.
    aside: usize,
}

/// What is read next of a body in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Size,
    Extension,
    SizeEnd,
    Data,
    DataReturn,
    DataEnd,
    /// At the start of a line behind the last chunk.
    Trailer,
    TrailerField,
    TrailerFieldEnd,
    LastEnd,
    Done,
}

impl Body {
    /// A body of which nothing was read.
    pub fn new(framing: Framing) -> Body {
        match framing {
            Framing::Length(length) => Body::Length(length),
            Framing::Close => Body::Close,
            Framing::Chunked => Body::Chunked(Chunks {
                place: Place::Size,
                left: 0,
                digits: 0,
                aside: 0,
            }),
        }
    }

    /// Whether all was read; never if it ends with the connection.
    pub fn is_done(&self) -> bool {
        match self {
            Body::Length(left) => *left == 0,
            Body::Chunked(chunks) => chunks.place == Place::Done,
            Body::Close => false,
        }
    }

    /// Reads bytes, and passes those of the body on, at most `most`. Returns how many were read.
    pub fn read(
        &mut self,
        bytes: &[u8],
        most: usize,
        mut pass: impl FnMut(&[u8]),
    ) -> Result<usize, Unreadable> {
        match self {
            Body::Length(left) => {
                let count = (bytes.len() as u64).min(*left).min(most as u64);
                *left -= count;
                pass(&bytes[..count as usize]);
                Ok(count as usize)
            }
            Body::Close => {
                let count = bytes.len().min(most);
                pass(&bytes[..count]);
                Ok(count)
            }
            Body::Chunked(chunks) => chunks.read(bytes, most, pass),
        }
    }
}

impl Chunks {
    fn read(
        &mut self,
        bytes: &[u8],
        mut most: usize,
        mut pass: impl FnMut(&[u8]),
    ) -> Result<usize, Unreadable> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            self.place = match (self.place, byte) {
                (Place::Done, _) => break,
                (Place::Data, _) => {
                    let rest = &bytes[at..];
                    let count = (rest.len() as u64).min(self.left).min(most as u64);
                    if count == 0 {
                        break;
                    }
                    pass(&rest[..count as usize]);
                    self.left -= count;
                    most -= count as usize;
                    at += count as usize;
                    if self.left == 0 {
                        self.place = Place::DataReturn;
                    }
                    continue;
                }
                (Place::Size, byte) => match (byte, self.digits) {
                    (digit, 0..DIGITS_MAX) if digit.is_ascii_hexdigit() => {
                        let digit = (digit as char).to_digit(16).unwrap_or(0);
                        self.left = self.left << 4 | u64::from(digit);
                        self.digits += 1;
                        Place::Size
                    }
                    (b';', 1..) => Place::Extension,
                    (b'\r', 1..) => Place::SizeEnd,
                    _ => return Err(Unreadable),
                },
                (Place::Extension, b'\r') => Place::SizeEnd,
                (Place::Extension, byte) if byte != b'\n' => {
                    self.set_aside()?;
                    Place::Extension
                }
                (Place::SizeEnd, b'\n') => {
                    self.digits = 0;
                    match self.left {
                        0 => Place::Trailer,
                        _ => Place::Data,
                    }
                }
                (Place::DataReturn, b'\r') => Place::DataEnd,
                (Place::DataEnd, b'\n') => Place::Size,
                (Place::Trailer, b'\r') => Place::LastEnd,
                (Place::LastEnd, b'\n') => Place::Done,
                (Place::TrailerField, b'\r') => Place::TrailerFieldEnd,
                (Place::TrailerFieldEnd, b'\n') => Place::Trailer,
                (Place::Trailer | Place::TrailerField, byte) if byte != b'\n' => {
                    self.set_aside()?;
                    Place::TrailerField
                }
                _ => return Err(Unreadable),
            };
            at += 1;
        }
        Ok(at)
    }

    fn set_aside(&mut self) -> Result<(), Unreadable> {
        self.aside += 1;
        match self.aside > ASIDE_MAX {
            true => Err(Unreadable),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    /// What is read of a text in pieces of a size: the body, and how much of the text.
    fn read(text: &[u8], piece: usize, most: usize) -> Result<(Vec<u8>, usize), Unreadable> {
        let mut body = Body::new(Framing::Chunked);
        let (mut out, mut at) = (Vec::new(), 0);
        while at < text.len() && !body.is_done() {
            let end = (at + piece).min(text.len());
            at += body.read(&text[at..end], most, |part| out.extend(part))?;
        }
        assert!(body.is_done(), "not whole");
        Ok((out, at))
    }

    #[test]
    fn chunks_are_put_together() {
        let text = b"5\r\nhello\r\n00A;name=\"x\"\r\n, and more\r\n0\r\nExpires: 0\r\n\r\nrest";
        for piece in 1..text.len() {
            let (body, size) = read(text, piece, 3).unwrap();
            assert_eq!(body, b"hello, and more");
            assert_eq!(&text[size..], b"rest");
        }
        for wrong in [
            &b"\r\n"[..],
            b"5 \r\nhello\r\n0\r\n\r\n",
            b"5\nhello\r\n",
            b"x\r\n",
            b"-1\r\n",
            b"0x5\r\nhello\r\n",
            b"5\r\nhello0\r\n",
            b"1000000000000000\r\n",
            b"0\r\nX: y\n\r\n",
        ] {
            assert_eq!(
                read(wrong, 100, 100),
                Err(Unreadable),
                "{}",
                wrong.escape_ascii()
            );
        }
        let long = std::format!("5;{}\r\nhello", "x".repeat(ASIDE_MAX + 1));
        assert_eq!(read(long.as_bytes(), 100, 100), Err(Unreadable));
    }

    proptest! {
        #[test]
        fn any_chunks_are_read(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..8),
            piece in 1usize..40,
            most in 1usize..40,
            noise in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut text = Vec::new();
            for chunk in &chunks {
                text.extend(std::format!("{:x}\r\n", chunk.len()).bytes());
                text.extend(chunk);
                text.extend(b"\r\n");
            }
            text.extend(b"0\r\n\r\n");
            let (body, size) = read(&text, piece, most).unwrap();
            prop_assert_eq!(body, chunks.concat());
            prop_assert_eq!(size, text.len());
            let mut body = Body::new(Framing::Chunked);
            let mut passed = 0;
            if let Ok(count) = body.read(&noise, usize::MAX, |part| passed += part.len()) {
                prop_assert!(passed <= count && count <= noise.len());
            }
        }
    }
}
