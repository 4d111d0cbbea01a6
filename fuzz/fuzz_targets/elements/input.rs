//! What is left of an input; beyond its end it is zeroes.

pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                *byte
            }
            None => 0,
        }
    }

    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// At most `len` bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// Bytes, their number first.
    pub fn string(&mut self) -> &'a [u8] {
        let len = self.byte();
        self.bytes(len as usize)
    }

    /// One of `0..of`; 0 if there is none.
    pub fn choose(&mut self, of: usize) -> usize {
        self.byte() as usize % of.max(1)
    }
}
