//! Reading text from its front.

/// What is left of a text.
pub struct Scan<'t>(&'t [u8]);

impl<'t> Scan<'t> {
    pub fn new(text: &'t [u8]) -> Scan<'t> {
        Scan(text)
    }

    /// The next byte.
    pub fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Whether the next byte is a digit.
    pub fn is_at_digit(&self) -> bool {
        self.peek().is_some_and(|byte| byte.is_ascii_digit())
    }

    /// Takes the next byte.
    pub fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Takes `word` if it is next; says whether it was.
    pub fn eat(&mut self, word: &[u8]) -> bool {
        match self.0.strip_prefix(word) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// As [`eat`](Self::eat), if a digit follows.
    pub fn eat_before_digit(&mut self, word: &[u8]) -> bool {
        let before = self.0;
        if self.eat(word) && self.is_at_digit() {
            return true;
        }
        self.0 = before;
        false
    }

    /// Takes a number in a base, 0 being C's prefixes. Too large ones become the largest.
    pub fn number(&mut self, base: u32) -> Option<u32> {
        let base = match (base, self.0) {
            (0, [b'0', b'x' | b'X', digit, ..]) if digit.is_ascii_hexdigit() => {
                self.0 = &self.0[2..];
                16
            }
            (0, [b'0', ..]) => 8,
            (0, _) => 10,
            (base, _) => base,
        };
        let mut value = None;
        while let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(base)) {
            let next = value.unwrap_or(0u32).saturating_mul(base);
            value = Some(next.saturating_add(digit));
            self.0 = &self.0[1..];
        }
        value
    }

    /// Takes a number of one byte.
    pub fn byte(&mut self, base: u32) -> Option<u8> {
        self.number(base)?.try_into().ok()
    }

    /// Takes an IPv4 address.
    pub fn address(&mut self) -> Option<[u8; 4]> {
        let first = self.byte(10)?;
        let mut address = [first, 0, 0, 0];
        for byte in &mut address[1..] {
            if !self.eat(b".") {
                return None;
            }
            *byte = self.byte(10)?;
        }
        Some(address)
    }
}

impl Scan<'_> {
    /// Whether a number with a dot behind it is next.
    pub fn is_at_address(&self) -> bool {
        let mut ahead = Scan(self.0);
        ahead.number(0).is_some() && ahead.peek() == Some(b'.')
    }
}
