//! TCP options (RFC 9293, section 3.2; IANA, "TCP Option Kind Numbers").

use crate::wire::WireError;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Padding between options: kind 1.
    NoOperation,
    /// The largest segment that the sender of a SYN can receive: kind 2 (RFC 9293, section 3.7.1).
    MaximumSegmentSize(u16),
    /// By how many bits to shift windows to the left: kind 3 (RFC 7323, section 2).
    WindowScale(u8),
    /// The sender of a SYN understands SACK: kind 4 (RFC 2018, section 2).
    SackPermitted,
    /// Blocks received out of order, 8 bytes each, first and past-the-last sequence number: kind 5
    /// (RFC 2018, section 3).
    Sack(&'a [u8]),
    /// Timestamps: kind 8 (RFC 7323, section 3).
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The last value from the other side.
        echo: u32,
    },
    /// Any other kind, or one of the above with a length not its own.
    Other {
        /// Which.
        kind: u8,
        /// The data behind kind and length.
        data: &'a [u8],
    },
}

impl<'a> TcpOption<'a> {
    #[inline]
    fn parse(kind: u8, data: &'a [u8]) -> Self {
        match (kind, data) {
            (2, &[a, b]) => TcpOption::MaximumSegmentSize(u16::from_be_bytes([a, b])),
            (3, &[shift]) => TcpOption::WindowScale(shift),
            (4, []) => TcpOption::SackPermitted,
            (5, blocks) if blocks.len() % 8 == 0 => TcpOption::Sack(blocks),
            (8, &[a, b, c, d, e, f, g, h]) => TcpOption::Timestamps {
                value: u32::from_be_bytes([a, b, c, d]),
                echo: u32::from_be_bytes([e, f, g, h]),
            },
            _ => TcpOption::Other { kind, data },
        }
    }
}

/// The options of a segment, one by one, up to the end-of-list option, which is not returned itself.
///
/// Items are errors, [`WireError::OptionLength`] with the option's place in the header, for an
/// option with a length below 2 or past the end of the header; no more follow then.
#[derive(Clone, Debug)]
pub struct TcpOptions<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> TcpOptions<'a> {
    /// The options in `options`, the bytes between the fixed header and the data.
    #[inline]
    pub fn new(options: &'a [u8]) -> Self {
        TcpOptions {
            rest: options,
            at: 20,
        }
    }

    /// Where the next option starts, in bytes from the start of the TCP header.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    fn fail(&mut self) -> Option<<Self as Iterator>::Item> {
        self.rest = &[];
        let at = self.at as u16;
        Some(Err(WireError::OptionLength { at }))
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = Result<TcpOption<'a>, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (&kind, behind) = self.rest.split_first()?;
        if kind == 0 {
            self.rest = &[];
            return None;
        }
        if kind == 1 {
            self.rest = behind;
            self.at += 1;
            return Some(Ok(TcpOption::NoOperation));
        }
        let length = behind.first().map_or(0, |&length| usize::from(length));
        let Some((option, rest)) = self.rest.split_at_checked(length) else {
            return self.fail();
        };
        let Some(data) = option.get(2..) else {
            return self.fail();
        };
        self.rest = rest;
        self.at += length;
        Some(Ok(TcpOption::parse(kind, data)))
    }
}

impl core::iter::FusedIterator for TcpOptions<'_> {}
