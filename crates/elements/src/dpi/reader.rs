//! Reading fields one after another.

/// Bytes that are yet to be read.
#[derive(Clone, Copy)]
pub struct Reader<'b>(pub &'b [u8]);

impl<'b> Reader<'b> {
    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'b [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    /// A number of `count` bytes, 8 at most, the highest first.
    pub fn number(&mut self, count: usize) -> Option<u64> {
        let bytes = self.bytes(count)?.iter();
        Some(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Bytes whose number stands before them, in `count` bytes.
    pub fn counted(&mut self, count: usize) -> Option<&'b [u8]> {
        let length = self.number(count)?;
        self.bytes(usize::try_from(length).ok()?)
    }

    /// The same, or as many as there are.
    pub fn counted_part(&mut self, count: usize) -> Option<&'b [u8]> {
        let length = usize::try_from(self.number(count)?).ok()?;
        self.bytes(length.min(self.0.len()))
    }

    /// A number of QUIC: 1, 2, 4 or 8 bytes (RFC 9000, section 16).
    pub fn varint(&mut self) -> Option<u64> {
        let count = 1usize << (self.0.first()? >> 6);
        Some(self.number(count)? & (u64::MAX >> (66 - 8 * count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_quic_are_read() {
        // RFC 9000, section A.1.
        for (bytes, number) in [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..],
                Some(151_288_809_941_952_652),
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], Some(494_878_333)),
            (&[0x7b, 0xbd], Some(15_293)),
            (&[0x25], Some(37)),
            (&[0x40, 0x25], Some(37)),
            (&[0x7b], None),
            (&[], None),
        ] {
            assert_eq!(Reader(bytes).varint(), number);
        }
    }
}
