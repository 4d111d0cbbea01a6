//! Numbers written as text, several times as fast as by [`core::fmt`]: for elements that write a line for
//! each packet.

use core::net::Ipv4Addr;

use super::Timestamp;
use crate::prelude::*;

/// Text that numbers are written to.
pub trait Digits {
    /// Appends text.
    fn put(&mut self, text: &str);

    /// Appends a number in decimal.
    #[inline]
    fn put_decimal(&mut self, number: impl Into<u64>) {
        self.put(itoa::Buffer::new().format(number.into()));
    }

    /// Appends a number of at most `digits` digits, 18 or fewer, in decimal, with zeros in front up to so many.
    #[inline]
    fn put_padded(&mut self, number: u64, digits: u32) {
        // Of the digits of a larger number, all but the first.
        let larger = 10u64.pow(digits) + number;
        self.put(&itoa::Buffer::new().format(larger)[1..]);
    }

    /// Appends two hexadecimal digits in lower case.
    #[inline]
    fn put_hex(&mut self, byte: u8) {
        let at = 2 * usize::from(byte);
        self.put(&HEX[at..at + 2]);
    }

    /// Appends an address: four numbers with dots between.
    #[inline]
    fn put_address(&mut self, address: Ipv4Addr) {
        let [first, rest @ ..] = address.octets();
        self.put_decimal(first);
        for octet in rest {
            self.put(".");
            self.put_decimal(octet);
        }
    }

    /// Appends a time in seconds with six decimals, or nine where it takes them.
    #[inline]
    fn put_time(&mut self, time: Timestamp) {
        let nanos = time.0.unsigned_abs();
        if time.0 < 0 {
            self.put("-");
        }
        self.put_decimal(nanos / 1_000_000_000);
        self.put(".");
        match nanos % 1_000_000_000 {
            rest if rest.is_multiple_of(1000) => self.put_padded(rest / 1000, 6),
            rest => self.put_padded(rest, 9),
        }
    }
}

impl Digits for String {
    #[inline]
    fn put(&mut self, text: &str) {
        self.push_str(text);
    }
}

impl Digits for Vec<u8> {
    #[inline]
    fn put(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }
}

/// The two digits of every byte.
const HEX: &str = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    const TEXT: [u8; 512] = {
        let mut text = [0; 512];
        let mut byte = 0;
        while byte < 256 {
            text[2 * byte] = DIGITS[byte >> 4];
            text[2 * byte + 1] = DIGITS[byte & 15];
            byte += 1;
        }
        text
    };
    match core::str::from_utf8(&TEXT) {
        Ok(text) => text,
        Err(_) => unreachable!(),
    }
};

#[cfg(test)]
mod tests {
    use alloc::format;

    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn writes(write: impl Fn(&mut String), expected: String) {
        let mut text = String::from("x");
        write(&mut text);
        assert_eq!(text, format!("x{expected}"));
    }

    #[test]
    fn every_byte_has_its_two_digits() {
        for byte in 0..=u8::MAX {
            writes(|text| text.put_hex(byte), format!("{byte:02x}"));
        }
    }

    fn formatted(time: i64) -> String {
        let sign = if time < 0 { "-" } else { "" };
        let nanos = time.unsigned_abs();
        let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        match rest % 1000 {
            0 => format!("{sign}{seconds}.{:06}", rest / 1000),
            _ => format!("{sign}{seconds}.{rest:09}"),
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_formatting_writes(number: u64, bits in 0..64u32, time: i64, address: u32) {
            let number = number >> bits;
            writes(|text| text.put_decimal(number), number.to_string());
            let (small, nine) = (number % 1_000_000, number % 1_000_000_000);
            writes(|text| text.put_padded(small, 6), format!("{small:06}"));
            writes(|text| text.put_padded(nine, 9), format!("{nine:09}"));
            let address = Ipv4Addr::from_bits(address);
            writes(|text| text.put_address(address), address.to_string());
            for time in [time, time >> bits, (time >> bits) / 1000 * 1000] {
                writes(|text| text.put_time(Timestamp(time)), formatted(time));
            }
            let mut bytes = Vec::new();
            bytes.put_time(Timestamp(time));
            prop_assert_eq!(bytes, formatted(time).into_bytes());
        }
    }
}
